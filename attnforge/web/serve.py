"""Start the explorer: on loopback, at a port, until it is interrupted."""

from __future__ import annotations

import asyncio
import socket
import webbrowser
from collections.abc import Callable

from attnforge.errors import DomainError
from attnforge.web.extra import needed

HOST = "127.0.0.1"
STOPPING = 2  # seconds that open answers get when the server is stopped


def listening(port: int) -> socket.socket:
    """A socket on loopback at this port; 0 takes any that is free."""
    if not 0 <= port <= 65535:
        raise DomainError("`port` must be between 0 and 65535", f"{port}", "Use 0 for any that is free")
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((HOST, port))
    except OSError as error:
        found.close()
        raise DomainError(f"The port {port} must be free", str(error), "Name another, or 0 for any that is") from error
    return found


def address_of(bound: socket.socket) -> str:
    """Where a browser finds it."""
    return f"http://{HOST}:{bound.getsockname()[1]}/"


def serve(bound: socket.socket, *, browser: bool = True, started: Callable[[str], None] = lambda address: None) -> None:
    """Answer until interrupted; ``started`` is told the address once it answers."""
    with needed():
        import uvicorn

        from attnforge.web.app import make_app
    address = address_of(bound)

    async def run() -> None:
        config = uvicorn.Config(
            make_app(bound.getsockname()[1]),
            log_level="warning",
            server_header=False,
            timeout_graceful_shutdown=STOPPING,
        )
        server = uvicorn.Server(config)
        answering = asyncio.create_task(server.serve([bound]))
        while not (server.started or answering.done()):
            await asyncio.sleep(0.01)
        if server.started:
            started(address)
            if browser:
                await asyncio.to_thread(webbrowser.open, address)
        await answering

    asyncio.run(run())

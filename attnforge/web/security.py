"""Who may ask, and what a browser may do with the answer.

The server listens on loopback, but every page that a browser has open can send requests there. So the Host must name
this machine (a foreign name that resolves to loopback is DNS rebinding), the Origin must be the page itself, requests
that change or compute something are JSON, which no foreign page can send without asking first, and nothing is answered
that asks. Bodies are cut off at a limit.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from attnforge.web.limits import BODY

NAMES = ("127.0.0.1", "localhost", "[::1]")

# No outside request: scripts, pictures and data come from here alone. Plots set styles of their elements, and make
# pictures for downloads out of data.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", POLICY.encode("ascii")),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
)


class Guard:
    """ASGI middleware: refuses what does not come from the page, and adds the headers to every answer."""

    def __init__(self, app: Any, port: int) -> None:
        self.app = app
        self.hosts = {f"{name}:{port}" for name in NAMES} | (set(NAMES) if port == 80 else set())

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Check, then pass on."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return

        async def guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *HEADERS]}
            await send(message)

        wrong = self._problem(scope["method"], list(scope["headers"]))
        if wrong is not None:
            await refuse(guarded, *wrong)
            return
        await self.app(scope, _Limited(receive, guarded).receive, guarded)

    def _problem(self, method: str, headers: Iterable[tuple[bytes, bytes]]) -> tuple[int, str] | None:
        """Status and reason of a refusal; None where there is none."""
        found: dict[str, list[str]] = {}
        for name, value in headers:
            found.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
        hosts = found.get("host", [])
        if len(hosts) != 1 or hosts[0].lower() not in self.hosts:
            return 421, "This server answers to localhost alone"
        if any(origin.lower() != f"http://{hosts[0].lower()}" for origin in found.get("origin", [])):
            return 403, "Requests of other sites are refused"
        if any(site not in ("same-origin", "none") for site in found.get("sec-fetch-site", [])):
            return 403, "Requests of other sites are refused"
        if method not in ("GET", "HEAD", "POST"):
            return 405, "GET and POST are what this server takes"
        kinds = [kind.partition(";")[0].strip().lower() for kind in found.get("content-type", [])]
        if method == "POST" and kinds != ["application/json"]:
            return 415, "Requests are JSON"
        lengths = found.get("content-length", [])
        if any(not length.isdigit() or int(length) > BODY for length in lengths):
            return 413, f"A request has at most {BODY:,} bytes"
        return None


class _Limited:
    """What a request sends, cut off where it is too long: whoever reads on is told that it has left."""

    def __init__(self, receive: Any, send: Any) -> None:
        self._receive, self._send, self._size = receive, send, 0

    async def receive(self) -> Any:
        message = await self._receive()
        self._size += len(message.get("body", b""))
        return {"type": "http.disconnect"} if self._size > BODY else message


async def refuse(send: Any, status: int, message: str) -> None:
    """An error as JSON."""
    body = json.dumps({"error": {"kind": "request", "message": f"{message}.", "column": None}}).encode("ascii")
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode("ascii"))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

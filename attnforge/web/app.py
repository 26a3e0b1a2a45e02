"""The application: a page, its files, and one address a job."""

from __future__ import annotations

import asyncio
import json
import mimetypes
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.middleware.gzip import GZipMiddleware
from fastapi.responses import FileResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from pydantic import ValidationError
from starlette.requests import ClientDisconnect

from attnforge.web.index import INDEX, Entry
from attnforge.web.limits import SENDING
from attnforge.web.security import Guard
from attnforge.web.workers import BusyError, Message, Workers

STATIC = Path(__file__).resolve().parent / "static"
mimetypes.add_type("text/javascript", ".js")  # some systems call it plain text, which browsers do not run


def make_app(port: int, workers: Workers | None = None) -> Any:
    """The explorer as an ASGI application that answers to loopback names at this port."""
    pool = Workers() if workers is None else workers

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with pool.running():
            yield

    app = FastAPI(lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    app.mount("/static", GZipMiddleware(StaticFiles(directory=STATIC)))

    @app.get("/")
    async def page() -> FileResponse:
        return FileResponse(STATIC / "index.html", headers={"cache-control": "no-cache"})

    @app.get("/favicon.ico")
    async def favicon() -> FileResponse:
        return FileResponse(STATIC / "favicon.svg", media_type="image/svg+xml")

    @app.post("/api/{name}")
    async def job(name: str, request: Request) -> Response:
        entry = INDEX.get(name)
        if entry is None:
            return _refused(404, f"There is no job of this name; there are {', '.join(INDEX)}.")
        try:
            async with asyncio.timeout(SENDING):
                body = await request.body()
            asked = entry.request.model_validate_json(body)
        except TimeoutError:
            return _refused(408, f"A request is sent within {SENDING:g} seconds.")
        except ValidationError as error:
            return _refused(422, _first(error))
        except ClientDisconnect:
            return _refused(413, "The request ended early, or is too long.")
        return Answer(pool, name, entry, asked.model_dump_json())

    return Guard(app, port)


class Answer(Response):
    """The messages of a job as lines of JSON. A reader who leaves ends the job."""

    media_type = "application/x-ndjson"

    def __init__(self, pool: Workers, name: str, entry: Entry, request: str) -> None:
        super().__init__(headers={"cache-control": "no-store"})
        del self.headers["content-length"]
        self.pool, self.job = pool, (name, request, entry.seconds, entry.is_long)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Send line after line, until the last one or until nobody reads."""
        answer, left = asyncio.create_task(self._send(send)), asyncio.create_task(_departure(receive))
        try:
            await asyncio.wait({answer, left}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (answer, left):
                task.cancel()
            with suppress(asyncio.CancelledError):
                await left
            with suppress(asyncio.CancelledError):
                await answer

    async def _send(self, send: Any) -> None:
        headers = self.raw_headers
        try:
            async with aclosing(self.pool.run(*self.job)) as messages:
                await send({"type": "http.response.start", "status": 200, "headers": headers})
                async for message in messages:
                    await send({"type": "http.response.body", "body": _line(message), "more_body": True})
        except BusyError:
            await send({"type": "http.response.body", "body": _line(BUSY), "more_body": True})
        await send({"type": "http.response.body", "body": b""})


BUSY: Message = {"error": {"kind": "busy", "message": "Too many requests wait. Try again in a while.", "column": None}}


async def _departure(receive: Any) -> None:
    """Wait until the reader has left."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _line(message: Message) -> bytes:
    return json.dumps(message).encode("ascii") + b"\n"


def _refused(status: int, message: str) -> JSONResponse:
    return JSONResponse({"error": {"kind": "request", "message": message, "column": None}}, status)


def _first(error: ValidationError) -> str:
    """The first thing that is wrong with a request, in words."""
    found = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(part) for part in found["loc"] if isinstance(part, int) or part.isidentifier())
    text = found["msg"].removeprefix("Value error, ")
    return f"{where}: {text}." if where else f"{text}."

"""Processes that compute, and that can be ended: a request that takes too long, or whose reader left, costs no other.

Requests and answers are lines of JSON on a pair of sockets.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import json
import os
import socket
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from attnforge.web.limits import TASKS, WAITING
from attnforge.web.nursery import Nursery

LINE = 2**26  # bytes of the longest answer
ATTEMPTS = 3  # at starting a process

Message = dict[str, Any]


class BusyError(Exception):
    """More requests wait than the server holds."""


class Worker:
    """A process, by its number, and the connection to it."""

    def __init__(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.number, self.reader, self.writer, self.tasks = number, reader, writer, 0

    async def messages(self, job: str, request: str) -> AsyncIterator[Message]:
        """What the process says until the job is done; the last message has a result or an error."""
        self.tasks += 1
        self.writer.write(json.dumps({"job": job, "request": request}).encode("ascii") + b"\n")
        while True:
            line = await self.reader.readline()
            if not line:
                self.tasks = TASKS  # it has ended
                yield _error("limit", "The process that computed this ended early. Ask for less, or try again.")
                return
            message: Message = json.loads(line)
            yield message
            if "progress" not in message:
                return


class Workers:
    """So many processes, and who waits for one. Long jobs wait behind others, and leave one process to them."""

    def __init__(self, count: int | None = None) -> None:
        self.count = (os.cpu_count() or 1) + 1 if count is None else count
        self._nursery: Nursery | None = None
        self._is_ending = False
        self._ordering = asyncio.Lock()
        self._idle: list[Worker] = []
        self._waiting: list[tuple[bool, int, asyncio.Future[Worker]]] = []
        self._order = itertools.count()
        self._long = asyncio.Semaphore(max(1, self.count - 1))
        self._changing: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Workers]:
        """The processes, until the end of the block; they start by themselves while others go on."""
        self._nursery = Nursery()
        for _ in range(self.count):
            self._soon(self._add())
        try:
            yield self
        finally:
            self._is_ending = True
            await asyncio.to_thread(self._running.close)
            await asyncio.gather(*self._changing, return_exceptions=True)

    async def run(self, job: str, request: str, seconds: float, is_long: bool) -> AsyncGenerator[Message, None]:
        """The messages of a job. Whoever stops reading ends it, and so does the clock.

        The last message, which may be long, is handed on when the process is free: a slow reader holds none.
        """
        if len(self._waiting) >= WAITING:
            raise BusyError
        last: Message = {}
        async with self._long if is_long else _open():
            worker = await self._taken(is_long)
            finished = False
            try:
                async with asyncio.timeout(seconds):
                    async for message in worker.messages(job, request):
                        finished = "progress" not in message
                        if finished:
                            last = message
                        else:
                            yield message
            except TimeoutError:
                text = f"This takes longer than the {seconds:g} seconds that a request may. Ask for less."
                last = _error("limit", text)
            finally:
                self._returned(worker, finished)
        yield last

    async def _taken(self, is_long: bool) -> Worker:
        """An idle process, once there is one."""
        future: asyncio.Future[Worker] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (is_long, next(self._order), future))
        self._share_out()
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self._returned(future.result(), True)
            raise

    def _returned(self, worker: Worker, finished: bool) -> None:
        """Hand it to the next; one that is unfinished, or has done much, makes room for a fresh one."""
        if finished and worker.tasks < TASKS:
            self._idle.append(worker)
            self._share_out()
        else:
            self._soon(self._replace(worker))

    def _share_out(self) -> None:
        while self._idle and self._waiting:
            _, _, future = heapq.heappop(self._waiting)
            if not future.done():
                future.set_result(self._idle.pop())

    def _soon(self, change: Any) -> None:
        task = asyncio.create_task(change)
        self._changing.add(task)
        task.add_done_callback(self._changing.discard)

    async def _replace(self, worker: Worker) -> None:
        async with self._ordering:
            with suppress(OSError):  # then it has ended with the one that started it
                await asyncio.to_thread(self._running.kill, worker.number)
        worker.writer.close()  # not before: it would find nobody to tell how far it is, and complain
        await self._add()

    async def _add(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            number = await self._forked(theirs)
        if number is None:
            ours.close()
            return
        self._idle.append(Worker(number, *await asyncio.open_connection(sock=ours, limit=LINE)))
        self._share_out()

    async def _forked(self, connection: socket.socket) -> int | None:
        """The number of a new process; None where all are to end. A nursery that has died is replaced."""
        async with self._ordering:
            for _ in range(ATTEMPTS):
                try:
                    return await asyncio.to_thread(self._running.fork, connection)
                except OSError:
                    if self._is_ending:
                        return None
                    self._nursery = Nursery()
        raise OSError(f"no process could be started in {ATTEMPTS} attempts")

    @property
    def _running(self) -> Nursery:
        assert self._nursery is not None, "processes run inside of `running`"
        return self._nursery


@asynccontextmanager
async def _open() -> AsyncIterator[None]:
    """Nothing to wait for."""
    yield


def _error(kind: str, message: str) -> Message:
    return {"error": {"kind": kind, "message": message, "column": None}}

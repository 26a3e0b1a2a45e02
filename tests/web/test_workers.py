"""Processes: ended when time is up or nobody reads, replaced, and quick work before long work."""

import asyncio
import json
import math
from contextlib import aclosing

from attnforge.web.workers import Workers

QUICK = json.dumps({"function": "x", "domain": {"x": [0, 1]}, "p": 3})
SLOW = json.dumps({"function": "sin(8*x)", "domain": {"x": [-1, 1]}, "p": 512})


NEVER = math.inf  # seconds
AT_ONCE = 1e-9


async def last(
    workers: Workers,
    job: str,
    request: str,
    seconds: float = NEVER,
    is_long: bool = False,
    begun: asyncio.Event | None = None,
) -> dict:
    found: dict = {}
    async with aclosing(workers.run(job, request, seconds, is_long)) as messages:
        async for message in messages:
            found = message
            if begun is not None:
                begun.set()
    return found


async def story() -> None:
    async with Workers(2).running() as workers:
        assert "result" in await last(workers, "line", QUICK)
        # Time is up: the process is ended, and another one serves.
        assert "longer" in (await last(workers, "temperature", SLOW, AT_ONCE, True))["error"]["message"]
        assert "result" in await last(workers, "line", QUICK)
        # A reader leaves in the middle of a job.
        begun = asyncio.Event()
        job = asyncio.create_task(last(workers, "temperature", SLOW, NEVER, True, begun))
        await begun.wait()
        job.cancel()
        await asyncio.wait({job})
        assert job.cancelled()
        # A reader leaves while it waits; nothing is lost.
        waiting = [asyncio.create_task(last(workers, "line", QUICK)) for _ in range(6)]
        await asyncio.sleep(0)
        waiting[-1].cancel()
        found = await asyncio.gather(*waiting, return_exceptions=True)
        assert all("result" in each for each in found[:-1])
        # Long work leaves a process to quick work.
        begun = asyncio.Event()
        long = [asyncio.create_task(last(workers, "temperature", SLOW, NEVER, True, begun)) for _ in range(3)]
        await begun.wait()
        assert "result" in await last(workers, "line", QUICK)
        assert not any(each.done() for each in long)
        for each in long:
            each.cancel()
        await asyncio.wait(long)
        assert "result" in await last(workers, "line", QUICK)


async def slow_reader() -> None:
    async with Workers(1).running() as workers, aclosing(workers.run("line", QUICK, NEVER, False)) as messages:
        async for message in messages:
            if "result" in message:  # and before it is read to its end, others are served
                assert "result" in await last(workers, "line", QUICK)


def test_a_slow_reader_holds_no_process() -> None:
    asyncio.run(slow_reader())


def test_processes_are_ended_replaced_and_shared() -> None:
    asyncio.run(story())

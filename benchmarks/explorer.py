"""The explorer under load: fifty clients that each change something every five seconds, and ten thousand odd requests.

    python benchmarks/explorer.py            writes benchmarks/results/explorer.md
    python benchmarks/explorer.py --quick    ten clients for ten seconds, 300 odd requests; prints, writes nothing

A change is what the page does: it asks for the picture, and then for the certificate. Times are those of whoever waits,
on loopback; memory is that of the server and its processes together, the pages they share counted once (PSS).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from attnforge.web.index import INDEX

RESULTS = Path(__file__).resolve().parent / "results/explorer.md"
ANCHORS = 128
EVERY = 5.0  # seconds between two changes of a client
CONSTRUCTIONS = (("max_affine", "hard"), ("max_affine", "tuned"), ("tensor_grid", 0.5))
SIZES, REPEATS = (33, 128, 512), 7


@asynccontextmanager
async def explorer() -> AsyncIterator[tuple[str, int, str]]:
    """Address and process of a running explorer, and how it started."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "attnforge", "explore", "--port", "0", "--no-browser", "--json"]
    server = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert server.stdout is not None
    told = b""
    while not told.endswith(b"}\n"):
        told += await server.stdout.readline()
    address = json.loads(told)["address"]
    try:
        yield address, server.pid, await started(address, server.pid, began)
    finally:
        server.terminate()
        await server.wait()


async def started(address: str, pid: int, began: float) -> str:
    """When the page was there, and when its first picture, in words."""
    async with httpx.AsyncClient(base_url=address, timeout=120) as client:
        (await client.get("")).raise_for_status()
        page = time.perf_counter() - began
        await answer(client, "line", change(random.Random(0)))  # until the first process is there
    picture = time.perf_counter() - began
    computing = f"{processor(pid):.1f} s of computing"
    return f"The page is there {page:.1f} s after the command, the first picture after {picture:.1f} s ({computing})."


async def answer(client: httpx.AsyncClient, job: str, request: Any) -> tuple[float, dict[str, Any]]:
    """Seconds until the last line, and that line."""
    started = time.perf_counter()
    found = await client.post(f"api/{job}", json=request)
    found.raise_for_status()
    return time.perf_counter() - started, json.loads(found.content.splitlines()[-1])


def change(rng: random.Random) -> dict[str, Any]:
    """A function, a temperature and a construction that nobody else has."""
    a, b = rng.uniform(1, 9), rng.uniform(0.1, 0.9)
    sharpness = rng.choice(["tuned", "hard", round(rng.uniform(0.3, 5.0), 3)])
    construction = "max_affine" if isinstance(sharpness, str) else rng.choice(["max_affine", "tensor_grid"])
    function = f"sin({a:.4f}*x) + {b:.4f}*x^2"
    at = {"construction": construction, "p": ANCHORS, "sharpness": sharpness}
    return {"function": function, "domain": {"x": [-1, 1]}, **at}


async def one_client(client: httpx.AsyncClient, seed: int, seconds: float, taken: dict[str, list[float]]) -> None:
    """Change something, look at the picture, wait for the certificate, rest; until the time is over."""
    rng, end = random.Random(seed), time.perf_counter() + seconds
    await asyncio.sleep(rng.uniform(0, EVERY))
    while time.perf_counter() < end:
        began, request = time.perf_counter(), change(rng)
        for job, asked in (("line", request), ("certificate", {"of": {"kind": "line", **request}})):
            waited, last = await answer(client, job, asked)
            taken[job].append(waited)
            if "result" not in last:
                taken["refused"].append(waited)
                print(last, request)
        await asyncio.sleep(max(0.0, EVERY - (time.perf_counter() - began)))


def tree(pid: int) -> list[int]:
    """A process and all below it."""
    found = [pid]
    for each in found:
        for task in Path(f"/proc/{each}/task").glob("*/children"):
            found += [int(child) for child in task.read_text().split()]
    return found


def processor(pid: int) -> float:
    """Seconds that a process and all below it have computed."""
    stats = [Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split() for each in tree(pid)]
    return sum(int(stat[11]) + int(stat[12]) for stat in stats) / os.sysconf("SC_CLK_TCK")


def memory(pid: int) -> float:
    """MB of a process and all below it."""
    total = 0
    for each in tree(pid):
        lines = Path(f"/proc/{each}/smaps_rollup").read_text().splitlines()
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


async def alone(address: str, pid: int) -> list[str]:
    """Rows of a table: one reader who drags a slider, the picture's time and what of it was computing."""
    rows = []
    async with httpx.AsyncClient(base_url=address, timeout=120) as client:
        for construction, sharpness in CONSTRUCTIONS:
            for p in SIZES:
                asked = {"function": "sin(8*x)", "domain": {"x": [-1, 1]}, "construction": construction}
                times, before = [], processor(pid)
                for i in range(REPEATS):
                    times.append((await answer(client, "line", {**asked, "p": p - i, "sharpness": sharpness}))[0])
                computing = (processor(pid) - before) / REPEATS
                name = f"`{construction}`, {sharpness if isinstance(sharpness, str) else f'c = {sharpness}'}"
                rows.append(f"| {name} | {p} | {statistics.median(times):.2f} | {max(times):.2f} | {computing:.2f} |")
    return rows


async def load(address: str, pid: int, clients: int, seconds: float) -> dict[str, Any]:
    """Times of all clients, and memory before, half-way and after."""
    taken: dict[str, list[float]] = {"line": [], "certificate": [], "refused": []}
    limits = httpx.Limits(max_connections=2 * clients)
    async with httpx.AsyncClient(base_url=address, timeout=120, limits=limits) as client:
        used = [memory(pid)]
        before = processor(pid)
        work = [asyncio.create_task(one_client(client, seed, seconds, taken)) for seed in range(clients)]
        for _ in range(2):
            await asyncio.sleep(seconds / 2)
            used.append(memory(pid))
        await asyncio.gather(*work)
        computing = processor(pid) - before
    return {"taken": taken, "memory": used, "computing": computing}


ODD: tuple[Any, ...] = (None, True, -1, 0, 1e308, 2**70, "", "x", "\x00", "💥" * 50, [], [1], {}, {"x": 1}, "NaN", 0.5)
TEXTS = ("x", "sin(x)", "1/x", "x^64", "log(x)", "((((", "x;y", "abs(x)+y", "exp(exp(9*x))", "'", "tokens.mean(x)")


def odd_request(rng: random.Random) -> tuple[str, bytes]:
    """Random text, sizes and types: some of it valid by chance."""
    job = rng.choice([*INDEX, "nothing"])
    letters = "".join(chr(rng.choice([rng.randrange(32, 127), rng.randrange(0x500)])) for _ in range(rng.randrange(60)))
    fields: dict[str, Any] = {
        "function": rng.choice([*TEXTS, letters]),
        "domain": rng.choice([{"x": [-1, 1]}, {"x": [0, 1], "y": [0, 1]}, {"x": [1, 1]}, {letters: [0, 1]}]),
        "p": rng.choice([2, 3, 7, 20, 513, -1, 8.5, letters]),
        "sharpness": rng.choice(["hard", "tuned", "tolerance", 0.5, 1e-3, 1e4, 0, letters]),
        "dtype": rng.choice(["float64", "float16", "bfloat16", "int8"]),
        "program": rng.choice(["sort", "reverse", letters]),
        "tokens": rng.choice([["a", "b"], ["("], [letters], []]),
        "x": rng.choice([[[0.1], [0.5]], [[rng.uniform(-1e6, 1e6)]] * 3]),
        "y": rng.choice([[0, 1], [rng.uniform(-1e6, 1e6)] * 3]),
        "algorithm": rng.choice(["LeastSquares", "Huber", "Logistic", letters]),
        "fault": rng.choice(["none", "too soft", "missing ghosts", "shifted sentinel"]),
    }
    known = {*INDEX[job].request.model_fields} if job in INDEX else set(fields)
    if job in ("certificate", "download"):
        known = {"function", "domain", "p", "sharpness", "dtype"}
    kept = {name: value for name, value in fields.items() if name in known and rng.random() < 0.9}
    if rng.random() < 0.4:
        kept[rng.choice([*kept, "of", "extra", "tol"])] = rng.choice(ODD)
    kind = rng.choice(["line", "plane", "graph", letters])
    body = json.dumps({"of": {"kind": kind, **kept}} if job in ("certificate", "download") else kept).encode()
    return job, rng.randbytes(rng.randrange(200)) if rng.random() < 0.1 else body


async def fuzz(address: str, count: int, at_once: int = 8) -> dict[str, int]:
    """How odd requests were answered: by status, and by the kind of the last line."""
    told: dict[str, int] = {}
    requests = iter([odd_request(random.Random(seed)) for seed in range(count)])

    async def some(client: httpx.AsyncClient) -> None:
        for job, body in requests:
            found = await client.post(f"api/{job}", content=body, headers={"content-type": "application/json"})
            last = json.loads(found.content.splitlines()[-1])
            name = f"{found.status_code} {last['error']['kind'] if 'error' in last else 'result'}"
            told[name] = told.get(name, 0) + 1
            if found.status_code >= 500 or name.endswith("unexpected"):
                print(name, job, body, last)

    async with httpx.AsyncClient(base_url=address, timeout=120) as client:
        await asyncio.gather(*(some(client) for _ in range(at_once)))
    return told


def surroundings() -> str:
    """What else the machine does before it begins: times of whoever waits grow with it."""
    return f"On {os.cpu_count()} processors, for which {os.getloadavg()[0]:.1f} processes of others compete."


def table(
    start: str,
    sizes: list[str],
    found: dict[str, Any],
    clients: int,
    seconds: float,
    told: dict[str, int],
    spent: float,
) -> str:
    """The page of results."""
    rows = ["| asked for | answers | median s | p95 s | largest s |", "| --- | --- | --- | --- | --- |"]
    for job, name in (("line", "picture"), ("certificate", "certificate")):
        times = sorted(found["taken"][job])
        p95 = times[int(0.95 * (len(times) - 1))]
        numbers = f"{statistics.median(times):.2f} | {p95:.2f} | {times[-1]:.2f}"
        rows.append(f"| {name} | {len(times)} | {numbers} |")
    used = ", ".join(f"{size:.0f}" for size in found["memory"])
    odd = "\n".join(f"| {name} | {count:,} |" for name, count in sorted(told.items()))
    return "\n".join(
        [
            "# The explorer under load",
            "",
            "By `python benchmarks/explorer.py`.",
            "",
            start,
            "",
            "One reader, a picture of one input after every change:",
            "",
            "| construction | p | median s | largest s | computing s |",
            "| --- | --- | --- | --- | --- |",
            *sizes,
            "",
            f"{clients} clients for {seconds:.0f} s, each a change every {EVERY:.0f} s, p = {ANCHORS}:",
            "",
            *rows,
            "",
            f"Refused or failed: {len(found['taken']['refused'])}. Computing: {found['computing']:.0f} s in all.",
            f"Memory in MB before, half-way and after: {used}.",
            "",
            f"{sum(told.values()):,} odd requests (random text, sizes and types) in {spent:.0f} s:",
            "",
            "| answer | times |",
            "| --- | --- |",
            odd,
            "",
        ]
    )


async def main(quick: bool) -> None:
    """Load, then odd requests."""
    clients, seconds, count = (10, 10.0, 300) if quick else (50, 60.0, 10_000)
    around = surroundings()
    async with explorer() as (address, pid, start):
        start, sizes = f"{around}\n\n{start}", await alone(address, pid)
        found = await load(address, pid, clients, seconds)
        started = time.perf_counter()
        told = await fuzz(address, count)
        text = table(start, sizes, found, clients, seconds, told, time.perf_counter() - started)
    print(text)
    if not quick:
        RESULTS.write_text(text, "utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    asyncio.run(main(parser.parse_args().quick))

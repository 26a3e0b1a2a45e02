"""What a network costs to keep and to run."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from attnforge.compiler.page.operations import multiply_adds
from attnforge.network import count_parameters

if TYPE_CHECKING:
    from attnforge.compiler.compiled import Compiled

BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}
BATCH = 1000  # points at once, where so many attention weights fit
MOST = 2**22  # attention weights of a batch
REPEATS = 5
SECONDS = 2.0  # after which the timing is not repeated


def costs(compiled: Compiled, *, timing: bool) -> dict[str, str]:
    """Label and value of every line; the measured time is the only one that differs between two calls."""
    total, nonzero = count_parameters(compiled.network)
    size = total * BYTES.get(compiled.dtype, 8)
    tokens = compiled.network.tokens
    each = "a point" if compiled.target.layout == "function" else "an input" if tokens else "an input of one token"
    lines = {
        "parameters": f"{total:,}, of which {nonzero:,} are not zero",
        "bytes": f"{_bytes(size)} in {compiled.dtype}",
        "keys": f"{compiled.anchors:,} in {compiled.heads:,} head{'s' * (compiled.heads != 1)}",
        "multiply-adds": f"{multiply_adds(compiled.network):,} {each}",
    }
    if timing:
        seconds, batch = seconds_per_point(compiled)
        lines["time"] = f"{_duration(seconds)} {each}, in batches of {batch:,} on this machine's CPU"
    return lines


def seconds_per_point(compiled: Compiled) -> tuple[float, int]:
    """The fastest of a few runs on random points of the domain, divided by the size of the batch, and that size."""
    batch = max(1, min(BATCH, MOST // max(compiled.anchors, 1)))
    rng, box = np.random.default_rng(0), compiled.domain
    if compiled.target.layout == "tokens":
        box = box.fixed((compiled.network.tokens or 1, compiled.network.features))
    points = rng.uniform(box.lower, box.upper, size=(batch, *box.shape))
    compiled.at_points(points[:1])  # what is made once is not timed
    taken, started = [], time.perf_counter()
    for _ in range(REPEATS):
        before = time.perf_counter()
        compiled.at_points(points)
        taken.append(time.perf_counter() - before)
        if time.perf_counter() - started > SECONDS:
            break
    return min(taken) / batch, batch


def _bytes(count: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} bytes"


def _duration(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"

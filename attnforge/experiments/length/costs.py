"""Time and memory of one sequence, measured by a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from attnforge.experiments.experiment import Case, Row
from attnforge.experiments.length.networks import one_head

RUNS, PATIENCE = 7, 1.0  # a time is the best of so many, or of as many as fit into some seconds
LAYOUTS = ("memory", "literal")
FLOOR = 4e6  # bytes: what is less is lost among the pages of a process


def cost_apart(case: Case) -> Row:
    """The cost, measured by a fresh process with one thread: what others allocated before does not count."""
    script = (
        "import json, sys; from attnforge.experiments.length.costs import cost; "
        "print(json.dumps(cost(*json.loads(sys.argv[1]))))"
    )
    given = json.dumps([case["layout"], case["n"], case["d"], case["p"]])
    threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script, given], env={**os.environ, **threads}, capture_output=True, text=True, check=True
    )
    row: dict[str, Any] = json.loads(done.stdout)
    return row


def cost(layout: str, n: int, d: int, p: int) -> Row:
    """Core seconds of one sequence (the best of several runs) and peak bytes of building and running the network.

    The peak is the growth of the resident set after a small network of the same kind has run.
    """
    import torch

    torch.set_num_threads(1)
    _timed(layout, 2, d, 8)
    before = _forgotten_peak()
    seconds, weights = _timed(layout, n, d, p)
    return {"seconds": seconds, "peak": _peak() - before, "weights": weights}


def _timed(layout: str, n: int, d: int, p: int) -> tuple[float, int]:
    import torch

    from attnforge.runtime import AttentionNetwork

    network, _, _ = one_head(n, d, p, layout)
    module = AttentionNetwork(network, torch.float64, False)
    weights = sum(tensor.nbytes for tensor in module.buffers())
    x = torch.rand(1, n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    times: list[float] = []
    started = time.perf_counter()
    with torch.no_grad():
        while not times or (len(times) < RUNS and time.perf_counter() - started < PATIENCE):
            start = time.process_time()  # of this core: what else the machine does counts less
            module(x)
            times.append(time.process_time() - start)
    return min(times), weights


def _forgotten_peak() -> int:
    """Have Linux forget how much memory this program held before; the peak from which it then counts, in bytes."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return _peak()


def _peak() -> int:
    """Bytes of the largest resident set of this program so far.

    Linux tells it in kilobytes. getrusage would count what the parent held when it started this process, too; it is
    for systems without /proc. Where there is neither, as in Windows, nothing is told: 0.
    """
    with suppress(OSError):
        lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("VmHWM:")).split()[1])
    with suppress(ImportError):
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return 0

"""How cost grows: keys, bytes and seconds with p, d, n, H, the tolerance and depth, and what 10^9 anchors would take.

Run ``OMP_NUM_THREADS=1 .venv/bin/python benchmarks/scaling.py``: tables go to ``benchmarks/results/scaling.md``, the
figure to ``scaling.png`` beside it. A few minutes; ``--only PART`` prints one table, ``--quick`` some. Seconds are
those of the processor, one thread, the least of a few rounds; but for the engines, whose overhead is time on the wall.
*Growth* is the exponent of a power fitted to the rows, and what is extrapolated is extrapolated by it from the last
row: an estimate, not a measurement.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import nn

import attnforge as af
from attnforge.anchors.axis import Axis
from attnforge.errors import AttnforgeError
from attnforge.network import Network
from attnforge.parallel import Processes
from attnforge.plot.style import BLUE, GREEN, GREY, ORANGE
from attnforge.runtime import AttentionNetwork, mean, merge, partial
from attnforge.theorems.tensor_heads import TensorHead, heads_network

COMMAND = "OMP_NUM_THREADS=1 .venv/bin/python benchmarks/scaling.py"
QUICK = ("tolerances", "tokens", "layers", "shards")
RESULTS = Path(__file__).parent / "results"
FAR = 10**9  # anchors, asked for
KERNELS = {"dense": BLUE, "sharded": ORANGE, "factorised": GREEN, "window": GREY}
SIZES = (10**3, 10**4, 10**5, 10**6)
PAIRS = 2**22  # pairs of a query and a key that a kernel without structure is timed on, at least 16 queries
BATCH = 20_000  # points of others
ROUNDS = 3
TASKS = 40
WORK = "import torch, time; x = torch.rand(64, 2**14); start = time.process_time()\n"
WORK += "for _ in range(40): torch.exp(x - 1)\nprint(time.process_time() - start)"


@dataclass
class Part:
    """A table under a heading, with what is to be said of it."""

    title: str
    columns: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)
    note: str = ""

    @property
    def text(self) -> str:
        """Markdown."""
        lines = [f"| {' | '.join(row)} |" for row in (self.columns, ["---"] * len(self.columns), *self.rows)]
        return "\n".join([f"## {self.title}", "", *lines, *(["", self.note] if self.note else []), ""])


def seconds(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Of the processor: the least of a few rounds, after one that is not counted."""
    found = []
    for _ in range(rounds + 1):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found[1:])


def once(work: Callable[[], Any]) -> tuple[Any, float]:
    """What it gives, and seconds of the processor."""
    start = time.process_time()
    return work(), time.process_time() - start


def growth(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """The exponent of the power that is nearest in logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])


def number(value: float) -> str:
    """With a unit for seconds below one."""
    if value >= 1 or value == 0:
        return f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"
    return f"{value * 1e3:.3g}m" if value >= 1e-3 else f"{value * 1e6:.3g}µ" if value >= 1e-6 else f"{value * 1e9:.3g}n"


def size(count: float) -> str:
    """Bytes."""
    power = min(int(math.log(max(count, 1), 1000)), 4)
    return f"{count / 1000**power:.3g} {('B', 'kB', 'MB', 'GB', 'TB')[power]}"


def grid(p: int, d: int) -> Network:
    """A head of about p keys on a product of d even rows, values of a wave."""
    axis = Axis.uniform(0.0, 1.0, round(p ** (1 / d)), 3, 0.5)
    waves = np.stack(np.meshgrid(*[np.sin(7 * axis.positions)] * d, indexing="ij")).prod(axis=0)
    return heads_network([TensorHead.on_inputs((axis,) * d, waves[..., None])], d, "scaling", "float64")


def held(module: nn.Module) -> int:
    """Bytes of its buffers."""
    return sum(each.numel() * each.element_size() for each in module.buffers())


Curves = dict[tuple[int, str], list[tuple[int, float]]]


def evaluation(curves: Curves) -> Part:
    """Seconds a point, by kernel."""
    part = Part("Evaluation: seconds a point by kernel, float64", ("d", "kernel", *(f"p = {p:.0e}" for p in SIZES)))
    part.columns = (*part.columns, "growth", f"p = {FAR:.0e}, extrapolated", "bytes a key")
    for d in (1, 2, 3):
        networks = {p: grid(p, d) for p in SIZES}
        for kernel in KERNELS:
            found = []
            for p, network in networks.items():
                try:
                    module = AttentionNetwork(network, torch.float64, kernel=kernel)
                except AttnforgeError:
                    continue
                plain = kernel in ("dense", "sharded")
                x = torch.rand(max(16, min(PAIRS // p, BATCH)) if plain else BATCH, 1, d, dtype=torch.float64)
                found.append((p, seconds(lambda run=module, x=x: run(x)) / len(x)))
                bytes_a_key = held(module) / network.heads[0].memory_size
            if len(found) == len(SIZES):
                curves[d, kernel] = found
                exponent = growth(*zip(*found, strict=True))
                last = found[-1][1] * (FAR / SIZES[-1]) ** exponent
                numbers = [number(cost) for _, cost in found]
                part.rows.append(
                    (str(d), kernel, *numbers, f"{exponent:.2f}", f"about {number(last)}", f"{bytes_a_key:.0f}")
                )
                print(part.rows[-1], flush=True)
    part.note = "*Bytes a key*: buffers of the module at 10^6 keys. The network itself has 8 bytes a feature and value."
    return part


def building() -> Part:
    """Seconds and bytes of a head that is written down."""
    part = Part("A head of two inputs, written down", ("keys", "seconds", "bytes", "seconds a million keys"))
    costs = []
    for p in SIZES:
        network, spent = once(lambda p=p: grid(p, 2))
        head = network.heads[0]
        count, used = head.memory_size, head.memory_keys.nbytes + head.memory_values.nbytes
        costs.append((count, spent, used))
        part.rows.append((f"{count:,}", number(spent), size(used), number(spent / count * 1e6)))
    count, spent, used = costs[-1]
    far = FAR / count
    part.rows.append((f"{FAR:.0e}, extrapolated", f"about {number(spent * far)}", size(used * far), ""))
    return part


def dimensions() -> Part:
    """Grids against graphs and ridges, as d grows."""
    part = Part(
        "Inputs: 1/(1 + x1 + ... + xd) on [0, 1]^d at 1e-6",
        ("d", "construction", "keys", "compile, seconds", "prove again, seconds", "bound"),
    )
    for construction, several in (("tensor_grid", (1, 2, 3)), ("auto", (1, 2, 4, 8))):
        for d in several:
            names = [f"x{i}" for i in range(1, d + 1)]
            text = f"1/(1 + {' + '.join(names)})"
            part.rows.append((str(d), *compiled(text, names, (0, 1), 1e-6, construction)))
            print(part.rows[-1], flush=True)
    return part


def tolerances() -> Part:
    """Keys and seconds against the tolerance."""
    part = Part(
        "Tolerance: a wave with a kink, and a bump of two inputs",
        ("tol", "f", "construction", "keys", "compile, seconds", "prove again, seconds", "bound"),
    )
    bumps = "exp(-(3*x)^2 - (3*y)^2)"
    for text, names, several in (
        ("sin(8*x) + abs(x)", ["x"], (1e-2, 1e-4, 1e-6, 1e-8)),
        (bumps, ["x", "y"], (1e-2, 1e-4, 1e-6, 1e-8)),
    ):
        for tol in several:
            row = compiled(text, names, (-1, 1), tol, "auto" if len(names) == 1 else "tensor_grid")
            part.rows.append((f"{tol:g}", f"`{text}`", *row))
            print(part.rows[-1], flush=True)
    return part


def compiled(
    text: str, names: Sequence[str], interval: tuple[int, int], tol: float, construction: str
) -> tuple[str, ...]:
    """What compiling and proving cost."""
    domain = dict.fromkeys(names, interval)
    net, spent = once(lambda: af.compile(text, domain, tol, construction=construction))
    found, again = once(lambda: af.certify(net))
    bound = "sampled" if found.bound is None else f"{found.bound:.2g}"
    return net.construction, f"{net.anchors:,}", number(spent), number(again), bound


def tokens() -> Part:
    """Long sequences."""
    part = Part("Tokens: a truncated linear function, 1024 anchors", ("n", "kernel", "seconds", "seconds a token"))
    net = af.constructions.truncated_linear([1.0, -0.5], 0.25, -1, 2, anchors=1024)
    for kernel in ("auto", "dense"):
        module, found = net.module(kernel=kernel), []
        for n in (10**2, 10**3, 10**4, 10**5) if kernel == "auto" else (10**2, 10**3, 10**4):
            x = 6 * torch.rand(1, n, 2, dtype=torch.float64) - 3
            found.append((n, seconds(lambda run=module, x=x: run(x))))
            part.rows.append((f"{n:,}", kernel, number(found[-1][1]), number(found[-1][1] / n)))
        part.note += f"*{kernel}* grows as n^{growth(*zip(*found[-3:], strict=True)):.2f} (last three rows). "
    return part


def layers() -> Part:
    """Heads side by side, and one layer after the other."""
    part = Part(
        "Heads and depth: random ReLU networks of four inputs, gates",
        ("width", "layers", "heads", "compile and prove, seconds", "bound", "seconds a point", "of the torch network"),
    )
    for width, depth in ((8, 1), (32, 1), (128, 1), (16, 1), (16, 2), (16, 4), (16, 8)):
        torch.manual_seed(0)
        sizes = (4, *[width] * depth, 1)
        maps = [part for a, b in pairwise(sizes) for part in (nn.Linear(a, b), nn.ReLU())][:-1]
        given = nn.Sequential(*maps).double()
        net, spent = once(lambda given=given: af.compile(given, af.Box(-1, 1, shape=(4,)), 1e-6))
        x = 2 * torch.rand(BATCH, 4, dtype=torch.float64) - 1
        module = net.module()
        mine, theirs = (seconds(lambda run=run, x=x: run(x)) / BATCH for run in (module, given))
        bound = f"{net.certificate.bound:.2g}"
        row = (str(width), str(depth), str(net.heads), number(spent), bound, number(mine), f"{mine / theirs:.3g}x")
        part.rows.append(row)
        print(row, flush=True)
    return part


def shards() -> Part:
    """What cutting keys costs."""
    part = Part(
        "Shards of 10^6 keys, merged in one process, float64",
        ("shards", "seconds a query", "of one shard", "numbers a query that travel", "from one softmax"),
    )
    generator = torch.Generator().manual_seed(0)
    q, k, v = (
        torch.randn(*each, generator=generator, dtype=torch.float64) for each in ((16, 4), (10**6, 4), (10**6, 1))
    )
    expected, first = torch.softmax(q @ k.T, dim=1) @ v, 0.0
    for count in (1, 4, 16, 64):
        held_by = list(zip(k.tensor_split(count), v.tensor_split(count), strict=True))
        run: Callable[[], torch.Tensor] = lambda held_by=held_by: mean(  # noqa: E731
            reduce(merge, (partial(q, *each) for each in held_by))
        )
        spent = seconds(run) / len(q)
        first = first or spent
        apart = float((run() - expected).abs().max())
        part.rows.append((str(count), number(spent), f"{spent / first:.3g}x", str(3 * count), f"{apart:.1e}"))
    return part


def engines() -> Part:
    """What a task costs, on the wall, and what Dask's default allocator setting costs torch."""
    part = Part("Engines: overhead of a task, two workers on this machine", ("engine", "first task, seconds", "a task"))
    with cluster() as address:
        for name, processes in (("loky", Processes(2)), ("Dask", Processes(cluster=address))):
            with processes.sharing() as pool:
                start = time.perf_counter()
                list(pool.each(abs, [(1,)]))
                ready = time.perf_counter()
                list(pool.each(abs, [(i,) for i in range(TASKS)]))
                each = (time.perf_counter() - ready) / TASKS
            part.rows.append((name, number(ready - start), number(each)))
    plain, trimmed = (
        min(float(subprocess.check_output([sys.executable, "-c", WORK], env={**os.environ, **more})) for _ in range(2))
        for more in ({}, {"MALLOC_TRIM_THRESHOLD_": "65536"})
    )
    part.note = (
        f"`MALLOC_TRIM_THRESHOLD_=65536`, which Dask's nanny sets, makes torch's exponentials of 2^20 numbers take "
        f"{trimmed / plain:.2g} times as long: start workers with `--no-nanny`, or unset it there."
    )
    return part


@contextmanager
def cluster() -> Iterator[str]:
    """A scheduler and two workers on this machine."""
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    scheduler = ["from distributed.cli.dask_scheduler import main; main()", "--host", address, "--no-dashboard"]
    worker = ["from distributed.cli.dask_worker import main; main()", address, "--nthreads", "1", "--no-nanny"]
    started = [
        subprocess.Popen([sys.executable, "-c", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for words in (scheduler, [*worker, "--no-dashboard"], [*worker, "--no-dashboard"])
    ]
    try:
        yield address
    finally:
        for process in started:
            process.kill()
            process.wait()


def figure(curves: Curves) -> Figure:
    """Seconds a point against keys, a panel a number of inputs."""
    drawn = Figure(figsize=(9, 3.4), layout="constrained")
    panels = drawn.subplots(1, 3, sharey=True)
    for d, axes in zip((1, 2, 3), panels, strict=True):
        for kernel, colour in KERNELS.items():
            if (d, kernel) in curves:
                p, cost = map(np.array, zip(*curves[d, kernel], strict=True))
                axes.loglog(p, cost, "o-", color=colour, label=kernel, markersize=4)
                far = np.array([p[-1], FAR], dtype=np.float64)
                axes.loglog(far, cost[-1] * (far / p[-1]) ** growth(p, cost), ":", color=colour)
        axes.set_title(f"{d} input{'s' * (d > 1)}", fontsize=10)
        axes.set_xlabel("keys p")
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("seconds a point")
    panels[1].legend(fontsize=8, frameon=False)
    drawn.suptitle("Measured up to 10⁶ keys (dots), extrapolated to 10⁹ (dotted)", fontsize=10)
    return drawn


def main(arguments: Sequence[str] | None = None) -> None:
    """Print and write."""
    curves: Curves = {}
    parts = {
        "evaluation": lambda: evaluation(curves),
        "building": building,
        "dimensions": dimensions,
        "tolerances": tolerances,
        "tokens": tokens,
        "layers": layers,
        "shards": shards,
        "engines": engines,
    }
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=parts, help="one part; prints alone")
    parser.add_argument("--quick", action="store_true", help=f"{', '.join(QUICK)}; nothing is written")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    wanted = [options.only] if options.only else QUICK if options.quick else tuple(parts)
    texts = []
    with torch.no_grad():
        for name in wanted:
            texts.append(parts[name]().text)
            print(texts[-1], flush=True)
    if len(wanted) == len(parts):
        heading = (
            f"# How cost grows\n\nMade by `{COMMAND}`, Python {platform.python_version()}, torch {torch.__version__};"
        )
        heading += " seconds of one processor, m, µ and n for 10^-3, 10^-6 and 10^-9.\n"
        (RESULTS / "scaling.md").write_text("\n".join([heading, *texts]))
        figure(curves).savefig(RESULTS / "scaling.png", dpi=150)


if __name__ == "__main__":
    sys.exit(main())

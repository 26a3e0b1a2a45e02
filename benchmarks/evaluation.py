"""How fast networks are evaluated: kernels against dense attention, and against what interpolates as many numbers.

Run ``OMP_NUM_THREADS=1 .venv/bin/python benchmarks/evaluation.py``: the table goes to
``benchmarks/results/evaluation.md``. All is measured side by side in one run, by one thread, in seconds of the
processor; a figure is the median of the ratios of ``REPEATS`` rounds. Peers are scipy's: ``RegularGridInterpolator``
(cubic) on a grid of as many points an axis, ``CubicSpline`` with as many knots as it takes for the same error, and the
torch network itself.
"""

from __future__ import annotations

import argparse
import math
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from scipy.interpolate import CubicSpline, RegularGridInterpolator
from scipy.ndimage import map_coordinates
from torch import nn

import attnforge as af
from attnforge.anchors.axis import Axis
from attnforge.runtime import AttentionNetwork
from attnforge.runtime.dense import HeadGroup
from attnforge.targets import Formula
from attnforge.theorems.tensor_grid import TensorGrid
from attnforge.theorems.tensor_heads import TensorHead, heads_network

Array = npt.NDArray[np.float64]

COMMAND = "OMP_NUM_THREADS=1 .venv/bin/python benchmarks/evaluation.py"
RESULTS = Path(__file__).parent / "results"
BATCH, REPEATS, CALLS, FEW = 20_000, 11, 300, 20
PAIRS = 2 * 10**8  # of points and keys, that dense attention is asked for at once
FRANKE = (
    "0.75*exp(-((9*x-2)^2 + (9*y-2)^2)/4) + 0.75*exp(-(9*x+1)^2/49 - (9*y+1)/10)"
    " + 0.5*exp(-((9*x-7)^2 + (9*y-3)^2)/4) - 0.2*exp(-(9*x-4)^2 - (9*y-7)^2)"
)
GRIDS = (
    ("Franke", FRANKE, 2, 5e-9),
    ("1/(1+x+y+z)", "1/(1+x+y+z)", 3, 2e-9),
    ("1/(1+x+y+z+w)", "1/(1+x+y+z+w)", 4, 1e-7),
)


@dataclass(frozen=True)
class Row:
    """Work, the two that are compared, how many points a second the first takes, the ratio, and what was asked."""

    what: str
    ours: str
    peer: str
    rate: float
    ratio: float
    asked: str

    @property
    def text(self) -> str:
        """A line of the table."""
        return f"| {self.what} | {self.ours} | {self.peer} | {self.rate:.3g} | {self.ratio:.3g} | {self.asked} |"


def seconds(work: Callable[[], object], times: int = 1) -> float:
    """Of the processor, for one of so many times."""
    start = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - start) / times


def compared(ours: Callable[[], object], peer: Callable[[], object], times: int = 1) -> tuple[float, float]:
    """Seconds of the first, and how many times faster than the second it is, in rounds that alternate."""
    ours(), peer()  # what is made on first use
    rounds = [(seconds(ours, times), seconds(peer, times)) for _ in range(REPEATS)]
    return statistics.median(mine for mine, _ in rounds), statistics.median(theirs / mine for mine, theirs in rounds)


def grids() -> Iterator[Row]:
    """Fitted heads over product grids."""
    for (name, text, d, tol), asked in zip(GRIDS, ("10", "10", "12"), strict=True):
        net = af.compile(text, dict.fromkeys("xyzw"[:d], (0, 1)), tol, construction="tensor_grid", effort="low")
        what = f"{name}, {net.anchors:,} keys"
        points = torch.rand(BATCH, d, dtype=torch.float64)
        for dtype in ("float64", "float32"):
            fast, dense = (net.module(dtype=dtype, kernel=kernel) for kernel in ("factorised", "dense"))
            x = points.to(getattr(torch, dtype))
            mine, ratio = compared(lambda run=fast, x=x: run(x), lambda run=dense, x=x: run(x))
            yield Row(what, f"factorised, {dtype}", "dense", BATCH / mine, ratio, asked)
        axes = [np.linspace(0, 1, round(net.anchors ** (1 / d)))] * d
        values = net.target.values(np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1))
        peer, module, x = RegularGridInterpolator(axes, values, method="cubic"), net.module(), points.numpy()
        mine, ratio = compared(lambda run=module, x=points: run(x), lambda peer=peer, x=x: peer(x))
        yield Row(what, "factorised, float64", "RegularGridInterpolator, cubic", BATCH / mine, ratio, "1.0")


def line() -> Iterator[Row]:
    """A row of about a hundred keys against a spline of the same error."""
    net = af.compile("sin(20*x)", {"x": (-1, 1)}, 1e-9)
    fresh = np.random.default_rng(0).uniform(-1, 1, BATCH)
    error = np.abs(net(fresh) - np.sin(20 * fresh)).max()
    spline = next(s for n in range(100, 10**6, 50) if _error(s := _spline(n), fresh) <= error)
    module, x = net.module(), torch.from_numpy(fresh)
    what = f"sin(20 x), {net.anchors} keys, error {error:.1e}"
    peer = f"CubicSpline, {len(spline.x):,} knots"
    mine, ratio = compared(lambda: module(x), lambda: spline(fresh))
    yield Row(what, "module", peer, BATCH / mine, ratio, "0.2")
    mine, ratio = compared(lambda: net(0.3), lambda: spline(0.3), CALLS)
    yield Row(f"one call, {mine * 1e6:.0f} microseconds", "net(0.3)", peer, 1 / mine, ratio, "50 microseconds, or 0.33")


def _spline(knots: int) -> CubicSpline:
    at = np.linspace(-1, 1, knots)
    return CubicSpline(at, np.sin(20 * at))


def _error(spline: CubicSpline, x: Array) -> float:
    return float(np.abs(spline(x) - np.sin(20 * x)).max())


def networks() -> Iterator[Row]:
    """A ReLU network as attention against itself."""
    torch.manual_seed(0)
    sizes = (5, 64, 64, 3)
    layers: list[nn.Module] = []
    for a, b in pairwise(sizes):
        layers += [nn.Linear(a, b), nn.ReLU()]
    given = nn.Sequential(*layers[:-1]).double()
    net = af.compile(given, af.Box(-1, 1, shape=(5,)), 1e-6)
    x = 2 * torch.rand(10_000, 5, dtype=torch.float64) - 1
    module = net.module()
    mine, ratio = compared(lambda: module(x), lambda: given(x))
    yield Row(f"ReLU network 5-64-64-3, {net.heads} heads", "module", "the torch network", 10_000 / mine, ratio, "0.1")


def windows() -> Iterator[Row]:
    """A million keys in one, two and three even rows, sharpness 1/2, values of a wave."""
    asked = {"float32": ("15,000", "3,000", "600"), "float64": ("", "", "")}
    peers = {"float32": ("1.0", "0.7", "0.3"), "float64": ("1.0", "0.4", "0.1")}
    for d, size in ((1, 10**6), (2, 1000), (3, 100)):
        axis = Axis.uniform(0.0, 1.0, size, 6, 0.5)
        waves = np.stack(np.meshgrid(*[np.sin(7 * axis.positions)] * d, indexing="ij")).prod(axis=0)
        network = heads_network([TensorHead.on_inputs((axis,) * d, waves[..., None])], d, "window", "float32")
        for dtype in ("float32", "float64"):
            kind = getattr(torch, dtype)
            x = torch.rand(10 * BATCH, 1, d, dtype=kind)
            window, dense = (AttentionNetwork(network, kind, kernel=kernel) for kernel in ("window", "dense"))
            what = f"{size}^{d} keys, tail {1e-7 if dtype == 'float32' else 1e-12:g}"
            few = x[:FEW]
            mine, ratio = compared(lambda run=window, x=x: run(x), lambda run=dense, x=few: run(x))
            ratio *= len(x) / FEW
            yield Row(what, f"window, {dtype}", "dense", len(x) / mine, ratio, asked[dtype][d - 1])
            exact = AttentionNetwork(network, torch.float64, kernel="window")
            apart = float((window(x).double() - exact(x.double())).abs().max())
            at = ((x[:, 0].numpy().T - axis.positions[0]) * axis.scale).astype(np.float64)
            table = waves.astype(dtype)
            peer = partial(map_coordinates, table, at, order=3, prefilter=False)
            mine, ratio = compared(lambda run=window, x=x: run(x), peer)
            name = f"window, {dtype}, {apart:.1e} from float64"
            yield Row(what, name, "map_coordinates, cubic", len(x) / mine, ratio, peers[dtype][d - 1])


def sequences() -> Iterator[Row]:
    """A truncated linear function of 10,000 tokens."""
    net = af.constructions.truncated_linear([1.0, -0.5], 0.25, -1, 2, anchors=1024)
    x = 6 * torch.rand(1, 10_000, 2, dtype=torch.float64) - 3
    fast, dense = net.module(), net.module(kernel="dense")
    mine, ratio = compared(lambda: fast(x), lambda: dense(x))
    yield Row(f"truncated linear, {net.anchors:,} keys, 10,000 tokens", "window", "dense", 10_000 / mine, ratio, "10")


def choices() -> Iterator[Row]:
    """Kernels as they are chosen against dense attention, from one point and eight keys on: the worst of each."""
    for dtype, d in product(("float64", "float32"), (1, 2, 3, 4)):
        kind, worst = getattr(torch, dtype), (math.inf, math.inf, "")
        for keys in (8, 64, 256, 1024, 4096, 16_384, 100_000):
            size = max(2, round(keys ** (1 / d)))
            axis = Axis.uniform(0.0, 1.0, size, 0, 0.5)
            values = np.random.default_rng(0).normal(size=(*[size] * d, 1))
            network = heads_network([TensorHead.on_inputs((axis,) * d, values)], d, "choice", dtype)
            auto, dense = (AttentionNetwork(network, kind, kernel=kernel) for kernel in ("auto", "dense"))
            if isinstance(auto.layers[1].groups[0], HeadGroup):
                continue
            for batch in (1, 10, 100, 1000, 10_000, 100_000):
                if batch * keys > PAIRS:
                    continue
                x = torch.rand(batch, 1, d, dtype=kind)
                times = max(1, min(50, PAIRS // (20 * batch * keys)))
                mine, ratio = compared(lambda run=auto, x=x: run(x), lambda run=dense, x=x: run(x), times)
                name = type(auto.layers[1].groups[0]).__name__
                worst = min(worst, (ratio, batch / mine, f"{size}^{d} keys, {batch:,} points, {name}"))
        if worst[2]:
            yield Row(f"worst choice, {worst[2]}", f"auto, {dtype}", "dense", worst[1], worst[0], "0.83")


def builds() -> Iterator[Row]:
    """A million anchors of two inputs, fitted and built; then with its certificate."""
    target = Formula("sin(8*x)*cos(5*y) + exp(x*y)", af.Box([-1, 0], [1, 1]), ("x", "y"))
    construction = TensorGrid()
    start = time.process_time()
    before = _reset()
    network = construction.build(target, construction.with_counts(target, [1000, 1000], "float64"))
    took, peak = time.process_time() - start, _peak() - before
    (head,) = network.heads
    kept = [head.memory_keys, head.memory_values, head.claims.positions]
    size = (sum(each.nbytes for each in kept) + 8 * len(head.claims.roles)) / 2**20
    what = f"{head.memory_size:,} anchors, {size:.0f} MB"
    yield Row(what, f"built in {took:.2g} s", "10 s", head.memory_size / took, 10 / took, "1")
    yield Row(what, f"{peak:.0f} MB at most", "4 times the result", head.memory_size / took, 4 * size / peak, "1")
    del network, head, kept
    start = time.process_time()
    net = af.constructions.tensor_grid(target, None, anchors=1000)
    took = time.process_time() - start
    yield Row(
        f"{net.anchors:,} anchors", f"with its certificate, {net.certificate.status}", "", net.anchors / took, 1, ""
    )


def starts() -> Iterator[Row]:
    """The package imported by a new process, in seconds of its processor."""
    code = "import time; s = time.process_time(); import attnforge; print(time.process_time() - s)"
    found = [float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(REPEATS)]
    took = statistics.median(found)
    yield Row(f"import attnforge, {took:.2g} s", "a new process", "0.3 s", 1 / took, 0.3 / took, "1")


def memory() -> Iterator[Row]:
    """What 10,000 tokens take beside their inputs, and what a batch of a million points does."""
    net = af.constructions.truncated_linear([1.0, -0.5], 0.25, -1, 2, anchors=1024)
    x = 6 * torch.rand(1, 10_000, 2, dtype=torch.float64) - 3
    module = net.module()
    for name, run in (("module", lambda: module(x)), ("net(x)", lambda: net(x.numpy()))):
        run()
        before = _reset()
        run()
        took = max(_peak() - before, 0.1)
        yield Row(f"10,000 tokens, {net.anchors:,} keys: {took:.1f} MB", name, "10 MB", 0, 10 / took, "1")


def _reset() -> float:
    """Memory in use, in MB; the largest is counted from now on."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _peak() -> float:
    return _status("VmHWM")


def _status(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(each.split()[1]) / 1024 for each in lines if each.startswith(name))


PARTS = {
    "grids": grids,
    "line": line,
    "networks": networks,
    "windows": windows,
    "sequences": sequences,
    "choices": choices,
    "builds": builds,
    "starts": starts,
    "memory": memory,
}
QUICK = ("line", "networks", "sequences", "builds", "starts")


def page(rows: Sequence[Row]) -> str:
    """Heading and table."""
    model = next((each for each in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in each), "")
    versions = ", ".join(f"{name} {version(name)}" for name in ("attnforge", "numpy", "scipy", "torch"))
    return "\n".join(
        [
            "# How fast networks are evaluated",
            "",
            f"Made by `{COMMAND}`. Python {platform.python_version()}, {versions}; {model.split(':')[-1].strip()}, one",
            f"thread. Batches of {BATCH:,}; *ratio*: times faster than the peer, the median of {REPEATS} rounds.",
            "",
            "| work | ours | peer | points a second | ratio | asked |",
            "|---|---|---|---|---|---|",
            *(row.text for row in rows),
            "",
        ]
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS, help="one part; prints alone")
    parser.add_argument("--quick", action="store_true", help=f"{', '.join(QUICK)}; nothing is written")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    wanted, rows = [options.only] if options.only else QUICK if options.quick else tuple(PARTS), []
    with torch.no_grad():
        for name in wanted:
            for row in PARTS[name]():
                rows.append(row)
                print(row.text, flush=True)
    if len(wanted) == len(PARTS):
        (RESULTS / "evaluation.md").write_text(page(rows))


if __name__ == "__main__":
    sys.exit(main())

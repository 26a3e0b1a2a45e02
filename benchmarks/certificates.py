"""Proved bounds against measured errors, and beside them plain interval propagation on the same networks.

Run ``OMP_NUM_THREADS=1 .venv/bin/python benchmarks/certificates.py``: the table goes to
``benchmarks/results/certificates.md`` and ``certificates.csv``, the figure to ``certificates.png`` beside
it. ``--only TEXT`` takes the cases whose name contains it and only prints.

Per case a network is compiled once. Its error is measured (a lower bound of the true one), then proved, then bounded by
plain interval propagation (``benchmarks/interval_propagation.py``) on equal boxes. Seconds of a proof are those of
``certify`` alone, without compiling and measuring.
"""

from __future__ import annotations

import argparse
import csv
import platform
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from interval_propagation import bound as propagated
from interval_propagation import equal_boxes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter
from torch import nn

import attnforge as af
from attnforge.certification.certify import certify
from attnforge.certification.checker.check import check
from attnforge.effort import Effort
from attnforge.plot.style import BLUE, GREY, ORANGE
from attnforge.targets import Formula

ROOT = Path(__file__).parent
COMMAND = "OMP_NUM_THREADS=1 .venv/bin/python benchmarks/certificates.py"
NAME = "certificates"
POINTS = 100_000
FRANKE = (
    "0.75*exp(-((9*x-2)^2 + (9*y-2)^2)/4) + 0.75*exp(-(9*x+1)^2/49 - (9*y+1)/10)"
    " + 0.5*exp(-((9*x-7)^2 + (9*y-3)^2)/4) - 0.2*exp(-(9*x-4)^2 - (9*y-7)^2)"
)
Domain = Mapping[str, tuple[float, float]]
LINE: Domain = {"x": (-1, 1)}
SQUARE: Domain = {"x": (0, 1), "y": (0, 1)}
Build = Callable[[], af.Compiled]


@dataclass(frozen=True)
class Case:
    """A network, what its certificate is to reach, and the number of boxes given to plain intervals.

    ``ratio`` limits bound / measured; where it is None, ``bound`` limits the bound itself. ``checked`` are the cells
    that the checker may look at: fewer where each takes long.
    """

    name: str
    build: Build
    seconds: float
    ratio: float | None = None
    bound: float | None = None
    boxes: int = 10_000
    checked: int = 30_000


@dataclass(frozen=True)
class Row:
    """What was found of a case; of a certificate without a bound, no bound."""

    case: Case
    construction: str
    keys: int
    status: str
    measured: float
    bound: float | None
    seconds: float
    boxes: int
    plain: float
    plain_seconds: float
    verdict: str
    checked: int
    checking: float

    @property
    def ratio(self) -> float | None:
        """Bound / measured."""
        return None if self.bound is None else self.bound / self.measured

    @property
    def kept(self) -> bool:
        """Whether the limits are kept."""
        if self.bound is None or self.ratio is None or self.seconds > self.case.seconds:
            return False
        if self.case.ratio is not None and self.ratio > self.case.ratio:
            return False
        return self.case.bound is None or self.bound <= self.case.bound


def _fitted(text: str, tol: float, domain: Domain | None = None) -> Build:
    return lambda: af.constructions.tensor_grid(text, domain or LINE, tol=tol)


def _relu_network() -> af.Compiled:
    torch.manual_seed(0)
    parts = nn.Linear(5, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3)
    return af.constructions.relu_network(nn.Sequential(*parts).double(), af.Box(-1, 1, shape=(5,)))


def _hard_cells(cells: int | npt.NDArray[np.float64]) -> af.Compiled:
    box = af.Box(0, 1, shape=(2,))
    target = Formula(FRANKE, box, ("x", "y"))
    return af.constructions.max_affine(target, box, cells=cells, sharpness="hard")


def _centres(count: int) -> npt.NDArray[np.float64]:
    return np.random.default_rng(0).uniform(size=(count, 2))


def cases() -> list[Case]:
    """All rows."""
    runge = "1/(1 + 25*x^2)"
    return [
        Case("sin(8x), 1e-8", _fitted("sin(8*x)", 1e-8), 5, ratio=2),
        Case("1/(1 + 25x²), 1e-8", _fitted(runge, 1e-8), 5, ratio=2),
        Case("exp(x), 1e-8", _fitted("exp(x)", 1e-8), 5, ratio=2),
        Case("log(x) on [0.1, 2], 1e-8", _fitted("log(x)", 1e-8, {"x": (0.1, 2)}), 5, ratio=2),
        Case("sin(8x), 1e-12", _fitted("sin(8*x)", 1e-12), 15, ratio=10),
        Case("1/(1 + 25x²), 1e-12", _fitted(runge, 1e-12), 15, ratio=10),
        Case("exp(x), 1e-12", _fitted("exp(x)", 1e-12), 15, ratio=10),
        Case("sin(8x) + abs(x), graded, 1e-7", _fitted("sin(8*x) + abs(x)", 1e-7), 20, ratio=5),
        Case("clamp(x) on [-4, 4], graded, 1e-7", _fitted("clamp(x, -1, 1)", 1e-7, {"x": (-4.0, 4.0)}), 20, ratio=5),
        Case("Franke, 1e-5", _fitted(FRANKE, 1e-5, SQUARE), 120, ratio=5, boxes=20_000),
        Case("Franke, 1e-8", _fitted(FRANKE, 1e-8, SQUARE), 120, ratio=5, boxes=20_000, checked=2_000),
        Case("Franke, 32 x 32 hard cells", lambda: _hard_cells(32), 30, ratio=1.1),
        Case("Franke, 1,000 Voronoi cells", lambda: _hard_cells(_centres(1000)), 30, ratio=1.1),
        Case(
            "two layers, about 1,000 centres",
            lambda: af.compile("sin(3*x)*y + cos(2*y)", SQUARE, 0.08, construction="two_layer"),
            60,
            ratio=20,
            checked=2_000,
        ),
        Case("ReLU network 5-64-64-3, gates", _relu_network, 60, bound=1e-8),
    ]


def run(case: Case) -> Row:
    """Compile, measure, prove, propagate."""
    net = case.build()
    measured = af.measure(net, points=POINTS).sup
    started = time.perf_counter()
    certificate = certify(net.network, net.target, dtype=net.dtype)
    proving = time.perf_counter() - started
    boxes = equal_boxes(net.domain, case.boxes)
    started = time.perf_counter()
    plain = propagated(net.network, net.target, boxes)
    propagating = time.perf_counter() - started
    started = time.perf_counter()
    verdict = check(net.network, net.target, net.certificate, net.dtype, Effort(cells=case.checked, workers=2))
    checking = time.perf_counter() - started
    return Row(
        case,
        net.construction,
        net.anchors,
        certificate.status,
        measured,
        certificate.bound,
        proving,
        len(boxes.lower),
        plain,
        propagating,
        verdict.verdict,
        0 if verdict.outcome is None else verdict.outcome.cells,
        checking,
    )


def table(rows: Iterable[Row]) -> list[str]:
    """The rows in Markdown."""
    head = (
        "| network | construction | keys | measured | proved | proved / measured | limit | seconds | limit | kept | "
        "boxes | plain intervals / measured | seconds | checker | cells | seconds |"
    )
    return [head, "|" + "---|" * head.count(" | ") + "---|", *map(_line, rows)]


def _line(row: Row) -> str:
    case = row.case
    limit = f"{case.ratio:g}" if case.ratio is not None else f"bound {case.bound:.0e}"
    proved = "–" if row.bound is None else f"{row.bound:.3g}"
    ratio = "–" if row.ratio is None else f"{row.ratio:.3g}"
    cells = [case.name, row.construction, f"{row.keys:,}", f"{row.measured:.3g}", proved, ratio, limit]
    cells += [f"{row.seconds:.2f}", f"{case.seconds:g}", "yes" if row.kept else "no", f"{row.boxes:,}"]
    cells += [f"{row.plain / row.measured:.3g}", f"{row.plain_seconds:.2f}"]
    cells += [row.verdict, f"{row.checked:,}", f"{row.checking:.1f}"]
    return "| " + " | ".join(cells) + " |"


def draw(rows: Sequence[Row]) -> Figure:
    """Bound / measured of both methods, a pair of bars a network."""
    figure = Figure(figsize=(8.2, 0.44 * len(rows) + 1.3), layout="constrained")
    axes = figure.subplots()
    places = range(len(rows))
    kinds = (
        (-0.2, BLUE, "proved by attnforge", [row.ratio for row in rows], [row.seconds for row in rows]),
        (
            0.2,
            ORANGE,
            "plain interval propagation",
            [row.plain / row.measured for row in rows],
            [row.plain_seconds for row in rows],
        ),
    )
    for shift, colour, label, ratios, seconds in kinds:
        shown = [(place, ratio, spent) for place, ratio, spent in zip(places, ratios, seconds, strict=True) if ratio]
        axes.barh([p + shift for p, _, _ in shown], [r for _, r, _ in shown], 0.38, color=colour, label=label)
        for place, ratio, spent in shown:
            axes.annotate(
                f"{ratio:.3g}  ({spent:.1f} s)",
                (ratio, place + shift),
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
                fontsize=8,
            )
    axes.axvline(1, color=GREY, lw=0.8)
    axes.set_xscale("log")
    axes.set_xlim(0.8, 300 * max(row.plain / row.measured for row in rows))
    axes.xaxis.set_major_locator(LogLocator(numticks=8))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_yticks(list(places), [row.case.name for row in rows])
    axes.invert_yaxis()
    axes.set_xlabel("bound / largest error measured, and seconds of the proof")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    return figure


def write(rows: Sequence[Row], seconds: float, folder: Path) -> None:
    """Page, table and figure."""
    kept = sum(row.kept for row in rows)
    page = [
        "# Certificates, and plain interval propagation beside them",
        "",
        f"Made by `{COMMAND}` in {seconds:.0f} s. {machine()}",
        "",
        f"{kept} of {len(rows)} rows keep their limits. `measured` is the largest error found at {POINTS:,} random "
        "points, half as many near anchors, and by climbing from the worst: a lower bound of the true error, so the "
        "ratios are upper bounds of how loose a proof is. `proved` holds for every point of the domain and includes "
        "the rounding of the run in float64.",
        "",
        "Plain interval propagation gets as many equal boxes as the table says: 20,000 of two inputs where our proof "
        "may look at so many, else 10,000, also where our proof needs none. It adds no rounding of the run. What it "
        "is: the heading of `benchmarks/interval_propagation.py`.",
        "",
        "`checker` is what the independent checker says of the bound, by two processes. `undecided` is neither for nor "
        "against it: the limit came first, 30,000 cells, or 2,000 where each takes long.",
        "",
        *table(rows),
        "",
        f"![bound / measured of both]({NAME}.png)",
    ]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{NAME}.md").write_text("\n".join(page) + "\n")
    write_csv(folder / f"{NAME}.csv", rows)
    figure = draw(rows)
    figure.savefig(folder / f"{NAME}.png", dpi=150)


def write_csv(path: Path, rows: Iterable[Row]) -> None:
    """The numbers behind table and figure."""
    head = (
        "network,construction,keys,status,measured,proved,seconds,kept,boxes,plain,plain_seconds,checker,cells,checking"
    )
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(head.split(","))
        for row in rows:
            numbers = [f"{row.measured:.6g}", "" if row.bound is None else f"{row.bound:.6g}", f"{row.seconds:.3f}"]
            plain = [row.boxes, f"{row.plain:.6g}", f"{row.plain_seconds:.3f}"]
            check = [row.verdict, row.checked, f"{row.checking:.1f}"]
            writer.writerow([row.case.name, row.construction, row.keys, row.status, *numbers, row.kept, *plain, *check])


def machine() -> str:
    """Versions and processor."""
    model = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line), "")
    versions = ", ".join(f"{name} {version(name)}" for name in ("attnforge", "numpy", "torch", "python-flint"))
    processor = model.split(":")[-1].strip() or "CPU"
    return f"Python {platform.python_version()}, {versions}; {processor}, one thread (checker: two)."


def main() -> None:
    """Run all cases and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", metavar="TEXT", help="cases whose name contains it; prints, writes only to --out")
    parser.add_argument("--out", type=Path, help="folder of all files (default: benchmarks/results)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    started, rows = time.perf_counter(), []
    for case in cases():
        if options.only is None or options.only in case.name:
            rows.append(run(case))
            print(_line(rows[-1]), flush=True)
    if options.out is not None or options.only is None:
        write(rows, time.perf_counter() - started, options.out or ROOT / "results")


if __name__ == "__main__":
    main()

"""The anchor engine: anchors and measured errors against stated limits, and error against anchors as a figure.

Run ``OMP_NUM_THREADS=1 .venv/bin/python benchmarks/anchor_engine.py``: tables go to
``benchmarks/results/anchor_engine.md``, the curves to ``anchor_engine.csv`` beside it, the figure to
``docs/images/anchor_engine.png``. ``--quick`` takes the small cases and few points, and only prints; ``--out DIR``
writes everything into that folder.

Every error is the largest one seen at fresh points: a lower bound of the sup error, not a proof.
"""

from __future__ import annotations

import argparse
import csv
import math
import multiprocessing
import platform
import resource
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

import attnforge as af
from attnforge.anchors.axis import Axis
from attnforge.anchors.fitting import Samples, cuts_between
from attnforge.anchors.grid_fit import contract
from attnforge.anchors.panels import Panels
from attnforge.anchors.resolve import resolve
from attnforge.effort import NORMAL
from attnforge.plot.style import BLUE, GREEN, GREY, ORANGE

Array = npt.NDArray[np.float64]

ROOT = Path(__file__).parent
TABLES, CURVES, FIGURE = "anchor_engine.md", "anchor_engine.csv", "anchor_engine.png"
COMMAND = "OMP_NUM_THREADS=1 .venv/bin/python benchmarks/anchor_engine.py"
BETWEEN = 20_000  # points on anchors and half-way between them, where a grid has more than one axis
GAP_POINTS = 32  # points a gap, along one axis
CUTS = cuts_between(1e-2, 1e-12)
LEVEL = 1e-6  # at which numbers of anchors are compared

FRANKE = (
    "0.75*exp(-((9*x-2)^2 + (9*y-2)^2)/4) + 0.75*exp(-(9*x+1)^2/49 - (9*y+1)/10)"
    " + 0.5*exp(-((9*x-7)^2 + (9*y-3)^2)/4) - 0.2*exp(-(9*x-4)^2 - (9*y-7)^2)"
)
TEN = range(1, 11)
SUM_OF_TEN = " + ".join(f"sin({k}*x{k}) + x{k}*x{k % 10 + 1}" for k in TEN)


def kink(x: Array) -> Array:
    """A wave with a kink at zero."""
    return np.sin(8 * x) + np.abs(x)


def layer(x: Array) -> Array:
    """A layer of width 1e-3 at 0.3."""
    return np.tanh(1000 * (x - 0.3))


def oscillatory(x: Array) -> Array:
    """Genz's oscillatory function, a ridge."""
    return np.cos(0.6 * np.pi + 2 * x.sum(axis=-1))


def corner_peak(x: Array) -> Array:
    """Genz's corner peak, a ridge."""
    return (1 + x.sum(axis=-1)) ** -(x.shape[-1] + 1.0)


def gaussian(x: Array) -> Array:
    """Genz's Gaussian."""
    return np.exp(-4 * np.square(x - 0.5).sum(axis=-1))


def sum_of_ten(x: Array) -> Array:
    """Twenty terms of one or two of ten inputs."""
    return (np.sin(np.array(TEN) * x) + x * np.roll(x, -1, axis=-1)).sum(axis=-1)


def cosine_of_sum(x: Array) -> Array:
    """A ridge."""
    return np.cos(x.sum(axis=-1))


def inverse_square(x: Array) -> Array:
    """A ridge."""
    return (1 + x.sum(axis=-1)) ** -2.0


def damped_cosine(x: Array) -> Array:
    """Neither a ridge nor a sum."""
    return np.cos(x.sum(axis=-1)) * np.exp(-np.square(x).sum(axis=-1) / 8)


@dataclass(frozen=True)
class Case:
    """What to compile, and the limits it is to keep: ``tol`` is asked of ``compile`` and of the measured error."""

    name: str
    target: str | Callable[[Array], Array]
    domain: Any
    anchors: int
    tol: float
    construction: str = "auto"
    analytic: bool = False  # then Chebyshev interpolation is compared
    large: bool = False


def cases() -> list[Case]:
    """All rows of the table."""
    line = {"x": (-1, 1)}
    square = {"x": (0, 1), "y": (0, 1)}
    eight, ten = af.Box(0, 1, shape=(8,)), af.Box(-1, 1, shape=(10,))
    genz = [
        Case(f"{name}, d = {d}", f, af.Box(0, 1, shape=(d,)), 13**d, 5e-7, construction, construction != "auto", d > 3)
        for d in (3, 4)
        for name, f in (("Genz oscillatory", oscillatory), ("Genz corner peak", corner_peak), ("Gaussian", gaussian))
        for construction in ("tensor_grid", "auto")
    ]
    return [
        Case("sin(8x) on [-1, 1]", "sin(8*x)", line, 48, 1e-13, analytic=True),
        Case("1/(1 + 25x²) on [-1, 1]", "1/(1 + 25*x^2)", line, 100, 1e-10, analytic=True),
        Case("x³ - x on [-2, 2]", "x^3 - x", {"x": (-2, 2)}, 32, 1e-13, analytic=True),
        Case("clamp(s, -1, 1) on [-4, 4], no gate", "clamp(s, -1, 1)", {"s": (-4, 4)}, 210, 2e-7, "tensor_grid"),
        Case("sin(8x) + abs(x) on [-1, 1], black box", kink, line, 200, 1e-6),
        Case("tanh(1000(x - 0.3)) on [-1, 1], black box", layer, line, 120, 1e-6),
        Case("Franke on [0, 1]²", FRANKE, square, 1000, 1e-8, analytic=True),
        Case("Franke on [0, 1]²", FRANKE, square, 2300, 3e-10, analytic=True),
        *genz,
        Case("Σ sin(k x_k) + x_k x_(k+1) on [-1, 1]^10, black box", sum_of_ten, ten, 5000, 1e-8),
        Case("the same, as text", SUM_OF_TEN, {f"x{k}": (-1, 1) for k in TEN}, 5000, 1e-8),
        Case("cos(Σx) on [0, 1]^8, black box", cosine_of_sum, eight, 40, 1e-7),
        Case("(1 + Σx)^-2 on [0, 1]^8, black box", inverse_square, eight, 40, 1e-7),
        *(
            Case("cos(Σx) exp(-Σx²/8) on [0, 1]^8, black box", damped_cosine, eight, 200_000, 1e-3, name, large=True)
            for name in ("tensor_grid", "sparse_grid")
        ),
    ]


class Counted:
    """A function that counts the rows it is evaluated at."""

    def __init__(self, function: Callable[[Array], Array]) -> None:
        self.function, self.rows, self.__name__ = function, 0, function.__name__

    def __call__(self, x: Array) -> Array:
        """Its values."""
        self.rows += len(x)
        return self.function(x)


@dataclass(frozen=True)
class Row:
    """What came of a case; evaluations are None for text, and ``reason`` is a refusal where there is no error."""

    case: Case
    construction: str
    reason: str
    compiling: float
    anchors: int | None = None
    error: float = math.inf
    measuring: float = 0.0
    fitting: int | None = None
    checking: int | None = None
    mebibytes: float = 0.0
    chebyshev: int | None = None

    @property
    def passed(self) -> bool:
        """Whether both limits are kept."""
        return self.anchors is not None and self.anchors <= self.case.anchors and self.error <= self.case.tol


def run(case: Case, points: int) -> Row:
    """Compile with the limit as tolerance, then look for the worst error."""
    torch.set_num_threads(1)
    counted = Counted(case.target) if callable(case.target) else None
    resident, started = _resident(), time.perf_counter()
    try:
        net = af.compile(counted or case.target, case.domain, tol=case.tol, construction=case.construction)
    except af.errors.AttnforgeError as error:
        return Row(case, "refused", str(error), time.perf_counter() - started)
    compiling = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - resident
    evaluations = counted.rows if counted else 0
    started = time.perf_counter()
    worst = largest_error(net, points)
    measuring = time.perf_counter() - started
    checking = min(evaluations, _rows_of_a_check(net, counted.function)) if counted else None
    fitting = None if checking is None else evaluations - checking
    points_stored = chebyshev(net.target.values, net.domain, case.tol) if case.analytic else None
    found = (net.construction, net.reason, compiling, net.anchors, worst, measuring)
    return Row(case, *found, fitting, checking, peak, points_stored)


def largest_error(net: af.Compiled, points: int) -> float:
    """At random points with a climb from the worst of them, and at points between anchors."""
    found = af.measure(net, points=points).sup
    between = between_anchors(net)
    if not len(between):
        return found
    output = net(between[:, 0] if between.shape[1] == 1 else between)
    return max(found, float(np.abs(output - net.target.values(between.astype(np.longdouble))).max()))


def between_anchors(net: af.Compiled) -> Array:
    """Points (N, d) on the anchors and between them; none for heads that read forms or a part of the inputs.

    Along a form random points already lie close: a row of anchors has one dimension.
    """
    box, claims = net.domain, net.network.heads[0].claims
    if claims is None or claims.forms is not None or len(net.network.heads) > 1 or claims.positions.ndim != 2:
        return np.empty((0, *box.shape))
    rng, places = np.random.default_rng(1), []
    for axis, (lower, upper) in enumerate(zip(box.lower, box.upper, strict=True)):
        anchors = np.unique(np.clip(claims.positions[:, axis], lower, upper))
        parts = np.arange(GAP_POINTS) / GAP_POINTS
        along = np.append((anchors[:-1, None] + np.diff(anchors)[:, None] * parts).ravel(), anchors[-1])
        places.append(along if box.shape == (1,) else rng.choice(along[:: GAP_POINTS // 2], size=BETWEEN))
    return np.column_stack(places)


def chebyshev(f: Callable[[Array], Array], box: af.Box, level: float) -> int:
    """The fewest values of an interpolant on a product of Chebyshev points within the level at fresh points."""
    fresh = np.random.default_rng(3).uniform(box.lower, box.upper, (BETWEEN, *box.shape))
    wanted = f(fresh)
    for degree in range(1, 1000):
        axes = [Panels.whole(float(a), float(b), degree) for a, b in zip(box.lower, box.upper, strict=True)]
        values = f(np.stack(np.meshgrid(*(axis.nodes for axis in axes), indexing="ij"), axis=-1))[..., None]
        output = contract([axis.interpolation(fresh[:, a]) for a, axis in enumerate(axes)], values)
        if float(np.abs(output[:, 0] - wanted).max()) <= level:
            return (degree + 1) ** len(axes)
    raise RuntimeError(f"Chebyshev interpolation to {level} needs degree 1000 or more")


def _rows_of_a_check(net: af.Compiled, function: Callable[[Array], Array]) -> int:
    """How many values of f the check that ends ``compile`` takes: the same search, with a function of its own."""
    counted = Counted(function)
    af.measure(net, target=counted, points=NORMAL.points)
    return counted.rows


def _resident() -> float:
    """Resident memory of this process in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def in_own_process(work: Callable[..., Any], arguments: Iterable[Sequence[Any]]) -> Iterator[Any]:
    """One process a piece of work, one after another: memory is then counted from the same start."""
    context = multiprocessing.get_context("fork")
    with context.Pool(1, maxtasksperchild=1) as pool:
        yield from pool.imap(partial(_spread, work), arguments, chunksize=1)


def _spread(work: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    return work(*arguments)


# --- error against anchors ---------------------------------------------------------------------------------------

Curve = list[tuple[int, float]]


@dataclass(frozen=True)
class Panel:
    """A target of the figure: what is compiled, f of (N, d) points, its box, and the ladders of its curves."""

    name: str
    target: str | Callable[[Array], Array]
    f: Callable[[Array], Array]
    domain: Any
    box: af.Box
    hard: tuple[int, ...]
    tuned: tuple[int, ...]
    tolerances: tuple[float, ...]
    uniform: tuple[int, ...] = ()  # where the tolerances give graded anchors: numbers of uniform ones


LINE = af.Box(-1, 1, shape=(1,))
DOUBLING = tuple(2**k for k in range(3, 13))
LADDER = tuple(10.0**-k for k in range(1, 14))


def franke(x: Array) -> Array:
    """Franke's function at (N, 2) points."""
    a, b = 9 * x[..., 0], 9 * x[..., 1]
    hills = 0.75 * np.exp(-((a - 2) ** 2 + (b - 2) ** 2) / 4) + 0.75 * np.exp(-((a + 1) ** 2) / 49 - (b + 1) / 10)
    return hills + 0.5 * np.exp(-((a - 7) ** 2 + (b - 3) ** 2) / 4) - 0.2 * np.exp(-((a - 4) ** 2) - (b - 7) ** 2)


def panels() -> list[Panel]:
    """The targets of the figure."""
    line = {"x": (-1, 1)}
    cube = af.Box(0, 1, shape=(3,))
    return [
        Panel("sin(8x)", "sin(8*x)", lambda x: np.sin(8 * x[..., 0]), line, LINE, DOUBLING, DOUBLING[:8], LADDER),
        Panel(
            "1/(1 + 25x²)",
            "1/(1 + 25*x^2)",
            lambda x: 1 / (1 + 25 * x[..., 0] ** 2),
            line,
            LINE,
            DOUBLING,
            DOUBLING[:8],
            LADDER[:12],
        ),
        Panel(
            "sin(8x) + abs(x), black box",
            kink,
            lambda x: kink(x[..., 0]),
            line,
            LINE,
            DOUBLING,
            DOUBLING,
            LADDER[:10],
            uniform=(8, 16, 32, 64, 128, 256, 512),
        ),
        Panel(
            "tanh(1000(x - 0.3)), black box",
            layer,
            lambda x: layer(x[..., 0]),
            line,
            LINE,
            tuple(2**k for k in range(7, 15)),
            tuple(2**k for k in range(7, 15)),
            LADDER[:10],
            uniform=(64, 128, 256, 512, 1024),
        ),
        Panel(
            "Franke on [0, 1]²",
            FRANKE,
            franke,
            {"x": (0, 1), "y": (0, 1)},
            af.Box(0, 1, shape=(2,)),
            (4, 8, 16, 32, 64, 128),
            (4, 8, 16, 32, 64),
            LADDER[:11],
        ),
        Panel(
            "Genz oscillatory, d = 3 (grid)",
            oscillatory,
            oscillatory,
            cube,
            cube,
            (3, 4, 6, 8, 12, 16, 24),
            (3, 4, 6, 8, 12, 16),
            LADDER[:10],
        ),
    ]


def curves(panel: Panel, points: int, quick: bool) -> dict[str, Curve]:
    """Anchors and measured errors of every construction, by name."""
    torch.set_num_threads(1)
    rungs = slice(None, 4) if quick else slice(None)
    tolerances = (*panel.tolerances[:4], LEVEL) if quick else panel.tolerances
    found = {
        name: [cells(panel, count, name, points) for count in ladder[rungs]]
        for name, ladder in (("hard", panel.hard), ("tuned", panel.tuned))
    }
    if panel.uniform:
        found["fitted, uniform"] = uniform(panel, panel.uniform[rungs])
    fitted = {rung for tol in tolerances for rung in compiled(panel, tol, points)}
    found["fitted, graded" if panel.uniform else "fitted"] = sorted(fitted)
    return found


def cells(panel: Panel, count: int, sharpness: str, points: int) -> tuple[int, float]:
    """The papers' cells, or the same with overlapping weights and sampled values."""
    net = af.constructions.max_affine(panel.f, panel.box, cells=count, sharpness=sharpness)
    return net.anchors, af.measure(net, points=points).sup


def compiled(panel: Panel, tol: float, points: int) -> Curve:
    """What ``compile`` builds on a grid; nothing where it refuses so small a tolerance."""
    try:
        net = af.compile(panel.target, panel.domain, tol=tol, construction="tensor_grid")
    except (af.errors.RefusalError, af.errors.ToleranceError):
        return []
    return [(net.anchors, largest_error(net, points))]


def uniform(panel: Panel, counts: Iterable[int]) -> Curve:
    """Fitted values on equally spaced anchors: the best of a few sharpnesses, ghosts and cuts."""
    lower, upper = float(panel.box.lower[0]), float(panel.box.upper[0])
    known = resolve(lambda x: panel.f(x[:, None])[:, None], lower, upper, 1e-12)
    found = []
    for count in counts:
        fit_at, check_at = (
            np.unique(np.concatenate([np.linspace(lower, upper, per_gap * count), known.panels.samples(3.0)]))
            for per_gap in (6, 17)
        )
        bases = (known.panels.interpolation(x) for x in (fit_at, check_at))
        samples = Samples(fit_at, check_at, *bases, known.values)
        axes = (Axis.uniform(lower, upper, count, ghosts, c) for c in (0.5, 1.0, 2.0) for ghosts in (1, 3))
        found.append((count, min(fit.residual for axis in axes for fit in samples.fits(axis, CUTS))))
    return found


@dataclass(frozen=True)
class Line:
    """A power law through the fine end of a curve: log error = slope * log anchors + offset."""

    slope: float
    offset: float

    @classmethod
    def through(cls, curve: Curve) -> Line:
        """Least squares over the last four rungs: the coarse ones do not resolve the target yet."""
        anchors, errors = np.log(np.array(curve[-4:], dtype=np.float64)).T
        slope, offset = np.polyfit(anchors, errors, 1)
        return cls(float(slope), float(offset))

    def at(self, anchors: float) -> float:
        """The error foreseen."""
        return math.exp(self.slope * math.log(anchors) + self.offset)

    def anchors(self, error: float) -> float:
        """The anchors foreseen."""
        return math.exp((math.log(error) - self.offset) / self.slope)


def fewest(curve: Curve, level: float) -> int | None:
    """The fewest anchors of a curve that reach the level; None if none does."""
    return min((anchors for anchors, error in curve if error <= level), default=None)


@dataclass(frozen=True)
class Found:
    """The curves of a panel."""

    panel: Panel
    curves: dict[str, Curve]
    lines: dict[str, Line] = field(init=False)

    def __post_init__(self) -> None:
        lines = {name: Line.through(self.curves[name]) for name in ("hard", "tuned")}
        object.__setattr__(self, "lines", lines)

    @property
    def best(self) -> str:
        """The name of the engine's own curve."""
        return list(self.curves)[-1]

    @property
    def fitted(self) -> int | None:
        """Anchors of the engine at the level."""
        return fewest(self.curves[self.best], LEVEL)


STYLES = {
    "hard": ("o-", GREY),
    "tuned": ("s-", ORANGE),
    "fitted, uniform": ("^-", BLUE),
    "fitted": ("^-", BLUE),
    "fitted, graded": ("D-", GREEN),
}


def draw(found: Sequence[Found]) -> Figure:
    """A panel a target: error against anchors, with hard cells extrapolated to the level."""
    figure = Figure(figsize=(12, 7.2), layout="constrained")
    for axes, each in zip(figure.subplots(2, 3).ravel(), found, strict=False):
        _draw_panel(axes, each)
    figure.supxlabel("anchors (keys in all, ghosts counted)", fontsize=11)
    figure.supylabel("largest error seen", fontsize=11)
    return figure


def _draw_panel(axes: Axes, found: Found) -> None:
    for name, curve in found.curves.items():
        marker, colour = STYLES[name]
        line = found.lines.get(name)
        label = f"{name}: slope {line.slope:.2f}" if line else name
        axes.loglog(*zip(*curve, strict=True), marker, color=colour, ms=3.5, lw=1.3, label=label)
    hard, fitted = found.lines["hard"].anchors(LEVEL), found.fitted
    last = found.curves["hard"][-1][0]
    axes.loglog([last, hard], [found.lines["hard"].at(last), LEVEL], ":", color=GREY, lw=1.2)
    axes.axhline(LEVEL, color="black", lw=0.6)
    if fitted is not None:
        arrow = {"arrowstyle": "<->", "color": "black", "lw": 1.1, "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", (fitted, LEVEL / 2.5), (hard, LEVEL / 2.5), arrowprops=arrow)
        ratio = f"hard / fitted at 1e-6: {times(hard / fitted)}\n(hard extrapolated)"
        axes.text(math.sqrt(hard * fitted) * 1.3, LEVEL / 8, ratio, ha="center", va="top", fontsize=8)
    axes.set_ylim(1e-15, 5)
    axes.set_title(found.panel.name, fontsize=10, parse_math=False)
    axes.grid(color="0.92", lw=0.6)
    axes.set_axisbelow(True)
    axes.yaxis.set_major_locator(LogLocator(numticks=9))
    axes.xaxis.set_major_locator(LogLocator(numticks=7))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())
    axes.legend(fontsize=8, frameon=False, loc="lower right")


# --- what is written ---------------------------------------------------------------------------------------------


RATIO_HEAD = "target | hard: slope | hard: anchors | tuned: slope | tuned: anchors | fitted: anchors | hard / fitted"
CHEBYSHEV_HEAD = "target | error at most | values of the head | values at Chebyshev points | head / Chebyshev"


def times(ratio: float) -> str:
    """A ratio with two digits."""
    return f"{ratio:,.0f}" if ratio < 1e4 else f"{ratio:.1e}"


def table(head: str, rows: Iterable[str]) -> list[str]:
    """Markdown."""
    rule = "|".join("---" for _ in head.split("|"))
    return [f"| {head} |", f"|{rule}|", *(f"| {row} |" for row in rows)]


def limits_table(rows: Sequence[Row]) -> list[str]:
    """One line a case, then why each construction was chosen."""
    head = (
        "target | asked for | chosen | anchors / limit | error seen / limit | "
        "compile | measure | memory | values of f | kept"
    )
    lines = table(head, map(_limits_line, rows))
    reasons = table("target | chosen | `net.reason`", (_reason_line(row) for row in rows))
    kept = sum(row.passed for row in rows)
    return [
        "## Limits",
        "",
        *lines,
        "",
        f"{kept} of {len(rows)} rows keep both limits. The tolerance asked of `compile` is the limit of the error. "
        "Seconds on one thread; memory is the peak of `compile` above the process at its start; values of f are those "
        "used to find structure and to fit, plus those of the check that ends `compile` (formulas are not counted).",
        "",
        "## Why",
        "",
        *reasons,
    ]


def _limits_line(row: Row) -> str:
    case = row.case
    if row.anchors is None:
        return (
            f"{case.name} | {case.construction} | refused | – / {case.anchors:,} | – / {case.tol:.0e} | "
            f"{row.compiling:.1f} s | – | – | – | no"
        )
    values = "–" if row.fitting is None else f"{row.fitting:,} + {row.checking:,}"
    return (
        f"{case.name} | {case.construction} | {row.construction} | {row.anchors:,} / {case.anchors:,} | "
        f"{row.error:.1e} / {case.tol:.0e} | {row.compiling:.1f} s | {row.measuring:.1f} s | {row.mebibytes:.0f} MiB | "
        f"{values} | {'yes' if row.passed else 'no'}"
    )


def _reason_line(row: Row) -> str:
    reason = " ".join(row.reason.split()).replace("|", "\\|")
    return f"{row.case.name} | {row.construction} | {reason}"


def ratio_table(found: Sequence[Found]) -> list[str]:
    """Anchors at the level, a line a target."""
    return [
        f"## Anchors at an error of {LEVEL:.0e}",
        "",
        *table(RATIO_HEAD, map(_ratio_line, found)),
        "",
        "Slopes are least squares of log error against log anchors over the last four rungs of the ladder. Anchors of "
        "hard and tuned cells are **extrapolated** with them from the largest network built; those of fitted heads "
        "belong to a network that was built and measured (graded where f has a kink or a layer). "
        "In several inputs ghosts make tuned slopes steeper than they will be on finer grids.",
    ]


def _ratio_line(found: Found) -> str:
    hard, tuned = (found.lines[name] for name in ("hard", "tuned"))
    fitted = found.fitted
    ratio = "–" if fitted is None else times(hard.anchors(LEVEL) / fitted)
    return (
        f"{found.panel.name} | {hard.slope:.2f} | {hard.anchors(LEVEL):.1e} | {tuned.slope:.2f} | "
        f"{tuned.anchors(LEVEL):.1e} | {_or_dash(fitted)} | {ratio}"
    )


def chebyshev_table(rows: Sequence[Row]) -> list[str]:
    """Stored numbers against Chebyshev interpolation, where f is analytic."""
    return [
        "## Stored values against Chebyshev interpolation",
        "",
        *table(CHEBYSHEV_HEAD, _chebyshev_lines(rows)),
        "",
        "Values only: a head stores its keys besides, an interpolant knows its nodes. The interpolant is the smallest "
        "one of equal degrees on all axes that is within the limit at 20,000 random points.",
    ]


def _chebyshev_lines(rows: Sequence[Row]) -> Iterator[str]:
    for row in rows:
        if row.anchors is not None and row.chebyshev is not None:
            ratio = row.anchors / row.chebyshev
            yield f"{row.case.name} | {row.case.tol:.0e} | {row.anchors:,} | {row.chebyshev:,} | {ratio:.2f}"


def short_table(rows: Sequence[Row]) -> list[str]:
    """The limits without what they cost."""
    head = "target | construction | anchors / limit | error seen / limit | seconds | kept"
    return table(
        head,
        (
            f"{row.case.name} | {row.construction} | {_or_dash(row.anchors)} / {row.case.anchors:,} | "
            f"{'–' if row.anchors is None else f'{row.error:.1e}'} / {row.case.tol:.0e} | {row.compiling:.1f} | "
            f"{'yes' if row.passed else 'no'}"
            for row in rows
        ),
    )


def _or_dash(count: int | None) -> str:
    return "–" if count is None else f"{count:,}"


def machine() -> str:
    """Versions and processor."""
    model = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line), "")
    versions = ", ".join(f"{name} {version(name)}" for name in ("attnforge", "numpy", "scipy", "torch"))
    return f"Python {platform.python_version()}, {versions}; {model.split(':')[-1].strip() or 'CPU'}, one thread."


def write_between(path: Path, name: str, lines: Sequence[str]) -> None:
    """Put the lines between the marks of that name in a page, so that its numbers are those of the last run."""
    first, last = f"<!-- {name} -->", f"<!-- end of {name} -->"
    before, rest = path.read_text().split(first)
    path.write_text("\n".join([before + first, *lines, last]) + rest.split(last)[1])


def write_curves(path: Path, found: Sequence[Found]) -> None:
    """The numbers behind the figure."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["target", "curve", "anchors", "error"])
        for each in found:
            for name, curve in each.curves.items():
                writer.writerows([each.panel.name, name, anchors, f"{error:.4g}"] for anchors, error in curve)


def main() -> None:
    """Write tables, curves and figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small cases and few points; prints, writes only to --out")
    parser.add_argument("--out", type=Path, help="folder for all files (default: benchmarks/results and docs/images)")
    options = parser.parse_args()
    started = time.perf_counter()
    points, rung_points = (5_000, 2_000) if options.quick else (100_000, 20_000)
    rows: list[Row] = []
    for index in (i for i, case in enumerate(cases()) if not (options.quick and case.large)):
        rows += in_own_process(run_case, [(index, points)])
        print(_limits_line(rows[-1]), flush=True)
    found: list[Found] = []
    for index, panel in enumerate(panels()):
        found += [Found(panel, each) for each in in_own_process(run_panel, [(index, rung_points, options.quick)])]
        print(_ratio_line(found[-1]), flush=True)
    command = COMMAND + " --quick" * options.quick
    text = [
        "# The anchor engine, measured",
        "",
        f"Made by `{command}` in {time.perf_counter() - started:.0f} s. {machine()}",
        "",
        f"Every error is the largest one **seen**, at {points:,} random points with a climb from the worst of them, "
        "and between anchors: sampled, not a bound.",
        "",
        *limits_table(rows),
        "",
        *ratio_table(found),
        "",
        *chebyshev_table(rows),
    ]
    print("\n".join(text))
    if options.quick and options.out is None:
        return
    tables = options.out or ROOT / "results"
    images = options.out or ROOT.parent / "docs" / "images"
    tables.mkdir(parents=True, exist_ok=True)
    images.mkdir(parents=True, exist_ok=True)
    (tables / TABLES).write_text("\n".join(text) + "\n")
    write_curves(tables / CURVES, found)
    draw(found).savefig(images / FIGURE, dpi=150)
    if options.out is None:
        page = ROOT.parent / "docs" / "anchors.md"
        write_between(page, "limits", short_table(rows))
        write_between(page, "ratios", table(RATIO_HEAD, map(_ratio_line, found)))
        write_between(page, "chebyshev", table(CHEBYSHEV_HEAD, _chebyshev_lines(rows)))


def run_case(index: int, points: int) -> Row:
    """The case of that number: functions do not travel between processes, numbers do."""
    return run(cases()[index], points)


def run_panel(index: int, points: int, quick: bool) -> dict[str, Curve]:
    """The curves of the panel of that number."""
    return curves(panels()[index], points, quick)


if __name__ == "__main__":
    main()

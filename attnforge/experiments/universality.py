"""Error of the universal constructions against their grids, and what the first layer's bumps look like."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import attnforge as af
from attnforge.anchors import Adaptive
from attnforge.experiments.claims import have_rate, within_bounds
from attnforge.experiments.experiment import Case, Experiment, Finding, Row, crossed
from attnforge.experiments.panels import Panel, band, page
from attnforge.experiments.settings import Settings, setting
from attnforge.experiments.slope import Slope, fit_slope
from attnforge.experiments.table import Array, Table, markdown
from attnforge.network import Attention
from attnforge.network.apply import apply_layer
from attnforge.plot.partition import cells_of, draw_cells
from attnforge.plot.plane import draw_bar, draw_map, mesh
from attnforge.plot.rates import SERIES, Curve, no_minor_labels, page_wide

HARD = ("two_layer", "softmax_tail", "max_affine, hard", "cross_attention, hard")
TUNED = ("max_affine, tuned", "cross_attention, tuned")
TARGETS = ("wave", "franke", "kink", "sort")
SMOOTH, KINKED = TARGETS[:2], TARGETS[2:]
LIPSCHITZ = {"wave": 6.0, "franke": 5.0, "kink": 3.0, "sort": 1.0}  # in the sup norm
TITLES = {
    "wave": "sin(3a) b + cos(2b): smooth",
    "franke": "Franke's function: smooth",
    "kink": "|a - b| + |a - 2/5|: kinks",
    "sort": "sorting two tokens",
}
PEAK = "exp(-200*((x-0.3)^2+(y-0.6)^2))"  # flat nearly everywhere
SQUARE: Any = {"x": (0.0, 1.0), "y": (0.0, 1.0)}
FRESH, PAIRS = 20_000, 3_000  # random points of a measurement, besides risky places; each pair has keys of its own
SLACK = 0.15  # coarse grids do not see a target's curvature yet: the rates are those of the limit
AXIS = "grid points or cells an input G"
PICTURE = 8  # grid points a side of the network that is drawn
FINE = 8  # grid points an input from which on rates are fitted
LINE = 1601  # points of a line across a bump


@dataclass(frozen=True)
class UniversalitySettings(Settings):
    """How fine the grids are, and on which targets."""

    targets: tuple[str, ...] = setting(TARGETS, ("wave", "sort"), explain=f"Some of {', '.join(TARGETS)}.")
    grids: tuple[int, ...] = setting(
        (4, 8, 12, 16, 24, 32, 48), (8, 12, 16), explain="Numbers G of cells or grid points an axis."
    )
    adaptive: tuple[int, ...] = setting(
        (4, 8, 16, 24), (4, 8), explain="Numbers G whose squares are the numbers of adaptive cells."
    )


class Universality(Experiment[UniversalitySettings]):
    """Do two layers, one layer and a softmax, one layer alone, and cross-attention approximate what they should?"""

    name = "universality"
    summary = "two layers, softmax tail, cells, cross-attention: error against grid"
    question = (
        "Does the largest error of each universal construction fall with its grid, at what rate, and below its bound? "
        "Smooth, kinked and sequence-to-sequence targets of two inputs in [0, 1]; G is the number of grid points or "
        "cells an input. Do the bumps of the first of two layers localise?"
    )
    settings = UniversalitySettings

    def cases(self, settings: UniversalitySettings) -> Sequence[Case]:
        """Every construction on every target that it takes, on every grid; bumps; adaptive cells."""
        grids, seed = settings.grids, settings.seed
        swept = crossed(kind="rate", construction=(*HARD, *TUNED), target=settings.targets, grid=grids, seed=seed)
        kinds, fewer = ("adaptive", "uniform"), settings.adaptive
        return [
            *(case for case in swept if not (case["target"] == "sort" and case["construction"].startswith("cross"))),
            *crossed(kind="bump", grid=grids),
            *crossed(kind="cells", construction=kinds, target="peak", grid=fewer, seed=seed),
        ]

    def measure(self, case: Case) -> Sequence[Row]:
        """Error, bound and keys; or how large a bump is on its cell and away from it."""
        if case["kind"] == "bump":
            return [_bump(case["grid"])]
        name, grid = case["construction"], case["grid"]
        net = _cells(name, grid) if case["kind"] == "cells" else built(name, case["target"], grid)
        points = PAIRS if net.construction == "cross_attention" else FRESH
        found = af.measure(net, points=points, seed=case["seed"])
        return [{"keys": net.anchors, "error": found.sup, "bound": net.certificate.bound}]

    def findings(self, table: Table, settings: UniversalitySettings) -> Sequence[Finding]:
        """Rates of the theorems, bounds, bumps, and what adaptive cells gain."""
        rates = [
            *(_rate(table, name, TARGETS, -1, "error O(1/G)") for name in HARD),
            *(_rate(table, name, SMOOTH, -2, "smooth targets: error O(1/G^2)") for name in TUNED),
            *(_rate(table, name, KINKED, -1, "kinks and sorting: O(1/G) and no better") for name in TUNED),
        ]
        return [
            *(finding for finding in rates if finding is not None),
            within_bounds(table),
            *_bump_findings(table),
            _gain(table),
        ]

    def notes(self, table: Table, settings: UniversalitySettings) -> Sequence[str]:
        """Slope and last error of every construction and target."""
        rows = [_summary(table, name, target) for name in (*HARD, *TUNED) for target in TARGETS]
        header = ["construction", "target", "slope", "error, finest grid", "bound", "keys"]
        return [markdown(header, [row for row in rows if row])]

    def figures(self, table: Table, settings: UniversalitySettings) -> Mapping[str, Any]:
        """Errors against grids, a panel a target; and a bump, what it selects, and two partitions."""
        return {"universality-rates": _rates_figure(table), "universality-bump": _bump_figure()}


def wave(x: Array) -> Array:
    """sin(3a) b + cos(2b): smooth, Lipschitz with constant 6 in the sup norm."""
    return np.asarray(np.sin(3 * x[..., 0]) * x[..., 1] + np.cos(2 * x[..., 1]))


def kink(x: Array) -> Array:
    """|a - b| + |a - 2/5|: kinks along two lines, Lipschitz with constant 3."""
    return np.asarray(np.abs(x[..., 0] - x[..., 1]) + np.abs(x[..., 0] - 0.4))


def sort(x: Array) -> Array:
    """The tokens in increasing order: a sequence-to-sequence map with constant 1."""
    return np.sort(x, axis=-2)


def franke(x: Array) -> Array:
    """Franke's two hills, a ridge and a dip: smooth; its slopes add up to 4.81 at most, so 5 is a constant."""
    a, b = 9 * x[..., 0], 9 * x[..., 1]
    hills = 0.75 * np.exp(-((a - 2) ** 2 + (b - 2) ** 2) / 4) + 0.5 * np.exp(-((a - 7) ** 2 + (b - 3) ** 2) / 4)
    ridge = 0.75 * np.exp(-((a + 1) ** 2) / 49 - (b + 1) / 10)
    return np.asarray(hills + ridge - 0.2 * np.exp(-((a - 4) ** 2) - (b - 7) ** 2))


FUNCTIONS: dict[str, Callable[[Array], Array]] = {"wave": wave, "franke": franke, "kink": kink, "sort": sort}


def built(construction: str, target: str, grid: int) -> af.Compiled:
    """The network of a construction, with its certificate.

    >>> built("max_affine, hard", "sort", 4).certificate.bound < 0.13
    True
    """
    name, _, sharpness = construction.partition(", ")
    f, constant = FUNCTIONS[target], LIPSCHITZ[target]
    options: Any = {"lipschitz": constant} | ({"sharpness": sharpness} if sharpness else {})
    if name == "cross_attention":
        line = af.Box(0, 1, shape=(1,))

        def joint(x: Array, y: Array) -> Array:
            return f(np.concatenate(np.broadcast_arrays(x, y), axis=-1))

        return af.constructions.cross_attention(joint, line, line, grid=grid, **options)
    options["cells" if name == "max_affine" else "grid"] = grid
    built: af.Compiled = getattr(af.constructions, name)(
        f, af.Box(0, 1, shape=(2, 1) if target == "sort" else (2,)), **options
    )
    return built


def bump_features(net: af.Compiled, points: Array) -> Array:
    """(M, 2 G) features that the first layer of a two-layer network of two inputs writes at points (M, 2)."""
    state = points[:, None]
    for layer in net.network.layers:
        state = apply_layer(layer, state)
        if isinstance(layer, Attention):
            break
    return state[:, 0]


def centre_bump(net: af.Compiled, points: Array, grid: int) -> Array:
    """R_v(X) at points (M, 2), for the centre v next to the middle: the sum of its two features."""
    features = bump_features(net, points)
    return np.asarray(features[:, grid // 2] + features[:, grid + grid // 2])


def centre_weight(net: af.Compiled, points: Array, grid: int) -> Array:
    """The second layer's attention weight of that centre, at points (M, 2)."""
    return np.asarray(net.attention(points)[-1][0][:, 0, (grid + 1) * (grid // 2)])


def _bump(grid: int) -> Row:
    """Bump and weight of one centre: at it, across its neighbours along an axis, and across the rest of the square."""
    net = built("two_layer", "wave", grid)
    middle, step = (grid // 2 + 0.5) / grid, 1 / grid
    side = np.linspace(0, 1, 101)
    mesh = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    away = np.abs(mesh - middle) / step
    row, rest = mesh[(away[:, 0] > 1.5) & (away[:, 1] < 0.5)], mesh[(away > 1.5).all(axis=1)]
    line = np.column_stack([np.linspace(0, 1, LINE), np.full(LINE, middle)])
    feature = bump_features(net, line)[:, grid // 2]
    inside, outside = np.abs(line[:, 0] - middle) < 0.5 * step, np.abs(line[:, 0] - middle) > 1.5 * step
    places = {"centre": np.array([[middle, middle]]), "same_row": row, "elsewhere": rest}
    return {
        "least_inside": float(feature[inside].min()),
        "largest_outside": float(np.abs(feature[outside]).max()),
        **{
            f"{what}_{name}": float(of(net, points, grid).max())
            for name, points in places.items()
            for what, of in (("bump", centre_bump), ("weight", centre_weight))
        },
    }


def _cells(kind: str, grid: int) -> af.Compiled:
    """Hard cells for a peak: as many adaptive ones as the grid has, or the grid."""
    cells: Any = Adaptive(grid * grid) if kind == "adaptive" else grid
    return af.constructions.max_affine(PEAK, SQUARE, cells=cells, sharpness="hard")


def _rate(table: Table, name: str, targets: Sequence[str], rate: float, claim: str) -> Finding | None:
    """Whether the rate is met on every one of the targets; None where none was measured."""
    found = {target: _slope(table, name, target) for target in targets if _points(table, name, target)}
    return have_rate(f"{name}, {claim}", found, rate, SLACK, off=2 * SLACK) if found else None


def _points(table: Table, name: str, target: str) -> Table:
    return table.where(kind="rate", construction=name, target=target)


def _slope(table: Table, name: str, target: str) -> Slope:
    """The exponent on the finer grids: those of eight points an input on."""
    rows = _points(table, name, target)
    return fit_slope(*rows.only(lambda row: row["grid"] >= FINE).points("grid", "error"))


def _summary(table: Table, name: str, target: str) -> list[str]:
    rows = _points(table, name, target).ordered("grid")
    if not rows:
        return []
    last = [form.format_map(rows.rows[-1]) for form in ("{error:.3g}", "{bound:.3g}", "{keys:,}")]
    return [name, target, str(_slope(table, name, target)), *last]


def _bump_findings(table: Table) -> list[Finding]:
    rows = table.where(kind="bump")
    least, most = rows.numbers("least_inside").min(), rows.numbers("largest_outside").max()
    single = f"least value on its cell {least:.6f}, largest beyond its neighbours {most:.1e}"
    along, elsewhere = rows.numbers("bump_same_row").max(), rows.numbers("bump_elsewhere").max()
    weight = max(rows.numbers("weight_same_row").max(), rows.numbers("weight_elsewhere").max())
    sums = f"R_v = 2 at the centre, up to {along:.3f} along its row of cells, {elsewhere:.3f} elsewhere"
    cross = f"{sums}: a sum of one-coordinate bumps is a cross, not a spike"
    at = rows.numbers("weight_centre").min()
    spike = f"weight of the centre at least {at:.4f} at it, at most {weight:.1e} beyond the neighbouring cells"
    own = "two_layer: each ramp pair is a bump of its own coordinate"
    return [
        Finding.judged(own, least > 0.999 > most + 0.998, single),
        Finding.judged("two_layer: layer 1's bump R_v vanishes away from its centre", along < 0.5, cross),
        Finding.judged("two_layer: layer 2's softmax makes a spike of it", weight < 0.01 and at > 0.9, spike),
    ]


def _gain(table: Table) -> Finding:
    rows = table.where(kind="cells")
    finest = max(rows.distinct("grid"))
    uniform, adaptive = (rows.where(construction=k, grid=finest).value("error") for k in ("uniform", "adaptive"))
    less = f"uniform {uniform:.3g}, adaptive {adaptive:.3g}, {uniform / adaptive:.2g} times less"
    claim = "max_affine: adaptive cells err less than as many uniform ones"
    return Finding.judged(claim, uniform / adaptive > 1, f"{finest**2:,} cells on a peak: {less}")


def _rates_figure(table: Table) -> Any:
    rows = table.where(kind="rate")
    grids, targets = rows.distinct("grid"), rows.distinct("target")
    lines = -(-len(targets) // 2)
    panels = [
        Panel(_curves(table, target)[::order], AXIS, "error", TITLES[target], slopes=[rate])
        for target in targets
        for order, rate in [(-1, -2) if target in SMOOTH else (1, -1)]
    ]
    figure = page(panels, 0.7 + 2.3 * lines, columns=2, legend=2, sharex=True)
    for axes in figure.axes:
        axes.set_ylim(bottom=0.4 * axes.get_ylim()[0])
        axes.set_xticks(grids, [str(grid) for grid in grids])
        no_minor_labels(axes)
        axes.tick_params(which="minor", bottom=False)
    return figure


def _curves(table: Table, target: str) -> list[Curve]:
    """The largest error over hard constructions, which hardly differ, and over tuned ones, with their bounds."""
    curves = []
    for kind, names, look in (("hard", HARD, SERIES[0]), ("tuned", TUNED, SERIES[1])):
        rows = Table.of(row for name in names for row in _points(table, name, target).rows)
        error = band(f"{kind}: error", rows, "grid", "error", look, middle=np.max)
        bounds = {grid: each.max() for grid, each in rows.grouped("grid", "bound").items()}
        bound = Curve(f"{kind}: bound", list(bounds), list(bounds.values()), look=(look[0], "x", ":"))
        curves += [error, bound] if kind == "hard" else [bound, error]
    return curves


def _bump_figure() -> Any:
    figure = page_wide(2.6)
    panels = figure.subplots(1, 4, sharey=True)
    net, box = built("two_layer", "wave", PICTURE), af.Box(0, 1, shape=(2,))
    points = mesh(box, 97)
    bump, weight = centre_bump(net, points, PICTURE), centre_weight(net, points, PICTURE)
    images = [draw_map(panels[0], box, bump, (0, 2), "viridis"), draw_map(panels[1], box, weight, (0, 1), "viridis")]
    for axes, kind in zip(panels[2:], ("uniform", "adaptive"), strict=True):
        peak = _cells(kind, PICTURE)
        images.append(draw_cells(axes, peak.domain, cells_of(peak.network, peak.target), (0, 1)))
        axes.collections[-1].set(sizes=[3], linewidths=0)  # smaller dots: those of adaptive cells are close together
    titles = ("layer 1: bump R_v", "layer 2: weight of v", "uniform cells, a peak", "adaptive cells")
    labels = ("R_v(X)", "attention weight", "value of the cell", "value of the cell")
    for axes, image, title, label in zip(panels, images, titles, labels, strict=True):
        axes.set_title(title, fontsize=8)
        axes.set_xlabel("a", fontsize=8)
        axes.set(xticks=(0, 0.5, 1), box_aspect=1)
        axes.tick_params(labelsize=7)
        draw_bar(figure, image, axes, label)
    panels[0].set_ylabel("b", fontsize=8)
    return figure

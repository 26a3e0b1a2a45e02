"""Errors at the ends of the domain and between heads: with and without ghosts and sentinels, near sharp transitions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

import attnforge as af
from attnforge.experiments.claims import falls_as
from attnforge.experiments.experiment import Case, Experiment, Finding, Row
from attnforge.experiments.settings import Settings, setting
from attnforge.experiments.slope import fit_slope
from attnforge.experiments.table import Table, markdown

Array = npt.NDArray[np.float64]

METHODS = ("hard cells", "tuned cells, ghosts", "tuned cells, no ghosts", "fitted")
TUNED, BARE = METHODS[1:3]
NEAR = 2.0  # steps from an end that count as near it
MIDDLE = 16.0  # steps from both ends, at least, that count as the interior
SPIKE = 2.0  # times the interior's error: then errors spike
TOL = 1e-6  # asked of the fitted head: it takes as many anchors as that needs
LOWER, UPPER = 0.0, 2.0  # of the clamp that heads share: not symmetric, so that what heads count twice cannot cancel
SENTINELS = 2  # a side
PLACES = ("correct", "shifted", "missing")  # of sentinels
FLOOR = 1e-8  # below which errors are drawn as this
SMOOTH = ("exp", "root")  # e^x, and sqrt(1 - x), whose slope is infinite at the end


@dataclass(frozen=True)
class BoundarySettings(Settings):
    """Targets, cells, heads."""

    cells: int = setting(64, explain="Cells of [0, 1] under a target with a sharp transition.")
    widths: tuple[float, ...] = setting((1.0, 0.1, 0.01, 0.001), (0.1, 0.01), explain="Widths w of tanh((x - t) / w).")
    distances: tuple[float, ...] = setting(
        (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 32.0, 32.25, 32.5, 32.75),
        (0.0, 0.5, 1.0, 2.0, 32.0, 32.5),
        explain="Steps from the end to the transition; those of 16 and more are the interior to compare with.",
    )
    fitted: tuple[float, ...] = setting((0.0, 0.5, 2.0, 8.0, 32.0), (0.5, 32.0), explain="As above, for fitted heads.")
    sizes: tuple[int, ...] = setting(
        (32, 64, 128, 256, 512), (32, 64, 128), explain="Numbers of cells under a smooth target."
    )
    heads: int = setting(8, explain="Heads that share a row of anchors.")
    keys: int = setting(12, explain="Keys of each of them, two sentinels a side counted.")


class Boundary(Experiment[BoundarySettings]):
    """A check that the summary of Hu et al. 2025 asks for next: transitions near the ends of the domain."""

    name: ClassVar[str] = "boundary"
    summary: ClassVar[str] = "transitions near the ends, with and without ghosts"
    question: ClassVar[str] = (
        "How do errors near the ends of the domain compare with those inside, for smooth targets and for sharp "
        "transitions, kinks and jumps near an end, with and without ghosts (keys beyond the ends)? And between heads, "
        "with correct, shifted and missing sentinels? Cells divide [0, 1] into steps h."
    )
    settings = BoundarySettings

    def cases(self, settings: BoundarySettings) -> Sequence[Case]:
        """Smooth targets by size; transitions by distance; heads by their sentinels."""
        shapes = [*(("tanh", width) for width in settings.widths), ("kink", 0.0), ("jump", 0.0)]
        moved = {"cells": settings.distances, "fitted": settings.fitted}
        return [
            *({"part": "smooth", "target": target, "cells": cells} for target in SMOOTH for cells in settings.sizes),
            *(
                {"part": "near", "by": by, "target": name, "width": width, "distance": at, "cells": settings.cells}
                for by, distances in moved.items()
                for name, width in shapes
                for at in distances
                if not (by == "fitted" and name == "jump")  # refused: no continuous network follows a jump
            ),
            *(
                {"part": "heads", "kind": kind, "sentinels": place, "heads": settings.heads, "keys": settings.keys}
                for kind in ("hard", "tuned")
                for place in PLACES
            ),
        ]

    def measure(self, case: Case) -> Sequence[Row]:
        """Largest errors near the ends (or borders) and elsewhere."""
        if case["part"] == "heads":
            return [_heads(case["kind"], case["sentinels"], case["heads"], case["keys"])]
        if case["part"] == "smooth":
            return _smooth(case["target"], case["cells"])
        f, at = _transition(case["target"], case["width"], 1 - case["distance"] / case["cells"])
        if case["by"] == "fitted":
            return [_fitted(f, at, case["cells"])]
        x = _counted(_looked_at(at, case["cells"]), case["distance"], case["cells"])
        return [
            {"method": method, "error": float(np.abs(run(x) - f(x[:, None])).max())}
            for method, run in _cells(f, case["cells"]).items()
        ]

    def findings(self, table: Table, settings: BoundarySettings) -> Sequence[Finding]:
        """Where errors spike, how fast they fall, and what a transition near the end costs."""
        return [
            *(_spike(table, method) for method in METHODS[:3]),
            *_rates(table),
            *(_ghosts_near(table, settings, *shape) for shape in _shapes(table)),
            _jump_at_the_end(table),
            _fitted_anchors(table),
            *(_borders(table, place) for place in PLACES),
        ]

    def notes(self, table: Table, settings: BoundarySettings) -> Sequence[str]:
        """What every transition costs near the end, against the same in the interior."""
        rows = [
            [_title(name, width), *(_against_middle(table, name, width, method) for method in METHODS[:3])]
            for name, width in _shapes(table)
        ]
        text = (
            f"Largest error with the transition within {NEAR:g} steps of the end, as a multiple of the largest with "
            f"the same transition in the interior; in brackets that one. {settings.cells} cells:"
        )
        return [text, markdown(["target", *METHODS[:3]], rows)]

    def figures(self, table: Table, settings: BoundarySettings) -> Mapping[str, Any]:
        """Smooth targets; transitions; borders between heads."""
        return {
            "boundary": _smooth_figure(table, settings),
            "boundary-transitions": _transition_figure(table),
            "boundary-heads": _heads_figure(settings),
        }


def _transition(name: str, width: float, at: float) -> tuple[Callable[[Array], Array], float]:
    """The target, of (..., 1) arrays, and where its transition is."""

    def f(points: Array) -> Array:
        x = points[..., 0] - at
        if name == "tanh":
            return np.asarray(np.tanh(x / width))
        return np.abs(x) if name == "kink" else np.where(x >= 0, 1.0, -1.0)

    return f, at


def _looked_at(at: float, cells: int) -> Array:
    """Points of [0, 1]: everywhere, more of them near the end and near the transition, never on it."""
    h = 1 / cells
    near_end = np.linspace(1 - NEAR * h, 1, 2001)
    around = at + np.linspace(-4 * h, 4 * h, 8001)
    close = at + np.concatenate([-np.geomspace(1e-9, h, 400), np.geomspace(1e-9, h, 400)])
    points = np.concatenate([np.linspace(0, 1, 20_001), near_end, around, close])
    return np.unique(points[(points >= 0) & (points <= 1) & (points != at)])


def _counted(x: Array, distance: float, cells: int) -> Array:
    """Points at which a transition is judged: the end's half of the domain, or if it is in the interior, the interior.

    A network without ghosts errs at the ends whatever the transition does.
    """
    margin = MIDDLE / 2 / cells
    return x[x >= 0.5] if distance < MIDDLE else x[(x >= margin) & (x <= 1 - margin)]


def _cells(f: Callable[[Array], Array], cells: int) -> dict[str, Callable[[Array], Array]]:
    """The three networks of cells, as functions of (N,) arrays."""
    box = af.Box(0, 1, shape=(1,))
    hard = af.constructions.max_affine(f, box, cells=cells, sharpness="hard").network
    tuned = af.constructions.max_affine(f, box, cells=cells, sharpness="tuned").network
    bare = without(tuned, "ghost")
    return {name: _runs(network) for name, network in zip(METHODS[:3], (hard, tuned, bare), strict=True)}


def _runs(network: af.Network) -> Callable[[Array], Array]:
    return lambda x: network(x[:, None, None])[:, 0, 0]


def without(network: af.Network, role: str) -> af.Network:
    """The network without its keys of this role.

    >>> import attnforge as af
    >>> net = af.constructions.max_affine("x", {"x": (0, 1)}, cells=8)
    >>> net.network.heads[0].memory_size, without(net.network, "ghost").heads[0].memory_size
    (16, 8)
    """

    def kept(head: Any) -> Any:
        keep = np.array([each != role for each in head.claims.roles])
        roles = tuple(each for each in head.claims.roles if each != role)
        claims = replace(head.claims, positions=head.claims.positions[keep], roles=roles)
        keys, values = head.memory_keys[keep], head.memory_values[keep]
        return replace(head, memory_keys=keys, memory_values=values, claims=claims)

    return _with_heads(network, kept)


def shifted(network: af.Network, steps: float) -> af.Network:
    """The network with its sentinels moved outwards; keys are (kappa, kappa^2), counted in steps."""

    def moved(head: Any) -> Any:
        outwards = np.array([role == "sentinel" for role in head.claims.roles]) * np.sign(head.memory_keys[:, 0])
        kappa = head.memory_keys[:, 0] + steps * outwards
        return replace(head, memory_keys=np.stack([kappa, kappa**2], axis=1))

    return _with_heads(network, moved)


def _with_heads(network: af.Network, change: Callable[[Any], Any]) -> af.Network:
    from attnforge.network import Attention

    def changed(layer: Any) -> Any:
        is_attention = isinstance(layer, Attention)
        return replace(layer, heads=tuple(change(head) for head in layer.heads)) if is_attention else layer

    return replace(network, layers=tuple(changed(layer) for layer in network.layers))


def _smooth_target(name: str) -> Callable[[Array], Array]:
    return lambda x: np.asarray(np.exp(x[..., 0]) if name == "exp" else np.sqrt(np.maximum(1 - x[..., 0], 0.0)))


def _smooth(name: str, cells: int) -> list[Row]:
    """Errors near the upper end, and in the middle half of the domain."""
    f, h = _smooth_target(name), 1 / cells
    x = np.unique(np.concatenate([np.linspace(0, 1, 20_001), np.linspace(1 - NEAR * h, 1, 2001)]))
    rows: list[Row] = []
    for method, run in _cells(f, cells).items():
        error = np.abs(run(x) - f(x[:, None]))
        inside = float(error[(x > 0.25) & (x < 0.75)].max())
        rows.append({"method": method, "end": float(error[x >= 1 - NEAR * h].max()), "inside": inside})
    return rows


def _fitted(f: Callable[[Array], Array], at: float, cells: int) -> Row:
    net = af.constructions.tensor_grid(f, af.Box(0, 1, shape=(1,)), tol=TOL)
    x = _looked_at(at, cells)
    error = np.abs(_runs(net.network)(x) - f(x[:, None]))
    end = float(error[x >= 1 - NEAR / cells].max())
    return {"method": "fitted", "error": float(error.max()), "end": end, "anchors": net.anchors}


def _shared_row(kind: str, heads: int, keys: int) -> af.Network:
    return af.constructions.multihead_truncated_linear(
        [1.0],
        0.0,
        LOWER,
        UPPER,
        tokens=keys,
        heads=heads,
        sharpness=kind,
        sentinels=SENTINELS,
        domain=af.Box(LOWER, UPPER),
    ).network


def _placed(network: af.Network, place: str) -> af.Network:
    """With sentinels where they belong, half a step further out, or nowhere."""
    if place == "correct":
        return network
    return without(network, "sentinel") if place == "missing" else shifted(network, 0.5)


def _from_border(y: Array, heads: int, keys: int) -> Array:
    """Steps from every y to the nearest border: half-way between the last anchor of a head and the next one's first."""
    return np.asarray(np.abs(y[:, None] - _borders_of(heads, keys)).min(axis=1) / _row_step(heads, keys))


def _row_step(heads: int, keys: int) -> float:
    return (UPPER - LOWER) / (heads * (keys - 2 * SENTINELS) - 1)


def _borders_of(heads: int, keys: int) -> Array:
    own = keys - 2 * SENTINELS
    return np.asarray(LOWER + _row_step(heads, keys) * (own * np.arange(1, heads) - 0.5))


def _heads(kind: str, place: str, heads: int, keys: int) -> Row:
    """Errors in steps h within one step of a border between heads, and farther than two."""
    network = _placed(_shared_row(kind, heads, keys), place)
    y = np.linspace(LOWER, UPPER, 40_001)
    h, away = _row_step(heads, keys), _from_border(y, heads, keys)
    error = np.abs(_runs(network)(y) - y)
    return {
        "border": float(error[away <= 1].max()),
        "inside": float(error[away > 2].max()),
        "step": h,
    }


def _shapes(table: Table) -> list[tuple[str, float]]:
    rows = table.where(part="near", by="cells").rows
    return list(dict.fromkeys((str(row["target"]), float(row["width"] or 0)) for row in rows))


def _title(name: str, width: float) -> str:
    return {"tanh": f"tanh, w = {width:g}", "kink": "kink |x - t|", "jump": "jump from -1 to 1"}[name]


def _near_and_middle(table: Table, name: str, width: float, method: str) -> tuple[float, float]:
    """The largest errors over all distances near the end, and over those in the interior."""
    rows = table.where(part="near", target=name, width=width, method=method)
    distance, error = rows.numbers("distance"), rows.numbers("error")
    return float(error[distance <= NEAR].max()), float(error[distance >= MIDDLE].max())


def _against_middle(table: Table, name: str, width: float, method: str) -> str:
    near, middle = _near_and_middle(table, name, width, method)
    return f"{near / middle:.2f} ({middle:.2g})"


def _spike(table: Table, method: str) -> Finding:
    """At the finest grid, under a smooth target."""
    end, inside, cells = (_finest(table, method, column) for column in ("end", "inside", "cells"))
    evidence = f"e^x, {cells:.0f} cells: {end:.2g} near the end, {inside:.2g} inside, {end / inside:.3g} times as much"
    if method == BARE:
        evidence += f"; ghosts lower the error near the end {end / _finest(table, TUNED, 'end'):.3g} times"
    return Finding.judged(f"{method}: errors spike at the edges of the domain", end > SPIKE * inside, evidence)


def _finest(table: Table, method: str, column: str) -> float:
    return float(table.where(part="smooth", target="exp", method=method).ordered("cells").numbers(column)[-1])


def _rates(table: Table) -> list[Finding]:
    bare = table.where(part="smooth", target="exp", method=BARE)
    root = table.where(part="smooth", target="root", method=TUNED)
    return [
        falls_as(
            f"{BARE}: the error near the end of a smooth target is of order 1 in the cells",
            bare.numbers("cells"),
            bare.numbers("end"),
            -1,
            slack=0.02,
        ),
        _as_inside(table.where(part="smooth", target="exp", method=TUNED)),
        falls_as(
            f"{TUNED}: at an end with infinite slope, sqrt(1 - x), it is of order 1/2",
            root.numbers("cells"),
            root.numbers("end"),
            -0.5,
            slack=0.02,
        ),
    ]


def _as_inside(rows: Table) -> Finding:
    """Order 2 as long as the ripple of the tuned row, which is of order 1, is small against it."""
    end, inside = (fit_slope(rows.numbers("cells"), rows.numbers(column)) for column in ("end", "inside"))
    claim = f"{TUNED}: near the end the error of a smooth target falls as fast as inside"
    evidence = (
        f"slope {end} near the end, {inside} inside; -2 until the row's ripple, of order 1, shows at about 1000 cells"
    )
    return Finding.judged(claim, end.low <= inside.high and inside.low <= end.high, evidence)


def _jump_at_the_end(table: Table) -> Finding:
    """A jump that is no more than the value at the end point itself."""
    rows = table.where(part="near", target="jump", distance=0.0)
    errors = zip(rows.texts("method"), rows.numbers("error"), strict=True)
    evidence = "; ".join(f"{method}: {error:.2g}" for method, error in errors)
    claim = "jump at the very end, where ghosts are reflected about the value after it: error elsewhere"
    return Finding(claim, "measured", evidence)


def _ghosts_near(table: Table, settings: BoundarySettings, name: str, width: float) -> Finding:
    """Whether a transition near the end is followed worse than in the interior."""
    near, middle = _near_and_middle(table, name, width, TUNED)
    bare, _ = _near_and_middle(table, name, width, BARE)
    steep = f", {width * settings.cells:.2g} steps wide" if name == "tanh" else ""
    evidence = (
        f"largest error {near:.2g} near the end, {middle:.2g} inside: {near / middle:.2f} times; "
        f"without ghosts {bare:.2g} near the end"
    )
    claim = f"{_title(name, width)}{steep}: tuned cells with ghosts err {SPIKE:g} times as much near the end"
    return Finding.judged(claim, near >= SPIKE * middle, evidence)


def _fitted_anchors(table: Table) -> Finding:
    rows = table.where(part="near", by="fitted")
    near, inside = rows.numbers("distance") <= NEAR, rows.numbers("distance") >= MIDDLE
    anchors, error = rows.numbers("anchors"), rows.numbers("error")
    evidence = (
        f"{len(rows)} heads, error at most {error.max():.2g}; {anchors[near].min():.0f} to {anchors[near].max():.0f} "
        f"anchors with the transition near the end, {anchors[inside].min():.0f} to {anchors[inside].max():.0f} inside"
    )
    claim = f"fitted heads follow transitions and kinks to {TOL:g} wherever they are"
    return Finding.judged(claim, bool(error.max() <= TOL), evidence)


def _borders(table: Table, place: str) -> Finding:
    rows = table.where(part="heads", sentinels=place)
    border, inside, step = (rows.numbers(column) for column in ("border", "inside", "step"))
    evidence = "; ".join(
        f"{kind}: {b / h:.3g} h near a border, {i / h:.3g} h inside"
        for kind, b, i, h in zip(rows.texts("kind"), border, inside, step, strict=True)
    )
    healthy = table.where(part="heads", sentinels="correct").numbers("inside").max(initial=0.0)
    if place != "correct":
        evidence += f" (largest {border.max():.2g}, where max(|a|, |b|) = {max(abs(LOWER), abs(UPPER)):g})"
    if inside.max() > SPIKE * healthy:
        evidence += ": wrong everywhere, not only there"
    claim = f"sentinels {place}: errors spike between heads"
    return Finding.judged(claim, bool(np.any(border > SPIKE * inside)), evidence)


def _largest_around(error: Array, half: int) -> Array:
    """The largest error among so many neighbours on both sides: an envelope, without the zeros in between."""
    padded = np.pad(error, half, mode="edge")
    return np.asarray(np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1).max(axis=1))


def _smooth_figure(table: Table, settings: BoundarySettings) -> Any:
    from matplotlib.figure import Figure

    from attnforge.plot.rates import SERIES, Curve, draw_rates, legend_below, plain
    from attnforge.plot.style import WIDTH

    figure = Figure(figsize=(WIDTH, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    f, cells = _smooth_target("exp"), settings.cells
    away = np.linspace(0, 12, 1201)
    x = 1 - away / cells
    for (method, run), (colour, _, dash) in zip(_cells(f, cells).items(), SERIES, strict=False):
        left.semilogy(
            away, _largest_around(np.abs(run(x) - f(x[:, None])), 50), color=colour, ls=dash, lw=1.1, label=method
        )
    plain(left, "steps from the end", "largest error within half a step", f"e^x, {cells} cells")
    curves = []
    for i, method in enumerate(METHODS[:3]):
        rows, (colour, marker, _) = table.where(part="smooth", target="exp", method=method), SERIES[i]
        curves.append(
            Curve(f"{method}: near the end", rows.numbers("cells"), rows.numbers("end"), look=(colour, marker, "-"))
        )
        curves.append(Curve("_", rows.numbers("cells"), rows.numbers("inside"), look=(colour, "", ":")))
    draw_rates(right, curves, x_label="cells", y_label="largest error", title="e^x, near the end; dotted: inside")
    right.set_xticks(settings.sizes, [str(size) for size in settings.sizes])
    right.minorticks_off()
    legend_below(figure, left, 3)
    return figure


def _transition_figure(table: Table) -> Any:
    from matplotlib.figure import Figure

    from attnforge.plot.rates import draw_rates, legend_below
    from attnforge.plot.style import WIDTH

    shapes = _shapes(table)
    columns = 3 if len(shapes) > 4 else 2
    lines = math.ceil(len(shapes) / columns)
    figure = Figure(figsize=(WIDTH, 0.5 + 2.1 * lines), layout="constrained")
    panels = figure.subplots(lines, columns, squeeze=False, sharex=True, sharey=True)
    for i, (axes, (name, width)) in enumerate(zip(panels.ravel(), shapes, strict=False)):
        below, first = i + columns >= len(shapes), i % columns == 0
        draw_rates(
            axes,
            [_moved(table, name, width, method) for method in METHODS],
            x_label="steps from the end to the transition" if below else "",
            y_label="largest error" if first else "",
            title=_title(name, width),
        )
        axes.set_xscale("symlog", linthresh=1.0)
        axes.set_xticks([0, 1, 2, 4, 8, 32], ["0", "1", "2", "4", "8", "inside"])
        axes.minorticks_off()
        axes.tick_params(labelbottom=below)
    for axes in panels.ravel()[len(shapes) :]:
        axes.set_visible(False)
    legend_below(figure, panels[0][0], 4)
    return figure


def _moved(table: Table, name: str, width: float, method: str) -> Any:
    """Errors against distance, those in the interior as one point, the worst of them; tiny ones at FLOOR."""
    from attnforge.plot.rates import Curve

    rows = table.where(part="near", target=name, width=width, method=method).ordered("distance")
    distance, error = rows.numbers("distance"), np.maximum(rows.numbers("error"), FLOOR)
    near = distance < MIDDLE
    inside = error[~near].max(initial=0.0) or np.nan
    return Curve(method, [*distance[near], 32.0], [*error[near], inside])


def _heads_figure(settings: BoundarySettings) -> Any:
    """The error in a row of heads, with its sentinels correct, shifted and missing."""
    from matplotlib.figure import Figure

    from attnforge.plot.rates import SERIES, legend_below, plain
    from attnforge.plot.style import WIDTH

    figure = Figure(figsize=(WIDTH, 3.0), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    y = np.linspace(LOWER, UPPER, 8001)
    half = int(_row_step(settings.heads, settings.keys) / (y[1] - y[0]) / 2)
    for axes, kind in zip(panels, ("hard", "tuned"), strict=True):
        network = _shared_row(kind, settings.heads, settings.keys)
        for place, (colour, _, dash) in zip(PLACES, (SERIES[0], SERIES[3], SERIES[6]), strict=True):
            error = np.abs(_runs(_placed(network, place))(y) - y)
            axes.semilogy(y, _largest_around(error, half), color=colour, ls=dash, lw=1.1, label=f"sentinels {place}")
        for border in _borders_of(settings.heads, settings.keys):
            axes.axvline(border, color="#bbbbbb", lw=0.6, zorder=0)
        plain(
            axes,
            "y; grey: borders between heads",
            "largest error within half a step" if kind == "hard" else "",
            f"{settings.heads} {kind} heads",
        )
    legend_below(figure, panels[0], 3)
    return figure

r"""Max-affine partitions: the scores whose maximum chooses, the cells they make, and the values these get.

A head over cells has scores $s_j(x) = a_j \cdot x + b_j$, read here from its weights; the cell of key j is where $s_j$
is the largest. On a line cells are intervals below the upper envelope of the scores; in the plane they are convex
polygons, cut out of the domain by half-planes $s_j \ge s_k$.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.errors import RefusalError
from attnforge.labels import labels_of
from attnforge.network import Attention, Head, Linear, Network
from attnforge.network.apply import apply_layer
from attnforge.plot.given import check_compiled
from attnforge.plot.panels import Size, panels
from attnforge.plot.paths import input_names
from attnforge.plot.plane import draw_bar, label_inputs, limits
from attnforge.plot.sampling import Sectionable, known_values
from attnforge.plot.style import BLUE, GREEN, GREY, ORANGE, WIDTH
from attnforge.targets import Box, JointFunction, Target

Array = npt.NDArray[np.float64]

MOST_CELLS = 2000
FEW = 24  # cells whose scores are drawn as lines of their own, and whose centres are marked large
SAMPLES = 1025
SLIVER = 1e-9  # of the domain: smaller cells are rounding
AFFINE = 1e-6  # of the largest score: how far scores may be from affine, by rounding


@dataclass(frozen=True, eq=False)
class Cells:
    """Scores slopes x + offsets, slopes (N, D) and offsets (N,); values (N,); centres (N, D) where claimed."""

    slopes: Array
    offsets: Array
    values: Array
    centres: Array | None

    def scores(self, points: Array) -> Array:
        """(M, N) scores at points (M, D)."""
        return np.asarray(points @ self.slopes.T + self.offsets)


def partition(net: Sectionable, *, ax: Any = None, figsize: Size | None = None) -> Any:
    """The cells of a network that divides its domain: hard grids, Voronoi cells and adaptive ones alike.

    One input: above, every cell's score and their maximum, which chooses; below, the cells with their values, the
    network's output and, where it is known, the target. Two inputs: the cells coloured by value, and their centres.

    Args:
        net: a compiled target.
        ax: where to draw, as :mod:`attnforge.plot.panels` says; None makes a new figure.
        figsize: width and height of a new figure, in inches.

    >>> import attnforge as af
    >>> net = af.constructions.max_affine("x*y", {"x": (0, 1), "y": (0, 1)}, cells=[[0.2, 0.5], [0.7, 0.1]])
    >>> len(partition(net).axes[0].collections[0].get_paths())
    2
    """
    check_compiled(net, "partition")
    box = _flat(net.target.domain)
    if box.lower.size not in (1, 2) or not (box.upper > box.lower).all():
        raise _refusal(f"a domain of {box.lower.size} inputs", "Cells are drawn for one or two inputs that vary")
    cells = cells_of(net.network, net.target)
    draw = _intervals if box.lower.size == 1 else _polygons
    return draw(net, cells, ax, figsize)


def cells_of(network: Network, target: Target) -> Cells:
    """Slopes, offsets and values of the cells, read from the weights; refused where scores are not affine."""
    head = _selecting(network)
    lower, upper = target.domain.lower.ravel(), target.domain.upper.ravel()
    corners = np.vstack([lower, lower + np.diag(upper - lower)])
    at_corners, values = _scores(network, head, target, corners)
    slopes = ((at_corners[1:] - at_corners[0]) / (upper - lower)[:, None]).T
    cells = Cells(slopes, at_corners[0] - slopes @ lower, values, _centres(network, len(slopes), len(lower)))
    inside = np.random.default_rng(0).uniform(lower, upper, size=(8, len(lower)))
    found = _scores(network, head, target, inside)[0]
    if not np.abs(found - cells.scores(inside)).max() <= AFFINE * max(1.0, float(np.abs(found).max())):
        raise _refusal("scores that are not affine", "Cells need affine scores")
    if len(slopes) > MOST_CELLS:
        raise _refusal(f"{len(slopes):,} cells", f"At most {MOST_CELLS:,} cells can be told apart")
    return cells


def draw_scores(axes: Any, box: Box, cells: Cells) -> None:
    """The score of every cell, and the largest of them, along one input."""
    x = np.linspace(box.lower.item(), box.upper.item(), SAMPLES)
    scores = cells.scores(x[:, None])
    largest = scores.max(axis=1)
    if scores.shape[1] <= FEW:
        axes.plot(x, scores, color=GREY, lw=0.7, alpha=0.8)
        axes.plot([], [], color=GREY, lw=0.7, label="score of a cell")
    axes.plot(x, largest, color=BLUE, lw=1.6, label="the largest, which chooses")
    spread = float(np.ptp(largest)) or 1.0
    axes.set_ylim(largest.min() - 0.6 * spread, largest.max() + 0.1 * spread)
    axes.set_ylabel("score")


def draw_cells(axes: Any, box: Box, cells: Cells, ends: tuple[float, float] | None = None) -> Any:
    """Polygons coloured by value, between ``ends``, and their centres; returns the image, for a colour bar."""
    from matplotlib.collections import PolyCollection

    (left, low), (right, high) = box.lower, box.upper
    corners = np.array([[left, low], [right, low], [right, high], [left, high]])
    least = SLIVER * float((box.upper - box.lower).prod())  # a ghost's cell may touch the edge, and rounding moves it
    found = {j: polygon for j in range(len(cells.values)) if _area(polygon := _polygon(cells, j, corners)) > least}
    inside = list(found)
    shown = PolyCollection(
        list(found.values()),
        array=cells.values[inside],
        cmap="viridis",
        clim=ends or limits(cells.values[inside]),
        edgecolors="white",
        linewidths=0.8 if len(found) <= 400 else 0.3,
    )
    axes.add_collection(shown)
    axes.set_xlim(box.lower[0], box.upper[0])
    axes.set_ylim(box.lower[1], box.upper[1])
    if cells.centres is not None and len(found) <= 400:
        at = cells.centres[inside]
        size = 12 if len(found) <= 100 else 4
        axes.scatter(at[:, 0], at[:, 1], s=size, color=ORANGE, edgecolors="white", linewidths=0.5, zorder=3)
    return shown


def _intervals(net: Sectionable, cells: Cells, ax: Any, figsize: Size | None) -> Any:
    box = _flat(net.target.domain)
    drawn = panels(ax, figsize, (WIDTH, 5.0), lambda figure: figure.subplots(2, 1, sharex=True), count=2)
    top, bottom = drawn.axes
    draw_scores(top, box, cells)
    drawn.legend(top)
    breaks, chosen = _breaks(cells, box)
    for axes in (top, bottom):
        for place in breaks[1:-1] if len(breaks) <= 2 * FEW else ():
            axes.axvline(place, color=GREEN, lw=0.7, ls=":")
    x = np.linspace(box.lower.item(), box.upper.item(), SAMPLES)
    wanted = known_values(net.target, x.reshape(-1, *net.target.domain.shape))
    if wanted is not None:
        bottom.plot(x, wanted.reshape(len(x), -1)[:, 0], color=GREY, lw=3.5, alpha=0.5, label="target")
    bottom.stairs(cells.values[chosen], breaks, baseline=None, color=ORANGE, lw=1.8, label="value of the cell")
    output = np.asarray(net.at_points(x.reshape(-1, *net.target.domain.shape))).reshape(SAMPLES, -1)[:, 0]
    bottom.plot(x, output, color=BLUE, lw=1, ls="--", label="attention output")
    bottom.set_ylabel("value")
    bottom.set_xlabel((net.target.names or ("x",))[0], parse_math=False)
    drawn.legend(bottom)
    bottom.set_xlim(x[0], x[-1])
    drawn.figure.align_ylabels(drawn.axes)
    drawn.head(net.construction, net.target.describe(), f"{len(chosen)} cells")
    return drawn.finished()


def _polygons(net: Sectionable, cells: Cells, ax: Any, figsize: Size | None) -> Any:
    box = _flat(net.target.domain)
    drawn = panels(ax, figsize, (4.6, 4.9))
    axes = drawn.axes[0]
    image = draw_cells(axes, box, cells)
    draw_bar(drawn.figure, image, axes, "value of the cell")
    label_inputs((axes,), input_names(net.target))
    count = len(image.get_paths())
    drawn.head(net.construction, net.target.describe(), f"{count:,} cells; dots: their centres")
    return drawn.finished()


def _breaks(cells: Cells, box: Box) -> tuple[Array, npt.NDArray[np.intp]]:
    """Ends of the intervals and the cell of each, along one input: walk from crossing to crossing of the envelope."""
    at, end = box.lower.item(), box.upper.item()
    least = SLIVER * (end - at)
    current = int(np.lexsort((cells.slopes[:, 0], cells.scores(np.array([[at + least]]))[0]))[-1])
    breaks, chosen = [at], [current]
    while True:
        steeper = np.flatnonzero(cells.slopes[:, 0] > cells.slopes[current, 0])
        gap = cells.offsets[current] - cells.offsets[steeper]
        crossings = gap / (cells.slopes[steeper, 0] - cells.slopes[current, 0])
        if not len(steeper) or not crossings.min() < end - least:
            return np.array([*breaks, end]), np.array(chosen)
        first = np.flatnonzero(crossings == crossings.min())
        current = int(steeper[first][cells.slopes[steeper[first], 0].argmax()])
        breaks, chosen = [*breaks, float(crossings.min())], [*chosen, current]


def _area(polygon: Array) -> float:
    x, y = polygon.T
    return float(abs(x @ np.roll(y, -1) - y @ np.roll(x, -1))) / 2


def _polygon(cells: Cells, j: int, corners: Array) -> Array:
    """The corners of cell j in the box: cut by the half-plane that is violated most, until none is."""
    polygon = corners
    size = max(1.0, float(np.abs(cells.scores(corners)).max()))
    while len(polygon) > 2:
        lead = cells.scores(polygon)[:, j : j + 1] - cells.scores(polygon)
        lead[:, j] = 0.0
        worst = int(lead.min(axis=0).argmin())
        if lead[:, worst].min() >= -1e-12 * size:
            return polygon
        polygon = _cut(polygon, lead[:, worst])
    return polygon


def _cut(polygon: Array, lead: Array) -> Array:
    """The part of a convex polygon where a function, affine on it and given at its corners, is not negative."""
    kept: list[Array] = []
    for here, there, now, then in zip(polygon, np.roll(polygon, -1, axis=0), lead, np.roll(lead, -1), strict=True):
        if now >= 0:
            kept.append(here)
        if (now >= 0) != (then >= 0):
            kept.append(here + now / (now - then) * (there - here))
    return np.array(kept).reshape(-1, 2)


def _selecting(network: Network) -> Head:
    """The head that chooses a cell: alone in its layer, behind linear maps, and saying that its keys are cells."""
    before = [layer for layer in network.layers if isinstance(layer, Attention)]
    head = before[0].heads[0] if before and len(before[0].heads) == 1 else None
    roles = set(labels_of(network).heads[0].roles) if head is not None else set()
    if head is None or len(before) != 1 or not {"cell", "centre"} & roles:
        raise _refusal(
            f"a network of {network.construction or 'no construction'}", "Only heads over cells divide a domain"
        )
    return head


def _scores(network: Network, head: Head, target: Target, points: Array) -> tuple[Array, Array]:
    """Scores (M, N) and first values (N,) of the first token's cells at flat points (M, D)."""
    tokens, context = points.reshape(len(points), *_token_shape(target)), None
    if isinstance(target, JointFunction):
        x, y = target.split(points)
        tokens = y.reshape(len(points), -1, network.features)
        context = x.reshape(len(points), -1, (network.context or (None, 1))[1])
        for told in network.context_layers:
            context = apply_layer(told, context)
    for layer in network.layers:
        if not isinstance(layer, Linear):
            break
        tokens = apply_layer(layer, tokens)
    queries = (head.query_rows.take(tokens) @ head.query)[:, 0]
    keys, values = [], []
    if head.memory_keys is not None and head.memory_values is not None:
        keys.append(np.broadcast_to(head.memory_keys, (len(points), *head.memory_keys.shape)))
        values.append(head.memory_values)
    if head.key_rows is not None and head.key is not None and head.value is not None:
        rows = head.key_rows.take(tokens if head.key_rows.source == "state" or context is None else context)
        keys.append(rows @ head.key)
        values.append(rows[0] @ head.value)
    scores = np.einsum("mr,mkr->mk", queries, np.concatenate(keys, axis=1))
    count = scores.shape[1] // (target.domain.shape[0] if target.layout == "tokens" else 1)
    return scores[:, :count], (np.concatenate(values) @ head.output)[:count, 0]


def _flat(box: Box) -> Box:
    """All inputs in a row, also those of several tokens."""
    return Box(box.lower.ravel(), box.upper.ravel())


def _token_shape(target: Target) -> tuple[int, int]:
    shape = target.domain.shape
    return (shape[0], shape[1]) if len(shape) == 2 else (1, shape[0])


def _centres(network: Network, count: int, inputs: int) -> Array | None:
    """Where the first token's cells stand, by the labels of the only head."""
    places = labels_of(network).heads[0].places
    if places is None or places.shape[1] != inputs:
        return None
    return places[:count] if len(places) >= count else None


def _refusal(got: str, requirement: str) -> RefusalError:
    return RefusalError(requirement, got, "Use plot.section")

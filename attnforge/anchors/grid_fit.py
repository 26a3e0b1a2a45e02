r"""A function of several variables, fitted by one head over a product grid of anchors.

On a product grid the softmax factorises, $w_{k_1 \dots k_r}(x) = \prod_a w^{(a)}_{k_a}(x_a)$, so a head is a tensor
contracted with one softmax an axis. The fit follows:

1. every axis is resolved along a few lines (:mod:`attnforge.anchors.resolve`), which finds its kinks;
2. f is evaluated once on the product of the panels' nodes; where interpolation misses f at fresh points, the axis whose
   coefficients have decayed least is refined;
3. every axis gets the fewest anchors that reproduce f along it, and its fit, a matrix from nodes to anchors, is applied
   along that axis. Memory stays that of the grid.

With P_a the operator "fit, then evaluate" of axis a, $\prod P_a - 1 = \sum_a (\prod_{b<a} P_b)(P_a - 1)$: the errors of
the axes add up, times the norms of the other operators, which are near 1. The tolerance is shared so that the grid is
smallest.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

import numpy as np
import numpy.typing as npt

from attnforge.anchors.axis import Axis
from attnforge.anchors.axis_search import AxisSearch
from attnforge.anchors.cells import product as grid_of
from attnforge.anchors.edges import Edge
from attnforge.anchors.fitting import FINEST_CUT, Fit, cuts_between
from attnforge.anchors.fresh_points import fresh
from attnforge.anchors.panels import Panels
from attnforge.anchors.reproducible import Decomposition, product
from attnforge.anchors.resolve import resolve
from attnforge.anchors.saturation import ghosts_for
from attnforge.anchors.smooth_values import SmoothFit
from attnforge.anchors.ties import CLEARLY, first_of_least
from attnforge.effort import check_time
from attnforge.errors import RefusalError, TargetError, ToleranceError

Array = npt.NDArray[np.float64]
Sampled = Callable[[Array], Array]

LINES = 4  # lines along which an axis is resolved, besides the one through the middle
COLUMNS = 64  # lines of the grid on which the anchors of an axis are chosen
FRESH = 1000  # random points at which interpolation and fit are checked
ROUNDS = 8
PROXY = 0.05  # of the tolerance, for the interpolation that stands for f
TAME, TAMEST = 128.0, 1e3  # times f, what weights times absolute values may sum to: along one axis, and up to four
ACCURACIES = (1e-12, 1e-9, 1e-6, 1e-3)  # to which f is resolved where no tolerance is asked for: the first that goes
DENSE = 2  # samples an anchor to which values are fitted where the sharpness is given; as many check them
COARSEST = 1e-3  # of the cuts tried there
TEMPERATURES = tuple(2.0 ** (i / 2) for i in range(-7, 6))  # tried at given positions: from 0.09, soft, to 5.7, hard
MOST_SAMPLES, MOST_ANCHORS = 4_000_000, 4_000_000


@dataclass(frozen=True, eq=False)
class GridFit:
    """Axes and values (p_1, .., p_r, k) of a head; the largest error seen at fresh points; how well posed it was."""

    axes: tuple[Axis, ...]
    values: Array
    error: float
    condition: float
    edges: tuple[tuple[Edge, ...], ...]

    @property
    def anchors(self) -> int:
        """Anchors in all, ghosts counted."""
        return math.prod(len(axis) for axis in self.axes)

    @property
    def is_graded(self) -> bool:
        """Whether any axis has anchors of unequal gaps."""
        return any(axis.is_graded for axis in self.axes)

    def at(self, points: Array) -> Array:
        """The head's output (N, k) at (N, r) points, by one softmax an axis."""
        return contract([axis.weights(points[:, a]) for a, axis in enumerate(self.axes)], self.values)


@dataclass(frozen=True, eq=False)
class Grid:
    """f on the product of panels' nodes: values (M_1, .., M_r, k)."""

    panels: tuple[Panels, ...]
    edges: tuple[tuple[Edge, ...], ...]
    values: Array

    @classmethod
    def sampled(cls, f: Sampled, panels: Sequence[Panels], edges: Sequence[tuple[Edge, ...]]) -> Grid:
        """Evaluate f once at every node."""
        nodes = [panel.nodes for panel in panels]
        count = math.prod(len(axis) for axis in nodes)
        if count > MOST_SAMPLES:
            got = f"{' x '.join(str(len(axis)) for axis in nodes)} = {count:.2g} samples"
            remedy = "Raise tol, or look for structure: a sum of terms of few variables, a function of one linear form"
            raise RefusalError(f"A grid may need at most {MOST_SAMPLES:,} values of f", got, remedy)
        points = np.stack(np.meshgrid(*nodes, indexing="ij"), axis=-1).reshape(-1, len(nodes))
        return cls(tuple(panels), tuple(edges), f(points).reshape(*(len(axis) for axis in nodes), -1))

    def at(self, points: Array) -> Array:
        """The piecewise polynomial's values (N, k) at (N, r) points."""
        return contract([panel.interpolation(points[:, a]) for a, panel in enumerate(self.panels)], self.values)

    def lines(self, axis: int) -> Array:
        """F along the axis: (M, q) for up to COLUMNS lines, the most varying and a spread of others."""
        flat = np.moveaxis(self.values, axis, 0).reshape(self.values.shape[axis], -1)
        if flat.shape[1] <= COLUMNS:
            return flat
        varying = np.argsort(-_told_apart(np.ptp(flat, axis=0)), kind="stable")[: COLUMNS // 2]
        spread = np.linspace(0, flat.shape[1] - 1, COLUMNS // 2).astype(int)
        return flat[:, np.unique(np.concatenate([varying, spread]))]

    def decay(self, axis: int) -> float:
        """The largest of the last two coefficients along the axis: how far it is from being resolved."""
        flat = np.moveaxis(self.values, axis, 0).reshape(self.values.shape[axis], -1)
        return max(float(np.abs(part[-2:]).max()) for part in self.panels[axis].coefficients(flat))

    def refined(self, f: Sampled, axis: int) -> Grid:
        """More nodes along one axis."""
        panels = list(self.panels)
        old = panels[axis]
        panels[axis] = Panels(old.edges, tuple(degree + max(2, degree // 4) for degree in old.degrees))
        return Grid.sampled(f, panels, self.edges)


def _told_apart(sizes: Array) -> Array:
    """Sizes that only roundings tell apart are equal: nine digits of the largest."""
    return np.asarray(np.round(sizes / (sizes.max() or 1.0), 9), dtype=np.float64)


def fit_grid(f: Sampled, lower: Array, upper: Array, tol: float, roundoff: float = 2.0**-53) -> GridFit:
    """The smallest product grid of fitted anchors found for f on the box, with error at most tol at fresh points.

    Args:
        f: maps (N, r) points of the box to (N, k) values.
        lower, upper: (r,) ends of the box.
        tol: largest error asked for.
        roundoff: of the dtype that runs: rounding is about that times the sum of weights times absolute values, which
            must therefore stay small against tol.
    """
    f = _finite(f)
    points = _judging(lower, upper)
    wanted = f(points)
    size = float(np.abs(wanted).max())
    if tol < 4 * roundoff * size:
        got = f"tol={tol:g} for values up to {size:.3g}"
        remedy = f"Ask for tol >= {1.05 * 4 * roundoff * size:.2g}"  # 1.05: two digits never round below what is needed
        raise ToleranceError(f"A tolerance must exceed rounding, {roundoff:.1g} of the values", got, remedy)
    grid = _resolved(f, lower, upper, tol, points, wanted)
    in_all = TAMEST ** max(1.0, len(lower) / 4)  # of more than four axes, each may have what one of four has
    most = min(TAME ** len(lower), in_all), in_all
    limits = sorted({max(2 * size, min(each * size, tol / (16 * roundoff))) for each in most})
    for tame in limits[:-1]:
        try:
            return _fitted(grid, points, wanted, tol, roundoff, tame)
        except RefusalError:
            pass
    return _fitted(grid, points, wanted, tol, roundoff, limits[-1])


def _fitted(grid: Grid, points: Array, wanted: Array, tol: float, roundoff: float, tame: float) -> GridFit:
    """The smallest fit found whose weights times absolute values sum to at most ``tame``, or not where nothing does."""
    size, share, finest, best = float(np.abs(wanted).max()), 0.7 * tol, FINEST_CUT, None
    allowed = size * (tame / size) ** (1 / len(grid.panels)) if size else tame  # the sizes of the axes multiply
    searches = _searches(grid, tol, finest, allowed, roundoff)
    for _ in range(ROUNDS):
        check_time("fitting values")
        try:
            found = _assembled(grid, _shared_out(searches, share))
        except RefusalError:
            if best is None:
                raise
            return best
        error = float(np.abs(found.at(points) - wanted).max())
        wild = float(replace(found, values=np.abs(found.values)).at(points).max()) > tame
        if error <= tol:
            best = replace(found, error=error)
            if not wild:
                return best
        if wild:
            finest = max(3 * finest, 3 / found.condition)  # just coarser than what was used
            searches = _searches(grid, tol, finest, allowed, roundoff)
        if error > tol:
            share *= 0.5 * tol / error
    if best is None:
        raise RefusalError(f"The fit must reach tol={tol:.3g} at fresh points", f"{error:.3g}", "Raise tol")
    return best


def fit_counts(f: Sampled, lower: Array, upper: Array, counts: Sequence[int], roundoff: float = 2.0**-53) -> GridFit:
    """The best fit found with the given numbers of anchors on the domain along the axes; ghosts come on top.

    Cuts are no finer than the rounding of the dtype that runs: values that grow beyond it would be its noise.
    """
    f = _finite(f)
    points = _judging(lower, upper)
    wanted = f(points)
    size = float(np.abs(wanted).max()) or 1.0
    for accuracy in ACCURACIES:
        try:
            grid = _resolved(f, lower, upper, accuracy * size, points, wanted)
            break
        except RefusalError:
            if accuracy == ACCURACIES[-1]:
                raise
    searches = _searches(grid, accuracy * size, FINEST_CUT * roundoff * 2.0**53)
    found = _assembled(grid, [search.inside(count) for search, count in zip(searches, counts, strict=True)])
    return replace(found, error=float(np.abs(found.at(points) - wanted).max()))


def fit_sharpness(
    f: Sampled, lower: Array, upper: Array, counts: Sequence[int], beta: float, roundoff: float = 2.0**-53
) -> GridFit:
    r"""Values fitted to uniform anchors of a given sharpness: what a temperature can do, good or bad.

    Anchors lie from end to end of every axis, h apart, with scores $\beta(2 x L - L^2)$, that is $c = \beta h^2$, and
    ghosts as far as their weight $e^{-c g^2}$ exceeds the rounding, but no more of them than anchors a side. Values are
    found axis by axis from :data:`DENSE` samples an anchor, by the cut that errs least at the points between these.

    >>> fit = fit_sharpness(lambda x: np.sin(8 * x), np.array([-1.0]), np.array([1.0]), [33], beta=0.3 * 16**2)
    >>> len(fit.axes[0]), fit.error < 1e-11
    (57, True)
    """
    axes = [_soft_axis(*ends, beta, roundoff) for ends in zip(lower, upper, counts, strict=True)]
    nodes = [np.linspace(axis.lower, axis.upper, 2 * DENSE * len(axis) + 1) for axis in axes]
    return _fit_rows(f, lower, upper, [[axis] for axis in axes], nodes, roundoff)


def fit_positions(
    f: Sampled,
    lower: Array,
    upper: Array,
    positions: Sequence[Array],
    beta: float | None = None,
    roundoff: float = 2.0**-53,
) -> GridFit:
    r"""Values fitted to anchors at given positions along every axis, which are all there are: ghosts, too, are given.

    Scores are $\beta(2 x L - L^2)$; without $\beta$ the temperature follows the gaps (:meth:`.axis.Axis.graded`), and
    of :data:`TEMPERATURES` c each axis has the one whose fit errs least. Values are found as in :func:`fit_sharpness`,
    from samples in every gap.

    >>> at = np.array([-1.2, -1.0, -0.4, 0.0, 0.4, 1.0, 1.2])
    >>> fit = fit_positions(lambda x: np.sin(2 * x), np.array([-1.0]), np.array([1.0]), [at])
    >>> fit.anchors, fit.error < 1e-3
    (7, True)
    """
    rows, nodes = [], []
    for at, *ends in zip(positions, lower.tolist(), upper.tolist(), strict=True):
        rows.append([_graded(at, c, *ends) for c in TEMPERATURES] if beta is None else [_scaled(at, beta, *ends)])
        gaps = np.unique(np.clip([ends[0], *at.tolist(), ends[1]], *ends))
        dense = 2 * math.ceil(DENSE * len(at) / (len(gaps) - 1))
        nodes.append(np.unique(np.concatenate([np.linspace(a, b, dense + 1) for a, b in itertools.pairwise(gaps)])))
    return _fit_rows(f, lower, upper, rows, nodes, roundoff)


def _graded(at: Array, c: float, lower: float, upper: float) -> Axis:
    return Axis.graded(at, lower, upper, c, float(at[int(np.argmin(np.diff(at)))]))


def _scaled(at: Array, beta: float, lower: float, upper: float) -> Axis:
    step = float((at[-1] - at[0]) / (len(at) - 1))
    return Axis.scaled(at, step, _per_step(beta, step), (lower, upper))


def _fit_rows(
    f: Sampled, lower: Array, upper: Array, rows: Sequence[Sequence[Axis]], nodes: list[Array], roundoff: float
) -> GridFit:
    """Values found axis by axis from samples at the product of nodes, by the row of each axis that errs least there."""
    f = _finite(f)
    count = math.prod(len(each) for each in nodes)
    if count > MOST_SAMPLES:
        raise RefusalError(
            f"A grid may need at most {MOST_SAMPLES:,} values of f", f"{count:,}", "Ask for fewer anchors"
        )
    values, axes, conditions = f(grid_of(nodes)).reshape(*(len(each) for each in nodes), -1), list[Axis](), [1.0]
    for a, (offered, x) in enumerate(zip(rows, nodes, strict=True)):
        samples = np.moveaxis(values, a, 0)
        fits = [_values_at(axis, x, samples, FINEST_CUT * roundoff * 2.0**53) for axis in offered]
        best = first_of_least([residual for *_, residual in fits])
        fitted, condition, _ = fits[best]
        values, axes, conditions = np.moveaxis(fitted, 0, a), [*axes, offered[best]], [*conditions, condition]
    found = GridFit(tuple(axes), values, math.inf, max(conditions), ((),) * len(axes))
    points = _judging(lower, upper)
    return replace(found, error=float(np.abs(found.at(points) - f(points)).max()))


def _soft_axis(lower: float, upper: float, count: int, beta: float, roundoff: float) -> Axis:
    """``count`` anchors from end to end, and ghosts."""
    step = (upper - lower) / (count - 1)
    c = _per_step(beta, step)
    ghosts = min(ghosts_for(roundoff, c), count)
    return Axis.uniform(lower, upper, count + 2 * ghosts, ghosts, c)


def _per_step(beta: float, step: float) -> float:
    """The number c."""
    c = beta * step * step
    if not 0 < c < math.inf:
        got = f"beta={beta:g} with a step of {step:g}"
        raise RefusalError("beta h^2 must be a positive number", got, "Choose another sharpness")
    return c


def _values_at(axis: Axis, x: Array, samples: Array, finest: float) -> tuple[Array, float, float]:
    """Values (p, ...) of anchors from samples (M, ...) of f: every other point is fitted, the rest choose the cut.

    Beside them how well posed the fit was, and by how much it errs there.
    """
    flat = samples.reshape(len(x), -1)
    check_time("fitting values")
    factors, between = Decomposition.of(axis.weights(x[::2])), axis.weights(x[1::2])
    solved, s = factors.solved(factors.projected(flat[::2])), factors.sizes
    best, least, condition = np.zeros((len(s), flat.shape[1])), math.inf, 1.0
    for cut in cuts_between(COARSEST, finest):
        rank = int((s >= cut * s[0]).sum())
        values = factors.values(solved, rank)
        residual = float(np.abs(product(between, values) - flat[1::2]).max())
        if residual < CLEARLY * least:
            best, least, condition = values, residual, float(s[0] / s[rank - 1])
    return best.reshape(len(s), *samples.shape[1:]), condition, least


def contract(matrices: Sequence[Array], values: Array) -> Array:
    """Rows of one matrix an axis against the tensor (p_1, .., p_r, k): (N, k), in pieces that fit the memory."""
    total, size = len(matrices[0]), max(1, int(np.prod(values.shape[1:])))
    step = max(1, min(total, 2**24 // size))
    return np.concatenate([_contracted([m[i : i + step] for m in matrices], values) for i in range(0, total, step)])


def _contracted(matrices: Sequence[Array], values: Array) -> Array:
    mixed = np.tensordot(matrices[0], values, axes=1)
    for matrix in matrices[1:]:
        mixed = np.matmul(matrix[:, None, :], mixed.reshape(len(matrix), matrix.shape[1], -1))[:, 0]
    return mixed.reshape(len(mixed), values.shape[-1])


def _resolved(f: Sampled, lower: Array, upper: Array, tol: float, points: Array, wanted: Array) -> Grid:
    """F on a grid of nodes fine enough that interpolation is within PROXY of the tolerance."""
    panels, edges = zip(*(_axis_panels(f, lower, upper, a, tol) for a in range(len(lower))), strict=True)
    grid = Grid.sampled(f, panels, edges)
    size = float(np.abs(grid.values).max())
    for _ in range(4 * ROUNDS):
        check_time("resolving the target")
        error = float(np.abs(grid.at(points) - wanted).max())
        if error <= max(5 * PROXY * tol, 1e-14 * size) or len(lower) == 1:
            return grid
        grid = grid.refined(f, first_of_least([-grid.decay(a) for a in range(len(lower))]))
    requirement = f"Interpolation on a grid must reach {5 * PROXY * tol:.2g}"
    raise RefusalError(requirement, f"{error:.2g}", "f is rough away from the axes: raise tol")


def _axis_panels(f: Sampled, lower: Array, upper: Array, axis: int, tol: float) -> tuple[Panels, tuple[Edge, ...]]:
    """Panels and kinks of one axis, along the line through the middle and LINES others."""
    rng = np.random.default_rng(axis)
    others = rng.uniform(lower, upper, size=(LINES if len(lower) > 1 else 0, len(lower)))
    bases = np.vstack([(lower + upper) / 2, others])

    def along_lines(x: Array) -> Array:
        points = np.repeat(bases[None], len(x), axis=0)
        points[:, :, axis] = x[:, None]
        return f(points.reshape(-1, len(lower))).reshape(len(x), -1)

    found = resolve(along_lines, float(lower[axis]), float(upper[axis]), PROXY * tol)
    jumps = [edge for edge in found.edges if edge.order == 0 and edge.jump > 2 * tol]
    if jumps:
        got = f"a jump of {jumps[0].jump:.3g} at {jumps[0].at:.10g} along axis {axis}"
        remedy = f"No tol below {jumps[0].jump / 2:.3g} can be reached; use max_affine with norm=1, or split the domain"
        raise TargetError("A continuous network can only follow a continuous function", got, remedy)
    if not found.resolved:
        raise RefusalError(f"f must be resolved along axis {axis}", found.reason, "Raise tol")
    return found.panels, found.edges


def _judging(lower: Array, upper: Array) -> Array:
    """Where a fit is judged: random points, half of them on faces, and the corners."""
    corners = grid_of([np.array(ends) for ends in zip(lower, upper, strict=True)])
    return np.vstack([fresh(lower, upper, FRESH, 0), corners])


def _finite(f: Sampled) -> Sampled:
    """f, refusing points where it is not finite."""

    def checked(points: Array) -> Array:
        values = f(points)
        bad = ~np.isfinite(values).all(axis=1)
        if bad.any():
            where = ", ".join(f"{x:.6g}" for x in points[bad.argmax()])
            raise TargetError("The function must be finite on its domain", f"NaN or infinity at ({where})", "Shrink it")
        return values

    return checked


def _searches(grid: Grid, tol: float, finest: float, tame: float = math.inf, roundoff: float = 0.0) -> list[AxisSearch]:
    axes = range(len(grid.panels))
    limits = (tol / len(axes), finest, int(MOST_ANCHORS ** (1 / len(axes))) * 4, tame, roundoff)
    return [AxisSearch(grid.panels[a], grid.edges[a], grid.lines(a), *limits) for a in axes]


def _shared_out(searches: Sequence[AxisSearch], tol: float) -> list[Fit]:
    """A fit an axis: first equal shares of the tolerance, then fewer anchors wherever the sum still allows it."""
    fits = [search.smallest(tol / len(searches)) for search in searches]
    while True:
        spare = tol - sum(fit.residual for fit in fits)
        options = []
        for a, (search, fit) in enumerate(zip(searches, fits, strict=True)):
            if not search.is_graded and len(fit.axis) > 1:
                fewer = search.uniform(len(fit.axis) - 1, fit.residual + spare)
                if fewer is not None and fewer.residual - fit.residual <= spare:
                    options.append((len(fewer.axis) / len(fit.axis), fewer.residual - fit.residual, a, fewer))
        if not options:
            return fits
        least = [option for option in options if option[0] == min(options, key=itemgetter(0))[0]]
        _, _, a, fewer = least[first_of_least([spent for _, spent, *_ in least])]
        fits[a] = fewer


def _assembled(grid: Grid, fits: Sequence[Fit | SmoothFit]) -> GridFit:
    """The fits' operators applied along the axes."""
    values = grid.values
    for a, fit in enumerate(fits):
        values = np.moveaxis(fit.values(np.moveaxis(values, a, 0)), 0, a)
    return GridFit(tuple(fit.axis for fit in fits), values, math.inf, max(fit.condition for fit in fits), grid.edges)

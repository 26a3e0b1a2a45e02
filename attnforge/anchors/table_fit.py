r"""A table on a product grid, fitted by one head: the data are met, and between them the head follows a spline.

Along one axis with data $y_i$ at $t_i$, let S be the interpolating spline (cubic, not-a-knot). Values v of the anchors
are those of
$$ \min_v \sum_i \big((Wv)(t_i) - y_i\big)^2 + \omega^2 \sum_j \big((Wv)(x_j) - S(x_j)\big)^2 , $$
the $x_j$ lying between the data. The output space of a row of anchors at the data holds functions near any spline on
them, and W at its own anchors is well conditioned: its smallest singular value is about $2e^{-\pi^2/4c}$, so for
$c \ge 1/3$ data are met whatever they are. With S met up to $\delta$, the data are missed by about $\omega^2\delta$:
a small $\omega$ meets them and leaves no freedom to oscillate.

Smooth data on a fine grid need fewer anchors than data: the smallest number is searched that meets the data within the
tolerance and stays near S. How near is decided by the doubt of S itself, its distance to the quintic spline: to follow
S more closely would say nothing of the function behind the data.

Everything is linear in the data, so on a grid it is applied axis by axis, in memory proportional to the table.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.interpolate import make_interp_spline

from attnforge.anchors.axis import Axis
from attnforge.anchors.saturation import ghosts_for, sharpness_for
from attnforge.anchors.scattered import rounded_up, spread
from attnforge.effort import check_time, in_force
from attnforge.errors import RefusalError, ToleranceError

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

MOST = 1500  # anchors along one axis: a fit costs the cube of them
MOST_ANCHORS = 4_000_000
COLUMNS = 64  # lines of the grid on which the anchors of an axis are chosen
MANY = 160  # anchors along an axis: beyond, few sharpnesses and ghosts are tried
DENSE = 4  # data an anchor from which nothing between them need be fitted
ROWS = 20  # data an anchor that are fitted; all are checked
CHECKS = 4096  # data, and places between them, where trials are checked
BLOCK = 2**22  # weights held at once
ROUNDS = 6
CUTS = (1e-4, 1e-7, 1e-10, 1e-13)  # of the singular values, relative: coarse ones keep the values tame
PULLS = (1e-1, 1e-2, 1e-3, 1e-5, 1e-7)  # omega where anchors sit at the data
GENTLE = 1e-5  # omega of fewer anchors than data: smooth data say more than their spline
SHARPNESSES = (0.5, 0.7, 0.36, 1.0, 0.25)  # c there
INNER, BETWEEN = (1 / 6, 1 / 2, 5 / 6), (0.3, 0.55)  # of a gap: where S is fitted, and where it is checked
TAMEST = 1e3  # values are at most so many times the data where that can be avoided


@dataclass(frozen=True, eq=False)
class TableFit:
    """Axes and values (p_1, .., p_d, k) of a head; its largest ``error`` at the data.

    ``departure`` is the largest distance to the spline seen between the data, along single axes.
    """

    axes: tuple[Axis, ...]
    values: Array
    error: float
    departure: float

    @property
    def anchors(self) -> int:
        """Anchors in all, ghosts counted."""
        return math.prod(len(axis) for axis in self.axes)

    @property
    def is_graded(self) -> bool:
        """Whether any axis has anchors of unequal gaps."""
        return any(axis.scale == 1.0 and axis.linear == 1.0 for axis in self.axes)


@dataclass(frozen=True, eq=False)
class AxisFit:
    """Anchors along one axis, the weight ``pull`` of the spline between the data, and the cut of singular values.

    ``residual`` is the largest error at the data, ``departure`` the largest distance to the spline between them, and
    ``size`` the largest value.
    """

    data: DataAxis
    axis: Axis
    pull: float
    cut: float
    residual: float
    departure: float
    size: float

    def values(self, data: Array) -> Array:
        """Values (p, ...) of the anchors from data (m, ...), in two steps to keep rounding out of small directions."""
        flat = data.reshape(len(data), -1)
        u, s, vt = self.data.decomposed(self.axis, self.pull)
        rank = int((s >= self.cut * s[0]).sum())
        projected = u[:, :rank].T @ self.data.wanted(flat, len(self.axis), self.pull)
        return ((vt[:rank].T / s[:rank]) @ projected).reshape(-1, *data.shape[1:])


class DataAxis:
    """Data along one axis: positions ``at`` (m,), increasing, and ``lines`` (m, q) of values there."""

    def __init__(self, at: Array, lines: Array, tame: float) -> None:
        self.at, self.lines, self.tame = at, lines, tame
        self.size = float(np.abs(lines).max())
        self.is_uniform = bool(np.ptp(np.diff(at)) <= 1e-9 * (at[-1] - at[0]))

    def smallest(self, tol: float) -> AxisFit:
        """The fewest anchors that meet the data within tol and follow the spline as far as it is to be believed."""
        fewer = self._fewer(tol)
        if fewer is not None:
            return fewer
        if len(self.at) + 8 > min(MOST, in_force().anchors):
            wanted = (
                f"Data along one axis must be met within {tol:.2g} by at most {min(MOST, in_force().anchors):,} anchors"
            )
            got = f"{len(self.at):,} data that are not smooth enough"
            raise ToleranceError(wanted, got, "Raise tol above their roughness, or leave data out")
        return self._best(self._through_data(tol), tol)

    def rows(self, count: int) -> tuple[Indices, Array]:
        """Where ``count`` anchors are fitted: indices of data, and places between them if the data are not dense."""
        m = len(self.at)
        if m <= DENSE * count:
            return np.arange(m, dtype=np.intp), _within(self.at, INNER)
        return spread(m, ROWS * count), np.empty(0)

    def decomposed(self, axis: Axis, pull: float) -> tuple[Array, Array, Array]:
        """The singular value decomposition of the weighted rows."""
        chosen, between = self.rows(len(axis))
        check_time("fitting values")
        rows = np.vstack([axis.weights(self.at[chosen]), pull * axis.weights(between)])
        u, s, vt = np.linalg.svd(rows, full_matrices=False)
        return u, s, vt

    def wanted(self, data: Array, count: int, pull: float) -> Array:
        """The right-hand side for data (m, q)."""
        chosen, between = self.rows(count)
        if not len(between):
            return np.asarray(data[chosen])
        return np.vstack([data[chosen], pull * spline(self.at, data, between)])

    @cached_property
    def doubt(self) -> float:
        """How far the cubic spline is from the quintic one: what is not known of the function between the data."""
        if len(self.at) < 6:
            return 0.0
        return float(np.abs(self._followed - spline(self.at, self.lines, self._checks, degree=5)).max())

    @cached_property
    def _some(self) -> Indices:
        """Which data a trial is checked at; the one taken is checked at all."""
        return spread(len(self.at), CHECKS)

    @cached_property
    def _checks(self) -> Array:
        found = _within(self.at, BETWEEN)
        return found[:: math.ceil(len(found) / CHECKS)]

    @cached_property
    def _followed(self) -> Array:
        return spline(self.at, self.lines, self._checks)

    def _is_good(self, fit: AxisFit, tol: float) -> bool:
        near = fit.departure <= max(tol, 2 * self.doubt)
        return fit.residual <= tol and near and fit.size <= self.tame

    def _best(self, fits: Iterator[AxisFit], tol: float) -> AxisFit:
        """The first good fit; else, of those that meet the data, the nearest to the spline; else the least residual."""
        tried = []
        for fit in fits:
            if self._is_good(fit, tol):
                return fit
            tried.append(fit)
        meeting = [fit for fit in tried if fit.residual <= tol]
        tame = [fit for fit in meeting if fit.size <= self.tame]
        if meeting:
            return min(tame or meeting, key=lambda fit: fit.departure)
        return min(tried, key=lambda fit: fit.residual)

    def _fewer(self, tol: float) -> AxisFit | None:
        """The smallest number below that of the data, by growth and bisection; None if only all of them will do."""
        low, high, most = 1, 2, min(len(self.at), MOST, in_force().anchors)
        found = None
        while found is None:
            if high >= most:
                return None
            found = self._good(high, tol)
            low, high = (low, high) if found is not None else (high, math.ceil(1.5 * high))
        while high - low > max(1, high // MANY):
            middle = (low + high) // 2
            better = self._good(middle, tol)
            low, high, found = (middle, high, found) if better is None else (low, middle, better)
        return found

    def _good(self, count: int, tol: float) -> AxisFit | None:
        return next((fit for fit in self._spread(count, tol) if self._is_good(fit, tol)), None)

    def _spread(self, count: int, tol: float) -> Iterator[AxisFit]:
        """Fits by ``count`` anchors: equally spaced, and for unequal data spaced as these are."""
        relative = min(0.5, tol / self.size) if self.size else 0.5
        few = count <= MANY
        for factor in (1.0, 0.7, 1.4, 2.0)[: 4 if few else 2]:
            c = factor * sharpness_for(relative)
            reach = ghosts_for(relative, c)
            ghosts = {min(round(2 * part * reach) / 2, max(0, count - 2) / 2) for part in (0.5, 1.0, 0.25, 0.75)}
            for g in sorted(ghosts)[: 4 if few else 1]:
                yield from self._fits(Axis.uniform(*self._ends, count, g, c), GENTLE)
                inside = count - 2 * int(g)
                if not self.is_uniform and inside >= 2:
                    yield from self._fits(self._graded(inside, int(g), c), GENTLE)

    def _through_data(self, tol: float) -> Iterator[AxisFit]:
        """Fits by anchors at the data and ghosts beyond them."""
        m = len(self.at)
        for ghosts in (1, 2, 3, 4):
            for c in SHARPNESSES:
                uniform = self.is_uniform or m == 2
                axis = Axis.uniform(*self._ends, m + 2 * ghosts, ghosts, c) if uniform else self._graded(m, ghosts, c)
                for pull in PULLS:
                    yield from self._fits(axis, pull)

    def _graded(self, inside: int, ghosts: int, c: float) -> Axis:
        """Anchors at quantiles of the data, all of them if there are as many, and ghosts that repeat the last gap."""
        places = np.interp(np.linspace(0, len(self.at) - 1, inside), np.arange(len(self.at)), self.at)
        beyond = np.arange(1, ghosts + 1)
        before, after = places[1] - places[0], places[-1] - places[-2]
        positions = np.concatenate([(places[0] - beyond * before)[::-1], places, places[-1] + beyond * after])
        finest = int(np.diff(places).argmin())
        return Axis.graded(positions, *self._ends, c, float(places[finest] + places[finest + 1]) / 2)

    def _fits(self, axis: Axis, pull: float) -> Iterator[AxisFit]:
        """One fit a cut, coarse ones first."""
        u, s, vt = self.decomposed(axis, pull)
        projected = u.T @ self.wanted(self.lines, len(axis), pull)
        at_data, between = axis.weights(self.at[self._some]), axis.weights(self._checks)
        ranks = {int((s >= cut * s[0]).sum()): cut for cut in CUTS[::-1]}
        for rank, cut in sorted(ranks.items()):
            values = vt[:rank].T @ (projected[:rank] / s[:rank, None])
            residual = float(np.abs(at_data @ values - self.lines[self._some]).max())
            departure = float(np.abs(between @ values - self._followed).max())
            yield AxisFit(self, axis, pull, cut, residual, departure, float(np.abs(values).max()))

    @property
    def _ends(self) -> tuple[float, float]:
        return float(self.at[0]), float(self.at[-1])


def fit_table(axes: Sequence[Array], values: Array, tol: float, roundoff: float = 2.0**-53) -> TableFit:
    """The smallest product grid of fitted anchors found that meets a table within tol.

    Args:
        axes: d increasing arrays of coordinates, at least two each.
        values: (m_1, .., m_d, k).
        tol: largest error asked for, at the data.
        roundoff: of the dtype that runs: rounding is about that times the values' size, which must stay small.

    >>> x = np.linspace(0.0, 1.0, 4)
    >>> fit = fit_table([x], (x**2)[:, None], 1e-6)
    >>> fit.error <= 1e-6
    True
    """
    size = float(np.abs(values).max())
    tame = max(2 * size, min(TAMEST * size, tol / (16 * roundoff)))
    data = [DataAxis(at, _lines(values, a), tame) for a, at in enumerate(axes)]
    share = tol if len(axes) == 1 else 0.9 * tol / len(axes)
    best = found = _assembled(values, [axis.smallest(share) for axis in data])
    for _ in range(ROUNDS):
        if found.error <= tol:
            return found
        share *= 0.5 * tol / found.error
        found = _assembled(values, [axis.smallest(share) for axis in data])
        best = min(best, found, key=lambda fit: fit.error)
    wanted = f"A head on the grid of the table must meet it within tol={tol:.3g}"
    raise ToleranceError(wanted, f"{best.error:.3g}", f"Ask for tol >= {rounded_up(best.error)}")


def spline(at: Array, data: Array, x: Array, degree: int = 3) -> Array:
    """The interpolating not-a-knot spline of data (m, q) at x: (len(x), q); of lower degree for few data.

    >>> t = np.array([0.0, 1.0, 2.0, 4.0])
    >>> spline(t, t[:, None] ** 3, np.array([3.0])).round(12).tolist()
    [[27.0]]
    """
    unit = (at - at[0]) / (at[-1] - at[0])
    places = (x - at[0]) / (at[-1] - at[0])
    return np.asarray(make_interp_spline(unit, data, k=min(degree, len(at) - 1))(places), dtype=np.float64)


def _assembled(values: Array, fits: Sequence[AxisFit]) -> TableFit:
    """The fits' operators applied along the axes, and the error at all data."""
    anchors = math.prod(len(fit.axis) for fit in fits)
    if anchors > MOST_ANCHORS:
        got = f"{' x '.join(str(len(fit.axis)) for fit in fits)} = {anchors:,}"
        raise RefusalError(f"A table may need at most {MOST_ANCHORS:,} anchors", got, "Raise tol, or leave data out")
    weights = values
    for a, fit in enumerate(fits):
        weights = np.moveaxis(fit.values(np.moveaxis(weights, a, 0)), 0, a)
    output = weights
    for a, fit in enumerate(fits):
        output = np.moveaxis(_applied(fit.axis, fit.data.at, np.moveaxis(output, a, 0)), 0, a)
    error = float(np.abs(output - values).max())
    return TableFit(tuple(fit.axis for fit in fits), weights, error, max(fit.departure for fit in fits))


def _lines(values: Array, axis: int) -> Array:
    """Lines of the table along the axis: (m, q), up to COLUMNS, the most varying and a spread of others."""
    flat = np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1)
    if flat.shape[1] <= COLUMNS:
        return flat
    varying = np.argsort(np.ptp(flat, axis=0))[::-1][: COLUMNS // 2]
    spread = np.linspace(0, flat.shape[1] - 1, COLUMNS // 2).astype(int)
    return flat[:, np.unique(np.concatenate([varying, spread]))]


def _within(at: Array, fractions: Sequence[float]) -> Array:
    """Places at these fractions of every gap."""
    return np.asarray((at[:-1, None] + np.diff(at)[:, None] * np.array(fractions)).ravel())


def _applied(axis: Axis, x: Array, values: Array) -> Array:
    """The head's output (len(x), ...) from values (p, ...), in pieces that fit the memory."""
    flat, step = values.reshape(len(values), -1), max(1, BLOCK // len(axis))
    pieces = [axis.weights(x[i : i + step]) @ flat for i in range(0, len(x), step)]
    return np.concatenate(pieces).reshape(len(x), *values.shape[1:])

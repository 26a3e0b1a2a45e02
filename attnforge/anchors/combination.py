r"""Sparse grids of softmax heads: smooth functions of many inputs as a sum of heads over small anisotropic grids.

One grid of p anchors an axis needs $p^D$ anchors. A smooth function needs high degrees along few inputs at a time: it
is a sum of Newton terms over a sparse set (:mod:`attnforge.anchors.surplus`), chosen by f itself. Rows of binomial
anchors output exactly the polynomials of their degree in $z_a$, a monotone function of $x_a$
(:mod:`attnforge.anchors.binomial`), so a head over a grid of rows outputs any term below its degrees, and heads whose
boxes cover the set (:mod:`attnforge.anchors.box_cover`) output the sum: no head approximates anything on its own, and
nothing is lost by splitting. Rows of degree 0 are constant and left out: a head reads the inputs that matter to it.

This is the combination technique with every cancellation done beforehand: its formula
$\sum_l c_l (U_{l_1} \otimes \dots \otimes U_{l_D}) f$ adds large numbers of both signs over all grids near the border
of the set, several times as many anchors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from attnforge.anchors.axis import Axis
from attnforge.anchors.binomial import LEAST, Binomial
from attnforge.anchors.box_cover import anchors, cover
from attnforge.anchors.fresh_points import climb, fresh
from attnforge.anchors.grid_fit import contract
from attnforge.anchors.sparse_sum import FRESH, SparseSum
from attnforge.anchors.surplus import DEGREES, Flags, Integers
from attnforge.effort import check_time
from attnforge.errors import RefusalError, ToleranceError

Array = npt.NDArray[np.float64]
Sampled = Callable[[Array], Array]

SAFETY = 0.5  # of the tolerance: the worst point is not among those looked at
SPARE = 0.8  # of that, before terms that are not needed are dropped
ROUNDED = 0.25  # of the tolerance, for the rounding of values
ROUNDS = 5
PATIENCE = 10_000  # terms before a rate of convergence, from a quarter of them on, is believed
HOPELESS = 10.0  # times the terms allowed, foreseen by that rate
DOUBLINGS = 12  # of the error, until the limits are kept
REMEDY = "Raise tol, or look for structure: kinks, a sum of terms of few variables, a function of one linear form"


@dataclass(frozen=True)
class Limits:
    """What may be spent: anchors and heads, and values of f besides some thousands for checks."""

    anchors: int = 400_000
    values: int = 200_000
    heads: int = 4_000

    def allow(self, total: float, heads: int) -> bool:
        """Whether so many anchors in so many heads are within the limits."""
        return total <= self.anchors and heads <= self.heads


@dataclass(frozen=True, eq=False)
class Grid:
    """One head: the inputs it reads, a row of anchors for each, values (p_1, .., p_r, k)."""

    inputs: tuple[int, ...]
    axes: tuple[Axis, ...]
    values: Array

    @property
    def anchors(self) -> int:
        """Keys, ghosts counted."""
        return math.prod(len(axis) for axis in self.axes)


@dataclass(frozen=True, eq=False)
class Combination:
    """Heads that add up to f: the largest ``error`` at points not used before, and how many values of f that took."""

    grids: tuple[Grid, ...]
    error: float
    evaluations: int

    @property
    def anchors(self) -> int:
        """Anchors in all."""
        return sum(grid.anchors for grid in self.grids)

    @property
    def magnitude(self) -> float:
        """The largest value of an anchor."""
        return max(float(np.abs(grid.values).max()) for grid in self.grids)

    def at(self, points: Array) -> Array:
        """The sum (N, k) of the heads at (N, D) points."""
        return add_up(self.grids, points)


def combine(
    f: Sampled, lower: Array, upper: Array, tol: float, *, roundoff: float = 2.0**-53, limits: Limits | None = None
) -> Combination:
    """A sum of heads over sparse grids with error at most tol at fresh points, half on faces, and around the worst.

    Where the values of anchors would be so large that their rounding shows, steeper rows, with smaller values, are
    tried.

    Args:
        f: maps (N, D) points of the box to (N, k) values; called in batches, once for a point.
        lower, upper: (D,) ends of the box.
        tol: largest error asked for.
        roundoff: of the dtype the heads will run in.
        limits: refused beyond; None for the usual ones.

    >>> found = combine(lambda x: np.exp(-x.sum(axis=1, keepdims=True) / 3), np.zeros(6), np.ones(6), 1e-3)
    >>> found.error <= 1e-3, found.anchors < 1500
    (True, True)
    """
    if not (math.isfinite(tol) and tol > 0):
        raise ToleranceError("`tol` must be positive and finite", repr(tol), "Ask for an error such as 1e-3")
    counted = _Counted(f)
    largest = ROUNDED * tol / roundoff
    for seed, rows in enumerate((Binomial.for_tolerance(tol, roundoff), Binomial.of_rate(LEAST))):
        sums = SparseSum(counted, lower, upper, rows, 2 * seed)
        found = _combined(counted, sums, tol, largest, limits or Limits(), 2 * seed + 1)
        if found.magnitude <= largest:
            return found
    got = f"values up to {found.magnitude:.2g}, times a roundoff of {roundoff:.2g}"
    raise ToleranceError(f"The rounding of values must stay below tol={tol:.3g}", got, "Raise tol, or use float64")


def add_up(grids: Sequence[Grid], points: Array) -> Array:
    """The sum (N, k) of heads at (N, D) points."""
    rows: dict[tuple[int, int], Array] = {}
    total = np.zeros((len(points), grids[0].values.shape[-1]))
    for grid in grids:
        for a, axis in zip(grid.inputs, grid.axes, strict=True):
            if (a, len(axis)) not in rows:
                rows[a, len(axis)] = axis.weights(points[:, a])
        total += contract([rows[a, len(axis)] for a, axis in zip(grid.inputs, grid.axes, strict=True)], grid.values)
    return total


class _Counted:
    """A function that counts the points it was asked for."""

    def __init__(self, f: Sampled) -> None:
        self.f, self.rows = f, 0

    def __call__(self, points: Array) -> Array:
        self.rows += len(points)
        return self.f(points)


def _combined(f: _Counted, sums: SparseSum, tol: float, largest: float, limits: Limits, seed: int) -> Combination:
    """Grow, drop and check, with a smaller error in mind each time the check fails; values too large end it."""
    points = fresh(sums.lower, sums.upper, FRESH, seed)
    wanted, goal = f(points), SAFETY * tol
    for attempt in range(ROUNDS):
        check_time("growing a sparse grid")
        _grow(sums, SPARE * goal, tol, limits)
        grids = heads(sums, sums.needed(goal)[0])
        if not limits.allow(sum(grid.anchors for grid in grids), len(grids)):
            raise _too_large(sums, tol, goal, grids, limits)
        errors = _errors(grids, points, wanted)
        error = climb(partial(_errors_of, f, grids), points, errors, sums.lower, sums.upper, seed + attempt)
        found = Combination(grids, error, f.rows)
        if error <= tol or found.magnitude > largest:
            return found
        goal *= SPARE * tol / error
    got = f"{error:.2g} with {found.anchors:,} anchors in {len(grids)} heads"
    raise RefusalError(f"Sparse grids must reach tol={tol:.3g} at fresh points", got, REMEDY)


def _errors(grids: tuple[Grid, ...], points: Array, wanted: Array) -> Array:
    return np.asarray(np.abs(add_up(grids, points) - wanted).max(axis=1))


def _errors_of(f: Sampled, grids: tuple[Grid, ...], points: Array) -> Array:
    return _errors(grids, points, f(points))


def _grow(sums: SparseSum, goal: float, tol: float, limits: Limits) -> None:
    """Grow until no error above the goal is seen; refuse where that is out of reach."""
    seen, error = len(sums.terms), sums.error
    while sums.error > goal or sums.terms.open_error > tol:
        check_time("growing a sparse grid")
        if not sums.grow(limits.values):
            tried = (
                f"all degrees up to {DEGREES - 2}" if sums.terms.expanded.all() else f"{limits.values:,} values of f"
            )
            raise _out_of_reach(sums, tol, f"with {tried}")
        if seen < PATIENCE / 4:
            seen, error = len(sums.terms), sums.error
        elif len(sums.terms) >= 4 * seen and sums.error > 0:
            if not _within_reach(error / sums.error, len(sums.terms) / seen, sums.error / goal, limits.values / seen):
                raise _out_of_reach(sums, tol, f"converging too slowly after {len(sums.terms):,} values of f")
            seen, error = len(sums.terms), sums.error


def _within_reach(gained: float, grown: float, missing: float, allowed: float) -> bool:
    r"""Whether a power law, by which ``grown`` times the terms divide the error by ``gained``, gets to the goal.

    It takes $grown^{\ln missing / \ln gained}$ times the terms to divide the error by ``missing``.
    """
    if missing <= 1:
        return True
    return gained > 1 and math.log(grown) * (1 + math.log(missing) / math.log(gained)) < math.log(HOPELESS * allowed)


def heads(sums: SparseSum, keep: Flags) -> tuple[Grid, ...]:
    """One grid for each box of a cover of the blocks kept, with every term in the first box that holds it."""
    left = np.flatnonzero(keep[sums.terms.owner])
    grids = []
    for box in cover(sums.terms.blocks[keep]):
        inside = (sums.terms.levels[left] <= 2 * box).all(axis=1)
        grids.append(_grid(sums, left[inside]))
        left = left[~inside]
    return tuple(grids)


def _grid(sums: SparseSum, members: Integers) -> Grid:
    """The head that outputs these terms: their surpluses on a grid of degrees, turned into values axis by axis."""
    levels = sums.terms.levels[members]
    degrees = levels.max(axis=0)
    inputs = tuple(int(a) for a in np.flatnonzero(degrees)) or (0,)
    values = np.zeros((*(degrees[list(inputs)] + 1), sums.terms.surpluses.shape[1]))
    values[tuple(levels[:, inputs].T)] = sums.terms.surpluses[members]
    for i, a in enumerate(inputs):
        matrix = sums.rows.values(int(degrees[a]), sums.terms.points)
        values = np.moveaxis(np.tensordot(matrix, values, axes=(1, i)), 0, i)
    axes = (sums.rows.axis(float(sums.lower[a]), float(sums.upper[a]), int(degrees[a])) for a in inputs)
    return Grid(inputs, tuple(axes), values)


def _out_of_reach(sums: SparseSum, tol: float, why: str) -> RefusalError:
    error, blocks = sums.best
    boxes = cover(sums.terms.blocks[:blocks])
    got = f"{error:.2g} at best, for {int(anchors(boxes).sum()):,} anchors in {len(boxes)} heads, {why}"
    return RefusalError(f"Sparse grids must reach tol={tol:.3g}", got, REMEDY)


def _too_large(sums: SparseSum, tol: float, goal: float, grids: tuple[Grid, ...], limits: Limits) -> RefusalError:
    """A refusal that says what could be reached within the limits."""
    got = f"{sum(grid.anchors for grid in grids):,} in {len(grids)}"
    for _ in range(DOUBLINGS):
        goal *= 2
        keep, error = sums.needed(goal)
        boxes = cover(sums.terms.blocks[keep])
        if limits.allow(anchors(boxes).sum(), len(boxes)):
            got += f", while {int(anchors(boxes).sum()):,} in {len(boxes)} reach {error:.2g}"
            break
    requirement = f"Sparse grids may have {limits.anchors:,} anchors in {limits.heads:,} heads for tol={tol:.3g}"
    return RefusalError(requirement, got, REMEDY)

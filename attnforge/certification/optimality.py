r"""How well can the keys of a head do at all? A lower bound on the error of every choice of values.

**Statement.** A head of one input with p distinct slopes $a_k$ returns, whatever its values are, a function
$g = \frac1Q \sum_k v_k e^{a_k x}$, $Q(x) = \sum_j e^{s_j(x)} > 0$. At any points $x_0 < \dots < x_p$ of the domain
there are unique values and a number E with
$$ f(x_i) - g(x_i) = (-1)^i E , $$
and no values err by less than $|E|$ in the sup norm.

**Proof** (de la Vallée-Poussin). Suppose $g'$ errs by less. Then $g' - g = (f - g) - (f - g')$ has the sign of
$(-1)^i E$ at $x_i$, so it changes sign p times; but $Q (g' - g)$ is a sum of p exponentials with distinct slopes, which
has at most p - 1 zeros unless it vanishes (Rolle, by induction over p). Hence these functions are a Chebyshev system,
which also makes E and the values unique.

E is linear in the numbers $f(x_i)$, its coefficients alternate in sign and their sizes add up to 1. So what f is not
known by, at most $\rho$ at these points, changes E by at most $\rho$: the system is solved for the middles of the balls
of f, in balls of as many bits as it takes, and $|E| - \rho$ is proved. Which points: those of Remez' exchange, from
extremes to extremes of the error until it levels out. They need not be the best ones for the bound to hold.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from flint import arb, arb_mat

from attnforge.certification.enclosure.affine_heads import AffineHead, read_rows
from attnforge.certification.target_range import values_at
from attnforge.effort import time_is_up
from attnforge.errors import RefusalError
from attnforge.network import Network
from attnforge.outward import Balls, lower, precision
from attnforge.outward.arrays import UNIT
from attnforge.targets import Formula, Formulas, Function, Target
from attnforge.targets.domain import Box

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

FINE = 6  # points a key, spaced as the extremes of a polynomial are, and as many between the scores' crossings
FEWEST = 256  # of the former, however few keys
BASE, A_KEY, MOST_BITS = 128, 8, 2**14  # bits: to begin with, and more for each key of a smooth row; and at most
MOST_KEYS = 400  # a system of as many unknowns takes seconds
CLOSE = 1.01  # largest error of the best values found, over the bound: closer than what is measured
KNOWN = 2.0**-10  # of the level: how well values and level must be known for their errors to be worth looking at
ROUNDS = 80  # of exchange: many from a poor start


@dataclass(frozen=True, eq=False)
class Levelled:
    """``lower``: no values err by less. The points (p + 1,) that show it, and the best values' errors on a grid."""

    lower: float
    points: Array
    grid: Array
    errors: Array

    @property
    def keys(self) -> int:
        """Distinct slopes."""
        return len(self.points) - 1


def levelled(network: Network, target: Target) -> Levelled:
    """The largest lower bound found; RefusalError where the network is not one head over a memory, of one input."""
    if target.domain.lower.size != 1 or target.outputs is not None:
        raise _refused(f"{target.domain.lower.size} inputs, {target.outputs or 1} outputs")
    if not isinstance(target, Formula | Formulas | Function):
        raise _refused(f"{target.describe()}, which is no formula and no callable")
    bits = BASE + A_KEY * sum(head.memory_size for head in network.heads)
    while bits <= MOST_BITS:
        with precision(bits):
            row = _Row.of(_only_head(network))
            found = None if row is None else _exchanged(row, target)
        if found is not None:
            return found
        bits *= 2
    got = f"{bits // 2} bits did not do"
    raise RefusalError("Keys must differ enough for a system of their functions to be solved", got, "Use fewer keys")


def _refused(got: str) -> RefusalError:
    requirement = "Optimality is about one head over its own memory, of one input and one output"
    return RefusalError(requirement, got, "Compile a function of one input with construction='tensor_grid'")


def _only_head(network: Network) -> AffineHead:
    (row,) = read_rows(network, 1)
    if not all(entry.is_zero() for entry in row.slope.entries()):
        raise _refused("an output that the input is added to")
    heads = row.output(0)[: len(row.heads)]
    if len(heads) != 1:
        raise _refused(f"{len(heads)} heads")
    if heads[0].tilts:
        raise _refused("values that vary with the input")
    return heads[0]


@dataclass(frozen=True, eq=False)
class _Row:
    """Scores of all keys, and those of one key of every slope."""

    slopes: list[arb]
    offsets: list[arb]
    distinct: list[int]

    @classmethod
    def of(cls, head: AffineHead) -> _Row | None:
        """None where slopes are not exact in this precision: two that look alike might differ."""
        slopes, offsets = head.slopes.entries(), head.offsets.entries()
        if not all(slope.is_exact() for slope in slopes):
            return None
        distinct: dict[tuple[int, int], int] = {}
        for k, slope in enumerate(slopes):
            mantissa, exponent = slope.man_exp()
            distinct.setdefault((int(mantissa), int(exponent)), k)
        if len(distinct) > MOST_KEYS:
            got = f"{len(distinct):,} distinct slopes"
            raise RefusalError(f"Optimality is found for up to {MOST_KEYS} keys", got, "Raise tol")
        return cls(slopes, offsets, list(distinct.values()))

    def weights(self, place: float) -> list[arb]:
        """Of the keys of each slope: exponentials over the sum of all."""
        x = arb(place)
        scores = [slope * x + offset for slope, offset in zip(self.slopes, self.offsets, strict=True)]
        top = max(scores, key=lambda score: float(score.mid()))
        weights = [(score - top).exp() for score in scores]
        total = sum(weights, start=arb(0))
        return [weights[k] / total for k in self.distinct]

    def grid(self, domain: Box) -> Array:
        """Where errors are looked at: as many points as a polynomial's extremes take, and between crossings."""
        count, (a, b) = len(self.distinct), (domain.lower.item(), domain.upper.item())
        even = (1 - np.cos(np.linspace(0, np.pi, max(FINE * (count + 1), FEWEST)))) / 2
        slopes = np.array([float(self.slopes[k]) for k in self.distinct])
        offsets = np.array([float(self.offsets[k].mid()) for k in self.distinct])
        order = slopes.argsort()
        with np.errstate(all="ignore"):
            crossings = -np.diff(offsets[order]) / np.diff(slopes[order])
        inside = np.unique(np.clip(np.concatenate([[a, b], crossings[np.isfinite(crossings)]]), a, b))
        between = np.interp(np.linspace(0, len(inside) - 1, FINE * len(inside)), np.arange(len(inside)), inside)
        return np.unique(np.clip(np.concatenate([a + (b - a) * even, between]), a, b))


def _exchanged(row: _Row, target: Target) -> Levelled | None:
    """Points moved to the extremes of the error while that raises the level; None where the precision does not do.

    All points move at once, or, where that gains nothing, the largest error takes the place of a neighbour of its sign,
    which always does in exact arithmetic.
    """
    grid = row.grid(target.domain)
    values = values_at(target, grid[:, None])[:, 0]
    known = np.isfinite(values.mid + values.rad)
    count = len(row.distinct) + 1
    if known.sum() < count:
        raise RefusalError("The target must have values on its domain", "too few that balls tell", "Change the domain")
    system = _System(row, grid[known], values[known])
    best = system.solved(np.linspace(0, len(system.grid) - 1, count).astype(np.int64))
    for _ in range(ROUNDS):
        if best is None or np.abs(best.errors).max() <= CLOSE * best.lower or time_is_up():
            break
        places = np.searchsorted(system.grid, best.points)
        for moved in (_extremes(best.errors, count), _swapped(places, best.errors)):
            in_order = len(moved) == count and bool(np.all(np.diff(moved) > 0))  # the statement is about such points
            found = system.solved(moved) if in_order else best
            if found is None or found.lower > best.lower:
                break
        else:
            break
        best = found
    return best


@dataclass(frozen=True, eq=False)
class _System:
    """The equations for values and level, on a grid."""

    row: _Row
    grid: Array
    values: Balls
    _known: dict[int, list[arb]] = field(default_factory=dict)

    def weights(self, place: int) -> list[arb]:
        """Of all keys at a point of the grid."""
        if place not in self._known:
            self._known[place] = self.row.weights(float(self.grid[place]))
        return self._known[place]

    @cached_property
    def all_weights(self) -> arb_mat:
        """Of all keys at all points."""
        return arb_mat([self.weights(i) for i in range(len(self.grid))])

    def solved(self, places: Indices) -> Levelled | None:
        """The level at these points, and the values' errors everywhere."""
        middles = self.values.mid
        equations = [[*self.weights(i), arb((-1) ** n)] for n, i in enumerate(places.tolist())]
        try:
            *chosen, level = arb_mat(equations).solve(_column(middles[places].tolist())).entries()
        except ZeroDivisionError:
            return None
        least = KNOWN * max(float(abs(level)), UNIT * float(np.abs(middles).max()))
        if not all(each.rad() <= least for each in (level, *chosen)):
            return None
        outputs = (self.all_weights * _column([v.mid() for v in chosen])).entries()
        errors = np.array([float(arb(f) - out) for f, out in zip(middles.tolist(), outputs, strict=True)])
        known = lower(abs(level) - arb(self.values.rad[places].max()))
        return Levelled(max(known, 0.0), self.grid[places], self.grid, errors)


def _column(entries: list[Any]) -> arb_mat:
    return arb_mat([[arb(entry)] for entry in entries])


def _extremes(errors: Array, count: int) -> Indices:
    """The largest error of every stretch of one sign, as many as are wanted: the smaller of both ends is left out."""
    stretches = np.split(np.arange(len(errors)), np.flatnonzero(np.diff(np.sign(errors))) + 1)
    places = [int(stretch[np.abs(errors[stretch]).argmax()]) for stretch in stretches]
    while len(places) > count:
        places = places[1:] if abs(errors[places[0]]) < abs(errors[places[-1]]) else places[:-1]
    return np.array(places)


def _swapped(places: Indices, errors: Array) -> Indices:
    """The largest error among the places, for the neighbour of its sign; beyond an end, for that or the other end."""
    worst = int(np.abs(errors).argmax())
    after, sign = int(np.searchsorted(places, worst)), np.sign(errors[worst])
    if after and np.sign(errors[places[after - 1]]) == sign:
        return np.array([*places[: after - 1], worst, *places[after:]])
    if after < len(places) and np.sign(errors[places[after]]) == sign:
        return np.array([*places[:after], worst, *places[after + 1 :]])
    return np.array([worst, *places[:-1]] if not after else [*places[1:], worst])

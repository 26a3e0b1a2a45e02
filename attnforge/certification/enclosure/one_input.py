r"""Heads of one input: the supremum of |network - formula| by Taylor expansion on cells, branch and bound.

On a cell [m - r, m + r] with winner w (the best key at m) the relative weights are
$e_k(m + t) = e^{s_k(m) - s_w(m)}\,e^{d_k t}$, $d_k = a_k - a_w$: their Taylor coefficients are $e_k\,d_k^j/j!$, and
$$ \mathrm{net}(m + t) = \frac{\sum_k e_k v_k\,e^{d_k t}}{\sum_k e_k\,e^{d_k t}} $$
is a quotient of two power series; subtracting the winner's score is what keeps intervals small. With the formula's own
series (:mod:`attnforge.targets.expression.series`) the error is
$$ e(m + t) = \sum_{j<K} c_j t^j + R\,t^K, \qquad |e| \le \sum_{j<K} |c_j| r^j + |R|\,r^K , $$
the $c_j$ from balls around the point m, R from balls around the cell. Around a kink of the formula, where there is no
series, $|e| \le |e(m)| + (|\mathrm{net}'| + |f'|)\,r$ with Clarke's derivative, or the ranges of both. The cell with
the largest bound is cut until that bound is within a few per cent of the largest error found, or a limit is reached;
the bound holds in any case.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from flint import arb, arb_mat, arb_series, ctx

from attnforge.balls import add_up, precision, upper
from attnforge.certification.enclosure.affine_heads import AffineHead
from attnforge.targets.expression import derivative
from attnforge.targets.expression.evaluate import bounds, taylor
from attnforge.targets.expression.intervals import Interval
from attnforge.targets.expression.series import NotSmoothError
from attnforge.targets.expression.tree import Node

Array = npt.NDArray[np.float64]

ORDER = 8
BITS = 160
CLOSE = 1.1  # the bound may exceed the largest error found by this factor
CELLS = 40_000
NOTHING = 1e-25  # an error that need not be told from zero


@dataclass(frozen=True, eq=False)
class Cell:
    """An interval; bounds of |error| and of the output's size on it; and the error at its middle, from below."""

    lower: float
    upper: float
    bound: float
    size: float
    seen: float


@dataclass(frozen=True, eq=False)
class Supremum:
    """The proved bound, the largest error found, and the cells that cover the domain."""

    bound: float
    seen: float
    cells: tuple[Cell, ...]


def supremum(heads: tuple[AffineHead, ...], tree: Node, name: str, lower: float, upper: float) -> Supremum:
    """A bound of |heads - formula| on [lower, upper], from cells cut where it is largest."""
    with _series(BITS, ORDER + 1):
        return _search(_Error([_Row(head) for head in heads], tree, name), lower, upper)


def _search(error: _Error, low: float, high: float) -> Supremum:
    start = error.on(low, high)
    heap, seen, count, done = [(-start.bound, 0, start)], start.seen, 1, []
    while heap and -heap[0][0] > max(CLOSE * seen, NOTHING) and count < CELLS:
        cell = heapq.heappop(heap)[2]
        middle = cell.lower / 2 + cell.upper / 2
        if not cell.lower < middle < cell.upper:
            done.append(cell)
            continue
        for ends in ((cell.lower, middle), (middle, cell.upper)):
            child = error.on(*ends)
            seen = max(seen, child.seen)
            heapq.heappush(heap, (-child.bound, count, child))
            count += 1
    cells = (*done, *(entry[2] for entry in heap))
    return Supremum(max(cell.bound for cell in cells), seen, cells)


class _Error:
    """The heads' sum minus the formula, expanded on cells."""

    def __init__(self, rows: list[_Row], tree: Node, name: str) -> None:
        self.rows, self.tree, self.name = rows, tree, name
        self.slope = derivative(tree, name)

    def on(self, low: float, high: float) -> Cell:
        """The bound on a cell: by series where there is one, else by slopes or ranges."""
        middle = low / 2 + high / 2
        point, whole = arb(middle), arb(low).union(arb(high))
        r = (arb(high) - point).max(point - arb(low))
        at = self._heads(point, middle)
        try:
            over = self._heads(whole, middle)
        except NotSmoothError:  # too large a cell: the sum of the weights may vanish
            return Cell(low, high, math.inf, math.inf, 0.0)
        try:
            at_middle = at - taylor(self.tree, {self.name: arb_series([point, 1])})
            remainder = (over - taylor(self.tree, {self.name: arb_series([whole, 1])}))[ORDER]
            terms = [upper(abs(at_middle[j]) * r**j) for j in range(ORDER)]
            bound, seen = add_up(*terms, upper(abs(remainder) * r**ORDER)), at_middle[0]
        except NotSmoothError:
            bound, seen = self._rough(at[0], over, point, Interval(arb(low), arb(high)), r)
        found = float(abs(seen).lower()) if seen.is_finite() else 0.0
        size = upper(abs(over[0]))
        return Cell(low, high, bound if bound == bound else math.inf, size, max(0.0, found))

    def _heads(self, x: arb, middle: float) -> arb_series:
        return sum((row.series(x, middle) for row in self.rows[1:]), start=self.rows[0].series(x, middle))

    def _rough(self, at: arb, over: arb_series, point: arb, whole: Interval, r: arb) -> tuple[float, arb]:
        """By the slopes of both, or by their ranges, whichever is smaller."""
        cell = {self.name: whole}
        value = bounds(self.tree, {self.name: Interval(point, point)})
        seen = at - value.lower.union(value.upper)
        slope = bounds(self.slope, cell)
        by_slope = upper(abs(seen) + (abs(over[1]) + _largest(slope)) * r)
        found = bounds(self.tree, cell)
        by_range = upper(abs(over[0] - found.lower.union(found.upper)))
        return min(by_slope if by_slope == by_slope else math.inf, by_range if by_range == by_range else math.inf), seen


class _Row:
    """One head's keys along the line."""

    def __init__(self, head: AffineHead) -> None:
        self.slopes, self.offsets = head.slopes.entries(), head.offsets.entries()
        self.values = [head.values[k, 0] for k in range(len(self.slopes))]
        self._near = np.array([float(a.mid()) for a in self.slopes]), np.array([float(b.mid()) for b in self.offsets])
        self._powers: dict[int, tuple[list[arb], list[arb], arb_mat]] = {}

    def series(self, x: arb, middle: float) -> arb_series:
        """The head at x + t, x a ball around the middle: a quotient of two series."""
        near_slopes, near_offsets = self._near
        winner = int((near_slopes * middle + near_offsets).argmax())
        tilts, shifts, powers = self._relative(winner)
        weights = [(d * x + b).exp() for d, b in zip(tilts, shifts, strict=True)]
        columns = arb_mat(len(weights), 2, [z for w, v in zip(weights, self.values, strict=True) for z in (w * v, w)])
        found = powers * columns
        above, below = ([found[j, i] for j in range(ORDER + 1)] for i in (0, 1))
        if not below[0] > 0:
            raise NotSmoothError("weights whose sum may vanish")
        return arb_series(above) / arb_series(below)

    def _relative(self, winner: int) -> tuple[list[arb], list[arb], arb_mat]:
        """Slopes and offsets relative to the winner's, and the matrix d_k^j / j!."""
        if winner not in self._powers:
            tilts = [a - self.slopes[winner] for a in self.slopes]
            shifts = [b - self.offsets[winner] for b in self.offsets]
            rows, factorial = [], arb(1)
            for j in range(ORDER + 1):
                factorial = factorial * max(j, 1)
                rows += [d**j / factorial for d in tilts]
            self._powers[winner] = tilts, shifts, arb_mat(ORDER + 1, len(tilts), rows)
        return self._powers[winner]


def _largest(found: Interval) -> arb:
    return abs(found.lower).max(abs(found.upper))


@contextmanager
def _series(bits: int, terms: int) -> Iterator[None]:
    before = ctx.cap
    ctx.cap = terms
    try:
        with precision(bits):
            yield
    finally:
        ctx.cap = before

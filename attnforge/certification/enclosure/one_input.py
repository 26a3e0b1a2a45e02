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
the bound holds in any case. Where the balls around a point blur the error, they get more bits; where many cells did
not suffice, the expansion gets more terms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from flint import arb, arb_mat, arb_series, ctx

from attnforge.balls import add_up, precision, upper
from attnforge.balls.branch_and_bound import Found, Rules, Supremum, branch_and_bound
from attnforge.certification.enclosure.affine_heads import AffineHead
from attnforge.effort import NORMAL
from attnforge.targets.expression import derivative
from attnforge.targets.expression.evaluate import bounds, taylor
from attnforge.targets.expression.intervals import Interval
from attnforge.targets.expression.series import NotSmoothError
from attnforge.targets.expression.tree import Node

Array = npt.NDArray[np.float64]
Form = tuple[arb, arb]

ORDERS = {12: 300, 16: 3_000, 24: 40_000}  # terms of the expansion, and the cells after which there are more
BITS = (160, 320, 640)
READ = BITS[-1]  # bits for the weights' products: balls as narrow as the finest arithmetic wants them
BLURRED = 0.02  # the part of a bound that balls around a point may have
CLOSE = 1.1  # the bound may exceed the largest error found by this factor
BLIND = "what can be told of points as near as float64 numbers, or of weights known to so many digits"
NOTHING = 1e-32  # an error that need not be told from zero
FAR = 64.0  # a key whose score is so much lower than another's weighs nothing beside it in float64
BATCH = 8  # cells cut at once: few are cut in vain, and the search takes no time beside the balls


@dataclass(frozen=True, eq=False)
class Cell:
    """An interval; a bound of |error| on it; and the error at its middle, from below.

    ``blur`` is the part of the bound that comes from balls around the middle, made with ``bits``: more of these, not
    smaller cells, lessen it. ``haze`` is what stays of it on the smallest cells: the radius of the error at the middle.
    """

    lower: float
    upper: float
    bound: float
    seen: float
    blur: float
    haze: float
    bits: int


def supremum(
    heads: tuple[AffineHead, ...],
    tree: Node,
    name: str | Mapping[str, Form],
    lower: float,
    upper: float,
    *,
    close: float = CLOSE,
    cells: int = NORMAL.intervals,
    progress: Callable[[float], None] | None = None,
) -> Supremum:
    """A bound of |heads - formula| on [lower, upper], from cells cut where it is largest.

    Cutting ends when the bound is within ``close`` of the largest error found, or at a limit; ``progress`` is told the
    fraction of the way. ``name`` is the formula's variable; or the formula's variables are affine functions of the
    point, with slopes and offsets known to lie in balls.
    """
    error = ErrorOnIntervals(heads, tree, {name: (arb(1), arb(0))} if isinstance(name, str) else name, close)
    rules = Rules(close, cells, BATCH, NOTHING, blind=BLIND)
    return branch_and_bound(error.look, np.array([[lower]]), np.array([[upper]]), rules, progress)


class ErrorOnIntervals:
    """The heads' sum minus the formula, expanded on cells, with as many terms and bits as were found necessary."""

    def __init__(
        self, heads: tuple[AffineHead, ...], tree: Node, forms: Mapping[str, Form], close: float = CLOSE
    ) -> None:
        self.rows, self.tree, self.forms = [_Row(head) for head in heads], tree, dict(forms)
        self.slopes = {name: derivative(tree, name) for name in forms}
        self.order, self.bits = next(iter(ORDERS)), BITS[0]
        self.close, self.seen, self.count = close, 0.0, 0
        known = max(row.uncertainty for row in self.rows) <= 2.0 ** -BITS[0]
        self.finest = BITS[-1] if known else BITS[0]  # more bits do not lessen what is uncertain in the scores

    def look(self, lower: Array, upper: Array, _: Any) -> Found:
        """Bounds on cells; those that balls blur are looked at again, once there are more bits."""
        cells = [self.on(low, high) for low, high in zip(lower[:, 0].tolist(), upper[:, 0].tolist(), strict=True)]
        bound, seen = (np.array([getattr(cell, name) for cell in cells]) for name in ("bound", "seen"))
        blurred = np.array([self._is_blurred(cell) for cell in cells])
        self.seen, self.count = max(self.seen, float(seen.max())), self.count + len(cells)
        self._sharpen(bool(np.any(bound[blurred] > max(self.close * self.seen, NOTHING))))
        return Found.of(bound, seen, settled=[self._is_blind(cell) for cell in cells], again=blurred)

    def _is_blurred(self, cell: Cell) -> bool:
        """Whether more bits would lessen the bound."""
        return math.isfinite(cell.bound) and cell.blur > BLURRED * cell.bound and cell.bits < self.finest

    def _is_blind(self, cell: Cell) -> bool:
        """Whether the bound is what balls around the middle make of the error there, with as many bits as there are."""
        blurred = cell.bits == self.finest and cell.blur > BLURRED * cell.bound
        return blurred and cell.bound <= CLOSE * (cell.seen + 2 * cell.haze)

    def _sharpen(self, blurred: bool) -> None:
        """More terms after so many cells, more bits where balls blur what is to be cut."""
        self.order = next((order for order, cells in ORDERS.items() if self.count < cells), self.order)
        if blurred:
            self.bits = next((bits for bits in BITS if bits > self.bits), self.bits)

    def on(self, low: float, high: float) -> Cell:
        """The bound on a cell: by series where there is one, else by slopes or ranges."""
        with _series(self.bits, self.order + 1):
            return self._on(low, high)

    def _on(self, low: float, high: float) -> Cell:
        middle, order = low / 2 + high / 2, self.order
        point, whole = arb(middle), arb(low).union(arb(high))
        r = (arb(high) - point).max(point - arb(low))
        try:
            at, over = self._heads(point, middle), self._heads(whole, middle)
        except NotSmoothError:  # too large a cell, or scores: the sum of the weights may vanish
            return Cell(low, high, math.inf, 0.0, 0.0, 0.0, self.bits)
        try:
            at_middle = at - taylor(self.tree, self._arguments(point))
            remainder = (over - taylor(self.tree, self._arguments(whole)))[order]
            terms = [upper(abs(at_middle[j]) * r**j) for j in range(order)]
            bound, seen = add_up(*terms, upper(abs(remainder) * r**order)), at_middle[0]
            blur = float(sum((at_middle[j].rad() * r**j for j in range(order)), start=arb(0)))
        except NotSmoothError:
            bound, seen = self._rough(at[0], over, point, arb(low), arb(high), r)
            blur = float(seen.rad())
        if high <= np.nextafter(low, np.inf, dtype=np.float64) + 2 * np.spacing(max(abs(low), abs(high))):
            bound = min(bound if bound == bound else math.inf, self._by_values(whole, middle, arb(low), arb(high)))
        found = float(abs(seen).lower()) if seen.is_finite() else 0.0
        return Cell(
            low, high, bound if bound == bound else math.inf, max(0.0, found), blur, float(seen.rad()), self.bits
        )

    def _by_values(self, whole: arb, middle: float, low: arb, high: arb) -> float:
        """Between neighbouring numbers: heads lie among the values of the keys that may win, whatever their weights."""
        formula = bounds(self.tree, self._between(low, high))
        heads = sum((row.hull(whole, middle) for row in self.rows), start=arb(0))
        return upper(abs(heads - formula.lower.union(formula.upper)))

    def _heads(self, x: arb, middle: float) -> arb_series:
        parts = [row.series(x, middle, self.order, self.bits) for row in self.rows]
        return sum(parts[1:], start=parts[0])

    def _arguments(self, x: arb) -> dict[str, arb_series]:
        return {name: arb_series([slope * x + offset, slope]) for name, (slope, offset) in self.forms.items()}

    def _between(self, low: arb, high: arb) -> dict[str, Interval]:
        """The formula's variables on an interval, from end to end."""
        ends = {name: (slope * low + offset, slope * high + offset) for name, (slope, offset) in self.forms.items()}
        return {name: Interval(a.lower().min(b.lower()), a.upper().max(b.upper())) for name, (a, b) in ends.items()}

    def _rough(self, at: arb, over: arb_series, point: arb, low: arb, high: arb, r: arb) -> tuple[float, arb]:
        """By the slopes of both, or by their ranges, whichever is smaller."""
        cell = self._between(low, high)
        value = bounds(self.tree, self._between(point, point))
        seen = at - value.lower.union(value.upper)
        slopes = [abs(self.forms[name][0]) * _largest(bounds(tree, cell)) for name, tree in self.slopes.items()]
        by_slope = upper(abs(seen) + (abs(over[1]) + sum(slopes, start=arb(0))) * r)
        found = bounds(self.tree, cell)
        by_range = upper(abs(over[0] - found.lower.union(found.upper)))
        return min(by_slope if by_slope == by_slope else math.inf, by_range if by_range == by_range else math.inf), seen


class _Row:
    """One head's keys along the line."""

    def __init__(self, head: AffineHead) -> None:
        self.slopes, self.offsets = head.slopes.entries(), head.offsets.entries()
        self.values = [head.values[k, 0] for k in range(len(self.slopes))]
        self.tilts = {k: tilt[0, 0] for k, tilt in head.tilts}
        self._near = np.array([float(a.mid()) for a in self.slopes]), np.array([float(b.mid()) for b in self.offsets])
        self._powers: dict[tuple[int, int, int], tuple[list[arb], list[arb], arb_mat]] = {}

    @property
    def uncertainty(self) -> float:
        """The largest radius of a score's offset."""
        return max(float(offset.rad()) for offset in self.offsets)

    def series(self, x: arb, middle: float, order: int, bits: int) -> arb_series:
        """The head at x + t, x a ball around the middle: a quotient of two series."""
        near_slopes, near_offsets = self._near
        winner = int((near_slopes * middle + near_offsets).argmax())
        tilts, shifts, powers = self._relative(winner, order, bits)
        weights = [(d * x + b).exp() for d, b in zip(tilts, shifts, strict=True)]
        origin = arb(self._output(middle))  # values are counted from there: what is uncertain in weights counts less
        values = [value - origin for value in self.values]
        for k, slope in self.tilts.items():
            values[k] = values[k] + slope * x
        columns = arb_mat(len(weights), 2, [z for w, v in zip(weights, values, strict=True) for z in (w * v, w)])
        found = powers * columns
        above, below = ([found[j, i] for j in range(order + 1)] for i in (0, 1))
        if self.tilts:  # of a value v + g t, the weight's coefficient before times g
            rising = powers * arb_mat(len(weights), 1, [w * self.tilts.get(k, arb(0)) for k, w in enumerate(weights)])
            above = [above[0], *(a + rising[j, 0] for j, a in enumerate(above[1:]))]
        if not below[0] > 0:
            raise NotSmoothError("weights whose sum may vanish")
        return arb_series(above) / arb_series(below) + origin

    def _output(self, middle: float) -> float:
        """About what the head is at a point; any number would do."""
        scores = self._near[0] * middle + self._near[1]
        weights = np.exp(scores - scores.max())
        values = np.array([float(value.mid()) for value in self.values])
        for k, slope in self.tilts.items():
            values[k] += float(slope.mid()) * middle
        found = float(weights @ values / weights.sum())
        return found if math.isfinite(found) else 0.0

    def hull(self, x: arb, middle: float) -> arb:
        r"""A ball around the values that the head takes: those of keys near the winner, widened by what others weigh.

        With h a mean of near values and far weights $w_k$, the head is $h + \sum_k w_k (v_k - h)$.
        """
        near_slopes, near_offsets = self._near
        winner = int((near_slopes * middle + near_offsets).argmax())
        values = [value + self.tilts.get(k, arb(0)) * x for k, value in enumerate(self.values)]
        found, outside, mass = values[winner], arb(0), arb(0)
        for slope, offset, value in zip(self.slopes, self.offsets, values, strict=True):
            behind = (slope - self.slopes[winner]) * x + offset - self.offsets[winner]
            if behind < -FAR:
                outside, mass = outside + behind.exp() * abs(value - values[winner]), mass + behind.exp()
            else:
                found = found.union(value)
        outside += mass * 2 * found.rad()
        return found + (-outside).union(outside)

    def _relative(self, winner: int, order: int, bits: int) -> tuple[list[arb], list[arb], arb_mat]:
        """Slopes and offsets relative to the winner's, and the matrix d_k^j / j!, kept for each arithmetic."""
        if (winner, order, bits) not in self._powers:
            tilts = [a - self.slopes[winner] for a in self.slopes]
            shifts = [b - self.offsets[winner] for b in self.offsets]
            tilts[winner], shifts[winner] = arb(0), arb(0)  # of a ball and itself, not of two numbers in it
            row = [arb(1)] * len(tilts)
            rows = list(row)
            for j in range(1, order + 1):
                row = [z * d / j for z, d in zip(row, tilts, strict=True)]
                rows += row
            self._powers[winner, order, bits] = tilts, shifts, arb_mat(order + 1, len(tilts), rows)
        return self._powers[winner, order, bits]


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

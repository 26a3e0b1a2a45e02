r"""Heads of one input: the supremum of |network - formula| by polynomials on cells, branch and bound.

On a cell $m + r t$, $|t| \le 1$, the heads are polynomials of t, and a bound of what these leave out, in float64 for
all cells at once (:mod:`.row_models`). The formula's own series (:mod:`attnforge.expression.series`) is
$$ f(m + r t) = \sum_{j \le K} c_j t^j + R\,t^{K+1}, $$
the $c_j$ from balls around the point m, R from balls around the cell. Around a kink, where there is no series, it is
$f(m)$ and a slope, by Clarke's derivative, or its range. The difference of the polynomials is evaluated between points.

Cells whose bound exceeds the largest error found by more than a few per cent are cut, until there are none or a limit
is reached; the bound holds in any case. Where what float64 rounds hides the error, the heads are series of balls, too:
with winner w (the best key at m) the relative weights are $e_k(m + t) = e^{s_k(m) - s_w(m)}\,e^{d_k t}$,
$d_k = a_k - a_w$, with Taylor coefficients $e_k\,d_k^j/j!$, and
$$ \mathrm{net}(m + t) = \frac{\sum_k e_k v_k\,e^{d_k t}}{\sum_k e_k\,e^{d_k t}} $$
is a quotient of two power series. Where balls around the point blur the error, they get more bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np
import numpy.typing as npt
from flint import arb, arb_mat, arb_series, ctx

from attnforge.certification.enclosure.affine_heads import AffineHead
from attnforge.certification.enclosure.row_models import DEGREE, Polynomials, RowModel, largest_sizes
from attnforge.effort import NORMAL
from attnforge.expression import derivative
from attnforge.expression.evaluate import bounds, taylor
from attnforge.expression.intervals import Interval
from attnforge.expression.series import NotSmoothError
from attnforge.expression.tree import Node
from attnforge.kernel.formula import numbers
from attnforge.outward import Up, add_up, gamma, precision, upper
from attnforge.outward import lower as from_below
from attnforge.outward.branch_and_bound import Found, Rules, Supremum, branch_and_bound

Array = npt.NDArray[np.float64]
Form = tuple[arb, arb]

FORMULA_BITS = 96  # for the formula beside float64 models
BITS = (160, 320, 640)
READ = BITS[-1]  # bits for the weights' products: balls as narrow as the finest arithmetic wants them
BLURRED = 0.02  # the part of a bound that balls around a point may have
CLOSE = 1.1  # the bound may exceed the largest error found by this factor
BLIND = "what can be told of points as near as float64 numbers, or of weights known to so many digits"
NOTHING = 1e-32  # an error that need not be told from zero
FAR = 64.0  # a key whose score is so much lower than another's weighs nothing beside it in float64
BATCH = 64  # cells cut at once: few are cut in vain


@dataclass(frozen=True, eq=False)
class Cell:
    """A bound of |error| on a cell, in balls; and an error attained there, from below.

    ``blur`` is the part of the bound that comes from balls around the middle, made with ``bits``: more of these, not
    smaller cells, lessen it. ``haze`` is what stays of it on the smallest cells: the radius of the error at the middle.
    """

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
    edges = error.edges(lower, upper, cells)[:, None]
    return branch_and_bound(error.look, edges[:-1], edges[1:], rules, progress)


class ErrorOnIntervals:
    """The heads' sum minus the formula, expanded on cells, with as many terms and bits as were found necessary."""

    def __init__(
        self, heads: tuple[AffineHead, ...], tree: Node, forms: Mapping[str, Form], close: float = CLOSE
    ) -> None:
        self.heads, self.tree, self.forms = heads, tree, dict(forms)
        self.models = [RowModel(head) for head in heads]
        self.slopes = {name: derivative(tree, name) for name in forms}
        self.bits, self.close, self.seen = BITS[0], close, 0.0
        known = max(float(model.offsets.off.most()) for model in self.models) <= 2.0 ** -BITS[0]
        self.finest = BITS[-1] if known else BITS[0]  # more bits do not lessen what is uncertain in the scores

    @cached_property
    def rows(self) -> list[_Row]:
        """The heads in balls, for what float64 cannot tell."""
        return [_Row(head) for head in self.heads]

    def edges(self, lower: float, upper: float, cells: int) -> Array:
        """Where cells end at first: where one key's score passes that of the next, for those are expanded well."""
        inside = np.concatenate([model.crossings() for model in self.models])
        inside = np.unique(inside[(inside > lower) & (inside < upper)])
        return np.concatenate([[lower], inside[:: 1 + len(inside) // cells], [upper]])

    def look(self, lower: Array, upper: Array, _: Any) -> Found:
        """Bounds on cells by float64, and by balls where these blur what is to be cut.

        Of cells that balls blur there is more to be known, once there are more bits.
        """
        low, high = lower[:, 0], upper[:, 0]
        bound, seen, blur = self._modelled(low, high)
        self.seen = max(self.seen, float(seen.max()))
        goal, middle = max(self.close * self.seen, NOTHING), _middle(low, high)[0]
        narrow = ~((low < middle) & (middle < high))
        dim = np.where(np.isfinite(bound), bound <= goal + 2 * blur, narrow)
        settled, again = np.zeros((2, len(low)), dtype=np.bool_)
        for i in np.flatnonzero(dim & (bound > goal)):
            cell = self.on(low[i], high[i])
            bound[i], seen[i] = min(bound[i], cell.bound), max(seen[i], cell.seen)
            settled[i], again[i] = self._is_blind(cell), self._is_blurred(cell)
        self.seen = max(self.seen, float(seen.max()))
        if np.any(bound[again] > max(self.close * self.seen, NOTHING)):
            self.bits = next((bits for bits in BITS if bits > self.bits), self.bits)
        return Found.of(bound, seen, settled=settled, again=again)

    def _modelled(self, low: Array, high: Array) -> tuple[Array, Array, Array]:
        """Bounds on cells, errors attained there, and what float64 adds to the bounds."""
        middle, radius = _middle(low, high)
        with np.errstate(all="ignore"):
            parts = [model.on(middle, radius) for model in self.models]
            origins = np.array([origin for origin, _ in parts])
            parts.append((-origins, self._formula(low, high, origins)))
            c = np.sum([part.c for _, part in parts], axis=0)
            rounded = reduce(Up.__add__, (Up.of(part.c).sum(0) for _, part in parts)) * gamma(len(parts))
            rest, blur = (
                reduce(Up.__add__, (getattr(part, name) for _, part in parts), rounded) for name in ("rest", "blur")
            )
        return *_within(c, rest), blur.values

    def _formula(self, low: Array, high: Array, origins: Array) -> Polynomials:
        """The heads' origins (heads, C) less the formula; unknown where it may have no values."""
        found = np.zeros((DEGREE + 1, len(low))), np.zeros(len(low)), np.zeros(len(low))
        with _series(FORMULA_BITS):
            for i in range(len(low)):
                c, left = self._expanded(low[i], high[i])
                c[0] -= sum(map(arb, origins[:, i].tolist()), start=arb(0))
                found[0][:, i], found[1][i], found[2][i] = _rounded([-each for each in c], left)
        return Polynomials(found[0], Up.of(found[1]), Up.of(found[2]))

    def _expanded(self, lower: np.float64, upper_: np.float64) -> tuple[list[arb], arb]:
        """Coefficients of t, and a bound of what they leave out: by a series, by a slope, or by the range."""
        low, high, middle, radius = map(arb, (lower, upper_, *_middle(lower, upper_)))
        try:
            near, far = (taylor(self.tree, self._arguments(x, radius)) for x in (middle, low.union(high)))
            rest = arb.nan() if far[0].is_nan() else abs(far[DEGREE + 1])  # the formula has no value somewhere
            return [near[j] for j in range(DEGREE + 1)], rest
        except NotSmoothError:
            pass
        cell, zeros = self._between(low, high), [arb(0)] * (DEGREE - 1)
        at, over = (_ball(bounds(self.tree, ends)) for ends in (self._between(middle, middle), cell))
        slopes = [_ball(bounds(tree, cell)) * self.forms[name][0] for name, tree in self.slopes.items()]
        slope = sum(slopes, start=arb(0)) * radius
        if slope.is_finite() and not slope.rad() > over.rad():
            return [at, slope.mid(), *zeros], slope.rad()
        return [at, arb(0), *zeros], abs(over - at)

    def _is_blurred(self, cell: Cell) -> bool:
        """Whether more bits would lessen the bound."""
        return math.isfinite(cell.bound) and cell.blur > BLURRED * cell.bound and cell.bits < self.finest

    def _is_blind(self, cell: Cell) -> bool:
        """Whether the bound is what balls around the middle make of the error there, with as many bits as there are."""
        blurred = cell.bits == self.finest and cell.blur > BLURRED * cell.bound
        return blurred and cell.bound <= CLOSE * (cell.seen + 2 * cell.haze)

    def on(self, low: np.float64, high: np.float64) -> Cell:
        """The bound on a cell, in balls."""
        with _series(self.bits):
            a, b, middle, radius = map(arb, (low, high, *_middle(low, high)))
            try:
                at, over = (self._heads(x, float(middle), radius) for x in (middle, a.union(b)))
            except NotSmoothError:  # too large a cell, or scores: the sum of the weights may vanish
                bound, seen, blur, haze = math.inf, 0.0, 0.0, 0.0
            else:
                c, left = self._expanded(low, high)
                error = [at[j] - each for j, each in enumerate(c)]
                coefficients, rest, blur = _rounded(error, left + abs(over[DEGREE + 1]))
                (bound,), (seen,) = _within(np.array(coefficients)[:, None], Up.of([rest]))
                seen, haze = max(seen, from_below(abs(error[0]))), float(error[0].rad())
            if high <= np.nextafter(low, np.inf, dtype=np.float64) + 2 * np.spacing(max(abs(low), abs(high))):
                bound = min(bound, self._by_values(a.union(b), float(middle), a, b))
            return Cell(float(bound), float(seen), blur, haze, self.bits)

    def _by_values(self, whole: arb, middle: float, low: arb, high: arb) -> float:
        """Between neighbouring numbers: heads lie among the values of the keys that may win, whatever their weights."""
        formula = bounds(self.tree, self._between(low, high))
        heads = sum((row.hull(whole, middle) for row in self.rows), start=arb(0))
        return upper(abs(heads - formula.lower.union(formula.upper)))

    def _heads(self, x: arb, middle: float, radius: arb) -> arb_series:
        parts = [row.series(x, middle, self.bits) for row in self.rows]
        return sum(parts[1:], start=parts[0])(arb_series([0, radius]))

    def _arguments(self, x: arb, radius: arb) -> dict[str, arb_series]:
        return {name: arb_series([slope * x + offset, slope * radius]) for name, (slope, offset) in self.forms.items()}

    def _between(self, low: arb, high: arb) -> dict[str, Interval]:
        """The formula's variables on an interval, from end to end."""
        ends = {name: (slope * low + offset, slope * high + offset) for name, (slope, offset) in self.forms.items()}
        return {name: Interval(a.lower().min(b.lower()), a.upper().max(b.upper())) for name, (a, b) in ends.items()}


class _Row:
    """One head's keys along the line."""

    def __init__(self, head: AffineHead) -> None:
        self.slopes, self.offsets = head.slopes.entries(), head.offsets.entries()
        self.values = [head.values[k, 0] for k in range(len(self.slopes))]
        self.tilts = {k: tilt[0, 0] for k, tilt in head.tilts}
        self._near = np.array([float(a.mid()) for a in self.slopes]), np.array([float(b.mid()) for b in self.offsets])
        self._powers: dict[tuple[int, int], tuple[list[arb], list[arb], arb_mat]] = {}

    def series(self, x: arb, middle: float, bits: int) -> arb_series:
        """The head at x + t, x a ball around the middle: a quotient of two series."""
        near_slopes, near_offsets = self._near
        winner = int((near_slopes * middle + near_offsets).argmax())
        tilts, shifts, powers = self._relative(winner, bits)
        weights = [(d * x + b).exp() for d, b in zip(tilts, shifts, strict=True)]
        origin = arb(self._output(middle))  # values are counted from there: what is uncertain in weights counts less
        values = [value - origin for value in self.values]
        for k, slope in self.tilts.items():
            values[k] = values[k] + slope * x
        columns = arb_mat(len(weights), 2, [z for w, v in zip(weights, values, strict=True) for z in (w * v, w)])
        found = powers * columns
        above, below = ([found[j, i] for j in range(DEGREE + 2)] for i in (0, 1))
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

    def _relative(self, winner: int, bits: int) -> tuple[list[arb], list[arb], arb_mat]:
        """Slopes and offsets relative to the winner's, and the matrix d_k^j / j!, kept for each arithmetic."""
        if (winner, bits) not in self._powers:
            tilts = [a - self.slopes[winner] for a in self.slopes]
            shifts = [b - self.offsets[winner] for b in self.offsets]
            tilts[winner], shifts[winner] = arb(0), arb(0)  # of a ball and itself, not of two numbers in it
            row = [arb(1)] * len(tilts)
            rows = list(row)
            for j in range(1, DEGREE + 2):
                row = [z * d / j for z, d in zip(row, tilts, strict=True)]
                rows += row
            self._powers[winner, bits] = tilts, shifts, arb_mat(DEGREE + 2, len(tilts), rows)
        return self._powers[winner, bits]


def _middle(low: Any, high: Any) -> tuple[Any, Any]:
    """The middle of cells, and from above the larger distance to their ends."""
    middle = low / 2 + high / 2
    return middle, np.nextafter(np.maximum(high - middle, middle - low), np.inf)


def _rounded(c: list[arb], left: arb) -> tuple[list[float], float, float]:
    """Coefficients in float64, a bound of what they leave out, and the part of it that comes from the balls."""
    balls = [numbers(each) for each in c]
    blur = add_up(*(rad for _, rad in balls))
    return [mid for mid, _ in balls], add_up(blur, upper(left)), blur


def _within(c: Array, rest: Up) -> tuple[Array, Array]:
    """Bounds (C,) of functions within the rest of polynomials (K + 1, C), and values attained, from below."""
    with np.errstate(all="ignore"):
        above, below = largest_sizes(c)
        found = np.nextafter(below - rest.values, -np.inf)
        return (Up.of(above) + rest).values, np.where(found > 0, found, 0.0)


def _ball(found: Interval) -> arb:
    """Around an interval; NaN where that is not known."""
    return found.lower.union(found.upper)


@contextmanager
def _series(bits: int) -> Iterator[None]:
    before = ctx.cap
    ctx.cap = DEGREE + 2
    try:
        with precision(bits):
            yield
    finally:
        ctx.cap = before

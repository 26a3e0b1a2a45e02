r"""Heads of several inputs: the supremum of |network - formula| by Taylor expansion on boxes, branch and bound.

On a box with middle m and radii r the error $e = \mathrm{net} - f$ is a polynomial and Lagrange's remainder,
$$ e(m + t) = \sum_{|\alpha| < K} c_\alpha t^\alpha + \sum_{|\alpha| = K} R_\alpha t^\alpha, \qquad
   |e| \le \max_{|t_i| \le r_i}\Big|\sum_{|\alpha| < K} c_\alpha t^\alpha\Big|
   + \sum_{|\alpha| = K} |R_\alpha|\, r^\alpha , $$
the $c_\alpha$ from jets at m, the $R_\alpha$ from jets over the box; the maximum of the polynomial is bounded by its
Bernstein coefficients. Where the formula has no jet (a kink), $|e| \le |e(m)| + \sum_i |\partial_i e|\,r_i$ with
Clarke's derivatives, or the ranges of both.

Boxes whose bound exceeds the largest error found by more than a factor are cut, many at a time, across the axis that
adds most, until there are none or a limit is reached; the bound holds in any case. The first cuts are where the formula
has kinks in one input. Blocks of boxes are independent: long searches share them among processes, and find the same
numbers. float64 midpoints and radii add
about $10^{-13}$ times the size of the values: errors below that cannot be told from zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

import numpy as np
import numpy.typing as npt
from flint import arb

from attnforge.balls import precision, upper
from attnforge.balls.branch_and_bound import Found, Rules, Supremum, branch_and_bound
from attnforge.certification.enclosure.affine_heads import read_heads
from attnforge.certification.enclosure.bernstein import largest_size
from attnforge.certification.enclosure.factors import FactorHead, factor_head
from attnforge.certification.enclosure.formula_jets import formula_jets
from attnforge.certification.enclosure.head_jets import head_jets
from attnforge.certification.enclosure.jets import Degrees, Jets, degrees
from attnforge.certification.enclosure.kinks import kink_cuts
from attnforge.effort import NORMAL, check_time
from attnforge.errors import CertificateError
from attnforge.network import Network
from attnforge.targets.expression import derivative
from attnforge.targets.expression.evaluate import bounds
from attnforge.targets.expression.intervals import Interval
from attnforge.targets.expression.tree import Node

Array = npt.NDArray[np.float64]

ORDERS = {1: 10, 2: 9, 3: 8, 4: 6}
PIECES = {1: 8, 2: 4, 3: 2, 4: 2}
CLOSE = 1.2  # the bound may exceed the largest error found by this factor
BATCH = 1024  # cells cut at once
WORTH_SHARING = 4  # blocks of them, below which no processes are asked to help
BLOCK = 2**20  # numbers of one array held at once
SLACK = 1 + 2.0**-40  # for sums of positive numbers, computed in float64
BITS = 64
FLOORS = 16  # a bound this near to what rounding makes of it is not worth a cut
THINNEST = 2.0**-60  # radii below are enlarged: their powers must not underflow
ENCLOSED = "the proof's own exp, sinh and cosh in float64 are within 4 units in the last place"


@dataclass(frozen=True, eq=False)
class Cells:
    """Bounds (C,) of |error| on boxes.

    ``seen`` is an error attained in the box, from below; ``floor`` is what float64 alone makes of the bound; ``cut``
    is the axis that adds most to it.
    """

    bound: Array
    seen: Array
    floor: Array
    cut: npt.NDArray[np.int64]


def join(sets: Sequence[Cells]) -> Cells:
    """All boxes of some sets, in their order."""
    names = Cells.__dataclass_fields__
    return Cells(*(np.concatenate([getattr(each, name) for each in sets]) for name in names))


def supremum_box(
    network: Network,
    tree: Node,
    names: Sequence[str],
    lower: npt.ArrayLike,
    upper: npt.ArrayLike,
    *,
    close: float = CLOSE,
    cells: int = NORMAL.boxes,
    progress: Callable[[float], None] | None = None,
    workers: int = 1,
) -> Supremum:
    """A bound of |first output - formula| on the box, for one layer of heads over constant keys.

    Cutting ends when the bound is within ``close`` of the largest error found, at a limit of cells, or when time is
    up; ``progress`` is told the fraction of the way. ``workers`` processes share the boxes once the search turns out
    long. The result does not depend on it.
    """
    error, low, high = error_on_box(network, tree, names, lower, upper)

    def look(lows: Array, highs: Array, _: Any) -> Found:
        found = _shared(error, lows, highs, workers)
        settled = found.bound <= FLOORS * found.floor
        return Found.of(found.bound, found.seen, found.cut, settled)

    rules = Rules(close, cells, BATCH, blind="what the proof's own float64 numbers can tell")
    return branch_and_bound(look, *first_boxes(error, low, high), rules, progress)


def error_on_box(
    network: Network, tree: Node, names: Sequence[str], lower: npt.ArrayLike, upper: npt.ArrayLike
) -> tuple[ErrorOnBoxes, Array, Array]:
    """What is to be bounded, and the ends of its box, checked."""
    low, high = (np.atleast_1d(np.asarray(end, dtype=np.float64)) for end in (lower, upper))
    if (
        len(names) not in ORDERS
        or low.shape != (len(names),)
        or high.shape != low.shape
        or network.features != len(low)
    ):
        got = f"{len(names)} names, {low.size} lower and {high.size} upper ends"
        raise CertificateError("This proof covers boxes of one to four inputs, a name and two ends each", got)
    encode, heads = read_heads(network)
    heads_ = tuple(factor_head(encode, head, len(low)) for head in heads)
    return ErrorOnBoxes(heads_, tree, tuple(names), high - low), low, high


def _shared(error: ErrorOnBoxes, lower: Array, upper: Array, workers: int) -> Cells:
    """Blocks of boxes, by several processes where there are enough."""
    parts = error.parts(len(lower))
    if workers == 1 or len(parts) < WORTH_SHARING:
        return join([_block(error, lower[part], upper[part]) for part in parts])
    import joblib

    tasks = [joblib.delayed(error.block)(lower[part], upper[part]) for part in parts]
    with joblib.parallel_config("loky", inner_max_num_threads=1):
        return join(joblib.Parallel(n_jobs=workers)(tasks))


def _block(error: ErrorOnBoxes, lower: Array, upper: Array) -> Cells:
    check_time("looking at boxes")
    return error.block(lower, upper)


def first_boxes(error: ErrorOnBoxes, low: Array, high: Array) -> tuple[Array, Array]:
    """The box, cut where the formula has kinks in one input."""
    edges = [np.array([a, *cuts, b]) for a, b, cuts in zip(low, high, error.kinks(low, high), strict=True)]
    pieces = [list(pairwise(edge.tolist())) for edge in edges]
    boxes = np.array(list(product(*pieces)))
    return boxes[..., 0], boxes[..., 1]


def _middle(lower: Array, upper: Array) -> Array:
    return np.asarray(lower / 2 + upper / 2)


def _apart(above: Array, below: Array) -> Array:
    """The difference, rounded up unless it is exact (Knuth's test): cells must not reach over a kink at their end."""
    found = above - below
    back = found - above
    lost = (above - (found - back)) - (below + back)
    return np.where(lost == 0.0, found, np.nextafter(found, np.inf))


class ErrorOnBoxes:
    """The heads' sum minus the formula, expanded on cells."""

    def __init__(self, heads: tuple[FactorHead, ...], tree: Node, names: tuple[str, ...], widths: Array) -> None:
        self.heads, self.tree, self.names = heads, tree, names
        self.units = np.where(widths > 0, widths, 1.0)  # in which the longest side of a cell is measured
        self.order, self.pieces = ORDERS[len(names)], PIECES[len(names)]
        self.table = degrees(len(names), self.order)
        self.slopes = tuple(derivative(tree, name) for name in names)
        largest = max(self._numbers(head) for head in heads)
        self.step = max(1, BLOCK // max(largest, (self.pieces * self.order) ** len(names), 4 * len(self.table)))

    def _numbers(self, head: FactorHead) -> int:
        """Numbers held for one cell: coefficients of weights, contracted values."""
        sizes = [len(degrees(len(factor.reads), self.order)) for factor in head.factors]
        keys, count = head.values.shape, head.values.mid.size
        weights = max(size * key for size, key in zip(sizes, keys, strict=True))
        held, left = 1, count
        for size, key in zip(reversed(sizes), reversed(keys), strict=True):
            held, left = held * size, left // key
            weights = max(weights, held * left)
        return weights

    def kinks(self, low: Array, high: Array) -> list[Array]:
        """Where the formula has kinks in one input, for each."""
        return kink_cuts(self.tree, self.names, low, high)

    def parts(self, count: int) -> list[slice]:
        """Blocks of boxes that are looked at together."""
        return [slice(i, i + self.step) for i in range(0, count, self.step)]

    def on(self, lower: Array, upper: Array) -> Cells:
        """The bounds on boxes, in blocks."""
        return join([self.block(lower[part], upper[part]) for part in self.parts(len(lower))])

    def block(self, lower: Array, upper: Array) -> Cells:
        """The bounds on some boxes at once."""
        middle = _middle(lower, upper)
        radius = np.maximum(np.maximum(_apart(upper, middle), _apart(middle, lower)), THINNEST)
        with np.errstate(all="ignore"):
            net_at, net_over = self._heads(middle, radius)
            formula_at, formula_over = formula_jets(self.tree, self.names, middle, radius, self.order)
            at, over = net_at - formula_at, net_over - formula_over
            bound, seen, cut = _expanded(at, over, radius, self.pieces)
        unknown = np.flatnonzero(~(at.known & over.known) & net_at.known & net_over.known)
        for cell in unknown.tolist():
            bound[cell], seen[cell], cut[cell] = self._rough(cell, net_at, net_over, lower, upper, middle, radius)
        longest = (radius / self.units).argmax(axis=1)
        known = np.isfinite(bound)
        return Cells(
            np.where(known, bound, np.inf),
            np.where(np.isfinite(seen), seen, 0.0),
            np.where(at.known, at.rad[0], 0.0),
            np.where(known, cut, longest),
        )

    def _heads(self, middle: Array, radius: Array) -> tuple[Jets, Jets]:
        parts = [head_jets(head, middle, radius, self.order) for head in self.heads]
        at, over = parts[0]
        for more_at, more_over in parts[1:]:
            at, over = at + more_at, over + more_over
        return at, over

    def _rough(
        self, cell: int, net_at: Jets, net_over: Jets, lower: Array, upper_: Array, middle: Array, radius: Array
    ) -> tuple[float, float, int]:
        """By the slopes of both, or by their ranges, whichever is smaller."""
        with precision(BITS):
            ends = zip(lower[cell].tolist(), upper_[cell].tolist(), strict=True)
            whole = {name: Interval(arb(a), arb(b)) for name, (a, b) in zip(self.names, ends, strict=True)}
            point = {name: Interval(arb(x), arb(x)) for name, x in zip(self.names, middle[cell].tolist(), strict=True)}
            value = bounds(self.tree, point)
            at = arb(net_at.mid[0, cell], net_at.rad[0, cell]) - value.lower.union(value.upper)
            shares = []
            for i, tree in enumerate(self.slopes):
                row, slope = _linear_row(self.table, i), bounds(tree, whole)
                net = arb(net_over.mid[row, cell], net_over.rad[row, cell])
                shares.append(upper(abs(net - slope.lower.union(slope.upper)) * arb(radius[cell, i])))
            found = bounds(self.tree, whole)
            by_range = abs(arb(net_over.mid[0, cell], net_over.rad[0, cell]) - found.lower.union(found.upper))
            by_slope = upper(abs(at) + sum(map(arb, shares), start=arb(0)))
            seen = max(0.0, float(abs(at).lower()) * (1 - 2.0**-50)) if at.is_finite() else 0.0
            cut = int(np.argmax(shares)) if np.isfinite(by_slope) else int(np.argmax(radius[cell] / self.units))
            return min(by_slope, upper(by_range)), seen, cut


def _linear_row(table: Degrees, which: int) -> int:
    return table.place[tuple(int(i == which) for i in range(table.inputs))]


def _terms(at: Jets, over: Jets, radius: Array) -> Array:
    r"""$|c_\alpha| r^\alpha$ below the highest degree, and $|R_\alpha| r^\alpha$ there: (multi-indices, cells)."""
    table = at.table
    last = (table.totals == table.degree)[:, None]
    sizes = np.where(last, over.balls().magnitude(), at.balls().magnitude())
    return np.asarray(sizes * _scales(table, radius) * (1 + 2.0**-40))


def _scales(table: Degrees, radius: Array) -> Array:
    r"""$r^\alpha$, (multi-indices, cells), to within a relative $2^{-45}$."""
    scales = np.ones((len(table), len(radius)))
    for row, exponent in enumerate(table.exponents):
        for i, power in enumerate(exponent):
            for _ in range(int(power)):
                scales[row] *= radius[:, i]
    return scales


def _expanded(at: Jets, over: Jets, radius: Array, pieces: int) -> tuple[Array, Array, npt.NDArray[np.int64]]:
    """Bounds of |error| on the cells, errors attained there, and the axis to cut."""
    table, cells = at.table, at.mid.shape[1]
    below = table.totals < table.degree
    terms, scales = _terms(at, over, radius), _scales(table, radius)
    remainder = terms[~below].sum(axis=0) * SLACK
    uncertain = ((at.rad + 2.0**-44 * np.abs(at.mid)) * scales)[below].sum(axis=0) * SLACK
    shape = (cells, *[table.degree] * table.inputs)
    polynomial = np.zeros(shape)
    polynomial[(slice(None), *table.exponents[below].T)] = (at.mid * scales)[below].T
    above, attained = largest_size(polynomial, pieces)
    axes = table.exponents.T.astype(np.float64)
    by_remainder = axes[:, ~below] @ terms[~below]
    curved = below & (table.totals > 1)
    by_curve = axes[:, curved] @ terms[curved]
    cut = np.where(remainder > above - attained, by_remainder.argmax(axis=0), by_curve.argmax(axis=0))
    bound = (above + uncertain + remainder) * SLACK
    return bound, np.maximum(attained - uncertain - remainder, 0.0) / SLACK, cut.astype(np.int64)

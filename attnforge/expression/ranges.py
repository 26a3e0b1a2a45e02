r"""The range of an expression on a box, proved: intervals, derivatives that keep their sign, and bisection.

On a box where $\partial_j f$ has one sign f is monotone in $x_j$, and its extremes lie at the ends of side j: the side
is put at one end for the upper bound and at the other for the lower. What is left is enclosed by intervals, and by mean
values, $f(m) + \sum_j \partial_j f\,(x_j - m_j)$; the box whose bound is worst is cut along the side that matters most.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from flint import arb, ctx

from attnforge.expression.derivative import derivative
from attnforge.expression.evaluate import bounds, joined_bounds
from attnforge.expression.intervals import UNDEFINED, Interval, add, from_ball, is_undefined, multiply
from attnforge.expression.tree import Apply, Node, bottom_up, children, joined, unified, variables

CELLS = 60  # looked at for either end
LARGE = 400  # distinct nodes beyond which derivatives are not taken
WORK = 24_000  # nodes visited at most for the slopes on so many cells, about
CLOSE = 0.01  # of an end: known so well it is not looked at further
REACHED = 0.001  # of the range: an end that a value comes so near is taken as intervals give it

Values = dict[str, Interval]


def range_on(node: Node, box: Mapping[str, Interval], cells: int = CELLS, close: float = CLOSE) -> Interval:
    """An interval that holds every value on the box; undefined where the expression may be.

    At most so many cells are looked at for either end, until it is known so closely.

    >>> from attnforge.expression.parse import parse
    >>> sides = {"x": Interval(arb(-1), arb(2)), "y": Interval(arb(1), arb(2))}
    >>> [float(end) for end in range_on(parse("x*y - x"), sides)]
    [-1.0, 2.0]
    """
    return _range(node, _Box(tuple(box.items())), cells, close, ctx.prec)


def least_on(node: Node, box: Mapping[str, Interval]) -> arb:
    """A lower bound on the box, of the sign of the least value where that can be told; no number where it may be none.

    >>> from attnforge.expression.parse import parse
    >>> sides = {"x": Interval(arb(-1), arb(2))}
    >>> [least_on(parse(text), sides) >= 0 for text in ("x^2 - x + 1", "x^2 - x")]
    [True, False]
    """
    return _least(node, _Box(tuple(box.items())), ctx.prec)


class _Box:
    """A box, the same as another whose ends are, to the last bit."""

    def __init__(self, sides: tuple[tuple[str, Interval], ...]) -> None:
        self.sides = sides
        balls = [ball for _, side in sides for end in side for ball in (end.mid(), end.rad())]
        known = all(end.is_finite() for _, side in sides for end in side)
        self.key = (*(name for name, _ in sides), *(ball.man_exp() for ball in balls)) if known else (object(),)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Box) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


@lru_cache(maxsize=1024)
def _range(node: Node, known: _Box, cells: int, close: float, _bits: int) -> Interval:
    """The same; once for each box, by whoever asks."""
    box = dict(known.sides)
    whole = bounds(node, box)
    formula = _sloped(node, box, whole, close)
    if formula is None:
        return whole
    cells = formula.affordable(cells)
    lower, upper = (_end(formula, dict(box), cells, sign) for sign in (-1, 1))
    if lower.is_nan() or upper.is_nan():
        return UNDEFINED
    return Interval(lower, upper) if is_undefined(whole) else Interval(whole.lower.max(lower), whole.upper.min(upper))


@lru_cache(maxsize=1024)
def _least(node: Node, known: _Box, _bits: int) -> arb:
    box = dict(known.sides)
    whole = bounds(node, box)
    formula = None if whole.lower >= 0 else _sloped(node, box, whole)
    if formula is None:
        return whole.lower
    end = _end(formula, box, formula.affordable(CELLS), -1, sign_only=True)
    return end if is_undefined(whole) or end.is_nan() else whole.lower.max(end)


def _sloped(node: Node, box: Values, whole: Interval, close: float = CLOSE) -> Sloped | None:
    """With its derivatives; None where there is nothing to cut, or too much to take them."""
    names = [name for name in variables(node) if box[name].lower < box[name].upper]
    if not names or is_large(node):
        return None
    tree, *slopes = unified([node, *(slope_of(node, name) for name in names)])
    return Sloped(tree, joined([tree, *slopes]), tuple(names), whole, close)


def is_large(node: Node) -> bool:
    """Whether there are more distinct nodes than derivatives are taken of; no more of them are counted."""
    seen, stack = {id(node)}, [node]
    while stack and len(seen) <= LARGE:
        fresh = {id(child): child for child in children(stack.pop()) if id(child) not in seen}
        seen |= fresh.keys()
        stack.extend(fresh.values())
    return len(seen) > LARGE


@lru_cache(maxsize=4096)
def slope_of(node: Node, name: str) -> Node:
    """A derivative; once for all boxes."""
    return derivative(node, name)


@dataclass(frozen=True)
class Sloped:
    """An expression, it and its derivatives by the names joined, and what intervals say of it on the whole box.

    ``close`` is the part of an end within which it is to be known.
    """

    tree: Node
    root: Apply
    names: tuple[str, ...]
    whole: Interval
    close: float

    def affordable(self, cells: int) -> int:
        """So many cells, or as many as can be looked at."""
        work = WORK * max(cells, CELLS) // CELLS
        return min(cells, max(1, work // (len(self.names) * len(bottom_up(self.tree)))))

    def reached(self, seen: arb, sign: int) -> bool:
        """Whether a value seen is as far out, but for a small part of the range, as the whole box allows."""
        end = self.whole.upper if sign > 0 else -self.whole.lower
        return bool(end - seen <= min(REACHED, self.close) * (self.whole.upper - self.whole.lower))


def _end(formula: Sloped, box: Values, cells: int, sign: int, sign_only: bool = False) -> arb:
    """The upper end (sign 1) or the lower one (-1); or only so well that its sign is known."""
    count, order = 0, itertools.count()
    first = _look(formula, box, sign)
    heap = [(-_size(first[0], sign), next(order), *first)]
    seen = -arb.pos_inf()
    while count < cells:
        _, _, bound, inner, cell, widest = heap[0]
        seen = seen.max(inner)
        scale = abs(seen).max(abs(bound * sign)) if bound.is_finite() and seen.is_finite() else arb.pos_inf()
        if sign_only and (seen > 0 or bound * sign <= 0):
            break
        if widest is None or bool(bound * sign - seen <= formula.close * scale) or formula.reached(seen, sign):
            break
        heapq.heappop(heap)
        side = cell[widest]
        middle = (side.lower + side.upper).mid() / 2
        for half in (Interval(side.lower, middle.mid()), Interval(middle.mid(), side.upper)):
            found = _look(formula, {**cell, widest: half}, sign)
            seen = seen.max(found[1])
            heapq.heappush(heap, (-_size(found[0], sign), next(order), *found))
        count += 1
    return heap[0][2]


def _size(bound: arb, sign: int) -> float:
    return float("inf") if bound.is_nan() else float(bound * sign)


def _look(formula: Sloped, box: Values, sign: int) -> tuple[arb, arb, Values, str | None]:
    """The bound on a box, sign times a value taken there, the box without monotone sides, and the side to cut."""
    whole, *found = joined_bounds(formula.root, box)
    slopes = zip(formula.names, found, strict=True)
    tilts = {name: tilt for name, tilt in slopes if box[name].lower < box[name].upper}
    known = len(tilts)
    for name, tilt in list(tilts.items()):
        if is_undefined(tilt) or not (tilt.lower >= 0 or tilt.upper <= 0):
            continue
        rising = bool(tilt.lower >= 0) == (sign > 0)
        end = box[name].upper if rising else box[name].lower
        box = {**box, name: Interval(end, end)}
        del tilts[name]
    whole = whole if len(tilts) == known else bounds(formula.tree, box)
    bound = whole.upper if sign > 0 else whole.lower
    middle = {name: from_ball(((side.lower + side.upper) / 2).mid()) for name, side in box.items()}
    at = bounds(formula.tree, middle)
    inner = -arb.pos_inf() if is_undefined(at) else (at.lower if sign > 0 else -at.upper)
    moves = {name: multiply(tilt, _around(box[name])) for name, tilt in tilts.items() if not is_undefined(tilt)}
    if len(moves) == len(tilts) and not is_undefined(at):
        mean = add(at, *moves.values())
        end = mean.upper if sign > 0 else mean.lower
        bound = end if bound.is_nan() else (bound.min(end) if sign > 0 else bound.max(end))
    sizes = {name: float(abs(moves[name].upper)) if name in moves else float("inf") for name in tilts}
    widest = max(sizes, key=lambda name: (sizes[name], float(box[name].upper - box[name].lower)), default=None)
    return bound, inner, box, widest


def _around(side: Interval) -> Interval:
    middle = ((side.lower + side.upper) / 2).mid()
    return Interval((side.lower - middle).lower(), (side.upper - middle).upper())

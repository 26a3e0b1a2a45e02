r"""Where formulas have values, and which sign: shown by intervals on cells that cover a box.

**Statement.** Let a tree's interval on a cell be finite. Then the tree has a value at every point of the cell, and the
interval holds it. *Proof.* By induction over the tree: an interval function of the table returns an undefined interval
where its function may have no value for some arguments, and else one that holds all values; `where` reads the branch
that it does not choose nowhere on the cell. A box is the union of the halves of any of its sides, exactly so as the
cutting points are numbers that both halves have as an end; what holds on each of finitely many cells holds on the box.
Nothing is claimed where cells run out, or where the centre of a cell, a point of the box, is not accepted itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce

from flint import arb

from attnforge.errors import CertificateError
from attnforge.expression.evaluate import bounds
from attnforge.expression.intervals import UNDEFINED, Interval
from attnforge.expression.tree import Node, variables
from attnforge.outward import precision

CELLS = 1024  # a box is cut into at most so many

Box = Mapping[str, Interval]
Range = Callable[[Box], Interval]
Test = Callable[[Interval], bool]


def defined(tree: Node, box: Mapping[str, tuple[float, float]], cells: int = CELLS) -> bool:
    """Whether a formula is shown to have a value everywhere on a box, cut into at most so many cells.

    >>> from attnforge.expression.parse import parse
    >>> defined(parse("log(x^2 - x + 1)"), {"x": (-1, 1)}), defined(parse("exp(log(x))"), {"x": (0, 1)})
    (True, False)
    """
    with precision():
        return cover(lambda cell: bounds(tree, cell), is_finite, box_of(box, tree), variables(tree), cells) is not None


def box_of(sides: Mapping[str, tuple[float, float]], *trees: Node) -> dict[str, Interval]:
    """The sides as intervals: of finite numbers in order, and one for each variable of the trees."""
    if any(not -float("inf") < low <= high < float("inf") for low, high in sides.values()):
        raise CertificateError("A box has finite sides", str(dict(sides))[:80], "Give the lower ends first")
    missing = [name for tree in trees for name in variables(tree) if name not in sides]
    if missing:
        raise CertificateError("A box has a side for each variable", f"none for {missing[0]}", "Give it")
    return {name: Interval(arb(float(low)), arb(float(high))) for name, (low, high) in sides.items()}


def is_finite(span: Interval) -> bool:
    """Whether both ends are numbers."""
    return bool(span.lower.is_finite() and span.upper.is_finite())


def is_positive(span: Interval) -> bool:
    """Whether all of it is above zero."""
    return is_finite(span) and bool(span.lower > 0)


def is_not_negative(span: Interval) -> bool:
    """Whether nothing of it is below zero."""
    return is_finite(span) and bool(span.lower >= 0)


def joined(spans: Sequence[Interval] | None) -> Interval:
    """What holds all of some intervals; undefined where there are none."""
    if not spans:
        return UNDEFINED
    return Interval(reduce(arb.min, (span.lower for span in spans)), reduce(arb.max, (span.upper for span in spans)))


def cover(within: Range, accepted: Test, box: Box, names: Sequence[str], cells: int = CELLS) -> list[Interval] | None:
    """Accepted ranges on cells that cover the box, cut along the named sides; None where there are none in time."""
    left, found = [dict(box)], list[Interval]()
    for _ in range(cells):
        cell = left.pop()
        span = within(cell)
        if accepted(span):
            found.append(span)
        elif not any(cell[name].lower < cell[name].upper for name in names) or not accepted(within(_centre(cell))):
            return None
        else:
            left += _halves(cell, _sensitive(within, cell, names))
        if not left:
            return found
    return None


def _sensitive(within: Range, cell: Box, names: Sequence[str]) -> str:
    """The side to cut: with the centre in its place the range is narrowest; of equal ones the widest."""

    def key(name: str) -> tuple[float, float]:
        span = within({**cell, name: _middle(cell[name])})
        return width(span) if is_finite(span) else float("inf"), -width(cell[name])

    return min((name for name in names if cell[name].lower < cell[name].upper), key=key)


def _halves(cell: Box, name: str) -> list[dict[str, Interval]]:
    low, middle, high = cell[name].lower, _middle(cell[name]).lower, cell[name].upper
    return [{**cell, name: Interval(low, middle)}, {**cell, name: Interval(middle, high)}]


def _centre(cell: Box) -> dict[str, Interval]:
    return {name: _middle(side) for name, side in cell.items()}


def _middle(side: Interval) -> Interval:
    """An exact point of the side: its middle, rounded and kept within its ends."""
    middle = ((side.lower + side.upper) / 2).mid()
    return Interval(middle, middle) if side.lower <= middle <= side.upper else Interval(side.lower, side.lower)


def width(span: Interval) -> float:
    """About how wide it is."""
    return float((span.upper - span.lower).mid())

"""Derivatives of expressions, as expressions."""

from __future__ import annotations

from collections.abc import Sequence

from attnforge.expression.functions import function_of
from attnforge.expression.simplify import ONE, ZERO
from attnforge.expression.tree import Apply, Node, Variable, fold


def derivative(node: Node, name: str) -> Node:
    r"""The partial derivative of the expression by the variable ``name``.

    At kinks (abs, max, ...) its enclosure contains the Clarke derivative, so for $f$ continuous on a box and every
    segment in it parallel to the axis of ``name``, the slope of $f$ along the segment lies in the enclosure over the
    box. Where $f$ jumps, or the derivative is unbounded, the enclosure is NaN. It speaks of points where $f$ is
    defined: the derivative of log(x) is 1/x for negative x too, so enclose $f$ as well.

    Subexpressions are shared with the argument, and the result may exceed the parser's limits.

    >>> from attnforge.expression.parse import parse
    >>> from attnforge.expression.text import to_text
    >>> to_text(derivative(parse("3*x^2 + sin(y) + abs(x)"), "x"))
    '6*x + sign(x)'
    """

    def visit(each: Node, derivatives: Sequence[Node]) -> Node:
        if not isinstance(each, Apply):
            return ONE if isinstance(each, Variable) and each.name == name else ZERO
        if all(inner == ZERO for inner in derivatives):
            return ZERO
        return function_of(each).derivative(each.arguments, tuple(derivatives))

    return fold(node, visit)

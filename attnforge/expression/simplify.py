"""Builders for sums, products and powers that tidy up where this is exact.

Neutral elements are dropped, nested sums and products are flattened, and numbers are combined only when the float64
result is the exact one. A product with zero is kept: ``0 * (1 / x)`` is not zero at zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction

from attnforge.expression.tree import Apply, Constant, Node

ZERO, ONE, TWO = Constant(0.0), Constant(1.0), Constant(2.0)


def plus(*terms: Node) -> Node:
    """The sum of the terms.

    >>> plus(Constant(1.0), ZERO, Constant(2.0))
    Constant(3.0)
    """
    kept = _combine(_flatten("+", terms), Fraction.__add__, ZERO)
    return kept[0] if len(kept) == 1 else Apply("+", tuple(kept))


def times(*factors: Node) -> Node:
    """The product of the factors; a factor -1 becomes a minus sign."""
    kept = _combine(_flatten("*", factors), Fraction.__mul__, ONE)
    if len(kept) > 1 and kept[0] == Constant(-1.0):
        return minus(times(*kept[1:]))
    return kept[0] if len(kept) == 1 else Apply("*", tuple(kept))


def minus(node: Node) -> Node:
    """The negative."""
    if isinstance(node, Constant):
        return Constant(-node.value)
    if isinstance(node, Apply) and node.function == "-":
        return node.arguments[0]
    return Apply("-", (node,))


def over(above: Node, below: Node) -> Node:
    """The quotient."""
    return above if below == ONE else Apply("/", (above, below))


def raised(base: Node, exponent: Node) -> Node:
    """The power; exponents 0 and 1 disappear (as in NumPy, x^0 = 1 everywhere)."""
    if exponent == ZERO:
        return ONE
    return base if exponent == ONE else Apply("^", (base, exponent))


def squared(node: Node) -> Node:
    """The square."""
    return raised(node, TWO)


def of(function: str, *arguments: Node) -> Node:
    """A function applied."""
    return Apply(function, arguments)


def _flatten(function: str, nodes: Iterable[Node]) -> list[Node]:
    flat: list[Node] = []
    for node in nodes:
        flat.extend(node.arguments if isinstance(node, Apply) and node.function == function else (node,))
    return flat


def _combine(nodes: list[Node], operation: Callable[[Fraction, Fraction], Fraction], neutral: Constant) -> list[Node]:
    """The one number, if it is not neutral, and then the rest; numbers that do not combine exactly stay apart."""
    number, rest = neutral, list[Node]()
    for node in nodes:
        exact = _exact(operation, number, node) if isinstance(node, Constant) else None
        if exact is None:
            rest.append(node)
        else:
            number = exact
    return [number, *rest] if number != neutral or not rest else rest


def _exact(operation: Callable[[Fraction, Fraction], Fraction], a: Constant, b: Constant) -> Constant | None:
    value = operation(Fraction(a.value), Fraction(b.value))
    try:
        rounded = float(value)
    except OverflowError:
        return None
    return Constant(rounded) if math.isfinite(rounded) and Fraction(rounded) == value else None

"""The summands of an expression: its outermost sum, flattened through signs and constant factors."""

from __future__ import annotations

from attnforge.expression.simplify import ONE, over, times
from attnforge.expression.tree import Apply, Constant, Node, varies


def summands(node: Node) -> list[Node]:
    """Expressions that add up to the given one, none of them a sum, a negated sum or a multiple of one.

    >>> from attnforge.expression import parse, to_text
    >>> [to_text(each) for each in summands(parse("sin(x) - 2*(x*y - (1 + y)/4)"))]
    ['sin(x)', '-2*x*y', '2*(1/4)', '2*(1/4)*y']
    """
    found: list[Node] = []
    stack: list[tuple[tuple[Node, ...], Node]] = [((), node)]
    while stack:
        factors, each = stack.pop()
        opened = _opened(each)
        if opened is None:
            found.append(times(*factors, each) if factors else each)
        else:
            scale, parts = opened
            stack.extend((factors + scale, part) for part in reversed(parts))
    return found


def _opened(node: Node) -> tuple[tuple[Node, ...], tuple[Node, ...]] | None:
    """Constant factors, and parts whose sum they multiply; None if the node is a summand itself."""
    if not isinstance(node, Apply):
        return None
    arguments = node.arguments
    if node.function == "+":
        return (), arguments
    if node.function == "-":
        return (Constant(-1.0),), arguments
    if node.function == "*":
        varying = tuple(each for each in arguments if varies(each))
        constant = tuple(each for each in arguments if not varies(each))
        return (constant, varying) if len(varying) == 1 and constant else None
    if node.function == "/" and varies(arguments[0]) and not varies(arguments[1]):
        return (over(ONE, arguments[1]),), arguments[:1]
    return None

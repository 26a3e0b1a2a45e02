"""Traced trees as one would write them: equal parts once, and sums and products of one level."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from attnforge.expression.tree import Apply, Node, bottom_up, children, fold_joined, joined, unified

FLAT = ("+", "*")


def tidied(trees: Iterable[Node]) -> tuple[Node, ...]:
    """The same formulas; a sum or product that only another one uses becomes a part of it.

    >>> from attnforge.expression import parse, to_text
    >>> to_text(tidied([parse("((x + y) + 2) + (x + y)^2")])[0])
    '(x + y) + 2 + (x + y)^2'
    """
    root = joined(unified(trees))
    uses = Counter(id(child) for node in bottom_up(root) for child in children(node))

    def visit(node: Node, arguments: Sequence[Node]) -> Node:
        if not isinstance(node, Apply):
            return node
        parts = zip(node.arguments, arguments, strict=True)
        flat = [part for old, new in parts for part in _parts(node, new, uses[id(old)] == 1)]
        return Apply(node.function, tuple(flat))

    return tuple(fold_joined(root, visit))


def _parts(node: Apply, argument: Node, alone: bool) -> tuple[Node, ...]:
    """The arguments of an argument that only this node uses, where it is the same sum or product."""
    same = isinstance(argument, Apply) and argument.function == node.function and node.function in FLAT
    return children(argument) if alone and same else (argument,)

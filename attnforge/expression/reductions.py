"""Sums, means, products and norms over the entries of vectors: written out when they are read.

Inside a reduction the bare name ``x`` stands for every entry x[0], x[1], ... in turn, so that ``sum(x^2)`` is
``x[0]^2 + x[1]^2 + ...``; arguments without a vector count once. What is left has no reduction in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from attnforge.expression.simplify import of, over
from attnforge.expression.tree import Apply, Constant, Node, Variable, fold, variables


def _sum(terms: Sequence[Node]) -> Node:
    return of("+", *terms) if len(terms) > 1 else terms[0]


def _product(factors: Sequence[Node]) -> Node:
    return of("*", *factors) if len(factors) > 1 else factors[0]


def _mean(terms: Sequence[Node]) -> Node:
    return over(_sum(terms), Constant(float(len(terms))))


def _norm(entries: Sequence[Node]) -> Node:
    return of("hypot", *entries) if len(entries) > 1 else of("abs", entries[0])


REDUCTIONS: dict[str, Callable[[Sequence[Node]], Node]] = {
    "sum": _sum,
    "mean": _mean,
    "prod": _product,
    "norm": _norm,
}


def vector_lengths(names: Iterable[str]) -> dict[str, int]:
    """How many entries every vector has whose entries are among the names; zero if some are missing.

    >>> vector_lengths(["x[1]", "t", "x[0]", "y[1]"])
    {'x': 2, 'y': 0}
    """
    found: dict[str, set[int]] = {}
    for name in names:
        stem, _, index = name.rstrip("]").partition("[")
        if index.isdecimal() and len(index) < 10:  # other names are refused as such
            found.setdefault(stem, set()).add(int(index))
    return {stem: len(indices) if max(indices) < len(indices) else 0 for stem, indices in found.items()}


def vectors(argument: Node, lengths: Mapping[str, int], inputs: frozenset[str]) -> dict[str, int]:
    """The vectors that an argument of a reduction names, and their lengths."""
    return {name: lengths[name] for name in variables(argument) if name in lengths and name not in inputs}


def entries(argument: Node, named: Iterable[str], length: int) -> list[Node]:
    """The argument at every entry of the vectors named."""
    return [_entry(argument, frozenset(named), i) for i in range(length)]


def _entry(argument: Node, named: frozenset[str], i: int) -> Node:
    def visit(node: Node, arguments: Sequence[Node]) -> Node:
        if isinstance(node, Variable):
            return Variable(f"{node.name}[{i}]") if node.name in named else node
        return Apply(node.function, tuple(arguments)) if isinstance(node, Apply) else node

    return fold(argument, visit)

"""How large an expression may be: every bound has a reason, and keeps hostile text from costing time or memory."""

from __future__ import annotations

from dataclasses import dataclass

from attnforge.expression.evaluate import evaluate
from attnforge.expression.tree import Node, size, varies

MAX_CHARACTERS = 10_000  # several printed pages; also bounds what a stored file may ask us to parse
MAX_DEPTH = 100  # nesting no reader can follow; leaves room on Python's stack for pickling and copying a tree
MAX_NODES = 2_000  # one evaluation of 100 000 points then takes seconds, not minutes
MAX_EXPONENT = 64  # |x| = 60 000 still fits float64 at the 64th power; beyond, one writes exp or rescales
MAX_EXPONENT_NODES = 20  # in a constant exponent: it is evaluated wherever it stands
MAX_INDEX = 99_999  # more inputs than any construction can grid


@dataclass(frozen=True)
class Limits:
    """What a text may have: characters, nodes, and levels of its tree."""

    characters: int = MAX_CHARACTERS
    nodes: int = MAX_NODES
    depth: int = MAX_DEPTH


# Of a program of shared subtrees all walks visit an object once: its nodes are counted as objects, and are its depth's
# limit. A network of 100 000 weights has 2 nodes and about 26 characters a weight; files hold up to 16 million.
PROGRAM = Limits(characters=4_000_000, nodes=200_000, depth=200_000)


def exponent_problem(exponent: Node) -> str:
    """Why the exponent is refused; empty if it is not. An exponent with variables has nothing to check here.

    Constant exponents are evaluated, so that towers such as 9^9^9 are refused and not computed.
    """
    if varies(exponent):
        return ""
    if size(exponent) > MAX_EXPONENT_NODES:
        return f"the exponent has {size(exponent)} numbers and operations instead of at most {MAX_EXPONENT_NODES}"
    value = float(evaluate(exponent, {}))
    return "" if abs(value) <= MAX_EXPONENT else f"the exponent is {value:g}"

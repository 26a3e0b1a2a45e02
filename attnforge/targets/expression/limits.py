"""How large an expression may be: every bound has a reason, and keeps hostile text from costing time or memory."""

from __future__ import annotations

from attnforge.targets.expression.evaluate import evaluate
from attnforge.targets.expression.tree import Node, variables

MAX_CHARACTERS = 10_000  # several printed pages; also bounds what a stored file may ask us to parse
MAX_DEPTH = 100  # nesting no reader can follow; leaves room on Python's stack for pickling and copying a tree
MAX_NODES = 2_000  # one evaluation of 100 000 points then takes seconds, not minutes
MAX_EXPONENT = 64  # |x| = 60 000 still fits float64 at the 64th power; beyond, one writes exp or rescales
MAX_INDEX = 99_999  # more inputs than any construction can grid


def exponent_problem(exponent: Node) -> str:
    """Why the exponent is refused; empty if it is not. An exponent with variables has nothing to check here.

    Constant exponents are evaluated, so that towers such as 9^9^9 are refused and not computed.
    """
    if variables(exponent):
        return ""
    value = float(evaluate(exponent, {}))
    return "" if abs(value) <= MAX_EXPONENT else f"the exponent is {value:g}"

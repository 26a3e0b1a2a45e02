"""Expressions: text or sympy into a tree of our own, which can be evaluated, enclosed and differentiated.

User text is never executed: the parser is written by hand, and knows numbers, names and one table of functions.
"""

from attnforge.expression.derivative import derivative
from attnforge.expression.evaluate import enclose, evaluate
from attnforge.expression.linear import LinearForm, TruncatedForm, linear_form, truncated_linear_form
from attnforge.expression.parse import parse
from attnforge.expression.program import parse_program, program_text
from attnforge.expression.sympy_import import from_sympy
from attnforge.expression.text import to_text
from attnforge.expression.tree import Apply, Constant, Node, Variable, variables

__all__ = [
    "Apply",
    "Constant",
    "LinearForm",
    "Node",
    "TruncatedForm",
    "Variable",
    "derivative",
    "enclose",
    "evaluate",
    "from_sympy",
    "linear_form",
    "parse",
    "parse_program",
    "program_text",
    "to_text",
    "truncated_linear_form",
    "variables",
]

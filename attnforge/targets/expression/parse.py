r"""The parser: text into a tree, by operator precedence, with its own stack.

.. code-block:: text

    sum      =  product { ("+" | "-") product }
    product  =  negative { ("*" | "/") negative }
    negative =  { "-" | "+" } power
    power    =  atom [ ("^" | "**") negative ]              so -x^2 = -(x^2), 2^-1 = 1/2, x^y^z = x^(y^z)
    atom     =  number | name | name "[" digits "]" | function "(" sum { "," sum } ")" | "(" sum ")"

Pending operators wait on a stack until one that binds less tightly arrives (Dijkstra's shunting yard), so no text can
exhaust Python's stack. User text is never evaluated by Python.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass

from attnforge.errors import TargetError
from attnforge.targets.expression.functions import FUNCTIONS, NAMES
from attnforge.targets.expression.limits import (
    MAX_CHARACTERS,
    MAX_DEPTH,
    MAX_EXPONENT,
    MAX_INDEX,
    Limits,
    exponent_problem,
)
from attnforge.targets.expression.text import to_text
from attnforge.targets.expression.tokens import Token, error_at, tokenize
from attnforge.targets.expression.tree import Apply, Constant, Node, Variable, depth, name_problem, size

OPEN, SUM, PRODUCT, NEGATIVE, POWER = range(5)  # how tightly a pending operator binds; an open parenthesis, not at all
BINARY = {"+": SUM, "-": SUM, "*": PRODUCT, "/": PRODUCT, "^": POWER}


def parse(text: str) -> Node:
    """The tree of an expression, or a `TargetError` that shows where the text is wrong.

    A number means the float64 nearest to it, exactly; `pi` and `e` mean the real numbers.

    >>> parse("2*x - 1")
    Apply('+', (Apply('*', (Constant(2.0), Variable('x'))), Constant(-1.0)))
    """
    node, _ = parse_part(checked_text(text), {}, Limits())
    if len(to_text(node)) > MAX_CHARACTERS:
        requirement = f"An expression may have at most {MAX_CHARACTERS} characters, also in its canonical form"
        raise error_at(text, 0, requirement, "Shorten it, or give a callable")
    return node


def parse_part(text: str, known: Mapping[str, Node], limits: Limits) -> tuple[Node, int]:
    """The tree of one expression, in which ``known`` names stand for subtrees; and how many nodes were made."""
    parser = _Parser(text, known, limits)
    return parser.parse(), parser.nodes


def checked_text(text: object) -> str:
    """The text, after checking that it is one."""
    if not isinstance(text, str):
        requirement = "An expression must be a string"
        raise TargetError(requirement, type(text).__name__, 'Write it in quotes, as "sin(8*x) + abs(x)"')
    return text


@dataclass
class _Operand:
    """A finished operand, or a sum or product (``joined``) that may still grow. ``literal``: a number just read."""

    nodes: list[Node]
    start: int
    joined: str = ""
    literal: bool = False


@dataclass
class _Pending:
    """An operator whose right operand is not complete, or an open parenthesis; of a call, if it names a function."""

    symbol: str
    binding: int
    start: int
    function: str = ""
    arguments: int = 1


class _Parser:
    def __init__(self, text: str, known: Mapping[str, Node], limits: Limits) -> None:
        self.text, self.known, self.limits = text, known, limits
        self.tokens = iter(tokenize(text, limits.characters))
        self.token = next(self.tokens)
        self.operands: list[_Operand] = []
        self.pending: list[_Pending] = []
        self.nodes = 0
        self.parentheses = 0

    def parse(self) -> Node:
        self._read_operand()
        while self.token.kind != "end" or self.parentheses:
            self._read_operator()
        self._reduce(OPEN)
        return self._close(self.operands.pop())

    # Reading

    def _read_operand(self) -> None:
        """Signs and opening parentheses, and then a number, a variable or a constant."""
        while True:
            token = self._advance()
            if token.text == "(":
                self._open(token)
            elif token.text == "-":
                self.pending.append(_Pending("-", NEGATIVE, token.start))
            elif token.kind == "number":
                return self._push_leaf(self._number(token), token.start)
            elif token.kind == "name" and self._read_name(token):
                return None
            elif token.kind != "name" and token.text != "+":
                raise self._missing_operand(token)

    def _read_name(self, token: Token) -> bool:
        """A variable or a constant (True), or the opening of a call, whose first argument comes next (False)."""
        name = NAMES.get(token.text)
        if name is None:
            self._push_leaf(self._variable(token), token.start)
        elif FUNCTIONS[name].arity == 0:
            self._push_leaf(Apply(name, ()), token.start)
        elif self.token.text == "(":
            self._open(self._advance(), name, token.start)
            return False
        else:
            example = ", ".join("xyz"[: FUNCTIONS[name].arity])
            raise self._error(f"`{token.text}` is a function", f"Write `{token.text}({example})`", token.start)
        return True

    def _read_operator(self) -> None:
        """An operator and its right operand, a comma and the next argument, or a closing parenthesis."""
        token = self.token
        if token.text in BINARY:
            self._advance()
            binding = BINARY[token.text]
            self._reduce(binding + 1 if token.text == "^" else binding)  # the power associates to the right
            self.pending.append(_Pending(token.text, binding, token.start))
            self._read_operand()
        elif token.text == ",":
            self._advance()
            self._next_argument(token)
            self._read_operand()
        elif token.text == ")":
            self._advance()
            self._close_parenthesis(token)
        else:
            raise self._missing_operator(token)

    def _next_argument(self, token: Token) -> None:
        self._reduce(SUM)
        if not (self.pending and self.pending[-1].function):
            raise self._error("A comma separates the arguments of a function", "Remove it", token.start)
        self.pending[-1].arguments += 1
        self._finish_operand(self.operands[-1].start)

    def _close_parenthesis(self, token: Token) -> None:
        self._reduce(SUM)
        if not self.pending:
            raise self._error("Every `)` needs a `(` before it", "Remove it, or open a parenthesis", token.start)
        opened = self.pending.pop()
        self.parentheses -= 1
        self._finish_operand(opened.start)
        if opened.function:
            self._call(opened)

    # Building

    def _call(self, opened: _Pending) -> None:
        function, count = FUNCTIONS[opened.function], opened.arguments
        if not function.takes(count):
            requirement = f"`{opened.function}` takes {function.arguments_text()}, not {count}"
            raise self._error(requirement, "Check the commas and parentheses", opened.start)
        arguments = [self._close(operand) for operand in self.operands[-count:]]
        del self.operands[-count:]
        self._push(self._apply(opened.function, arguments, opened.start), opened.start)

    def _reduce(self, binding: int) -> None:
        """Apply the pending operators that bind at least as tightly, down to the nearest open parenthesis."""
        while self.pending and self.pending[-1].binding >= max(binding, SUM):
            operator, right = self.pending.pop(), self.operands.pop()
            if operator.binding == NEGATIVE:
                self._push(self._negative(right, operator.start), operator.start)
            elif operator.symbol in "+-":
                self._join("+", self._negative(right, operator.start) if operator.symbol == "-" else self._close(right))
            elif operator.symbol == "*":
                self._join("*", self._close(right))
            else:
                left = self.operands.pop()
                arguments = [self._close(left), self._close(right)]
                if operator.symbol == "^":
                    self._check_exponent(arguments[1], right.start)
                self._push(self._apply(operator.symbol, arguments, operator.start), left.start)

    def _join(self, symbol: str, right: Node) -> None:
        """Add a term to the sum, or a factor to the product, on top of the operands."""
        left = self.operands[-1]
        if left.joined != symbol:
            left.nodes, left.joined, left.literal = [self._close(left)], symbol, False
        left.nodes.append(right)

    def _negative(self, operand: _Operand, start: int) -> Node:
        node = self._close(operand)
        if operand.literal and isinstance(node, Constant):
            return Constant(-node.value)
        return self._apply("-", [node], start)

    def _close(self, operand: _Operand) -> Node:
        return self._apply(operand.joined, operand.nodes, operand.start) if operand.joined else operand.nodes[0]

    def _finish_operand(self, start: int) -> None:
        """Parentheses and commas end a sum or product: what follows does not join it."""
        self.operands[-1] = _Operand([self._close(self.operands[-1])], start)

    def _apply(self, function: str, arguments: list[Node], start: int) -> Node:
        if max(map(depth, arguments), default=0) >= self.limits.depth:
            raise self._too_deep(start)
        self._count(start)
        return Apply(function, tuple(arguments))

    def _push(self, node: Node, start: int) -> None:
        self.operands.append(_Operand([node], start))

    def _push_leaf(self, node: Node, start: int) -> None:
        self._count(start)
        self.operands.append(_Operand([node], start, literal=isinstance(node, Constant)))

    def _open(self, token: Token, function: str = "", start: int | None = None) -> None:
        self.parentheses += 1
        if self.parentheses > MAX_DEPTH:
            raise self._too_deep(token.start)
        self.pending.append(_Pending("(", OPEN, token.start if start is None else start, function))

    def _advance(self) -> Token:
        token = self.token
        self.token = next(self.tokens, token)
        return token

    # Leaves

    def _number(self, token: Token) -> Node:
        value = float(token.text)
        if not math.isfinite(value):
            raise self._error("A number must be finite in float64", "Use numbers below 1.8e308", token.start)
        return Constant(value)

    def _variable(self, token: Token) -> Node:
        if self.token.text == "(":
            raise self._unknown_function(token)
        if problem := name_problem(token.text):
            raise self._error(f"A variable needs a plain name: {problem}", "Rename the variable", token.start)
        if token.text in self.known and self.token.text != "[":
            return self.known[token.text]
        return Variable(token.text + self._index() if self.token.text == "[" else token.text)

    def _index(self) -> str:
        opening, index, closing = self._advance(), self._advance(), self.token
        if not (index.text.isdecimal() and closing.text == "]"):
            requirement = "An index must be one non-negative whole number in brackets"
            raise self._error(requirement, "Write, for example, `x[0]`", index.start)
        digits = index.text.lstrip("0") or "0"
        if len(digits) > len(str(MAX_INDEX)) or int(digits) > MAX_INDEX:
            raise self._error(f"An index may be at most {MAX_INDEX}", "Use fewer inputs", index.start)
        self._advance()
        return f"{opening.text}{digits}{closing.text}"

    # Refusals

    def _count(self, start: int) -> None:
        self.nodes += 1
        if self.nodes > self.limits.nodes:
            requirement = f"An expression may have at most {self.limits.nodes} numbers, variables and operations"
            raise self._error(requirement, "Give a callable instead", start)

    def _check_exponent(self, exponent: Node, start: int) -> None:
        if problem := exponent_problem(exponent):
            requirement = f"A constant exponent must lie between -{MAX_EXPONENT} and {MAX_EXPONENT}, but {problem}"
            raise self._error(requirement, "Use a smaller exponent, or exp and log", start)

    def _too_deep(self, start: int) -> TargetError:
        requirement = f"An expression may be nested at most {MAX_DEPTH} deep"
        return self._error(requirement, "Remove parentheses and signs, or give a callable", start)

    def _unknown_function(self, token: Token) -> TargetError:
        callable_names = [name for name in NAMES if FUNCTIONS[NAMES[name]].arity]
        wanted = token.text.lower()[:20] if len(token.text) > 1 else ""
        close = difflib.get_close_matches(wanted, callable_names, n=1, cutoff=0.5)
        known = ", ".join(name for name, function in FUNCTIONS.items() if function.arity and not function.operator)
        remedy = f"Did you mean `{close[0]}`?" if close else f"The functions are {known}; a product is written with `*`"
        return self._error(f"`{token.text[:40]}` is not a function", remedy, token.start)

    def _missing_operand(self, token: Token) -> TargetError:
        if token.kind == "end":
            remedy = "Complete it" if self.text.strip() else 'Write an expression, as "sin(8*x) + abs(x)"'
            return self._error("The expression ends where a value is needed", remedy, token.start)
        remedy = "Write a number, a variable, a function or `(`"
        return self._error(f"A value is needed before `{token.text}`", remedy, token.start)

    def _missing_operator(self, token: Token) -> TargetError:
        if token.kind == "end":
            opened = next(each for each in reversed(self.pending) if each.binding == OPEN)
            return self._error("Every `(` needs a `)` after it", "Close the parenthesis", opened.start)
        if token.text in ("[", "]"):
            return self._error("Brackets follow the name of a variable", "Write, for example, `x[0]`", token.start)
        if token.kind == "number" or (token.kind == "name" and name_problem(token.text)):
            requirement = f"An operator is missing before `{token.text[:40]}`"
            return self._error(requirement, "Put an operator between the two", token.start)
        left = self._close(self.operands[-1])
        short = size(left) <= MAX_DEPTH and not (isinstance(left, Apply) and left.function in BINARY)
        shown = to_text(left) if short else "..."
        remedy = f"Write a product with `*`: `{shown[:20]}*{token.text[:20]}`"
        return self._error(f"An operator is missing before `{token.text[:40]}`", remedy, token.start)

    def _error(self, requirement: str, remedy: str, start: int) -> TargetError:
        return error_at(self.text, start, requirement, remedy)

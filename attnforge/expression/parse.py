r"""The parser: text into a tree, by operator precedence, with its own stack.

.. code-block:: text

    sum      =  product { ("+" | "-") product }
    product  =  negative { ("*" | "/") negative }
    negative =  { "-" | "+" } power
    power    =  atom [ ("^" | "**") negative ]              so -x^2 = -(x^2), 2^-1 = 1/2, x^y^z = x^(y^z)
    atom     =  number | name | name "[" digits "]" | function "(" sum { "," sum } ")" | "(" sum ")"
             |  "where" "(" sum ("<" | "<=" | ">" | ">=") sum "," sum "," sum ")"
             |  "tokens.mean" "(" sum ")"                   in functions of a prompt

Of a `where` only u < v is kept, the others being the same with sides or branches exchanged. A name that the domain
has is an input, whatever else it means; a function is what stands before a parenthesis.

Pending operators wait on a stack until one that binds less tightly arrives (Dijkstra's shunting yard), so no text can
exhaust Python's stack. User text is never evaluated by Python.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from attnforge.errors import TargetError
from attnforge.expression.functions import FUNCTIONS, NAMES
from attnforge.expression.limits import (
    MAX_CHARACTERS,
    MAX_DEPTH,
    MAX_EXPONENT,
    MAX_INDEX,
    Limits,
    exponent_problem,
)
from attnforge.expression.reductions import REDUCTIONS, entries, vector_lengths, vectors
from attnforge.expression.suggestions import instead_of
from attnforge.expression.text import to_text
from attnforge.expression.tokens import Token, error_at, tokenize
from attnforge.expression.tree import (
    Apply,
    Constant,
    Node,
    Variable,
    bottom_up,
    depth,
    name_problem,
    size,
    variables,
)

OPEN, SUM, PRODUCT, NEGATIVE, POWER = range(5)  # how tightly a pending operator binds; an open parenthesis, not at all
MEAN = "tokens.mean"
BINARY = {"+": SUM, "-": SUM, "*": PRODUCT, "/": PRODUCT, "^": POWER}
ENTRY = re.compile(
    r"(?<![A-Za-z0-9_])([A-Za-z_][A-Za-z0-9_]*+)[ \t\r\n]*+\[[ \t\r\n]*+([0-9]{1,9}+)[ \t\r\n]*+\]", re.ASCII
)  # possessive: linear in the text, whatever it is
COMPARED = {"<": (0, 1, 2, 3), ">": (1, 0, 2, 3), ">=": (0, 1, 3, 2), "<=": (1, 0, 3, 2)}  # u, v, a, b of u < v
CALLED = (*REDUCTIONS, *(name for name in NAMES if FUNCTIONS[NAMES[name]].arity))  # what stands before a parenthesis


def parse(text: str, names: Collection[str] | None = None, means: list[Node] | None = None) -> Node:
    """The tree of an expression, or a `TargetError` that shows where the text is wrong.

    A number means the float64 nearest to it, exactly; `pi` and `e` mean the real numbers. ``names`` are those of the
    inputs, if they are known: they say how long vectors are that are summed up. ``means`` are what `tokens.mean` was
    taken of so far: new ones are added, and the variables mean[0], mean[1], .. stand for them.

    >>> parse("2*x - 1")
    Apply('+', (Apply('*', (Constant(2.0), Variable('x'))), Constant(-1.0)))
    >>> to_text(parse("mean(x^2)", ["x[0]", "x[1]"]))
    '(x[0]^2 + x[1]^2)/2'
    """
    node, _ = parse_part(text, tokenize(checked_text(text)), vocabulary(text, names, means), Limits())
    if len(to_text(node)) > MAX_CHARACTERS:
        requirement = f"An expression may have at most {MAX_CHARACTERS} characters, also in its canonical form"
        raise error_at(text, 0, requirement, "Shorten it, or give a callable")
    return node


@dataclass(frozen=True)
class Vocabulary:
    """What names mean: the inputs, None where they are not known, the lengths of vectors, and subtrees with a name.

    ``means`` are the expressions whose means over tokens are taken; None where there are no tokens.
    """

    inputs: frozenset[str] | None
    lengths: Mapping[str, int]
    parts: dict[str, Node] = field(default_factory=dict)
    means: list[Node] | None = None


def vocabulary(text: str, names: Collection[str] | None, means: list[Node] | None = None) -> Vocabulary:
    """From the names of the inputs; else vectors are as long as the entries that the text names."""
    if names is not None:
        return Vocabulary(frozenset(names), vector_lengths(names), means=means)
    lengths: dict[str, int] = {}
    for stem, index in ENTRY.findall(text):
        lengths[stem] = max(lengths.get(stem, 0), int(index) + 1)
    return Vocabulary(None, lengths, means=means)


def parse_part(
    text: str, tokens: Sequence[Token], known: Vocabulary, limits: Limits, nodes: int = 0
) -> tuple[Node, int]:
    """The tree of one expression of a text, from its tokens; and how many nodes there are with those before it."""
    parser = _Parser(text, tokens, known, limits, nodes)
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
    """An operator whose right operand is not complete, or an open parenthesis; of a call, if it names a function.

    ``compared`` is the sign between the first two arguments of a `where`.
    """

    symbol: str
    binding: int
    start: int
    function: str = ""
    arguments: int = 1
    compared: str = ""


class _Parser:
    def __init__(self, text: str, tokens: Sequence[Token], known: Vocabulary, limits: Limits, nodes: int) -> None:
        self.text, self.known, self.limits = text, known, limits
        self.tokens = iter(tokens)
        self.token = next(self.tokens)
        self.operands: list[_Operand] = []
        self.pending: list[_Pending] = []
        self.nodes = nodes
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
        name = NAMES.get(token.text, token.text)
        if token.text == MEAN:
            return self._open_mean(token)
        if token.text in CALLED and self.token.text == "(":
            self._open(self._advance(), name, token.start)
            return False
        if name in FUNCTIONS and FUNCTIONS[name].arity == 0 and not self._is_input(token):
            self._push_leaf(Apply(name, ()), token.start)
        elif token.text in CALLED and not self._is_input(token):
            raise self._error(f"`{token.text}` is a function", f"Write `{_example(name)}`", token.start)
        else:
            self._push_leaf(self._variable(token), token.start)
        return True

    def _open_mean(self, token: Token) -> bool:
        """The opening of a mean over tokens."""
        if self.known.means is None:
            requirement, remedy = f"`{MEAN}` is taken of the tokens of a prompt", "Give such a formula to compile"
            raise self._error(requirement, remedy, token.start)
        if self.token.text != "(":
            raise self._error(f"`{MEAN}` is a function", f"Write `{MEAN}(x)`", token.start)
        if any(each.function == MEAN for each in self.pending):
            remedy = "Write it out: the variance is tokens.mean(x^2) - tokens.mean(x)^2"
            raise self._error(f"`{MEAN}` is not taken of another one", remedy, token.start)
        self._open(self._advance(), MEAN, token.start)
        return False

    def _mean(self, opened: _Pending, arguments: list[Node]) -> Node:
        """The variable that stands for a mean over tokens; equal expressions have one."""
        if len(arguments) != 1:
            requirement = f"`{MEAN}` takes 1 argument, not {len(arguments)}"
            raise self._error(requirement, "Check the commas and parentheses", opened.start)
        assert self.known.means is not None
        if arguments[0] not in self.known.means:
            self.known.means.append(arguments[0])
        return Variable(f"mean[{self.known.means.index(arguments[0])}]")

    def _is_input(self, token: Token) -> bool:
        """Whether a name is that of an input, of its entries, or of a vector."""
        return token.text in (self.known.inputs or ()) or token.text in self.known.lengths

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
        elif token.text in COMPARED:
            self._advance()
            self._compare(token)
            self._read_operand()
        elif token.text == ")":
            self._advance()
            self._close_parenthesis(token)
        else:
            raise self._missing_operator(token)

    def _compare(self, token: Token) -> None:
        """A comparison, which separates the first two arguments of a `where` as a comma does others."""
        self._reduce(SUM)
        opened = self.pending[-1] if self.pending else None
        if opened is None or opened.function != "where" or opened.arguments > 1:
            requirement = "A comparison is the first argument of `where`, once, without parentheses"
            raise self._error(requirement, f"Write `{_example('where')}`", token.start)
        opened.compared = token.text
        self._next_argument(token)

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
        count = opened.arguments
        arguments = [self._close(operand) for operand in self.operands[-count:]]
        del self.operands[-count:]
        if opened.function == MEAN:
            return self._push(self._mean(opened, arguments), opened.start)
        if opened.function in REDUCTIONS:
            return self._push(self._reduced(opened, arguments), opened.start)
        if opened.function == "where":
            arguments = self._chosen(opened, arguments)
        function = FUNCTIONS[opened.function]
        if not function.takes(count):
            requirement = f"`{opened.function}` takes {function.arguments_text()}, not {count}"
            raise self._error(requirement, "Check the commas and parentheses", opened.start)
        return self._push(self._apply(opened.function, arguments, opened.start), opened.start)

    def _chosen(self, opened: _Pending, arguments: list[Node]) -> list[Node]:
        """The arguments u, v, a, b of where(u < v, a, b)."""
        if not opened.compared or len(arguments) != 4:
            requirement = "`where` takes a comparison and two values"
            raise self._error(requirement, f"Write `{_example('where')}`", opened.start)
        return [arguments[i] for i in COMPARED[opened.compared]]

    def _reduced(self, opened: _Pending, arguments: list[Node]) -> Node:
        """A reduction, written out."""
        terms = [term for argument in arguments for term in self._entries(opened, argument)]
        if max(map(depth, terms)) >= self.limits.depth - 1:
            raise self._too_deep(opened.start)
        self._count(opened.start, 2)
        return REDUCTIONS[opened.function](terms)

    def _entries(self, opened: _Pending, argument: Node) -> list[Node]:
        """What a reduction reduces; the argument's nodes count again, once an entry, as they are visited and made."""
        nodes = len(bottom_up(argument))
        self._count(opened.start, nodes)
        named = vectors(argument, self.known.lengths, self.known.inputs or frozenset())
        if not named:
            self._check_plain(opened, argument)
            return [argument]
        length = min(named.values())
        if length < max(named.values()) or not length:
            shown = ", ".join(f"`{name}`" for name in named)
            requirement = f"Vectors in one argument need the same entries, from x[0] on, not {shown} as they are"
            raise self._error(requirement, "Name all entries in the domain", opened.start)
        self._count(opened.start, length * nodes)
        return entries(argument, named, length)

    def _check_plain(self, opened: _Pending, argument: Node) -> None:
        """Without names, the only argument of a reduction must be one that the text gives a length."""
        names = [name for name in variables(argument) if "[" not in name]
        if self.known.inputs is None and opened.arguments == 1 and names:
            requirement = f"`{opened.function}` needs to know the entries of `{names[0][:40]}`"
            remedy = f"Name them in the domain, as {names[0][:40]}[0], {names[0][:40]}[1]"
            raise self._error(requirement, remedy, opened.start)

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
        if token.text in self.known.parts and self.token.text != "[":
            return self.known.parts[token.text]
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

    def _count(self, start: int, nodes: int = 1) -> None:
        self.nodes += nodes
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
        known = ", ".join(name for name in CALLED if name in FUNCTIONS or name in REDUCTIONS)
        remedy = instead_of(token.text, CALLED) or f"The functions are {known}; a product is written with `*`"
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


def _example(name: str) -> str:
    """How a function is called."""
    if name == "where":
        return "where(x < 0, -x, x)"
    return f"{name}({', '.join('xyz'[: FUNCTIONS[name].arity if name in FUNCTIONS else 1])})"

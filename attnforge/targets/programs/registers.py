r"""Where a program keeps its values: registers, each some features of every token, and the layer that writes each.

Labels are held one-hot, numbers as one feature. Feature 0 is the constant one. Inputs are the token, and as far as the
program reads them the position i, its square, and its one-hot code. A count w has two registers: what a head can
compute of it is $1/(1 + w)$; a lookup in the next layer makes w of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from attnforge.errors import TargetError
from attnforge.targets.programs.alphabet import Alphabet
from attnforge.targets.programs.forms import Form, LabelCondition, NumberCondition
from attnforge.targets.programs.language import (
    Comparison,
    Indices,
    LabelAggregate,
    Labels,
    LabelTable,
    NumberAggregate,
    Numbers,
    NumberTable,
    Positions,
    Selector,
    Square,
    Tokens,
    Values,
    Width,
)
from attnforge.targets.programs.typing import Typed

Part = Literal["value", "reciprocal"]
Key = tuple[Values | None, Part]

ONE: Key = (None, "value")


@dataclass(frozen=True, eq=False)
class Register:
    """Features ``start`` to ``stop`` of every token: labels one-hot, or a number between ``lower`` and ``upper``.

    ``layer`` of attention writes it; 0 are inputs.
    """

    key: Key
    start: int
    size: int
    layer: int
    labels: Alphabet | None
    lower: Fraction = Fraction(0)
    upper: Fraction = Fraction(1)

    @property
    def stop(self) -> int:
        """The feature after the last one."""
        return self.start + self.size

    @property
    def features(self) -> slice:
        """The features."""
        return slice(self.start, self.stop)

    @property
    def name(self) -> str:
        """For people."""
        node, part = self.key
        if node is None:
            return "one"
        what = node.title or node.operation
        return f"1/(1 + {what})" if part == "reciprocal" else what


class Layout:
    """All registers of a typed program."""

    def __init__(self, typed: Typed) -> None:
        self.typed = typed
        layers: dict[Key, int] = {ONE: 0}
        self._place((typed.token, "value"), layers)
        for key in output_reads(typed):
            self._place(key, layers)
        order = sorted(layers, key=lambda key: (layers[key], _input_order(key)))
        self.registers: dict[Key, Register] = {}
        start = 0
        for key in order:
            register = self._register(key, start, layers[key])
            self.registers[key] = register
            start = register.stop
        self.features = start
        self.depth = max(layers.values())

    def __getitem__(self, node: Values | None) -> Register:
        return self.registers[node, "value"]

    @property
    def inputs(self) -> list[Register]:
        """Registers that the input holds: those of layer 0 but the constant."""
        return [each for each in self.registers.values() if each.layer == 0 and each.key != ONE]

    @property
    def result(self) -> Register:
        """The result as if it were a register of its own: what the read-out writes."""
        program = self.typed.program
        if isinstance(program, Labels):
            labels = self.typed.labels(program)
            return Register((program, "value"), 0, len(labels), self.depth + 1, labels)
        grid = self.typed.grid(program)
        return Register((program, "value"), 0, 1, self.depth + 1, None, grid.lower, grid.upper)

    def written(self, layer: int) -> list[Register]:
        """Registers that a layer of attention writes, one a head."""
        return [each for each in self.registers.values() if each.layer == layer]

    def _place(self, key: Key, layers: dict[Key, int]) -> int:
        if key not in layers:
            needed = reads(self.typed, key)
            below = max((self._place(each, layers) for each in needed), default=0)
            layers[key] = 0 if is_input(key) else 1 + below
        return layers[key]

    def _register(self, key: Key, start: int, layer: int) -> Register:
        node, part = key
        if node is None:
            return Register(key, start, 1, 0, Alphabet(["one"]))
        if isinstance(node, Labels):
            labels = self.typed.labels(node)
            return Register(key, start, len(labels), layer, labels)
        grid = self.typed.grid(node)
        if part == "reciprocal":
            return Register(key, start, 1, layer, None, 1 / (1 + grid.upper), 1 / (1 + grid.lower))
        return Register(key, start, 1, layer, None, grid.lower, grid.upper)


def _input_order(key: Key) -> int:
    """The constant, the token, the position, its square, its code; others as they were found."""
    kinds = (type(None), Tokens, Indices, Square, Positions)
    return kinds.index(type(key[0])) if type(key[0]) in kinds else len(kinds)


def output_reads(typed: Typed) -> list[Key]:
    """The registers that the result is read off."""
    return value_reads(typed, typed.program)


def value_reads(typed: Typed, node: Values) -> list[Key]:
    """The registers that a value is a linear function of."""
    if isinstance(node, Labels):
        return [(typed.root(node)[0], "value")]
    assert isinstance(node, Numbers)
    return form_reads(typed.form(node))


def form_reads(form: Form) -> list[Key]:
    """The registers of a form."""
    return [(node, "value") for node in form.weights]


def is_input(key: Key) -> bool:
    """Whether the input holds it."""
    node = key[0]
    square = isinstance(node, Square) and isinstance(node.number, Indices)
    return square or isinstance(node, Tokens | Indices | Positions)


def reads(typed: Typed, key: Key) -> list[Key]:
    """The registers that the head which writes this one reads, beside the constant."""
    node, part = key
    if is_input(key):
        return []
    match node:
        case Width(selector):
            return selector_reads(typed, selector, True) if part == "reciprocal" else [(node, "reciprocal")]
        case LabelAggregate(selector, values) | NumberAggregate(selector, values):
            return [*selector_reads(typed, selector, typed.may_be_empty(selector)), *value_reads(typed, values)]
        case LabelTable(_, arguments) | NumberTable(_, arguments):
            return [each for argument in arguments for each in value_reads(typed, argument)]
        case Comparison(number) | Square(number):
            return value_reads(typed, number)
        case _:
            raise TargetError("A program is made of the operations of its language", f"{node!r:.60}")


def selector_reads(typed: Typed, selector: Selector, with_constant: bool) -> list[Key]:
    """The registers that a selection reads; the query's square, too, where a constant key is compared with."""
    found: list[Key] = []
    for condition in typed.conditions(selector):
        if isinstance(condition, LabelCondition):
            found += [(node, "value") for node in (condition.query, condition.key) if node is not None]
        if isinstance(condition, NumberCondition):
            forms = (condition.query, condition.key, condition.key_square)
            found += [each for form in forms for each in form_reads(form)]
            if with_constant:
                found += form_reads(needed_square(condition))
    if selector.ranking is not None:
        found += form_reads(typed.form(selector.ranking))
    return found


def needed_square(condition: NumberCondition) -> Form:
    """The square of the query, without which nothing can be told from something where a selection may be empty."""
    if condition.query_square is None:
        requirement = "`select`: a selection by equal numbers that may be empty needs the query's square, of an integer"
        raise TargetError(requirement, "another number", "Compare integers")
    return condition.query_square

"""Programs as the kernel has them, and which head of a network writes which register.

:func:`stated` is what a certificate of a program is about: the registers of its layout, labels by their places. It
says no more than the operations of the language do, register by register; the kernel decides by itself what holds of
every sequence (ranges, what may be empty, what is shared), and refuses what it cannot see.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from attnforge.errors import CertificateError
from attnforge.kernel.program import Witness
from attnforge.kernel.sequences import (
    ONE,
    Allowed,
    Cell,
    Count,
    Definition,
    Equal,
    Form,
    Image,
    Input,
    Mean,
    Pair,
    Program,
    Selection,
    Step,
)
from attnforge.network import Attention, Head, Linear, Network
from attnforge.targets.programs import forms, language, registers
from attnforge.targets.programs.language import Labels, Numbers, Values
from attnforge.targets.programs.registers import Layout, Register

DISTRACTOR = "distractor"  # what a head claims to be that writes nothing that counts
REMEDY = "Build the network anew"


# where to look


def read(network: Network, layout: Layout) -> Witness:
    """Heads write registers in order, layer by layer, but those that claim to be distractors.

    Registers have columns where the first map takes inputs to columns of their own, as many as registers have.
    """
    place = {key: i for i, key in enumerate(layout.registers)}
    attention = [layer for layer in network.layers if isinstance(layer, Attention)]
    if len(attention) != layout.depth:
        got = f"{len(attention)}"
        raise CertificateError(f"A program's network has {layout.depth} layers of attention", got, REMEDY)
    writers = []
    for depth, layer in enumerate(attention, start=1):
        order = iter(layout.written(depth))
        heads = [None if _is_distractor(head) else next(order, None) for head in layer.heads]
        if None not in heads and next(order, None) is not None:
            raise CertificateError("One head writes each register", f"{len(heads)} heads in layer {depth}", REMEDY)
        writers.append(tuple(None if each is None else place[each.key] for each in heads))
    columns = tuple(each.start for each in layout.registers.values()) if _has_columns(network, layout) else None
    return Witness(tuple(writers), columns)


def _is_distractor(head: Head) -> bool:
    return head.claims is not None and head.claims.construction == DISTRACTOR


def _has_columns(network: Network, layout: Layout) -> bool:
    """Whether the first map takes inputs to features of their own: weights may be off."""
    first = network.layers[0]
    term = first.terms[0] if isinstance(first, Linear) else None
    width = sum(register.size for register in layout.inputs)
    if term is None or term.map is None or term.map.shape != (width, layout.features):
        return False
    columns = np.concatenate([np.arange(each.start, each.stop) for each in layout.inputs])
    beside = np.ones(term.map.shape, dtype=bool)
    beside[np.arange(width), columns] = False
    heads = sum(len(layout.written(depth)) for depth in range(1, layout.depth + 1))
    return not np.any(term.map[beside]) and len(network.heads) == heads


# what is stated


def stated(layout: Layout) -> Program:
    """The program of a layout, register by register."""
    return _Stating(layout).program()


class _Stating:
    """Registers of a layout as definitions."""

    def __init__(self, layout: Layout) -> None:
        self.layout, self.typed = layout, layout.typed
        self.place = {key: i for i, key in enumerate(layout.registers)}

    def program(self) -> Program:
        definitions = tuple(map(self.definition, self.layout.registers.values()))
        return Program(self.typed.max_length, definitions, self.value(self.typed.program, self.layout.result))

    def definition(self, register: Register) -> Definition:
        """What a register holds."""
        node, part = register.key
        size = None if register.labels is None else register.size
        if registers.is_input(register.key) or node is None:
            return Input(INPUTS[type(node)], size)  # type: ignore[arg-type]
        match node:
            case language.Width(selector) if part == "reciprocal":
                return Count(self.selection(selector, squared=True))
            case language.Width():
                cells = self.cells(node, register)
                return Step(Form({self.place[node, "reciprocal"]: (Fraction(1),)}), cells, size)
            case language.LabelAggregate(selector, values, default) | language.NumberAggregate(
                selector, values, default
            ):
                empty = self.typed.may_be_empty(selector)
                given = self.result(register, default) if empty else None
                return Mean(self.selection(selector, empty), self.value(values, register), given)
            case language.Comparison(number) | language.Square(number):
                return Step(self.form(self.typed.form(number)), self.cells(node, register), size)
            case language.LabelTable(_, (Numbers() as number,)) | language.NumberTable(_, (Numbers() as number,)):
                return Step(self.form(self.typed.form(number)), self.cells(node, register), size)
            case language.LabelTable() | language.NumberTable():
                return self.pair(node, register)
            case _:
                raise CertificateError("Every register is one of the program's", register.name, REMEDY)

    def of(self, node: Values | None) -> int:
        """The place of a node's register."""
        return self.place[node, "value"]

    def result(self, register: Register, value: Any) -> Any:
        """A value as a register holds it: the place of a label, or a number."""
        return Fraction(value) if register.labels is None else register.labels.place(value)

    def cells(self, node: Values, register: Register) -> tuple[Cell, ...]:
        ordered = sorted(self.typed.cells(node), key=lambda cell: cell.lower)
        return tuple(Cell(cell.lower, cell.upper, self.result(register, cell.result)) for cell in ordered)

    def form(self, form: forms.Form) -> Form:
        """A form, by places of registers."""
        return Form({self.of(node): tuple(weights) for node, weights in form.weights.items()}, form.constant)

    def value(self, node: Values, register: Register) -> Form | Image:
        """A number as a form; a label as the image of a register's."""
        if isinstance(node, Numbers):
            return self.form(self.typed.form(node))
        assert isinstance(node, Labels)
        assert register.labels is not None
        held, stands = self.typed.root(node)
        return Image(self.of(held), tuple(register.labels.place(label) for label in stands), register.size)

    def pair(self, node: Any, register: Register) -> Pair:
        """A table over the labels of the two registers that its arguments are read off."""
        (first, one), (second, two) = (self.typed.root(argument) for argument in node.arguments)
        labels, outcomes = self.typed.labels(node.arguments[1]), self.typed.outcomes(node)
        rows = [self.typed.labels(node.arguments[0]).place(label) * len(labels) for label in one]
        columns = [labels.place(label) for label in two]
        results = tuple(self.result(register, outcomes[row + column]) for row in rows for column in columns)
        return Pair(self.of(first), self.of(second), results, None if register.labels is None else register.size)

    def selection(self, selector: language.Selector, squared: bool) -> Selection:
        """Conditions and ranking; squares of queries where they are read."""
        conditions = tuple(self.condition(each, squared) for each in self.typed.conditions(selector))
        ranking = None if selector.ranking is None else self.form(self.typed.form(selector.ranking))
        return Selection(conditions, ranking)

    def condition(self, condition: forms.LabelCondition | forms.NumberCondition, squared: bool) -> Allowed | Equal:
        if isinstance(condition, forms.LabelCondition):
            query = ONE if condition.query is None else self.of(condition.query)
            return Allowed(query, self.of(condition.key), condition.allowed)
        query_square = self.form(registers.needed_square(condition)) if squared else None
        return Equal(
            self.form(condition.query), self.form(condition.key), self.form(condition.key_square), query_square
        )


INPUTS = {
    type(None): "one",
    language.Tokens: "token",
    language.Positions: "position",
    language.Indices: "index",
    language.Square: "square",
}

"""What the kernel knows of programs is true of all short sequences; and of altered programs, or they are refused."""

import itertools
import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import attnforge as af
from attnforge import programs as p
from attnforge.kernel.sequences import (
    ONE,
    Allowed,
    Cell,
    Count,
    Equal,
    Form,
    Image,
    Input,
    Mean,
    Pair,
    Program,
    Selection,
    Step,
    _selected,
    _value,
    meaning,
)
from attnforge.proving.programs import stated
from attnforge.targets.programs.causal import causal
from attnforge.targets.programs.registers import Layout
from attnforge.targets.programs.semantics import evaluate
from attnforge.targets.programs.typing import Typed
from tests.laws import hostile_programs as hostile

LENGTH = 3


def layouts(seeds):
    """Typed programs, drawn at random, and those of the library."""
    for entry in p.library.values():
        yield Layout(Typed(entry.make(entry.small), list(entry.small), LENGTH if len(entry.small) < 5 else 2))
    for seed in seeds:
        case = hostile.drawn(seed)
        try:
            program = hostile.forged(case.tree)
            yield Layout(Typed(causal(program) if case.causal else program, case.vocabulary, case.length))
        except (af.AttnforgeError, ArithmeticError):
            continue


def sequences(program):
    """All sequences of tokens, by number."""
    token = next(each for each in program.registers if isinstance(each, Input) and each.kind == "token")
    for n in range(1, program.length + 1):
        yield from itertools.product(range(token.labels), repeat=n)


def selections(program):
    """Every selection, and what it is for."""
    for each in program.registers:
        if isinstance(each, Mean | Count):
            yield each.selection, each


def fits(value, grid):
    """Whether a number is one of a grid."""
    if not grid.lower <= value <= grid.upper:
        return False
    return grid.denominator is None or Fraction(value).denominator <= grid.denominator


def is_true(program):
    """Whether all that is known of a program holds on all its sequences."""
    for tokens in sequences(program):
        columns, n = meaning(program, tokens), len(tokens)
        for register, column in enumerate(columns[:-1]):
            if not program.is_labels(register) and not all(fits(value, program.grid(register)) for value in column):
                return False
        for selection, definition in selections(program):
            chosen = [_selected(program, selection, columns, q, n) for q in range(n)]
            if program.never_empty(selection) and not all(chosen):
                return False
            if program.is_single(selection) and any(len(keys) > 1 for keys in chosen):
                return False
            value = getattr(definition, "value", None)
            if value is None or not program.shares(selection, value):
                continue
            if any(len({_value(program, value, columns, k) for k in keys}) > 1 for keys in chosen):
                return False
    return True


def test_it_means_what_the_language_says_and_what_is_known_is_true():
    count = 0
    for layout in layouts(range(60)):
        program, vocabulary = stated(layout), layout.typed.vocabulary
        assert is_true(program)
        for tokens in sequences(program):
            values = evaluate(layout.typed.program, [vocabulary[i] for i in tokens])[layout.typed.program]
            labels = layout.result.labels
            assert meaning(program, tokens)[-1] == (values if labels is None else [labels.place(v) for v in values])
        count += 1
    assert count > 40


class Altered:
    """Programs with one thing changed, by a seed."""

    def __init__(self, seed):
        self.source = random.Random(seed)

    def program(self, program):
        """Another program, which may be none."""
        at = self.source.randrange(1, len(program.registers))
        definitions = list(program.registers)
        definitions[at] = self.definition(definitions[at])
        return Program(program.length, tuple(definitions), program.result)

    def definition(self, definition):
        match definition:
            case Mean(selection, value, default):
                kind = self.source.randrange(4)
                if kind == 0:
                    return replace(definition, default=None if default is not None else Fraction(0))
                if kind == 1:
                    return replace(definition, value=self.value(value))
                return replace(definition, selection=self.selection(selection))
            case Count(selection):
                return Count(self.selection(selection))
            case Step(argument, cells):
                if self.source.random() < 0.3:
                    return replace(definition, argument=self.value(argument))
                at = self.source.randrange(len(cells))
                return replace(definition, cells=(*cells[:at], *self.cell(cells[at]), *cells[at + 1 :]))
            case Pair(results=results):
                return replace(definition, results=self.source.choice([results[:-1], results[::-1], (*results, 0)]))
            case _:
                return replace(definition, labels=self.source.choice([None, 1, 2, 7]))

    def cell(self, cell):
        move = self.source.choice([-1, Fraction(-1, 7), Fraction(1, 7), 1])
        lower, upper = replace(cell, lower=cell.lower + move), replace(cell, upper=cell.upper + move)
        return self.source.choice([(), (lower,), (upper,), (replace(cell, result=0),)])

    def value(self, value):
        if isinstance(value, Image):
            return replace(value, labels=self.source.choice([value.labels[::-1], value.labels[1:], (*value.labels, 0)]))
        constant = value.constant + self.source.choice([-1, 1, Fraction(1, 2), 0])
        factor = self.source.choice([1, -1, 2, Fraction(1, 2)])
        return Form({r: tuple(factor * w for w in weights) for r, weights in value.weights.items()}, constant)

    def selection(self, selection):
        kind = self.source.randrange(3)
        if kind == 0 and selection.conditions:
            left = list(selection.conditions)
            left.pop(self.source.randrange(len(left)))
            return replace(selection, conditions=tuple(left))
        if kind == 1 and selection.ranking is not None:
            return replace(selection, ranking=self.source.choice([None, self.value(selection.ranking)]))
        return replace(selection, conditions=tuple(map(self.condition, selection.conditions)))

    def condition(self, condition):
        if isinstance(condition, Allowed):
            table = condition.table.copy()
            table[tuple(self.source.randrange(size) for size in table.shape)] ^= True
            return replace(condition, table=table)
        part = self.source.choice(["query", "key", "key_square"])
        return replace(condition, **{part: self.value(getattr(condition, part))})


def altered(count):
    """Programs that were altered and could be made, and how many could not."""
    programs, refusals = [], 0
    chosen = [stated(layout) for layout in layouts(range(30))]
    for seed in range(count):
        source = chosen[seed % len(chosen)]
        if len(source.registers) < 2:
            continue
        try:
            programs.append(Altered(seed).program(source))
        except af.CertificateError:
            refusals += 1
    return programs, refusals


def test_what_is_known_of_an_altered_program_is_true_or_it_is_refused():
    programs, refusals = altered(600)
    assert min(len(programs), refusals) > 100
    for program in programs:
        assert is_true(program)


POSITION = (Input("one", 1), Input("token", 2), Input("index"), Input("square"), Input("position", 3))
INDEX, SQUARE = (Form({at: (Fraction(1),)}) for at in (2, 3))


def at_position(query, a, c):
    """Keys at the position that a query asks for."""
    square = Form({3: (Fraction(a * a),), 2: (Fraction(2 * a * c),)}, Fraction(c * c))
    return Selection((Equal(query, INDEX, SQUARE, square),))


@pytest.mark.parametrize(
    ("a", "c", "never"), [(1, 0, True), (0, 0, True), (1, 1, False), (1, -1, False), (-1, 0, False)]
)
def test_positions_that_exist_are_known(a, c, never):
    program = Program(3, (*POSITION, Count(at_position(Form({2: (Fraction(a),)}, Fraction(c)), a, c))), INDEX)
    assert program.never_empty(program.registers[5].selection) == never
    assert is_true(program)


WRONG = {
    "two ones": (*POSITION, Input("one", 1)),
    "positions of another length": (*POSITION[:4], Input("position", 4)),
    "a later register": (*POSITION, Count(Selection((Allowed(ONE, 5, np.ones((1, 2), dtype=bool)),)))),
    "labels as numbers": (*POSITION, Step(Form({1: (Fraction(1),)}), (Cell(Fraction(0), Fraction(1), 0),), None)),
    "numbers as labels": (*POSITION, Count(Selection((Allowed(ONE, 2, np.ones((1, 1), dtype=bool)),)))),
    "a table of another size": (*POSITION, Count(Selection((Allowed(1, 1, np.ones((1, 2), dtype=bool)),)))),
    "a gap": (*POSITION, Step(INDEX, tuple(Cell(Fraction(i), Fraction(i), i) for i in (0, 2)), None)),
    "cells out of order": (*POSITION, Step(INDEX, tuple(Cell(Fraction(i), Fraction(i), i) for i in (1, 0, 2)), None)),
    "too few cells": (*POSITION, Step(INDEX, tuple(Cell(Fraction(i), Fraction(i), i) for i in (0, 1)), None)),
    "a label that is none": (*POSITION, Step(INDEX, (Cell(Fraction(0), Fraction(2), 2),), 2)),
    "a mean over nothing": (*POSITION, Mean(Selection((Allowed(ONE, 1, np.zeros((1, 2), dtype=bool)),)), INDEX)),
    "several labels": (*POSITION, Mean(Selection(), Image(1, (0, 1), 2))),
    "a ranking by halves": (*POSITION, Mean(Selection((), Form({2: (Fraction(1, 2),)})), INDEX)),
    "a count of the last": (*POSITION, Count(Selection((), INDEX))),
    "another square": (*POSITION, Count(Selection((Equal(INDEX, INDEX, INDEX, SQUARE),)))),
    "numbers beyond float64": (*POSITION, Mean(Selection(), Form({2: (Fraction(10) ** 400,)}))),
    "numbers that are floats": (*POSITION, Pair(1, 1, (0.5, 0, 0, 0), None)),
    "a table with a gap": (*POSITION, Pair(1, 1, (0, 1, 1), None)),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_not_defined_cannot_be_made(name):
    with pytest.raises(af.CertificateError):
        Program(3, WRONG[name], INDEX)
    Program(3, POSITION, INDEX)


def counted(table, *more):
    """The definition of 1/(1 + w) for keys that meet a table of tokens, and that of w by its place."""
    conditions = (Allowed(1, 1, np.array(table, dtype=bool)), *more)
    cells = tuple(Cell(Fraction(1, 1 + w), Fraction(1, 1 + w), w) for w in range(3, -1, -1))
    return Count(Selection(conditions)), lambda place: Step(Form({place: (Fraction(1),)}), cells, None)


BEFORE = Allowed(4, 4, np.tri(3, k=-1, dtype=bool))  # rows are queries, columns earlier keys


@pytest.mark.parametrize(
    ("less", "equal", "before", "ranks"),
    [
        ([[0, 0], [1, 0]], [[1, 0], [0, 1]], BEFORE, True),
        ([[0, 1], [0, 0]], [[1, 0], [0, 1]], BEFORE, True),
        ([[0, 0], [0, 0]], [[1, 1], [1, 1]], BEFORE, True),
        ([[0, 1], [1, 0]], [[1, 0], [0, 1]], BEFORE, False),
        ([[0, 1], [1, 0]], [[1, 1], [1, 1]], BEFORE, False),
        ([[0, 0], [1, 0]], [[1, 1], [1, 1]], BEFORE, False),
        ([[0, 0], [1, 0]], [[1, 0], [0, 1]], replace(BEFORE, table=np.tri(3, dtype=bool)), False),
        ([[0, 0], [1, 0]], [[1, 0], [0, 1]], replace(BEFORE, table=BEFORE.table.T), False),
    ],
)
def test_ranks_are_told_from_other_sums_of_two_counts(less, equal, before, ranks):
    (smaller, one), (ties, two) = counted(less), counted(equal, before)
    program = Program(3, (*POSITION, smaller, one(5), ties, two(7)), INDEX)
    assert program.is_rank(6, 8) == ranks
    total = Form({6: (Fraction(1),), 8: (Fraction(1),)})
    assert program.differs(total) == ranks
    assert (program.form_grid(total).upper == 2) == ranks


@pytest.mark.parametrize("default", [Fraction(7, 3), Fraction(-7, 3), Fraction(1, 5), Fraction(0)])
def test_defaults_are_among_the_values_of_a_mean(default):
    last = Selection((Equal(INDEX, INDEX, SQUARE, SQUARE), Allowed(ONE, 1, np.array([[True, False]]))))
    for selection in (Selection((BEFORE,)), Selection((BEFORE,), INDEX), last):
        program = Program(3, (*POSITION, Mean(selection, INDEX, default)), INDEX)
        assert is_true(program)
        columns = meaning(program, (1, 0, 1))
        assert default in columns[5]


@pytest.mark.parametrize(("key", "query"), [(2, 1), (-1, 0), (1, Fraction(1, 2)), (1, 1)])
def test_selections_by_multiples_of_positions_may_be_empty(key, query):
    asked, told = Form({2: (Fraction(query),)}), Form({2: (Fraction(key),)})
    squares = (Form({3: (Fraction(factor) ** 2,), 2: (Fraction(0),)}) for factor in (key, query))
    selection = Selection((Equal(asked, told, *squares),))
    program = Program(3, (*POSITION, Count(selection)), INDEX)
    assert program.never_empty(selection) == (key == query)
    assert is_true(program)

"""Random programs over labels that are hard to tell apart, or to order, and what they mean in plain Python.

A drawn program is a tree of tuples. ``forged`` writes it in the language of attnforge; ``plain`` says what it means by
loops over the sequence, and shares no line with the package: no evaluator, no alphabet, no order of its own.
"""

from __future__ import annotations

import operator
import random
import zlib
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from fractions import Fraction

import numpy as np

from attnforge import programs as p

RELATIONS = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


class Word(str):
    """Equal to a string that it is not."""


class Colour(Enum):
    """Labels that are equal to themselves only, and have no order."""

    RED = 1
    BLUE = 2


@dataclass(frozen=True, order=True)
class Loose:
    """Equal and ordered by one field; functions see the other."""

    shown: int
    hidden: object = field(compare=False, default=None)


@dataclass(frozen=True)
class Circle:
    """Every one of three is smaller than the next."""

    at: int

    def __lt__(self, other):
        return (other.at - self.at) % 3 == 1


class Anything:
    """Equal to everything."""

    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False

    def __hash__(self):
        return 1


class Nothing:
    """Equal to nothing, not even to itself."""

    def __eq__(self, other):
        return False

    def __hash__(self):
        return 2


class Plain:
    """Equal by what it holds, and it does not say what that is."""

    def __init__(self, held):
        self.held = held

    def __eq__(self, other):
        return isinstance(other, Plain) and self.held == other.held

    def __hash__(self):
        return hash(self.held)


ANYTHING = Anything()
NAN = float("nan")
POOLS = [
    ["x", "y", "z"], [0, 1, 2], [False, True], [None, False, 0],
    [1, True, 1.0, Fraction(1), Decimal(1), np.int64(1), 2], [0.0, -0.0, 0], [(1,), (True,), (1.0,), (2,)],
    [(0.0, "a"), (-0.0, "a")], [((1, "b"),), ((True, "b"),)], ["a", Word("a"), "b"], [("a",), (Word("a"),)],
    [frozenset(), frozenset({1}), frozenset({2}), frozenset({1, 2})], [frozenset({1}), frozenset({True})],
    [frozenset([0, 8]), frozenset([8, 0])], [Loose(1, "p"), Loose(1, "q"), Loose(2)],
    [Loose(1, 1), Loose(1, True)], [Plain(1), Plain(True), Plain(2)],
    [Decimal("1.0"), Decimal("1.00"), Decimal(2)], [Circle(0), Circle(1), Circle(2)], [Colour.RED, Colour.BLUE],
    [1 + 0j, 2, 1], [NAN, 1.0, 2.0], [(NAN,), (1.0,)], [float("inf"), -float("inf"), 10**400], ["a", 1, None],
    [b"a", "a"], [range(0), range(1, 1)], [np.float64(1), np.float32(1), 1.0], [np.str_("a"), "a"],
    [ANYTHING, 0, 1], [Nothing(), "n"], [[1], "list"],
]  # fmt: skip
NUMBERS = [[0, 1, 2], [-1, 1], [Fraction(1, 2), 1], [Fraction(2), 3], [0, 0, 5], [1], [3, -2, Fraction(1, 3)]]
WRONG_NUMBERS = [[True, 1], [None, 1], [0.5, 1], [10**400, 1], [NAN, 1], [Fraction(1, 10**400), 0], ["1", 1]]


def told(value) -> str:
    """All that a function could see of a value, as text: types, signs of zeros, order of sets, hidden fields."""
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, tuple | frozenset | list):
        return f"{kind}[{', '.join(map(told, value))}]"
    if isinstance(value, Loose):
        return f"{kind}({told(value.shown)}, {told(value.hidden)})"
    if isinstance(value, Plain):
        return f"{kind}({told(value.held)})"
    return f"{kind}({value!r})" if type(value).__repr__ is not object.__repr__ else kind


def spread(pool, salt):
    """A function of anything that tells all it can apart, and has its results in a pool."""
    return lambda *given: pool[zlib.crc32(f"{salt} {', '.join(map(told, given))}".encode()) % len(pool)]


def is_odd(*given):
    """A relation that tells all it can apart."""
    return zlib.crc32(", ".join(map(told, given)).encode()) % 2 == 1


FUNCTIONS = {
    "itself": lambda *given: given[-1], "is True": lambda *given: given[0] is True,
    "kind": lambda *given: type(given[0]).__name__, "text": lambda *given: repr(given[0]),
    "sum": lambda *given: given[0] + given[-1], "half": lambda *given: given[0] // 2,
    "and": lambda *given: given[0] and given[-1], "in a tuple": lambda *given: given,
    "first of a set": lambda *given: next(iter(given[0])), "nothing": lambda *given: None,
}  # fmt: skip
VOCABULARIES = [
    ["a", "b", "c"], ["a", "b"], [1, 2], [True, False], [True, 2, "x"], [0.0, 1.5], [-0.0, 1], [None, "a"],
    [frozenset(), frozenset({1}), frozenset({2})], [(1,), (2,), ("a",)], [Decimal("1.0"), Decimal(2)],
    [Fraction(1, 2), Fraction(2), 3], [b"x", "x"], [Word("a"), "b"], [np.int64(1), np.int64(2)],
    [Colour.RED, Colour.BLUE], [Circle(0), Circle(1), Circle(2)], [Loose(1, "p"), Loose(2, "q")],
    [Plain(1), Plain(2)], [float("inf"), -float("inf"), 0.0], [1, True], [NAN, 1.0], [[1], [2]],
]  # fmt: skip


class Drawing:
    """Trees drawn from a seed."""

    def __init__(self, seed: int) -> None:
        self.source = random.Random(seed)

    def labels(self, depth: int):
        """A tree of labels."""
        kinds = (
            ["tokens"]
            if depth <= 0
            else ["table", "table", "pair", "counted", "compared", "picked", "picked", "tokens", "positions"]
        )
        kind = self.source.choice(kinds)
        if kind == "table":
            return "labels", self.function(), self.labels(depth - 1)
        if kind == "pair":
            return "labels", self.function(), self.labels(depth - 1), self.labels(depth - 1)
        if kind == "counted":
            return "labels", self.function(), self.numbers(depth - 1)
        if kind == "compared":
            other = self.source.choice([0, 1, 2, Fraction(1, 2), self.numbers(depth - 2)])
            return "compared", self.numbers(depth - 1), self.source.choice(list(RELATIONS)), other
        if kind == "picked":
            default = self.source.choice(self.source.choice(POOLS))
            return "picked", self.selector(depth - 1), self.labels(depth - 1), default
        return (kind,)

    def numbers(self, depth: int):
        """A tree of numbers."""
        kinds = (
            ["indices", "length"]
            if depth <= 0
            else ["valued", "valued", "sum", "width", "width", "mean", "rank", "rank", "constant"]
        )
        kind = self.source.choice(kinds)
        if kind == "valued":
            pool = self.source.choice(WRONG_NUMBERS if self.source.random() < 0.04 else NUMBERS)
            return "valued", spread(pool, self.source.random()), self.labels(depth - 1)
        if kind == "sum":
            factors = self.source.choice([(1, 1), (1, -1), (2, Fraction(1, 2)), (3, 0)])
            return "sum", factors, self.numbers(depth - 1), self.numbers(depth - 1)
        if kind == "width":
            return "width", self.selector(depth - 1, ranked=False)
        if kind == "mean":
            return "mean", self.selector(depth - 1), self.numbers(depth - 1), self.source.choice([0, 1, Fraction(1, 2)])
        if kind == "rank":
            return "rank", self.labels(depth - 1)
        return ("constant", self.source.choice([0, 1, 2])) if kind == "constant" else (kind,)

    def selector(self, depth: int, ranked: bool = True):
        """Conditions, and what ranks them."""
        atoms = [self.atom(depth) for _ in range(self.source.choice([0, 1, 1, 2]))]
        ranking = self.source.choice([None, "last", "first", "last", "largest"]) if ranked else None
        return atoms, self.numbers(depth) if ranking == "largest" else ranking

    def atom(self, depth: int):
        """One condition."""
        kind = self.source.choice(["labels", "labels", "function", "numbers", "where", "before", "upto"])
        if kind in ("before", "upto"):
            return (kind,)
        if kind == "where":
            return kind, self.source.choice([self.labels, self.numbers])(depth)
        if kind == "numbers":
            return "related", self.numbers(depth), self.numbers(depth), self.source.choice(["==", is_odd, *RELATIONS])
        relation = is_odd if kind == "function" else self.source.choice(["==", "==", *RELATIONS])
        return "related", self.labels(depth), self.labels(depth), relation

    def function(self):
        """A function whose results are labels."""
        if self.source.random() < 0.3:
            return self.source.choice(list(FUNCTIONS.values()))
        return spread(self.source.choice(POOLS), self.source.random())


@dataclass
class Drawn:
    """A program, its vocabulary, its length, and whether it runs as a decoder does."""

    tree: tuple
    vocabulary: list
    length: int
    causal: bool


def drawn(seed: int) -> Drawn:
    """The program of a seed."""
    found = Drawing(seed)
    tree = found.source.choice([found.labels, found.labels, found.numbers])(found.source.choice([1, 2, 2, 3]))
    few = found.source.random() < 0.5
    vocabulary = found.source.choice(VOCABULARIES[:4] if few else VOCABULARIES)
    return Drawn(tree, vocabulary, found.source.choice([1, 2, 3, 3]), found.source.random() < 0.2)


# the same in the language of attnforge


def forged(tree):
    """The program that a tree is."""
    match tree:
        case ("tokens",):
            return p.tokens
        case ("positions",):
            return p.as_labels(p.indices)
        case ("indices",):
            return p.indices
        case ("length",):
            return p.length
        case ("labels", function, *arguments):
            return p.labels(function, *map(forged, arguments))
        case ("compared", number, relation, other):
            return p.compare(forged(number), relation, forged(other) if isinstance(other, tuple) else other)
        case ("picked", selector, values, default):
            return p.aggregate(forged_selector(selector), forged(values), default)
        case ("valued", function, values):
            return p.numbers(function, forged(values))
        case ("sum", (a, b), one, two):
            return a * forged(one) + b * forged(two)
        case ("width", selector):
            return p.selector_width(forged_selector(selector))
        case ("mean", selector, values, default):
            return p.aggregate(forged_selector(selector), forged(values), default)
        case ("rank", order):
            return p.rank(forged(order))
        case ("constant", value):
            return p.constant(value)


def forged_selector(drawn_selector):
    """The selection of a tree."""
    atoms, ranking = drawn_selector
    found = p.everything
    for atom in atoms:
        found = found & forged_atom(atom)
    if ranking is None:
        return found
    return getattr(found, ranking)() if isinstance(ranking, str) else found.largest(forged(ranking))


def forged_atom(atom):
    """One condition."""
    match atom:
        case ("before",):
            return p.before
        case ("upto",):
            return p.upto
        case ("where", keys):
            return p.where(forged(keys), is_odd)
        case ("related", keys, queries, relation):
            return p.select(forged(keys), forged(queries), relation)


# the same in plain Python


class UndefinedError(Exception):
    """A program that has no value here."""


def plain(tree, sequence, causal):
    """What it computes on a sequence, one value a token."""
    n = len(sequence)
    match tree:
        case ("tokens",):
            return list(sequence)
        case ("positions",) | ("indices",):
            return list(range(n))
        case ("length",):
            return [q + 1 for q in range(n)] if causal else [n] * n
        case ("labels" | "valued", function, *arguments):
            columns = [as_given(each, sequence, causal) for each in arguments]
            return [function(*given) for given in zip(*columns, strict=True)]
        case ("compared", number, relation, other):
            others = plain(other, sequence, causal) if isinstance(other, tuple) else [other] * n
            return [RELATIONS[relation](a, b) for a, b in zip(plain(number, sequence, causal), others, strict=True)]
        case ("picked", selector, values, default):
            given = plain(values, sequence, causal)
            return [one_of([given[k] for k in keys], default) for keys in chosen(selector, sequence, causal)]
        case ("sum", (a, b), one, two):
            return [
                a * x + b * y for x, y in zip(plain(one, sequence, causal), plain(two, sequence, causal), strict=True)
            ]
        case ("width", selector):
            return [len(keys) for keys in chosen(selector, sequence, causal)]
        case ("mean", selector, values, default):
            given = plain(values, sequence, causal)
            return [
                Fraction(sum(given[k] for k in keys), len(keys)) if keys else default
                for keys in chosen(selector, sequence, causal)
            ]
        case ("rank", order):
            given = plain(order, sequence, causal)
            return [ordered(given, q + 1 if causal else n).index(q) for q in range(n)]
        case ("constant", value):
            return [value] * n


def is_number(tree) -> bool:
    """Whether a tree is one of numbers."""
    return tree[0] in ("indices", "length", "valued", "sum", "width", "mean", "rank", "constant")


def as_given(tree, sequence, causal):
    """Values as functions are given them: whole numbers are integers."""
    values = plain(tree, sequence, causal)
    return [int(value) if value == int(value) else value for value in values] if is_number(tree) else values


def ordered(values, count):
    """Positions below ``count`` in the stable order of their values."""
    return sorted(range(count), key=lambda k: values[k])


def one_of(found, default):
    """The label that all have."""
    if len({told(each) for each in found}) > 1:
        raise UndefinedError
    return found[0] if found else default


def chosen(selector, sequence, causal):
    """For every query the selected keys."""
    atoms, ranking = selector
    n = len(sequence)
    tables = [holds(atom, sequence, causal) for atom in atoms]
    numbers = plain(ranking, sequence, causal) if isinstance(ranking, tuple) else None
    found = []
    for q in range(n):
        keys = [k for k in range(q + 1 if causal else n) if all(table(k, q) for table in tables)]
        if keys and ranking == "last":
            keys = keys[-1:]
        elif keys and ranking == "first":
            keys = keys[:1]
        elif keys and numbers is not None:
            keys = [k for k in keys if numbers[k] == max(numbers[j] for j in keys)]
        found.append(keys)
    return found


def holds(atom, sequence, causal):
    """A condition as a function of two positions."""
    match atom:
        case ("before",):
            return operator.lt
        case ("upto",):
            return operator.le
        case ("where", keys):
            given = as_given(keys, sequence, causal)
            return lambda k, _q: is_odd(given[k])
        case ("related", keys, queries, relation):
            told_by, asked = as_given(keys, sequence, causal), as_given(queries, sequence, causal)
            relates = RELATIONS.get(relation, relation)
            return lambda k, q: relates(told_by[k], asked[q])

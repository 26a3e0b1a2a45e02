r"""Programs over sequences: registers, each defined by earlier ones, and what holds of them on every sequence.

A sequence has 1 to N tokens, each one of V labels. At every token q, register R holds a *label*, one of
$0, \dots, s - 1$, or a rational *number*, as its definition says:

- *Input*: the constant one; the token; the position q (as a label, or as a number), or its square.
- *Mean* over the selected tokens k of a form of what k holds, or the label that all of them share; the default, where
  nothing is selected.
- *Count*: $1/(1 + w)$, w the number of selected tokens.
- *Step*: the result of the cell in which a form lies. *Pair*: a table of two labels.

A *form* is a constant plus weights of registers: of a label the weight of that label, of a number its multiple. An
*image* is a function of one label. A *selection* is, for every query q, the keys k that meet all conditions (a table of
the labels of two registers, or that two forms are equal), and of these, where there is a ranking, those with the
largest. :func:`meaning` says the same in Python.

**Grids.** A number is a multiple of 1/d for some $d \le D$, between two ends. Sums of multiples of 1/d and 1/d' are
multiples of 1/(d d'). Multiples of 1/d and 1/d' that differ are at least 1/(d d') apart. A mean of integers over w
tokens is a multiple of 1/w.

**Ranks.** Let labels of R have places $p$. The number of keys with $p_k < p_q$ and that of earlier keys with
$p_k = p_q$ add up to the place of q in the stable order by p: different at each token, and all of $0, \dots, n - 1$.

**Never empty** is a selection whose conditions each hold of a token and itself; or whose only condition is that a
position or a rank is equal to $a q + b n + c$ with integers a, b, c, which lies in $[0, n - 1]$ at the corners of
$\{1 \le n \le N, 0 \le q \le n - 1\}$, hence everywhere, being affine.

**One token** at most is selected if positions or ranks decide the ranking, or are equal to the query's number, or if a
condition allows each query's label at most one position. **A label is shared** if one token at most is selected, or if
a condition on its register allows each query's label keys of one image only.

A :class:`Program` in which a mean is not defined, or a step has no result somewhere, cannot be made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from attnforge.errors import CertificateError

Answers = npt.NDArray[np.bool_]
Kind = Literal["one", "token", "position", "index", "square"]

ONE = 0  # the register that is one
LARGEST = Fraction(float(np.finfo(np.float64).max))
ITSELF = (Fraction(1),)  # the weight of a number that a form is
REMEDY = "Compile the program anew"


@dataclass(frozen=True, eq=False)
class Form:
    """A constant plus weights of registers: one of a number, one a label of labels."""

    weights: Mapping[int, tuple[Fraction, ...]]
    constant: Fraction = Fraction(0)

    def same_as(self, other: Form) -> bool:
        """Whether both are the same function."""
        return dict(self.weights) == dict(other.weights) and self.constant == other.constant

    @property
    def register(self) -> int | None:
        """The number that it is, where it is the number of a register."""
        alone = len(self.weights) == 1 and not self.constant
        return next((r for r, weights in self.weights.items() if alone and weights == ITSELF), None)


@dataclass(frozen=True, eq=False)
class Image:
    """A function of the label of a register: its values, and how many labels there are of them."""

    register: int
    labels: tuple[int, ...]
    size: int


@dataclass(frozen=True, eq=False)
class Allowed:
    """A condition on labels, (query label, key label); of the key alone, where the query is the constant one."""

    query: int
    key: int
    table: Answers


@dataclass(frozen=True, eq=False)
class Equal:
    """Two numbers are equal. The key's has no constant; squares are forms, the query's where it is needed."""

    query: Form
    key: Form
    key_square: Form
    query_square: Form | None


@dataclass(frozen=True, eq=False)
class Selection:
    """The keys that meet all conditions, and of these those with the largest ranking."""

    conditions: tuple[Allowed | Equal, ...] = ()
    ranking: Form | None = None

    @cached_property
    def tables(self) -> dict[tuple[int, int], Answers]:
        """Conditions on labels, those on the same two registers as one."""
        merged: dict[tuple[int, int], Answers] = {}
        for each in self.conditions:
            if isinstance(each, Allowed):
                place = each.query, each.key
                merged[place] = each.table & merged[place] if place in merged else each.table
        return merged

    @property
    def equalities(self) -> list[Equal]:
        """Conditions on numbers."""
        return [each for each in self.conditions if isinstance(each, Equal)]


@dataclass(frozen=True, eq=False)
class Input:
    """What a sequence gives: labels of ``size``, or a number."""

    kind: Kind
    labels: int | None = None


@dataclass(frozen=True, eq=False)
class Mean:
    """The mean of a form over the selected tokens, or the label that they share; without a default never empty."""

    selection: Selection
    value: Form | Image
    default: Fraction | int | None = None

    @property
    def labels(self) -> int | None:
        """How many labels it may hold; None of a number."""
        return self.value.size if isinstance(self.value, Image) else None


@dataclass(frozen=True, eq=False)
class Count:
    """1/(1 + w), w tokens being selected."""

    selection: Selection
    labels: None = None


@dataclass(frozen=True, eq=False)
class Cell:
    """Numbers from ``lower`` to ``upper``, and their result: a label or a number."""

    lower: Fraction
    upper: Fraction
    result: Any


@dataclass(frozen=True, eq=False)
class Step:
    """The result of the cell in which a form lies; cells are in order."""

    argument: Form
    cells: tuple[Cell, ...]
    labels: int | None

    @property
    def results(self) -> Iterable[Any]:
        """All that it may hold."""
        return (cell.result for cell in self.cells)


@dataclass(frozen=True, eq=False)
class Pair:
    """A table of two labels: results for the first label's, those of the second running fastest."""

    first: int
    second: int
    results: tuple[Any, ...]
    labels: int | None


Definition = Input | Mean | Count | Step | Pair


@dataclass(frozen=True)
class Grid:
    """A number's ends; it is a multiple of 1/d, d at most ``denominator``; None where that is not known."""

    lower: Fraction
    upper: Fraction
    denominator: int | None


@dataclass(frozen=True, eq=False)
class Program:
    """Registers in order, and what of them is the result, on sequences of 1 to ``length`` tokens."""

    length: int
    registers: tuple[Definition, ...]
    result: Form | Image
    _grids: dict[int, Grid] = field(default_factory=dict, init=False, repr=False)
    _ranks: dict[tuple[int, int], bool] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.length < 1 or not self.registers or not _is(self.registers[ONE], "one"):
            raise CertificateError("A program has a length, and a first register that is one", "another", REMEDY)
        for place, definition in enumerate(self.registers):
            _Checks(self, place).definition(definition)
        _Checks(self, len(self.registers)).value(self.result)

    def size(self, register: int) -> int:
        """How many features hold it: one a label, or one."""
        return self.registers[register].labels or 1

    def is_labels(self, register: int) -> bool:
        """Whether it holds a label."""
        return self.registers[register].labels is not None

    # numbers

    def grid(self, register: int) -> Grid:
        """Ends and grid of a number."""
        if register not in self._grids:
            self._grids[register] = self._grid(self.registers[register])
        return self._grids[register]

    def _grid(self, definition: Definition) -> Grid:
        match definition:
            case Input(kind):
                last = Fraction(self.length - 1)
                ends = {"index": (Fraction(0), last), "square": (Fraction(0), last * last)}
                return Grid(*ends.get(kind, (Fraction(0), Fraction(1))), 1)
            case Count(selection):
                fewest = 1 if self.never_empty(selection) else 0
                return Grid(Fraction(1, 1 + self.length), Fraction(1, 1 + fewest), self.length + 1)
            case Mean(selection, Form() as value, default):
                return self._averaged(selection, value, default)
            case Step() | Pair():
                numbers = [Fraction(each) for each in definition.results]
                return Grid(min(numbers), max(numbers), max(each.denominator for each in numbers))
            case _:
                return Grid(Fraction(0), Fraction(1), 1)

    def _averaged(self, selection: Selection, value: Form, default: Fraction | int | None) -> Grid:
        grid = self.form_grid(value)
        denominator = grid.denominator
        if not self.shares(selection, value):
            denominator = self.length if denominator == 1 else None
        if default is None:
            return Grid(grid.lower, grid.upper, denominator)
        other = Fraction(default)
        either = None if denominator is None else max(denominator, other.denominator)
        return Grid(min(grid.lower, other), max(grid.upper, other), either)

    def form_grid(self, form: Form) -> Grid:
        """Ends and grid of a form; a rank is between 0 and n - 1, whatever the two counts that it is the sum of are."""
        lower = upper = form.constant
        denominator: int | None = form.constant.denominator
        for register, weights in self._summands(form):
            grid = Grid(Fraction(0), Fraction(self.length - 1), 1) if register is None else self.grid(register)
            if register is not None and self.is_labels(register):
                ends, step = weights, max(each.denominator for each in weights)
            else:
                ends = (weights[0] * grid.lower, weights[0] * grid.upper)
                step = weights[0].denominator * grid.denominator if grid.denominator else 0
            lower, upper = lower + min(ends), upper + max(ends)
            denominator = denominator * step if denominator and step else None
        return Grid(lower, upper, denominator)

    def _summands(self, form: Form) -> list[tuple[int | None, tuple[Fraction, ...]]]:
        """Registers and their weights; of two that add up to a rank, None."""
        left = dict(form.weights)
        ranks: list[tuple[int | None, tuple[Fraction, ...]]] = []
        for one in form.weights:
            two = next((each for each in left if one in left and self._is_rank(one, each, left)), None)
            if two is not None:
                ranks.append((None, left.pop(one)))
                del left[two]
        return [*ranks, *left.items()]

    def _is_rank(self, smaller: int, ties: int, weights: Mapping[int, tuple[Fraction, ...]]) -> bool:
        return smaller != ties and weights[smaller] == weights[ties] and self.is_rank(smaller, ties)

    def is_rank(self, smaller: int, ties: int) -> bool:
        """Whether two registers count smaller labels, and equal ones at earlier tokens: their sum is a rank."""
        if (smaller, ties) not in self._ranks:
            self._ranks[smaller, ties] = self._orders(self.counts(smaller), self.counts(ties))
        return self._ranks[smaller, ties]

    def _orders(self, smaller: Selection | None, ties: Selection | None) -> bool:
        if smaller is None or ties is None or smaller.equalities or ties.equalities or len(smaller.tables) != 1:
            return False
        ((query, key), less) = next(iter(smaller.tables.items()))
        if query not in (ONE, key):
            return False
        size = self.size(key)
        less = np.broadcast_to(less, (size, size))
        place = less.sum(axis=1)
        equal, before = place == place[:, None], np.tri(self.length, k=-1, dtype=bool)
        position = next((i for i, each in enumerate(self.registers) if _is(each, "position")), None)
        wanted = {key: equal & before} if key == position else {key: equal, position: before}
        return bool((less == (place < place[:, None])).all()) and _are(ties.tables, wanted)

    def counts(self, register: int) -> Selection | None:
        """The selection that a register counts: a step of 1/(1 + w) whose results are w."""
        step = self.registers[register]
        if not isinstance(step, Step) or step.labels is not None or (place := step.argument.register) is None:
            return None
        count = self.registers[place]
        exact = all(cell.lower == cell.upper == Fraction(1, 1 + cell.result) for cell in step.cells)
        return count.selection if isinstance(count, Count) and exact else None

    # selections

    def never_empty(self, selection: Selection) -> bool:
        """Whether every token of every sequence selects some token."""
        return all(map(_holds_of_itself, selection.conditions)) or self._meets_a_position(selection)

    def _meets_a_position(self, selection: Selection) -> bool:
        if len(selection.conditions) != 1 or not isinstance(selection.conditions[0], Equal):
            return False
        query, key = selection.conditions[0].query, selection.conditions[0].key
        whole = self.differs(key) and set(key.weights.values()) == {ITSELF} and not key.constant
        a = b = Fraction(0)
        for register, weights in query.weights.items():
            if _is(self.registers[register], "index"):
                a += weights[0]
            elif (counted := self.counts(register)) is not None and not counted.conditions:
                b += weights[0]
            else:
                return False
        c, n = query.constant, self.length
        corners = ((0, 1), (0, n), (n - 1, n))
        inside = all(0 <= a * q + b * size + c <= size - 1 for q, size in corners)
        return whole and inside and a.denominator == b.denominator == c.denominator == 1

    def differs(self, form: Form) -> bool:
        """Whether a form differs from token to token: a multiple of the position, or of a rank."""
        registers = list(form.weights)
        if not all(weights[0] for weights in form.weights.values()):
            return False
        if len(registers) == 2:
            one, two = registers
            return self._is_rank(one, two, form.weights) or self._is_rank(two, one, form.weights)
        return len(registers) == 1 and _is(self.registers[registers[0]], "index")

    def is_single(self, selection: Selection) -> bool:
        """Whether at most one token is selected."""
        ranked = selection.ranking is not None and self.differs(selection.ranking)
        equal = any(self.differs(each.key) for each in selection.equalities)
        return ranked or equal or any(
            _is(self.registers[key], "position") and bool((table.sum(axis=1) <= 1).all())
            for (_, key), table in selection.tables.items()
        )  # fmt: skip

    def shares(self, selection: Selection, value: Form | Image) -> bool:
        """Whether all selected tokens have the same value."""
        if self.is_single(selection):
            return True
        if isinstance(value, Form):
            return selection.ranking is not None and selection.ranking.same_as(value)
        labels = np.array(value.labels)
        return any(
            key == value.register and all(len(set(labels[row].tolist())) <= 1 for row in table)
            for (_, key), table in selection.tables.items()
        )


def _is(definition: Definition, kind: Kind) -> bool:
    return isinstance(definition, Input) and definition.kind == kind


def _are(tables: Mapping[tuple[int, int], Answers], wanted: Mapping[Any, Answers]) -> bool:
    """Whether conditions are these, each on a register of query and key."""
    if {key for _, key in tables} != set(wanted) or len(tables) != len(wanted):
        return False
    same = (
        bool((np.broadcast_to(table, wanted[key].shape) == wanted[key]).all()) for (_, key), table in tables.items()
    )
    return all(query in (ONE, key) for query, key in tables) and all(same)


def _holds_of_itself(condition: Allowed | Equal) -> bool:
    if isinstance(condition, Equal):
        return condition.key.same_as(condition.query)
    if condition.query == ONE:
        return bool(condition.table.all())
    return condition.query == condition.key and bool(np.diag(condition.table).all())


@dataclass(frozen=True)
class _Checks:
    """What must hold of the definition at a place, which reads registers before it."""

    program: Program
    place: int

    def require(self, holds: bool, requirement: str) -> None:
        if not holds:
            raise CertificateError(requirement, f"another at register {self.place}", REMEDY)

    def numbers(self, numbers: Iterable[Any]) -> None:
        whole = all(isinstance(each, int | Fraction) and -LARGEST <= each <= LARGEST for each in numbers)
        self.require(whole, "Numbers are integers and fractions within the range of float64")

    def definition(self, definition: Definition) -> None:
        self.require(definition.labels is None or definition.labels >= 1, "Labels are at least one")
        match definition:
            case Input(kind, labels):
                self.require((kind in ("token", "position", "one")) == (labels is not None), "Inputs are of their kind")
                self.require(kind != "position" or labels == self.program.length, "Positions are as many as tokens")
                self.require(kind != "one" or (labels == 1 and self.place == ONE), "One register is one")
            case Mean(selection, value, default):
                self.selection(selection)
                self.value(value)
                self.default(value, default)
                self.require(default is not None or self.program.never_empty(selection), "A mean is over something")
                shares = isinstance(value, Form) or self.program.shares(selection, value)
                self.require(shares, "Selected tokens share their label")
            case Count(selection):
                self.selection(selection)
                self.require(selection.ranking is None, "All that meet the conditions are counted")
            case Step(argument, cells, labels):
                self.value(argument)
                self.results(definition.results, labels)
                self.numbers(end for cell in cells for end in (cell.lower, cell.upper))
                self.require(self._covers(argument, cells), "A step has a result for every number that occurs")
            case Pair(first, second, results, labels):
                self.label(first)
                self.label(second)
                self.results(results, labels)
                self.require(len(results) == self.program.size(first) * self.program.size(second), "A table is whole")

    def default(self, value: Form | Image, default: Fraction | int | None) -> None:
        if default is not None:
            self.results([default], value.size if isinstance(value, Image) else None)

    def results(self, results: Iterable[Any], labels: int | None) -> None:
        if labels is None:
            self.numbers(results)
        else:
            self.require(all(type(each) is int and 0 <= each < labels for each in results), "Results are labels")

    def value(self, value: Form | Image) -> None:
        """A form or an image of registers before."""
        if isinstance(value, Image):
            self.label(value.register)
            self.require(len(value.labels) == self.program.size(value.register), "An image is of all labels")
            self.results(value.labels, value.size)
            return
        self.numbers([value.constant, *(each for weights in value.weights.values() for each in weights)])
        for register, weights in value.weights.items():
            self.require(0 <= register < self.place, "Registers are defined by earlier ones")
            self.require(len(weights) == self.program.size(register), "A form has a weight for each feature")

    def label(self, register: int) -> None:
        self.require(0 <= register < self.place and self.program.is_labels(register), "Labels are of earlier registers")

    def selection(self, selection: Selection) -> None:
        for condition in selection.conditions:
            if isinstance(condition, Allowed):
                self.table(condition)
            else:
                self.equality(condition)
        if selection.ranking is not None:
            self.value(selection.ranking)
            whole = self.program.form_grid(selection.ranking).denominator == 1
            self.require(whole and bool(selection.ranking.weights), "Tokens are ranked by integers")

    def table(self, condition: Allowed) -> None:
        self.label(condition.key)
        self.label(condition.query)
        shape = self.program.size(condition.query), self.program.size(condition.key)
        self.require(condition.table.shape == shape and condition.table.dtype == bool, "A condition is of all labels")

    def equality(self, condition: Equal) -> None:
        for form in (condition.query, condition.key, condition.key_square):
            self.value(form)
        known = (self.program.form_grid(form).denominator is not None for form in (condition.query, condition.key))
        self.require(all(known), "Numbers are compared where their grid is known")
        self.require(bool(condition.key.weights) and not condition.key.constant, "A key depends on the token alone")
        self.require(self.is_square(condition.key_square, condition.key), "The square of a key is its square")
        if condition.query_square is not None:
            self.value(condition.query_square)
            self.require(self.is_square(condition.query_square, condition.query), "The square of a query is its square")

    def is_square(self, square: Form, form: Form) -> bool:
        """A step whose cells are squares; or of a q + c the form a^2 q^2 + 2 a c q + c^2."""
        step = None if square.register is None else self.program.registers[square.register]
        if isinstance(step, Step) and step.labels is None and step.argument.same_as(form):
            return all(cell.lower == cell.upper and cell.result == cell.lower**2 for cell in step.cells)
        if not all(_is(self.program.registers[register], "index") for register in form.weights):
            return False
        a = sum((weights[0] for weights in form.weights.values()), Fraction(0))
        c = form.constant
        wanted = {"index": 2 * a * c, "square": a * a}
        left = dict.fromkeys(wanted, Fraction(0))
        for register, weights in square.weights.items():
            definition = self.program.registers[register]
            if not isinstance(definition, Input) or definition.kind not in left:
                return False
            left[definition.kind] += weights[0]
        return left == wanted and square.constant == c * c

    def _covers(self, argument: Form, cells: Sequence[Cell]) -> bool:
        """Whether every number that occurs lies in a cell: none fits between neighbours."""
        ordered = all(cell.lower <= cell.upper for cell in cells)
        ordered = ordered and all(one.upper < two.lower for one, two in pairwise(cells))
        if not cells or not ordered:
            return False
        count = None if argument.register is None else self.program.registers[argument.register]
        if isinstance(count, Count):
            return self._covers_counts(count, cells)
        grid = self.program.form_grid(argument)
        if not (cells[0].lower <= grid.lower and grid.upper <= cells[-1].upper):
            return False
        return grid.denominator is not None and all(
            (two.lower - one.upper) * grid.denominator * min(one.upper.denominator, two.lower.denominator) <= 1
            for one, two in pairwise(cells)
        )

    def _covers_counts(self, count: Count, cells: Sequence[Cell]) -> bool:
        fewest = 1 if self.program.never_empty(count.selection) else 0
        points = {cell.lower for cell in cells if cell.lower == cell.upper}
        return points >= {Fraction(1, 1 + w) for w in range(fewest, self.program.length + 1)}


# what a program means

Column = list[Any]


def meaning(program: Program, tokens: Sequence[int]) -> list[Column]:
    """What every register holds at each token of a sequence, and last the result: labels by number, and fractions."""
    columns: list[Column] = []
    for definition in program.registers:
        columns.append(_values(program, definition, tokens, columns))
    return [*columns, [_value(program, program.result, columns, q) for q in range(len(tokens))]]


def _values(program: Program, definition: Definition, tokens: Sequence[int], columns: list[Column]) -> Column:
    places = range(len(tokens))
    match definition:
        case Input(kind):
            given = {"one": [0] * len(tokens), "token": list(tokens), "square": [q * q for q in places]}
            return given.get(kind, list(places))
        case Count(selection):
            return [Fraction(1, 1 + len(_selected(program, selection, columns, q, len(tokens)))) for q in places]
        case Mean():
            return [_mean(program, definition, columns, q, len(tokens)) for q in places]
        case Step(argument, cells):
            numbers = [_value(program, argument, columns, q) for q in places]
            return [next(cell.result for cell in cells if cell.lower <= each <= cell.upper) for each in numbers]
        case Pair(first, second, results):
            return [results[columns[first][q] * program.size(second) + columns[second][q]] for q in places]


def _mean(program: Program, mean: Mean, columns: list[Column], query: int, count: int) -> Any:
    values = [
        _value(program, mean.value, columns, k) for k in _selected(program, mean.selection, columns, query, count)
    ]  # fmt: skip
    if not values:
        return mean.default
    return values[0] if isinstance(mean.value, Image) else sum(values, Fraction(0)) / len(values)


def _value(program: Program, value: Form | Image, columns: list[Column], at: int) -> Any:
    if isinstance(value, Image):
        return value.labels[columns[value.register][at]]
    total = value.constant
    for register, weights in value.weights.items():
        holds = columns[register][at]
        total += weights[holds] if program.is_labels(register) else weights[0] * holds
    return total


def _selected(program: Program, selection: Selection, columns: list[Column], query: int, count: int) -> list[int]:
    keys = [k for k in range(count) if all(_meets(program, each, columns, query, k) for each in selection.conditions)]
    if selection.ranking is None or not keys:
        return keys
    ranks = {k: _value(program, selection.ranking, columns, k) for k in keys}
    return [k for k in keys if ranks[k] == max(ranks.values())]


def _meets(program: Program, condition: Allowed | Equal, columns: list[Column], query: int, key: int) -> bool:
    if isinstance(condition, Equal):
        same = _value(program, condition.key, columns, key), _value(program, condition.query, columns, query)
        return bool(same[0] == same[1])
    return bool(condition.table[columns[condition.query][query], columns[condition.key][key]])

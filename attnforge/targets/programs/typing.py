r"""The types of a program's values, for one vocabulary and one largest length, and their normal forms.

A function of one label is a linear map of its one-hot features, a sum of numbers one of theirs: such values take no
register, they are read off the registers that there are. So labels reduce to a *root* (a register and what each of its
labels stands for), numbers to a *form* (a linear function of what registers hold).

What must be known of every sequence is decided here, by rules that are theorems:

- A selection is never empty if every condition holds of a token and itself; or if keys are all positions or ranks,
  $\{0, .., n-1\}$, and the query $a i + b n + c$ has integer coefficients and lies in [0, n - 1] at the corners
  of $\{1 \le n \le N, 0 \le i \le n - 1\}$, hence everywhere.
- At most one token is selected if keys that differ from token to token are equal to the query, or rank the selection.
- Selected tokens share a label if there is at most one of them, or if for each query label the key labels that a
  condition allows have the same.
- Ranks are a permutation if labels can be numbered so that ``<`` and ``==`` of labels are those of their numbers.
- A multiple of 1/d differs from a/b by at least 1/(b d), unless they are equal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from attnforge.errors import RefusalError, TargetError
from attnforge.targets.programs.alphabet import Alphabet, identity
from attnforge.targets.programs.forms import Cell, Form, Grid, LabelCondition, NumberCondition, check_range
from attnforge.targets.programs.graph import check_vocabulary, in_order
from attnforge.targets.programs.language import (
    Atom,
    Combination,
    Comparison,
    Indices,
    LabelAggregate,
    Labels,
    LabelTable,
    NumberAggregate,
    Numbers,
    NumberTable,
    Positions,
    Rank,
    Selector,
    Square,
    Tokens,
    Values,
    Width,
)
from attnforge.targets.programs.tables import Table

MOST_CELLS = 2**13 + 1  # of one lookup: proofs look at all pairs of them
MOST_POSITIONS = 2**16  # that are held as labels
MOST_PAIRS = 2**24  # of labels that one selection compares
AT_ONCE: dict[str, np.ufunc] = {
    "==": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
}  # fmt: skip

Found = TypeVar("Found")
Root = tuple[Labels, tuple[Any, ...]]
Condition = LabelCondition | NumberCondition


class Typed:
    """A program over a vocabulary, for sequences of 1 to ``max_length`` tokens. Whatever is ill-typed is refused."""

    def __init__(self, program: Labels | Numbers, vocabulary: Any, max_length: int) -> None:
        if type(max_length) is not int or max_length < 1:
            raise TargetError("`max_length` is a positive integer", f"{max_length!r:.40}", "Pass one")
        self.program, self.max_length = program, max_length
        self.vocabulary = check_vocabulary(vocabulary)
        self._known: dict[tuple[str, Values | Selector | Atom], Any] = {}
        for node in in_order(program):
            self.labels(node) if isinstance(node, Labels) else self.grid(node)

    def _once(self, what: str, node: Values | Selector | Atom, compute: Callable[[Any], Found]) -> Found:
        if (what, node) not in self._known:
            self._known[what, node] = compute(node)
        found: Found = self._known[what, node]
        return found

    def labels(self, node: Values) -> Alphabet:
        """The labels that may occur."""
        return self._once("labels", node, self._labels)

    def grid(self, node: Values) -> Grid:
        """The range and grid of a number."""
        return self._once("grid", node, self._grid)

    def root(self, node: Labels) -> Root:
        """The register that holds a label, and what each of the register's labels stands for."""
        return self._once("root", node, self._root)

    def form(self, node: Numbers) -> Form:
        """A number as a linear function of what registers hold."""
        return self._once("form", node, self._form)

    def cells(self, node: Values) -> list[Cell]:
        """The cells that the lookup of a function of one number tells apart."""
        return self._once("cells", node, self._cells)

    def outcomes(self, node: Values) -> list[Any]:
        """The results of a table for all combinations of the labels of its arguments."""
        return self._once("outcomes", node, self._outcomes)

    def square(self, number: Numbers) -> Form:
        """The square of a number: a form of a position and its square, or of a register of its own."""
        return self._once("square", number, self._square)

    @cached_property
    def index(self) -> Indices:
        """The node that stands for positions: one for all that a program may hold."""
        return Indices()

    @cached_property
    def position(self) -> Positions:
        """The same as a label."""
        return Positions()

    @cached_property
    def token(self) -> Tokens:
        """The same for tokens."""
        return Tokens()

    # labels

    def _labels(self, node: Values) -> Alphabet:
        match node:
            case Tokens():
                return self.vocabulary
            case Positions():
                if self.max_length > MOST_POSITIONS:
                    got = f"{self.max_length:,}"
                    raise RefusalError(f"At most {MOST_POSITIONS:,} positions are labels", got, "Use a smaller length")
                return Alphabet(range(self.max_length))
            case Comparison():
                return Alphabet([False, True])
            case LabelTable(_, (Numbers(),)):
                return Alphabet(cell.result for cell in self.cells(node))
            case LabelTable():
                return Alphabet(self.outcomes(node))
            case LabelAggregate(selector, values, default):
                self._check_shared(node, selector, values)
                missing = (default,) if self.may_be_empty(selector) else ()
                return Alphabet((*self.labels(values), *missing))
            case _:
                raise TargetError("A program is made of the operations of its language", node.operation)

    def _root(self, node: Labels) -> Root:
        if isinstance(node, Tokens):
            return self.token, self.vocabulary
        if isinstance(node, Positions):
            return self.position, self.labels(node)
        read_off = self._read_off(node) if isinstance(node, LabelTable) else None
        return (node, self.labels(node)) if read_off is None else read_off

    def _read_off(self, node: LabelTable | NumberTable) -> Root | None:
        """The register that all arguments of a table are read off, and the result for each of its labels."""
        roots = [self.root(argument) for argument in node.arguments if isinstance(argument, Labels)]
        if len(roots) < len(node.arguments) or any(held is not roots[0][0] for held, _ in roots):
            return None
        given = zip(*(stands for _, stands in roots), strict=True)
        return roots[0][0], tuple(self._call(node, *each) for each in given)

    def _outcomes(self, node: Values) -> list[Any]:
        assert isinstance(node, LabelTable | NumberTable)
        given = [self.labels(argument) for argument in node.arguments]
        return [self._call(node, *each) for each in product(*given)]

    def _call(self, node: LabelTable | NumberTable, *arguments: Any) -> Any:
        result = _asked(f"{node.operation}: the function takes all labels of its arguments", node.function, arguments)
        if isinstance(node, NumberTable) and (not isinstance(result, int | Fraction) or isinstance(result, bool)):
            got = f"{result!r:.40} at {arguments!r:.60}"
            raise TargetError(f"{node.operation}: results are integers or fractions", got, "Use `labels`, or Fraction")
        if isinstance(node, NumberTable):
            check_range(Fraction(result))
        return result

    # numbers

    def _grid(self, node: Values) -> Grid:
        n = self.max_length
        match node:
            case Indices():
                return Grid(Fraction(0), Fraction(n - 1), 1)
            case Rank():
                return Grid(Fraction(0), Fraction(n - 1), 1)
            case Width(selector):
                self.conditions(selector)
                if selector.ranking is not None:
                    raise TargetError(f"{node.operation}: a width counts all that meet the conditions", "a ranking")
                return Grid(Fraction(0 if self.may_be_empty(selector) else 1), Fraction(n), 1)
            case Square(number):
                grid = self.grid(number)
                return Grid(Fraction(0), max(grid.lower**2, grid.upper**2), 1 if grid.is_integer else None)
            case NumberTable(_, (Numbers(),)):
                return _spanned([Fraction(cell.result) for cell in self.cells(node)])
            case NumberTable():
                return _spanned([Fraction(result) for result in self.outcomes(node)])
            case Combination():
                return self._combined(node)
            case NumberAggregate(selector, values, default):
                return self._averaged(selector, values, default)
            case _:
                raise TargetError("A program is made of the operations of its language", node.operation)

    def _combined(self, node: Combination) -> Grid:
        lower = upper = node.constant
        denominator: int | None = node.constant.denominator
        for factor, number in node.terms:
            grid = self.grid(number)
            ends = factor * grid.lower, factor * grid.upper
            lower, upper = lower + min(ends), upper + max(ends)
            known = denominator is not None and grid.denominator is not None
            denominator = (denominator or 1) * factor.denominator * (grid.denominator or 1) if known else None
        return Grid(lower, upper, denominator)

    def _averaged(self, selector: Selector, values: Numbers, default: Fraction) -> Grid:
        self.conditions(selector)
        check_range(default)
        grid = self.grid(values)
        denominator = grid.denominator
        if not self.share_number(selector, values):
            denominator = self.max_length if grid.is_integer else None
        if not self.may_be_empty(selector):
            return Grid(grid.lower, grid.upper, denominator)
        either = None if denominator is None else max(denominator, default.denominator)
        return Grid(min(grid.lower, default), max(grid.upper, default), either)

    def _form(self, node: Numbers) -> Form:
        match node:
            case Indices():
                return Form({self.index: (Fraction(1),)})
            case Rank(smaller=smaller, ties=ties):
                return self.form(smaller) + self.form(ties)
            case Combination(terms, constant):
                total = Form({}, constant)
                for factor, number in terms:
                    total = total + self.form(number).times(factor)
                return total
            case NumberTable() if (read_off := self._read_off(node)) is not None:
                return Form({read_off[0]: tuple(map(Fraction, read_off[1]))}) + Form({})
            case _:
                return Form({node: (Fraction(1),)})

    def _square(self, number: Numbers) -> Form:
        form = self.form(number)
        if set(form.weights) <= {self.index}:
            a, c = form.weights.get(self.index, (Fraction(0),))[0], form.constant
            return Form({self._index_square: (a * a,), self.index: (2 * a * c,)}, c * c) + Form({})
        if not self.grid(number).is_integer:
            raise TargetError("`select`: computed numbers that are compared with == are integers", number.operation)
        return Form({Square(number): (Fraction(1),)})

    @cached_property
    def _index_square(self) -> Square:
        return Square(self.index)

    # lookups

    def _cells(self, node: Values) -> list[Cell]:
        match node:
            case Width():
                grid = self.grid(node)
                counts = range(int(grid.lower), int(grid.upper) + 1)
                _check_cells(node, len(counts))
                return [Cell(Fraction(1, 1 + w), Fraction(1, 1 + w), w) for w in counts]
            case Comparison():
                return self._compared(node)
            case Square(number):
                return [Cell(Fraction(i), Fraction(i), i * i) for i in self._integers(node, number)]
            case LabelTable(_, (Numbers() as number,)) | NumberTable(_, (Numbers() as number,)):
                return _joined(
                    [Cell(Fraction(i), Fraction(i), self._call(node, i)) for i in self._integers(node, number)]
                )
            case _:
                raise TargetError("This is no function of one number", node.operation)

    def _integers(self, node: Values, number: Numbers) -> range:
        grid = self.grid(number)
        if not grid.is_integer:
            raise TargetError(f"{node.operation}: tables of a number need integers", number.operation, "Compare it")
        _check_cells(node, int(grid.upper - grid.lower) + 1)
        return range(int(grid.lower), int(grid.upper) + 1)

    def _compared(self, node: Comparison) -> list[Cell]:
        grid, at, true = self.grid(node.number), node.constant, node.relation in ("==", "<", "<=")
        if grid.denominator is None:
            got = node.number.operation
            raise TargetError(f"{node.operation}: numbers are compared where their grid is known", got, "Take one mean")
        step = Fraction(1, at.denominator * grid.denominator)
        if node.relation in ("==", "!="):
            ends = [(grid.lower, at - step, not true), (at, at, true), (at + step, grid.upper, not true)]
        else:
            below = at if node.relation in ("<=", ">") else at - step
            ends = [(grid.lower, below, true), (below + step, grid.upper, not true)]
        cut = [(max(low, grid.lower), min(high, grid.upper), result) for low, high, result in ends]
        return [Cell(low, high, result) for low, high, result in cut if low <= high]

    # selections

    def conditions(self, selector: Selector) -> list[Condition]:
        """Its conditions, those on the same two registers as one."""
        return self._once("conditions", selector, self._conditions)

    def _conditions(self, selector: Selector) -> list[Condition]:
        merged: dict[tuple[Values | None, Values], LabelCondition] = {}
        others: list[Condition] = []
        for atom in selector.atoms:
            if isinstance(atom.keys, Labels) and isinstance(atom.queries, Labels):
                found = self._table(atom)
                before = merged.get((found.query, found.key))
                allowed = found.allowed if before is None else before.allowed & found.allowed
                merged[found.query, found.key] = LabelCondition(found.query, found.key, allowed)
            elif isinstance(atom.keys, Numbers) and isinstance(atom.queries, Numbers):
                others.append(self._number_condition(atom.keys, atom.queries))
        if selector.ranking is not None and not self.grid(selector.ranking).is_integer:
            raise TargetError("A selection is ranked by integers", selector.ranking.operation)
        return [*merged.values(), *others]

    def _table(self, atom: Atom) -> LabelCondition:
        return self._once("table", atom, self._label_condition)

    def _label_condition(self, atom: Atom) -> LabelCondition:
        assert isinstance(atom.keys, Labels)
        assert isinstance(atom.queries, Labels)
        (asking, asks), (told, tells) = self.root(atom.queries), self.root(atom.keys)
        keys, queries, answers = self.answers(atom)
        if atom.is_order:
            _check_order(atom, answers, self._related(replace(atom, relation="=="), keys, queries))
        allowed = answers[np.ix_([queries.place(q) for q in asks], [keys.place(k) for k in tells])]
        if (allowed == allowed[:1]).all():
            return LabelCondition(None, told, allowed[:1])
        return LabelCondition(asking, told, allowed)

    def answers(self, atom: Atom) -> tuple[Alphabet, Alphabet, npt.NDArray[np.bool_]]:
        """The labels of keys and queries, and whether the relation holds of them: (queries, keys)."""
        return self._once("answers", atom, self._answers)

    def _answers(self, atom: Atom) -> tuple[Alphabet, Alphabet, npt.NDArray[np.bool_]]:
        keys, queries = (Alphabet(self.root(side)[1]) for side in (atom.keys, atom.queries))  # type: ignore[arg-type]
        if len(keys) * len(queries) > MOST_PAIRS:
            got = f"{len(keys):,} by {len(queries):,}"
            raise RefusalError(f"`select` compares at most {MOST_PAIRS:,} pairs of labels", got, "Use a smaller length")
        return keys, queries, self._related(atom, keys, queries)

    def _related(self, atom: Atom, keys: Alphabet, queries: Alphabet) -> npt.NDArray[np.bool_]:
        if isinstance(atom.relation, Table):
            return np.asarray(atom.relation.rows(keys, queries).T, dtype=np.bool_)
        whole = all(type(label) is int and abs(label) < 2**53 for label in (*keys, *queries))
        if whole and isinstance(atom.relation, str):
            return np.asarray(AT_ONCE[atom.relation](np.array(keys)[None, :], np.array(queries)[:, None]))
        return np.array([[self._holds(atom, k, q) for k in keys] for q in queries])

    @staticmethod
    def _holds(atom: Atom, key: Any, query: Any) -> bool:
        what = f"`select` of {atom.keys.operation} by {atom.queries.operation}"
        result = _asked(f"{what}: the relation takes all labels that occur", atom.holds, (key, query))
        if not isinstance(result, bool | np.bool_):
            got = f"{result!r:.40} at {(key, query)!r:.60}"
            raise TargetError(f"{what}: a relation is True or False", got, "Return a bool")
        return bool(result)

    def _number_condition(self, keys: Numbers, queries: Numbers) -> NumberCondition:
        constant = self.form(keys).constant
        if constant:  # k + c = q is k = q - c
            keys, queries = keys - constant, queries - constant
        told, asked = self.grid(keys), self.grid(queries)
        _check_keys(keys, self.form(keys))
        if told.denominator is None or asked.denominator is None:
            got = f"{keys.operation} == {queries.operation}"
            raise TargetError("`select`: numbers are compared where their grid is known", got, "Use integers")
        try:
            query_square = self.square(queries)
        except TargetError:
            query_square = None  # needed where a selection may be empty, and refused there
        apart = Fraction(1, told.denominator * asked.denominator)
        square = self.square(keys)
        return NumberCondition(self.form(queries), self.form(keys), square, query_square, asked, told, apart)

    def may_be_empty(self, selector: Selector) -> bool:
        """Whether some token of some sequence may find nothing selected."""
        found = self.conditions(selector)
        return not (all(map(_holds_of_itself, found)) or self._meets_all_positions(selector))

    def _meets_all_positions(self, selector: Selector) -> bool:
        if len(selector.atoms) != 1 or not isinstance(selector.atoms[0].keys, Indices | Rank):
            return False
        atom = selector.atoms[0]
        if atom.relation != "==" or not isinstance(atom.queries, Numbers):
            return False
        form, n = self.form(atom.queries), self.max_length
        i = form.weights.get(self.index, (Fraction(0),))[0]
        lengths = {node: w[0] for node, w in form.weights.items() if _is_length(node)}
        if len(form.weights) != len(lengths) + (self.index in form.weights):
            return False
        slope = sum(lengths.values(), Fraction(0))
        whole = all(value.denominator == 1 for value in (i, slope, form.constant))
        corners = ((0, 1), (0, n), (n - 1, n))
        return whole and all(0 <= i * at + slope * size + form.constant <= size - 1 for at, size in corners)

    def is_single(self, selector: Selector) -> bool:
        """Whether at most one token is selected, in every sequence."""
        if selector.ranking is not None and _differs(selector.ranking):
            return True
        return any(atom.relation == "==" and _differs(atom.keys) and self._equals_one(atom) for atom in selector.atoms)

    def _equals_one(self, atom: Atom) -> bool:
        """Whether no value is equal to two keys that differ: of numbers always, of labels if ``==`` says so of all."""
        return isinstance(atom.keys, Numbers) or bool(self._table(atom).allowed.sum(axis=1).max() <= 1)

    def share_number(self, selector: Selector, values: Numbers) -> bool:
        """Whether all selected tokens have the same number: there is one of them, or it is what they are ranked by."""
        same = selector.ranking is not None and self.form(selector.ranking).same_as(self.form(values))
        return same or self.is_single(selector)

    def _check_shared(self, node: Values, selector: Selector, values: Labels) -> None:
        held, stands = self.root(values)
        for condition in self.conditions(selector):
            if isinstance(condition, LabelCondition) and condition.key is held:
                rows = [Alphabet(stands[k] for k in np.flatnonzero(row)) for row in condition.allowed]
                if all(len(row) <= 1 for row in rows):
                    return
        if not self.is_single(selector):
            remedy = "Select one (.last(), .first()), or average numbers"
            raise TargetError(f"{node.operation}: all selected tokens share their label", "several tokens", remedy)


def _check_order(atom: Atom, less: npt.NDArray[np.bool_], equal: npt.NDArray[np.bool_]) -> None:
    """Labels are numbered by how many are smaller; then < and == of all pairs must be those of the numbers."""
    place = less.sum(axis=1)
    if (less != (place < place[:, None])).any() or (equal != (place == place[:, None])).any():
        got = f"{atom.keys.operation}, of which some are neither <, == nor > one another, or go in a circle"
        raise TargetError("`rank`: labels have one order", got, "Rank integers or strings")


def _check_keys(keys: Numbers, form: Form) -> None:
    if not form.weights:
        got = f"{keys.operation}, the same at every token"
        raise TargetError("`select`: keys depend on the token", got, "Swap keys and queries, or compare the query")


def _asked(requirement: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """What a function says of labels; a function that says another thing when asked again is none."""
    try:
        found, again = function(*arguments), function(*arguments)
        hash(found)
        steady = identity(found) == identity(again)
    except Exception as error:
        got = f"{type(error).__name__}: {error} at {arguments!r:.60}"
        raise TargetError(requirement, got) from error
    if not steady:
        got = f"{found!r:.40}, then {again!r:.40} at {arguments!r:.60}"
        raise TargetError(f"{requirement} and says the same of them each time", got, "Use one without state")
    return found


def _is_length(node: Values) -> bool:
    return isinstance(node, Width) and not node.selector.atoms


def _differs(node: Values) -> bool:
    """Whether values at different tokens always differ."""
    if isinstance(node, Combination) and len(node.terms) == 1:
        return node.terms[0][0] != 0 and _differs(node.terms[0][1])
    return isinstance(node, Indices | Positions | Rank)


def _holds_of_itself(condition: Condition) -> bool:
    """Whether every token meets the condition with itself as the query."""
    if isinstance(condition, NumberCondition):
        return condition.key.same_as(condition.query)
    if condition.query is None:
        return bool(condition.allowed.all())
    return condition.query is condition.key and bool(np.diag(condition.allowed).all())


def _spanned(values: list[Fraction]) -> Grid:
    return Grid(min(values), max(values), max(value.denominator for value in values))


def _joined(cells: list[Cell]) -> list[Cell]:
    """Neighbours of one result as one cell."""
    found = cells[:1]
    for cell in cells[1:]:
        last = found[-1]
        if identity(cell.result) == identity(last.result):
            found[-1] = Cell(last.lower, cell.upper, last.result)
        else:
            found.append(cell)
    return found


def _check_cells(node: Values, count: int) -> None:
    if count > MOST_CELLS:
        remedy = "Use a smaller `max_length`"
        raise RefusalError(
            f"{node.operation}: a lookup tells at most {MOST_CELLS:,} values apart", f"{count:,}", remedy
        )

"""The language: values over a sequence, one a token, built from tokens and indices by tables, selections and means.

There are two types. *Labels* are one of finitely many (strings, numbers, truth values, None). *Numbers* are rational,
with a known range. A program is the value it computes: an acyclic graph of the frozen nodes below. What each node means
is said in :mod:`.semantics`, once; here is how they are written down. Operators build nodes and compute nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

from attnforge.errors import TargetError

Label = Hashable
Scalar = int | Fraction

COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda a, b: bool(a == b),
    "!=": lambda a, b: bool(a != b),
    "<": lambda a, b: bool(a < b),
    "<=": lambda a, b: bool(a <= b),
    ">": lambda a, b: bool(a > b),
    ">=": lambda a, b: bool(a >= b),
}


@dataclass(frozen=True, eq=False)
class Values:
    """One value a token. ``title`` names it in traces and errors."""

    word: ClassVar[str] = "values"
    title: str = field(default="", kw_only=True)

    @property
    def operation(self) -> str:
        """The operation, in words for people."""
        return f"{self.word} {self.title!r}" if self.title else self.word

    @property
    def operands(self) -> tuple[Values, ...]:
        """The values it is computed from."""
        return ()

    def named(self, title: str) -> Self:
        """The same under a name."""
        return replace(self, title=title)


class Labels(Values):
    """Values that are one of finitely many labels."""


class Numbers(Values):
    """Values that are rational numbers of a known range: added, scaled by constants, and compared."""

    def __add__(self, other: Numbers | Scalar) -> Combination:
        return combine((1, self), (1, other))

    def __radd__(self, other: Scalar) -> Combination:
        return combine((1, self), (1, other))

    def __sub__(self, other: Numbers | Scalar) -> Combination:
        return combine((1, self), (-1, other))

    def __rsub__(self, other: Scalar) -> Combination:
        return combine((-1, self), (1, other))

    def __neg__(self) -> Combination:
        return combine((-1, self))

    def __mul__(self, factor: Scalar) -> Combination:
        return combine((factor, self))

    __rmul__ = __mul__

    def __lt__(self, other: Numbers | Scalar) -> Comparison:
        return compare(self, "<", other)

    def __le__(self, other: Numbers | Scalar) -> Comparison:
        return compare(self, "<=", other)

    def __gt__(self, other: Numbers | Scalar) -> Comparison:
        return compare(self, ">", other)

    def __ge__(self, other: Numbers | Scalar) -> Comparison:
        return compare(self, ">=", other)


@dataclass(frozen=True, eq=False)
class Tokens(Labels):
    """The tokens themselves: labels of the vocabulary."""

    word: ClassVar[str] = "tokens"


@dataclass(frozen=True, eq=False)
class Indices(Numbers):
    """The position of a token, from 0 on."""

    word: ClassVar[str] = "indices"


@dataclass(frozen=True, eq=False)
class Positions(Labels):
    """The position of a token as a label: what comparisons of order between positions read."""

    word: ClassVar[str] = "positions"


@dataclass(frozen=True, eq=False)
class LabelTable(Labels):
    """A function of labels, or of one integer, tabulated when the program is compiled; its results are labels."""

    word: ClassVar[str] = "labels"

    function: Callable[..., Label]
    arguments: tuple[Values, ...]

    @property
    def operands(self) -> tuple[Values, ...]:
        """Its arguments."""
        return self.arguments


@dataclass(frozen=True, eq=False)
class NumberTable(Numbers):
    """The same with results that are rational numbers."""

    word: ClassVar[str] = "numbers"

    function: Callable[..., Scalar]
    arguments: tuple[Values, ...]

    @property
    def operands(self) -> tuple[Values, ...]:
        """Its arguments."""
        return self.arguments


@dataclass(frozen=True, eq=False)
class Combination(Numbers):
    """A sum of numbers with constant factors, and a constant."""

    word: ClassVar[str] = "sum"

    terms: tuple[tuple[Fraction, Numbers], ...]
    constant: Fraction

    @property
    def operands(self) -> tuple[Values, ...]:
        """The numbers."""
        return tuple(number for _, number in self.terms)


@dataclass(frozen=True, eq=False)
class Comparison(Labels):
    """Whether a number is <, <=, >, >=, == or != a constant: False or True."""

    word: ClassVar[str] = "comparison"

    number: Numbers
    relation: str
    constant: Fraction

    @property
    def operands(self) -> tuple[Values, ...]:
        """The number."""
        return (self.number,)


@dataclass(frozen=True, eq=False)
class Atom:
    """One condition on a pair of a key and a query token: ``relation`` of labels or numbers, or a function of labels.

    The function takes the key's label first. ``is_order`` where labels must have one order, which ``relation`` says.
    """

    keys: Values
    queries: Values
    relation: str | Callable[[Any, Any], bool]
    is_order: bool = False

    @property
    def holds(self) -> Callable[[Any, Any], bool]:
        """The condition as a function of the key's and the query's value."""
        return COMPARISONS[self.relation] if isinstance(self.relation, str) else self.relation


@dataclass(frozen=True, eq=False)
class Selector:
    """For every query token the key tokens that meet all conditions; of these, those with the largest ``ranking``."""

    atoms: tuple[Atom, ...] = ()
    ranking: Numbers | None = None

    def __and__(self, other: Selector) -> Selector:
        if self.ranking is not None or other.ranking is not None:
            raise TargetError("`&` joins conditions; .last() and .largest() come after it", "a ranked selection")
        return Selector(self.atoms + other.atoms)

    def largest(self, number: Numbers) -> Selector:
        """Of the selected tokens those with the largest number, an integer; ties stay."""
        if self.ranking is not None or not isinstance(number, Numbers):
            raise TargetError("A selection is ranked once, by numbers", f"{type(number).__name__}")
        return Selector(self.atoms, number)

    def last(self) -> Selector:
        """The last of the selected tokens."""
        return self.largest(indices)

    def first(self) -> Selector:
        """The first of the selected tokens."""
        return self.largest(-indices)

    @property
    def operands(self) -> tuple[Values, ...]:
        """All values that decide."""
        found = [each for atom in self.atoms for each in (atom.keys, atom.queries)]
        return (*found, *(() if self.ranking is None else (self.ranking,)))


@dataclass(frozen=True, eq=False)
class LabelAggregate(Labels):
    """The label that all selected tokens share; ``default`` where none is selected."""

    word: ClassVar[str] = "aggregate"

    selector: Selector
    values: Labels
    default: Label = None

    @property
    def operands(self) -> tuple[Values, ...]:
        """What is selected by, and what is averaged."""
        return (*self.selector.operands, self.values)


@dataclass(frozen=True, eq=False)
class NumberAggregate(Numbers):
    """The mean over the selected tokens; ``default`` where none is selected."""

    word: ClassVar[str] = "mean"

    selector: Selector
    values: Numbers
    default: Fraction = Fraction(0)

    @property
    def operands(self) -> tuple[Values, ...]:
        """What is selected by, and what is averaged."""
        return (*self.selector.operands, self.values)


@dataclass(frozen=True, eq=False)
class Width(Numbers):
    """How many tokens are selected."""

    word: ClassVar[str] = "selector_width"

    selector: Selector

    @property
    def operands(self) -> tuple[Values, ...]:
        """What is selected by."""
        return self.selector.operands


@dataclass(frozen=True, eq=False)
class Rank(Numbers):
    """The place of a token in the stable order of ``order``, from 0 on: a permutation of the positions.

    It is how many tokens come before: those of smaller order, and those of equal order at smaller positions. That is a
    strict total order of positions, so that ranks of different tokens differ and all of 0, .., n - 1 are taken.
    """

    word: ClassVar[str] = "rank"

    order: Labels
    smaller: Width = field(init=False)
    ties: Width = field(init=False)

    def __post_init__(self) -> None:
        equal = select(self.order, self.order, "==") & select(indices, indices, "<")
        less = replace(select(self.order, self.order, "<").atoms[0], is_order=True)
        object.__setattr__(self, "smaller", Width(Selector((less,))))
        object.__setattr__(self, "ties", Width(equal))

    @property
    def operands(self) -> tuple[Values, ...]:
        """The two counts it is the sum of."""
        return (self.smaller, self.ties)


@dataclass(frozen=True, eq=False)
class Square(Numbers):
    """The square of an integer: comparisons of numbers for equality read it of their keys."""

    word: ClassVar[str] = "square"

    number: Numbers

    @property
    def operands(self) -> tuple[Values, ...]:
        """The number."""
        return (self.number,)


tokens = Tokens()
indices = Indices()
positions = Positions()
length = Width(Selector(), title="length")


def combine(*given: tuple[Scalar, Numbers | Scalar]) -> Combination:
    """Numbers and constants, each times a constant."""
    terms: tuple[tuple[Any, Any], ...] = given  # whatever a caller may pass
    kept, constant = [], Fraction(0)
    for factor, number in terms:
        if not isinstance(factor, int | Fraction) or isinstance(factor, bool):
            raise TargetError("Numbers are scaled by integers and fractions", f"{factor!r:.40}", "Use Fraction")
        if isinstance(number, Numbers):
            kept.append((Fraction(factor), number))
        elif isinstance(number, int | Fraction) and not isinstance(number, bool):
            constant += Fraction(factor) * number
        else:
            raise TargetError("Numbers are added to numbers, integers and fractions", f"{number!r:.40}", "Use Fraction")
    return Combination(tuple(kept), constant)


def constant(value: Scalar) -> Combination:
    """The same number at every token."""
    return combine((1, value))


def compare(number: Numbers, relation: str, other: Numbers | Scalar) -> Comparison:
    """Whether a number is <, <=, >, >=, == or != another, or a constant."""
    _check_values("compare", number, Numbers)
    if relation not in tuple(COMPARISONS):  # which need no hash
        raise TargetError(f"A comparison is one of {', '.join(COMPARISONS)}", f"{relation!r:.40}")
    if isinstance(other, Numbers):
        return Comparison(number - other, relation, Fraction(0))
    return Comparison(number, relation, combine((1, other)).constant)


def labels(function: Callable[..., Label] | Mapping[Any, Label], *arguments: Values) -> LabelTable:
    """A function (or mapping) of one or two labels, or of one integer, whose results are labels."""
    return LabelTable(_function(function, arguments, "labels"), arguments)


def numbers(function: Callable[..., Scalar] | Mapping[Any, Scalar], *arguments: Values) -> NumberTable:
    """A function (or mapping) of one or two labels, or of one integer, whose results are integers or fractions."""
    return NumberTable(_function(function, arguments, "numbers"), arguments)


def _function(function: Any, arguments: tuple[Values, ...], name: str) -> Callable[..., Any]:
    plain = all(isinstance(each, Values) for each in arguments)
    many = len(arguments) == 2 and all(isinstance(each, Labels) for each in arguments)
    if not plain or not (len(arguments) == 1 or many):
        got = ", ".join(type(each).__name__ for each in arguments)
        raise TargetError(f"`{name}` takes one or two sequences of labels, or one of numbers", got or "none")
    if isinstance(function, Mapping):
        found: Callable[..., Any] = function.__getitem__
        return found
    if not callable(function):
        raise TargetError(f"`{name}` takes a function or a mapping", f"{function!r:.40}", "Pass one")
    taken: Callable[..., Any] = function
    return taken


def select(keys: Values, queries: Values, relation: str | Callable[[Any, Any], bool] = "==") -> Selector:
    """The key tokens whose value stands in the relation to the query token's: key relation query.

    Labels take ==, !=, <, <=, >, >= or a function of two labels, the key's first; numbers ==, and integers the rest.
    Positions (``indices`` on both sides) are compared by order without further heads.
    """
    given: tuple[Any, ...] = (keys, queries)
    for each in given:
        if not isinstance(each, Values):
            got = f"{type(each).__name__}"
            raise TargetError("`select` compares values over the sequence", got, "Use `where` for constants")
    if isinstance(relation, str) and relation not in COMPARISONS:
        raise TargetError(f"`select`: a relation is one of {', '.join(COMPARISONS)} or a function", f"{relation!r:.40}")
    if isinstance(keys, Labels) != isinstance(queries, Labels):
        got = f"{keys.operation} and {queries.operation}"
        raise TargetError("`select` compares labels with labels, or numbers with numbers", got, "Use `labels`")
    if relation == "==" or isinstance(keys, Labels):
        return Selector((Atom(keys, queries, relation),))
    return Selector((Atom(as_labels(keys), as_labels(queries), relation),))


def where(keys: Labels, condition: Callable[[Any], bool]) -> Selector:
    """The key tokens whose label meets a condition, whatever the query."""
    told = as_labels(keys)
    return Selector((Atom(told, told, lambda key, _query: condition(key)),))


def _check_values(name: str, values: Any, kind: type[Values]) -> None:
    if not isinstance(values, kind):
        got = f"{type(values).__name__}"
        raise TargetError(f"`{name}` takes {kind.__name__.lower()} over the sequence", got, "Use `labels` or `numbers`")


def as_labels(values: Values) -> Labels:
    """Integers as labels: positions without a head, others by one that looks them up."""
    _check_values("as_labels", values, Values)
    if isinstance(values, Labels):
        return values
    return positions if isinstance(values, Indices) else LabelTable(lambda value: value, (values,))


everything = Selector()
before = select(indices, indices, "<")
upto = select(indices, indices, "<=")


def aggregate(selector: Selector, values: Values, default: Any = None) -> Labels | Numbers:
    """Labels: the one that all selected tokens share; numbers: their mean. Without any, ``default``: None, or 0."""
    _check_selector("aggregate", selector)
    if isinstance(values, Numbers):
        return NumberAggregate(selector, values, combine((1, 0 if default is None else default)).constant)
    if isinstance(values, Labels):
        return LabelAggregate(selector, values, default)
    raise TargetError("`aggregate` averages values over the sequence", f"{type(values).__name__}", "Use `labels`")


def mean(values: Numbers, over: Selector = everything) -> Numbers:
    """The mean of numbers over all tokens, or over the selected."""
    _check_selector("mean", over)
    _check_values("mean", values, Numbers)
    return NumberAggregate(over, values)


def selector_width(selector: Selector) -> Width:
    """How many tokens are selected."""
    _check_selector("selector_width", selector)
    return Width(selector)


def _check_selector(name: str, selector: Any) -> None:
    if not isinstance(selector, Selector):
        got = f"{type(selector).__name__}"
        raise TargetError(f"`{name}` takes a selection first", got, "Make one with `select`")


def rank(order: Labels) -> Rank:
    """The place of a token in the stable order of its label: a permutation of the positions."""
    return Rank(order)

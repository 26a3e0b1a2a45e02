"""Programs as plain data: labels with their types, tables by their results, operations by number. No code, no pickles.

A label is JSON's own null, truth value, string or integer; any other is an object of one entry that says what it is:
``{"float": "0x1.8p+0"}``, ``{"tuple": [..]}``, ``{"fraction": "1/3"}``. Numbers are text, ``"-1/3"``. An operation
names its operands by their place in the list, which come before it. A table lists the labels of its arguments and one
result for each combination. What cannot be told from its text (objects of one's own, NaN) is refused when it is saved.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from attnforge.errors import AttnforgeError, FileFormatError, TargetError
from attnforge.targets.programs.alphabet import Alphabet, identity
from attnforge.targets.programs.graph import in_order
from attnforge.targets.programs.language import (
    COMPARISONS,
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
    Tokens,
    Values,
    Width,
)
from attnforge.targets.programs.registers import Layout
from attnforge.targets.programs.tables import Table
from attnforge.targets.programs.typing import MOST_PAIRS, Typed

Data = dict[str, Any]

KIND = "program"
LONGEST_LABEL = 1000  # characters of a number or a text in a file
DEEPEST = 20  # tuples in tuples
MOST_OPERATIONS = 2000  # that a file may hold
MOST_TOKENS = 2**24  # of a sequence
NUMBER = re.compile(r"-?[0-9]{1,1000}(/[0-9]{1,1000})?")
REMEDY = "Build it anew"

TEXTS: dict[str, tuple[type, Callable[[Any], str], Callable[[str], Any]]] = {
    "float": (float, float.hex, float.fromhex),
    "bytes": (bytes, bytes.hex, bytes.fromhex),
    "fraction": (Fraction, str, Fraction),
    "decimal": (Decimal, str, Decimal),
}
GROUPS: dict[str, type[tuple[Any, ...]] | type[frozenset[Any]]] = {"tuple": tuple, "frozenset": frozenset}


@dataclass(frozen=True, eq=False)
class Program:
    """A program over a vocabulary, for sequences up to a length: what a network computes, as a file holds it."""

    typed: Typed

    @cached_property
    def layout(self) -> Layout:
        """Where a network keeps its values."""
        return Layout(self.typed)

    @property
    def written(self) -> int:
        """Features that a network of it writes."""
        return self.layout.result.size

    def describe(self) -> str:
        """One line for people."""
        program = self.typed.program
        name = program.title or program.operation
        return f"{name} of sequences of 1 to {self.typed.max_length:,} tokens over {len(self.typed.vocabulary)}"

    def to_data(self) -> tuple[Data, Data]:
        """A JSON-able description; no arrays."""
        return program_to_data(self.typed), {}

    @classmethod
    def from_data(cls, data: Mapping[str, Any], _arrays: Mapping[str, Any]) -> Program:
        """The inverse; whatever is not a program is refused."""
        return cls(program_from_data(data))


def label_to_data(label: Any) -> Any:
    """A label with its type; one that would not come back as it is, is refused."""
    data = _written(label)
    try:
        same = identity(label_from_data(data)) == identity(label)
    except FileFormatError:
        same = False
    if not same:
        raise TargetError("A file holds labels that come back from text", f"{label!r:.40}", "Name them by strings")
    return data


def _written(label: Any) -> Any:
    if label is None or type(label) in (bool, int, str):
        return _checked(label)
    if type(label) is complex:
        return {"complex": [_written(part)["float"] for part in (label.real, label.imag)]}
    for name, (kind, written, _) in TEXTS.items():
        if type(label) is kind and label == label:
            return {name: _checked(written(label))}
    for name, group in GROUPS.items():
        if type(label) is group:
            return {name: [_written(part) for part in label]}
    wanted = "A file holds labels that are text: strings, numbers, truth values, None, tuples and frozensets of them"
    raise TargetError(wanted, f"{label!r:.40}, a {type(label).__name__}", "Name them by strings")


def label_from_data(data: Any, depth: int = 0) -> Any:
    """The label."""
    if data is None or type(data) in (bool, int, str):
        return _checked(data)
    if depth > DEEPEST or not isinstance(data, dict) or len(data) != 1:
        raise FileFormatError("A stored label says its type", f"{data!r:.60}", REMEDY)
    ((name, given),) = data.items()
    if name in GROUPS and isinstance(given, list):
        return GROUPS[name](label_from_data(part, depth + 1) for part in given)
    if name == "complex" and isinstance(given, list) and len(given) == 2:
        return complex(*(label_from_data({"float": part}) for part in given))
    if name not in TEXTS or not isinstance(given, str):
        raise FileFormatError("A stored label is of a known type", f"{data!r:.60}", REMEDY)
    label = TEXTS[name][2](_checked(given))
    if label != label or _written(label) != data:
        raise FileFormatError("A stored label is written in one way", f"{data!r:.60}", REMEDY)
    return label


def _checked(label: Any) -> Any:
    size = label.bit_length() / 3 if type(label) is int else len(label) if isinstance(label, str) else 0
    if size > LONGEST_LABEL:
        raise TargetError(f"A file holds labels of at most {LONGEST_LABEL:,} characters", f"{size:,.0f}", "Shorten it")
    return label


def number_to_data(value: int | Fraction) -> str:
    """A number as text."""
    text = str(Fraction(value))
    if not NUMBER.fullmatch(text):
        raise TargetError("A file holds numbers of at most 1,000 digits", f"{len(text):,}", "Round it")
    return text


def number_from_data(data: Any) -> Fraction:
    """The number."""
    if not isinstance(data, str) or not NUMBER.fullmatch(data):
        raise FileFormatError("A stored number is a fraction as text", f"{data!r:.60}", REMEDY)
    return Fraction(data)


# programs


def program_to_data(typed: Typed) -> Data:
    """A tabulated program (:func:`attnforge.targets.programs.tables.tabulated`) as plain data."""
    nodes = in_order(typed.program)
    listed = [node for node in nodes if not _is_derived(node, nodes)]
    place = {node: i for i, node in enumerate(listed)}
    return {
        "kind": KIND,
        "max_length": typed.max_length,
        "vocabulary": [label_to_data(label) for label in typed.vocabulary],
        "operations": [_node_to_data(node, place) for node in listed],
        "result": place[typed.program],
    }


def _is_derived(node: Values, nodes: Sequence[Values]) -> bool:
    return any(isinstance(rank, Rank) and node in (rank.smaller, rank.ties) for rank in nodes)


def _node_to_data(node: Values, place: Mapping[Values, int]) -> Data:
    data = _operation(node, place)
    return {**data, "title": _checked(node.title)} if node.title else data


def _operation(node: Values, place: Mapping[Values, int]) -> Data:
    match node:
        case Tokens() | Indices() | Positions():
            return {"operation": node.word}
        case LabelTable(function, arguments) | NumberTable(function, arguments):
            return {
                "operation": node.word,
                "operands": [place[each] for each in arguments],
                "given": [[label_to_data(label) for label in labels] for labels in _table(function).arguments],
                "results": [
                    label_to_data(each) if isinstance(node, Labels) else number_to_data(each)
                    for each in _table(function).results
                ],
            }
        case Combination(terms, constant):
            factors = [number_to_data(factor) for factor, _ in terms]
            operands = [place[number] for _, number in terms]
            return {
                "operation": node.word,
                "operands": operands,
                "factors": factors,
                "constant": number_to_data(constant),
            }
        case Comparison(number, relation, constant):
            return {
                "operation": node.word,
                "operands": [place[number]],
                "relation": relation,
                "constant": number_to_data(constant),
            }
        case LabelAggregate(selector, values, default):
            told = {"operation": node.word, "operands": [place[values]], "default": label_to_data(default)}
            return told | {"selection": _selection_to_data(selector, place)}
        case NumberAggregate(selector, values, default):
            told = {"operation": node.word, "operands": [place[values]], "default": number_to_data(default)}
            return told | {"selection": _selection_to_data(selector, place)}
        case Width(selector):
            return {"operation": node.word, "selection": _selection_to_data(selector, place)}
        case Rank(order=order):
            return {"operation": node.word, "operands": [place[order]]}
        case _:
            raise TargetError("A program is made of the operations of its language", f"{node!r:.60}")


def _table(function: Any) -> Table:
    if not isinstance(function, Table):
        raise TargetError("A stored program has tables for functions", f"{function!r:.60}", "Compile it")
    return function


def _selection_to_data(selector: Selector, place: Mapping[Values, int]) -> Data:
    ranking = None if selector.ranking is None else place[selector.ranking]
    return {"conditions": [_atom_to_data(atom, place) for atom in selector.atoms], "ranking": ranking}


def _atom_to_data(atom: Atom, place: Mapping[Values, int]) -> Data:
    told = {"keys": place[atom.keys], "queries": place[atom.queries], **({"is_order": True} if atom.is_order else {})}
    if isinstance(atom.relation, str):
        return told | {"relation": atom.relation}
    table = _table(atom.relation)
    keys, queries = table.arguments
    met = table.rows(keys, queries).T
    if (met == met[:1]).all():  # the query does not matter: one row for all
        met = met[:1]
    labels = {name: list(map(label_to_data, each)) for name, each in _sides(keys, queries)}
    return told | labels | {"met": ["".join("01"[int(answer)] for answer in row) for row in met]}


def _sides(keys: Alphabet, queries: Alphabet) -> list[tuple[str, Alphabet]]:
    same = tuple(map(identity, keys)) == tuple(map(identity, queries))
    return [("given", keys)] if same else [("given", keys), ("given_queries", queries)]


def program_from_data(data: Mapping[str, Any]) -> Typed:
    """The program, typed anew: whatever its tables and labels say must fit together."""
    try:
        return _program(data)
    except FileFormatError:
        raise
    except (AttnforgeError, KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError) as error:
        raise FileFormatError("A stored program is one of its language", str(error)[:500], REMEDY) from error


def _program(data: Mapping[str, Any]) -> Typed:
    size, operations = data["max_length"], data["operations"]
    if type(size) is not int or not 1 <= size <= MOST_TOKENS:
        raise FileFormatError(f"A stored program takes 1 to {MOST_TOKENS:,} tokens", f"{size!r:.40}", REMEDY)
    if not isinstance(operations, list) or len(operations) > MOST_OPERATIONS:
        raise FileFormatError(f"A stored program lists at most {MOST_OPERATIONS:,} operations", "others", REMEDY)
    vocabulary = _labels(data["vocabulary"])
    made: list[Any] = []
    for each in operations:
        made.append(_node_from_data(each, made))
    program = _at(made, data["result"])
    return Typed(program, list(vocabulary), size)


def _labels(data: Any) -> Alphabet:
    """Listed labels, which are told apart."""
    if not isinstance(data, list):
        raise FileFormatError("Stored labels are a list", f"{data!r:.60}", REMEDY)
    found = Alphabet(label_from_data(each) for each in data)
    if len(found) != len(data):
        raise FileFormatError("Stored labels are told apart", f"{len(data) - len(found)} twice", REMEDY)
    return found


def _at(made: Sequence[Any], place: Any) -> Any:
    if type(place) is not int or not 0 <= place < len(made):
        raise FileFormatError("An operation reads those listed before it", f"{place!r:.40} of {len(made)}", REMEDY)
    return made[place]


def _node_from_data(data: Any, made: Sequence[Any]) -> Values:
    name = data["operation"]
    if name not in READERS:
        raise FileFormatError("A stored operation is one of the language", f"{name!r:.40}", REMEDY)
    node = READERS[name](data, [_at(made, place) for place in data.get("operands", [])], made)
    title = _checked(data.get("title", ""))
    if not isinstance(title, str) or not (title.isprintable() or not title):
        raise FileFormatError("A title is one line of text", f"{title!r:.60}", REMEDY)
    return node.named(title) if title else node


def _read_table(kind: type[LabelTable] | type[NumberTable]) -> Callable[..., Values]:
    def read(data: Data, operands: list[Any], _made: Sequence[Any]) -> Values:
        plain = len(operands) == 1 or (len(operands) == 2 and all(isinstance(each, Labels) for each in operands))
        if not plain or len(data["given"]) != len(operands) or not isinstance(data["results"], list):
            raise FileFormatError("A table has one or two arguments", f"{len(operands)}", REMEDY)
        reader = label_from_data if kind is LabelTable else number_from_data
        table = Table(tuple(map(_labels, data["given"])), tuple(map(reader, data["results"])))
        return kind(table, tuple(operands))

    return read


def _read_sum(data: Data, operands: list[Any], _made: Sequence[Any]) -> Values:
    factors = [number_from_data(each) for each in data["factors"]]
    return Combination(tuple(zip(factors, map(_number, operands), strict=True)), number_from_data(data["constant"]))


def _read_comparison(data: Data, operands: list[Any], _made: Sequence[Any]) -> Values:
    (number,) = map(_number, operands)
    return Comparison(number, _relation(data["relation"]), number_from_data(data["constant"]))


def _read_aggregate(data: Data, operands: list[Any], made: Sequence[Any]) -> Values:
    (values,) = operands
    return LabelAggregate(_read_selection(data, made), _label(values), label_from_data(data["default"]))


def _read_mean(data: Data, operands: list[Any], made: Sequence[Any]) -> Values:
    (values,) = operands
    return NumberAggregate(_read_selection(data, made), _number(values), number_from_data(data["default"]))


def _read_width(data: Data, _operands: list[Any], made: Sequence[Any]) -> Values:
    return Width(_read_selection(data, made))


def _read_rank(_data: Data, operands: list[Any], _made: Sequence[Any]) -> Values:
    (order,) = operands
    return Rank(_label(order))


READERS: dict[str, Callable[..., Values]] = {
    Tokens.word: lambda *_: Tokens(),
    Indices.word: lambda *_: Indices(),
    Positions.word: lambda *_: Positions(),
    LabelTable.word: _read_table(LabelTable),
    NumberTable.word: _read_table(NumberTable),
    Combination.word: _read_sum,
    Comparison.word: _read_comparison,
    LabelAggregate.word: _read_aggregate,
    NumberAggregate.word: _read_mean,
    Width.word: _read_width,
    Rank.word: _read_rank,
}


def _number(values: Any) -> Numbers:
    if not isinstance(values, Numbers):
        raise FileFormatError("A stored operation reads numbers here", f"{values!r:.40}", REMEDY)
    return values


def _label(values: Any) -> Labels:
    if not isinstance(values, Labels):
        raise FileFormatError("A stored operation reads labels here", f"{values!r:.40}", REMEDY)
    return values


def _relation(name: Any) -> str:
    if not isinstance(name, str) or name not in COMPARISONS:
        raise FileFormatError(f"A relation is one of {', '.join(COMPARISONS)}", f"{name!r:.40}", REMEDY)
    return name


def _read_selection(data: Data, made: Sequence[Any]) -> Selector:
    told = data["selection"]
    ranking = None if told["ranking"] is None else _number(_at(made, told["ranking"]))
    return Selector(tuple(_read_atom(each, made) for each in told["conditions"]), ranking)


def _read_atom(data: Data, made: Sequence[Any]) -> Atom:
    keys, queries = _at(made, data["keys"]), _at(made, data["queries"])
    if isinstance(keys, Labels) != isinstance(queries, Labels):
        raise FileFormatError("Labels are compared with labels, numbers with numbers", "both", REMEDY)
    if "relation" in data:
        relation = _relation(data["relation"])
        if relation != "==" and not isinstance(keys, Labels):
            raise FileFormatError("Numbers are compared by ==", relation, REMEDY)
        return Atom(keys, queries, relation, data.get("is_order", False) is True)
    if not isinstance(keys, Labels):
        raise FileFormatError("Numbers are compared by ==", "a table", REMEDY)
    return Atom(keys, queries, _read_met(data))


def _read_met(data: Data) -> Table:
    """A relation: for every label of a query, whether it holds of every key's."""
    given = _labels(data["given"])
    queries = _labels(data["given_queries"]) if "given_queries" in data else given
    rows = data["met"]
    plain = isinstance(rows, list) and len(rows) in (1, len(queries)) and len(given) * len(queries) <= MOST_PAIRS
    if not plain or not all(isinstance(row, str) and len(row) == len(given) and set(row) <= {"0", "1"} for row in rows):
        raise FileFormatError("A stored relation is a row of 0 and 1 for each label of a query", "others", REMEDY)
    met = np.array([[mark == "1" for mark in row] for row in rows], dtype=bool).reshape(len(rows), len(given))
    whole = np.broadcast_to(met, (len(queries), len(given)))
    return Table((given, queries), whole.T.reshape(-1))

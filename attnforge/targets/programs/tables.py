"""Functions of labels as data: a table for every function and relation that a user wrote.

A program that is compiled is tabulated first: the user's functions are called there, on all labels that may occur, and
never again. What is left holds no code: it can be written to a file, sent to another process, and proved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.errors import TargetError
from attnforge.targets.programs.alphabet import Alphabet
from attnforge.targets.programs.graph import in_order, rebuilt
from attnforge.targets.programs.language import (
    Atom,
    Labels,
    LabelTable,
    Numbers,
    NumberTable,
    Rank,
    Selector,
    Values,
)

Places = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Table:
    """A function of labels by its results, one for each combination of labels, those of the last argument run fastest.

    >>> Table((Alphabet("ab"), Alphabet([0, 1])), ("a0", "a1", "b0", "b1"))("b", 0)
    'b0'
    """

    arguments: tuple[Alphabet, ...]
    results: Sequence[Any] | npt.NDArray[np.bool_]

    def __post_init__(self) -> None:
        wanted = prod(map(len, self.arguments))
        if len(self.results) != wanted:
            got = f"{len(self.results):,} results for {wanted:,} combinations of labels"
            raise TargetError("A table has one result for each combination of labels", got, "Build it anew")

    def __call__(self, *given: Any) -> Any:
        """The result for these labels."""
        place = 0
        for labels, label in zip(self.arguments, given, strict=True):
            place = place * len(labels) + labels.place(label)
        return self.results[place]

    def rows(self, *given: Iterable[Any]) -> Any:
        """Of a table of two arguments the results for all pairs of these labels, as an array."""
        first, second = (_places(labels, each) for labels, each in zip(self.arguments, given, strict=True))
        whole = np.asarray(self.results).reshape(len(self.arguments[0]), len(self.arguments[1]))
        return whole[np.ix_(first, second)]


def _places(labels: Alphabet, given: Iterable[Any]) -> Places:
    return np.array([labels.place(label) for label in given], dtype=np.int64)


def tabulated(program: Values, typed: Any) -> Any:
    """The same program with a table for every function; ``typed`` knows its labels and has called the functions."""
    made: dict[Values, Any] = {}
    for node in in_order(program):
        made[node] = _rebuilt(node, made, typed)
    return made[program]


def _rebuilt(node: Values, made: dict[Values, Any], typed: Any) -> Values:
    match node:
        case LabelTable() | NumberTable():
            return rebuilt(replace(node, function=_table(node, typed)), made, lambda selector: selector)
        case Rank(order=order):
            return Rank(made[order], title=node.title)
        case _:
            return rebuilt(node, made, lambda selector: _selector(selector, made, typed))


def _table(node: LabelTable | NumberTable, typed: Any) -> Table:
    argument = node.arguments[0]
    if isinstance(argument, Numbers):
        found = tuple(_listed(typed.cells(node)))
        return Table((Alphabet(number for number, _ in found),), tuple(result for _, result in found))
    given = tuple(typed.labels(each) for each in node.arguments if isinstance(each, Labels))
    return Table(given, tuple(typed.outcomes(node)))


def _listed(cells: Iterable[Any]) -> Iterator[tuple[int, Any]]:
    """The integers of cells, with their results."""
    for cell in cells:
        for number in range(int(cell.lower), int(cell.upper) + 1):
            yield number, cell.result


def _selector(selector: Selector, made: dict[Values, Any], typed: Any) -> Selector:
    atoms = tuple(_atom(atom, made, typed) for atom in selector.atoms)
    return Selector(atoms, None if selector.ranking is None else made[selector.ranking])


def _atom(atom: Atom, made: dict[Values, Any], typed: Any) -> Atom:
    relation = atom.relation if isinstance(atom.relation, str) else _relation(atom, typed)
    return replace(atom, keys=made[atom.keys], queries=made[atom.queries], relation=relation)


def _relation(atom: Atom, typed: Any) -> Table:
    """The relation as a table of key and query."""
    keys, queries, answers = typed.answers(atom)
    return Table((keys, queries), answers.T.reshape(-1))

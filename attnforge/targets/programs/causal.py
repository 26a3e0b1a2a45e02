"""Programs as decoders run them: every selection is restricted to keys up to the query's position."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from attnforge.targets.programs.graph import in_order
from attnforge.targets.programs.language import (
    Combination,
    Comparison,
    LabelAggregate,
    Labels,
    LabelTable,
    NumberAggregate,
    Numbers,
    NumberTable,
    Rank,
    Selector,
    Square,
    Values,
    Width,
    upto,
)


def causal(program: Labels | Numbers) -> Labels | Numbers:
    """The same program with ``upto`` added to every selection; a rank becomes the sum of its two counts."""
    made: dict[Values, Any] = {}
    for node in in_order(program):
        made[node] = _rebuilt(node, made)
    found: Labels | Numbers = made[program]
    return found


def _rebuilt(node: Values, made: dict[Values, Any]) -> Values:
    match node:
        case LabelAggregate(selector, values) | NumberAggregate(selector, values):
            return replace(node, selector=_selector(selector, made), values=made[values])
        case Width(selector):
            return replace(node, selector=_selector(selector, made))
        case LabelTable(_, arguments) | NumberTable(_, arguments):
            return replace(node, arguments=tuple(made[each] for each in arguments))
        case Combination(terms):
            return replace(node, terms=tuple((factor, made[number]) for factor, number in terms))
        case Comparison(number) | Square(number):
            return replace(node, number=made[number])
        case Rank(smaller=smaller, ties=ties):
            total: Values = made[smaller] + made[ties]
            return total
        case _:
            return node


def _selector(selector: Selector, made: dict[Values, Any]) -> Selector:
    atoms = tuple(replace(atom, keys=made[atom.keys], queries=made[atom.queries]) for atom in selector.atoms)
    ranking = None if selector.ranking is None else made[selector.ranking]
    return Selector((*atoms, *upto.atoms), ranking)

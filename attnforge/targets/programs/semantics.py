r"""What a program means: its exact values on a sequence, in rational arithmetic.

For a query token q the selected keys are those k for which every condition holds of (value at k, value at q), and of
these, where the selection is ranked, those whose ranking is the largest. ``aggregate`` of numbers is their mean over
the selected keys, of labels the one that they share; without a selected key it is the default.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from attnforge.errors import TargetError
from attnforge.targets.programs.alphabet import Alphabet
from attnforge.targets.programs.graph import in_order
from attnforge.targets.programs.language import (
    COMPARISONS,
    Combination,
    Comparison,
    Indices,
    LabelAggregate,
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

Column = list[Any]


def evaluate(program: Values, sequence: Sequence[Any], *further: Values) -> dict[Values, Column]:
    """The values of every node of a program, and of ``further`` ones that are made from them.

    >>> from attnforge.targets.programs.language import select, selector_width, tokens
    >>> histogram = selector_width(select(tokens, tokens, "=="))
    >>> evaluate(histogram, "abca")[histogram]
    [2, 1, 1, 2]
    """
    found: dict[Values, Column] = {}
    for node in (each for root in (program, *further) for each in in_order(root)):
        if node not in found:
            values = _values(node, list(sequence), found)
            found[node] = [_whole(value) for value in values] if isinstance(node, Numbers) else values
    return found


def _values(node: Values, sequence: list[Any], known: dict[Values, Column]) -> Column:
    n = len(sequence)
    match node:
        case Tokens():
            return sequence
        case Indices() | Positions():
            return list(range(n))
        case LabelTable(function, arguments) | NumberTable(function, arguments):
            return [function(*each) for each in zip(*(known[argument] for argument in arguments), strict=True)]
        case Combination(terms, constant):
            return [constant + sum(a * known[number][i] for a, number in terms) for i in range(n)]
        case Comparison(number, relation, constant):
            return [COMPARISONS[relation](value, constant) for value in known[number]]
        case Square(number):
            return [value * value for value in known[number]]
        case Rank(smaller=smaller, ties=ties):
            return [a + b for a, b in zip(known[smaller], known[ties], strict=True)]
        case Width(selector):
            return [len(keys) for keys in selected(selector, known, n)]
        case NumberAggregate(selector, values, default):
            return [
                Fraction(sum(known[values][k] for k in keys)) / len(keys) if keys else default
                for keys in selected(selector, known, n)
            ]
        case LabelAggregate(selector, values, default):
            return [_shared(node, [known[values][k] for k in keys], default) for keys in selected(selector, known, n)]
        case _:
            raise TargetError("A program is made of the operations of its language", node.operation)


def _whole(value: Any) -> Any:
    """Fractions that are integers, as integers: what functions of numbers are given."""
    return int(value) if isinstance(value, Fraction) and value.denominator == 1 else value


def _shared(node: Values, labels: Column, default: Any) -> Any:
    found = Alphabet(labels)
    if len(found) > 1:
        raise TargetError(f"{node.operation}: selected tokens share one label", f"{len(found)} different ones")
    return found[0] if found else default


def selected(selector: Selector, known: dict[Values, Column], n: int) -> list[list[int]]:
    """For every query the selected keys, in order."""
    found = []
    for q in range(n):
        keys = list(range(n))
        for atom in selector.atoms:
            told, asked, holds = known[atom.keys], known[atom.queries][q], atom.holds
            keys = [k for k in keys if holds(told[k], asked)]
        if selector.ranking is not None and keys:
            best = max(known[selector.ranking][k] for k in keys)
            keys = [k for k in keys if known[selector.ranking][k] == best]
        found.append(keys)
    return found

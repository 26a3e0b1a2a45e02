"""Programs as decoders run them: every selection is restricted to keys up to the query's position."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from attnforge.targets.programs.graph import in_order, rebuilt
from attnforge.targets.programs.language import Labels, Numbers, Rank, Selector, Values, upto


def causal(program: Labels | Numbers) -> Labels | Numbers:
    """The same program with ``upto`` added to every selection; a rank becomes the sum of its two counts."""
    made: dict[Values, Any] = {}
    for node in in_order(program):
        made[node] = _rebuilt(node, made)
    found: Labels | Numbers = made[program]
    return found


def _rebuilt(node: Values, made: dict[Values, Any]) -> Values:
    if isinstance(node, Rank):
        total: Values = made[node.smaller] + made[node.ties]
        return total
    return rebuilt(node, made, lambda selector: _selector(selector, made))


def _selector(selector: Selector, made: dict[Values, Any]) -> Selector:
    atoms = tuple(replace(atom, keys=made[atom.keys], queries=made[atom.queries]) for atom in selector.atoms)
    ranking = None if selector.ranking is None else made[selector.ranking]
    return Selector((*atoms, *upto.atoms), ranking)

"""Sums in expressions: summands grouped by the inputs they depend on, or by the one form they depend on.

A set of inputs inside another one stays a term of its own: sin(20*x) + x*y needs many anchors along x alone, and few
in the plane. Affine summands join the term of their input if there is one; those left over are one form together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from flint import arb

from attnforge.expression.evaluate import evaluate
from attnforge.expression.linear import LinearForm
from attnforge.expression.simplify import ZERO, plus
from attnforge.expression.tree import Node, variables
from attnforge.targets.domain import Box
from attnforge.targets.structure.ridge import Direction, affine_part, direction_of, scaled_direction
from attnforge.targets.structure.term import Term, Values, constant_term, input_term, ridge_term
from attnforge.targets.target import AnyArray

Array = npt.NDArray[np.float64]


@dataclass(eq=False)
class _Group:
    """Summands that become one term, of some inputs or along one direction, with an affine function beside them."""

    inputs: tuple[int, ...]
    direction: Direction | None
    weights: Array
    offset: float = 0.0
    nodes: list[Node] = field(default_factory=list)


def expression_terms(tree: Node, names: tuple[str, ...], box: Box) -> tuple[Term, ...]:
    """Terms that add up to the expression on the box; a single one if it is not a sum.

    >>> from attnforge.expression import parse
    >>> cube = Box(-1, 1, shape=(3,))
    >>> terms = expression_terms(parse("sin(x) + 2*(cos(y - z) + x*y) - x - 3"), ("x", "y", "z"), cube)
    >>> [term.describe() for term in terms]
    ['x', 'y - z', 'x, y']
    """
    groups = _groups(tree, names, box)
    moving = [group for group in groups if group.inputs]
    still = [group for group in groups if not group.inputs]
    offset = sum(float(_values(group, names)(box.middle[None])[0, 0]) for group in still)
    if not moving:
        return (constant_term(offset, names),)
    moving[0].offset += offset
    return tuple(_term(group, names, box) for group in moving)


def _groups(tree: Node, names: tuple[str, ...], box: Box) -> list[_Group]:
    affine, others = affine_part(tree, names)
    groups: list[_Group] = []
    for node in others:
        inputs = _active(node, names, box)
        direction = direction_of(node, names, box) if len(inputs) > 1 else None
        _group_for(groups, inputs, direction, len(names)).nodes.append(node)
    if affine is not None:
        _place_affine(groups, affine, box)
    return groups


def _active(node: Node, names: tuple[str, ...], box: Box) -> tuple[int, ...]:
    """The inputs of an expression that can vary."""
    used = set(variables(node))
    return tuple(i for i, name in enumerate(names) if name in used and box.upper[i] > box.lower[i])


def _group_for(groups: list[_Group], inputs: tuple[int, ...], direction: Direction | None, axes: int) -> _Group:
    """The group of the same inputs or the same direction; a new one if there is none yet."""
    for group in groups:
        if direction is None and group.direction is None and group.inputs == inputs:
            return group
        if direction is not None and group.direction is not None and group.direction.is_parallel(direction):
            return group
    groups.append(_Group(inputs, direction, np.zeros(axes)))
    return groups[-1]


def _place_affine(groups: list[_Group], affine: LinearForm, box: Box) -> None:
    """Give every affine summand to the term of its input; the rest is one form; what cannot vary is a constant."""
    weights = np.array([float(weight) for weight in affine.weights])
    moving = scaled_direction(affine, box).entries_beyond_rounding()
    left = list[int]()
    for i in moving:
        own = next((group for group in groups if group.inputs == (i,)), None)
        if own is None:
            left.append(i)
        else:
            own.weights[i] = weights[i]
    if left:
        kept = LinearForm(tuple(w if i in left else arb(0) for i, w in enumerate(affine.weights)), arb(0))
        direction = scaled_direction(kept, box) if len(left) > 1 else None
        _group_for(groups, tuple(left), direction, len(weights)).weights[left] = weights[left]
    weights[moving] = 0.0
    groups.append(_Group((), None, weights, float(affine.offset)))


def _values(group: _Group, names: Sequence[str]) -> Values:
    """The summands of a group, from (N, D) points to (N, 1)."""
    tree = plus(*group.nodes) if group.nodes else ZERO

    def values(points: AnyArray) -> AnyArray:
        found = evaluate(tree, {name: points[:, i] for i, name in enumerate(names)})
        return np.asarray((found + points @ group.weights + group.offset)[:, None])

    return values


def _term(group: _Group, names: tuple[str, ...], box: Box) -> Term:
    values = _values(group, names)
    if group.direction is None:
        return input_term(values, box, names, group.inputs)
    return ridge_term(values, box, names, group.direction.weights(box))

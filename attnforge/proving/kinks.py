"""Where a formula has kinks: affine functions that vanish there, and places at which boxes are best cut."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt
from flint import arb

from attnforge.errors import TargetError
from attnforge.expression.linear import COEFFICIENT_BITS, LinearForm, linear_form
from attnforge.expression.simplify import minus, plus
from attnforge.expression.tree import Apply, Node, bottom_up
from attnforge.outward import lower, precision, upper

Array = npt.NDArray[np.float64]

AT_ZERO = ("abs", "relu", "sign", "step")  # functions with a kink or a jump where their argument vanishes
AT_TIES = ("min", "max", "clamp")  # and those where two of their arguments are equal
ROUND = 2.0**20  # numbers with so many binary places are cut at exactly
NARROW = 2.0**-40  # half the width of a slab, in that of the box
MOST = 8  # places an input: more boxes than these make are left to halving


def kink_cuts(tree: Node, names: Sequence[str], low: Array, high: Array) -> list[Array]:
    """For each input, the numbers at which to cut [low, high]: a kink, or the ends of a narrow slab around it.

    Middles and radii of boxes beside a round number are exact, so that these do not reach over it; others might.

    Only kinks whose place is a constant are listed: of functions with an affine argument that reads one input.

    >>> from attnforge.expression import parse
    >>> [cuts.tolist() for cuts in kink_cuts(parse("abs(2*x - 1) + y^2"), ("x", "y"), np.zeros(2), np.ones(2))]
    [[0.5], []]
    """
    found: list[set[float]] = [set() for _ in names]
    with precision(COEFFICIENT_BITS):
        for form in kink_forms(tree, names):
            moving = [i for i, weight in enumerate(form.weights) if not weight.is_zero()]
            if len(moving) == 1 and not form.weights[moving[0]].contains(0):
                place = -form.offset / form.weights[moving[0]]
                found[moving[0]] |= _around(place, float(high[moving[0]] - low[moving[0]]))
    inside = [sorted(at for at in cuts if a < at < b) for cuts, a, b in zip(found, low, high, strict=True)]
    return [np.array(cuts if len(cuts) <= MOST else [], dtype=np.float64) for cuts in inside]


def _around(place: arb, width: float) -> set[float]:
    near = float(place)
    if place == arb(near) and (near * ROUND).is_integer():
        return {near}
    return {lower(place - NARROW * width), upper(place + NARROW * width)}


def kink_forms(tree: Node, names: Sequence[str]) -> list[LinearForm]:
    """The affine functions at whose zeros the formula has kinks, as far as they are seen in its text."""
    arguments: list[Node] = []
    for node in bottom_up(tree):
        if isinstance(node, Apply) and node.function in AT_ZERO:
            arguments += node.arguments
        elif isinstance(node, Apply) and node.function == "where":
            arguments.append(plus(node.arguments[0], minus(node.arguments[1])))
        elif isinstance(node, Apply) and node.function in AT_TIES:
            arguments += [plus(one, minus(two)) for one, two in combinations(node.arguments, 2)]
    forms = [_linear(argument, names) for argument in arguments]
    return [form for form in forms if form is not None]


def _linear(node: Node, names: Sequence[str]) -> LinearForm | None:
    try:
        return linear_form(node, names)
    except TargetError:  # an empty clamp
        return None

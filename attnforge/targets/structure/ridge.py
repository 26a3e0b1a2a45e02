r"""Ridges in expressions: functions of one linear form, seen in the text.

Take the maximal affine subexpressions that vary; in a sum, the affine summands together are one of them. The
expression is a function of these. If their weights are multiples of one $w$, each is a function of $w \cdot x$, and so
is the expression. Weights are balls; two directions count as one if they agree to $10^{-15}$ in units of the box,
which is what float64 weights can say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from flint import arb

from attnforge.errors import TargetError
from attnforge.expression.linear import COEFFICIENT_BITS, LinearForm, linear_form
from attnforge.expression.simplify import plus
from attnforge.expression.tree import Apply, Node, Variable, children, variables, varies
from attnforge.outward import precision
from attnforge.targets.domain import Box
from attnforge.targets.structure.summands import summands

Array = npt.NDArray[np.float64]

ALIKE = 1e-15  # relative: below this, float64 weights cannot tell two directions apart


@dataclass(frozen=True, eq=False)
class Direction:
    """A direction as ball weights, one an input, in units of the box: $w_i$ times the width of side i."""

    scaled: tuple[arb, ...]

    def is_parallel(self, other: Direction) -> bool:
        """Whether both are multiples of each other: all minors with the largest entry vanish, to rounding."""
        pivot = self.pivot
        with precision(COEFFICIENT_BITS):
            a, b = self.scaled[pivot], other.scaled[pivot]
            limit = abs(a * b) * ALIKE
            pairs = zip(self.scaled, other.scaled, strict=True)
            return all(bool(abs(mine * b - its * a) <= limit) for mine, its in pairs)

    @property
    def pivot(self) -> int:
        """The entry that moves the form most."""
        return int(np.argmax([abs(float(entry)) for entry in self.scaled]))

    @property
    def is_zero(self) -> bool:
        """Whether the form is constant on the box."""
        return all(entry.contains(0) for entry in self.scaled)

    def entries_beyond_rounding(self) -> list[int]:
        """The inputs that move the form by more than rounding moves it."""
        with precision(COEFFICIENT_BITS):
            limit = abs(self.scaled[self.pivot]) * ALIKE
            return [i for i, entry in enumerate(self.scaled) if not (entry.contains(0) or abs(entry) <= limit)]

    def weights(self, box: Box) -> Array:
        """Float64 weights of the inputs, the largest of them one; entries that cannot be told from zero are zero."""
        moving = self.entries_beyond_rounding()
        with precision(COEFFICIENT_BITS):
            sides = enumerate(zip(self.scaled, _widths(box), strict=True))
            plain = [entry / width if i in moving else arb(0) for i, (entry, width) in sides]
            largest = plain[int(np.argmax([abs(float(entry)) for entry in plain]))]
            return np.array([float(entry / largest) for entry in plain])


def direction_of(node: Node, names: Sequence[str], box: Box) -> Direction | None:
    """The one direction along which the expression varies on the box, or None if there are none or several.

    >>> from attnforge.expression import parse
    >>> square = Box([0, 0], [1, 1])
    >>> direction_of(parse("exp(2*x - 3*y)/(1 + 3*y - 2*x)"), ("x", "y"), square).weights(square)
    array([-0.66666667,  1.        ])
    >>> direction_of(parse("x*y"), ("x", "y"), square) is None
    True
    """
    found: Direction | None = None
    seen: dict[int, Node] = {}  # holds the nodes, so that no id is used twice
    stack = [node]
    while stack:
        each = stack.pop()
        if id(each) in seen or not variables(each):
            continue
        seen[id(each)] = each
        affine, others = affine_part(each, names)
        stack.extend(child for other in others for child in children(other))
        direction = None if affine is None else scaled_direction(affine, box)
        if direction is None or direction.is_zero:
            continue
        if found is not None and not found.is_parallel(direction):
            return None
        found = found or direction
    return found


def affine_part(node: Node, names: Sequence[str]) -> tuple[LinearForm | None, list[Node]]:
    """The affine summands of an expression, added up, and the summands that are not affine."""
    whole = linear(node, names)
    if whole is not None:
        return whole, []
    parts = summands(node)
    affine = [part for part in parts if linear(part, names) is not None]
    rest = [part for part in parts if linear(part, names) is None]
    return (linear(plus(*affine), names) if affine else None), rest


def rewritten(node: Node, found: dict[str, Node]) -> Node:
    """The expression with a variable y[0], y[1], .. for each maximal affine part; ``found`` says which these are.

    >>> from attnforge.expression import parse, to_text
    >>> found: dict[str, Node] = {}
    >>> to_text(rewritten(parse("sin(x + 2*y)*z + y - 1"), found)), [to_text(part) for part in found.values()]
    ('y[0] + sin(y[1])*y[2]', ['-1 + y', 'x + 2*y', 'z'])
    """
    names = variables(node)
    if not names:
        return node
    parts = [node] if linear(node, names) is not None else summands(node)
    affine = [part for part in parts if linear(part, names) is not None]
    if any(varies(part) for part in affine):
        name = f"y[{len(found)}]"
        found[name] = plus(*affine)
        return plus(Variable(name), *(rewritten(part, found) for part in parts if part not in affine))
    if not isinstance(node, Apply):
        return node
    return Apply(node.function, tuple(rewritten(child, found) for child in node.arguments))


def scaled_direction(form: LinearForm, box: Box) -> Direction:
    """The direction of a form in units of the box; sides without width do not count."""
    with precision(COEFFICIENT_BITS):
        return Direction(tuple(w * s for w, s in zip(form.weights, _widths(box, empty=0.0), strict=True)))


def _widths(box: Box, empty: float = 1.0) -> list[arb]:
    """Exact widths of the sides, and a stand-in for sides without any."""
    pairs = zip(box.lower.tolist(), box.upper.tolist(), strict=True)
    return [arb(b) - arb(a) if b > a else arb(empty) for a, b in pairs]


def linear(node: Node, names: Sequence[str]) -> LinearForm | None:
    """The affine function an expression is; an empty clamp, an error there, is not one."""
    return _linear(node, tuple(names))


@lru_cache(maxsize=1024)
def _linear(node: Node, names: tuple[str, ...]) -> LinearForm | None:
    try:
        return linear_form(node, names)
    except TargetError:
        return None

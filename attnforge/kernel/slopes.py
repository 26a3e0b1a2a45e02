r"""What a function of a few forms does on boxes of them: its range, its slopes, and how far it moves where it has none.

Boxes are rows of arrays. Piecewise linear functions are bounded on all boxes at once by Taylor models
(:mod:`.formula`), others box by box, from endpoint to endpoint (:func:`attnforge.expression.evaluate.bounds`).

**Slopes.** If g is continuous on a box and its i-th partial derivative (of Clarke, at kinks) lies in $J_i$ there, then
$g(Y) - g(y) = \sum_i s_i (Y_i - y_i)$ with $s_i \in J_i$ for any two points of the box: one coordinate changes at a
time, which stays in the box.

**Moduli.** Where a slope is not bounded, as of a root at 0,
$$ |\sqrt a - \sqrt b| \le \sqrt{|a - b|}, \qquad |\arcsin a - \arcsin b| \le \tfrac\pi2\sqrt{2|a - b|}, \qquad
   |a^c - b^c| \le |a - b|^c \quad (0 < c < 1) : $$
the second as $\arccos(1 - t)/\sqrt{2t}$ rises from 1 at 0 to $\pi/2$ at 2, the third as $a^c$ is concave and 0 at 0.
Every part of a formula moves by the moduli or by the largest slopes of its function, on the ranges of its arguments
for any two points of the box. And no function moves by more than its range is wide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from flint import arb

from attnforge.expression.derivative import derivative
from attnforge.expression.evaluate import bounds, evaluate
from attnforge.expression.intervals import UNDEFINED, Interval, absolute, is_undefined
from attnforge.expression.tree import Apply, Constant, Node, Variable, bottom_up, fold, varies
from attnforge.kernel.degrees import degrees
from attnforge.kernel.formula import formula_models
from attnforge.kernel.models import Models
from attnforge.kernel.steps import ARCS, ROOTS, form_name
from attnforge.outward import lower as from_below
from attnforge.outward import precision, upper

Array = npt.NDArray[np.float64]

PIECES = {"+", "*", "-", "abs", "max", "min", "relu", "clamp", "sign", "step"}  # what models bound on all boxes at once
Part = tuple[Interval, arb]


def ranges(function: Node, low: Array, high: Array) -> tuple[Array, Array]:
    """Bounds (...) of a function of y[0], .. on boxes with ends (..., k); infinite where it has no value.

    >>> from attnforge.expression import parse
    >>> low, high = ranges(parse("y[0]^2"), np.array([[-1.0]]), np.array([[3.0]]))
    >>> low.tolist(), high.tolist()
    ([0.0], [9.0])
    """
    ends = low.reshape(-1, low.shape[-1]), high.reshape(-1, high.shape[-1])
    found = _at_once(function, *ends) if _is_piecewise(function) else _one_by_one(function, *ends)
    return found[0].reshape(low.shape[:-1]), found[1].reshape(low.shape[:-1])


def _is_piecewise(function: Node) -> bool:
    return all(not isinstance(node, Apply) or node.function in PIECES for node in bottom_up(function))


def _at_once(function: Node, low: Array, high: Array) -> tuple[Array, Array]:
    with np.errstate(all="ignore"):
        models = Models.variables(degrees(low.shape[1], 1), low, high)
        found = formula_models(function, {form_name(i): models[:, i] for i in range(low.shape[1])}).range()
        known = np.isfinite(found[0]) & np.isfinite(found[1])
    return np.where(known, found[0], -np.inf), np.where(known, found[1], np.inf)


def _one_by_one(function: Node, low: Array, high: Array) -> tuple[Array, Array]:
    rows, back = np.unique(np.stack([low, high]).reshape(2, len(low), -1), axis=1, return_inverse=True)
    with precision():
        found = [_ends(bounds(function, _box(*row))) for row in np.moveaxis(rows, 1, 0)]
    below, above = np.array(found).reshape(-1, 2)[back.ravel()].T
    return below, above


def _box(low: Array, high: Array) -> dict[str, Interval]:
    return {form_name(i): Interval(arb(a), arb(b)) for i, (a, b) in enumerate(zip(low, high, strict=True))}


def _ends(within: Interval) -> tuple[float, float]:
    if is_undefined(within) or not (within.lower.is_finite() and within.upper.is_finite()):
        return -np.inf, np.inf
    return from_below(within.lower), upper(within.upper)


@lru_cache
def partial(function: Node, name: str) -> Node:
    """The derivative by one form."""
    return derivative(function, name)


def slopes(function: Node, low: Array, high: Array) -> tuple[Array, Array]:
    """Bounds (..., k) of the slopes on boxes with ends (..., k); infinite where they or the function have none."""
    known = np.isfinite(ranges(function, low, high)[0])
    found = [ranges(partial(function, form_name(i)), low, high) for i in range(low.shape[-1])]
    below, above = (np.stack([each[end] for each in found], axis=-1) for end in (0, 1))
    return np.where(known[..., None], below, -np.inf), np.where(known[..., None], above, np.inf)


def moved(function: Node, low: Array, high: Array, off: Array) -> Array:
    """How far (N,) the function may move between two points of each box (N, k) that are ``off`` (N, k) apart."""
    with precision():
        return np.array([_moved(function, *row) for row in zip(low, high, off, strict=True)])


def _moved(function: Node, low: Array, high: Array, off: Array) -> float:
    box = _box(low, high)
    apart = {form_name(i): arb(each) for i, each in enumerate(off.tolist())}

    def visit(node: Node, parts: Sequence[Part]) -> Part:
        if isinstance(node, Variable):
            return box[node.name], apart[node.name]
        return _carried(node, parts) if isinstance(node, Apply) else (bounds(node, {}), arb(0))

    within, most = fold(function, visit)
    ends = _ends(within)
    return min(upper(most), float(np.nextafter(ends[1] - ends[0], np.inf)))


def _carried(node: Apply, parts: Sequence[Part]) -> Part:
    """A function of parts with these ranges that are so far apart."""
    inside = {form_name(i): part[0] for i, part in enumerate(parts)}
    plain = Apply(node.function, tuple(map(Variable, inside)))
    if len(parts) == 2 and not varies(node.arguments[1]):
        plain = Apply(node.function, (plain.arguments[0], node.arguments[1]))
    undefined = any(is_undefined(each) for each in inside.values())
    within = UNDEFINED if undefined else bounds(plain, inside)
    modulus = _modulus(node)
    if modulus is not None and not is_undefined(within):
        by_slopes = _by_slopes(plain, inside, parts)
        return within, modulus(parts[0][1]).upper() if by_slopes is None else by_slopes
    found = None if is_undefined(within) else _by_slopes(plain, inside, parts)
    return within, arb.pos_inf() if found is None else found


def _by_slopes(plain: Apply, inside: dict[str, Interval], parts: Sequence[Part]) -> arb | None:
    total = arb(0)
    for (name, _), (_, apart) in zip(inside.items(), parts, strict=True):
        slope = bounds(partial(plain, name), inside)
        if apart.is_zero():
            continue
        if is_undefined(slope) or not absolute(slope).upper.is_finite():
            return None
        total = (total + absolute(slope).upper * apart).upper()
    return total


def _modulus(node: Apply) -> Callable[[arb], arb] | None:
    if node.function in ROOTS:
        return lambda t: t.sqrt()
    if node.function in ARCS:
        return lambda t: arb.pi() / 2 * (2 * t).sqrt()
    power = node.arguments[1] if node.function == "^" else None
    if isinstance(power, Constant) and 0 < power.value < 1:
        exponent = arb(power.value)
        return lambda t: _power(t, exponent)
    if power is not None and not varies(power) and 0 < float(evaluate(power, {})) < 1:
        within = bounds(power, {})
        exponent = within.lower.union(within.upper)
        return lambda t: _power(t, exponent)
    return None


def _power(base: arb, exponent: arb) -> arb:
    return arb(0) if base.is_zero() else base**exponent

r"""A formula as Taylor models on cells: sums and products of models, and functions of one argument composed with them.

With $u = u_0 + v$ and $|v| \le V$ on a cell, $g(u) = \sum_{j \le K} g_j v^j + R$, $|R| \le |G| V^{K+1}$: $g_j$ are
Taylor coefficients at $u_0$, G encloses those of degree K + 1 over all of $u_0 \pm V$.

The coefficients come from python-flint's power series, the same rules as in one variable. Where that leaves out more
than the range of g on the ball, which is the first of them, the range is taken.

Kinks have a chord: with $w = u - v$ between l and h, and any $\lambda \in [0, 1]$,
$$ 0 \le \max(u, v) - (\lambda u + (1 - \lambda) v) = \max(w, 0) - \lambda w
   \le \max(-\lambda l, (1 - \lambda) h, 0) , $$
which is smallest for $\lambda = h/(h - l)$ if w changes its sign. Of constants that are known within a radius it is
the larger of the ends. Where there is no model at all, the range is one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
from flint import arb, arb_series, ctx

from attnforge.errors import CertificateError
from attnforge.expression import series
from attnforge.expression.evaluate import bounds
from attnforge.expression.functions import function_of, is_joined
from attnforge.expression.intervals import Interval
from attnforge.expression.series import NotSmoothError
from attnforge.expression.tree import Apply, Constant, Node, Variable, fold
from attnforge.kernel.models import Models
from attnforge.outward import Up, precision
from attnforge.outward.arrays import TINY, UNIT

Array = npt.NDArray[np.float64]
Univariate = Callable[[arb_series], arb_series]

BITS = 128  # of balls: more than the two float64 numbers that come of them hold
LARGEST_POWER = 64  # whole exponents up to here by multiplication
LARGE = 2.0**500  # numbers up to here, and one over them, are factors whose roundings are relative
SHORT = 2.0**20  # slopes of chords are multiples of one over it


def formula_models(tree: Node, inputs: Mapping[str, Models]) -> Models:
    """Models (C,) of the formula, its inputs being models (C,).

    >>> from attnforge.kernel.degrees import degrees
    >>> from attnforge.expression.parse import parse
    >>> x = Models(degrees(1, 2), np.array([[1.0], [0.5], [0.0]]), Up.zeros(1))
    >>> formula_models(parse("x^2"), {"x": x}).c.ravel().tolist()  # (1 + t/2)^2
    [1.0, 1.0, 0.25]
    """
    some = next(iter(inputs.values()))

    def visit(node: Node, arguments: Sequence[Models]) -> Models:
        if isinstance(node, Constant):
            return Models.constant(some.table, np.full(some.shape, float(node.value)))
        if isinstance(node, Variable) and node.name not in inputs:
            raise CertificateError(f"The formula reads {', '.join(inputs)}", f"`{node.name}`", "Name all its inputs")
        return inputs[node.name] if isinstance(node, Variable) else _apply(node, arguments, some)

    with np.errstate(all="ignore"), precision(BITS):
        found = fold(tree, visit)
        for cell in np.flatnonzero(~np.isfinite(found.size().values)).tolist():
            ends = {name: Interval(*(arb(end[cell]) for end in x.range())) for name, x in inputs.items()}
            found = _ranged(found, cell, bounds(tree, ends))
    return found


def _ranged(found: Models, cell: int, span: Interval) -> Models:
    """With the range on one cell."""
    middle, radius = numbers(span.lower.union(span.upper))
    c, rest = found.c.copy(), found.rest.values.copy()
    c[:, cell], rest[cell] = 0.0, radius if np.isfinite(middle) and np.isfinite(radius) else np.inf
    c[0, cell] = middle if np.isfinite(rest[cell]) else 0.0
    return Models(found.table, c, Up(rest))


def _apply(node: Apply, arguments: Sequence[Models], some: Models) -> Models:
    """One function of the table."""
    if node.function == "^":
        return _power(node, *arguments)
    if node.function == "where":
        return _chosen(node, *arguments)
    number = node.arguments[-1 if node.function == "/" else 0] if node.function in ("*", "/") else None
    if isinstance(number, Constant) and 1 / LARGE <= abs(number.value) <= LARGE:
        return _multiple(node, float(number.value), arguments)
    if node.function in _RULES:
        found: Models = _RULES[node.function](*arguments)
        return found
    rule = function_of(node).series
    if len(arguments) > 1:
        raise CertificateError("Models know the functions of several arguments by name", node.function)
    if arguments:
        return _composed(rule, arguments[0])
    hi, lo, radius = (np.full(some.shape, part) for part in pair(rule()[0]))
    return Models.constant(some.table, hi, lo).wider(radius)


def _composed(rule: Univariate, u: Models) -> Models:
    degree, swing = u.table.degree, u.swing()
    at = coefficients(rule, u.c[0], np.zeros(u.shape), range(degree + 1))
    over = coefficients(rule, u.c[0], swing.values, (0, degree + 1))
    rest = u.less(u.c[0])
    found = Models.constant(u.table, at.hi[degree], at.lo[degree]).wider(at.radius[degree])
    for j in range(degree - 1, -1, -1):
        found = (found * rest).less(-at.hi[j], -at.lo[j]).wider(at.radius[j])
    found = found.wider((Up.of(over.hi[1]) + over.lo[1] + over.radius[1]) * swing ** (degree + 1))
    reach = (Up.of(over.lo[0]) + over.radius[0]).values
    has_values = np.asarray(~np.isnan(over.hi).any(axis=0))
    low, high = np.nextafter(over.hi[0] - reach, -np.inf), np.nextafter(over.hi[0] + reach, np.inf)
    return _within(found, low, high).only(has_values)


def _within(found: Models, low: Array, high: Array) -> Models:
    """Models, or where these leave out more the ranges, that are known to a rounding."""
    return found.between(np.nextafter(low, -np.inf), np.nextafter(high, np.inf), found.remainder)


@dataclass(frozen=True, eq=False)
class Coefficients:
    """Numbers (orders, cells) within ``radius`` of hi + lo; NaN where there are none."""

    hi: Array
    lo: Array
    radius: Array


def coefficients(rule: Univariate, mid: Array, rad: Array, orders: Sequence[int]) -> Coefficients:
    """Some Taylor coefficients (orders, cells) of a function of one argument, over balls."""
    points, back = np.unique(np.stack([mid, rad]), axis=1, return_inverse=True)
    before, found = ctx.cap, np.full((len(orders), points.shape[1], 3), np.nan)
    ctx.cap = orders[-1] + 1
    try:
        for i, (middle, radius) in enumerate(points.T.tolist()):
            if not (np.isfinite(middle) and np.isfinite(radius)):
                continue
            try:
                expansion = rule(arb_series([arb(middle, radius), 1]))
            except NotSmoothError:
                continue
            found[:, i] = [pair(expansion[j]) for j in orders]
    finally:
        ctx.cap = before
    return Coefficients(*np.moveaxis(found[:, back.ravel()], -1, 0))


def pair(value: arb) -> tuple[float, float, float]:
    """Two float64 numbers whose sum is about a ball's middle, and a radius around them that holds it."""
    hi = float(value.mid())
    left = value - arb(hi)
    lo = float(left.mid())
    beyond = (left - arb(lo)).abs_upper()
    return hi, lo, 0.0 if beyond == 0 else float(np.nextafter(float(beyond), np.inf))


def numbers(value: arb) -> tuple[float, float]:
    """Midpoint and radius in float64: the midpoint is rounded to nearest, the radius has 30 bits."""
    mid, rad = float(value.mid()), float(value.rad())
    return mid, (rad + 2 * UNIT * abs(mid) + TINY) * (1 + 2.0**-40) if mid or rad else 0.0


def _power(node: Apply, base: Models, exponent: Models) -> Models:
    """Whole exponents by multiplication, constant ones by their series, others as exp(v log u)."""
    written = node.arguments[1]
    sign = 1.0
    if isinstance(written, Apply) and written.function == "-":
        written, sign = written.arguments[0], -1.0
    if not isinstance(written, Constant):
        return (exponent * _composed(series.logarithm, base)).exp()
    value = sign * float(written.value)
    if value.is_integer() and 0 < value <= LARGEST_POWER:
        return _whole_power(base, int(value))
    return _composed(lambda u: series.power(u, arb_series([arb(value)])), base)


def _whole_power(base: Models, exponent: int) -> Models:
    half = base if exponent < 2 else _whole_power(base, exponent // 2)
    if exponent < 2:
        return half
    squared = half * half
    return squared * base if exponent % 2 else squared


def _multiple(node: Apply, number: float, arguments: Sequence[Models]) -> Models:
    """By a number: as it is, or as one over it, to as many bits as balls have."""
    if node.function == "*":
        return reduce(Models.__mul__, arguments[1:]).scaled(np.full(arguments[0].shape, number))
    hi, lo, radius = (np.full(arguments[0].shape, part) for part in pair(1 / arb(number)))
    return arguments[0].scaled(hi, lo).wider(arguments[0].size() * radius)


def _divide(above: Models, below: Models) -> Models:
    """By what is of one sign; unknown where it may vanish."""
    low, high = below.range()
    sign = np.where(low > 0, 1.0, -1.0)
    least, most = np.sort(np.abs([low, high]), axis=0)
    least = np.where((low > 0) | (high < 0), least, np.nan)
    found = above.scaled(sign).over(below.scaled(sign), least)
    ends = [sign * end / by for end in above.range() for by in (least, most)]
    return _within(found, np.min(ends, axis=0), np.max(ends, axis=0))


def _chosen(node: Apply, u: Models, v: Models, a: Models, b: Models) -> Models:
    """A branch where the cell lies on its side; it may touch the border if the branches are known to meet there."""
    low, high = (v - u).range()
    first = low >= 0 if is_joined(node) else low > 0
    return b.where(high <= 0, a).only(first | (high <= 0))


def _length(*arguments: Models) -> Models:
    return _composed(series.square_root, reduce(Models.__add__, (u * u for u in arguments)))


def _angle(y: Models, x: Models) -> Models:
    """By the arctangent of y/x to the right of the cut, of x/y above and below it and where that is smaller."""
    (low, high), right = y.range(), x.range()[0]
    hi, lo, radius = pair(arb.pi() / 2)
    sign = np.where(low > 0, 1.0, -1.0)
    quarter = Models.constant(y.table, sign * hi, sign * lo).wider(radius)
    beside = quarter - _composed(arb_series.atan, _divide(x, y))
    aside = (low > 0) | (high < 0)
    ahead = (right > 0) & ~(aside & (np.abs(y.c[0]) > x.c[0]))
    return _composed(arb_series.atan, _divide(y, x)).where(ahead, beside).only(ahead | aside)


def _larger(u: Models, v: Models) -> Models:
    """By the chord; its slope is a short number, so that both shares are exact. Of what is flat, by its ends."""
    low, high = (u - v).range()
    slope = np.clip(np.nan_to_num(high / (high - low), nan=0.5), 0.0, 1.0)
    share = np.where(low >= 0, 1.0, np.where(high <= 0, 0.0, np.round(slope * SHORT) / SHORT))
    most = (Up.of(np.minimum(low, 0.0)) * share).larger(Up.of(np.maximum(high, 0.0)) * (1 - share)) * 0.5
    found = (u.scaled(share) + v.scaled(1 - share)).less(-most.values).wider(most)
    flat = ~(u.c[1:].any(axis=0) | v.c[1:].any(axis=0))
    below, above = (np.maximum(*ends) for ends in zip(u.range(), v.range(), strict=True))
    return found.between(below, above, Up(np.where(flat, np.inf, 0.0)))


def _jump(u: Models, left: float, at: float, right: float) -> Models:
    """The constant of the side on which u is, or what lies between both; unknown where u is."""
    low, high = u.range()
    decided = [low > 0, high < 0, (low == 0) & (high == 0)]
    found = Models.constant(u.table, np.select(decided, [right, left, at], (left + right) / 2))
    found = found.wider(np.where(np.any(decided, axis=0), 0.0, (right - left) / 2))
    return found.only(np.isfinite(u.size().values))


def _level(u: Models, value: float) -> Models:
    return Models.constant(u.table, np.full(u.shape, value))


def _smaller(u: Models, v: Models) -> Models:
    return -_larger(-u, -v)


_RULES: dict[str, Any] = {
    "+": lambda *terms: reduce(Models.__add__, terms),
    "*": lambda *factors: reduce(Models.__mul__, factors),
    "-": Models.__neg__,
    "/": _divide,
    "exp": Models.exp,
    "abs": lambda u: _larger(u, -u),
    "max": lambda *each: reduce(_larger, each),
    "min": lambda *each: reduce(_smaller, each),
    "relu": lambda u: _larger(u, _level(u, 0.0)),
    "clamp": lambda u, a, b: _smaller(_larger(u, a), b),
    "sign": lambda u: _jump(u, -1.0, 0.0, 1.0),
    "step": lambda u: _jump(u, 0.0, 0.5, 1.0),
    "hypot": _length,
    "unit": lambda u, *others: _divide(u, _length(u, *others)),
    "atan2": _angle,
}

r"""A formula as jets: its Taylor coefficients in several variables, enclosed on many cells at once.

Sums and products are those of jets. A function g of one argument u is composed: its own Taylor coefficients
$g^{(j)}(u_0)/j!$ at u's constant term come from python-flint's power series, the same rules as in one variable, and
Horner's scheme in $u - u_0$ does the rest. Functions with kinks have a jet on the cells that decide their side; the
others are left unknown (NaN).

Every quantity has twice as many columns as there are cells: its jets at the middles, then its jets over the cells. It
is the cell that decides on the side of a kink, for both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
from flint import arb, arb_series, ctx

from attnforge.balls import Balls, precision
from attnforge.balls.arrays import TINY, UNIT
from attnforge.certification.enclosure.jets import Jets, degrees, exp, reciprocal
from attnforge.errors import CertificateError
from attnforge.targets.expression import series
from attnforge.targets.expression.functions import function_of, is_joined
from attnforge.targets.expression.series import NotSmoothError
from attnforge.targets.expression.tree import Apply, Constant, Node, Variable, fold

Array = npt.NDArray[np.float64]
Univariate = Callable[[arb_series], arb_series]

BITS = 80
LARGEST_POWER = 64  # whole exponents up to here by multiplication


def formula_jets(tree: Node, names: Sequence[str], middle: Array, radius: Array, degree: int) -> tuple[Jets, Jets]:
    """Taylor coefficients at the middles (cells, inputs), and at all points within ``radius`` of them.

    >>> from attnforge.targets.expression.parse import parse
    >>> at, over = formula_jets(parse("x*y"), ("x", "y"), np.array([[2.0, 3.0]]), np.array([[0.5, 0.5]]), 2)
    >>> at.mid.ravel().tolist()  # 6 + 2 t_y + 3 t_x + t_x t_y
    [6.0, 2.0, 3.0, 0.0, 1.0, 0.0]
    >>> bool(over.mid[0, 0] - over.rad[0, 0] <= 1.5 * 2.5)
    True
    """
    table, cells = degrees(len(names), degree), len(middle)
    mids, rads = np.concatenate([middle, middle]).T.copy(), np.concatenate([np.zeros_like(radius), radius]).T.copy()
    variables = {name: Jets.variable(table, i, mids[i], rads[i]) for i, name in enumerate(names)}

    def constant(mid: float, rad: float) -> Jets:
        return Jets.constant(table, np.full(2 * cells, mid), np.full(2 * cells, rad))

    def visit(node: Node, arguments: Sequence[Jets]) -> Jets:
        if isinstance(node, Constant):
            return constant(float(node.value), 0.0)
        if isinstance(node, Variable):
            if node.name not in variables:
                raise CertificateError(f"The formula reads {', '.join(names)}", f"`{node.name}`", "Name all its inputs")
            return variables[node.name]
        return _apply(node, arguments, constant)

    with np.errstate(all="ignore"), precision(BITS):
        found = fold(tree, visit)
    return (
        Jets(table, found.mid[:, :cells], found.rad[:, :cells]),
        Jets(table, found.mid[:, cells:], found.rad[:, cells:]),
    )


def _apply(node: Apply, arguments: Sequence[Jets], constant: Callable[[float, float], Jets]) -> Jets:
    """One function of the table."""
    if node.function == "^":
        return _power(node, *arguments)
    if node.function == "where":
        return _chosen(node, *arguments)
    if node.function in _RULES:
        found: Jets = _RULES[node.function](*arguments)
        return found
    rule = function_of(node).series
    if not arguments:
        mid, rad = _numbers(rule()[0])
        return constant(mid, rad)
    if len(arguments) > 1:
        raise CertificateError("Jets know the functions of several arguments by name", node.function)
    return _composed(rule, arguments[0])


def _composed(rule: Univariate, u: Jets) -> Jets:
    return u.compose(_coefficients(rule, u.mid[0], u.rad[0], u.table.degree))


def _coefficients(rule: Univariate, mid: Array, rad: Array, degree: int) -> Balls:
    """Taylor coefficients (degree + 1, cells) of a function of one argument; NaN where it has none."""
    points, back = np.unique(np.stack([mid, rad]), axis=1, return_inverse=True)
    before, found = ctx.cap, np.full((degree + 1, points.shape[1], 2), np.nan)
    ctx.cap = degree + 1
    try:
        for i, (middle, radius) in enumerate(points.T):
            if not (np.isfinite(middle) and np.isfinite(radius)):
                continue
            try:
                expansion = rule(arb_series([arb(middle, radius), 1]))
            except NotSmoothError:
                continue
            found[:, i] = [_numbers(expansion[j]) for j in range(degree + 1)]
    finally:
        ctx.cap = before
    chosen = found[:, back.ravel()]
    return Balls(chosen[..., 0], chosen[..., 1])


def _numbers(value: arb) -> tuple[float, float]:
    """Midpoint and radius in float64: the midpoint is rounded to nearest, the radius has 30 bits."""
    mid, rad = float(value.mid()), float(value.rad())
    return mid, (rad + 2 * UNIT * abs(mid) + TINY) * (1 + 2.0**-40) if mid or rad else 0.0


def _power(node: Apply, base: Jets, exponent: Jets) -> Jets:
    """Whole exponents by multiplication, constant ones by their series, others as exp(v log u)."""
    written = node.arguments[1]
    sign = 1.0
    if isinstance(written, Apply) and written.function == "-":
        written, sign = written.arguments[0], -1.0
    if not isinstance(written, Constant):
        return exp(exponent * _composed(series.logarithm, base))
    value = sign * float(written.value)
    if value.is_integer() and 0 < value <= LARGEST_POWER:
        return _whole_power(base, int(value))
    return _composed(lambda u: series.power(u, arb_series([arb(value)])), base)


def _whole_power(base: Jets, exponent: int) -> Jets:
    half = base if exponent < 2 else _whole_power(base, exponent // 2)
    if exponent < 2:
        return half
    squared = half * half
    return squared * base if exponent % 2 else squared


def _divide(above: Jets, below: Jets) -> Jets:
    return above * reciprocal(below)


def _choose(test: tuple[Array, Array], if_positive: Jets, otherwise: Jets) -> Jets:
    """One jet on the cells where ``test`` is positive, the other where it is negative, nothing known elsewhere.

    Both agree where the test is zero, so that cells may touch the zero set.
    """
    mid, rad = test
    return if_positive.where(np.tile(mid >= rad, 2), otherwise).only(np.tile(np.abs(mid) >= rad, 2))


def _jump(test: Jets, left: float, at: float, right: float) -> Jets:
    """The constant of the side on which a cell lies, or ``at`` where the test is zero on all of it; else unknown."""
    mid, rad = _over_cells(test)
    level = np.select([mid > rad, mid < -rad, (mid == 0) & (rad == 0)], [right, left, at], np.nan)
    return Jets.constant(test.table, np.tile(level, 2), np.zeros(2 * len(level))).only(np.tile(~np.isnan(level), 2))


def _over_cells(test: Jets) -> tuple[Array, Array]:
    """The ranges over the cells, midpoints and radii."""
    cells = test.mid.shape[1] // 2
    return test.mid[0, cells:], test.rad[0, cells:]


def _chosen(node: Apply, u: Jets, v: Jets, a: Jets, b: Jets) -> Jets:
    """A branch where the cell lies on its side; it may touch the border if the branches are known to meet there."""
    mid, rad = _gap(v, u)
    first = mid >= rad if is_joined(node) else mid > rad
    second = mid <= -rad
    return b.where(np.tile(second, 2), a).only(np.tile(first | second, 2))


def _length(*arguments: Jets) -> Jets:
    return _composed(series.square_root, reduce(Jets.__add__, (u * u for u in arguments)))


def _angle(y: Jets, x: Jets) -> Jets:
    """By the arctangent of y/x to the right of the cut, of x/y above and below it and where that is smaller."""
    (above, width), (right, breadth) = _over_cells(y), _over_cells(x)
    mid, rad = _numbers(arb.pi() / 2)
    side = np.tile(np.sign(above), 2)
    quarter = Jets.constant(y.table, mid * side, np.full(len(side), rad))
    beside = quarter - _composed(arb_series.atan, _divide(x, y))
    aside = np.abs(above) > width
    ahead = (right > breadth) & ~(aside & (np.abs(above) > right))
    return _composed(arb_series.atan, _divide(y, x)).where(np.tile(ahead, 2), beside).only(np.tile(ahead | aside, 2))


def _gap(u: Jets, v: Jets) -> tuple[Array, Array]:
    """The range of u - v over the cells, exact where the difference of the middles is (Knuth's test)."""
    (a, r), (b, s) = _over_cells(u), _over_cells(v)
    mid = a - b
    back = mid - a
    lost = np.abs((a - (mid - back)) - (b + back))
    exact = (lost == 0) & ((r == 0) | (s == 0))
    return mid, np.where(exact, r + s, (r + s + lost) * (1 + 4 * UNIT) + TINY)


def _level(u: Jets, value: float) -> Jets:
    return Jets.constant(u.table, np.full(u.mid.shape[1], value), np.zeros(u.mid.shape[1]))


def _larger(u: Jets, v: Jets) -> Jets:
    return _choose(_gap(u, v), u, v)


def _smaller(u: Jets, v: Jets) -> Jets:
    return _choose(_gap(u, v), v, u)


_RULES: dict[str, Any] = {
    "+": lambda *terms: reduce(Jets.__add__, terms),
    "*": lambda *factors: reduce(Jets.__mul__, factors),
    "-": Jets.__neg__,
    "/": _divide,
    "exp": exp,
    "abs": lambda u: _choose(_over_cells(u), u, -u),
    "max": lambda *each: reduce(_larger, each),
    "min": lambda *each: reduce(_smaller, each),
    "relu": lambda u: _choose(_over_cells(u), u, _level(u, 0.0)),
    "clamp": lambda u, a, b: _smaller(_larger(u, a), b),
    "sign": lambda u: _jump(u, -1.0, 0.0, 1.0),
    "step": lambda u: _jump(u, 0.0, 0.5, 1.0),
    "hypot": _length,
    "unit": lambda u, *others: _divide(u, _length(u, *others)),
    "atan2": _angle,
}

r"""Intervals with exact endpoints: the arithmetic behind `enclose`.

An interval is a pair of exact ``arb`` points, each operation computes its endpoints as balls and keeps the outer ends.
Balls alone would not do: the radius of an ``arb`` is rounded up to 30 bits, so the ball around $[0, 1]$ reaches below
zero and its square root does not exist. Nothing here relies on the working precision for correctness, only for
tightness, because ``flint.ctx.prec`` belongs to the whole process.

Where a function is not defined on the whole interval, or unbounded there, the result is `UNDEFINED`. Functions below
are never given an undefined interval (the caller passes it on), and may return NaN endpoints to say "undefined".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import NamedTuple

from flint import arb

MAX_INTEGER_EXPONENT = 2**16  # beyond, exp(y log x) is used: a larger integer might not fit in memory
MAX_TANGENT = 2**60  # beyond, branches are not told apart: their number might not fit in memory


class Interval(NamedTuple):
    """All reals from ``lower`` to ``upper``, both exact points."""

    lower: arb
    upper: arb


UNDEFINED = Interval(arb.nan(), arb.nan())
INFINITY = arb.pos_inf()

Unary = Callable[[Interval], Interval]
Point = Callable[[arb], arb]


def from_ball(ball: arb) -> Interval:
    """The interval of a ball."""
    return Interval(ball.lower(), ball.upper())


def to_ball(interval: Interval) -> arb:
    """A ball that contains the interval; it stays on the same side of zero as the interval does.

    >>> bool(to_ball(Interval(arb(0), arb(1))).lower() == 0)
    True
    """
    lower, upper = interval
    if is_undefined(interval):
        return arb.nan()
    if lower == upper:
        return lower
    ball = lower.union(upper)
    if lower >= 0 and ball.lower() < 0:
        return _touching_zero(ball)
    if upper <= 0 and ball.upper() > 0:
        return -_touching_zero(-ball)
    return ball


def is_undefined(interval: Interval) -> bool:
    """Whether an endpoint is NaN."""
    return bool(interval.lower.is_nan() or interval.upper.is_nan())


def hull(*values: arb) -> Interval:
    """The smallest interval that contains the balls given (NaN if one is NaN)."""
    return Interval(_least(*(value.lower() for value in values)), _greatest(*(value.upper() for value in values)))


def add(*terms: Interval) -> Interval:
    """The sum of intervals."""
    return Interval(
        sum((term.lower for term in terms), arb(0)).lower(), sum((term.upper for term in terms), arb(0)).upper()
    )


def negative(u: Interval) -> Interval:
    """The interval mirrored at zero."""
    return Interval((-u.upper).lower(), (-u.lower).upper())


def multiply(*factors: Interval) -> Interval:
    """The product: its extremes are products of endpoints."""
    return reduce(_multiply_two, factors)


def divide(u: Interval, v: Interval) -> Interval:
    """The quotient; undefined when the divisor may be zero."""
    if v.lower <= 0 <= v.upper:
        return UNDEFINED
    return hull(*(above / below for above in u for below in v))


def power(u: Interval, v: Interval) -> Interval:
    r"""$u^v$: for an integer exponent on all reals, otherwise for $u > 0$, or $u \ge 0$ with $v > 0$.

    $x^y$ is monotone in $x$ for fixed $y$ and in $y$ for fixed $x$, so the extremes sit at corners of $u \times v$.
    """
    n = _integer(v)
    if n is not None:
        return _integer_power(u, n)
    if u.lower < 0 or (u.lower == 0 and v.lower <= 0):
        return UNDEFINED
    return hull(*(base**exponent if base > 0 else arb(0) for base in u for exponent in v))


def smallest(*arguments: Interval) -> Interval:
    """The minimum, endpoint by endpoint."""
    return Interval(_least(*(u.lower for u in arguments)), _least(*(u.upper for u in arguments)))


def largest(*arguments: Interval) -> Interval:
    """The maximum, endpoint by endpoint."""
    return Interval(_greatest(*(u.lower for u in arguments)), _greatest(*(u.upper for u in arguments)))


def clamp(u: Interval, a: Interval, b: Interval) -> Interval:
    """``min(max(u, a), b)``."""
    return smallest(largest(u, a), b)


def absolute(u: Interval) -> Interval:
    """The absolute value."""
    lower, upper = largest(u, negative(u))
    return Interval(arb(0) if u.lower <= 0 <= u.upper else lower, upper)


def relu(u: Interval) -> Interval:
    """``max(u, 0)``."""
    return largest(u, Interval(arb(0), arb(0)))


def sign(u: Interval) -> Interval:
    """The sign; [-1, 1] as soon as the interval contains 0: that encloses the Clarke derivative of abs as well."""
    return Interval(arb(1 if u.lower > 0 else -1), arb(-1 if u.upper < 0 else 1))


def step(u: Interval) -> Interval:
    """The derivative of relu: 0 to the left, 1 to the right, and [0, 1] as soon as the interval contains 0."""
    return Interval(arb(1 if u.lower > 0 else 0), arb(0 if u.upper < 0 else 1))


def increasing(function: Point, lowest: arb = -INFINITY, highest: arb = INFINITY) -> Unary:
    """The interval version of an increasing function, from its values on points and its limits at infinity."""

    def enclose(u: Interval) -> Interval:
        lower = lowest if u.lower == -INFINITY else function(u.lower)
        upper = highest if u.upper == INFINITY else function(u.upper)
        return _clip(Interval(lower.lower(), upper.upper()), lowest, highest)

    return enclose


def arccos(u: Interval) -> Interval:
    """Decreasing on [-1, 1]."""
    return Interval(u.upper.acos().lower(), u.lower.acos().upper())


def cosh(u: Interval) -> Interval:
    """Even, and increasing in the absolute value."""
    lower, upper = (value.cosh() for value in absolute(u))
    return _clip(Interval(lower.lower(), upper.upper()), arb(1), INFINITY)


def sine(u: Interval) -> Interval:
    """The sine, by the ball's own enclosure."""
    return _clip(from_ball(to_ball(u).sin()), arb(-1), arb(1))


def cosine(u: Interval) -> Interval:
    """The cosine, by the ball's own enclosure."""
    return _clip(from_ball(to_ball(u).cos()), arb(-1), arb(1))


def tangent(u: Interval) -> Interval:
    r"""Increasing between poles: both ends must lie in the same branch $\lfloor x / \pi + 1/2 \rfloor$."""
    if not (abs(u.lower) < MAX_TANGENT and abs(u.upper) < MAX_TANGENT):
        return UNDEFINED
    left, right = ((end / arb.pi() + arb(0.5)).floor().unique_fmpz() for end in u)
    if left is None or left != right:
        return UNDEFINED
    return Interval(u.lower.tan().lower(), u.upper.tan().upper())


def sigmoid_point(x: arb) -> arb:
    """1 / (1 + exp(-x)), written so that nothing overflows."""
    small = (-abs(x)).exp()
    return 1 / (1 + small) if x >= 0 else small / (1 + small)


def softplus_point(x: arb) -> arb:
    """log(1 + exp(x)), written so that nothing overflows."""
    tail = (-abs(x)).exp().log1p()
    return x + tail if x > 0 else tail


def _multiply_two(u: Interval, v: Interval) -> Interval:
    if is_undefined(u):
        return u
    return hull(*(a * b for a in u for b in v))


def _integer(v: Interval) -> int | None:
    """The exponent as an int, if it is exactly one of moderate size."""
    if v.lower != v.upper or not abs(v.lower) <= MAX_INTEGER_EXPONENT:
        return None
    n = v.lower.unique_fmpz()
    return int(n) if n is not None and v.lower == n else None


def _integer_power(u: Interval, n: int) -> Interval:
    if n < 0:
        return divide(Interval(arb(1), arb(1)), _integer_power(u, -n))
    if n == 0:
        return Interval(arb(1), arb(1))
    base = absolute(u) if n % 2 == 0 else u
    return Interval((base.lower**n).lower(), (base.upper**n).upper())


def _clip(u: Interval, lowest: arb, highest: arb) -> Interval:
    """Cut at bounds known from theory; NaN stays NaN."""
    return Interval(_greatest(u.lower, lowest.lower()), _least(u.upper, highest.upper()))


def _least(*points: arb) -> arb:
    return reduce(lambda a, b: a if a.is_nan() or a <= b else b, points)


def _greatest(*points: arb) -> arb:
    return reduce(lambda a, b: a if a.is_nan() or a >= b else b, points)


def _touching_zero(ball: arb) -> arb:
    """A ball with midpoint equal to its radius, slightly larger than the radius of ``ball``: [0, 2 r]."""
    radius = ball.rad()
    wider = arb(radius, radius)
    return wider + (wider.rad() - radius)

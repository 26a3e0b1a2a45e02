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
BESSEL_SLOPE = arb(0.7072)  # > 1/sqrt(2), see `bessel_ball`
GELU_CUBIC = 0.044715  # of gelu_tanh, a float64 number and meant exactly

# Where functions that fall and then rise are smallest: the only zeros of Phi(x) + x phi(x), of 1 + e^x + x, of
# 1 + e^z + x z' with z as in `gelu_tanh_point`, and of digamma(x) for x > 0.
GELU_LOWEST = arb("-0.751791524693564 +/- 1e-14")
SILU_LOWEST = arb("-1.278464542761074 +/- 1e-14")
GELU_TANH_LOWEST = arb("-0.752461422071016 +/- 1e-14")
GAMMA_LOWEST = arb("1.461632144968362 +/- 1e-14")


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


def valley(function: Point, lowest: arb) -> Unary:
    """The interval version of a function that falls up to the ball ``lowest`` and rises from there, by its values."""

    def enclose(u: Interval) -> Interval:
        one_sided = u.upper <= lowest or u.lower >= lowest
        return hull(*map(function, u if one_sided else (*u, lowest)))

    return enclose


def falling(function: Point, lowest: arb = -INFINITY, highest: arb = INFINITY) -> Unary:
    """The interval version of a decreasing function."""
    rising = increasing(lambda x: function(-x), lowest, highest)
    return lambda u: rising(negative(u))


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
    return x.exp() / (1 + x.exp()) if x < 0 else 1 / (1 + (-x).exp())


def normcdf_point(x: arb) -> arb:
    """The normal distribution function, also far in its tails."""
    return (-x / arb(2).sqrt()).erfc() / 2


def gelu_point(x: arb) -> arb:
    """The argument times normcdf of it."""
    return x * normcdf_point(x)


def silu_point(x: arb) -> arb:
    """The argument times sigmoid of it."""
    return x * sigmoid_point(x)


def gelu_tanh_point(x: arb) -> arb:
    r"""$\frac x2 (1 + \tanh(\sqrt{2/\pi} (x + a x^3))) = x\,\mathrm{sigmoid}(z)$, z twice the argument of tanh."""
    return x * sigmoid_point((8 / arb.pi()).sqrt() * (x + GELU_CUBIC * x**3))


def softplus_point(x: arb) -> arb:
    """log(1 + exp(x)), written so that nothing overflows."""
    tail = (-abs(x)).exp().log1p()
    return x + tail if x > 0 else tail


def hypot(*arguments: Interval) -> Interval:
    """The Euclidean length of a vector."""
    total = add(*(_integer_power(u, 2) for u in arguments))
    return increasing(arb.sqrt, arb(0))(_clip(total, arb(0), INFINITY))


def unit(u: Interval, *others: Interval) -> Interval:
    """The quotient u / hypot(u, others): rising in u, its size falling in theirs; [-1, 1] where both may vanish.

    That encloses the Clarke derivative of the length, as the sign does that of abs.
    """
    low, high = hypot(*others)
    if u.lower <= 0 <= u.upper and low <= 0:
        return Interval(arb(-1), arb(1))
    lower = u.lower / (u.lower**2 + (low if u.lower < 0 else high) ** 2).sqrt()
    upper = u.upper / (u.upper**2 + (high if u.upper < 0 else low) ** 2).sqrt()
    return _clip(Interval(lower.lower(), upper.upper()), arb(-1), arb(1))


def atan2(y: Interval, x: Interval) -> Interval:
    """The angle of (x, y), monotone in either; undefined where the box meets the cut {x <= 0, y = 0} from below."""
    if x.lower > 0 or y.lower > 0 or y.upper < 0 or (y.lower >= 0 and x.upper < 0):
        return hull(*(arb.atan2(above, right) for above in y for right in x))
    return UNDEFINED


def choose(u: Interval, v: Interval, a: Interval, b: Interval) -> Interval:
    """``a`` where u < v, else ``b``; both where that is not decided. What is not chosen may be undefined."""
    if u.upper < v.lower:
        return a
    if u.lower >= v.upper:
        return b
    return UNDEFINED if any(map(is_undefined, (u, v, a, b))) else hull(*a, *b)


def floor(u: Interval) -> Interval:
    """The largest integer below, of either end."""
    return Interval(u.lower.floor().lower(), u.upper.floor().upper())


def sinc(u: Interval) -> Interval:
    """sin(u) / u, by the ball's own enclosure; at least -0.2173, as the sine is at least -1 beyond 4.6."""
    return _clip(from_ball(to_ball(u).sinc()), arb(-0.25), arb(1))


def spherical_bessel(u: Interval) -> Interval:
    r"""$-\mathrm{sinc}'(x) = \int_0^1 t \sin(x t)\,dt$: its slope is at most 1/3, its size at most |x|/3 and 1/2."""
    ball = to_ball(u)
    middle, reach = ball.mid(), ball.rad() / 3
    at = arb(0) if middle == 0 else (middle.sinc() - middle.cos()) / middle
    near = to_ball(_clip(from_ball(at), -abs(middle) / 3, abs(middle) / 3))
    return _clip(from_ball(near + reach.union(-reach)), arb(-0.5), arb(0.5))


def bessel(order: int) -> Unary:
    """The Bessel function of the first kind of an order."""
    return lambda u: _clip(from_ball(bessel_ball(order, to_ball(u))), arb(-1), arb(1))


def bessel_ball(order: int, x: arb) -> arb:
    r"""$J_n$ on a ball: at its middle, and the slope times its radius.

    $J_0^2 + 2 \sum_{k \ge 1} J_k^2 = 1$, so $|J_0'| = |J_1| \le 1/\sqrt2$, and $|J_n'| = |J_{n-1} - J_{n+1}|/2$ is at
    most $\sqrt{3/8}$ for n = 1 and 1/2 beyond.
    """
    reach = BESSEL_SLOPE * x.rad()
    found = from_ball(x.mid().bessel_j(order) + reach.union(-reach))
    return to_ball(_clip(found, arb(-1), arb(1)))


def gamma(u: Interval) -> Interval:
    r"""Falling and rising for u > 0; elsewhere $\Gamma(x) = \pi / (\sin(\pi x)\,\Gamma(1 - x))$, between poles."""
    if u.lower > 0:
        return valley(arb.gamma, GAMMA_LOWEST)(u)
    if not u.upper < 0:
        return UNDEFINED
    sine_pi = from_ball(to_ball(u).sin_pi())
    return divide(from_ball(arb.pi()), multiply(sine_pi, gamma(add(Interval(arb(1), arb(1)), negative(u)))))


def lgamma(u: Interval) -> Interval:
    """The logarithm of |Gamma(u)|."""
    if u.lower > 0:
        return valley(arb.lgamma, GAMMA_LOWEST)(u)
    found = gamma(u)
    return found if is_undefined(found) else increasing(arb.log)(absolute(found))


def digamma(u: Interval) -> Interval:
    """The derivative of lgamma: rising between poles."""
    if not (u.lower > 0 or (u.upper < 0 and _between_integers(u))):
        return UNDEFINED
    return Interval(u.lower.digamma().lower(), u.upper.digamma().upper())


def trigamma(u: Interval) -> Interval:
    r"""The derivative of digamma: falling for u > 0; else $\psi'(x) = \pi^2/\sin^2(\pi x) - \psi'(1 - x)$."""
    if u.lower > 0:
        return hull(*(arb(2).zeta(end) for end in u))
    if not (u.upper < 0 and _between_integers(u)):
        return UNDEFINED
    pole = divide(from_ball(arb.pi()), from_ball(to_ball(u).sin_pi()))
    mirrored = trigamma(add(Interval(arb(1), arb(1)), negative(u)))
    return pole if is_undefined(pole) else add(_integer_power(pole, 2), negative(mirrored))


def _between_integers(u: Interval) -> bool:
    """Whether there is no integer in u."""
    if not (abs(u.lower) < MAX_TANGENT and abs(u.upper) < MAX_TANGENT):
        return False
    left, right = (end.floor().unique_fmpz() for end in u)
    return left is not None and bool(left == right) and bool(u.lower > left)


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

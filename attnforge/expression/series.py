r"""Power series of the functions in the table: Taylor coefficients as balls, at a point or over an interval.

A series $\sum_j c_j t^j$ whose coefficients are balls stands for every function whose Taylor coefficients lie in them.
With the argument $x_0 + t$, $x_0$ a ball around an interval, the j-th coefficient of the result encloses $f^{(j)}/j!$
on all of it, and $f(m + t) = \sum_{j<K} c_j t^j + R\,t^K$ with $c_j$ from the midpoint and R from the interval.

Functions with kinks have a series wherever the interval decides on which side of the kink it lies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from math import comb, factorial

from flint import arb, arb_series, ctx

from attnforge.expression.intervals import GELU_CUBIC, bessel_ball, from_ball, hull, to_ball
from attnforge.expression.intervals import floor as interval_floor
from attnforge.expression.intervals import lgamma as interval_lgamma

ZERO, ONE = arb(0), arb(1)
LARGEST_WHOLE = arb(2) ** 1024  # an exponent of float64; of one like 2^2^100 flint's search for the integer is fatal
FAR = 32  # from there on the coefficients of sinc are found upwards, each divided by the argument


class NotSmoothError(ArithmeticError):
    """There is no power series here, or it cannot be excluded that there is none."""


def add(*terms: arb_series) -> arb_series:
    """The sum."""
    return reduce(lambda u, v: u + v, terms)


def multiply(*factors: arb_series) -> arb_series:
    """The product; zero times what has no value has none, in no order (flint takes that for zero)."""
    vanishes = any(not u.length() for u in factors)
    if vanishes and any(c.is_nan() for u in factors for c in u):
        return arb_series([arb.nan()] * ctx.cap)
    return reduce(lambda u, v: u * v, factors)


def negative(u: arb_series) -> arb_series:
    """-u."""
    return -u


def divide(u: arb_series, v: arb_series) -> arb_series:
    """The quotient u / v, where v has no zero."""
    if v[0].contains(ZERO):
        raise NotSmoothError("division by an interval that contains zero")
    return u / v


def power(u: arb_series, v: arb_series) -> arb_series:
    """The power u ^ v: whole constant exponents by multiplication, others as exp(v log u)."""
    is_number = _is_constant(v) and v[0].is_exact() and abs(v[0]) <= LARGEST_WHOLE
    whole = v[0].unique_fmpz() if is_number else None
    if whole is None:
        return (v * logarithm(u)).exp()
    result, factor = arb_series([ONE]), u if whole >= 0 else divide(arb_series([ONE]), u)
    for bit in bin(abs(int(whole)))[2:]:
        result = result * result
        if bit == "1":
            result = result * factor
    return result


def absolute(u: arb_series) -> arb_series:
    """|u|, where u keeps its sign."""
    return u if _sign(u) > 0 else -u


def largest(*arguments: arb_series) -> arb_series:
    """The largest, where one of them is."""
    return reduce(lambda u, v: u if _sign(u - v) > 0 else v, arguments)


def smallest(*arguments: arb_series) -> arb_series:
    """The smallest, where one of them is."""
    return reduce(lambda u, v: v if _sign(u - v) > 0 else u, arguments)


def relu(u: arb_series) -> arb_series:
    """max(u, 0)."""
    return u if _sign(u) > 0 else arb_series([ZERO])


def clamp(u: arb_series, a: arb_series, b: arb_series) -> arb_series:
    """min(max(u, a), b)."""
    return smallest(largest(u, a), b)


def sign(u: arb_series) -> arb_series:
    """The constant 1 or -1 where u keeps its sign, 0 where u is identically zero."""
    return arb_series([arb(_sign(u))])


def step(u: arb_series) -> arb_series:
    """The constant 1 or 0 where u keeps its sign, 1/2 where u is identically zero."""
    return arb_series([arb(0.5) * (1 + _sign(u))])


def square_root(u: arb_series) -> arb_series:
    """sqrt, of what is positive or identically zero."""
    if _is_constant(u) and u[0].is_zero():
        return u
    _positive(u)
    return u.sqrt()


def logarithm(u: arb_series) -> arb_series:
    """log, of what is positive."""
    _positive(u)
    return u.log()


def sinh(u: arb_series) -> arb_series:
    """(e^u - e^-u) / 2."""
    return (u.exp() - (-u).exp()) / arb(2)


def cosh(u: arb_series) -> arb_series:
    """(e^u + e^-u) / 2."""
    return (u.exp() + (-u).exp()) / arb(2)


def tanh(u: arb_series) -> arb_series:
    """1 - 2 / (e^(2 |u|) + 1) with the sign of u; of an interval around zero, without it."""
    if u[0] < 0:
        return -tanh(-u)
    return arb_series([ONE]) - divide(arb_series([arb(2)]), (u * arb(2)).exp() + arb_series([ONE]))


def sigmoid(u: arb_series) -> arb_series:
    """1 / (1 + e^-u)."""
    return divide(arb_series([ONE]), arb_series([ONE]) + (-u).exp())


def softplus(u: arb_series) -> arb_series:
    """log(1 + e^u)."""
    return logarithm(arb_series([ONE]) + u.exp())


def normcdf(u: arb_series) -> arb_series:
    """The normal distribution function."""
    return (-u / arb(2).sqrt()).erfc() / arb(2)


def gelu(u: arb_series) -> arb_series:
    """The argument times normcdf of it."""
    return u * normcdf(u)


def silu(u: arb_series) -> arb_series:
    """The argument times sigmoid of it."""
    return u * sigmoid(u)


def gelu_tanh(u: arb_series) -> arb_series:
    """As u sigmoid(z), z twice the argument of tanh."""
    return u * sigmoid((u + u * u * u * arb(GELU_CUBIC)) * (8 / arb.pi()).sqrt())


def hypot(*arguments: arb_series) -> arb_series:
    """The Euclidean length of what does not vanish."""
    return square_root(add(*(u * u for u in arguments)))


def unit(u: arb_series, *others: arb_series) -> arb_series:
    """The quotient u / hypot(u, others), 0 of the vector that is identically zero."""
    length = hypot(u, *others)
    return length if _is_constant(length) and length[0].is_zero() else divide(u, length)


def atan2(y: arb_series, x: arb_series) -> arb_series:
    """The angle of (x, y), off the cut {x <= 0, y = 0}: by y/x, or by x/y where that is smaller."""
    if x[0] > 0 and not abs(y[0]) > x[0]:
        return (y / x).atan()
    side = arb_series([arb.pi() / 2 * _sign(y)])
    return side - divide(x, y).atan()


def choose(u: arb_series, v: arb_series, a: arb_series, b: arb_series) -> arb_series:
    """``a`` where u < v, else ``b``."""
    return a if _sign(v - u) > 0 else b


def floor(u: arb_series) -> arb_series:
    """The constant between two integers; also the value at an integer of what does not vary."""
    low, high = interval_floor(from_ball(u[0]))
    if low == high and (u[0] > low or _is_constant(u)):
        return arb_series([low])
    raise NotSmoothError("an integer, where floor jumps, or its neighbourhood")


def sinc(u: arb_series) -> arb_series:
    """sin(u) / u."""
    return _composed(_sinc(u[0], ctx.cap), u)


def spherical_bessel(u: arb_series) -> arb_series:
    """Minus the derivative of sinc."""
    outer = _sinc(u[0], ctx.cap + 1)
    return _composed([-k * c for k, c in enumerate(outer)][1:], u)


def _sinc(x: arb, count: int) -> list[arb]:
    r"""Taylor coefficients $c_k = \frac{1}{k!} \int_0^1 t^k \cos^{(k)}(x t)\,dt$ of sinc on a ball.

    At the middle m they satisfy $m c_k + c_{k-1} = s_k$, the coefficients of the sine: solved downwards from a far one,
    $|c_K| \le 1/K!$, where errors shrink like $m^{K-k}/K!$, or upwards where m is large. Over the ball they move by at
    most its radius times $1/(k!\,(k + 2))$.
    """
    middle, radius = x.mid(), x.rad().union(-x.rad())
    near = bool(abs(middle) < FAR)
    last = count + 8 + ctx.prec // 3 + 3 * int(abs(float(middle))) if near else count
    sine, cosine, scale = middle.sin(), middle.cos(), ONE
    waves = list[arb]()
    for k in range(1, last + 1):
        scale = scale / k
        waves.append((sine, cosine, -sine, -cosine)[k % 4] * scale)
    if near:
        found = [scale.union(-scale)]
        for wave in reversed(waves):
            found.append(wave - middle * found[-1])
        found.reverse()
    else:
        found = [middle.sinc()]
        for wave in waves:
            found.append((wave - found[-1]) / middle)
    return [c + radius / (factorial(k) * (k + 2)) for k, c in enumerate(found[:count])]


def bessel(order: int) -> Callable[[arb_series], arb_series]:
    """The Bessel function of the first kind of an order."""
    return lambda u: _composed(_bessel(order, u[0], ctx.cap), u)


def _bessel(order: int, x: arb, count: int) -> list[arb]:
    r"""$J_n^{(k)} = 2^{-k} \sum_j (-1)^j \binom kj J_{n-k+2j}$, at zero too, with $J_{-m} = (-1)^m J_m$."""
    known = [bessel_ball(m, x) for m in range(order + count)]
    every = {m: known[abs(m)] * (-1) ** (m % 2 if m < 0 else 0) for m in range(1 - len(known), len(known))}
    sums = (sum(((-1) ** j * comb(k, j) * every[order - k + 2 * j] for j in range(k + 1)), ZERO) for k in range(count))
    return [total / (2**k * factorial(k)) for k, total in enumerate(sums)]


def lgamma(u: arb_series) -> arb_series:
    """The logarithm of |Gamma(u)|: for u > 0 all its derivatives are monotone, so that both ends enclose them."""
    if not u[0] > 0:
        return logarithm(absolute(gamma(u)))
    ends = [arb_series([end, 1]).lgamma() for end in from_ball(u[0])]
    outer = [to_ball(hull(*(end[k] for end in ends))) for k in range(1, ctx.cap)]
    return _composed([to_ball(interval_lgamma(from_ball(u[0]))), *outer], u)


def gamma(u: arb_series) -> arb_series:
    r"""exp(lgamma(u)) for u > 0, else $\pi / (\sin(\pi u)\,\Gamma(1 - u))$, between poles."""
    if u[0] > 0:
        return lgamma(u).exp()
    if not u[0] < 0:
        raise NotSmoothError("an argument of gamma that may be zero")
    return divide(arb_series([arb.pi()]), u.sin_pi() * gamma(arb_series([ONE]) - u))


def digamma(u: arb_series) -> arb_series:
    """The derivative of lgamma."""
    return _derived(1, u)


def trigamma(u: arb_series) -> arb_series:
    """The derivative of digamma."""
    return _derived(2, u)


def _derived(order: int, u: arb_series) -> arb_series:
    """A derivative of lgamma: its coefficients, from further ones of lgamma."""
    before = ctx.cap
    ctx.cap = before + order
    try:
        known = lgamma(arb_series([u[0], 1]))
        outer = [known[k + order] * (factorial(k + order) // factorial(k)) for k in range(before)]
    finally:
        ctx.cap = before
    return _composed(outer, u)


def _composed(outer: Sequence[arb], u: arb_series) -> arb_series:
    """A function of u from its Taylor coefficients at the constant term: Horner's scheme."""
    rest = arb_series([ZERO, *u.coeffs()[1:]])
    return reduce(lambda total, c: total * rest + arb_series([c]), reversed(outer), arb_series([ZERO]))


def _sign(u: arb_series) -> int:
    """1, -1, or 0 for the zero function: of that, either branch of a kink is the same, but not of a jump."""
    if u[0] > 0:
        return 1
    if u[0] < 0:
        return -1
    if _is_constant(u) and u[0].is_zero():
        return 0
    raise NotSmoothError("a kink, or its neighbourhood")


def _positive(u: arb_series) -> None:
    if not u[0] > 0:
        raise NotSmoothError("an argument that is not positive")


def _is_constant(u: arb_series) -> bool:
    return all(coefficient.is_zero() for coefficient in u.coeffs()[1:])

r"""Power series of the functions in the table: Taylor coefficients as balls, at a point or over an interval.

A series $\sum_j c_j t^j$ whose coefficients are balls stands for every function whose Taylor coefficients lie in them.
With the argument $x_0 + t$, $x_0$ a ball around an interval, the j-th coefficient of the result encloses $f^{(j)}/j!$
on all of it, and $f(m + t) = \sum_{j<K} c_j t^j + R\,t^K$ with $c_j$ from the midpoint and R from the interval.

Functions with kinks have a series wherever the interval decides on which side of the kink it lies.
"""

from __future__ import annotations

from functools import reduce

from flint import arb, arb_series

ZERO, ONE = arb(0), arb(1)


class NotSmoothError(ArithmeticError):
    """There is no power series here, or it cannot be excluded that there is none."""


def add(*terms: arb_series) -> arb_series:
    """The sum."""
    return reduce(lambda u, v: u + v, terms)


def multiply(*factors: arb_series) -> arb_series:
    """The product."""
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
    whole = v[0].unique_fmpz() if _is_constant(v) and v[0].is_exact() else None
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

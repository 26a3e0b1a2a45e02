r"""The table of functions: one record per function, and no second list anywhere.

A record says how a function is called, evaluated on arrays, evaluated on intervals, and differentiated. The parser
takes its names from here, the evaluators and the derivative their rules, the sympy import its classes.

Derivatives of functions with kinks are written with `sign` and `step`, whose intervals are [-1, 1] and [0, 1] around
the kink, so that the enclosure of a derivative contains the Clarke derivative. Functions that jump have the derivative
``0 / u``: zero away from the jump, undefined on every interval that contains it, as no slope bounds a jump. At the
jump itself `sign` is 0 and `step` is 1/2, on arrays and as series of the zero function; their intervals contain that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial, reduce
from math import factorial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from flint import arb, arb_series, ctx
from scipy import special

from attnforge.errors import TargetError
from attnforge.expression import intervals, series
from attnforge.expression.border import branches_meet
from attnforge.expression.intervals import Interval, from_ball, increasing, to_ball, valley
from attnforge.expression.series import NotSmoothError
from attnforge.expression.simplify import ONE, TWO, ZERO, minus, of, over, plus, raised, squared, times
from attnforge.expression.tree import Apply, Constant, Node, bottom_up

Array = npt.NDArray[Any]
Nodes = tuple[Node, ...]
Rule = Callable[[Nodes, Nodes], Node]


@dataclass(frozen=True)
class Function:
    """What there is to know about a function.

    Attributes:
        arity: how many arguments it takes; for variadic functions, at least.
        array: evaluates NumPy arrays of one floating dtype and keeps it (with no arguments: a longdouble number).
        interval: evaluates intervals, rigorously.
        series: evaluates power series whose coefficients are balls; raises NotSmoothError where it has none.
        derivative: (arguments, their derivatives) -> the derivative of the application.
        variadic: whether more than ``arity`` arguments are allowed.
        operator: whether it is written as a sign and not by name.
        aliases: other names the parser understands.
        sympy: the name of sympy's class, if there is one that means the same.
        rounding: what `array` does to a result: nothing, or a few roundings of its size, or of one where it is smaller.
        extended: whether these are roundings of the dtype; of SciPy's functions they are those of float64.
        defined: where it is defined, in words, if a formula that may leave it is refused.
        chooses: whether it has a value also where an argument that it does not choose has none.
    """

    arity: int
    array: Callable[..., Array]
    interval: Callable[..., Interval]
    series: Callable[..., arb_series]
    derivative: Rule
    variadic: bool = False
    operator: bool = False
    aliases: tuple[str, ...] = ()
    sympy: str | None = None
    rounding: Literal["none", "relative", "absolute"] = "relative"
    extended: bool = True
    defined: str = ""
    chooses: bool = False

    def takes(self, count: int) -> bool:
        """Whether it can be called with ``count`` arguments."""
        return count == self.arity or (self.variadic and count > self.arity)

    def arguments_text(self) -> str:
        """How many arguments it takes, in words."""
        least = "at least " if self.variadic else ""
        return f"{least}{self.arity} argument" + ("" if self.arity == 1 else "s")


def function_of(node: Apply) -> Function:
    """The record of an application, with its number of arguments checked."""
    function = FUNCTIONS.get(node.function)
    if function is None or not function.takes(len(node.arguments)):
        known = "a known function" if function is None else function.arguments_text()
        raise TargetError(f"`{node.function}` must be {known}", f"{len(node.arguments)} arguments", "Rebuild the tree")
    return function


def of_numbers(node: Apply, arguments: Sequence[arb]) -> arb:
    """A function of numbers: by its series of one term, which knows what a jump is worth at zero, or by intervals."""
    function, before = function_of(node), ctx.cap
    ctx.cap = 1
    try:
        found = function.series(*(arb_series([argument]) for argument in arguments))[0]
    except NotSmoothError:
        found = arb.nan()
    finally:
        ctx.cap = before
    if found.is_finite() or any(argument.is_nan() for argument in arguments):
        return found
    return to_ball(function.interval(*map(from_ball, arguments)))


@lru_cache
def is_joined(choice: Apply) -> bool:
    """Whether the branches of a `where` are known to meet at its border, so that it is continuous if they are.

    >>> from attnforge.expression import parse
    >>> is_joined(parse("where(x < 0, -x, x)")), is_joined(parse("where(x < 0, 1, x)"))
    (True, False)
    """
    u, v, a, b = choice.arguments
    return branches_meet(u, v, a, b, of_numbers)


@lru_cache
def is_total(node: Node) -> bool:
    """Whether a formula has a value whatever its variables are, so that zero times it is zero.

    Quotients are by numbers other than zero, powers by whole ones; of other functions, intervals tell.

    >>> from attnforge.expression import parse
    >>> is_total(parse("exp(x)^2/3 + sin(y)")), is_total(parse("1/x")), is_total(parse("x*log(2 + y)"))
    (True, False, False)
    """
    return all(_is_total_at(each) for each in bottom_up(node) if isinstance(each, Apply))


def _is_total_at(node: Apply) -> bool:
    last = node.arguments[-1] if node.arguments else None
    if node.function in ("/", "^"):
        number = last.value if isinstance(last, Constant) else 0.0
        return number != 0 and (node.function == "/" or (number > 0 and number.is_integer()))
    return _has_all_values(node.function)


@lru_cache
def _has_all_values(name: str) -> bool:
    """Whether a function has a value for all arguments of float64's range, by its interval."""
    function, largest = FUNCTIONS[name], arb(2) ** 1024
    return not intervals.is_undefined(function.interval(*[Interval(-largest, largest)] * function.arity))


# Arrays


def _add(*terms: Array) -> Array:
    return reduce(np.add, terms)


def _multiply(*factors: Array) -> Array:
    return reduce(np.multiply, factors)


def _smallest(*arguments: Array) -> Array:
    return reduce(np.minimum, arguments)


def _largest(*arguments: Array) -> Array:
    return reduce(np.maximum, arguments)


def _clamp(u: Array, a: Array, b: Array) -> Array:
    return np.asarray(np.minimum(np.maximum(u, a), b))


def _relu(u: Array) -> Array:
    return np.asarray(np.maximum(u, 0))


def _step(u: Array) -> Array:
    return np.asarray(np.heaviside(u, np.asarray(0.5, dtype=np.asarray(u).dtype)))


def _softplus(u: Array) -> Array:
    return np.asarray(np.logaddexp(np.zeros((), dtype=np.asarray(u).dtype), u))


def _in_float64(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """SciPy has no extended precision here: longdouble arguments get a float64-accurate result."""
    return lambda u: np.asarray(function(np.asarray(u).astype(np.float64)), dtype=np.asarray(u).dtype)


def _silu(u: Array) -> Array:
    return np.asarray(u * special.expit(u))


def _gelu_tanh(u: Array) -> Array:
    """As u sigmoid(z), which keeps its digits where tanh is close to -1."""
    scale = np.sqrt(8 / (4 * np.arctan(np.ones((), dtype=np.asarray(u).dtype))))
    return np.asarray(u * special.expit(scale * (u + intervals.GELU_CUBIC * u**3)))


def _sinc(u: Array) -> Array:
    return np.asarray(np.where(u == 0, 1, np.sin(u) / np.where(u == 0, 1, u)))


def _spherical_bessel(u: Array) -> Array:
    """(sin(u)/u - cos(u))/u, and its power series, whose terms are (-1)^n u^(2n+1) (2n+2)/(2n+3)!, near zero."""
    near = np.where(np.abs(u) < 1, u, 0)
    terms = [(-1) ** n * (2 * n + 2) / np.asarray(factorial(2 * n + 3), dtype=near.dtype) for n in range(11)]
    power = near * reduce(lambda total, term: total * near**2 + term, reversed(terms))
    far = np.where(np.abs(u) < 1, 1, u)
    return np.asarray(np.where(np.abs(u) < 1, power, (np.sin(far) / far - np.cos(far)) / far))


def _digamma(u: Array) -> Array:
    """Where u is negative, digamma(1 - u) - pi cot(pi u), of the distance from a pole."""
    right = special.digamma(np.where(u < 0, 1 - u, u))
    return np.asarray(np.where(u < 0, right - np.pi / np.tan(np.pi * (u - np.round(u))), right))


def _trigamma(u: Array) -> Array:
    right = special.polygamma(1, np.where(u < 0, 1 - u, u))
    return np.asarray(np.where(u < 0, (np.pi / np.sin(np.pi * (u - np.round(u)))) ** 2 - right, right))


def _hypot(*arguments: Array) -> Array:
    return reduce(np.hypot, arguments)


def _unit(u: Array, *others: Array) -> Array:
    length = _hypot(u, *others)
    return np.asarray(np.where(length == 0, 0, u / np.where(length == 0, 1, length)))


def _atan2(y: Array, x: Array) -> Array:
    return np.asarray(np.arctan2(y + 0.0, x))  # of the cut, the side of +0


def _choose(u: Array, v: Array, a: Array, b: Array) -> Array:
    """NaN where the comparison has no answer."""
    return np.asarray(np.where(u < v, a, np.where(u >= v, b, np.nan)))


# Derivatives


def _chain(partial: Callable[[Node], Node]) -> Rule:
    """The chain rule for a function of one argument, from its own derivative."""
    return lambda arguments, derivatives: times(partial(arguments[0]), derivatives[0])


def _scaled(factor: Node, derivative: Node) -> Node:
    """``factor * derivative``, and nothing at all if the argument does not depend on the variable."""
    return ZERO if derivative == ZERO else times(factor, derivative)


def _product_rule(u: Nodes, du: Nodes) -> Node:
    """(L R)' = L' R + L R', halving: n factors give n log n terms and a flat tree."""
    if len(u) == 1:
        return du[0]
    half = len(u) // 2
    left, right = times(*u[:half]), times(*u[half:])
    return plus(_scaled(right, _product_rule(u[:half], du[:half])), _scaled(left, _product_rule(u[half:], du[half:])))


def _quotient_rule(u: Nodes, du: Nodes) -> Node:
    (above, below), (d_above, d_below) = u, du
    first = ZERO if d_above == ZERO else over(d_above, below)
    second = ZERO if d_below == ZERO else minus(over(times(above, d_below), squared(below)))
    return plus(first, second)


def _power_rule(u: Nodes, du: Nodes) -> Node:
    """(u^v)' = v u^(v-1) u' + u^v log(u) v'."""
    (base, exponent), (d_base, d_exponent) = u, du
    by_base = _scaled(times(exponent, raised(base, plus(exponent, Constant(-1.0)))), d_base)
    by_exponent = _scaled(times(raised(base, exponent), of("log", base)), d_exponent)
    return plus(by_base, by_exponent)


def _largest_rule(u: Nodes, du: Nodes) -> Node:
    """max(L, R)' = step(L - R) L' + step(R - L) R', halving; where they tie, the mean of both."""
    if len(u) == 1:
        return du[0]
    half = len(u) // 2
    left, right = (of("max", *part) if len(part) > 1 else part[0] for part in (u[:half], u[half:]))
    return plus(
        _scaled(of("step", plus(left, minus(right))), _largest_rule(u[:half], du[:half])),
        _scaled(of("step", plus(right, minus(left))), _largest_rule(u[half:], du[half:])),
    )


def _smallest_rule(u: Nodes, du: Nodes) -> Node:
    """min(u, ...) = -max(-u, ...)."""
    return minus(_largest_rule(tuple(map(minus, u)), tuple(map(minus, du))))


def _clamp_rule(u: Nodes, du: Nodes) -> Node:
    (value, low, high), (d_value, d_low, d_high) = u, du
    raised_to_low, derivative = of("max", value, low), _largest_rule((value, low), (d_value, d_low))
    return _smallest_rule((raised_to_low, high), (derivative, d_high))


def _jump(u: Node) -> Node:
    return over(ZERO, u)


def _length_rule(u: Nodes, du: Nodes) -> Node:
    """hypot(u, ...)' = sum of unit(u, others) u', which is Clarke's where the vector vanishes."""
    turned = (of("unit", *u[i:], *u[:i]) for i in range(len(u)))
    return plus(*(_scaled(part, derivative) for part, derivative in zip(turned, du, strict=True)))


def _unit_rule(u: Nodes, du: Nodes) -> Node:
    """(u / h)' = (u' - (u / h) h') / h."""
    slope = plus(du[0], minus(times(of("unit", *u), _length_rule(u, du))))
    return over(slope, of("hypot", *u))


def _angle_rule(u: Nodes, du: Nodes) -> Node:
    """(x y' - y x') / (x^2 + y^2), and no slope at all across the cut: 0 atan2(y, x) is undefined there."""
    (y, x), (dy, dx) = u, du
    turn = over(plus(_scaled(x, dy), minus(_scaled(y, dx))), plus(squared(x), squared(y)))
    return plus(turn, times(ZERO, of("atan2", y, x)))


def _choice_rule(u: Nodes, du: Nodes) -> Node:
    """The slope of the branch; if the branches are not known to meet, none at the border."""
    choice, slope = Apply("where", u), of("where", *u[:2], *du[2:])
    return slope if is_joined(choice) else plus(slope, _jump(plus(u[0], minus(u[1]))))


def _bell_slope(u: Node) -> Node:
    """The normal density."""
    return over(of("exp", minus(over(squared(u), TWO))), of("sqrt", times(TWO, of("pi"))))


def _logistic_slope(u: Node) -> Node:
    return over(ONE, plus(TWO, times(TWO, of("cosh", u))))


def _gelu_tanh_slope(u: Node) -> Node:
    """sigmoid(z) + u z' sigmoid'(z)."""
    scale, cubic = of("sqrt", over(Constant(8.0), of("pi"))), Constant(intervals.GELU_CUBIC)
    z = times(scale, plus(u, times(cubic, raised(u, Constant(3.0)))))
    dz = times(scale, plus(ONE, times(Constant(3.0), cubic, squared(u))))
    return plus(of("sigmoid", z), times(u, dz, _logistic_slope(z)))


def _unknown(u: Node) -> Node:
    """No rule: undefined everywhere."""
    return over(ZERO, ZERO)


def _constant(array: np.longdouble, value: Callable[[], arb]) -> Function:
    point = lambda: intervals.from_ball(value())  # noqa: E731
    return Function(0, lambda: np.asarray(array), point, lambda: arb_series([value()]), lambda u, du: ZERO)


def _arcsine_slope(u: Node) -> Node:
    return over(ONE, of("sqrt", plus(ONE, minus(squared(u)))))


def _bell(u: Node) -> Node:
    return times(over(TWO, of("sqrt", of("pi"))), of("exp", minus(squared(u))))


def _bessel(order: int, array: Callable[[Array], Array], slope: Callable[[Node], Node]) -> Function:
    ball, power = intervals.bessel(order), series.bessel(order)
    return Function(1, _in_float64(array), ball, power, _chain(slope), rounding="absolute", extended=False)


_HALF_PI = arb.pi() / 2
_POLES = "{0}(u) needs u away from the poles 0, -1, -2, ..."

FUNCTIONS: dict[str, Function] = {
    "+": Function(
        2, _add, intervals.add, series.add, lambda u, du: plus(*du), variadic=True, operator=True, sympy="Add"
    ),
    "*": Function(
        2, _multiply, intervals.multiply, series.multiply, _product_rule, variadic=True, operator=True, sympy="Mul"
    ),
    "-": Function(
        1, np.negative, intervals.negative, series.negative, lambda u, du: minus(du[0]), operator=True, rounding="none"
    ),
    "/": Function(2, np.divide, intervals.divide, series.divide, _quotient_rule, operator=True),
    "^": Function(2, np.power, intervals.power, series.power, _power_rule, operator=True, sympy="Pow"),
    "pi": _constant(4 * np.arctan(np.longdouble(1)), arb.pi),
    "e": _constant(np.exp(np.longdouble(1)), arb.const_e),
    "abs": Function(
        1, np.abs, intervals.absolute, series.absolute, _chain(lambda u: of("sign", u)), sympy="Abs", rounding="none"
    ),
    "min": Function(
        2, _smallest, intervals.smallest, series.smallest, _smallest_rule, variadic=True, sympy="Min", rounding="none"
    ),
    "max": Function(
        2, _largest, intervals.largest, series.largest, _largest_rule, variadic=True, sympy="Max", rounding="none"
    ),
    "relu": Function(1, _relu, intervals.relu, series.relu, _chain(lambda u: of("step", u)), rounding="none"),
    "clamp": Function(3, _clamp, intervals.clamp, series.clamp, _clamp_rule, rounding="none"),
    "sign": Function(1, np.sign, intervals.sign, series.sign, _chain(_jump), sympy="sign", rounding="none"),
    "step": Function(1, _step, intervals.step, series.step, _chain(_jump), rounding="none"),
    "floor": Function(
        1,
        np.floor,
        intervals.floor,
        series.floor,
        _chain(lambda u: _jump(plus(u, minus(of("floor", u))))),
        sympy="floor",
        rounding="none",
    ),
    "where": Function(4, _choose, intervals.choose, series.choose, _choice_rule, rounding="none", chooses=True),
    "sqrt": Function(
        1,
        np.sqrt,
        increasing(arb.sqrt, arb(0)),
        series.square_root,
        _chain(lambda u: over(ONE, times(TWO, of("sqrt", u)))),
    ),
    "exp": Function(
        1, np.exp, increasing(arb.exp, arb(0)), arb_series.exp, _chain(lambda u: of("exp", u)), sympy="exp"
    ),
    "log": Function(
        1, np.log, increasing(arb.log), series.logarithm, _chain(lambda u: over(ONE, u)), aliases=("ln",), sympy="log"
    ),
    "sin": Function(1, np.sin, intervals.sine, arb_series.sin, _chain(lambda u: of("cos", u)), sympy="sin"),
    "cos": Function(1, np.cos, intervals.cosine, arb_series.cos, _chain(lambda u: minus(of("sin", u))), sympy="cos"),
    "tan": Function(
        1, np.tan, intervals.tangent, arb_series.tan, _chain(lambda u: over(ONE, squared(of("cos", u)))), sympy="tan"
    ),
    "sinh": Function(1, np.sinh, increasing(arb.sinh), series.sinh, _chain(lambda u: of("cosh", u)), sympy="sinh"),
    "cosh": Function(1, np.cosh, intervals.cosh, series.cosh, _chain(lambda u: of("sinh", u)), sympy="cosh"),
    "tanh": Function(
        1,
        np.tanh,
        increasing(arb.tanh, arb(-1), arb(1)),
        series.tanh,
        _chain(lambda u: over(ONE, squared(of("cosh", u)))),
        sympy="tanh",
    ),
    "asin": Function(
        1, np.arcsin, increasing(arb.asin), arb_series.asin, _chain(_arcsine_slope), aliases=("arcsin",), sympy="asin"
    ),
    "acos": Function(
        1,
        np.arccos,
        intervals.falling(arb.acos, arb(0), 2 * _HALF_PI),
        arb_series.acos,
        _chain(lambda u: minus(_arcsine_slope(u))),
        aliases=("arccos",),
        sympy="acos",
    ),
    "atan": Function(
        1,
        np.arctan,
        increasing(arb.atan, -_HALF_PI, _HALF_PI),
        arb_series.atan,
        _chain(lambda u: over(ONE, plus(ONE, squared(u)))),
        aliases=("arctan",),
        sympy="atan",
    ),
    "atan2": Function(
        2,
        _atan2,
        intervals.atan2,
        series.atan2,
        _angle_rule,
        aliases=("arctan2",),
        sympy="atan2",
        defined="atan2(y, x) needs x > 0, or y of one sign: it jumps at its cut",
    ),
    "hypot": Function(2, _hypot, intervals.hypot, series.hypot, _length_rule, variadic=True),
    "unit": Function(2, _unit, intervals.unit, series.unit, _unit_rule, variadic=True),
    "erf": Function(
        1,
        _in_float64(special.erf),
        increasing(arb.erf, arb(-1), arb(1)),
        arb_series.erf,
        _chain(_bell),
        sympy="erf",
        extended=False,
    ),
    "erfc": Function(
        1,
        _in_float64(special.erfc),
        intervals.falling(arb.erfc, arb(0), arb(2)),
        arb_series.erfc,
        _chain(lambda u: minus(_bell(u))),
        sympy="erfc",
        rounding="absolute",
        extended=False,
    ),
    "normcdf": Function(
        1,
        _in_float64(special.ndtr),
        increasing(intervals.normcdf_point, arb(0), arb(1)),
        series.normcdf,
        _chain(_bell_slope),
        rounding="absolute",
        extended=False,
    ),
    "sigmoid": Function(
        1,
        special.expit,
        increasing(intervals.sigmoid_point, arb(0), arb(1)),
        series.sigmoid,
        _chain(_logistic_slope),
    ),
    "softplus": Function(
        1, _softplus, increasing(intervals.softplus_point, arb(0)), series.softplus, _chain(lambda u: of("sigmoid", u))
    ),
    "silu": Function(
        1,
        _silu,
        valley(intervals.silu_point, intervals.SILU_LOWEST),
        series.silu,
        _chain(lambda u: plus(of("sigmoid", u), times(u, _logistic_slope(u)))),
        aliases=("swish",),
    ),
    "gelu": Function(
        1,
        _in_float64(lambda u: u * special.ndtr(u)),
        valley(intervals.gelu_point, intervals.GELU_LOWEST),
        series.gelu,
        _chain(lambda u: plus(of("normcdf", u), times(u, _bell_slope(u)))),
        rounding="absolute",
        extended=False,
    ),
    "gelu_tanh": Function(
        1,
        _gelu_tanh,
        valley(intervals.gelu_tanh_point, intervals.GELU_TANH_LOWEST),
        series.gelu_tanh,
        _chain(_gelu_tanh_slope),
        rounding="absolute",
    ),
    "sinc": Function(
        1, _sinc, intervals.sinc, series.sinc, _chain(lambda u: minus(of("sphericalj1", u))), sympy="sinc"
    ),
    "sphericalj1": Function(
        1,
        _spherical_bessel,
        intervals.spherical_bessel,
        series.spherical_bessel,
        _chain(lambda u: plus(of("sinc", u), minus(over(times(TWO, of("sphericalj1", u)), u)))),
        rounding="absolute",
    ),
    "besselj0": _bessel(0, special.j0, lambda u: minus(of("besselj1", u))),
    "besselj1": _bessel(1, special.j1, lambda u: over(plus(of("besselj0", u), minus(of("besselj2", u))), TWO)),
    "besselj2": _bessel(
        2, partial(special.jn, 2), lambda u: plus(of("besselj1", u), minus(over(times(TWO, of("besselj2", u)), u)))
    ),
    "gamma": Function(
        1,
        _in_float64(special.gamma),
        intervals.gamma,
        series.gamma,
        _chain(lambda u: times(of("gamma", u), of("digamma", u))),
        sympy="gamma",
        extended=False,
        defined=_POLES.format("gamma"),
    ),
    "lgamma": Function(
        1,
        _in_float64(special.gammaln),
        intervals.lgamma,
        series.lgamma,
        _chain(lambda u: of("digamma", u)),
        aliases=("loggamma",),
        sympy="loggamma",
        rounding="absolute",
        extended=False,
        defined=_POLES.format("lgamma"),
    ),
    "digamma": Function(
        1,
        _in_float64(_digamma),
        intervals.digamma,
        series.digamma,
        _chain(lambda u: of("trigamma", u)),
        rounding="absolute",
        extended=False,
        defined=_POLES.format("digamma"),
    ),
    "trigamma": Function(
        1,
        _in_float64(_trigamma),
        intervals.trigamma,
        series.trigamma,
        _chain(_unknown),
        extended=False,
        defined=_POLES.format("trigamma"),
    ),
}

NAMES: dict[str, str] = {
    written: name
    for name, function in FUNCTIONS.items()
    if not function.operator
    for written in (name, *function.aliases)
}

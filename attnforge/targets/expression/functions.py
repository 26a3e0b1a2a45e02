r"""The table of functions: one record per function, and no second list anywhere.

A record says how a function is called, evaluated on arrays, evaluated on intervals, and differentiated. The parser
takes its names from here, the evaluators and the derivative their rules, the sympy import its classes.

Derivatives of functions with kinks are written with `sign` and `step`, whose intervals are [-1, 1] and [0, 1] around
the kink, so that the enclosure of a derivative contains the Clarke derivative. Functions that jump have the derivative
``0 / u``: zero away from the jump, undefined on every interval that contains it, as no slope bounds a jump. At the
jump itself `sign` is 0 and `step` is 1/2, on arrays and as series of the zero function; their intervals contain that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
from flint import arb, arb_series
from scipy import special

from attnforge.errors import TargetError
from attnforge.targets.expression import intervals, series
from attnforge.targets.expression.intervals import Interval, increasing
from attnforge.targets.expression.simplify import ONE, TWO, ZERO, minus, of, over, plus, raised, squared, times
from attnforge.targets.expression.tree import Apply, Constant, Node

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


def _erf(u: Array) -> Array:
    """SciPy has no extended precision here: longdouble arguments get a float64-accurate result."""
    u = np.asarray(u)
    return np.asarray(special.erf(u.astype(np.float64)), dtype=u.dtype)


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


def _constant(array: np.longdouble, value: Callable[[], arb]) -> Function:
    point = lambda: intervals.from_ball(value())  # noqa: E731
    return Function(0, lambda: np.asarray(array), point, lambda: arb_series([value()]), lambda u, du: ZERO)


def _arcsine_slope(u: Node) -> Node:
    return over(ONE, of("sqrt", plus(ONE, minus(squared(u)))))


def _bell(u: Node) -> Node:
    return times(over(TWO, of("sqrt", of("pi"))), of("exp", minus(squared(u))))


_HALF_PI = arb.pi() / 2

FUNCTIONS: dict[str, Function] = {
    "+": Function(
        2, _add, intervals.add, series.add, lambda u, du: plus(*du), variadic=True, operator=True, sympy="Add"
    ),
    "*": Function(
        2, _multiply, intervals.multiply, series.multiply, _product_rule, variadic=True, operator=True, sympy="Mul"
    ),
    "-": Function(1, np.negative, intervals.negative, series.negative, lambda u, du: minus(du[0]), operator=True),
    "/": Function(2, np.divide, intervals.divide, series.divide, _quotient_rule, operator=True),
    "^": Function(2, np.power, intervals.power, series.power, _power_rule, operator=True, sympy="Pow"),
    "pi": _constant(4 * np.arctan(np.longdouble(1)), arb.pi),
    "e": _constant(np.exp(np.longdouble(1)), arb.const_e),
    "abs": Function(1, np.abs, intervals.absolute, series.absolute, _chain(lambda u: of("sign", u)), sympy="Abs"),
    "min": Function(2, _smallest, intervals.smallest, series.smallest, _smallest_rule, variadic=True, sympy="Min"),
    "max": Function(2, _largest, intervals.largest, series.largest, _largest_rule, variadic=True, sympy="Max"),
    "relu": Function(1, _relu, intervals.relu, series.relu, _chain(lambda u: of("step", u))),
    "clamp": Function(3, _clamp, intervals.clamp, series.clamp, _clamp_rule),
    "sign": Function(1, np.sign, intervals.sign, series.sign, _chain(_jump), sympy="sign"),
    "step": Function(1, _step, intervals.step, series.step, _chain(_jump)),
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
    "log": Function(1, np.log, increasing(arb.log), series.logarithm, _chain(lambda u: over(ONE, u)), sympy="log"),
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
        intervals.arccos,
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
    "erf": Function(1, _erf, increasing(arb.erf, arb(-1), arb(1)), arb_series.erf, _chain(_bell), sympy="erf"),
    "sigmoid": Function(
        1,
        special.expit,
        increasing(intervals.sigmoid_point, arb(0), arb(1)),
        series.sigmoid,
        _chain(lambda u: over(ONE, plus(TWO, times(TWO, of("cosh", u))))),
    ),
    "softplus": Function(
        1, _softplus, increasing(intervals.softplus_point, arb(0)), series.softplus, _chain(lambda u: of("sigmoid", u))
    ),
}

NAMES: dict[str, str] = {
    written: name
    for name, function in FUNCTIONS.items()
    if not function.operator
    for written in (name, *function.aliases)
}

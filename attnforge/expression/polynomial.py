r"""Expressions that are polynomials, with rigorous coefficients.

Sums, products, non-negative integer powers and quotients by constants of polynomials are polynomials, and a function of
constants is a constant. One walk bottom up multiplies everything out: a subexpression is a map from exponents to balls.
Coefficients that are floats stay exact as long as 128 bits hold them, so that ``x*x - x^2`` cancels to nothing; terms
whose coefficient is exactly zero are dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flint import arb

from attnforge.expression.functions import function_of
from attnforge.expression.intervals import from_ball, to_ball
from attnforge.expression.linear import COEFFICIENT_BITS
from attnforge.expression.tree import Apply, Constant, Node, Variable, fold
from attnforge.outward.real import precision

MAX_DEGREE = 12  # in each variable, also of what cancels later
MAX_TERMS = 4096
MAX_PRODUCTS = 2**18  # of two coefficients, under a second: a short text can ask for far more

Exponents = tuple[int, ...]
_Terms = dict[Exponents, arb]


@dataclass(frozen=True, eq=False)
class Polynomial:
    """The sum of ``coefficient * x_1^e_1 * ... * x_D^e_D`` over ``terms``, a map from exponents to balls."""

    names: tuple[str, ...]
    terms: Mapping[Exponents, arb]

    @property
    def degrees(self) -> tuple[int, ...]:
        """The degree in each variable; 0 where it does not occur."""
        return _degrees(self.terms, len(self.names))


def polynomial(node: Node, names: Sequence[str], limit: int = MAX_DEGREE) -> Polynomial | None:
    """The polynomial in the named variables that the expression is, or None.

    None also if, multiplied out as written, some variable's degree exceeds ``limit``, there are more than 4096 terms,
    or multiplying out takes more than 2^18 products of coefficients.

    >>> from attnforge.expression.parse import parse
    >>> found = polynomial(parse("(x + y)^2/2 - x*y"), ["x", "y"])
    >>> found.degrees, sorted(found.terms.items())
    ((2, 2), [((0, 2), 0.500000000000000), ((2, 0), 0.500000000000000)])
    >>> polynomial(parse("sin(x)"), ["x"]) is None
    True
    """
    expansion = _Expansion(tuple(names), limit)
    with precision(COEFFICIENT_BITS):
        terms = fold(node, expansion.visit)
    return None if terms is None else Polynomial(tuple(names), terms)


class _Expansion:
    """The walk: its rules, and how many products of coefficients it may still form."""

    def __init__(self, names: tuple[str, ...], limit: int) -> None:
        self.names, self.limit = names, limit
        self.unit: Exponents = (0,) * len(names)
        self.products_left = MAX_PRODUCTS

    def visit(self, node: Node, arguments: Sequence[_Terms | None]) -> _Terms | None:
        if isinstance(node, Constant):
            return self._constant(arb(node.value))
        if isinstance(node, Variable):
            return self._variable(node.name)
        known = [terms for terms in arguments if terms is not None]
        if len(known) < len(arguments):
            return None
        return self._application(node, known)

    def _constant(self, value: arb) -> _Terms:
        return {} if value.is_zero() else {self.unit: value}

    def _variable(self, name: str) -> _Terms | None:
        if name not in self.names or self.limit < 1:
            return None
        return {tuple(int(name == each) for each in self.names): arb(1)}

    def _application(self, node: Apply, arguments: Sequence[_Terms]) -> _Terms | None:
        function = function_of(node)
        values = [self._value(terms) for terms in arguments]
        constants = [value for value in values if value is not None]
        if len(constants) == len(values):
            value = to_ball(function.interval(*(from_ball(each) for each in constants)))
            return self._constant(value) if value.is_finite() else None
        match node.function:
            case "+":
                return self._sum(arguments)
            case "-":
                return _scaled(arguments[0], arb(-1))
            case "*":
                return self._product(arguments)
            case "/":
                return self._quotient(arguments[0], values[1])
            case "^":
                return self._power(arguments[0], values[1])
        return None

    def _value(self, terms: _Terms) -> arb | None:
        """The number, if the polynomial is one."""
        if not terms:
            return arb(0)
        return terms[self.unit] if terms.keys() == {self.unit} else None

    def _sum(self, arguments: Sequence[_Terms]) -> _Terms | None:
        total: _Terms = {}
        for terms in arguments:
            for exponents, coefficient in terms.items():
                total[exponents] = total.get(exponents, arb(0)) + coefficient
            if len(total) > MAX_TERMS:
                return None
        return _without_zeros(total)

    def _product(self, factors: Sequence[_Terms]) -> _Terms | None:
        total: _Terms | None = self._constant(arb(1))
        for factor in factors:
            total = None if total is None else self._times(total, factor)
        return total

    def _times(self, left: _Terms, right: _Terms) -> _Terms | None:
        """All pairs of terms; given up as soon as there are too many."""
        degrees = (_degrees(terms, len(self.names)) for terms in (left, right))
        self.products_left -= len(left) * len(right)
        if self.products_left < 0 or (
            left and right and any(a + b > self.limit for a, b in zip(*degrees, strict=True))
        ):
            return None
        total: _Terms = {}
        for first, a in left.items():
            for second, b in right.items():
                exponents = tuple(i + j for i, j in zip(first, second, strict=True))
                total[exponents] = total.get(exponents, arb(0)) + a * b
            if len(total) > MAX_TERMS:
                return None
        return _without_zeros(total)

    def _quotient(self, above: _Terms, below: arb | None) -> _Terms | None:
        if below is None:
            return None
        divided = {exponents: coefficient / below for exponents, coefficient in above.items()}
        return divided if all(coefficient.is_finite() for coefficient in divided.values()) else None

    def _power(self, base: _Terms, exponent: arb | None) -> _Terms | None:
        times = _small_integer(exponent, self.limit)
        return None if times is None else self._product([base] * times)


def _degrees(terms: Mapping[Exponents, arb], inputs: int) -> tuple[int, ...]:
    return tuple(max(column) for column in zip(*terms, strict=True)) if terms else (0,) * inputs


def _scaled(terms: _Terms, factor: arb) -> _Terms:
    return {exponents: coefficient * factor for exponents, coefficient in terms.items()}


def _without_zeros(terms: _Terms) -> _Terms:
    return {exponents: coefficient for exponents, coefficient in terms.items() if not coefficient.is_zero()}


def _small_integer(value: arb | None, largest: int) -> int | None:
    """The number as an int, if it is certainly one of 0, 1, ..., largest."""
    return None if value is None else next((n for n in range(largest + 1) if value == n), None)

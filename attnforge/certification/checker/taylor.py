r"""Taylor coefficients in several variables, as balls: what a function is on a cell.

On a cell with middle m and radii r a function has coefficients ``at`` $c_\alpha$ at m and ``over`` $R_\alpha$, balls
that contain its Taylor coefficients at every point of the cell. Then, for $|t_i| \le r_i$,
$$ g(m + t) \in \sum_{|\alpha| < K} c_\alpha t^\alpha + \sum_{|\alpha| = K} R_\alpha t^\alpha , \qquad
   g(m + t) \in c_0 + \sum_i R_{e_i} t_i , \qquad g(m + t) \in R_0 . $$
NaN: nothing is known. At a kink the coefficients of degree one are Clarke's (both slopes), higher ones unknown.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import comb, inf, prod

import numpy as np
import numpy.typing as npt
from flint import arb

from attnforge.outward import gamma, lower, upper

Coefficients = list[arb]

SLACK = 1 + 2.0**-40  # covers the roundings of a sum or product of a few hundred positive floats
ZERO, ONE, UNKNOWN = arb(0), arb(1), arb("nan")
PIECES = 4  # of every side of a cell: Bernstein coefficients overshoot by less than 1/16 of a quadratic's swing


class Terms:
    """The multi-indices of total degree up to ``order``, lowest first, and where the sum of two of them stands."""

    def __init__(self, variables: int, order: int) -> None:
        every = itertools.product(range(order + 1), repeat=variables)
        self.exponents = sorted((a for a in every if sum(a) <= order), key=lambda a: (sum(a), a))
        self.degree = [sum(a) for a in self.exponents]
        place = {a: i for i, a in enumerate(self.exponents)}
        self.order, self.count = order, len(self.exponents)
        self.axes = [place[tuple(int(i == j) for i in range(variables))] for j in range(variables)]
        self.sums = [
            [place.get(tuple(x + y for x, y in zip(a, b, strict=True)), -1) for b in self.exponents]
            for a in self.exponents
        ]
        self.splits: list[list[tuple[int, int]]] = [[] for _ in self.exponents]  # k = i + rest, i not zero
        for i, row in enumerate(self.sums):
            for rest, k in enumerate(row):
                if i and k >= 0:
                    self.splits[k].append((i, rest))
        self.growth = [  # of the coefficients at k along t: (which coefficient, with which monomial, how many times)
            [
                (k, rest, prod(map(comb, self.exponents[k], self.exponents[rest])))
                for rest, k in enumerate(row)
                if rest and k >= 0
            ]
            for row in self.sums
        ]
        first = [next(i for i, power in enumerate(a) if power) for a in self.exponents[1:]]
        self.steps = [  # the first axis of a multi-index, its power there, and the multi-index without one of it
            (axis, a[axis], place[tuple(p - int(i == axis) for i, p in enumerate(a))])
            for axis, a in zip(first, self.exponents[1:], strict=True)
        ]

    def constant(self, value: arb) -> Coefficients:
        """The constant."""
        return [value] + [ZERO] * (self.count - 1)

    def multiply(self, a: Coefficients, b: Coefficients) -> Coefficients:
        """The product, up to the order."""
        found, right = [ZERO] * self.count, [(j, y) for j, y in enumerate(b) if y is not ZERO]
        for i, x in enumerate(a):
            if x is not ZERO:
                row = self.sums[i]
                for j, y in right:
                    k = row[j]
                    if k >= 0:
                        found[k] = x * y if found[k] is ZERO else found[k] + x * y
        return found

    def inverse(self, a: Coefficients) -> Coefficients:
        r"""One over it, $c_\gamma = -c_0 \sum_{\beta \ne 0} a_\beta c_{\gamma - \beta}$; unknown if it may vanish."""
        if a[0].contains(0) or not a[0].is_finite():
            return [UNKNOWN] * self.count
        first = 1 / a[0]
        rest = [x if x is ZERO else -first * x for x in a]
        found: Coefficients = [first] + [ZERO] * (self.count - 1)
        for k in range(1, self.count):
            for i, before in self.splits[k]:
                if rest[i] is not ZERO and found[before] is not ZERO:
                    found[k] = found[k] + rest[i] * found[before]
        return found

    def exponential(self, a: Coefficients) -> Coefficients:
        r"""$e^{a - a_0}$, by $\gamma_i c_\gamma = \sum_\beta \beta_i a_\beta c_{\gamma - \beta}$ from $c_0 = 1$."""
        found: Coefficients = [ONE] + [ZERO] * (self.count - 1)
        if all(x is ZERO for x in a[1 + len(self.axes) :]):  # a linear exponent: powers of its slopes
            for k, (axis, power, before) in enumerate(self.steps, start=1):
                slope = a[self.axes[axis]]
                if slope is not ZERO and found[before] is not ZERO:
                    found[k] = slope * found[before] if power == 1 else slope * found[before] / power
            return found
        for k, (axis, power, _) in enumerate(self.steps, start=1):
            total = ZERO
            for i, rest in self.splits[k]:
                share = self.exponents[i][axis]
                if share and a[i] is not ZERO and found[rest] is not ZERO:
                    total = total + (a[i] * found[rest] if share == 1 else share * a[i] * found[rest])
            found[k] = total if power == 1 or total is ZERO else total / power
        return found

    def compose(self, outer: list[arb], a: Coefficients) -> Coefficients:
        """g(a) from the Taylor coefficients of g at the constant term of a: Horner's scheme."""
        rest = [ZERO, *a[1:]]
        found = self.constant(outer[-1])
        for coefficient in reversed(outer[:-1]):
            found = self.multiply(found, rest)
            found[0] = coefficient
        return found


@lru_cache
def terms(variables: int, order: int) -> Terms:
    """The table, made once."""
    return Terms(variables, order)


@dataclass(frozen=True, eq=False)
class Model:
    """A function on a cell: coefficients at its middle, and over all of it.

    ``rest``, where it is known better than by the coefficients over the cell, is how far the function may be from the
    polynomial of all those at the middle.
    """

    at: Coefficients
    over: Coefficients
    rest: float | None = None

    def map(self, function: Callable[[Coefficients], Coefficients]) -> Model:
        """The same operation on both."""
        at = function(self.at)
        return Model(at, at if self.over is self.at else function(self.over))


class Cell:
    """A box: the middle and the radii of its variables, and the arithmetic of functions on it."""

    def __init__(self, low: tuple[float, ...], high: tuple[float, ...], order: int) -> None:
        self.lower, self.upper = low, high
        self.middle = [arb(a / 2 + b / 2) for a, b in zip(low, high, strict=True)]
        self.radius = [(arb(b) - m).max(m - arb(a)) for a, b, m in zip(low, high, self.middle, strict=True)]
        self.terms = terms(len(low), order)
        self.monomials = [self._monomial(exponent) for exponent in self.terms.exponents]

    def _monomial(self, exponent: tuple[int, ...]) -> arb:
        r"""The values of $t^\alpha$: between 0 and $r^\alpha$ where all powers are even."""
        size = ONE
        for r, power in zip(self.radius, exponent, strict=True):
            size = size * r**power
        return size.union(ZERO if all(power % 2 == 0 for power in exponent) else -size)

    def variable(self, which: int) -> Model:
        """One of the variables."""
        middle, radius = self.middle[which], self.radius[which]
        at, over = self.terms.constant(middle), self.terms.constant(middle + radius.union(-radius))
        at[self.terms.axes[which]] = over[self.terms.axes[which]] = ONE
        return Model(at, over)

    def constant(self, value: arb) -> Model:
        """A constant."""
        found = self.terms.constant(value)
        return Model(found, found)

    def add(self, *models: Model) -> Model:
        """The sum."""
        at, over = (
            [_sum(column) for column in zip(*side, strict=True)] for side in zip(*map(_sides, models), strict=True)
        )
        known = any(model.rest is not None for model in models)
        return Model(at, over, sum(map(self.rest, models)) * SLACK if known else None)

    def scale(self, factor: arb, model: Model) -> Model:
        """A multiple."""
        rest = None if model.rest is None else model.rest * upper(abs(factor)) * SLACK
        return replace(model.map(lambda c: _scaled(factor, c)), rest=rest)

    def multiply(self, a: Model, b: Model) -> Model:
        """The product, with its range tightened."""
        return self.tight(Model(self.terms.multiply(a.at, b.at), self.terms.multiply(a.over, b.over)))

    def exponential(self, a: Model) -> Model:
        """Its exponential, with its range tightened."""
        return self.tight(a.map(lambda c: _scaled(c[0].exp(), self.terms.exponential(c))))

    def divide(self, a: Model, b: Model) -> Model:
        r"""The quotient, with its range tightened.

        Its polynomial q times b's agrees with a's up to the order, so that what a/b differs from q by is
        $$ \Bigl(\rho_a - q\rho_b - \sum_{|\alpha + \beta| > K} q_\alpha b_\beta t^{\alpha + \beta}\Bigr) / b . $$
        """
        a, b = self.sharp(a), self.sharp(b)
        at, over = (self.terms.multiply(x, self.terms.inverse(y)) for x, y in zip(_sides(a), _sides(b), strict=True))
        top, bottom, least = self._by_degree(at), self._by_degree(b.at), lower(abs(self.range(b)))
        tail = sum(x * y for i, x in enumerate(top) for j, y in enumerate(bottom) if i + j > self.terms.order)
        rest = (self.rest(a) + sum(top) * self.rest(b) + tail) / least * SLACK if least > 0 else inf
        return self.tight(Model(at, over, rest))

    def _by_degree(self, coefficients: Coefficients) -> list[float]:
        """Bounds of the terms of every degree."""
        found = [0.0] * (self.terms.order + 1)
        for degree, c, t in zip(self.terms.degree, coefficients, self.monomials, strict=True):
            if c is not ZERO:
                found[degree] = (found[degree] + upper(abs(c * t))) * SLACK
        return found

    def rest(self, model: Model) -> float:
        """How far the function may be from the polynomial of its coefficients at the middle."""
        if model.rest is not None:
            return model.rest
        found, table = 0.0, self.terms
        for k in range(table.degree.index(table.order), table.count):
            if model.over[k] is not ZERO:
                found += upper(abs((model.over[k] - model.at[k]) * self.monomials[k]))
        return found * SLACK

    def tight(self, model: Model) -> Model:
        """The same, its range over the cell cut down to what all three expansions allow."""
        return replace(model, over=[self.range(model), *model.over[1:]])

    def sharp(self, model: Model) -> Model:
        r"""The same, every coefficient over the cell cut down to what those above it allow.

        The coefficients at $m + t$ are $\sum_\beta \binom{\alpha + \beta}{\beta} c_{\alpha + \beta} t^\beta$.
        """
        table, at, over = self.terms, model.at, list(model.over)
        for k in range(table.count):
            if table.degree[k] < table.order and at[k].is_finite():
                grown = [at[k]]
                for which, monomial, times in table.growth[k]:
                    coefficient = over[which] if table.degree[which] == table.order else at[which]
                    if coefficient is not ZERO:
                        grown.append(times * coefficient * self.monomials[monomial])
                over[k] = meet(over[k], _sum(grown))
        return replace(model, over=over)

    def range(self, model: Model) -> arb:
        """A ball that contains all values: the intersection of what the three expansions say."""
        at, over, found = model.at, model.over, model.over[0]
        if not at[0].is_finite():
            return found
        first = [at[0], *(over[k] * self.monomials[k] for k in self.terms.axes if over[k] is not ZERO)]
        found = meet(found, _sum(first))
        if is_affine(self, model):
            return found
        sides = zip(at[1:], over[1:], self.terms.degree[1:], self.monomials[1:], strict=True)
        chosen = ((o if degree == self.terms.order else a, t) for a, o, degree, t in sides)
        return meet(found, _sum([at[0], *(x * t for x, t in chosen if x is not ZERO)]))

    def largest(self, model: Model) -> tuple[float, float]:
        r"""A bound of the absolute value, sharper than the range where the function waves, and a size that is attained.

        The polynomial at the middle, in variables scaled to [-1, 1], lies between its smallest and its largest
        Bernstein coefficient on every one of some pieces of the cell; the radii of its coefficients and the rest are
        added. At the corners of pieces the coefficients are its values.
        """
        table, found, rest = self.terms, upper(abs(self.range(model))), self.rest(model)
        scales = [prod(map(pow, self.radius, a), start=ONE) for a in table.exponents]
        balls = [x * scale for x, scale in zip(model.at, scales, strict=True)]
        if not all(x.is_finite() for x in balls):
            return found, 0.0
        tensor = np.zeros([table.order + 1] * len(self.radius))
        for exponent, x in zip(table.exponents, balls, strict=True):
            tensor[exponent] = float(x.mid())
        loose = upper(sum((x.rad() for x in balls), start=ZERO))
        loose += gamma(len(self.radius) * (table.order + 4)) * float(np.abs(tensor).sum())
        for axis in range(tensor.ndim):
            tensor = np.moveaxis(np.tensordot(bernstein(table.order, PIECES), tensor, (1, axis)), 0, axis)
        sizes, corners = np.abs(tensor), np.arange(0, PIECES * (table.order + 1), table.order + 1)
        attained = sizes[np.ix_(*[corners] * sizes.ndim)].max()
        return min(found, (float(sizes.max()) + loose + rest) * SLACK), max(float(attained) - loose - rest, 0.0)


@lru_cache
def bernstein(order: int, pieces: int) -> npt.NDArray[np.float64]:
    r"""Bernstein coefficients on pieces of [-1, 1] of the monomials up to an order: (pieces (order + 1), order + 1).

    The i-th of $t^j$ on [a, b] is the mean, over all choices of j of the n numbers a, ..., a, b, ..., b (i times b), of
    their product; so none exceeds one.
    """
    rows = []
    for piece in range(pieces):
        a, b = (Fraction(2 * end, pieces) - 1 for end in (piece, piece + 1))
        for i in range(order + 1):
            rows.append([float(_mean_product(order, i, j, a, b)) for j in range(order + 1)])
    return np.array(rows)


def _mean_product(n: int, i: int, j: int, a: Fraction, b: Fraction) -> Fraction:
    chosen = (comb(i, s) * comb(n - i, j - s) * b**s * a ** (j - s) for s in range(max(0, j - n + i), min(i, j) + 1))
    return sum(chosen, start=Fraction(0)) / comb(n, j)


def _scaled(factor: arb, coefficients: Coefficients) -> Coefficients:
    return [x if x is ZERO else factor * x for x in coefficients]


def _sides(model: Model) -> tuple[Coefficients, Coefficients]:
    return model.at, model.over


def meet(a: arb, b: arb) -> arb:
    """A ball that contains what both contain."""
    if not a.is_finite():
        return b
    return a if not b.is_finite() else a.intersection(b)


def is_affine(cell: Cell, model: Model) -> bool:
    """Whether it has no coefficients of degree two or more."""
    return all(x is ZERO for x in model.over[1 + len(cell.terms.axes) :])


def _sum(column: Sequence[arb]) -> arb:
    total = ZERO
    for x in column:
        if x is not ZERO:
            total = x if total is ZERO else total + x
    return total

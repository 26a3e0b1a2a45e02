r"""Taylor models of many functions on many cells: polynomials with float64 coefficients, and a bound of the rest.

On a cell the variables are counted from its middle in units of its radii: $t \in [-1, 1]^D$. A model stands for every
function within ``rest`` of $\sum_{\alpha \in S} c_\alpha t^\alpha$ there, S the set of multi-indices. As no monomial
exceeds 1, sums of $|c_\alpha|$ bound polynomials, and products lose at most $\sum_{i + j \notin S} |a_i| |b_j|$. What
float64 rounds in coefficients goes to the rest: sums of n products are off by $\gamma_n$ of their sizes, in any order,
and by the smallest normal number for each that underflows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.kernel.degrees import Degrees
from attnforge.outward import Up, gamma
from attnforge.outward.arrays import TINY, UNIT, two_sum

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

EXPONENTIAL = 10 * UNIT  # relative: NumPy's exp is within 4 units in the last place, and is multiplied once
POWER = 1 + 2.0**-40  # powers of NumPy are raised by it
VANISHING = 2.0**-1000  # parts below it are as good as this
FARTHEST = 60.0  # the logarithm of the largest circle for Cauchy's bound of a tail: its powers do not overflow


@dataclass(frozen=True, eq=False)
class Models:
    """Coefficients ``c`` (multi-indices, ...) and the bound ``rest`` (...) of what they leave out."""

    table: Degrees
    c: Array
    rest: Up

    @classmethod
    def constant(cls, table: Degrees, values: Array) -> Models:
        """Numbers.

        >>> Models.constant(Degrees(1, 2), np.array([3.0])).c.ravel().tolist()
        [3.0, 0.0, 0.0]
        """
        c = np.zeros((len(table), *values.shape))
        c[0] = values
        return cls(table, c, Up.zeros(*values.shape))

    @classmethod
    def variables(cls, table: Degrees, lower: Array, upper: Array) -> Models:
        """The variables (C, D) on cells between these ends (C, D); those do not reach over where float64 allows it."""
        middle = lower / 2 + upper / 2
        sides = [(radius, lost != 0) for radius, lost in (two_sum(upper, -middle), two_sum(middle, -lower))]
        radius = np.maximum(*(np.where(lost, np.nextafter(side, np.inf), side) for side, lost in sides))
        found = cls.constant(table, middle)
        for i in range(table.inputs):
            found.c[table.place[tuple(int(i == k) for k in range(table.inputs))], :, i] = radius[:, i]
        return found

    @classmethod
    def joined(cls, parts: Sequence[Models], axis: int) -> Models:
        """Side by side along one of the last axes, counted from the end."""
        rest = np.concatenate([part.rest.values for part in parts], axis=axis)
        return cls(parts[0].table, np.concatenate([part.c for part in parts], axis=axis), Up(rest))

    @property
    def shape(self) -> tuple[int, ...]:
        """The axes after the multi-indices."""
        return self.rest.shape

    def __getitem__(self, index: Any) -> Models:
        """Some of the functions; the index is one of the axes after the first."""
        picked = index if isinstance(index, tuple) else (index,)
        return Models(self.table, self.c[(slice(None), *picked)], self.rest[picked])

    def shaped(self, *shape: int) -> Models:
        """The same functions on other axes."""
        rest = self.rest.values.reshape(shape)
        return Models(self.table, self.c.reshape(-1, *rest.shape), Up(rest))

    def by_degree(self) -> Up:
        """Sums of |coefficients| of each total degree (K + 1, ...)."""
        sizes = np.add.reduceat(np.abs(self.c), self.table.starts, axis=0)
        return Up.of(sizes) * (1.0 + gamma(2 * len(self.table)))

    def swing(self) -> Up:
        """How far a function may be from its first coefficient."""
        return Up(np.abs(self.c[1:])).sum(0) + self.rest

    def flat(self) -> Models:
        """As constants known within a radius: operations with them are those of intervals."""
        return Models.constant(self.table, self.c[0]).wider(self.swing())

    def varying(self) -> Array:
        """About how much the polynomials vary along each axis (..., D)."""
        return np.asarray(np.moveaxis(np.abs(self.c), 0, -1) @ self.table.exponents)

    def size(self) -> Up:
        """Upper bounds of |function|."""
        return self.swing() + Up.of(self.c[0])

    def range(self) -> tuple[Array, Array]:
        """Lower and upper bounds; exact ones, where float64 holds them, of what has at most one further coefficient."""
        sizes = np.abs(self.c[1:])
        plain = (np.count_nonzero(sizes, axis=0) <= 1) & (self.rest.values == 0)
        swing = np.where(plain, sizes.max(axis=0, initial=0.0), self.swing().values)
        (low, below), (high, above) = two_sum(self.c[0], -swing), two_sum(self.c[0], swing)
        below, above = (plain & (lost == 0) for lost in (below, above))
        return np.where(below, low, np.nextafter(low, -np.inf)), np.where(above, high, np.nextafter(high, np.inf))

    def wider(self, more: Up | npt.ArrayLike) -> Models:
        """With so much added to the rest."""
        return Models(self.table, self.c, self.rest + more)

    def __add__(self, other: Models) -> Models:
        c, lost = two_sum(self.c, other.c)
        return Models(self.table, c, self.rest + other.rest + Up.of(lost).sum(0))

    def __neg__(self) -> Models:
        return Models(self.table, -self.c, self.rest)

    def __sub__(self, other: Models) -> Models:
        return self + (-other)

    def scaled(self, factor: Array) -> Models:
        """Times numbers (...)."""
        c = self.c * factor
        rounding = Up(np.abs(c)).sum(0) * UNIT + np.where(factor == 0, 0.0, len(self.table) * TINY)
        return Models(self.table, c, self.rest * factor + rounding)

    def less(self, number: Array) -> Models:
        """Minus numbers (...)."""
        c = np.broadcast_to(self.c, (len(self.c), *np.broadcast_shapes(self.c.shape[1:], number.shape))).copy()
        c[0], lost = two_sum(c[0], -number)
        return Models(self.table, c, self.rest + Up.of(lost))

    def where(self, mask: npt.NDArray[np.bool_], other: Models) -> Models:
        """These functions where the mask says so, the other ones elsewhere."""
        rest = Up(np.where(mask, self.rest.values, other.rest.values))
        return Models(self.table, np.where(mask, self.c, other.c), rest)

    def only(self, mask: npt.NDArray[np.bool_]) -> Models:
        """The same where the mask says so, and nothing known elsewhere."""
        return Models(self.table, self.c, Up(np.where(mask, self.rest.values, np.inf)))

    def through(self, matrix: Array) -> Models:
        """Times a matrix (m, m'), or as many as fit (..., m, m'), along the last axis; entries may be rounded once."""
        some = self.present()
        rows = (
            self.c[some] @ matrix if matrix.ndim == 2 else np.moveaxis(np.moveaxis(self.c[some], 0, -2) @ matrix, -2, 0)
        )
        c = np.zeros((len(some), *rows.shape[1:]))
        c[some] = rows
        sizes, told = Up.of(matrix), Up(np.abs(self.c)).sum(0)[..., None, :]
        rest = (self.rest[..., None, :] @ sizes + (told @ sizes) * gamma(matrix.shape[-2] + 2))[..., 0, :]
        return Models(self.table, c, rest + self._underflow(matrix.shape[-2], c))

    def mixed(self, matrix: Array) -> Models:
        """A matrix (n', n) times these, along the axis before the last."""
        c, sizes, told = matrix @ self.c, Up.of(matrix), Up(np.abs(self.c)).sum(0)
        rest = sizes @ self.rest + (sizes @ told) * gamma(matrix.shape[1] + 2)
        return Models(self.table, c, rest + self._underflow(matrix.shape[1], c))

    def _underflow(self, terms: int, c: Array) -> Up:
        return Up(np.full(c.shape[1:], len(self.table) * terms * TINY))

    def sum(self, axis: int = -1) -> Models:
        """Sums along one of the last axes, counted from the end."""
        rounding = Up(np.abs(self.c)).sum(0).sum(axis) * gamma(self.c.shape[axis])
        return Models(self.table, self.c.sum(axis=axis), self.rest.sum(axis) + rounding)

    def __mul__(self, other: Models) -> Models:
        table = self.table
        one, two = sorted((self, other), key=lambda each: int(each.present().sum()))
        c = np.zeros((len(table), *np.broadcast_shapes(one.c.shape[1:], two.c.shape[1:])))
        for i in np.flatnonzero(one.present()):
            partners, sums = table.pairs[i]
            c[sums] += one.c[i] * (two.c if len(partners) == len(table) else two.c[partners])
        return Models(table, c, _product_rest(one, two))

    def present(self) -> npt.NDArray[np.bool_]:
        """The multi-indices with coefficients that are not all zero."""
        return np.asarray(self.c.reshape(len(self.c), -1).any(axis=1))

    def over(self, other: Models, least: Array) -> Models:
        r"""The quotient by functions that are at least this large, and positive.

        With q any polynomial, $|n/d - q| = |n - q d|/d$; its coefficients make all of $n - q d$ up to degree K vanish,
        to rounding.
        """
        table = self.table
        c = np.zeros_like(self.c)
        for row, (of, rest) in enumerate(_splits(table)):
            c[row] = (self.c[row] - (other.c[of] * c[rest]).sum(axis=0)) / other.c[0]
        found = Models(table, c, Up.zeros(*self.rest.shape))
        left = self.rest + _product_rest(found, other) + other.size() * (len(table) * TINY)
        return Models(table, c, left / least)

    def exp(self) -> Models:
        r"""$e^{c_0} e^{p + r}$, p a polynomial without constant term and r the rest.

        The coefficients of $e^p$ obey $\alpha_i e_\alpha = \sum_\beta \beta_i p_\beta e_{\alpha - \beta}$ for every i,
        and are at most those of the same with $|p_\beta|$, whose sum is $e^{A(1)}$, $A(z) = \sum_d A_d z^d$. Roundings
        add up to $\gamma_{K(n + 4)} e^{A(1)}$ of n coefficients of p, products that underflow to $4 T^2$ smallest
        normal numbers of that for T in all; what is left out, by Cauchy, to $\rho^{-K-1} e^{A(\rho)}$ for any
        $\rho \ge 1$. Where the range from zero on is as good, it is taken: far keys on large cells.
        """
        table, first = self.table, self.c[0]
        parts = self.by_degree()[1:]
        c = np.zeros_like(self.c)
        c[0] = 1.0
        present = self.present()
        terms = int(present[1:].sum())
        for row, (of, rest, share) in enumerate(_recursion(table), start=1):
            some = present[of]
            c[row] = (share[some].reshape(-1, *(1,) * first.ndim) * self.c[of[some]] * c[rest[some]]).sum(axis=0)
        whole = exp_above(first, parts.sum(0))
        tail = _exp_tail(first, parts)
        made = gamma(table.degree * (terms + 4)) + EXPONENTIAL + 4 * len(table) ** 2 * TINY
        lost = parts.sum(0).exp() * (4 * len(table) ** 2 * TINY)
        off = whole * (self.rest.expm1() + made) + tail + lost
        half = exp_above(first, self.swing()) * 0.5
        poor = ~(off.values < half.values)
        c = np.where(poor, 0.0, c * np.exp(first))
        c[0] = np.where(poor, half.values, c[0])
        return Models(table, c, Up(np.where(poor, half.values, off.values)))

    def between(self, low: Array, high: Array, spread: Up) -> Models:
        """The same functions, known to lie in a range: that is all there is where ``spread`` is no smaller than it."""
        middle = low / 2 + high / 2
        half = np.nextafter(np.maximum(high - middle, middle - low), np.inf)
        better = ~((spread.values >= half) | np.isnan(self.c[0]))
        c = np.where(better, self.c, 0.0)
        c[0] = np.where(better, c[0], middle)
        return Models(self.table, c, Up.of(np.where(better, self.rest.values, half)))


def _product_rest(one: Models, two: Models) -> Up:
    """What a product of models leaves out of its kept coefficients; zero times what is unknown is not known either."""
    table, a, b = one.table, np.abs(one.c), np.abs(two.c)
    first, second = Up(a).sum(0), Up(b).sum(0)
    kept = first * second
    members, beyond = table.classes
    some, left = (Up(np.tensordot(members, each, axes=1)) * (1.0 + gamma(2 * len(table))) for each in (a, b))
    left = Up(np.tensordot(beyond, left.values, axes=1)) * (1.0 + gamma(2 * len(table)))
    terms = min(int(each.present().sum()) for each in (one, two))  # of the sum that a coefficient is
    rest = one.rest * (second + two.rest) + first * two.rest + kept * gamma(terms + 2)
    rest = rest + (some * left).sum(0) + (kept.values > 0) * (len(table) ** 2 * TINY)
    return Up(np.where(np.isfinite(one.rest.values) & np.isfinite(two.rest.values), rest.values, np.inf))


def exp_above(first: Array, more: Up) -> Up:
    """Above exp(first + more)."""
    return Up.exp_of(np.nextafter(first + more.values, np.inf))


def _exp_tail(first: Array, parts: Up) -> Up:
    r"""$e^{c_0} \rho^{-K-1} e^{A(\rho)}$ for the best of some $\rho$: about where the largest $A_d \rho^d$ is K + 1."""
    degree = len(parts.values)
    steps = np.arange(1.0, degree + 1).reshape(-1, *(1,) * first.ndim)
    about = (np.log2((degree + 1) / np.maximum(parts.values, VANISHING)) / steps).min(axis=0)
    tail = Up(np.full(first.shape, np.inf))
    for less in (0.0, 0.5, 1.0, 2.0):
        radius = np.exp2(np.clip(about - less, 0.0, FARTHEST))
        whole = exp_above(first, (parts * (radius**steps * POWER)).sum(0))
        tail = tail.least(whole * (radius ** -(degree + 1.0) * POWER))
    return Up(np.where(parts.sum(0).values == 0, 0.0, tail.values))


@lru_cache
def _splits(table: Degrees) -> tuple[tuple[Indices, Indices], ...]:
    """For each multi-index, all ways to write it as a sum of two, the first of them not zero."""
    return tuple(_ways(table, row) for row in range(len(table)))


def _ways(table: Degrees, row: int) -> tuple[Indices, Indices]:
    below = np.flatnonzero((table.exponents[1 : row + 1] <= table.exponents[row]).all(axis=1)) + 1
    rest = [table.place[tuple(map(int, table.exponents[row] - table.exponents[of]))] for of in below]
    return below, np.array(rest, dtype=np.int64)


@lru_cache
def _recursion(table: Degrees) -> tuple[tuple[Indices, Indices, Array], ...]:
    r"""The same from the second on, with $\beta_i/\alpha_i$ for one i of each."""
    found = []
    for row, (of, rest) in list(enumerate(_splits(table)))[1:]:
        i = int(np.flatnonzero(table.exponents[row])[0])
        share = table.exponents[of, i] / table.exponents[row, i]
        found.append((of[share > 0], rest[share > 0], share[share > 0]))
    return tuple(found)

r"""Taylor models of many functions on many cells: polynomials with float64 coefficients, and a bound of the rest.

On a cell the variables are counted from its middle in units of its radii: $t \in [-1, 1]^D$. A model stands for every
function within ``remainder`` of $low + \sum_{\alpha \in S} c_\alpha t^\alpha$ there, S the set of multi-indices. The
constant coefficient is the one that does not shrink with the cell: with its low part it is a double-double number
(:mod:`attnforge.outward.pairs`), the others are rounded to float64, relative to what the cell lets functions vary. Who
knows nothing of low parts takes ``rest``, what coefficients leave out with them.

As no monomial exceeds 1, sums of $|c_\alpha|$ bound polynomials: $A = \sum_{\alpha \ne 0} |a_\alpha|$ for the higher
coefficients. What float64 rounds in these goes to the remainder: sums of n products are off by $\gamma_n$ of their
sizes, in any order, and by the smallest normal number for each that underflows. With (a, l, r) and (b, m, s) for
coefficients, low parts and remainders of two models, a product leaves out
$$ r (|b_0| + B + |m| + s) + s (|a_0| + A + |l|) + |l| B + |m| A
   + \gamma (A (|b_0| + B) + |a_0| B) + \sum_{i + j \notin S} |a_i| |b_j| $$
and what the product of the constant coefficients does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.kernel.degrees import Degrees
from attnforge.outward import Up, gamma, pairs
from attnforge.outward.arrays import TINY, UNIT, two_sum
from attnforge.outward.pairs import Pairs, expm1_above, matrix_product

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Models:
    """Coefficients ``c`` (multi-indices, ...), the bound ``remainder`` (...), and low parts of constants, if any."""

    table: Degrees
    c: Array
    remainder: Up
    low: Array | None = None

    @classmethod
    def constant(cls, table: Degrees, values: Array, low: Array | None = None) -> Models:
        """Numbers.

        >>> Models.constant(Degrees(1, 2), np.array([3.0])).c.ravel().tolist()
        [3.0, 0.0, 0.0]
        """
        c = np.zeros((len(table), *values.shape))
        c[0] = values
        return cls(table, c, Up.zeros(*values.shape), low)

    @classmethod
    def variables(cls, table: Degrees, lower: Array, upper: Array) -> Models:
        """The variables (C, D) on cells between these ends (C, D); those do not reach over where float64 allows it.

        A variable of which the set has no monomial is a constant known within the radius.
        """
        middle = lower / 2 + upper / 2
        sides = [(radius, lost != 0) for radius, lost in (two_sum(upper, -middle), two_sum(middle, -lower))]
        radius = np.maximum(*(np.where(lost, np.nextafter(side, np.inf), side) for side, lost in sides))
        found, unit = cls.constant(table, middle), np.eye(table.inputs, dtype=np.int64)
        for i, row in enumerate(map(tuple, unit.tolist())):
            if row in table.place:
                found.c[table.place[row], :, i] = radius[:, i]
            else:
                found.remainder.values[:, i] = radius[:, i]
        return found

    @classmethod
    def joined(cls, parts: Sequence[Models], axis: int) -> Models:
        """Side by side along one of the last axes, counted from the end."""
        remainder = Up(np.concatenate([part.remainder.values for part in parts], axis=axis))
        low = None
        if any(part.low is not None for part in parts):
            low = np.concatenate([np.broadcast_to(part.centre.lo, part.c.shape[1:]) for part in parts], axis=axis)
        return cls(parts[0].table, np.concatenate([part.c for part in parts], axis=axis), remainder, low)

    @property
    def shape(self) -> tuple[int, ...]:
        """The axes after the multi-indices."""
        return self.remainder.shape

    @property
    def centre(self) -> Pairs:
        """The constant coefficients."""
        return Pairs.of(self.c[0], self.low)

    @property
    def rest(self) -> Up:
        """What the coefficients leave out, low parts included."""
        return self.remainder if self.low is None else self.remainder + self.low

    def __getitem__(self, index: Any) -> Models:
        """Some of the functions; the index is one of the axes after the first."""
        picked = index if isinstance(index, tuple) else (index,)
        low = None if self.low is None else self.low[picked]
        return Models(self.table, self.c[(slice(None), *picked)], self.remainder[picked], low)

    def shaped(self, *shape: int) -> Models:
        """The same functions on other axes."""
        remainder = self.remainder.values.reshape(shape)
        low = None if self.low is None else self.low.reshape(remainder.shape)
        return Models(self.table, self.c.reshape(-1, *remainder.shape), Up(remainder), low)

    def stretched(self, *shape: int) -> Models:
        """The same functions as often as these axes have them."""
        low = None if self.low is None else np.broadcast_to(self.low, shape)
        c = np.broadcast_to(self.c, (len(self.c), *shape))
        return Models(self.table, c, Up(np.broadcast_to(self.remainder.values, shape)), low)

    def placed(self, index: Any, other: Models) -> Models:
        """The same, with the functions at an index replaced by others."""
        picked = index if isinstance(index, tuple) else (index,)
        c, remainder = self.c.copy(), self.remainder.values.copy()
        c[(slice(None), *picked)], remainder[picked] = other.c, other.remainder.values
        if self.low is None and other.low is None:
            return Models(self.table, c, Up(remainder))
        low = np.array(np.broadcast_to(self.centre.lo, c.shape[1:]))
        low[picked] = other.centre.lo
        return Models(self.table, c, Up(remainder), low)

    def moved(self, axis: int, to: int) -> Models:
        """The same functions with one of the last axes elsewhere, both counted from the end."""
        c, remainder = (np.moveaxis(each, axis, to) for each in (self.c, self.remainder.values))
        return Models(self.table, c, Up(remainder), None if self.low is None else np.moveaxis(self.low, axis, to))

    def varied(self) -> Up:
        """How far polynomials may be from their constant coefficients."""
        return Up(np.abs(self.c[1:])).sum(0)

    def swing(self) -> Up:
        """How far a function may be from its first coefficient."""
        return self.varied() + self.rest

    def flat(self) -> Models:
        """As constants known within a radius: operations with them are those of intervals."""
        return Models.constant(self.table, self.c[0], self.low).wider(self.remainder + self.varied())

    def varying(self) -> Array:
        """About how much the polynomials vary along each axis (..., D)."""
        return np.asarray(np.moveaxis(np.abs(self.c), 0, -1) @ self.table.exponents)

    def size(self) -> Up:
        """Upper bounds of |function|."""
        return self.swing() + Up.of(self.c[0])

    def range(self) -> tuple[Array, Array]:
        """Lower and upper bounds; exact ones, where float64 holds them, of what has at most one further coefficient."""
        sizes, rest = np.abs(self.c[1:]), self.rest
        plain = (np.count_nonzero(sizes, axis=0) <= 1) & (rest.values == 0)
        swing = np.where(plain, sizes.max(axis=0, initial=0.0), (self.varied() + rest).values)
        (low, below), (high, above) = two_sum(self.c[0], -swing), two_sum(self.c[0], swing)
        below, above = (plain & (lost == 0) for lost in (below, above))
        return np.where(below, low, np.nextafter(low, -np.inf)), np.where(above, high, np.nextafter(high, np.inf))

    def wider(self, more: Up | npt.ArrayLike) -> Models:
        """With so much added to the remainder."""
        return Models(self.table, self.c, self.remainder + more, self.low)

    def __add__(self, other: Models) -> Models:
        c, lost = two_sum(self.c, other.c)
        centre, error = self.centre.plus(other.centre)
        return self._of(c, centre, self.remainder + other.remainder + Up.of(lost[1:]).sum(0) + error)

    def __neg__(self) -> Models:
        return Models(self.table, -self.c, self.remainder, None if self.low is None else -self.low)

    def __sub__(self, other: Models) -> Models:
        return self + (-other)

    def _of(self, c: Array, centre: Pairs, remainder: Up) -> Models:
        """With these higher coefficients and this centre."""
        c[0] = centre.hi
        return Models(self.table, c, remainder, centre.lo if centre.lo.any() else None)

    def scaled(self, factor: Array, low: Array | None = None) -> Models:
        """Times numbers (...), with low parts if they have any."""
        centre, error = self.centre.times(Pairs.of(factor, low))
        c, sizes = self.c * factor, Up.of(factor)
        rounding = Up(np.abs(c[1:])).sum(0) * UNIT + Up(np.where(np.abs(factor) > 0, len(self.table) * TINY, 0.0))
        exact = (factor == 0) | (np.abs(factor) == 1)
        rest = self.remainder * sizes + Up(np.where(exact, 0.0, rounding.values)) + error
        if low is not None:
            rest = rest + (self.remainder + self.varied()) * low
        return self._of(c, centre, rest)

    def less(self, number: Array, low: Array | None = None) -> Models:
        """Minus numbers (...), with low parts if they have any."""
        centre, error = self.centre.plus(Pairs.of(-number, None if low is None else -low))
        c = np.broadcast_to(self.c, (len(self.c), *centre.hi.shape)).copy()
        return self._of(c, centre, self.remainder + error)

    def where(self, mask: Mask, other: Models) -> Models:
        """These functions where the mask says so, the other ones elsewhere."""
        remainder = Up(np.where(mask, self.remainder.values, other.remainder.values))
        low = np.where(mask, self.centre.lo, other.centre.lo)
        return Models(self.table, np.where(mask, self.c, other.c), remainder, low if low.any() else None)

    def only(self, mask: Mask) -> Models:
        """The same where the mask says so, and nothing known elsewhere."""
        return Models(self.table, self.c, Up(np.where(mask, self.remainder.values, np.inf)), self.low)

    def through(self, matrix: Array, low: Array | None = None) -> Models:
        """Times a matrix (m, m'), or as many as fit (..., m, m'), along the last axis; it may have a low part."""
        some = np.flatnonzero(self.present())[int(self.c[0].any()) :]
        centre, error = self.centre.through(Pairs.of(matrix, low))
        c = np.zeros((len(self.c), *centre.hi.shape))
        c[some] = matrix_product(self.c[some], matrix)
        terms, varied = matrix.shape[-2], self.varied()
        rest = _product(self.remainder + varied * gamma(terms), Up.of(matrix)) + error
        if low is not None:
            rest = rest + _product(self.remainder + varied, Up.of(low))
        return self._of(c, centre, rest + len(some) * terms * TINY)

    def mixed(self, matrix: Array) -> Models:
        """A matrix (n', n) times these, along the axis before the last."""
        return self.moved(-1, -2).through(matrix.T).moved(-1, -2)

    def sum(self, axis: int = -1) -> Models:
        """Sums along one of the last axes, counted from the end."""
        centre, error = self.centre.sum(axis)
        rounding = self.varied().sum(axis) * gamma(self.c.shape[axis])
        return self._of(self.c.sum(axis=axis), centre, self.remainder.sum(axis) + rounding + error)

    def __mul__(self, other: Models) -> Models:
        one, two = sorted((self, other), key=lambda each: int(each.present().sum()))
        c = np.zeros((len(self.table), *np.broadcast_shapes(one.c.shape[1:], two.c.shape[1:])))
        factors, every = two.present(), np.arange(len(self.table))
        for i in np.flatnonzero(one.present()):
            partners, sums = (each[factors[self.table.pairs[i][0]]] for each in self.table.pairs[i])
            c[sums] += one.c[i] * (two.c if len(partners) == len(every) else two.c[partners])
        centre, error = one.centre.times(two.centre)
        terms = int(one.present().sum())
        first, second = (Up.of(each.c[0]) for each in (one, two))
        rounding = (one.varied() * (second + two.varied()) + first * two.varied()) * gamma(terms)
        rounding = rounding + Up(np.where(rounding.values > 0, len(every) ** 2 * TINY, 0.0))
        return self._of(c, centre, _left_out(one, two) + rounding + error)

    def present(self) -> Mask:
        """The multi-indices with coefficients that are not all zero."""
        return np.asarray(self.c.reshape(len(self.c), -1).any(axis=1))

    def over(self, other: Models, least: Array) -> Models:
        r"""The quotient by functions that are at least this large, and positive.

        With q any polynomial, $|n/d - q| = |n - q d|/d$; its coefficients make all of $n - q d$ up to the last one
        vanish, to rounding: $q_\alpha d_0$ is what k subtractions of products leave of $n_\alpha$, and is off by a
        roundoff of itself; $\gamma_{k+2}$ of all of these together, and of $n_\alpha$.
        """
        table, some = self.table, other.present()
        centre, residual = self.centre.over(other.centre)
        c = np.zeros((len(table), *centre.hi.shape))
        c[0] = centre.hi
        for row, ways in enumerate(table.splits[1:], start=1):
            c[row] = self.c[row]
            for i, j in ways:
                if some[i]:
                    c[row] -= other.c[i] * c[j]
            c[row] /= other.c[0]
        found = self._of(c, centre, Up.zeros(*centre.hi.shape))
        first, second = (Up.of(each.c[0]) for each in (found, other))
        sizes = found.varied() * (second + other.varied()) + first * other.varied() + self.varied()
        left = self.remainder + _left_out(found, other) + residual + sizes * gamma(int(some.sum()) + 2)
        left = left + (second + 1.0) * (len(table) ** 2 * TINY)
        return Models(table, c, left / least, found.low)

    def exp(self) -> Models:
        r"""$e^{c_0 + l} e^{p + r}$, p a polynomial without constant term and $|r|$ at most the remainder.

        The coefficients of $e^p$ obey $\alpha_i e_\alpha = \sum_\beta \beta_i p_\beta e_{\alpha - \beta}$ for every i,
        and are at most those of the same with $|p_\beta|$, $E_\alpha$, whose sum is $e^A$. With n coefficients of p,
        each step takes n + 2 roundings, and their product by a number one, so that that of $e_\alpha$ is off by
        $\gamma_{|\alpha| (n + 3)} E_\alpha$; and $\sum_\alpha |\alpha| E_\alpha = A' e^A$ with
        $A' = \sum_\beta |\beta| |p_\beta|$, while $\gamma_{jk} \le \gamma_{Kk} j/K$ for $j \le K$. What underflows in
        one of $T^2$ products is like a term of p of another start: two smallest normal numbers, times $e^A$. For what
        is left out see :func:`_left_out_of_exponential`.

        $e^{c_0 + l} = g + h + \eta$: of the higher coefficients only $g e_\alpha$ is taken, rounded once. Where the
        range from zero on is as good, it is taken: far keys on large cells.
        """
        table, value, wrong = self.table, *self.centre.exp()
        varied, some = self.varied(), self.present()
        sizes = np.abs(self.c)
        slope = Up(np.tensordot(table.totals * 1.0, sizes, axes=1)) * (1.0 + gamma(2 * len(table)))
        e = self._powers(some)
        less, top = expm1_above(varied), max(int(table.totals[-1]), 1)
        whole = less + 1.0
        made = slope * whole * (gamma(top * (int(some.sum()) + 3)) / top * (1 + 2.0**-40))
        made = made + whole * (4 * len(table) ** 2 * TINY)
        tail = _left_out_of_exponential(table, sizes)
        beside = Up.of(value.lo) + wrong
        c = e * value.hi
        off = (beside + value.hi) * (whole * expm1_above(self.remainder) + made + tail)
        off = off + beside * (less + made) + wrong + len(table) * TINY
        half = exp_above(self.c[0], self.swing()) * 0.5
        poor = ~(off.values < half.values)
        c = np.where(poor, 0.0, c)
        c[0] = np.where(poor, np.where(np.isfinite(half.values), half.values, 0.0), value.hi)
        return Models(table, c, Up(np.where(poor, half.values, off.values)), np.where(poor, 0.0, value.lo))

    def _powers(self, some: Mask) -> Array:
        """The coefficients of the exponential of the polynomial without its constant term."""
        e = np.zeros(self.c.shape)
        e[0] = 1.0
        for row, ways in enumerate(self.table.recursion[1:], start=1):
            for i, j, share in ways:
                if some[i]:
                    e[row] += self.c[i] * e[j] * share if share < 1 else self.c[i] * e[j]
        return e

    def between(self, low: Array, high: Array, spread: Up) -> Models:
        """The same functions, known to lie in a range: that is all there is where ``spread`` is no smaller than it."""
        middle = low / 2 + high / 2
        half = np.nextafter(np.maximum(high - middle, middle - low), np.inf)
        better = ~((spread.values >= half) | np.isnan(self.c[0]))
        c = np.where(better, self.c, 0.0)
        c[0] = np.where(better, c[0], middle)
        least = None if self.low is None else np.where(better, self.low, 0.0)
        return Models(self.table, c, Up.of(np.where(better, self.remainder.values, half)), least)


def _left_out(one: Models, two: Models) -> Up:
    """What a product leaves out but for rounding; zero times what is unknown is not known either."""
    first, second = (Up.of(each.c[0]) + each.varied() + each.centre.lo for each in (one, two))
    rest = one.remainder * (second + two.remainder) + first * two.remainder
    rest = rest + two.varied() * one.centre.lo + one.varied() * two.centre.lo
    members, beyond = one.table.classes
    slack = 1.0 + gamma(2 * len(one.table))
    left, right = (Up(np.tensordot(members, np.abs(each.c), axes=1)) * slack for each in (one, two))
    rest = rest + (left * (Up(np.tensordot(beyond, right.values, axes=1)) * slack)).sum(0)
    known = np.isfinite((first + one.remainder).values) & np.isfinite((second + two.remainder).values)
    return Up(np.where(known, rest.values, np.inf))


def _product(rows: Up, matrix: Up) -> Up:
    """Upper bounds of rows (..., m) times a matrix (m, m'), or as many as fit."""
    return (rows[..., None, :] @ matrix)[..., 0, :]


def exp_above(first: Array, more: Up) -> Up:
    """Above exp(first + more)."""
    return pairs.exp_above(np.nextafter(first + more.values, np.inf))


def _left_out_of_exponential(table: Degrees, sizes: Array) -> Up:
    r"""What $e^p$ has beyond the set, p with coefficients of at most these sizes (T, ...).

    Let L be the sum of those of variables that enter alone, B that of all others. $e^p$ is the product of the
    exponentials of both, so that monomials with some of the first, which are left out but for these themselves, add up
    to $e^B (e^L - 1 - L) + L (e^B - 1)$ at most, and $e^L - 1 - L \le e^L L^2/2$.

    What is left out of the others exceeds some n in a grading (total degree, or degree in one variable). Let $A_k$ be
    the sum of the sizes of degree k, $E_d$ the coefficients of $\exp \sum_k A_k z^k$, with $d E_d = \sum_k k A_k
    E_{d-k}$, and $R_j = \sum_{d > j} E_d$, which is $e^B$ for negative j. Summing up from d = j + 1 on,
    $$ (j + 1) R_j \le \sum_{d > j} d E_d = \sum_k k A_k R_{j-k}, $$
    sums of positive terms alone: so the bound is as good for small cells as for large ones. $R_n$ bounds what is left
    out for this grading.
    """
    together = np.where(table.alone.reshape(-1, *(1,) * (sizes.ndim - 1)), 0.0, sizes)
    together[0] = 0.0
    base, lone = Up(together).sum(0), Up(sizes[table.alone]).sum(0)
    whole = expm1_above(base) + 1.0
    found = Up.zeros(*base.shape)
    for most, degree in table.gradings:
        found = found + _beyond(most, degree, together, whole)
    if not table.alone.any():
        return found
    return found + whole * (expm1_above(lone) + 1.0) * lone * lone * 0.5 + lone * expm1_above(base)


def _beyond(most: int, degree: npt.NDArray[np.int64], sizes: Array, whole: Up) -> Up:
    r"""$R_n$, n = ``most``: n + 1 steps of T + m + 8 roundings for m parts, which may underflow m + 1 times."""
    parts = {k: sizes[degree == k].sum(axis=0) * k for k in range(1, int(degree.max(initial=0)) + 1)}
    parts = {k: part for k, part in parts.items() if part.any()}
    tails: list[Array] = []
    for j in range(most + 1):
        terms = (part * (tails[j - k] if j >= k else whole.values) for k, part in parts.items())
        bound = sum(terms, start=np.zeros(whole.shape)) / (j + 1) + (len(parts) + 1) * TINY
        tails.append(np.minimum(bound, tails[-1] if tails else whole.values))
    some = np.any(list(parts.values()), axis=0) if parts else np.zeros(whole.shape, dtype=bool)
    slack = 1.0 + gamma(2 * (most + 1) * (len(sizes) + len(parts) + 8))
    return Up(np.where(some, tails[-1], 0.0)) * slack

r"""Truncated power series in several variables, on many cells at once, with coefficients that are balls.

A jet of degree K in D variables is $\sum_{|\alpha| \le K} c_\alpha t^\alpha$. Its coefficients $c_\alpha$ are held as
float64 midpoints and radii of shape (multi-indices, cells), and every operation encloses the exact coefficients: a sum
of n products errs by at most $\gamma_{n+1}\sum |ab|$, whatever the order of summation, and what underflows is covered
by the smallest normal number. NaN means that nothing is known.

With the constant terms of the variables around a whole cell, the coefficients of degree K enclose
$\partial^\alpha f / \alpha!$ on all of it, hence Lagrange's remainder.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations_with_replacement

import numpy as np
import numpy.typing as npt

from attnforge.balls.arrays import RADIUS_SLACK, TINY, UNIT, Balls, gamma

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Degrees:
    """The multi-indices of total degree at most ``degree`` in ``inputs`` variables, lowest degree first."""

    inputs: int
    degree: int

    @cached_property
    def exponents(self) -> Indices:
        """(multi-indices, inputs).

        >>> Degrees(2, 1).exponents.tolist()
        [[0, 0], [0, 1], [1, 0]]
        """
        axes = range(self.inputs)
        chosen = (combinations_with_replacement(axes, total) for total in range(self.degree + 1))
        every = (tuple(map(each.count, axes)) for some in chosen for each in some)
        return np.array(sorted(every, key=lambda a: (sum(a), a)), dtype=np.int64)

    @cached_property
    def totals(self) -> Indices:
        """Total degrees (multi-indices,)."""
        return np.asarray(self.exponents.sum(axis=1))

    @cached_property
    def starts(self) -> Indices:
        """Where each total degree starts."""
        return np.searchsorted(self.totals, np.arange(self.degree + 1))

    @cached_property
    def place(self) -> dict[tuple[int, ...], int]:
        """Where a multi-index stands."""
        return {tuple(map(int, exponent)): i for i, exponent in enumerate(self.exponents)}

    @cached_property
    def targets(self) -> tuple[Indices, ...]:
        """For each multi-index i, where i + j stands, for all j of total degree up to K - |i|."""
        return tuple(
            np.array([self.place[tuple(map(int, first + second))] for second in self.exponents[: self.count(left)]])
            for first, left in zip(self.exponents, self.degree - self.totals, strict=True)
        )

    def count(self, degree: int) -> int:
        """How many multi-indices have at most this total degree: the first so many."""
        return int((self.totals <= degree).sum())

    def __len__(self) -> int:
        return len(self.exponents)


@lru_cache
def degrees(inputs: int, degree: int) -> Degrees:
    """The table of multi-indices, made once."""
    return Degrees(inputs, degree)


@dataclass(frozen=True, eq=False)
class Jets:
    """Coefficients (multi-indices, cells) as midpoints and radii."""

    table: Degrees
    mid: Array
    rad: Array

    @classmethod
    def constant(cls, table: Degrees, mid: Array, rad: Array) -> Jets:
        """The constants within ``rad`` of ``mid``, one a cell.

        >>> Jets.constant(degrees(2, 1), np.array([3.0]), np.array([0.5])).mid.ravel().tolist()
        [3.0, 0.0, 0.0]
        """
        middle, radius = np.zeros((2, len(table), len(mid)))
        middle[0], radius[0] = mid, rad
        return cls(table, middle, radius)

    @classmethod
    def variable(cls, table: Degrees, which: int, mid: Array, rad: Array) -> Jets:
        """The variable $x_i = m + t_i$, m within ``rad`` of ``mid``."""
        found = cls.constant(table, mid, rad)
        found.mid[table.place[tuple(int(i == which) for i in range(table.inputs))]] = 1.0
        return found

    @property
    def known(self) -> npt.NDArray[np.bool_]:
        """The cells on which every coefficient is finite."""
        return np.asarray(np.isfinite(self.mid).all(axis=0) & np.isfinite(self.rad).all(axis=0))

    def balls(self) -> Balls:
        """The coefficients as a ball array."""
        return Balls(self.mid, self.rad)

    def __add__(self, other: Jets) -> Jets:
        found = self.balls() + other.balls()
        return Jets(self.table, found.mid, found.rad)

    def __neg__(self) -> Jets:
        return Jets(self.table, -self.mid, self.rad)

    def __sub__(self, other: Jets) -> Jets:
        return self + (-other)

    def __mul__(self, other: Jets) -> Jets:
        return self._times(other, self.table.degree)

    def where(self, mask: npt.NDArray[np.bool_], other: Jets) -> Jets:
        """These coefficients on the cells of the mask, the other's elsewhere."""
        return Jets(self.table, np.where(mask, self.mid, other.mid), np.where(mask, self.rad, other.rad))

    def only(self, mask: npt.NDArray[np.bool_]) -> Jets:
        """The same on the cells of the mask, and nothing known elsewhere."""
        return Jets(self.table, np.where(mask, self.mid, np.nan), np.where(mask, self.rad, np.nan))

    def compose(self, outer: Balls) -> Jets:
        """g(u) from the Taylor coefficients (K + 1, cells) of g at u's constant term: Horner in the rest of u."""
        table, rest = self.table, Jets(self.table, self.mid.copy(), self.rad.copy())
        rest.mid[0], rest.rad[0] = 0.0, 0.0
        result = Jets.constant(table, outer.mid[-1], outer.rad[-1])
        for j in range(table.degree - 1, -1, -1):
            # What is still to be multiplied j times by a series without constant term counts up to degree K - j.
            result = rest._times(result, table.degree - j)
            result = Jets(table, result.mid, result.rad)
            result.mid[0], result.rad[0] = outer.mid[j], outer.rad[j]
        return result.only(self.known & np.isfinite(outer.mid).all(axis=0) & np.isfinite(outer.rad).all(axis=0))

    def _times(self, other: Jets, degree: int) -> Jets:
        """The product up to a total degree; rows of zeros are passed over, and unknown cells stay unknown."""
        table, (a, b) = self.table, sorted((self, other), key=lambda jets: int(jets._present().sum()))
        mid, rad = np.zeros((2, *a.mid.shape))
        size, present = np.abs(a.mid), b._present()
        growth = gamma(len(table) + 2)
        wide = np.abs(b.mid) + b.rad
        wrong = b.rad + growth * np.abs(b.mid)
        for i in np.flatnonzero(a._present()):
            span = table.count(degree - int(table.totals[i]))
            chosen = np.flatnonzero(present[:span])
            if len(chosen):
                source: slice | Indices = slice(0, span) if len(chosen) == span else chosen
                target = table.targets[i][source]
                mid[target] += a.mid[i] * b.mid[source]
                more = size[i] * wrong[source] + TINY
                if a.rad[i].any():
                    more += a.rad[i] * wide[source]
                rad[target] += more
        rad *= RADIUS_SLACK
        return Jets(table, mid, rad).only(np.isfinite(a.mid[0] + a.rad[0] + b.mid[0] + b.rad[0]))

    def _present(self) -> npt.NDArray[np.bool_]:
        return np.asarray(self.mid.any(axis=1) | self.rad.any(axis=1))


def exponential(score: Balls) -> Balls:
    r"""The balls $e^m \cosh d \pm e^m \sinh d$ around $e^{m \pm d}$.

    NumPy's exp, cosh and sinh are taken to be within 4 units in the last place, that is 8 roundoffs.

    >>> bool(abs(exponential(Balls.exact(1.0)).mid - np.e) < 1e-15)
    True
    """
    with np.errstate(over="ignore", invalid="ignore"):
        at = np.exp(score.mid)
        mid, spread = at * np.cosh(score.rad), at * np.sinh(score.rad)
        return Balls(np.asarray(mid), np.asarray(spread * RADIUS_SLACK + 20 * UNIT * mid + TINY))


def exp(u: Jets) -> Jets:
    r"""$e^u$: its coefficients at $u_0$ are $e^{u_0}/j!$."""
    rows = [exponential(Balls(u.mid[0], u.rad[0]))]
    for j in range(1, u.table.degree + 1):
        rows.append(rows[-1] * Balls(np.asarray(1.0 / j), np.asarray(UNIT / j)))
    return u.compose(_stacked(rows))


def reciprocal(u: Jets) -> Jets:
    r"""The inverse 1 / u: its coefficients at $u_0$ are $(-1)^j u_0^{-j-1}$; unknown where u may vanish."""
    mid, rad = u.mid[0], u.rad[0]
    low, high = np.nextafter(np.abs(mid) - rad, -np.inf), np.nextafter(np.abs(mid) + rad, np.inf)
    with np.errstate(all="ignore"):
        size = Balls.between(np.nextafter(1.0 / high, 0.0), np.nextafter(1.0 / low, np.inf))
    inverse = Balls(np.where(low > 0, np.sign(mid) * size.mid, np.nan), size.rad)
    rows = [inverse]
    for _ in range(u.table.degree):
        rows.append(rows[-1] * Balls(-inverse.mid, inverse.rad))
    return u.compose(_stacked(rows))


def _stacked(rows: list[Balls]) -> Balls:
    return Balls(np.stack([row.mid for row in rows]), np.stack([row.rad for row in rows]))

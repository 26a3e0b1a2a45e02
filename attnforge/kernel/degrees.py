r"""Multi-indices: the exponents $\alpha$ of the monomials $t^\alpha$ that models keep, in a fixed order.

The sets are down-closed: with $\alpha$ they hold every $\beta \le \alpha$, so that powers, quotients and exponentials
of polynomials need no coefficient that is left out. At most ``degree`` in total, at most ``limits[i]`` in variable i;
and variables whose limit is one may enter *alone*: what they multiply is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Degrees:
    """The multi-indices of total degree at most ``degree`` in ``inputs`` variables, lowest degree first.

    >>> Degrees(2, 3, limits=(3, 1), lone=True).exponents.tolist()
    [[0, 0], [0, 1], [1, 0], [2, 0], [3, 0]]
    """

    inputs: int
    degree: int
    limits: tuple[int, ...] = ()  # the largest exponent of each variable; none means the total degree
    lone: bool = False  # whether products of a variable whose largest exponent is one are left out

    @property
    def most(self) -> tuple[int, ...]:
        """The largest exponent of each variable."""
        return tuple(min(limit, self.degree) for limit in self.limits or (self.degree,) * self.inputs)

    @property
    def single(self) -> Mask:
        """The variables that enter alone (inputs,)."""
        return np.array([self.lone and most == 1 for most in self.most], dtype=bool)

    @cached_property
    def exponents(self) -> Indices:
        """(multi-indices, inputs).

        >>> Degrees(2, 1).exponents.tolist()
        [[0, 0], [0, 1], [1, 0]]
        """
        level, every = [(0,) * self.inputs], [(0,) * self.inputs]
        while level:
            level = [after for each in level for after in self._after(each)]
            every += level
        return np.array(sorted(every, key=lambda a: (sum(a), a)), dtype=np.int64).reshape(len(every), self.inputs)

    def _after(self, exponent: tuple[int, ...]) -> list[tuple[int, ...]]:
        """Those of one degree more that have no variable before the last one of this: so each is made once."""
        last = max((i for i, power in enumerate(exponent) if power), default=0)
        more = ((*exponent[:i], exponent[i] + 1, *exponent[i + 1 :]) for i in range(last, self.inputs))
        made = list(more)
        return [each for each, kept in zip(made, self.holds(np.array(made, dtype=np.int64)), strict=True) if kept]

    def holds(self, exponents: Indices) -> Mask:
        """Which multi-indices (n, inputs) belong to the set."""
        exponents = exponents.reshape(-1, self.inputs)
        total = exponents.sum(axis=1)
        kept = (total <= self.degree) & (exponents <= np.array(self.most, dtype=np.int64)).all(axis=1)
        return np.asarray(kept & ((total <= 1) | ~exponents[:, self.single].any(axis=1)))

    @cached_property
    def totals(self) -> Indices:
        """Total degrees (multi-indices,)."""
        return np.asarray(self.exponents.sum(axis=1))

    @cached_property
    def starts(self) -> Indices:
        """Where each total degree that there is starts."""
        return np.searchsorted(self.totals, np.arange(self.totals[-1] + 1))

    @cached_property
    def place(self) -> dict[tuple[int, ...], int]:
        """Where a multi-index stands."""
        return {tuple(exponent): i for i, exponent in enumerate(self.exponents.tolist())}

    @cached_property
    def pairs(self) -> tuple[tuple[Indices, Indices], ...]:
        """For each multi-index i, all j with i + j in the set, and where i + j stands."""
        return tuple(self._partners(first) for first in self.exponents)

    def _partners(self, first: Indices) -> tuple[Indices, Indices]:
        both = self.exponents[: self.count(self.degree - int(first.sum()))] + first
        partners = np.flatnonzero(self.holds(both))
        return partners, np.array([self.place[tuple(each)] for each in both[partners].tolist()], dtype=np.int64)

    @cached_property
    def splits(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """For each multi-index k, all (i, j) with i + j = k and i not zero.

        >>> Degrees(1, 2).splits
        ((), ((1, 0),), ((1, 1), (2, 0)))
        """
        found: list[list[tuple[int, int]]] = [[] for _ in range(len(self))]
        for i, (partners, sums) in list(enumerate(self.pairs))[1:]:
            for j, k in zip(partners.tolist(), sums.tolist(), strict=True):
                found[k].append((i, j))
        return tuple(map(tuple, found))

    @cached_property
    def recursion(self) -> tuple[tuple[tuple[int, int, float], ...], ...]:
        """The same, but for i that is of degree zero in the first variable of k, with i's share of k's degree in it.

        >>> Degrees(1, 2).recursion
        ((), ((1, 0, 1.0),), ((1, 1, 0.5), (2, 0, 1.0)))
        """
        return tuple(self._shares(k) for k in range(len(self)))

    def _shares(self, k: int) -> tuple[tuple[int, int, float], ...]:
        first = int((self.exponents[k] > 0).argmax()) if k else 0
        degree = self.exponents[:, first].tolist()
        return tuple((i, j, degree[i] / degree[k]) for i, j in self.splits[k] if degree[i])

    @cached_property
    def beyond(self) -> npt.NDArray[np.float64]:
        """One where i + j is not in the set, else zero (multi-indices, multi-indices)."""
        found = np.ones((len(self), len(self)))
        for i, (partners, _) in enumerate(self.pairs):
            found[i, partners] = 0.0
        return found

    @cached_property
    def classes(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Multi-indices that are alike in ``beyond``: which belong to each class, and ``beyond`` for pairs of classes.

        >>> [matrix.tolist() for matrix in Degrees(1, 1).classes]
        [[[1.0, 0.0], [0.0, 1.0]], [[0.0, 0.0], [0.0, 1.0]]]
        """
        _, some, back = np.unique(self.beyond, axis=0, return_index=True, return_inverse=True)
        members = (np.arange(len(some))[:, None] == back.ravel()).astype(np.float64)
        return members, self.beyond[np.ix_(some, some)]

    @cached_property
    def alone(self) -> Mask:
        """The monomials of variables that enter alone (multi-indices,)."""
        return np.asarray(self.exponents[:, self.single].any(axis=1))

    @cached_property
    def gradings(self) -> tuple[tuple[int, Indices], ...]:
        """Degrees (multi-indices,), and numbers that one of them exceeds for every monomial that is left out.

        Of monomials in the variables that do not enter alone: the total degree, if it decides anything; and the degree
        in each variable that has a limit of its own.

        >>> [(most, degree.tolist()) for most, degree in Degrees(2, 2, limits=(2, 1)).gradings]
        [(2, [0, 1, 1, 2, 2]), (1, [0, 1, 0, 1, 0])]
        """
        most, together = np.array(self.most, dtype=np.int64), np.flatnonzero(~self.single)
        by_total = [(self.degree, self.totals)] if self.degree < most[together].sum() else []
        limit = self.degree if by_total else self.degree + 1
        return (*by_total, *((int(most[i]), self.exponents[:, i]) for i in together if most[i] < limit))

    def count(self, degree: int) -> int:
        """How many multi-indices have at most this total degree: the first so many."""
        return int((self.totals <= degree).sum())

    def __len__(self) -> int:
        return len(self.exponents)


@lru_cache
def degrees(inputs: int, degree: int, limits: tuple[int, ...] = (), lone: bool = False) -> Degrees:
    """The table of multi-indices, made once."""
    return Degrees(inputs, degree, limits, lone)

r"""Multi-indices: the exponents $\alpha$ of the monomials $t^\alpha$ up to some total degree, in a fixed order."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations_with_replacement

import numpy as np
import numpy.typing as npt

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

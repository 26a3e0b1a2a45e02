r"""A smooth function of many variables as a sparse sum of products of Newton's polynomials.

For a downward closed set I of multi-indices (with m it holds every $m' \le m$) there is one polynomial in the span of
$N_m(z) = \prod_a N_{m_a}(z_a)$, $m \in I$, with the values of f at the points $z_m$, $m \in I$:
$$ p = \sum_{m \in I} a_m N_m, \qquad
   a_m = f(z_m) - \sum_{m' \in I,\, m' < m} a_{m'} N_{m'}(z_m) = \sum_{k \le m} \prod_a D_{m_a k_a}\, f(z_k), $$
D the inverse of the triangular matrix $N_k(z_j)$. It is what the combination technique computes,
$p = \sum_{l \in I} c_l\, (U_{l_1} \otimes \dots \otimes U_{l_D}) f$ with interpolation $U_l$ of degree l and
$c_l = \sum_{e \in \{0,1\}^D} (-1)^{|e|} [l + e \in I]$, without the cancellation of large coefficients. The surplus
$a_m$ depends on values at $k \le m$ only: one more index costs one value of f, changes no other surplus, and says how
far p was off there.

Degrees grow by two: the points 0 and 1 alone extrapolate to -1 with a factor 3, which products of many axes do not
forgive. So the set is made of *blocks* j, of the indices $m_a \in \{2 j_a - 1, 2 j_a\}$ (0 where $j_a = 0$), and grows
where surpluses are large for the anchors they need (dimension-adaptive, after Gerstner and Griebel 2003).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from attnforge.anchors.leja import leja, newton

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

BITS = 5  # of a degree in a key of 64 bits: up to twelve inputs, degrees 0 to 31
DEGREES = 2**BITS
CHUNK = 2**22  # numbers held at once
SHARE = 0.3  # of the best gain, for a block to be expanded in the same round


class Surpluses:
    """A growing downward closed set, by blocks (B, D) and by terms: ``levels`` (M, D) and ``surpluses`` (M, k).

    ``owner`` (M,) is the block of a term, ``sizes`` (B,) the largest surplus in a block, over all outputs.

    Args:
        f: maps (N, D) points of $[-1, 1]^D$ to (N, k) values.
        free: (D,) along which inputs the set may grow.
    """

    def __init__(self, f: Callable[[Array], Array], free: Flags) -> None:
        self.f, self.free = f, free
        self.points = leja(DEGREES)
        self._differences = np.linalg.inv(newton(self.points, self.points))
        self._steps = np.int64(1) << (BITS * np.arange(len(free), dtype=np.int64))
        self.blocks = self.levels = np.zeros((0, len(free)), dtype=np.int64)
        self.owner, self.expanded, self.sizes = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=bool), np.zeros(0)
        self._block_keys, self._term_keys = _Keys(), _Keys()
        self.values = self.surpluses = np.zeros((0, 0))
        self._add(np.zeros((1, len(free)), dtype=np.int64))

    def __len__(self) -> int:
        return len(self.levels)

    @property
    def open_error(self) -> float:
        """The largest surplus of a block whose upper neighbours were not looked at yet."""
        return float(self.sizes[~self.expanded].max(initial=0.0))

    def grow(self, most: int) -> bool:
        """Expand the blocks that promise most for their anchors; False if no more than ``most`` terms allow none."""
        left = np.flatnonzero(~self.expanded)
        if not len(left):
            return False
        gains = self.sizes[left] / np.prod(2.0 * self.blocks[left] + 1, axis=1)
        chosen = left[gains >= SHARE * gains.max()]
        self.expanded[chosen] = True
        above = self._neighbours(chosen)
        if len(self) + int((2 ** (above > 0).sum(axis=1)).sum()) > most:
            self.expanded[chosen] = False
            return False
        if len(above):
            self._add(above)
        return True

    def _neighbours(self, chosen: Integers) -> Integers:
        """The blocks (N, D) above these whose lower neighbours are all expanded."""
        units = np.eye(len(self.free), dtype=np.int64)[self.free]
        above = np.unique((self.blocks[chosen][:, None] + units).reshape(-1, len(self.free)), axis=0)
        above = above[2 * above.max(axis=1, initial=0) < DEGREES]
        keys = above @ self._steps
        admissible = self._block_keys.find(keys) < 0
        for a in np.flatnonzero(self.free):
            reached = above[:, a] > 0
            lower = self._block_keys.find(keys[reached] - self._steps[a])
            admissible[reached] &= (lower >= 0) & self.expanded[lower]
        return np.asarray(above[admissible])

    def _add(self, blocks: Integers) -> None:
        """Evaluate f at the terms of new blocks, whose lower neighbours are known, and find their surpluses."""
        levels, owner = _terms(blocks)
        values = self.f(self.points[levels])
        start, outputs = len(self), values.shape[1]
        self.values = np.vstack([self.values.reshape(start, outputs), values])
        self._term_keys.add(levels @ self._steps)
        self._block_keys.add(blocks @ self._steps)
        found = self._found(levels, outputs)
        self.surpluses = np.vstack([self.surpluses.reshape(start, outputs), found])
        sizes = np.zeros(len(blocks))
        np.maximum.at(sizes, owner, np.abs(found).max(axis=1))
        self.owner = np.append(self.owner, owner + len(self.blocks))
        self.levels, self.blocks = np.vstack([self.levels, levels]), np.vstack([self.blocks, blocks])
        self.sizes = np.append(self.sizes, sizes)
        self.expanded = np.append(self.expanded, np.zeros(len(blocks), dtype=bool))

    def _found(self, levels: Integers, outputs: int) -> Array:
        """Surpluses (N, k): rows of D on the box of values below each term."""
        surpluses = np.empty((len(levels), outputs))
        for members, axes, degrees in patterns(levels):
            weights = np.ones(1)
            for degree in degrees:
                weights = np.multiply.outer(weights, self._differences[degree, : degree + 1]).ravel()
            box = np.indices([degree + 1 for degree in degrees], dtype=np.int64).reshape(len(degrees), len(weights))
            size = max(1, CHUNK // (len(weights) * outputs))
            for i in range(0, len(members), size):
                below = self._term_keys.find(self._steps[axes[i : i + size]] @ box)
                surpluses[members[i : i + size]] = np.tensordot(self.values[below], weights, axes=(1, 0))
        return surpluses


def evaluate(levels: Integers, surpluses: Array, basis: Array) -> Array:
    """The sum (P, k) of terms at points, from the values (D, DEGREES, P) of Newton's polynomials there."""
    total = np.zeros((basis.shape[2], surpluses.shape[1]))
    size = max(1, CHUNK // basis.shape[2])
    for members, axes, degrees in patterns(levels):
        for i in range(0, len(members), size):
            products = np.ones((len(members[i : i + size]), basis.shape[2]))
            for j, degree in enumerate(degrees):
                products *= basis[axes[i : i + size, j], degree]
            total += products.T @ surpluses[members[i : i + size]]
    return total


def patterns(levels: Integers) -> Iterator[tuple[Integers, Integers, tuple[int, ...]]]:
    """Indices grouped by their sorted entries above 0: members (G,), their axes (G, r), and the r entries.

    >>> for members, axes, degrees in patterns(np.array([[0, 2, 1], [1, 0, 2], [0, 0, 0]])):
    ...     print(members.tolist(), axes.tolist(), degrees)
    [2] [[]] ()
    [0, 1] [[1, 2], [2, 0]] (2, 1)
    """
    order = np.argsort(-levels, axis=1, kind="stable")
    kinds, which = np.unique(np.take_along_axis(levels, order, axis=1), axis=0, return_inverse=True)
    for kind, degrees in enumerate(kinds):
        members = np.flatnonzero(which.ravel() == kind)
        support = int((degrees > 0).sum())
        yield members, order[members][:, :support], tuple(int(degree) for degree in degrees[:support])


def _terms(blocks: Integers) -> tuple[Integers, Integers]:
    """The indices (N, D) of blocks, and which block each belongs to."""
    levels, owner = [], []
    for members, axes, degrees in patterns(blocks):
        less = np.indices((2,) * len(degrees), dtype=np.int64).reshape(len(degrees), 2 ** len(degrees)).T
        found = np.zeros((len(members), len(less), blocks.shape[1]), dtype=np.int64)
        np.put_along_axis(found, np.repeat(axes[:, None], len(less), axis=1), 2 * np.array(degrees, int) - less, axis=2)
        levels.append(found.reshape(-1, blocks.shape[1]))
        owner.append(np.repeat(members, len(less)))
    return np.vstack(levels), np.concatenate(owner)


class _Keys:
    """Where each key was added, by a sorted array."""

    def __init__(self) -> None:
        self._sorted = self._places = np.zeros(0, dtype=np.int64)

    def add(self, keys: Integers) -> None:
        """Remember keys, numbered on from the last."""
        places = np.append(self._places, len(self._places) + np.arange(len(keys)))
        joined = np.append(self._sorted, keys)
        order = np.argsort(joined, kind="stable")
        self._sorted, self._places = joined[order], places[order]

    def find(self, keys: Integers) -> Integers:
        """The number of every key; -1 where it is not known."""
        at = np.minimum(np.searchsorted(self._sorted, keys), len(self._sorted) - 1)
        return np.where(self._sorted[at] == keys, self._places[at], -1)

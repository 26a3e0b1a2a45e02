r"""Keys that are a product of smaller sets: softmax over them is a product of small softmaxes.

**Statement.** Let the columns of the keys fall into groups $1..d$ such that the rows of the keys are the full product
of the rows $K^{(1)}, \dots, K^{(d)}$ of the groups. Then with $q^{(j)}$ the query's features of group j
$$ \mathrm{softmax}_{k_1 \dots k_d}(q \cdot K) = \prod_j \mathrm{softmax}_{k_j}(q^{(j)} \cdot K^{(j)}), $$
since scores are sums over the groups, and the sum over a product of a product is the product of the sums. Which columns
belong together is read from the numbers: two are independent if every pair of their values occurs.

**Rounding.** A run that takes the d softmaxes, written out, and contracts the values with them errs by no more than
what :mod:`attnforge.kernel.softmax` charges one over all N keys in B blocks of 64, if $B - 1 \ge 3(d - 1)$:
- scores: $n_j$ products, not zero, of a factor are added up with $n_j - 1$ roundings of at most their sizes, together
  no more than the $n - 2$ of all sizes that $n = \sum n_j$ products are charged before their last sum, where two
  factors have any; where only one has, the sums are the same;
- subtracting the largest score rounds by a unit of the distance to it, and these distances add up to the whole one;
- exponentials: one a factor, where one a block is charged;
- sums: a contraction adds up terms $\prod_j w^{(j)}_{k_j} v_k$ along a tree, whose nodes are multiplied by weights on
  the way; multiplication keeps what a node errs relative to its sum. Normalising sums, multiplied, are one over a tree,
  too. Any tree is charged;
- a product and two roundings of a division a factor, 3d on each term, where 3 are charged and one a rescaled block.

>>> keys = np.array([[0.0, 5.0], [0.0, 7.0], [1.0, 5.0], [1.0, 7.0]])
>>> column_groups(keys), column_groups(keys[:3])
([[0], [1]], [[0, 1]])
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt

from attnforge.kernel.softmax import BLOCK

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]


def column_groups(keys: Array) -> list[list[int]]:
    """Groups of columns (p, r) whose rows form a full product; one group of all where there is none."""
    codes = [_coded(column) for column in keys.T]
    groups = [[column] for column in range(keys.shape[1])]
    for f, g in combinations(range(keys.shape[1]), 2):
        one, two = (next(group for group in groups if column in group) for column in (f, g))
        pairs = _count([codes[f]]) * _count([codes[g]])
        if one is not two and (pairs > len(keys) or _count([codes[f], codes[g]]) < pairs):
            one += two
            groups = [group for group in groups if group is not two]
    sizes = [_count([codes[column] for column in group]) for group in groups]
    full = math.prod(sizes) == len(keys) and (len(groups) == 1 or _count(codes) == len(keys))
    return groups if full else [list(range(keys.shape[1]))]


def factors_covered(keys: int) -> int:
    """Into how many factors a softmax over so many keys may be split without rounding by more than is charged.

    >>> [factors_covered(keys) for keys in (64, 192, 193, 384, 385)]
    [1, 1, 2, 2, 3]
    """
    return 1 + (math.ceil(keys / BLOCK) - 1) // 3


def factors_of(keys: Array) -> list[list[int]] | None:
    """The columns of each factor of a softmax over constant keys, if every certificate covers running it so."""
    most = factors_covered(len(keys))
    groups = column_groups(keys) if most > 1 else []
    return groups if 1 < len(groups) <= most else None


def places(keys: Array, group: Sequence[int]) -> Indices:
    """Each key's row among the different ones of a group, in their order; the group of all columns keeps every key."""
    if len(group) == keys.shape[1]:
        return np.arange(len(keys))
    return _joined([_coded(keys[:, column]) for column in group])


def _coded(values: npt.NDArray[np.generic]) -> Indices:
    """The rank of every value among the different ones."""
    return np.asarray(np.unique(values, return_inverse=True)[1].ravel())


def _joined(codes: Sequence[Indices]) -> Indices:
    """The rank of every row of ranks, the first column counting most."""
    total = codes[0]
    for code in codes[1:]:
        most = int(code.max(initial=0)) + 1
        total = _ranked(total * most + code, (int(total.max(initial=0)) + 1) * most)
    return total


def _ranked(numbers: Indices, below: int) -> Indices:
    """The rank of every number among the different ones: by marking those that occur, where they are not far apart."""
    if below > 8 * len(numbers):
        return _coded(numbers)
    occurs = np.zeros(below, dtype=bool)
    occurs[numbers] = True
    return (np.cumsum(occurs) - 1)[numbers]


def _count(codes: Sequence[Indices]) -> int:
    return int(_joined(codes).max(initial=-1)) + 1

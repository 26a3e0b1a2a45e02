r"""What a machine makes of sums: of products with weights, and of many terms, whatever the order.

A machine rounds each operation to within u of its result, or errs by at most v where the result falls below its normal
numbers. Any order of adding up n numbers is a binary tree of $n - 1$ nodes; adding zero is exact, so that zeros are no
leaves. Errors of nodes add up, without factors.

**Products.** Let $A = \sum |w_i||z_i|$, A' the part of it whose products are not exact (neither factor is a constant
power of two), r the exact sum. Leaves err by $u A'$; a node but the last by u of what is computed there, at most
$A (1 + \gamma_{n-1})$; the last by u of $|r|$ and of all errors before it. So, with 2n operations that may underflow,
$$ |\text{error}| \le (u\,(A' + (n - 2) A + \min(|r|, A)) + 2 n v)(1 + \gamma_{n + 2}) , $$
without the second term for $n = 1$, without the third, too, and without v where one product by a power of two from one
on is all. Accumulating in more digits and casting the sum errs by less: a leaf that is cast alone is rounded in both,
which the last factor covers. Terms of a linear map and its constant are leaves of one tree.

**Many terms.** A node errs by u times its exact sum, up to $\gamma A$, and by no more than the smaller of its two
addends. Call the m largest terms large. A subtree of others errs by $\gamma$ of its terms inside, and by no more than
its own sum where it meets large ones: $(1 + 2 \gamma) R_m$ together, $R_m$ their sizes. Nodes between two subtrees with
large terms are $m - 1$; a sum over j large terms is at most $G_j + R_m$, $G_j$ the larger of the j largest positive and
of the j largest negative terms, and at most $m - j + 1$ of these nodes have j of them or more:
$$ |\text{error}| \le u \sum_{j=2}^m (G_j + R_m + \gamma A) + (1 + 2\gamma) R_m , $$
for the best m, and $\gamma_{n-1} A$ in any case.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.kernel.models import Models
from attnforge.outward import Machine, Up, gamma
from attnforge.outward.arrays import TINY

Array = npt.NDArray[np.float64]

EXACT = Machine("exact", 0.0, 0.0, math.inf, 0.0, 8)  # rounds nothing: runs in it are the network's function


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums of products: how many are not zero, their ``sizes`` in all, and of those that round.

    ``plain`` are those whose products, each alone, are exact and do not underflow.
    """

    addends: Array
    sizes: Up
    inexact: Up
    plain: npt.NDArray[np.bool_]

    @classmethod
    def alone(cls, sizes: Up) -> Sums:
        """Numbers as they are."""
        count = (sizes.values > 0).astype(np.float64)
        return cls(count, sizes, sizes * 0.0, np.ones(sizes.shape, dtype=np.bool_))

    @classmethod
    def of(cls, factors: Up, simple: npt.NDArray[np.bool_], weights: Array) -> Sums:
        """Of factors (..., m) by a matrix (m, m'), or as many as fit (..., m, m'), exact where they are ``simple``.

        An unknown number times zero is not known.
        """
        known, exact = np.isfinite(factors.values).all(axis=-1, keepdims=True), power_of_two(weights)
        sizes = factors[..., None, :] @ Up.of(weights)
        inexact = Up(np.where(simple, 0.0, factors.values))[..., None, :] @ Up.of(np.where(exact, 0.0, weights))
        count = (factors.values > 0).astype(np.float64)[..., None, :] @ (weights != 0).astype(np.float64)
        plain = (exact & ((weights == 0) | (np.abs(weights) >= 1))).all(axis=-2)
        sizes, inexact, count = sizes[..., 0, :], inexact[..., 0, :], count[..., 0, :]
        return cls(count, Up(np.where(known, sizes.values, np.inf)), inexact, np.broadcast_to(plain, count.shape))

    @classmethod
    def products(cls, one: Up, two: Up, simple: npt.NDArray[np.bool_]) -> Sums:
        """Of products along the last axis, those of ``simple`` factors exact."""
        known = (np.isfinite(one.values) & np.isfinite(two.values)).all(axis=-1)
        each = one * two
        count = np.count_nonzero(each.values, axis=-1).astype(np.float64)
        sizes, inexact = np.where(known, each.sum().values, np.inf), Up(np.where(simple, 0.0, each.values)).sum()
        return cls(count, Up(sizes), inexact, np.zeros(count.shape, dtype=np.bool_))

    def __add__(self, other: Sums) -> Sums:
        """Both as one sum."""
        sizes, inexact = self.sizes + other.sizes, self.inexact + other.inexact
        return Sums(self.addends + other.addends, sizes, inexact, self.plain & other.plain)

    @property
    def T(self) -> Sums:  # noqa: N802, as arrays have it
        """The last two axes exchanged."""
        return Sums(np.swapaxes(self.addends, -1, -2), self.sizes.T, self.inexact.T, np.swapaxes(self.plain, -1, -2))

    def error(self, result: Up, unit: float, underflow: float) -> Up:
        """What rounding makes of them, for exact sums of at most this size."""
        last, before = np.clip(self.addends - 1.0, 0.0, 1.0), np.maximum(self.addends - 2.0, 0.0)
        made = (self.inexact + self.sizes * before + self.sizes.least(result) * last) * unit
        lost = np.where(self.plain & (self.addends <= 1), 0.0, 2.0 * self.addends * underflow)
        return (made + lost) * (1.0 + gammas(self.addends + 2, unit))


def tree_error(positive: Up, negative: Up, left: Up, leaves: int, operations: int, unit: float) -> Up:
    """What any order of adding up many terms loses: terms (..., p) in [-negative, positive], their sum.

    There are so many ``leaves`` in all, those not listed of sizes ``left`` (...) together; no term passes more than
    so many ``operations``.
    """
    sizes, growth = np.maximum(positive.values, negative.values), gamma(operations, unit)
    ordered = -np.sort(-sizes, axis=-1)
    within = np.cumsum(ordered[..., ::-1], axis=-1)[..., ::-1]
    beyond = np.concatenate([within[..., 1:], np.zeros_like(within[..., :1])], axis=-1) + left.values[..., None]
    whole = within[..., :1] + left.values[..., None]
    most = np.maximum(*(np.cumsum(-np.sort(-each.values, axis=-1), axis=-1) for each in (positive, negative)))
    nodes = np.arange(sizes.shape[-1])
    among = np.cumsum(most, axis=-1) - most[..., :1] + nodes * (beyond + growth * whole)
    found = (unit * among + (1 + 2 * growth) * beyond).min(axis=-1) + TINY * (whole[..., 0] > 0)
    outward = 1.0 + gamma(4 * sizes.shape[-1] + 32)  # sums, and sums of sums, of terms that are not negative
    return (Up.of(found) * outward).least(Up.of(whole[..., 0]) * (gamma(leaves - 1, unit) * outward))


def count_roundings(weights: Array) -> Array:
    """Roundings behind each output of features times a matrix (..., m, m'), for features of any kind."""
    inexact = np.any(~power_of_two(weights), axis=-2)
    return np.asarray(inexact + np.maximum((weights != 0).sum(axis=-2) - 1, 0), dtype=np.float64)


def power_of_two(values: Array) -> npt.NDArray[np.bool_]:
    """Factors whose products are exact; zero is one of them."""
    return np.isin(np.abs(np.frexp(values)[0]), (0.0, 0.5))


def is_simple(features: Models) -> npt.NDArray[np.bool_]:
    """Constants of the run, exactly, whose products are exact: powers of two, and zero."""
    return np.asarray((features.swing().values == 0) & power_of_two(features.c[0]))


def gammas(operations: npt.NDArray[np.number[Any]], unit: float) -> Array:
    """The relative error of so many roundings, each: :func:`attnforge.outward.gamma` of arrays."""
    product = operations * np.float64(unit)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.nextafter(product / (1.0 - product), np.inf)
    return np.select([product == 0, product < 0.5], [0.0, found], np.inf)

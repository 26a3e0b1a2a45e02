r"""What a run's arithmetic may do inside a softmax head, for any order of summation.

Any order of adding up p terms is a binary tree; a node errs by u times its exact sum, and by no more than the smaller
of its two addends. A sum over j leaves is at most $G_j$, the larger of the j largest positive and the j largest
negative terms; among the trees with m leaves, the one that adds leaf after leaf has, for every s, the most nodes of
more than s leaves: the error is at most $u \sum_{j=2}^m G_j$. Terms beyond the m largest err by at most their sum; the
best m is taken.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from flint import arb

from attnforge.network import Head
from attnforge.outward import Machine, gamma, lower, upper

Array = npt.NDArray[np.float64]

SLACK = 1 + 2.0**-30  # covers the roundings of an expression of positive floats, sums over the keys included
RANGE, RANGE_64 = 2.0**126, 2.0**1022  # sums up to here, and their products by log2(e), do not overflow


@dataclass(frozen=True)
class Kernel:
    """What is assumed of the kernel that sums over keys.

    ``block``: keys it takes at a time, at least; each further block rescales what is summed so far. ``ulps`` and
    ``ulps_64``: units in the last place by which an exponential may be off. ``direct``: exponentials are taken of the
    differences to the largest score, not of powers of two.
    """

    block: int
    ulps: int
    ulps_64: int
    direct: bool = False

    @classmethod
    def of(cls, head: Head) -> Kernel:
        """What certificates say of a head."""
        return WRITTEN_OUT if head.is_small else ANY

    def exponential(self, machine: Machine) -> int:
        """Roundings charged to an exponential."""
        return 2 * (self.ulps_64 if machine.name == "float64" else self.ulps)


ANY, WRITTEN_OUT, IN_ORDER = Kernel(64, 20, 4), Kernel(64, 4, 4, direct=True), Kernel(512, 20, 1)


def exponentials(keys: int, machine: Machine, kernel: Kernel = ANY) -> float:
    """What exponentials, and rescaling from block to block, do to the logarithm of a weight."""
    return gamma(blocks(keys, kernel) * (1 + kernel.exponential(machine)), machine.accumulation)


def blocks(keys: int, kernel: Kernel = ANY) -> int:
    """Blocks of keys a kernel may cut the sum into."""
    return math.ceil(keys / kernel.block)


def added(terms: Array, unit: float) -> float:
    """What any order of adding up p terms may lose, for terms at most this large, of these signs."""
    count = len(terms)
    ordered, sizes = np.sort(terms), np.sort(np.abs(terms))
    positive, negative = np.maximum(ordered[::-1], 0.0).cumsum(), np.maximum(-ordered, 0.0).cumsum()
    largest = np.maximum(positive, negative)
    least = sizes.cumsum()
    beyond = np.append(least[-2::-1], 0.0)  # the terms after the m largest
    whole, nodes = gamma(count, unit) * float(least[-1]), np.arange(count)
    among = largest.cumsum() - largest[0] + nodes * (beyond + whole)
    found = float((unit * among + (1 + 2 * gamma(count, unit)) * beyond).min())
    return min(found, whole) * SLACK


def sum_of_products(products: Sequence[arb], shift: float, machine: Machine) -> float:
    """What a dtype makes of products and of their sum, a shift one of its terms, in any order; without underflow.

    Terms are charged with the sign they mostly have; the little that they may have of the other adds to all sums.
    """
    high = np.maximum([upper(each) for each in products], 0.0)
    low = np.minimum([lower(each) for each in products], 0.0)
    terms = np.append(np.where(high >= -low, high, low), [shift] if shift else [])
    count, other, whole = len(terms), float(np.minimum(high, -low).sum()), float(np.abs(terms).sum()) * SLACK
    found = added(terms, machine.roundoff) + machine.roundoff * (whole + count * other)
    return found * (1 + 4 * gamma(count + 1, machine.roundoff)) * SLACK


def fits(sizes: Array, machine: Machine) -> npt.NDArray[np.bool_]:
    """Whether sums of this size stay in the range of the type that accumulates them."""
    return sizes <= (RANGE_64 if machine.name == "float64" else RANGE)


def scores(
    products: Array, exact: npt.NDArray[np.bool_], size: Array, apart: Array, machine: Machine, kernel: Kernel = ANY
) -> Array:
    """Rounding (p,) of scores q . k by products, sums and the subtraction of the maximum, beside errors of q and k.

    ``products`` (p, r) bounds |q_f k_f|, ``exact`` says which are computed without error. ``size`` (p,) bounds the
    scores: the last sum errs by a unit of it, sums before by one of all products together. ``apart`` (p,) bounds the
    distance to the largest score. float32 kernels may work with powers of two: a product by log2(e), known to a unit,
    comes first. NaN, which nothing survives: the score may overflow.
    """
    unit, features = machine.accumulation, products.shape[1]
    both = products.sum(axis=1)
    inexact = np.where(exact, 0.0, products).sum(axis=1)
    sums = np.maximum((products > 0).sum(axis=1) - 1.0, 0.0)
    wrong = gamma(features + 1, unit) * both
    made = inexact + np.maximum(sums - 1.0, 0.0) * (both + wrong) + np.minimum(sums, 1.0) * (size + wrong)
    made += apart if kernel.direct or machine.name == "float64" else 4 * apart + size + wrong
    found = unit * (1 + 2.0**-12) * made + 4 * features * machine.underflow
    return np.where(fits(both + wrong, machine), found, np.nan)

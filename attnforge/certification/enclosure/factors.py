r"""Heads whose keys are a product of smaller sets, recognised from the numbers.

Where the columns of the keys split into groups whose rows form a full product (:mod:`attnforge.lemmas.product`), each
key's score is a sum over the groups of affine functions of the input, and its softmax weight is a product. No claim is
read: keys that are no product are one factor, which is true of every head.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt
from flint import arb, arb_mat

from attnforge.certification.enclosure.affine_heads import affine_head
from attnforge.lemmas.product import column_groups, places
from attnforge.network import Head, Linear
from attnforge.outward import Balls, precision
from attnforge.outward.arrays import TINY

Array = npt.NDArray[np.float64]

BITS = 160


@dataclass(frozen=True, eq=False)
class Factor:
    """Affine scores ``slopes . x + offsets`` of p keys: slopes (D, p), offsets (p,).

    ``reads`` are the inputs the scores depend on.
    """

    slopes: Balls
    offsets: Balls
    reads: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class FactorHead:
    """Values (p_1, .., p_r) over the product of r factors."""

    factors: tuple[Factor, ...]
    values: Balls


def factor_head(encode: tuple[Linear, ...], head: Head, inputs: int) -> FactorHead:
    """The head split into as many factors as its keys allow, no two of which read the same input."""
    keys, values = np.asarray(head.memory_keys), np.asarray(head.memory_values)
    with precision(BITS):
        groups = column_groups(keys)
        factors = [_factor(encode, head, keys, group, inputs) for group in groups]
        while (pair := _sharing(factors)) is not None:
            one, two = pair
            merged = groups[one] + groups[two]
            groups = [merged, *(group for i, group in enumerate(groups) if i not in pair)]
            factors = [_factor(encode, head, keys, group, inputs) for group in groups]
        exact = _product(values, head.output)
    rows = tuple(places(keys, group) for group in groups)
    sizes = [factor.slopes.shape[1] for factor in factors]
    order = np.ravel_multi_index(rows, tuple(sizes)).argsort()
    return FactorHead(tuple(factors), Balls(exact.mid[order].reshape(sizes), exact.rad[order].reshape(sizes)))


def _sharing(factors: list[Factor]) -> tuple[int, int] | None:
    """Two factors that read the same input: as one they have fewer coefficients than their products."""
    pairs = combinations(range(len(factors)), 2)
    return next(((a, b) for a, b in pairs if set(factors[a].reads) & set(factors[b].reads)), None)


def shows_product(keys: Array) -> bool:
    """Whether keys are a product of smaller sets, group of columns by group of columns."""
    return len(column_groups(keys)) > 1


def _factor(encode: tuple[Linear, ...], head: Head, keys: Array, group: list[int], inputs: int) -> Factor:
    """The scores of one group of columns, from one key of each kind."""
    first = np.unique(places(keys, group), return_index=True)[1]
    part = Head(
        head.query[:, group],
        head.output,
        memory_keys=keys[first][:, group],
        memory_values=np.asarray(head.memory_values)[first],
    )
    exact = affine_head(encode, part, inputs)
    slopes = to_balls(exact.slopes)
    reads = tuple(i for i in range(inputs) if slopes.mid[i].any() or slopes.rad[i].any())
    return Factor(slopes, to_balls(exact.offsets)[0], reads)


def _product(values: Array, output: Array) -> Balls:
    """The first output of every key."""
    found = _matrix(values) * _matrix(output[:, :1])
    return to_balls(found)[:, 0]


def _matrix(array: Array) -> arb_mat:
    rows, columns = array.shape
    return arb_mat(rows, columns, [arb(float(value)) for value in array.ravel()])


def to_balls(matrix: arb_mat) -> Balls:
    """Midpoints rounded to nearest, radii from above; numbers that float64 holds stay exact."""
    shape = matrix.nrows(), matrix.ncols()
    entries = matrix.entries()
    mid = np.array([float(entry.mid()) for entry in entries])
    off = [entry - arb(value) for entry, value in zip(entries, mid.tolist(), strict=True)]
    rad = np.array([0.0 if each.is_zero() else float(abs(each).upper()) * (1 + 2.0**-50) + TINY for each in off])
    return Balls(mid.reshape(shape), rad.reshape(shape))

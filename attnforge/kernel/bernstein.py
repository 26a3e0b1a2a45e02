r"""The range of polynomials on [-1, 1]^D by Bernstein's basis, on pieces, for many polynomials at once.

On a box a polynomial lies between the smallest and the largest of its Bernstein coefficients, and those at the corners
are its values there. The coefficients of $t^j$ on a part of [-1, 1] are values of its polar form at points of
[-1, 1], hence at most 1 in size: an error of $\delta$ in a coefficient of the polynomial moves them by at most
$\delta$.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import comb
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from attnforge.outward import gamma
from attnforge.outward.arrays import TINY

Array = npt.NDArray[np.float64]


class Largest(NamedTuple):
    """Bounds (cells,) of the largest |polynomial|, from above and from below; points (cells, D) where it is the last.

    The points are corners of pieces, and no part of any proof.
    """

    above: Array
    below: Array
    place: Array


@np.errstate(all="ignore")
def largest_size(coefficients: Array, pieces: int) -> Largest:
    r"""Of polynomials on $[-1, 1]^D$ with ``coefficients`` (cells, n_1, .., n_D) of $t^\alpha$.

    Every axis is cut into ``pieces``. An axis with n coefficients takes sums of n products by numbers of at most 1,
    themselves rounded: n + 1 roundings, and 2 more pay for that of what is charged; n products may underflow.

    >>> largest = largest_size(np.array([[0.0, 0.0, 1.0]]), 2)  # t^2
    >>> bool(largest.below[0] <= 1.0 <= largest.above[0] <= 1.0 + 1e-13), largest.place.tolist()
    (True, [[-1.0]])
    """
    counts, cells = coefficients.shape[1:], len(coefficients)
    found = coefficients
    for axis, count in enumerate(counts, start=1):
        found = np.moveaxis(np.moveaxis(found, axis, -1) @ _matrix(count, pieces).T, -1, axis)
    corners = found
    for axis, count in enumerate(counts, start=1):
        ends = np.arange(pieces) * count
        corners = corners.take(np.sort(np.concatenate([ends, ends + count - 1])), axis=axis)
    sizes = np.abs(coefficients).reshape(cells, -1).sum(axis=1)
    wrong = sizes * gamma(sum(count + 3 for count in counts)) * (1 + 2.0**-20)
    wrong = wrong + (sizes > 0) * (sum(counts) * pieces ** len(counts) * coefficients[0].size * TINY)
    above, below = (np.abs(each).reshape(cells, -1) for each in (found, corners))
    step = np.stack(np.unravel_index(below.argmax(axis=1), corners.shape[1:]), axis=1)
    highest, lowest = above.max(axis=1) + wrong, np.maximum(below.max(axis=1) - wrong, 0.0)
    known = np.isfinite(highest)
    return Largest(np.where(known, highest, np.inf), np.where(known, lowest, 0.0), (step + 1) // 2 * 2.0 / pieces - 1.0)


@lru_cache
def _matrix(count: int, pieces: int) -> Array:
    """Bernstein coefficients (pieces * count, count) of the powers below ``count`` on the pieces of [-1, 1]."""
    rows = []
    for piece in range(pieces):
        low, step = Fraction(2 * piece, pieces) - 1, Fraction(2, pieces)
        for i in range(count):
            rows.append([float(_polar(j, i, count - 1, low, step)) for j in range(count)])
    return np.array(rows)


def _polar(power: int, i: int, degree: int, low: Fraction, step: Fraction) -> Fraction:
    """The i-th Bernstein coefficient of $(low + step u)^{power}$, u from 0 to 1."""
    terms = (
        comb(power, k) * low ** (power - k) * step**k * Fraction(comb(i, k), comb(degree, k))
        for k in range(min(power, i) + 1)
    )
    return sum(terms, start=Fraction(0))

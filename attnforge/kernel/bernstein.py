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

import numpy as np
import numpy.typing as npt

from attnforge.outward import gamma

Array = npt.NDArray[np.float64]


def largest_size(coefficients: Array, pieces: int) -> tuple[Array, Array]:
    r"""Bounds (cells,) of the largest |polynomial| on [-1, 1]^D, from above, and from below.

    ``coefficients`` (cells, n, .., n) of $t^\alpha$; every axis is cut into ``pieces``.

    >>> above, below = largest_size(np.array([[0.0, 0.0, 1.0]]), 2)  # t^2
    >>> bool(below[0] <= 1.0 <= above[0] <= 1.0 + 1e-13)
    True
    """
    count, inputs = coefficients.shape[1], coefficients.ndim - 1
    to_bernstein = _matrix(count, pieces)
    found = coefficients
    for axis in range(1, inputs + 1):
        found = np.moveaxis(np.moveaxis(found, axis, -1) @ to_bernstein.T, -1, axis)
    cells = len(coefficients)
    sizes = np.abs(coefficients).reshape(cells, -1).sum(axis=1)
    wrong = sizes * gamma(inputs * (count + 4)) * (1 + 2.0**-20)
    ends = np.sort(np.concatenate([np.arange(pieces) * count, np.arange(pieces) * count + count - 1]))
    corners = found
    for axis in range(1, inputs + 1):
        corners = corners.take(ends, axis=axis)
    above, below = (np.abs(each).reshape(cells, -1).max(axis=1) for each in (found, corners))
    return above + wrong, np.maximum(below - wrong, 0.0)


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

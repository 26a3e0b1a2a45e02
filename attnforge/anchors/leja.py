r"""Nested points for interpolation on [-1, 1], and Newton's polynomials on them.

Leja points: $z_0 = 0$, and $z_m$ is where $\prod_{j<m} |z - z_j|$ is largest. Every point added keeps the earlier
ones, so degrees can be raised at one value of f each. Newton's polynomials
$$ N_m(z) = \prod_{j<m} \frac{z - z_j}{z_m - z_j} $$
are 1 at $z_m$ and 0 at earlier points; by the choice of $z_m$ none exceeds 1 on [-1, 1]. So dropping a term
$a_m N_m$ costs at most $|a_m|$.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

HALVINGS = 60  # of a gap between points, until rounding


@lru_cache(maxsize=32)
def _leja(count: int) -> tuple[float, ...]:
    points = [0.0, 1.0, -1.0]
    while len(points) < count:
        points.append(_next(np.array(points)))
    return tuple(points[:count])


def leja(count: int) -> Array:
    """The first ``count`` Leja points, the positive one first where two are equally good.

    >>> leja(5).round(3).tolist()
    [0.0, 1.0, -1.0, 0.577, -0.659]
    """
    return np.array(_leja(count))


def newton(points: Array, z: Array) -> Array:
    """Newton's polynomials (len(z), len(points)) on these points.

    >>> newton(np.array([0.0, 1.0, -1.0]), np.array([1.0, -1.0, 0.5])).tolist()
    [[1.0, 1.0, 0.0], [1.0, -1.0, 1.0], [1.0, 0.5, -0.125]]
    """
    found = np.ones((len(z), len(points)))
    for m in range(1, len(points)):
        found[:, m] = np.prod((z[:, None] - points[:m]) / (points[m] - points[:m]), axis=1)
    return found


def _next(points: Array) -> float:
    """The logarithm of the product is concave between neighbours: halve every gap by the sign of its slope."""
    order = np.sort(points)
    low, high = order[:-1].copy(), order[1:].copy()
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        rising = (1 / (middle[:, None] - points)).sum(axis=1) > 0
        low, high = np.where(rising, middle, low), np.where(rising, high, middle)
    found = (low + high) / 2
    sizes = np.abs(found[:, None] - points).prod(axis=1)
    best = np.flatnonzero(sizes >= sizes.max() * (1 - 1e-9))
    return float(found[best[-1]])

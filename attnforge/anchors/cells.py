"""Centres of cells: midpoints of a product grid with ghosts beyond its edges, and the values ghosts carry."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def midpoints(lower: float, upper: float, count: int, ghosts: int = 0) -> tuple[Array, float]:
    """Centres of ``count`` equal cells of [lower, upper] and ``ghosts`` more a side, and the step between them.

    >>> midpoints(0.0, 1.0, 2, 1)
    (array([-0.25,  0.25,  0.75,  1.25]), 0.5)
    """
    step = (upper - lower) / count
    return lower + step * (np.arange(-ghosts, count + ghosts, dtype=np.float64) + 0.5), step


def product(axes: list[Array]) -> Array:
    """All points (N, D) of a product grid, the last axis fastest.

    By the place of every point along every axis: NumPy's own grids have 32 axes at most.

    >>> product([np.array([0.0, 1.0]), np.array([5.0]), np.array([2.0, 3.0])]).tolist()
    [[0.0, 5.0, 2.0], [0.0, 5.0, 3.0], [1.0, 5.0, 2.0], [1.0, 5.0, 3.0]]
    >>> product([np.ones(1)] * 40).shape
    (1, 40)
    """
    counts = [len(axis) for axis in axes]
    places, rest = np.arange(math.prod(counts)), math.prod(counts)
    columns = []
    for axis, count in zip(axes, counts, strict=True):
        rest //= count
        columns.append(axis[places // rest % count])
    return np.stack(columns, axis=-1)


def reflected_values(
    values: Callable[[Array], Array], lower: Array, upper: Array, counts: tuple[int, ...], ghosts: int
) -> Array:
    """Values (N, K) on the grid of :func:`midpoints` with ghosts, from values of f inside the box only.

    A ghost at v beyond the edge e carries the odd reflection 2 f(e) - f(2e - v), axis by axis; 2e - v is a midpoint.
    """
    bounds = list(zip(lower, upper, counts, strict=True))
    if not ghosts:
        return values(product([midpoints(a, b, n)[0] for a, b, n in bounds]))
    axes = [np.concatenate([[a], midpoints(a, b, n)[0], [b]]) for a, b, n in bounds]
    table = values(product(axes))
    table = table.reshape(*(n + 2 for n in counts), table.shape[-1])
    for axis, n in enumerate(counts):
        table = np.moveaxis(np.tensordot(_reflection(n, ghosts), table, axes=(1, axis)), 0, axis)
    return table.reshape(-1, table.shape[-1])


def _reflection(count: int, ghosts: int) -> Array:
    """(count + 2 ghosts, count + 2): rows for all centres, columns for lower edge, midpoints, upper edge."""
    matrix = np.zeros((count + 2 * ghosts, count + 2))
    matrix[ghosts : ghosts + count, 1:-1] = np.eye(count)
    for i in range(ghosts):
        matrix[ghosts - 1 - i, [0, 1 + i]] = 2.0, -1.0
        matrix[ghosts + count + i, [-1, count - i]] = 2.0, -1.0
    return matrix

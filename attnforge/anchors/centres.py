r"""Voronoi cells that follow the target: centres inserted one after the other where the cells err most.

Every cell carries the middle of f's range over its samples and errs by half that range. The worst cells, a few at a
time, get a new centre at the sample where f is farthest from their value (of the two such samples, minimum and
maximum, the one farther from the centre), and samples move to the new centre where it is nearer. Cells stay Voronoi
cells throughout: a power diagram, face to face, which one softmax head can select.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attnforge.effort import check_time
from attnforge.errors import RefusalError

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

SAMPLES = 128  # a cell, on average
FEWEST, MOST = 2**14, 2**18
LARGEST = MOST // 8  # cells: each needs samples of its own
GROWTH = 0.04  # of the number of centres, inserted at once


@dataclass(eq=False)
class _Cells:
    """Samples u (M, D) of the unit cube, f (M, K) there; centres, the owner of each sample, its squared distance."""

    u: Array
    f: Array
    centres: Array
    owner: Indices
    distance: Array

    def insert(self, at: Array) -> None:
        """Add one centre."""
        distance = np.square(self.u - at).sum(axis=1)
        nearer = distance < self.distance
        self.owner[nearer] = len(self.centres)
        self.distance[nearer] = distance[nearer]
        self.centres = np.vstack([self.centres, at])

    def ranges(self) -> tuple[Array, Array]:
        """Smallest and largest f (N, K) over the samples of every cell; the value at the centre's own sample counts."""
        order = np.argsort(self.owner, kind="stable")
        starts = np.searchsorted(self.owner[order], np.arange(len(self.centres)))
        return np.minimum.reduceat(self.f[order], starts), np.maximum.reduceat(self.f[order], starts)


def greedy_centres(values: Callable[[Array], Array], lower: Array, upper: Array, count: int) -> tuple[Array, Array]:
    """Centres (count, D) of Voronoi cells, nearness counted in sides of the box, and their values (count, K).

    Args:
        values: f, from (N, D) points of the box to (N, K) values.
        lower, upper: the box.
        count: of cells.

    >>> centres, middles = greedy_centres(lambda x: x[:, :1], np.zeros(2), np.ones(2), 3)
    >>> centres.shape, middles.shape
    ((3, 2), (3, 1))
    """
    if count > LARGEST:
        got = f"{count:,}"
        raise RefusalError(f"At most {LARGEST:,} centres are inserted", got, "Ask for fewer, or give centres")
    u = spread_points(min(max(FEWEST, SAMPLES * count), MOST), len(lower))
    f = values(np.clip(lower + u * (upper - lower), lower, upper))
    nearest = int(np.square(u - 0.5).sum(axis=1).argmin())
    distance = np.square(u - u[nearest]).sum(axis=1)
    cells = _Cells(u, f, u[nearest : nearest + 1], np.zeros(len(u), dtype=np.int64), distance)
    while len(cells.centres) < count:
        check_time("placing cells")
        room = min(max(1, int(GROWTH * len(cells.centres))), count - len(cells.centres))
        for sample in _worst_samples(cells, room):
            cells.insert(u[sample])
    low, high = cells.ranges()
    return np.clip(lower + cells.centres * (upper - lower), lower, upper), (low + high) / 2


def spread_points(count: int, axes: int) -> Array:
    r"""Evenly spread points of the unit cube.

    They are $n\alpha \bmod 1$ with $\alpha_i = \varphi^{-i}$, $\varphi^{D+1} = \varphi + 1$ (golden ratio for D = 1).
    Every fourth point is moved to the nearest face, because cells at the edge of the domain must be right there too.
    """
    ratio = 2.0
    for _ in range(64):
        ratio = (1 + ratio) ** (1 / (axes + 1))
    steps = ratio ** -np.arange(1, axes + 1, dtype=np.float64)
    points = np.mod(0.5 + np.arange(1, count + 1)[:, None] * steps, 1.0)
    edge = points[::4]
    axis = np.abs(edge - 0.5).argmax(axis=1)
    edge[np.arange(len(edge)), axis] = np.round(edge[np.arange(len(edge)), axis])
    return points


def _worst_samples(cells: _Cells, count: int) -> list[int]:
    """Samples for new centres, one in each of the ``count`` worst cells (fewer where cells have no other sample)."""
    low, high = cells.ranges()
    half = (high - low) / 2
    error = half.max(axis=1)
    found: list[int] = []
    for cell in np.argsort(-error, kind="stable"):
        members = np.flatnonzero(cells.owner == cell)
        if len(members) > 1:
            found.append(_new_centre(cells, members, int(half[cell].argmax())))
        if len(found) == count:
            break
    return found


def _new_centre(cells: _Cells, members: Indices, output: int) -> int:
    f, distance = cells.f[members, output], cells.distance[members]
    if f.max() == f.min():
        return int(members[distance.argmax()])
    extremes = members[f.argmin()], members[f.argmax()]
    return int(max(extremes, key=lambda sample: cells.distance[sample]))

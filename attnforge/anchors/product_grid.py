"""A product grid of equal cells with ghosts beyond its edges, and the same grid recognised from claimed centres."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attnforge.anchors.cells import midpoints, product
from attnforge.errors import RefusalError

Array = npt.NDArray[np.float64]

APART = 8.0  # gaps between neighbouring numbers that a cell must span: then its centre is well inside


@dataclass(frozen=True, eq=False)
class ProductGrid:
    """Cells of the box from ``lower`` to ``upper`` (D,): ``counts`` an axis, and ``ghosts`` a side.

    Centres are numbered by integers along every axis, counted from a middle cell: their *places* (N, D).

    >>> grid = ProductGrid(np.zeros(1), np.ones(1), (2,), 1)
    >>> grid.places.ravel().tolist(), grid.positions.ravel().tolist(), grid.inside.tolist()
    ([-2.0, -1.0, 0.0, 1.0], [-0.25, 0.25, 0.75, 1.25], [False, True, True, False])
    """

    lower: Array
    upper: Array
    counts: tuple[int, ...]
    ghosts: int

    def __post_init__(self) -> None:
        """Refuse cells whose edges and centres float64 does not hold apart, as on [1e8, 1e8 + 1e-8]."""
        widest = np.maximum(np.abs(self.lower), np.abs(self.upper))
        least = np.maximum(APART * np.spacing(widest), np.finfo(np.float64).tiny)
        if np.any((self.steps < least) & (self.lower < self.upper)):
            got = f"cells of {self.steps.min():.2g} where numbers are {np.max(least) / APART:.2g} apart"
            raise RefusalError("Cells must be wider than the gaps between float64 numbers", got, "Use fewer cells")

    @classmethod
    def behind(cls, positions: Array, lower: Array, upper: Array) -> ProductGrid | None:
        """The grid whose centres these are, in order, to 1e-9 of a step; None if there is none."""
        if positions.ndim != 2 or positions.shape[1] != len(lower) or len(positions) == 0 or not np.all(lower < upper):
            return None
        along = [np.unique(column) for column in positions.T]
        counts = [int(np.sum((p > a) & (p < b))) for p, a, b in zip(along, lower, upper, strict=True)]
        ghosts = (len(along[0]) - counts[0]) // 2
        total = float(np.prod([count + 2.0 * ghosts for count in counts]))
        if min(counts) < 1 or total != len(positions):
            return None
        found = cls(lower, upper, tuple(counts), ghosts)
        return found if np.all(np.abs(found.positions - positions) <= 1e-9 * found.steps) else None

    @property
    def steps(self) -> Array:
        """Lengths of the cells (D,)."""
        return np.asarray((self.upper - self.lower) / np.array(self.counts), dtype=np.float64)

    @property
    def origin(self) -> Array:
        """The centre (D,) of place 0."""
        return self.lower + self.steps * (self._middles + 0.5)

    @property
    def places(self) -> Array:
        """Integers (N, D), the last axis fastest."""
        return self._numbers - self._middles

    @property
    def positions(self) -> Array:
        """Centres (N, D)."""
        bounds = zip(self.lower, self.upper, self.counts, strict=True)
        return product([midpoints(a, b, count, self.ghosts)[0] for a, b, count in bounds])

    @property
    def inside(self) -> npt.NDArray[np.bool_]:
        """Which centres (N,) lie in the box: cells, not ghosts."""
        return np.asarray(np.all((self._numbers >= 0) & (self._numbers < np.array(self.counts)), axis=1))

    @property
    def _middles(self) -> Array:
        return np.array([float(count // 2) for count in self.counts])

    @property
    def _numbers(self) -> Array:
        return product([np.arange(-self.ghosts, count + self.ghosts, dtype=np.float64) for count in self.counts])

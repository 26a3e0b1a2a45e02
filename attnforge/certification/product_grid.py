"""The product grid that a head's centres claim to be, recognised from the numbers, and the values it should hold.

Nothing here is shared with what builds networks: a proof must not repeat a builder's mistake.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from attnforge.balls import Balls
from attnforge.balls.arrays import UNIT
from attnforge.errors import CertificateError

Array = npt.NDArray[np.float64]

SAME = 1e-9  # steps between a centre and its place on the grid


@dataclass(frozen=True, eq=False)
class ProductGrid:
    """Equal cells of the box from ``lower`` to ``upper`` (D,), ``counts`` an axis and ``ghosts`` more a side.

    A centre's *places* (N, D) are whole numbers of steps from a middle cell, the last axis fastest; place 0 stands at
    ``origin`` (D,).

    >>> grid = recognised(np.array([[-0.25], [0.25], [0.75], [1.25]]), 1, np.zeros(1), np.ones(1))
    >>> grid.counts, grid.ghosts, grid.places.ravel().tolist(), grid.origin.tolist()
    ((2,), 1, [-2.0, -1.0, 0.0, 1.0], [0.75])
    """

    lower: Array
    upper: Array
    counts: tuple[int, ...]
    ghosts: int

    @property
    def steps(self) -> Array:
        """Lengths of the cells (D,)."""
        return np.asarray((self.upper - self.lower) / np.array(self.counts))

    @property
    def origin(self) -> Array:
        """The centre of place 0."""
        return np.asarray(self.lower + self.steps * (np.array(self.counts) // 2 + 0.5))

    @property
    def places(self) -> Array:
        """Whole numbers (N, D)."""
        return _points([np.arange(-self.ghosts, m + self.ghosts, dtype=np.float64) - m // 2 for m in self.counts])

    @property
    def centres(self) -> Array:
        """Where the places stand, (N, D)."""
        return _points([self._along(axis, self.ghosts) for axis in range(len(self.counts))])

    @property
    def slip(self) -> Array:
        """How far centres and edges may stand from origin + step * place (D,): the roundings of step, origin, centre.

        A step is rounded twice, relative to the side; origin and centre are sums of two numbers, one of them a product.
        """
        return np.asarray(8 * UNIT * (np.abs(self.lower) + np.abs(self.upper)))

    def values(self, at: Callable[[Array], Balls]) -> Balls:
        """What the centres should hold (N, K): f there, at ghosts reflected oddly at the edge, axis by axis.

        >>> grid = ProductGrid(np.zeros(1), np.ones(1), (2,), 1)
        >>> grid.values(lambda points: Balls.exact(points**2)).mid.ravel().tolist()  # 0 - 1/16, 1/16, 9/16, 2 - 9/16
        [-0.0625, 0.0625, 0.5625, 1.4375]
        """
        inner = [self._along(axis, 0) for axis in range(len(self.counts))]
        if not self.ghosts:
            return at(_points(inner))
        ends = zip(self.lower, inner, self.upper, strict=True)
        axes = [np.concatenate([[low], middles, [high]]) for low, middles, high in ends]
        found = at(_points(axes))
        table = _each(found, lambda part: part.reshape(*map(len, axes), -1))
        for axis in range(len(axes)):
            first = partial(np.moveaxis, source=axis, destination=0)
            back = partial(np.moveaxis, source=0, destination=axis)
            table = _each(self._mirrored(_each(table, first)), back)
        return _each(table, lambda part: part.reshape(-1, found.shape[-1]))

    def _along(self, axis: int, ghosts: int) -> Array:
        numbers = np.arange(-ghosts, self.counts[axis] + ghosts, dtype=np.float64)
        return np.asarray(self.lower[axis] + self.steps[axis] * (numbers + 0.5))

    def _mirrored(self, table: Balls) -> Balls:
        """From an edge, the cells and an edge along the first axis: ghosts, the cells and ghosts."""
        low, cells, high, g = table[:1], table[1:-1], table[-1:], self.ghosts
        parts = [low + low - cells[:g][::-1], cells, high + high - cells[-g:][::-1]]
        return Balls(np.concatenate([part.mid for part in parts]), np.concatenate([part.rad for part in parts]))


def recognised(positions: Array, blocks: int, lower: Array, upper: Array) -> ProductGrid:
    """The grid behind claimed centres, ``blocks`` times in a row; refused where they are no such grid."""
    count = len(positions) // blocks
    first = positions[:count]
    if positions.ndim == 2 and positions.shape[1] == len(lower) and count and np.all(lower < upper):
        along = [np.unique(column) for column in first.T]
        counts = [int(np.sum((p > a) & (p < b))) for p, a, b in zip(along, lower, upper, strict=True)]
        found = ProductGrid(lower, upper, tuple(counts), (len(along[0]) - counts[0]) // 2)
        keys = float(np.prod([m + 2.0 * found.ghosts for m in counts]))
        if 0 <= found.ghosts <= min(counts) and min(counts) > 0 and keys * blocks == len(positions):
            wanted = np.tile(found.centres, (blocks, 1))
            if np.all(np.abs(wanted - positions) <= SAME * found.steps):
                return found
    raise CertificateError("The keys' centres are a product grid of the domain's cells", "other positions")


def stray(stored: Array, grid: ProductGrid, at: Callable[[Array], Balls], tokens: int) -> tuple[Array, Array]:
    """How far values (n N, k), one block a token, may be from what the grid should hold, and how large that may be."""
    wanted = grid.values(at)
    count = len(wanted.mid)
    blocks = _each(wanted, lambda part: np.moveaxis(part.reshape(count, tokens, -1), 1, 0).reshape(stored.shape))
    return (Balls.exact(stored) - blocks).magnitude(), blocks.magnitude()


def _each(balls: Balls, shaped: Callable[[Array], Array]) -> Balls:
    """Midpoints and radii put into another shape."""
    return Balls(shaped(balls.mid), shaped(balls.rad))


def _points(axes: list[Array]) -> Array:
    """All points (N, D) of a product, the last axis fastest."""
    return np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=-1).astype(np.float64)

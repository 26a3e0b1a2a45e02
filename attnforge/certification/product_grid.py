"""The product grid of cells behind a head's scores, recognised from the numbers, and the values it should hold.

Any guess is sound: what it does not explain of the scores is charged by those who use it.

Nothing here is shared with what builds networks: a proof must not repeat a builder's mistake.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from attnforge.errors import CertificateError
from attnforge.outward import Balls
from attnforge.outward.arrays import UNIT

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

SAME = 1e-9  # slopes closer than this, relative to the largest, are one
ROUGHLY = 0.01  # steps by which slopes and places may differ from those of a grid


@dataclass(frozen=True, eq=False)
class ProductGrid:
    """Equal cells of the box from ``lower`` to ``upper`` (D,), ``counts`` an axis and ``ghosts`` more a side.

    A centre's *places* (N, D) are whole numbers of steps from a middle cell, the last axis fastest; place 0 stands at
    ``origin`` (D,).

    >>> grid = ProductGrid(np.zeros(1), np.ones(1), (2,), 1)
    >>> grid.centres.ravel().tolist(), grid.places.ravel().tolist(), grid.origin.tolist()
    ([-0.25, 0.25, 0.75, 1.25], [-2.0, -1.0, 0.0, 1.0], [0.75])
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


@dataclass(frozen=True, eq=False)
class Cells:
    r"""A grid, the sharpness c of scores $-c\,|\kappa - u|^2$ over it, the number of each key's ``place`` (P,) in it.

    ``own`` (N,) is the key with the highest score at each place; others there are copies, for other tokens.
    """

    grid: ProductGrid
    sharpness: float
    place: Indices
    own: Indices

    @property
    def copies(self) -> Indices:
        """The keys that are not the highest of their place."""
        return np.flatnonzero(self.own[self.place] != np.arange(len(self.place)))


def recognised(slopes: Array, offsets: Array, lower: Array, upper: Array) -> Cells:
    r"""The grid behind keys whose scores are slopes (P, D) . z + offsets (P,); refused where they show no such grid.

    Scores $-c\,|\kappa - u|^2$ have the slopes $2c\kappa_a/h_a$ along each axis, ladders of equal steps, and offsets
    $-c\,|\kappa|^2$ up to an affine function of $\kappa$. One rung too many at each end is a ghost: with g of them
    among n rungs the cells are sides / (n - 2 g), and the steps of the ladder 2c / h.

    >>> centres = np.array([[1.25], [0.25], [0.75], [-0.25]])  # two cells of [0, 1] and two ghosts, beta = 8
    >>> cells = recognised(16 * centres, -8 * centres[:, 0] ** 2, np.zeros(1), np.ones(1))
    >>> cells.grid.counts, cells.grid.ghosts, round(cells.sharpness, 9), cells.own.tolist()
    ((2,), 1, 2.0, [3, 1, 2, 0])
    """
    if not (np.isfinite(slopes).all() and np.isfinite(offsets).all()):
        raise CertificateError("Keys of cells differ by float64 numbers", "infinity", "Scale the target or its domain")
    ladders = [_ladder(column) for column in slopes.T]
    rungs, steps = [ladder[1] for ladder in ladders], np.array([ladder[2] for ladder in ladders])
    if 1 < math.prod(rungs) <= len(offsets) and np.all(lower < upper) and _are_even(slopes, ladders):
        place = np.ravel_multi_index([ladder[0] for ladder in ladders], rungs)
        order = np.lexsort((offsets, place))
        own = order[np.flatnonzero(np.diff(place[order], append=-1))]  # the highest of each place
        sharpness, ghosts = _shape(offsets[own], rungs, steps * (upper - lower))
        counts = tuple(n - 2 * ghosts for n in rungs)
        if len(own) == math.prod(rungs) and 0 <= ghosts <= min(counts) and min(counts) > 0 and sharpness > 0:
            found = Cells(ProductGrid(lower, upper, counts, ghosts), sharpness, place, own)
            if _fits(found, steps, offsets[own]):
                return found
    raise CertificateError("The keys' centres are a product grid of the domain's cells", "other positions")


def _ladder(column: Array) -> tuple[Indices, int, float]:
    """The rung of every number, how many rungs there are, and the step between them."""
    gaps = np.diff(np.sort(column))
    widest, lowest, highest = gaps.max(initial=0.0), column.min(), column.max()
    if widest <= SAME * max(abs(lowest), abs(highest)):
        return np.zeros(len(column), dtype=np.int64), 1, 0.0
    rungs = 1 + int(np.sum(gaps > widest / 2))
    step = (highest - lowest) / (rungs - 1)
    return np.rint((column - lowest) / step).astype(np.int64), rungs, float(step)


def _are_even(slopes: Array, ladders: list[tuple[Indices, int, float]]) -> bool:
    """Whether all slopes are close to their rungs."""
    pairs = zip(slopes.T, ladders, strict=True)
    return all(
        np.all(np.abs(column - column.min() - step * rung) <= ROUGHLY * step + SAME * np.abs(column).max())
        for column, (rung, _, step) in pairs
    )


def _shape(offsets: Array, rungs: list[int], reach: Array) -> tuple[float, int]:
    """Sharpness c and ghosts from the offsets of a full product of rungs; ``reach`` is 2c times the cells of an axis.

    Two rungs bend no row of offsets: then there are no ghosts, and c is what the slopes say.
    """
    most = int(np.argmax(rungs))
    if len(offsets) != math.prod(rungs):
        return 0.0, 0
    if rungs[most] <= 2:
        return float(reach[most]) / 4, 0
    places = _points([np.arange(n, dtype=np.float64) - n // 2 for n in rungs])
    design = np.column_stack([np.ones(len(places)), places, np.square(places).sum(axis=1)])
    sharpness = -float(np.linalg.lstsq(design, offsets, rcond=None)[0][-1])
    cells = float(reach[most]) / (2 * sharpness) if sharpness > 0 else 0.0
    return sharpness, round(min(max((rungs[most] - cells) / 2, 0.0), rungs[most] / 2))


def _fits(cells: Cells, steps: Array, offsets: Array) -> bool:
    """Whether scores with these steps of their slopes, and these offsets, see places about where the grid has them."""
    grid, double = cells.grid, 2 * cells.sharpness
    bent = offsets + cells.sharpness * np.square(grid.places).sum(axis=1)
    straight = np.linalg.lstsq(np.column_stack([np.ones(len(bent)), grid.places]), bent, rcond=None)[0][1:]
    away = np.abs(straight / double + grid.origin / grid.steps)
    return bool(np.all((steps == 0) | (np.abs(steps * grid.steps / double - 1) < ROUGHLY) & (away < ROUGHLY)))


def _each(balls: Balls, shaped: Callable[[Array], Array]) -> Balls:
    """Midpoints and radii put into another shape."""
    return Balls(shaped(balls.mid), shaped(balls.rad))


def _points(axes: list[Array]) -> Array:
    """All points (N, D) of a product, the last axis fastest."""
    return np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=-1).astype(np.float64)

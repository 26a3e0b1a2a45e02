r"""A target near a function that is affine on cells: cells and slopes by values at points, how near by proof.

On a cell let $A(x) = a \cdot x + b$ with any numbers a and b. The target is a Taylor model on parts of the cell
(:mod:`.target_range`), so what is left of it, $f - A$, is enclosed there, and a branch and bound over the parts of all
cells gives r with
$$ |f(x) - A(x)| \le r \quad \text{for every } x \text{ of the box.} $$
How cells are cut and slopes chosen decides how small that is, not whether it is true. Slopes, offsets and the ends of
cells are numbers of a dtype: what is proved is proved of these, and a file can hold them.
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.certification.target_range import seen_at, target_models
from attnforge.effort import NORMAL, Effort, check_time
from attnforge.errors import CertificateError
from attnforge.kernel.degrees import degrees
from attnforge.kernel.models import Models
from attnforge.outward import round_to
from attnforge.outward.arrays import TINY
from attnforge.outward.branch_and_bound import Found, Rules, branch_and_bound
from attnforge.targets import Box, Target

Array = npt.NDArray[np.float64]

NODES = (-1.0, -0.45, 0.1, 0.6, 1.0)  # of a cell, along an axis: no period fits all of them
GRID = 4  # inputs, up to which all combinations of nodes are looked at
SCATTERED = 64  # further points of a cell
CLOSE = 1 + 2.0**-7  # parts of cells are cut until the bound is this near to a distance seen
BATCH = 64  # of them at once
TIE = 2.0**-20  # of the most that is left along an axis: what axes count with along which nothing is


@dataclass(frozen=True, eq=False)
class Pieces:
    """Cells (C, D) of a box, and on each an affine function of slopes (C, K, D) and offsets (C, K) for K outputs."""

    lower: Array
    upper: Array
    slopes: Array
    offsets: Array

    def holding(self, lower: Array, upper: Array) -> npt.NDArray[np.int64]:
        """The first cell (B,) that holds all of each box (B, D), of which each lies in one."""
        inside = (lower[:, None] >= self.lower) & (upper[:, None] <= self.upper)
        return np.asarray(inside.all(axis=2).argmax(axis=1))

    def at(self, points: Array) -> Array:
        """The affine functions (P, K) at points of the box, in float64: to tell where to look, not for a bound."""
        cell = self.holding(points, points)
        return np.asarray((self.slopes[cell] @ points[:, :, None])[..., 0] + self.offsets[cell])


@dataclass(frozen=True, eq=False)
class Cell:
    """A cell, slopes (K, D) and offsets (K,) fitted to values at its points, and how far these are from them.

    ``varying`` (D,) is how much what is left varies along each axis.
    """

    lower: Array
    upper: Array
    slopes: Array
    offsets: Array
    spread: float
    varying: Array

    @property
    def axis(self) -> int:
        """To cut: the longest of those along which much is left."""
        sides = self.upper - self.lower
        return int(np.where(self.varying >= self.varying[sides > 0].max(initial=0.0) / 2, sides, -1.0).argmax())


def distance(target: Target, pieces: Pieces, effort: Effort = NORMAL, negligible: float = 0.0) -> float:
    """How far at most the target is from the pieces, on all of the box they cover, in any output: proved.

    What is ``negligible`` is not made smaller.
    """
    whole = _cell(target, pieces.lower.min(axis=0), pieces.upper.max(axis=0), affine=True, dtype="float64")
    unit = np.maximum(whole.varying, TIE * whole.varying.max()) / np.maximum(whole.upper - whole.lower, TINY)

    def look(lower: Array, upper: Array, _: Any) -> Found:
        check_time("bracketing a target")
        low, high = _left(target, pieces, lower, upper)
        bound = np.maximum(np.abs(low), np.abs(high)).max(axis=1)
        middle = lower / 2 + upper / 2
        seen = np.abs(seen_at(target, middle) - pieces.at(middle)).max(axis=1)
        return Found.of(bound, seen, ((upper - lower) * unit).argmax(axis=1))

    rules = Rules(CLOSE, max(2 * len(pieces.lower), effort.boxes), BATCH, negligible=negligible)
    found = branch_and_bound(look, pieces.lower, pieces.upper, rules).bound
    if not np.isfinite(found):
        remedy = "Take a smaller box or more effort"
        raise CertificateError("A target must be enclosed between affine functions", "no finite range", remedy)
    return float(found)


def _left(target: Target, pieces: Pieces, lower: Array, upper: Array) -> tuple[Array, Array]:
    """The range (B, K) of the target less the pieces on parts (B, D) of their cells."""
    variables = Models.variables(degrees(lower.shape[1], 1), lower, upper)
    cell = pieces.holding(lower, upper)
    forms = variables.through(np.swapaxes(pieces.slopes[cell], 1, 2)).less(-pieces.offsets[cell])
    with np.errstate(all="ignore"):
        return (target_models(target, variables) - forms).range()


def cut(target: Target, box: Box, most: int, *, affine: bool, dtype: str, enough: float = 0.0) -> tuple[Pieces, float]:
    """Pieces of at most so many cells, and how far they seem to be: the farthest is halved until it is near enough."""
    first = _cell(target, box.lower, box.upper, affine, dtype)
    heap, count = [(-first.spread, 0, first)], itertools.count(1)
    while len(heap) < most and -heap[0][0] > enough:
        cell = heap[0][2]
        at = round_to(cell.lower / 2 + cell.upper / 2, dtype)[cell.axis]
        if not cell.lower[cell.axis] < at < cell.upper[cell.axis]:
            break  # the dtype has no number between its ends
        heapq.heappop(heap)
        for ends in ((cell.lower, _moved(cell.upper, cell.axis, at)), (_moved(cell.lower, cell.axis, at), cell.upper)):
            half = _cell(target, *ends, affine, dtype)
            heapq.heappush(heap, (-half.spread, next(count), half))
    cells = sorted((each for _, _, each in heap), key=lambda each: tuple(each.lower))
    names = ("lower", "upper", "slopes", "offsets")
    return Pieces(*(np.stack([getattr(each, name) for each in cells]) for name in names)), -heap[0][0]


def _moved(end: Array, axis: int, at: float) -> Array:
    found = end.copy()
    found[axis] = at
    return found


def _cell(target: Target, lower: Array, upper: Array, affine: bool, dtype: str) -> Cell:
    check_time("bracketing a target")
    middle, radius, ways = lower / 2 + upper / 2, upper / 2 - lower / 2, _ways(len(lower))
    points = np.clip(middle + ways * radius, lower, upper)
    values = np.nan_to_num(seen_at(target, points))
    slopes = np.zeros((values.shape[1], len(lower)))
    if affine:
        fitted = np.linalg.lstsq(np.column_stack([np.ones(len(ways)), ways]), values, rcond=None)[0][1:].T
        slopes = round_to(np.divide(fitted, radius, out=np.zeros_like(fitted), where=radius > 0), dtype)
    left = values - points @ slopes.T
    offsets = round_to(left.min(axis=0) / 2 + left.max(axis=0) / 2, dtype)
    spread = float(np.abs(left - offsets).max())
    return Cell(lower, upper, slopes, offsets, spread, _varying(left, len(lower)))


def _varying(left: Array, inputs: int) -> Array:
    """How much values at the ways vary along each axis (D,)."""
    if inputs <= GRID:
        grid = left[: len(NODES) ** inputs].reshape(*(len(NODES),) * inputs, -1)
        return np.array([np.ptp(grid, axis=i).max() for i in range(inputs)])
    star = left[: len(NODES) * inputs].reshape(inputs, len(NODES), -1)
    return np.asarray(np.ptp(star, axis=1).max(axis=1))


@lru_cache
def _ways(inputs: int) -> Array:
    """From the middle of a cell, in radii: nodes on a grid, or along each axis, then scattered ones."""
    if inputs <= GRID:
        nodes = np.array(list(itertools.product(NODES, repeat=inputs)))
    else:
        nodes = (np.eye(inputs)[:, None] * np.array(NODES)[:, None]).reshape(-1, inputs)
    return np.concatenate([nodes, np.random.default_rng(0).uniform(-1, 1, (SCATTERED, inputs))])

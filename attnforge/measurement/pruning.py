"""A tree of boxes that cover the domain, each with a proved bound of the error: where no search is needed.

A box whose bound does not exceed the largest error found holds no larger one. The others are cut in two, largest box
first, across their longest side relative to the domain's: cutting the largest bound first would bury itself where only
rounding is left of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attnforge.targets import Box

Array = npt.NDArray[np.float64]
Bounds = Callable[[Array, Array], Array]

MOST_TOGETHER = 2**22  # comparisons of a point with a box held at once


@dataclass(frozen=True, eq=False)
class Boxes:
    """Leaves of the tree: ends (C, D), proved bounds (C,), and shares of the domain (C,), which add up to 1."""

    lower: Array
    upper: Array
    bound: Array
    share: Array

    def __len__(self) -> int:
        return len(self.bound)

    def take(self, index: npt.NDArray[np.generic]) -> Boxes:
        """Some of the boxes."""
        return Boxes(self.lower[index], self.upper[index], self.bound[index], self.share[index])

    def left(self, error: float) -> Boxes:
        """The boxes that may hold a larger error than this one."""
        return self.take(self.bound > error)

    def pruned(self, error: float) -> float:
        """The share of the domain that holds no larger error than this one."""
        return float(self.share[self.bound <= error].sum())

    def holds(self, points: Array) -> npt.NDArray[np.bool_]:
        """Whether each point (N, D) lies in one of the boxes."""
        step = max(1, MOST_TOGETHER // max(1, self.lower.size))
        parts = [self._holds(points[i : i + step]) for i in range(0, len(points), step)]
        return np.concatenate([np.empty(0, dtype=np.bool_), *parts])

    def _holds(self, points: Array) -> npt.NDArray[np.bool_]:
        inside = (points[:, None] >= self.lower) & (points[:, None] <= self.upper)
        return np.asarray(np.any(np.all(inside, axis=2), axis=1))


def whole(box: Box, bounds: Bounds) -> Boxes:
    """The tree's root: the domain itself."""
    lower, upper = box.lower.ravel()[None], box.upper.ravel()[None]
    return Boxes(lower, upper, _known(bounds(lower, upper)), np.ones(1))


def cut(boxes: Boxes, bounds: Bounds, error: float, count: int) -> Boxes:
    """The boxes after cutting the ``count`` largest among those that are not pruned by ``error``; ties by the bound.

    A part's bound is the smaller of its own and its parent's. Boxes too thin to be cut stay as they are.

    >>> def width(lower, upper):
    ...     return (upper - lower).max(axis=1)
    >>> tree = whole(Box([0, 0], [1, 1]), width)
    >>> for _ in range(4):
    ...     tree = cut(tree, width, 0.5, 1)
    >>> len(tree), tree.left(0.5).bound, tree.pruned(0.5)
    (4, array([], dtype=float64), 1.0)
    """
    sides = boxes.upper.max(axis=0) - boxes.lower.min(axis=0)
    axes = ((boxes.upper - boxes.lower) / np.where(sides > 0, sides, 1.0)).argmax(axis=1)
    rows = np.arange(len(boxes))
    middle = (boxes.lower / 2 + boxes.upper / 2)[rows, axes]
    thick = (boxes.lower[rows, axes] < middle) & (middle < boxes.upper[rows, axes])
    open_ = np.flatnonzero(thick & (boxes.bound > error))
    chosen = open_[np.lexsort((-boxes.bound[open_], -boxes.share[open_]))[:count]]
    if not len(chosen):
        return boxes
    kept, parents = boxes.take(np.setdiff1d(rows, chosen)), boxes.take(chosen)
    lower, upper = (np.concatenate([end, end]) for end in (parents.lower, parents.upper))
    half, twice = len(chosen), np.tile(axes[chosen], 2)
    upper[np.arange(half), twice[:half]] = middle[chosen]
    lower[np.arange(half, 2 * half), twice[half:]] = middle[chosen]
    found = np.minimum(_known(bounds(lower, upper)), np.tile(parents.bound, 2))
    return Boxes(
        np.concatenate([kept.lower, lower]),
        np.concatenate([kept.upper, upper]),
        np.concatenate([kept.bound, found]),
        np.concatenate([kept.share, np.tile(parents.share / 2, 2)]),
    )


def _known(bound: Array) -> Array:
    """Infinity for what is not a number: nothing is known there."""
    return np.where(np.isnan(bound), np.inf, bound)


def points_inside(boxes: Boxes, count: int, rng: np.random.Generator) -> Array:
    """``count`` points (N, D): half in the boxes with the largest bounds, half in any; at random inside, or the middle.

    Bounds that are infinite say nothing, and come after the largest finite one.
    """
    first = count - count // 2
    finite = np.where(np.isfinite(boxes.bound), boxes.bound, 0.0)
    ranked = np.argsort(-finite, kind="stable")
    chosen = np.concatenate([np.resize(ranked, first), rng.integers(len(boxes), size=count - first)])
    way = rng.uniform(size=(count, boxes.lower.shape[1]))
    way[::4] = 0.5
    lower, upper = boxes.lower[chosen], boxes.upper[chosen]
    return np.asarray(np.clip(lower + way * (upper - lower), lower, upper))

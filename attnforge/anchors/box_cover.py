r"""Few boxes that cover a set of multi-indices: one head each.

Rows of binomial anchors are nested (:mod:`attnforge.anchors.binomial`), so a head of $\prod_a (2 l_a + 1)$ anchors
holds every term of a block $j \le l$, and a sum over a set needs heads whose boxes cover it: at worst one for each
maximal block, but a box a little larger than one of them often covers many. In eight inputs, $(1, .., 1)$ with
6561 anchors covers the 28 blocks of six ones and two zeros, which need 20412. Boxes are grown greedily from the largest
block left, along the input that covers most for its anchors.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

PATIENCE = 3  # steps a box grows without covering more for its anchors


def cover(blocks: Integers) -> Integers:
    """Boxes (H, D) such that every block (B, D) is below one of them.

    >>> cover(np.array([[0, 0, 0], [2, 0, 0], [1, 1, 0], [1, 0, 1], [0, 1, 1]])).tolist()
    [[1, 1, 1], [2, 0, 0]]
    """
    left = maximal(blocks)
    boxes = []
    while len(left):
        boxes.append(_grown(left[0], left))
        left = left[(left > boxes[-1]).any(axis=1)]
    return np.array(boxes)


def maximal(blocks: Integers) -> Integers:
    """Those not below another, the largest first."""
    found = np.empty_like(blocks)
    count = 0
    for block in blocks[np.lexsort((*blocks.T, -anchors(blocks)))]:
        if not (block <= found[:count]).all(axis=1).any():
            found[count] = block
            count += 1
    return found[:count]


def anchors(boxes: Integers) -> Array:
    """Anchors of the grids of these boxes."""
    return np.asarray(np.prod(2.0 * boxes + 1, axis=-1))


def _grown(seed: Integers, left: Integers) -> Integers:
    """The box from the seed on with the fewest anchors for those of the blocks it replaces."""
    sizes, units = anchors(left), np.eye(len(seed), dtype=np.int64)
    best, price, box, waited = seed, 1.0, seed, 0
    while waited < PATIENCE:
        tried = box + units
        prices = anchors(tried) / [sizes[(left <= one).all(axis=1)].sum() for one in tried]
        box, waited = tried[prices.argmin()], waited + 1
        if prices.min() <= price + 1e-12:  # at equal anchors, fewer heads
            best, price, waited = box, float(prices.min()), 0
    return best

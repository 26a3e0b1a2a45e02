r"""Free breakpoints on an interval: the fewest cells on each of which f varies by at most 2 E.

A cell with value $(\max f + \min f)/2$ errs by half the range of f there. For a given E the longest cells, taken one
after the other from the left, are the fewest: any other division has its j-th breakpoint no further right. The E that
``count`` cells reach is found by bisection, between 0 and half of what an equal share of the total variation gives.
All of it on dense samples: half of them evenly spaced, half spread in proportion to the variation seen by the first.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from attnforge.effort import check_time
from attnforge.errors import RefusalError

Array = npt.NDArray[np.float64]

SAMPLES = 64  # a cell, on average
FEWEST = 4096
LARGEST = 10**5  # cells: about a minute
ROUNDS = 24  # of bisection, or until the widths agree to 1e-3


def breakpoints(values: Callable[[Array], Array], lower: float, upper: float, count: int) -> tuple[Array, Array]:
    """Edges (count + 1,) of cells on [lower, upper], and the middle (count, K) of f's range on each.

    Args:
        values: f, from (N, 1) points to (N, K) values.
        lower, upper: the interval.
        count: of cells.

    >>> edges, middles = breakpoints(lambda x: x**2, 0.0, 1.0, 4)
    >>> np.allclose(edges, np.sqrt(np.linspace(0, 1, 5)), atol=1e-3)
    True
    """
    if count > LARGEST:
        raise RefusalError(f"At most {LARGEST:,} free breakpoints are placed", f"{count:,}", "Ask for fewer cells")
    x = dense_samples(values, lower, upper, max(FEWEST, SAMPLES * count))
    f = values(x[:, None])
    at = _fewest_cells(f, count)
    edges = x[at]
    while len(edges) <= count:  # a flat target needs fewer: the widest cells are halved
        widest = int(np.argmax(np.diff(edges)))
        edges = np.insert(edges, widest + 1, edges[widest] / 2 + edges[widest + 1] / 2)
    return edges, _middles(x, f, edges)


def dense_samples(values: Callable[[Array], Array], lower: float, upper: float, count: int) -> Array:
    """About ``count`` increasing points with both ends, denser where f varies."""
    even = np.linspace(lower, upper, count // 2 + 1)
    steps = np.abs(np.diff(values(even[:, None]), axis=0)).max(axis=1)
    total = float(steps.sum())
    if not total > 0:
        return even
    share = np.concatenate([[0.0], np.cumsum(steps) / total])
    share, first = np.unique(share, return_index=True)
    drawn = np.interp(np.linspace(0.0, 1.0, count // 2), share, even[first])
    return np.unique(np.concatenate([even, drawn]))


def _fewest_cells(f: Array, count: int) -> npt.NDArray[np.int64]:
    """Indices of the edges of at most ``count`` cells with the smallest largest range."""
    narrow, wide = 0.0, float(np.abs(np.diff(f, axis=0)).max(axis=1).sum()) / count
    best = _cells_of_width(f, wide, count)
    while best is None:  # the largest single step exceeds an equal share
        wide *= 2
        best = _cells_of_width(f, wide, count)
    for _ in range(ROUNDS):
        check_time("placing cells")
        width = narrow / 2 + wide / 2
        found = _cells_of_width(f, width, count)
        narrow, wide, best = (width, wide, best) if found is None else (narrow, width, found)
        if wide - narrow <= 1e-3 * wide:
            break
    return np.array(best)


def _cells_of_width(f: Array, width: float, count: int) -> list[int] | None:
    """Edges of the longest cells of range at most ``width`` (each at least one step), None if more than ``count``."""
    edges, last = [0], len(f) - 1
    guess = max(2, 2 * len(f) // count)
    while edges[-1] < last:
        if len(edges) > count:
            return None
        edges.append(_furthest(f, edges[-1], width, guess))
    return edges


def _furthest(f: Array, start: int, width: float, step: int) -> int:
    """The last index up to which f, from ``start`` on, has at most that range; at least the next."""
    while True:
        window = f[start : start + step + 1]
        ranges = (np.maximum.accumulate(window) - np.minimum.accumulate(window)).max(axis=1)
        reach = int(np.searchsorted(ranges, width, side="right"))
        if reach < len(window) or start + step + 1 >= len(f):
            return start + max(reach - 1, 1)
        step *= 2


def _middles(x: Array, f: Array, edges: Array) -> Array:
    """The middle of f's range over the samples of each cell, both edges counted."""
    first = np.searchsorted(x, edges[:-1], side="right") - 1
    last = np.searchsorted(x, edges[1:], side="left") + 1
    rows = [(f[i:j].max(axis=0) + f[i:j].min(axis=0)) / 2 for i, j in zip(first, last, strict=True)]
    return np.array(rows)

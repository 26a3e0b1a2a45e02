"""Branch and bound for the maximum of a function of one real variable, evaluated on balls."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable

from flint import arb

from attnforge.balls.real import interval, lower, upper

MAX_CELLS = 20_000  # about a second of ball arithmetic; the bound stays valid, only less tight, when it is reached


def supremum(function: Callable[[arb], arb], low: float, high: float, *, rtol: float = 0.01, cells: int = 16) -> float:
    """A float64 above ``function`` on the whole of [low, high], within ``rtol`` of the true maximum where affordable.

    ``function`` maps a ball to a ball that contains all its values there. Cells are split where the upper bound is
    largest until it is within ``rtol`` of a value that is attained.

    >>> round(supremum(lambda x: x * (1 - x), 0.0, 1.0), 2)
    0.25
    """
    attained = -float("inf")
    heap: list[tuple[float, float, float]] = []
    for left, right in _split(low, high, cells):
        heapq.heappush(heap, (-upper(function(interval(left, right))), left, right))
    for _ in range(MAX_CELLS):
        bound, left, right = heap[0]
        middle = left / 2 + right / 2
        attained = max(attained, lower(function(arb(middle))))
        if -bound <= attained + rtol * abs(attained) or middle in (left, right):
            break
        heapq.heappop(heap)
        for cell in ((left, middle), (middle, right)):
            heapq.heappush(heap, (-upper(function(interval(*cell))), *cell))
    return -heap[0][0]


def _split(low: float, high: float, cells: int) -> list[tuple[float, float]]:
    points = [low + (high - low) * i / cells for i in range(cells)] + [high]
    return list(itertools.pairwise(points))

"""How far a search is: the fraction of the way from its first bound to its goal, on a logarithmic scale."""

from __future__ import annotations

import math
from collections.abc import Callable

STEP = 1e-3  # a caller is not told of less


class Progress:
    """Tells a caller the fraction of the way, which never falls although the goal may move.

    >>> said = []
    >>> progress = Progress(said.append)
    >>> for bound in (float("inf"), 1.0, 1e-2, 1e-1, 1e-4):
    ...     progress.tell(bound, 1e-4)
    >>> said
    [0.0, 0.5, 1.0]
    """

    def __init__(self, report: Callable[[float], None] | None) -> None:
        self._report, self._first, self._told = report, math.inf, -1.0
        self.done = 0.0

    def tell(self, bound: float, goal: float) -> None:
        """The bound is now ``bound`` and the search ends at ``goal``."""
        if not (math.isfinite(bound) and goal > 0):
            return
        self._first = bound if math.isinf(self._first) else max(self._first, bound)
        way = math.log(self._first / goal) if self._first > goal else 0.0
        done = math.log(self._first / bound) / way if way and bound > goal else float(bound <= goal)
        self.done = max(self.done, done)
        if self._report is not None and (done > self._told + STEP or done == 1.0 > self._told):
            self._told = done
            self._report(done)

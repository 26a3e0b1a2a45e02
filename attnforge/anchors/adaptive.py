"""A request for cells that follow the target: few where it is flat, many where it varies."""

from __future__ import annotations

import operator
from dataclasses import dataclass

from attnforge.errors import RefusalError


@dataclass(frozen=True)
class Adaptive:
    """``count`` cells in all, placed where the target varies.

    One input: free breakpoints, :mod:`attnforge.anchors.breakpoints`. Several: Voronoi cells of greedily inserted
    centres, :mod:`attnforge.anchors.centres`.

    >>> Adaptive(12).count
    12
    """

    count: int

    def __post_init__(self) -> None:
        try:
            count = operator.index(self.count)
        except TypeError:
            raise RefusalError("`count` must be a whole number of cells", repr(self.count), "Round it") from None
        if count < 1:
            raise RefusalError("`count` must be at least 1", str(count), "Ask for more cells")
        object.__setattr__(self, "count", count)

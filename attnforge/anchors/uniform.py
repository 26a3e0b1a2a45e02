"""Equally spaced anchors on an interval, closed (both ends) or open (the papers': without the upper end)."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from attnforge.errors import RefusalError

Array = npt.NDArray[np.float64]
Grid = Literal["closed", "open"]


def uniform(lower: float, upper: float, count: int, grid: Grid = "closed") -> tuple[Array, float]:
    r"""Positions and spacing of ``count`` anchors on [lower, upper].

    Closed: $L_k = a + k(b-a)/(p-1)$, so that both ends are anchors. Open: $L_k = a + k(b-a)/p$.

    >>> uniform(0.0, 1.0, 3)
    (array([0. , 0.5, 1. ]), 0.5)
    >>> uniform(0.0, 1.0, 2, "open")
    (array([0. , 0.5]), 0.5)
    """
    if grid not in ("closed", "open"):
        raise RefusalError("`grid` must be 'closed' or 'open'", repr(grid), "Use 'closed' unless you follow the paper")
    if count < 2:
        raise RefusalError("`anchors` must be at least 2", str(count), "Ask for more anchors")
    spacing = (upper - lower) / (count - 1 if grid == "closed" else count)
    return lower + spacing * np.arange(count, dtype=np.float64), spacing

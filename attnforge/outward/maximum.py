"""The maximum of a function of one real variable, evaluated on balls."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from flint import arb

from attnforge.outward.branch_and_bound import Found, Rules, branch_and_bound
from attnforge.outward.real import interval, lower, upper

Array = npt.NDArray[np.float64]

MAX_CELLS = 20_000  # about a second of ball arithmetic; the bound stays valid, only less tight, when it is reached
BATCH = 8  # cells cut at once: few are cut in vain


def supremum(function: Callable[[arb], arb], low: float, high: float, *, rtol: float = 0.01, cells: int = 16) -> float:
    """A float64 above ``function`` on the whole of [low, high], within ``rtol`` of the true maximum where affordable.

    ``function`` maps a ball to a ball that contains all its values there.

    >>> round(supremum(lambda x: x * (1 - x), 0.0, 1.0), 2)
    0.25
    """

    def look(lows: Array, highs: Array, _: Any) -> Found:
        ends = list(zip(lows[:, 0].tolist(), highs[:, 0].tolist(), strict=True))
        bounds = [upper(function(interval(a, b))) for a, b in ends]
        return Found.of(np.array(bounds), np.array([lower(function(arb(a / 2 + b / 2))) for a, b in ends]))

    edges = np.append(low + (high - low) * np.arange(cells) / cells, high)[:, None]
    rules = Rules(1 + rtol, MAX_CELLS, BATCH, negligible=-math.inf)
    return branch_and_bound(look, edges[:-1], edges[1:], rules).bound

"""How fast a target is, and what effort that allows: fewer points where one value takes long."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.effort import Effort
from attnforge.measurement.points import random_points
from attnforge.targets import Box

Values = Callable[[npt.NDArray[Any]], object]

PROBES = (1, 8, 64, 512)  # points timed one batch after the other, until a batch takes long enough to be believed
BELIEVED = 0.01  # of the time allowed
TINY = float(np.finfo(np.float64).tiny)  # seconds: a coarse clock may see none pass


def affordable(effort: Effort, values: Values, box: Box, tokens: int | None, seconds: float) -> Effort:
    """The effort, halved until as many ``values`` take at most about ``seconds``, by their pace.

    Halved and not cut to measure, so that a slightly faster or slower day gives the same points.
    """
    limit, taken = effort.evaluations, pace(values, box, tokens, seconds)
    allowed = seconds / max(taken, TINY)
    while limit > allowed and limit > 1:
        limit //= 2
    return effort.within(limit)


def pace(values: Values, box: Box, tokens: int | None, seconds: float) -> float:
    """Seconds that one of the ``values`` takes, timed alone or, where one is done at once, in larger batches.

    A callable remembers its values, and remembered ones take no time: the points timed are different in every call.
    """
    rng, taken = np.random.default_rng(), 0.0
    for count in PROBES:
        points = random_points(box, tokens, count * (tokens or 1), rng).astype(np.longdouble)
        started = time.perf_counter()
        values(points)
        taken = (time.perf_counter() - started) / count
        if taken * count > BELIEVED * seconds:
            break
    return taken

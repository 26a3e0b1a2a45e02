"""How hard to look: so many points, so long a climb, and less where one value of the target takes long."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.measurement.points import random_points
from attnforge.targets import Box

Values = Callable[[npt.NDArray[Any]], object]

PROBES = (1, 8, 64, 512)  # points timed one batch after the other, until a batch takes long enough to be believed
BELIEVED = 0.01  # of the time allowed


@dataclass(frozen=True)
class Effort:
    """Random points (``points``), points near anchors (half as many), and ``climbers`` of so many rounds and tries."""

    points: int
    climbers: int = 16
    rounds: int = 24
    tries: int = 24

    @property
    def climb(self) -> int:
        """Evaluations of the climb."""
        return self.climbers * self.rounds * self.tries

    @property
    def evaluations(self) -> int:
        """Evaluations in all, near anchors or along a line included."""
        return self.points + self.points // 2 + self.climb

    def within(self, evaluations: int) -> Effort:
        """An effort of at most so many evaluations, and at least one.

        Half of them are for looking and half for the climb, which loses climbers, rounds and tries alike.

        >>> Effort(4000).within(1000).evaluations
        985
        >>> Effort(4000).within(100_000)
        Effort(points=4000, climbers=16, rounds=24, tries=24)
        >>> Effort(4000).within(0)
        Effort(points=1, climbers=1, rounds=0, tries=0)
        """
        if evaluations >= self.evaluations:
            return self
        look = max(evaluations // 2, evaluations - self.climb)
        points = max(1, min(self.points, 2 * look // 3))
        shrink = min(1.0, max(0, evaluations - points - points // 2) / self.climb) ** (1 / 3)
        climbers, rounds, tries = (int(shrink * size) for size in (self.climbers, self.rounds, self.tries))
        return Effort(points, climbers, rounds, tries) if climbers * rounds * tries else Effort(points, 1, 0, 0)


def affordable(effort: Effort, values: Values, box: Box, tokens: int | None, seconds: float) -> Effort:
    """The effort, halved until as many ``values`` take at most about ``seconds``, by their pace.

    Halved and not cut to measure, so that a slightly faster or slower day gives the same points.
    """
    limit, allowed = effort.evaluations, seconds / max(pace(values, box, tokens, seconds), np.finfo(np.float64).tiny)
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

"""One who evaluates the error as it runs, counts how often, watches the clock and remembers the worst point."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attnforge.measurement.gaps import Run, gaps
from attnforge.targets import Box, Target

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

UNLIMITED = 2**62


@dataclass(frozen=True, eq=False)
class Judged:
    """Points (N, ...) with the largest |gap| over their outputs (N,), the output that has it, and its sign."""

    at: Array
    error: Array
    which: Indices
    sign: Array

    def __len__(self) -> int:
        return len(self.error)

    def take(self, index: npt.NDArray[np.generic]) -> Judged:
        """Some of the points."""
        return Judged(self.at[index], self.error[index], self.which[index], self.sign[index])

    def join(self, other: Judged) -> Judged:
        """Both sets of points."""
        names = ("at", "error", "which", "sign")
        return Judged(*(np.concatenate([getattr(self, name), getattr(other, name)]) for name in names))

    def worst(self, count: int) -> Judged:
        """The points with the largest errors, largest first."""
        return self.take(np.argsort(-self.error, kind="stable")[:count])

    def tops(self, count: int, apart: Array) -> Judged:
        """The worst points, largest error first, of which no two are closer than ``apart`` along every input."""
        kept: list[int] = []
        for i in np.argsort(-self.error, kind="stable").tolist():
            near = np.abs(self.at[kept] - self.at[i]) <= apart
            if not near.all(axis=tuple(range(1, near.ndim))).any():
                kept.append(i)
            if len(kept) == count:
                break
        return self.take(np.array(kept, dtype=np.intp))


class Judge:
    """Evaluates |run - target| within a limit of evaluations, seconds, or both.

    A run that is not a number has an infinite error: nothing is farther from the target.
    """

    def __init__(self, run: Run, target: Target, box: Box, evaluations: int | None, seconds: float | None) -> None:
        self.run, self.target, self.box = run, target, box
        self.limit, self.seconds, self.started = evaluations or UNLIMITED, seconds, time.monotonic()
        self.count, self.error, self.at = 0, 0.0, box.middle

    def __call__(self, points: Array) -> Judged:
        """The errors at the points, counted and remembered."""
        found = gaps(self.run, self.target, points)
        sizes = np.where(np.isfinite(found), np.abs(found), np.inf)
        which = sizes.argmax(axis=1)
        rows = np.arange(len(points))
        judged = Judged(points, sizes[rows, which], which, np.where(found[rows, which] < 0, -1.0, 1.0))
        self.spend(len(points))
        top = int(judged.error.argmax())
        self.remember(float(judged.error[top]), points[top])
        return judged

    def spend(self, count: int) -> None:
        """Count evaluations made elsewhere."""
        self.count += count

    def remember(self, error: float, at: Array) -> None:
        """Keep the point if it is the worst so far."""
        error = error if np.isfinite(error) else np.inf
        if error > self.error:
            self.error, self.at = error, at

    @property
    def left(self) -> int:
        """Evaluations that may still be made; none when the time is up or nothing worse can be found."""
        if np.isinf(self.error) or self.fraction >= 1.0:
            return 0
        return self.limit - self.count

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started

    @property
    def fraction(self) -> float:
        """The share of the evaluations or of the time that is gone, whichever is larger; at most 1."""
        timed = 0.0 if self.seconds is None else self.elapsed / self.seconds
        return min(1.0, max(timed, self.count / self.limit))

"""A target seen from outside: values only, counted, and finite or refused."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from attnforge.errors import TargetError
from attnforge.targets.target import AnyArray, Target

Array = npt.NDArray[np.float64]

ROUNDING = 1e-13  # of max|f|: differences of a few values below this are rounding, whatever tolerance was asked


class BlackBox:
    """The values (N, k) of a target at points (N, D) of its box.

    ``evaluations`` counts the points, ``size`` is the largest absolute value seen.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self.evaluations = 0
        self.size = 0.0

    def __call__(self, points: AnyArray) -> AnyArray:
        """Values; a TargetError where they are not finite."""
        found = self._target.values(points).reshape(len(points), -1)
        self.evaluations += len(points)
        bad = ~np.isfinite(found).all(axis=1)
        if bad.any():
            where = np.array2string(points[bad.argmax()], precision=6, threshold=8)
            raise TargetError("The function must be finite on its domain", f"NaN or infinity at {where}", "Shrink it")
        self.size = max(self.size, float(np.abs(found).max(initial=0.0)))
        return found

    @property
    def rounding(self) -> float:
        """What rounding may do to a sum of a few values."""
        return ROUNDING * self.size


def scattered(generator: np.random.Generator, lower: Array, upper: Array, count: int, corners: int = 0) -> Array:
    """Random points of a box, and then as many of its corners, (count + corners, D)."""
    inside = lower + (upper - lower) * generator.random((count, len(lower)))
    ends = np.where(generator.random((corners, len(lower))) < 0.5, lower, upper)
    return np.asarray(np.clip(np.concatenate([inside, ends]), lower, upper))

"""Targets that were read from something, compared with it at random points."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from attnforge.errors import TargetError
from attnforge.targets.target import Target

Array = npt.NDArray[np.float64]
T = TypeVar("T", bound=Target)

POINTS = 100  # at which a function and its formula are compared
AGREE = 1e-6  # of the largest value: roundings of float32 are smaller, another function is hardly as close everywhere
TINY = float(np.finfo(np.float64).tiny)


def compared(target: T, function: Callable[[Array], Array], agree: float = AGREE) -> T:
    """The target, if at random points of its domain its values are those of a function of (N, d) points.

    ``agree`` is the part of the largest value by which they may differ. A sequence's tokens are points.
    """
    lower, upper = target.domain.lower, target.domain.upper
    points = np.random.default_rng(0).uniform(lower, upper, (POINTS, *lower.shape)).reshape(-1, lower.shape[-1])
    expected, found = (_rows(values, len(points)) for values in (function(points), target.values(points)))
    with np.errstate(invalid="ignore"):
        off = np.abs(found - expected).max(axis=1) if found.shape == expected.shape else np.full(len(points), np.inf)
    if not np.all(off <= agree * np.max(np.abs(expected), where=np.isfinite(expected), initial=TINY)):
        i = int(np.argmax(np.where(np.isfinite(off), off, np.inf)))
        names = target.names or tuple(f"x[{j}]" for j in range(points.shape[1]))
        where = ", ".join(f"{name}={value:.6g}" for name, value in zip(names, points[i], strict=True))
        got = f"{_shown(expected[i])} at {where[:200]}, where the formula is {_shown(found[i])}"
        remedy = "Leave out what depends on values, randomness or state, compute in float64, or shrink the domain"
        raise TargetError("A function must be finite, and what was read of it", got, remedy)
    return target


def _rows(values: Array, count: int) -> Array:
    return np.asarray(values, np.float64).reshape(count, -1)


def _shown(values: Array) -> str:
    return f"{values[0]:.6g}" if len(values) == 1 else "[" + ", ".join(f"{value:.6g}" for value in values[:5]) + "]"

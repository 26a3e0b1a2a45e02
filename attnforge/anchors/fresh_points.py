"""Points at which a fit is judged: random ones, some on faces of the box, and closer and closer around the worst."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

CLIMBERS, TRIES = 8, 16  # worst points around which more are tried
SPREADS = (0.2, 0.1, 0.05, 0.025)  # of the sides of the box


def fresh(lower: Array, upper: Array, count: int, seed: int) -> Array:
    """Random points (count, D), half inside and half on faces: each coordinate but one goes to an end at even odds.

    >>> points = fresh(np.zeros(3), np.ones(3), 100, 0)
    >>> inner = (points > 0) & (points < 1)
    >>> bool(inner[:50].all()), bool(inner.any(axis=1).all()), bool(inner[50:].all())
    (True, True, False)
    """
    rng = np.random.default_rng(seed)
    points = rng.uniform(lower, upper, size=(count, len(lower)))
    ends = np.where(points > (lower + upper) / 2, upper, lower)
    moved = rng.random(points.shape) < 0.5
    moved[: count // 2] = False
    moved[np.arange(count), rng.integers(len(lower), size=count)] = False
    return np.where(moved, ends, points)


def climb(
    error: Callable[[Array], Array], points: Array, errors: Array, lower: Array, upper: Array, seed: int
) -> float:
    """The largest error at points (N, D) with known ``errors`` (N,) and around the worst of them.

    Steps over a face are reflected, so that no corner is asked for twice.
    """
    rng = np.random.default_rng(seed)
    for spread in SPREADS:
        worst = np.argsort(errors)[-CLIMBERS:]
        steps = spread * (upper - lower) * rng.standard_normal((TRIES, len(worst), len(lower)))
        tried = _reflected((points[worst] + steps).reshape(-1, len(lower)), lower, upper)
        points, errors = np.vstack([points[worst], tried]), np.append(errors[worst], error(tried))
    return float(errors.max())


def _reflected(points: Array, lower: Array, upper: Array) -> Array:
    inside = upper - np.abs(upper - (lower + np.abs(points - lower)))
    return np.clip(inside, lower, upper)

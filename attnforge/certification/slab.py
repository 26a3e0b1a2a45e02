"""The part of a box where a linear form takes values in an interval: where rounding of the form matters."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from attnforge.outward import Balls

Array = npt.NDArray[np.float64]


def slab(
    lower: Array, upper: Array, weights: Balls, offsets: Balls, low: float | Array, high: float | Array
) -> tuple[Array, Array]:
    """A box around {x in the box: low <= w . x + t <= high}, row by row; the box itself where that set is empty.

    Each coordinate is bounded by what the others leave over: w_j x_j >= low - t - max sum of the others. ``low`` and
    ``high`` may be one a row, (R, 1).
    """
    w, slack = weights.mid, 1e-9 * (np.abs(low) + np.abs(high) + 1.0)
    ends = np.stack([w * lower, w * upper])
    least, most = ends.min(axis=0), ends.max(axis=0)
    t = offsets.mid[:, None]
    furthest = np.maximum(np.abs(lower), np.abs(upper))
    reach = slack + 1e-9 * ((np.abs(w) * furthest).sum(axis=1, keepdims=True) + np.abs(t))
    reach = reach + (weights.rad * furthest).sum(axis=1, keepdims=True) + offsets.rad[:, None]
    floor = low - t - (most.sum(axis=1, keepdims=True) - most) - reach
    ceiling = high - t - (least.sum(axis=1, keepdims=True) - least) + reach
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        first, second = floor / w, ceiling / w
    bounded = w != 0
    new_lower = np.where(bounded, np.fmax(lower, np.fmin(first, second)), lower)
    new_upper = np.where(bounded, np.fmin(upper, np.fmax(first, second)), upper)
    empty = np.any(new_lower > new_upper, axis=1, keepdims=True)
    return np.where(empty, lower, new_lower), np.where(empty, upper, new_upper)

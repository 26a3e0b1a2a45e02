"""Values fitted anew at every sharpness, beside sampled ones."""

from __future__ import annotations

import numpy as np

from attnforge.experiments.experiment import Row

ANCHORS, GHOSTS = 33, 10  # of the head; ghosts a side
CUT = 1e-13  # of singular values, relative to the largest


def fitted(c: float) -> Row:
    """sin(8x) on [-1, 1] by values fitted at this sharpness, and by sampled ones, in float64."""
    from attnforge.anchors.axis import Axis

    axis = Axis.uniform(-1.0, 1.0, ANCHORS + 2 * GHOSTS, GHOSTS, c)
    x, fresh = np.linspace(-1, 1, 12 * ANCHORS + 1), np.linspace(-1, 1, 10_001)
    values, _, rank, singular = np.linalg.lstsq(axis.weights(x), np.sin(8 * x), rcond=CUT)
    weights = axis.weights(fresh)
    return {
        "error": float(np.abs(weights @ values - np.sin(8 * fresh)).max()),
        "sampled_error": float(np.abs(weights @ np.sin(8 * axis.positions) - np.sin(8 * fresh)).max()),
        "condition": float(singular[0] / singular[int(rank) - 1]),
        "largest_value": float(np.abs(values).max()),
    }

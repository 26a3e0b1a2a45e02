"""What a dtype makes of sums of products with constant weights: how many operations round, and by how much."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.outward import gamma

Array = npt.NDArray[np.float64]


def count_roundings(weights: Array) -> Array:
    """Roundings behind each output of features times a matrix (..., m, m'), for features of any kind."""
    inexact = np.any(~power_of_two(weights), axis=-2)
    return np.asarray(inexact + np.maximum((weights != 0).sum(axis=-2) - 1, 0), dtype=np.float64)


def power_of_two(values: Array) -> npt.NDArray[np.bool_]:
    """Factors whose products are exact; zero is one of them."""
    return np.isin(np.abs(np.frexp(values)[0]), (0.0, 0.5))


def gammas(operations: npt.NDArray[np.number[Any]], unit: float) -> Array:
    """The relative error of so many roundings, each."""
    values = np.unique(operations)
    return np.select([operations == k for k in values], [gamma(int(k), unit) for k in values])

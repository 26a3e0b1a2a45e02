"""Whether numbers of keys grow as a power of the number of inputs or exponentially."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from attnforge.experiments.slope import Slope, fit_slope

Array = npt.NDArray[np.float64]


def base_of(inputs: npt.ArrayLike, keys: npt.ArrayLike) -> Slope:
    """The base b of keys ~ C b^d, with its confidence interval.

    >>> print(base_of([1, 2, 3, 4], [3, 9, 27, 81]))
    3.000 (95 % CI 3.000 to 3.000)
    """
    fit = fit_slope(np.exp(np.asarray(inputs, dtype=np.float64)), keys)
    return Slope(math.exp(fit.value), math.exp(fit.low), math.exp(min(fit.high, 700.0)), fit.points)


def misfits(*curves: tuple[npt.ArrayLike, npt.ArrayLike]) -> tuple[float, float]:
    """What is left of the logarithms of the keys, squared and summed, by powers of d and by exponentials.

    Each curve (d, keys) has its own power and its own base.

    >>> power, exponential = misfits(([1, 2, 3, 4], [2, 8, 18, 32]))
    >>> power < 1e-20, exponential > 0.1
    (True, True)
    """
    power, exponential = 0.0, 0.0
    for inputs, keys in curves:
        d, logarithms = np.asarray(inputs, dtype=np.float64), np.log(np.asarray(keys, dtype=np.float64))
        power += _misfit(np.log(d), logarithms)
        exponential += _misfit(d, logarithms)
    return power, exponential


def _misfit(x: Array, y: Array) -> float:
    """The sum of squares that a straight line leaves."""
    return float(np.sum((y - np.polyval(np.polyfit(x, y, 1), x)) ** 2))

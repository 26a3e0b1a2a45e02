"""The exponent of a power law, with a confidence interval."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

LEVEL = 0.95


@dataclass(frozen=True)
class Slope:
    """An exponent, the ends of its 95 % confidence interval, and the number of points behind them."""

    value: float
    low: float
    high: float
    points: int

    def __str__(self) -> str:
        if self.points < 3:
            return (
                f"{self.value:.3f} (two points: no interval)" if self.points == 2 else "unknown (fewer than two points)"
            )
        return f"{self.value:.3f} (95 % CI {self.low:.3f} to {self.high:.3f})"

    def meets(self, rate: float, slack: float = 0.0) -> bool:
        """Whether the interval, widened by ``slack``, holds the rate."""
        return self.low - slack <= rate <= self.high + slack


def fit_slope(x: npt.ArrayLike, y: npt.ArrayLike) -> Slope:
    r"""The exponent r of $y \approx C x^r$ by least squares of log y against log x.

    The interval is the t-interval of the regression. Where y is not random, as for constructed networks, it says how
    far the points are from a straight line: a curve that bends has a wide one. Points at which either is not a positive
    finite number are left out. Of fewer than two places nothing is known, and no interval is too wide.

    >>> print(fit_slope([10, 20, 40, 80], [0.1, 0.05, 0.025, 0.0125]))
    -1.000 (95 % CI -1.000 to -1.000)
    """
    from scipy import stats

    a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    kept = np.isfinite(a) & np.isfinite(b) & (a > 0) & (b > 0)
    a, b = a[kept], b[kept]
    if len(np.unique(a)) < 2:
        return Slope(np.nan, -np.inf, np.inf, min(len(a), 1))
    u, v = np.log(a) - np.log(a).mean(), np.log(b) - np.log(b).mean()
    value = float(u @ v / (u @ u))
    if len(a) < 3:
        return Slope(value, -np.inf, np.inf, len(a))
    error = float(np.sqrt(np.sum((v - value * u) ** 2) / (len(a) - 2) / (u @ u)))
    reach = float(stats.t.ppf((1 + LEVEL) / 2, len(a) - 2)) * error
    return Slope(value, value - reach, value + reach, len(a))


def fit_base(x: npt.ArrayLike, y: npt.ArrayLike) -> Slope:
    r"""The base b of $y \approx C b^x$, with its confidence interval.

    >>> print(fit_base([1, 2, 3, 4], [3, 9, 27, 81]))
    3.000 (95 % CI 3.000 to 3.000)
    """
    a = np.asarray(x, dtype=np.float64)
    largest = a.max()  # the exponent of exp(x / largest) is per largest x: nothing overflows
    fit = fit_slope(np.exp(a / largest), y)
    value, low, high = (float(np.exp(min(each / largest, 700.0))) for each in (fit.value, fit.low, fit.high))
    return Slope(value, low, high, fit.points)

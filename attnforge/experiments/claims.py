"""Claims that several experiments judge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from attnforge.experiments.experiment import Finding
from attnforge.experiments.slope import Slope, fit_slope
from attnforge.experiments.table import Array, Table


def falls_as(
    claim: str, x: npt.ArrayLike, y: npt.ArrayLike, rate: float, *, slack: float = 0.0, more: str = ""
) -> Finding:
    """Confirmed where the confidence interval of the fitted exponent, widened by ``slack``, holds the rate.

    Where it also holds zero, the rate of what does not change, the claim stays undecided: noise confirms nothing. A
    slack is for rates that hold in the limit: h = (b - a) / (p - 1) falls a little faster than 1/p.

    >>> falls_as("error O(1/p)", [10, 20, 40], [0.1, 0.05, 0.025], -1, slack=0.02).evidence
    'slope -1.000 (95 % CI -1.000 to -1.000)'
    """
    slope = fit_slope(x, y)
    evidence = f"slope {slope}" + (f"; {more}" if more else "")
    if slope.meets(rate, slack) and slope.meets(0.0) and rate:
        return Finding(claim, "undecided", evidence)
    return Finding.judged(claim, slope.meets(rate, slack), evidence)


def have_rate(claim: str, slopes: Mapping[str, Slope], rate: float, slack: float, *, off: float = np.inf) -> Finding:
    """Confirmed where every slope meets the rate and is less than ``off`` from it: a wide interval confirms nothing."""
    holds = all(slope.meets(rate, slack) and not abs(slope.value - rate) >= off for slope in slopes.values())
    return Finding.judged(claim, holds, "; ".join(f"{name}: slope {slope}" for name, slope in slopes.items()))


def always(claim: str, shares: Array, of: str) -> Finding:
    """Confirmed where the shares are 1 throughout."""
    return Finding.judged(claim, bool(shares.min() == 1.0), f"at least {100 * shares.min():.4g} % of the {of}")


def within_bounds(table: Table, error: str = "error", bound: str = "bound") -> Finding:
    """No error above its bound, among the rows that have one: the law of attnforge."""
    rows = table.having(error, bound)
    errors, bounds = rows.numbers(error), rows.numbers(bound)
    claim = "no error above its certified bound"
    if not len(rows):
        return Finding(claim, "undecided", "no bounds", law=True)
    ratio = float(np.max(errors / np.maximum(bounds, np.finfo(np.float64).tiny)))
    evidence = f"{len(rows)} networks, largest error / bound {ratio:.3f}"
    return replace(Finding.judged(claim, bool(np.all(errors <= bounds)), evidence), law=True)

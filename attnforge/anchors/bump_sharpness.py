r"""Sharpness of a softmax over bumps (:mod:`attnforge.lemmas.bumps`): beta multiplies a bump of height one.

**Hard.** All N centres but those near x weigh $e^{-\beta}$ or less; together they weigh less than a roundoff u of the
dtype once $N e^{-\beta} \le u$.

**Tuned.** The certified bound must hold for every Lipschitz function, $L|x - x_0|$ among them, and so only falls with
beta. The error for affine targets has a minimum where the grid has centres on the ends of the box: softer means that
neighbours cancel, sharper that far centres do not pull. Tuned minimises the sum of the two, up to the hard beta. With
centres at the cells' midpoints the outermost half cells err by half a step whatever beta is, and tuned is hard.
"""

from __future__ import annotations

import math
from functools import lru_cache

from scipy.optimize import minimize_scalar

from attnforge.anchors.temperature import Sharpness
from attnforge.balls import machine
from attnforge.errors import RefusalError
from attnforge.lemmas.bumps import beyond_nearest_estimate, mean_offset_estimate


def hard_bumps(centres: int, dtype: str = "float64") -> float:
    """The beta at which all far centres together weigh less than a roundoff: ln N + ln(1 / u).

    >>> round(hard_bumps(64), 1)
    40.9
    """
    return math.log(centres) - math.log(machine(dtype).roundoff)


@lru_cache(maxsize=1024)
def tuned_bumps(grid: int, inputs: int, margin: float, dtype: str = "float64") -> float:
    """The beta with the smallest error for affine targets plus bound for all, at most the hard one.

    ``margin`` is the part of a cell the box leaves outside: 0 for midpoints, 1/2 where the ends are centres.

    >>> round(tuned_bumps(16, 2, 0.5), 1), tuned_bumps(16, 2, 0.0) == hard_bumps(256)
    (9.8, True)
    """
    most = hard_bumps(grid**inputs, dtype)

    def error(beta: float) -> float:
        return mean_offset_estimate(beta, grid, margin) + inputs * beyond_nearest_estimate(beta, grid)

    found = minimize_scalar(error, bounds=(1.0, most), method="bounded", options={"xatol": 1e-6})
    return most if error(most) <= found.fun else float(found.x)


def bump_sharpness(asked: Sharpness, grid: int, inputs: int, margin: float, dtype: str = "float64") -> float:
    """The beta of scores beta R_v: ``"hard"``, ``"tuned"``, or the number itself."""
    if asked == "hard":
        return hard_bumps(grid**inputs, dtype)
    if asked == "tuned":
        return tuned_bumps(grid, inputs, margin, dtype)
    if isinstance(asked, str) or not (math.isfinite(asked) and asked > 0):
        remedy = "Give 'hard', 'tuned' or the number beta that multiplies the bumps"
        raise RefusalError("`sharpness` must be 'hard', 'tuned' or a positive number", repr(asked), remedy)
    return float(asked)

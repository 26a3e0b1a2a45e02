r"""Sharpness from what is asked of it. The unit that matters is $c = \beta h^2$: scores fall by $c j^2$ over j anchors.

**Hard.** The papers let $\beta \to \infty$. In a dtype of roundoff u nothing changes once the neighbour of a selected
anchor weighs less than u, which is $e^{-c} \le u$: c = 36.7 in float64, 5.5 in bfloat16.

**Tuned.** The error $E(c, d)$ of :mod:`attnforge.lemmas.leakage` falls with c at the ends of the row (the neighbour
pulls the end value inwards by $\sigma(-c)$) and rises with c between anchors (the staircase); tuned is its minimum,
near c = 2.7 where E = 0.063, eight times below the staircase's one half. Scores grow with c, so their rounding does:
d = c times ``disturbance``, and where that matters the minimum moves to smaller c.
"""

from __future__ import annotations

import math
from functools import lru_cache

from attnforge.balls import machine
from attnforge.errors import RefusalError
from attnforge.lemmas.border import border_estimate
from attnforge.lemmas.leakage import interpolation_estimate

Sharpness = float | str  # a number, "hard" or "tuned"


def hard(dtype: str = "float64") -> float:
    """The c beyond which sharper makes no difference in this dtype: ln(1 / roundoff).

    >>> round(hard("float64"), 1)
    36.7
    """
    return -math.log(machine(dtype).roundoff)


@lru_cache(maxsize=1024)
def tuned(disturbance: float = 0.0, *, sentinels: int = 0, border: float = 0.0) -> float:
    """The c with the smallest sup error when scores are disturbed by c times ``disturbance``.

    Heads that share a row add ``border`` (the largest value, in steps) times what their borders count twice.

    >>> round(tuned(), 1), round(tuned(sentinels=1, border=1000.0), 1)
    (2.7, 5.5)
    """

    def error(log_c: float) -> float:
        c = math.exp(log_c)
        twice = border * border_estimate(c, sentinels) if sentinels else 0.0
        return interpolation_estimate(c, disturbance * c) + twice

    from scipy.optimize import minimize_scalar  # slow to import, and only tuning needs it

    found = minimize_scalar(
        error,
        bounds=(math.log(0.1), math.log(20.0)),
        method="bounded",
        options={"xatol": 1e-6},
    )
    return float(math.exp(found.x))


def per_step(c: float, spacing: float) -> float:
    """The beta with c = beta h^2; refused where it is no float64 number, for steps below 1e-154 or above 1e154.

    >>> per_step(2.0, 0.5)
    8.0
    """
    square = float(spacing) * float(spacing)
    beta = c / square if square > 0 else math.inf
    if not 0 < beta < math.inf:
        remedy = "Multiply the target by a power of two, and divide the output by it"
        raise RefusalError("The sharpness c / h^2 must be a float64 number", f"steps of {spacing:.3g}", remedy)
    return beta


def sharpness(asked: Sharpness, spacing: float, dtype: str = "float64", disturbance: float = 0.0) -> float:
    """The beta of scores beta (2 y L - L^2): ``"hard"``, ``"tuned"``, or the number itself.

    >>> sharpness(4.0, spacing=0.5)
    4.0
    """
    if asked == "hard":
        return per_step(hard(dtype), spacing)
    if asked == "tuned":
        return per_step(tuned(disturbance), spacing)
    if isinstance(asked, str) or not (math.isfinite(asked) and asked > 0):
        remedy = "Give 'hard', 'tuned' or the number beta of scores beta (2 y L - L^2)"
        raise RefusalError("`sharpness` must be 'hard', 'tuned' or a positive number", repr(asked), remedy)
    return float(asked)

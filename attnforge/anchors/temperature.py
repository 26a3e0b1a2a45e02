r"""Sharpness from what is asked of it: every regime is chosen here, and the one from a tolerance in :mod:`.saturation`.

For a row or grid of anchors h apart the unit that matters is $c = \beta h^2$: scores fall by $c j^2$ over j anchors.
Over bumps of height one (:mod:`attnforge.lemmas.bumps`) it is $\beta$ itself.

**Hard.** The papers let $\beta \to \infty$. In a dtype of roundoff u nothing changes once the neighbour of a selected
anchor weighs less than u, which is $e^{-c} \le u$: c = 36.7 in float64, 5.5 in bfloat16. Over bumps all N centres but
those near x together weigh less than u once $N e^{-\beta} \le u$.

**Tuned.** On a row: the error $E(c, d)$ of :mod:`attnforge.lemmas.leakage` falls with c at the ends of the row (the
neighbour pulls the end value inwards by $\sigma(-c)$) and rises with c between anchors (the staircase); tuned is its
minimum, near c = 2.7 where E = 0.0629, eight times below the staircase's one half. Scores grow with c, so their
rounding does: d = c times ``disturbance``, and where that matters the minimum moves to smaller c.
Over cells with ghosts: $c = \pi^2/\ln(8\pi G)$, at which the ripple of the Gaussian row, $(2\pi/c)e^{-\pi^2/c}$
steps, stays below what the softmax smooths away of a curvature of one, $h^2/(4c)$.
Over bumps: the certified bound must hold for every Lipschitz function, $L|x - x_0|$ among them, and so only falls with
beta. The error for affine targets has a minimum where the grid has centres on the ends of the box: softer means that
neighbours cancel, sharper that far centres do not pull. Tuned minimises the sum of the two, up to the hard beta. With
centres at the cells' midpoints the outermost half cells err by half a step whatever beta is, and tuned is hard.

**From the dtype.** A gate rounds its kinks by 0.28/beta, which falls below a rounding of the largest form at beta =
4/(u max|y|); a bonus M keeps other tokens' weight, $(n-1)e^{-M}$, below the square of a roundoff.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

from attnforge.errors import RefusalError, is_number
from attnforge.lemmas.border import border_estimate
from attnforge.lemmas.bumps import beyond_nearest_estimate, mean_offset_estimate
from attnforge.lemmas.leakage import interpolation_estimate
from attnforge.outward import machine

Sharpness = float | str  # a number, "hard" or "tuned"

FINE = 1000  # cells an axis up to which one tuned sharpness serves all grids


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


def chosen(asked: Sharpness, hard: Callable[[], float], tuned: Callable[[], float], number: str) -> float:
    """What ``"hard"`` or ``"tuned"`` stands for, or the positive number itself, which the refusal describes."""
    if asked == "hard":
        return hard()
    if asked == "tuned":
        return tuned()
    if isinstance(asked, str) or not (is_number(asked) and math.isfinite(asked) and asked > 0):
        remedy = f"Give 'hard', 'tuned' or the number beta {number}"
        raise RefusalError("`sharpness` must be 'hard', 'tuned' or a positive number", repr(asked), remedy)
    return float(asked)


def sharpness(asked: Sharpness, spacing: float, dtype: str = "float64", disturbance: float = 0.0) -> float:
    """The beta of scores beta (2 y L - L^2): ``"hard"``, ``"tuned"``, or the number itself.

    >>> sharpness(4.0, spacing=0.5)
    4.0
    """
    return chosen(
        asked,
        lambda: per_step(hard(dtype), spacing),
        lambda: per_step(tuned(disturbance), spacing),
        "of scores beta (2 y L - L^2)",
    )


def cell_sharpness(asked: Sharpness, counts: Sequence[int], step: float, dtype: str = "float64") -> tuple[float, int]:
    """The c = beta h^2 of scores over a grid of cells, h its shortest step, and ghosts a side: none where it is hard.

    Axes share c, so that cells look alike along all of them; on cubes beta is that of scores beta (2 v . x - |v|^2).
    Ghosts reach as far as a Gaussian row's weight exceeds the squared step, exp(-c g^2) <= G^-2, and not beyond the
    midpoints they reflect.

    >>> [round(number, 2) for number in cell_sharpness("tuned", (8, 8), 0.1)]
    [0.97, 4]
    """
    largest, square = max(counts), step * step
    c = chosen(
        asked,
        lambda: hard(dtype),
        lambda: math.pi**2 / math.log(8 * math.pi * max(largest, FINE)),
        "of scores beta (2 v . x - |v|^2)",
    )
    if asked == "hard":
        return c, 0
    c = c if isinstance(asked, str) else c * square
    if not 0 < c < math.inf:
        got = f"beta={asked:g} with a step of {step:g}"
        raise RefusalError("beta h^2 must be a positive number", got, "Choose another sharpness")
    return c, min(math.ceil(math.sqrt(2 * math.log(max(largest, 2)) / c)) + 1, *counts)


def gate_sharpness(reach: float, dtype: str) -> float:
    """4 / (u max|y|), at which a rounded kink falls below a rounding of the largest form or end.

    Scores then reach 4 / u, far inside every dtype's range (8192 in float16). Refused where beta itself is no number,
    of forms below 1e-290.

    >>> gate_sharpness(1.0, "float16")
    8192.0
    """
    rounding = machine(dtype).roundoff * reach
    if not 0 < rounding < math.inf or math.isinf(4.0 / rounding):
        remedy = "Multiply the target by a power of two, and divide the output by it"
        raise RefusalError("A gate's sharpness 4 / (u max|y|) must be a number", f"max|y| = {reach:.3g}", remedy)
    return 4.0 / rounding


def position_bonus(tokens: int, dtype: str) -> float:
    """M with (n - 1) exp(-M) below the square of a float32 or float64 roundoff: other tokens leave no trace."""
    return math.log(tokens) - 2 * math.log(machine(dtype).accumulation)


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

    from scipy.optimize import minimize_scalar

    found = minimize_scalar(error, bounds=(1.0, most), method="bounded", options={"xatol": 1e-6})
    return most if error(most) <= found.fun else float(found.x)


def bump_sharpness(asked: Sharpness, grid: int, inputs: int, margin: float, dtype: str = "float64") -> float:
    """The beta of scores beta R_v: ``"hard"``, ``"tuned"``, or the number itself."""
    return chosen(
        asked,
        lambda: hard_bumps(grid**inputs, dtype),
        lambda: tuned_bumps(grid, inputs, margin, dtype),
        "that multiplies the bumps",
    )

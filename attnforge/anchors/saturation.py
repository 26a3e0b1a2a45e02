r"""Sharpness and ghosts from a tolerance, in closed form.

In the interior of a uniform row of spacing h the head with values $c_k$ errs by $(2\pi/c)\, e^{-\pi^2/c}\, h$ to
leading order (:mod:`attnforge.lemmas.saturation`), and an anchor g steps beyond the end of the domain weighs
$e^{-c g^2}$ relative to one at the end. A softer head is more precise and needs more ghosts: $c \approx
\pi^2/\ln(1/tol)$ makes $g \approx \ln(1/tol)/\pi$. These are choices, not bounds; the lemma proves what they give.
"""

from __future__ import annotations

import math

from attnforge.errors import ToleranceError

HARDEST = math.pi**2  # where the leading term of the saturation is largest, 2 / (pi e)


def sharpness_for(tol: float) -> float:
    r"""The largest c at which the saturation $(2\pi/c)\, e^{-\pi^2/c}$, relative to $h f'$, is at most ``tol``.

    With $t = \pi^2/c$ that is $t e^{-t} \le \pi\,tol/2$, where $t \ge 1$ is the side on which sharper is worse:
    Lambert's $t = -W_{-1}(-\pi\,tol/2)$. From $tol = 2/(\pi e)$ on every such t will do, and c is $\pi^2$.

    >>> [round(sharpness_for(tol), 2) for tol in (1e-3, 1e-8, 1e-13)]
    [1.15, 0.47, 0.3]
    """
    _check(tol)
    target = math.pi * tol / 2
    if target >= math.exp(-1):
        return HARDEST

    from scipy.special import lambertw  # slow to import, and only this needs it

    t = max(1.0, float(-lambertw(-target, -1).real))
    return HARDEST / t


def ghosts_for(tol: float, c: float) -> int:
    r"""The smallest g with $e^{-c g^2} \le tol$, that is $\lceil \sqrt{\ln(1/tol)/c} \rceil$.

    >>> ghosts_for(1e-3, 1.0), ghosts_for(1e-8, 0.5), ghosts_for(1e-13, 0.3)
    (3, 7, 10)
    """
    _check(tol)
    if not (math.isfinite(c) and c > 0):
        raise ToleranceError("`c` must be positive and finite", repr(c), "Take it from `sharpness_for`")
    return math.ceil(math.sqrt(max(0.0, -math.log(tol)) / c))


def _check(tol: float) -> None:
    if not (math.isfinite(tol) and tol > 0):
        raise ToleranceError("`tol` must be positive and finite", repr(tol), "Ask for an error such as 1e-8")

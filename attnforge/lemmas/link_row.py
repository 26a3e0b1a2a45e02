r"""A row of anchors that answers with a link function: how far it is from the link, for every form it may meet.

Anchors $L_k$ lie h apart and symmetric about zero, scores are $\beta(2 s L_k - L_k^2)$ and values $r(L_k)$, r the
derivative of a loss: the identity, a clamp to the row's range, the logistic function less one half, or the exponential.
Let A and B bound $|r'|$ and $|r''|$, c be $\beta h^2$, and $\mu(c) \to \frac14$ the largest mean square of
$(s - L_k)/h$. By Taylor's theorem at s
$$ |\mathrm{out} - r(s)| \le A\,h\,E(c) + \tfrac12 B\,h^2 \mu(c) , $$
E the row's error on the identity. Beyond its range the output, which increases with s, stays between the output at the
end and the last anchor's value: r varies no more than that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy import special

from attnforge.lemmas.leakage import interpolation
from attnforge.lemmas.mean_square import mean_square
from attnforge.lemmas.saturation import saturation, truncation
from attnforge.lemmas.softmax import ratio_excess

Array = npt.NDArray[np.float64]
Link = Literal["identity", "clamp", "logistic", "softmax", "exponential"]

LARGEST_EXPONENT = 700.0  # its exponential is still finite
SLACK = 1 + 2.0**-30  # of the evaluation of these formulas in float64
LOGISTIC_BEND = 1 / (6 * math.sqrt(3))  # the largest second derivative of the logistic function


@dataclass(frozen=True)
class Row:
    """Anchors h apart and symmetric about zero, ``ghosts`` of them beyond each end of the range [-reach, reach].

    ``sharpness`` is c, the beta of the scores times h^2.
    """

    link: Link
    reach: float
    count: int
    ghosts: int
    sharpness: float

    @property
    def spacing(self) -> float:
        """The distance h of neighbours."""
        return 2 * self.reach / (self.count - 1 - 2 * self.ghosts)

    @property
    def beta(self) -> float:
        """The sharpness in units of scores."""
        return self.sharpness / self.spacing**2

    @property
    def levels(self) -> Array:
        """The anchors L_k."""
        return np.asarray(self.spacing * (np.arange(self.count, dtype=np.float64) - (self.count - 1) / 2))

    @property
    def answers(self) -> Array:
        """The values r(L_k)."""
        return answer(self.link, self.levels)


def row_error(row: Row, form: float, disturbance: float) -> float:
    """Bounds |out - r(s)| for all |s| up to ``form`` where scores are off by at most ``disturbance``.

    Never more than r varies over form and anchors: a softmax does not leave the range of its values.
    """
    if row.link == "clamp":
        return row.spacing * min(interpolation(row.sharpness, disturbance), row.count - 1.0) * SLACK
    widest = max(form, float(row.levels[-1]))
    varies = float(np.diff(answer(row.link, np.array([-widest, widest])))[0])
    excess, width = ratio_excess(disturbance), math.sqrt(_mean_square(row, 0.0))
    if not excess + width < math.inf:
        return varies * SLACK
    found = _inside(row, min(form, row.reach), disturbance, excess)
    if form > row.reach:
        steep, _ = derivatives(row.link, widest)
        beyond = float(np.diff(answer(row.link, np.array([row.reach, widest])))[0])
        found += beyond + steep * excess * row.spacing * (row.ghosts + width)
    return min(found, varies) * SLACK


def _inside(row: Row, form: float, disturbance: float, excess: float) -> float:
    """The same for forms within the range; ratios of weights are off by at most ``excess``."""
    h, (slope, bend) = row.spacing, derivatives(row.link, form)
    soft = reproduced(row) + excess * math.sqrt(_mean_square(row, 0.0))
    straight = slope * h * min(interpolation(row.sharpness, disturbance), soft)
    if not bend:
        return straight
    growth = h if row.link == "exponential" else 0.0  # r'' between s and L_k is at most r''(s) exp(|s - L_k|)
    return straight + bend / 2 * h * h * (1 + excess) * _mean_square(row, growth)


def _mean_square(row: Row, growth: float) -> float:
    found = mean_square(row.sharpness, growth)
    return found if found <= (1 + row.ghosts) ** 2 else math.inf


def reproduced(row: Row) -> float:
    """The error on the identity, in steps, of a row with ghosts."""
    return saturation(row.sharpness, 1) + truncation(row.sharpness, float(row.ghosts), 1, row.count)


def answer(link: Link, form: Array) -> Array:
    """The link r: for logistic regression less one half, for Poisson regression without its y."""
    match link:
        case "logistic":
            return np.asarray(special.expit(form) - 0.5)
        case "exponential":
            return np.exp(np.minimum(form, LARGEST_EXPONENT))
    return form


def derivatives(link: Link, form: float) -> tuple[float, float]:
    """Bounds of the first and second derivative up to ``form``."""
    if link == "exponential":
        return (math.exp(min(form, LARGEST_EXPONENT)),) * 2
    return (0.25, LOGISTIC_BEND) if link == "logistic" else (1.0, 0.0)

r"""Anchors along one linear form, with their scores: uniform, or graded with a local temperature.

A head sees anchors as affine scores $s_k(x) = a_k x + b_k$. Uniform anchors $c_k = o + \kappa h$ ($\kappa$ whole) have
$$ s_\kappa(x) = c\,(2\kappa u - \kappa^2), \quad u = (x - o)/h , $$
Gaussian weights of standard deviation $1/\sqrt{2c}$ spacings; keys are small whole numbers, exact in every dtype.

*Graded* anchors $c_0 < c_1 < \dots$ with any gaps $h_k = c_{k+1} - c_k$: neighbours tie half-way,
$$ a_{k+1} - a_k = \frac{1}{\gamma h_k}, \qquad b_{k+1} - b_k = -(a_{k+1} - a_k)\,\frac{c_k + c_{k+1}}{2} . $$
The log-ratio of neighbours moves from $-1/2\gamma$ to $1/2\gamma$ across their gap, whatever its length: the
temperature follows the spacing, in one head. For equal gaps this is the Gaussian row with $c = 1/(2\gamma)$.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from attnforge.anchors.reproducible import exponential

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Axis:
    """Anchors at ``positions`` (p,) with scores ``linear * u * keys - square * offsets``, u = (x - origin) * scale.

    ``lower`` and ``upper`` are the ends of the domain; anchors beyond them are ghosts. ``sharpness`` is c.
    """

    positions: Array
    keys: Array
    offsets: Array
    linear: float
    square: float
    origin: float
    scale: float
    lower: float
    upper: float
    sharpness: float

    @classmethod
    def uniform(cls, lower: float, upper: float, count: int, ghosts: float, sharpness: float) -> Axis:
        """``count`` anchors in all, reaching ``ghosts`` gaps beyond each end of the domain; a single one in the middle.

        >>> Axis.uniform(0.0, 1.0, 5, 1, 0.5).positions.tolist()
        [-0.5, 0.0, 0.5, 1.0, 1.5]
        """
        gaps = count - 1 - 2 * ghosts
        step = (upper - lower) / (gaps or 1.0)
        origin = (lower + upper) / 2 + (count // 2 - (count - 1) / 2) * step
        return cls.row(np.arange(count) - count // 2, origin, step, sharpness, (lower, upper))

    @classmethod
    def row(cls, places: npt.ArrayLike, origin: float, step: float, c: float, ends: tuple[float, float]) -> Axis:
        """Anchors at ``origin + places * step``, a Gaussian row of sharpness c."""
        at = np.asarray(places, dtype=np.float64)
        return cls(origin + at * step, at, at * at, 2 * c, c, origin, 1 / step, *ends, c)

    @classmethod
    def scaled(cls, positions: Array, step: float, c: float, ends: tuple[float, float]) -> Axis:
        """Any positions with one temperature: c is that of anchors ``step`` apart, beta = c / step^2.

        >>> Axis.scaled(np.array([0.0, 1.0, 4.0]), 2.0, 4.0, (0.0, 4.0)).weights(np.array([0.5])).round(3).tolist()
        [[0.5, 0.5, 0.0]]
        """
        origin = float(positions[len(positions) // 2])
        return replace(cls.row((positions - origin) / step, origin, step, c, ends), positions=positions)

    @classmethod
    def graded(cls, positions: Array, lower: float, upper: float, sharpness: float, origin: float) -> Axis:
        """Any increasing positions; u is counted from ``origin``, best where the gaps are smallest.

        Rounding of a score is proportional to $|a_k (c_k - o)|$. Slopes are counted from the anchor that makes the
        largest of these smallest: the far end of a one-sided grading, about the middle of a two-sided one.

        >>> axis = Axis.graded(np.array([-1.0, 0.0, 0.5, 1.0]), -1.0, 1.0, 0.5, 0.0)
        >>> axis.weights(np.array([0.25])).round(3).tolist()  # half-way between 0 and 0.5
        [[0.166, 0.352, 0.352, 0.13]]
        """
        places = positions - origin
        slopes = 2 * sharpness / np.diff(places)
        keys = np.concatenate([[0.0], np.cumsum(slopes)])
        start = int((np.abs(keys[:, None] - keys) * np.abs(places)[:, None]).max(axis=0).argmin())
        middles = (places[1:] + places[:-1]) / 2
        keys, offsets = _summed(slopes, start), _summed(slopes * middles, start)
        return cls(positions, keys, offsets, 1.0, 1.0, origin, 1.0, lower, upper, sharpness)

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def inside(self) -> npt.NDArray[np.bool_]:
        """Which anchors (p,) lie in the domain: the others are ghosts. Ends count as inside, rounding allowed for."""
        slack = 1e-9 * (self.upper - self.lower)
        return np.asarray((self.positions >= self.lower - slack) & (self.positions <= self.upper + slack))

    @property
    def is_graded(self) -> bool:
        """Whether the gaps differ."""
        gaps = np.diff(self.positions)
        return len(gaps) > 1 and bool(gaps.max() > 1.001 * gaps.min())

    @property
    def steepest(self) -> float:
        """The largest product that enters a score at its own anchor: its rounding is proportional to it."""
        return float(np.abs(self.linear * (self.positions - self.origin) * self.scale * self.keys).max())

    def weights(self, x: Array) -> Array:
        """Softmax weights (len(x), p)."""
        u = (x - self.origin) * self.scale
        scores = np.multiply.outer(self.linear * u, self.keys) - self.square * self.offsets
        weights = exponential(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _summed(steps: Array, start: int) -> Array:
    """Numbers with these differences, zero at ``start``: summed outward, so that small steps do not meet large sums."""
    return np.concatenate([-np.cumsum(steps[:start][::-1])[::-1], [0.0], np.cumsum(steps[start:])])

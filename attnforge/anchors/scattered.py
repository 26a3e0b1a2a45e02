r"""Scattered points fitted by one head whose anchors are chosen among them.

In coordinates u that scale the box of the points to $[-1, 1]^d$, anchors $c_k$ have the scores
$-\beta|u - c_k|^2$, up to a constant in k: $2\beta\,u \cdot c_k - \beta|c_k|^2$, affine in u as a head needs them. The
anchors are the first n points of a farthest-point order, each the point farthest from all before it: they cover the
data evenly, whatever its density, and every n is served by one order. The sharpness is counted by the median distance
h of an anchor to its nearest neighbour, $c = \beta h^2$. Anchors need not be data: they are moved to multiples of a
power of two below h/16, so that keys have few bits and hardly any rounding.

Values are fitted by least squares with a ridge, about the mean, which softmax weights reproduce exactly:
$$ \min_v |Wv - y|^2 + \lambda|v|^2 , $$
repeated on what is left a few times (iterated Tikhonov): a direction of singular value s is then met up to
$(\lambda/(s^2 + \lambda))^r$, so the data are met although $\lambda$ keeps the values tame.

How sharp, and with what ridge, is decided by points held out: a fifth of them is left out of the fit, which is judged
there; then all points are fitted. Noise can be met too, with as many anchors as points, but the error held out tells.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.spatial import cKDTree

from attnforge.effort import check_time, in_force
from attnforge.errors import RefusalError, ToleranceError

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

FASTEST = 1.5e-11  # seconds an operation of a factorisation takes at least
MOST = 4000  # anchors: a fit costs the cube of them
ROWS, ROWS_PER_ANCHOR = 20_000, 20  # points that are fitted, at most and for each anchor; all are checked
FEWEST, GROWTH = 8, 1.5  # anchors tried first, and by how much more next
STEPS = 3  # of bisection between too few and enough
SEARCHED = 300  # anchors up to which every sharpness is tried; beyond, those beside the best so far
SHARPNESSES = (0.03, 0.05, 0.1, 0.2, 0.4, 0.8, 2.0, 8.0)  # c = beta h^2
RIDGES = (1e-12, 1e-8, 1e-4)  # relative to the mean square of a singular value
REPEATS = 6
HELD_OUT = 5  # one point in so many
BLOCK = 2**22  # weights held at once
TAMEST = 1e3  # values are at most so many times the data where that can be avoided


@dataclass(frozen=True, eq=False)
class ScatteredFit:
    """Anchors ``centres`` (n, d) in scaled coordinates u = (x - middle) / half, sharpness beta, values (n, k).

    ``spacing`` is h; ``error`` the largest at all points, ``held_out`` at the points held out of an earlier fit by the
    same anchors.
    """

    centres: Array
    middle: Array
    half: Array
    beta: float
    spacing: float
    values: Array
    error: float
    held_out: float

    @property
    def anchors(self) -> int:
        """How many."""
        return len(self.centres)

    @property
    def positions(self) -> Array:
        """The anchors (n, d) in the coordinates of the points."""
        return self.middle + self.half * self.centres

    @property
    def sharpness(self) -> float:
        """The c of beta = c / h^2."""
        return self.beta * self.spacing**2

    def weights(self, points: Array) -> Array:
        """Softmax weights (N, n) at points (N, d)."""
        return _weights((points - self.middle) / self.half, self.centres, self.beta)

    def at(self, points: Array) -> Array:
        """The head's output (N, k) at points (N, d), in pieces that fit the memory."""
        step = max(1, BLOCK // self.anchors)
        return np.concatenate([self.weights(points[i : i + step]) @ self.values for i in range(0, len(points), step)])


@dataclass(frozen=True, eq=False)
class Judged:
    """Values fitted to all rows; root mean square and largest error of such a fit at the rows held out of it."""

    values: Array
    residual: float
    held_rms: float
    held_out: float


def fit_scattered(points: Array, values: Array, tol: float, roundoff: float = 2.0**-53) -> ScatteredFit:
    """The fewest anchors found that meet the values within tol at all points.

    Args:
        points: (N, d), distinct, spread along every axis.
        values: (N, k).
        tol: largest error asked for, at the points.
        roundoff: of the dtype that runs: rounding is about that times the values' size, which must stay small.
    """
    search = _Search(points, values, tol, roundoff)
    low, high, best = 0, min(FEWEST, search.most), None
    while True:
        found = search.best(high)
        best = found if best is None or found.error < best.error else best
        if search.is_enough(found):
            break
        if high == search.most:
            wanted = f"A head must meet the {len(points):,} points within tol={tol:.3g} by at most {high:,} anchors"
            got = f"an error of {best.error:.3g} there, and {best.held_out:.3g} at points held out"
            raise ToleranceError(wanted, got, f"Ask for tol >= {rounded_up(best.error)}")
        low, high = high, min(math.ceil(GROWTH * high), search.most)
    for _ in range(STEPS):
        middle = (low + high) // 2
        if not low < middle < high:
            break
        fewer = search.best(middle)
        low, high, found = (low, middle, fewer) if search.is_enough(fewer) else (middle, high, found)
    return found


def judge(weights: Array, values: Array, ridges: Sequence[float] = RIDGES) -> list[Judged]:
    """Fits of values (N, k) by weights (N, n), one a ridge, each judged at a fifth of the points held out of it.

    OutOfTimeError where time does not suffice for all of them.

    >>> x = np.linspace(-1, 1, 50)[:, None]
    >>> found = judge(_weights(x, x[::5], 5.0), x**2)
    >>> any(entry.residual < 1e-2 and entry.held_out < 1e-2 for entry in found)
    True
    """
    mean = values.mean(axis=0)
    wanted = values - mean
    held = _held_out(len(values))
    kept = ~held
    held_gram, kept_gram = weights[held].T @ weights[held], weights[kept].T @ weights[kept]
    found = []
    for ridge in ridges:
        check_time("fitting values", FASTEST * 2 / 3 * weights.shape[1] ** 3)
        try:
            earlier = _solved(kept_gram, weights[kept], wanted[kept], ridge)
            final = _solved(kept_gram + held_gram, weights, wanted, ridge)
        except LinAlgError:  # rounding made the matrix indefinite: this ridge is too small
            continue
        missed = np.abs(weights[held] @ earlier - wanted[held])
        residual = float(np.abs(weights @ final - wanted).max())
        found.append(Judged(final + mean, residual, float(np.sqrt((missed**2).mean())), float(missed.max())))
    return found


def farthest_points(points: Array, count: int) -> Indices:
    """Indices of ``count`` points, each the farthest from all before it, starting from the one nearest to zero.

    >>> farthest_points(np.array([[-1.0], [-0.9], [0.1], [1.0]]), 3).tolist()
    [2, 0, 3]
    """
    order = np.empty(count, dtype=np.intp)
    order[0] = int((points**2).sum(axis=1).argmin())
    distance = np.full(len(points), np.inf)
    for i in range(1, count):
        distance = np.minimum(distance, ((points - points[order[i - 1]]) ** 2).sum(axis=1))
        order[i] = int(distance.argmax())
    return order


def rounded_up(error: float) -> str:
    """Two digits, not below the number: what can be asked for.

    >>> rounded_up(1.2304e-5)
    '1.3e-05'
    """
    digits = 1 - math.floor(math.log10(error))
    return f"{math.ceil(error * 10.0**digits) / 10.0**digits:.2g}"


def spread(total: int, count: int) -> Indices:
    """``count`` of ``total`` indices, evenly spread, both ends among them; all of them if there are fewer.

    >>> spread(10, 4).tolist()
    [0, 3, 6, 9]
    """
    return np.unique(np.linspace(0, total - 1, min(total, count)).round().astype(np.intp))


class Cloud:
    """Points in coordinates u that scale their box to [-1, 1]^d, and anchors among them: the farthest points first.

    At most ``most`` anchors, as many as there are points, and no more than the effort in force allows.
    """

    def __init__(self, points: Array, most: int) -> None:
        self.points = points
        self.middle = (points.max(axis=0) + points.min(axis=0)) / 2
        self.half = (points.max(axis=0) - points.min(axis=0)) / 2
        self.most = min(len(points), most, in_force().anchors)

    def centres(self, count: int) -> tuple[Array, float]:
        """Anchors, and their spacing before they are moved to places of few bits."""
        chosen = self.scaled[self._order[:count]]
        spacing = _spacing(chosen)
        if not spacing > 0:
            wanted = "The points of a table must differ where their box is scaled to length one, not in rounding alone"
            raise RefusalError(wanted, "points that are one there", "Rescale the inputs, or list fewer points")
        step = 2.0 ** math.floor(math.log2(spacing / 16))
        return step * np.round(chosen / step), spacing

    def head(self, centres: Array, spacing: float, c: float) -> ScatteredFit:
        """A head without values over anchors of that spacing, as sharp as c says."""
        none, unknown = np.empty((0, 0)), math.inf
        return ScatteredFit(centres, self.middle, self.half, c / spacing**2, spacing, none, unknown, unknown)

    def rows(self, count: int) -> Indices:
        """A spread of so many points, within what the memory holds."""
        return spread(len(self.points), min(count, ROWS))

    @cached_property
    def scaled(self) -> Array:
        """The points in coordinates u."""
        return np.asarray((self.points - self.middle) / self.half)

    @cached_property
    def _order(self) -> Indices:
        rows = self.rows(ROWS)
        return rows[farthest_points(self.scaled[rows], min(self.most, len(rows)))]


class _Search:
    """Trials of more and more anchors on one set of points."""

    def __init__(self, points: Array, values: Array, tol: float, roundoff: float) -> None:
        self.cloud, self.values, self.tol = Cloud(points, MOST), values, tol
        size = float(np.abs(values).max())
        self.tame = max(2 * size, min(TAMEST * size, tol / (16 * roundoff)))
        self._sharpest = 3  # where among SHARPNESSES the best of the last trial was

    @property
    def most(self) -> int:
        """Anchors, at most."""
        return self.cloud.most

    def best(self, count: int) -> ScatteredFit:
        """Of the fits that meet the points and are tame, the one that is best where it was held out."""
        points = self.cloud.points
        rows = self.cloud.rows(max(ROWS // 5, ROWS_PER_ANCHOR * count))
        placed, tried = self.cloud.centres(count), []
        for i in self._sharpnesses(count):
            check_time("fitting values")
            fit = self.cloud.head(*placed, SHARPNESSES[i])
            tried += [(i, entry, fit) for entry in judge(fit.weights(points[rows]), self.values[rows])]
        meeting = [trial for trial in tried if trial[1].residual <= self.tol]
        good = [trial for trial in meeting if np.abs(trial[1].values).max() <= self.tame]
        self._sharpest = min(good or tried, key=lambda trial: trial[1].held_rms)[0]
        if meeting:
            _, entry, fit = min(good or meeting, key=lambda trial: trial[1].held_rms)
        else:
            _, entry, fit = min(tried, key=lambda trial: trial[1].residual)
        found = replace(fit, values=entry.values, held_out=entry.held_out)
        return replace(found, error=float(np.abs(found.at(points) - self.values).max()))

    def is_enough(self, fit: ScatteredFit) -> bool:
        """Whether the points are met by tame values, or by any where there can be no more anchors."""
        tame = float(np.abs(fit.values).max()) <= self.tame
        return fit.error <= self.tol and (tame or fit.anchors == self.most)

    def _sharpnesses(self, count: int) -> range:
        if count <= SEARCHED:
            return range(len(SHARPNESSES))
        last = len(SHARPNESSES) if count == self.most else self._sharpest + 2
        return range(max(0, self._sharpest - 1), min(len(SHARPNESSES), last))


def _weights(scaled: Array, centres: Array, beta: float) -> Array:
    scores = 2 * beta * (scaled @ centres.T) - beta * (centres**2).sum(axis=1)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _spacing(centres: Array) -> float:
    """The median distance of an anchor to its nearest neighbour."""
    if len(centres) < 2:
        return 1.0
    return float(np.median(cKDTree(centres).query(centres, k=2)[0][:, 1]))


def _held_out(count: int) -> npt.NDArray[np.bool_]:
    """A fifth of so many points, the same ones every time."""
    held = np.zeros(count, dtype=bool)
    held[np.random.default_rng(0).permutation(count)[: max(1, count // HELD_OUT)]] = True
    return held


def _solved(gram: Array, weights: Array, wanted: Array, ridge: float) -> Array:
    """Least squares with a ridge, repeated on what is left."""
    damped = gram + ridge * np.trace(gram) / len(gram) * np.eye(len(gram))
    factor = cho_factor(damped, overwrite_a=True, check_finite=False)
    values = np.zeros((len(gram), wanted.shape[1]))
    for _ in range(REPEATS):
        values = values + cho_solve(factor, weights.T @ (wanted - weights @ values), check_finite=False)
    return values

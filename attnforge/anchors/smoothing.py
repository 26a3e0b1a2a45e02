r"""Noisy scattered points: values by ridge regression, and everything else by leaving points out.

With W the softmax weights of the anchors at the points and $\omega_i$ the weights of the points, the values are
$$ \min_v \sum_i \omega_i \big|(Wv)_i - y_i\big|^2 + \alpha|v - \bar v|^2 , $$
a linear least squares problem, solved in closed form; $\bar v$ is a level common to all anchors, and free: softmax
weights add up to one, so a shift of all values is a shift of the output. That takes the weighted means out of W and y
and leaves a plain ridge, of singular value decomposition $\sqrt\omega\,W = U S V^T$.

How many anchors, how sharp, and which ridge: those with the least error at points that are left out, one at a time.
For a ridge that needs no second fit. The residual of a point left out is its own divided by one minus its leverage,
$$ \frac{y_i - (Hy)_i}{1 - H_{ii}} , \qquad 1 - H_{ii} = \sum_j U_{ij}^2 \frac{\alpha}{s_j^2 + \alpha} + \rho_i , $$
$\rho_i$ being what U and the mean leave of the unit vector i. Numerator and denominator are both summed from
factors $\alpha/(s_j^2 + \alpha)$, so that nothing cancels where the fit is all but exact.

What rounding would make of large values counts too: a choice is left out whose values are so large that the dtype's
rounding of them exceeds the error at points left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from attnforge.anchors.scattered import BLOCK, FEWEST, GROWTH, MOST, Cloud, ScatteredFit
from attnforge.effort import check_time

Array = npt.NDArray[np.float64]

SEARCHED = 512  # anchors up to which their number is searched
ROWS = 2_000  # points on which choices are compared; the values are fitted to all
# Tamest first, so that of choices that differ by little the one of smaller values is taken.
SHARPNESSES = (3.0, 1.0, 0.3, 0.1, 0.03, 0.01)  # c = beta h^2: Gaussians from 0.4 to 7 spacings wide
RIDGES = tuple(10.0**k for k in range(2, -15, -1))  # from averages to roundings of squares of W, whose rows add up to 1
WORTH = 0.99  # of the mean square left out: what more anchors, or larger values, must come below
WIDELY = 50  # anchors up to which every sharpness is tried; beyond, those beside the best so far
IN_VAIN = 3  # numbers of anchors without gain after which the search ends
ROUNDINGS = 16  # of a run, about, in units of roundoff times the largest value
TAME = 2.0  # values at most so many times the data are never too large


@dataclass(frozen=True, eq=False)
class SmoothedFit:
    """A head with values by ridge regression: ``alpha``, and the root mean square error at points left out."""

    head: ScatteredFit
    alpha: float
    left_out: float


@dataclass(frozen=True, eq=False)
class Choice:
    """A head, its ridge, and what points left out say: ``score`` is their mean square in units of the spread.

    ``tame``: whether rounding of its values stays below that.
    """

    head: ScatteredFit
    alpha: float
    score: float
    tame: bool

    def beats(self, other: Choice | None) -> bool:
        """Whether this is the better one, by as much as it must be."""
        if other is None or self.tame != other.tame:
            return other is None or self.tame
        return self.score < WORTH * other.score


def fit_smoothed(
    points: Array,
    values: Array,
    weights: Array,
    *,
    anchors: int | None = None,
    alpha: float | None = None,
    sharpness: float | None = None,
    roundoff: float = 2.0**-53,
) -> SmoothedFit:
    """The head of the least error at points left out; what is given is kept, the rest is chosen.

    Args:
        points: (N, d), distinct, spread along every axis.
        values: (N, k); with several outputs errors count in units of each output's spread.
        weights: (N,), positive.
        anchors: how many, at most all points; where None 8 and half as many more, again and again, are tried.
        alpha: the ridge.
        sharpness: c.
        roundoff: of the dtype that runs.

    >>> x = np.linspace(-1, 1, 60)[:, None]
    >>> noise = np.random.default_rng(0).normal(scale=0.1, size=(60, 1))
    >>> fit = fit_smoothed(x, np.sin(3 * x) + noise, np.ones(60))
    >>> float(np.abs(fit.head.at(x) - np.sin(3 * x)).max()) < 0.12
    True
    """
    cloud = Cloud(points, SEARCHED if anchors is None else min(anchors, MOST))
    rows, chosen, since = cloud.rows(ROWS), None, 0
    for count in _counts(cloud.most) if anchors is None else (cloud.most,):
        placed, before = cloud.centres(count), chosen
        for c in _sharpnesses(count, chosen) if sharpness is None else (sharpness,):
            check_time("fitting values")
            head = cloud.head(*placed, c)
            found = _choice(head, points[rows], values[rows], weights[rows], alpha, roundoff)
            chosen = found if found.beats(chosen) else chosen
        since = since + 1 if chosen is before else 0
        if since == IN_VAIN:
            break
    assert chosen is not None  # there is at least one count and one sharpness
    head = replace(chosen.head, values=_values(chosen.head, points, values, weights, chosen.alpha))
    missed = np.abs(head.at(points) - values).max()
    left_out = math.sqrt(chosen.score) * float(_spread(values, weights).max())
    return SmoothedFit(replace(head, error=float(missed), held_out=left_out), chosen.alpha, left_out)


class LeastSquares:
    """Unknowns (p, k) of rows (N, p) and right-hand sides (N, k), for every ridge at once.

    >>> system = LeastSquares(np.array([[1.0], [1.0]]), np.array([[2.0], [4.0]]))
    >>> system.solved(0.0).round(12).tolist(), system.left_out(0.0, np.zeros(2)).ravel().round(12).tolist()
    ([[3.0]], [-2.0, 2.0])
    """

    def __init__(self, rows: Array, wanted: Array) -> None:
        u, s, vt = np.linalg.svd(rows, full_matrices=False)
        rank = int((s > np.finfo(np.float64).eps * math.sqrt(rows.size) * s.max(initial=0.0)).sum())
        self.u, self.s, self.vt = u[:, :rank], s[:rank], vt[:rank]
        self.projected, self.wanted = self.u.T @ wanted, wanted

    def solved(self, alpha: float) -> Array:
        """The unknowns, by the pseudo-inverse where alpha is zero."""
        return np.asarray(self.vt.T @ ((self.s / (self.s**2 + alpha))[:, None] * self.projected))

    def left_out(self, alpha: float, elsewhere: Array) -> Array:
        """Residuals (N, k), each of a fit without its row; ``elsewhere`` (N,) of a row's leverage is spent already."""
        kept = (alpha / (self.s**2 + alpha))[:, None]
        beyond = 1 - (self.u**2).sum(axis=1) - elsewhere
        beyond[beyond < len(self.s) * np.finfo(np.float64).eps * len(beyond)] = 0.0  # all rounding
        outside = np.where(beyond[:, None] > 0, self.wanted - self.u @ self.projected, 0.0)
        residual, freedom = self.u @ (kept * self.projected) + outside, (self.u**2) @ kept[:, 0] + beyond
        with np.errstate(invalid="ignore", divide="ignore"):  # a row that alone decides an unknown says nothing of it
            return np.where(freedom[:, None] > 0, residual / freedom[:, None], np.inf)


def _choice(
    head: ScatteredFit, points: Array, values: Array, weights: Array, alpha: float | None, roundoff: float
) -> Choice:
    """The best ridge for anchors and sharpness."""
    rows, wanted, level, mean = _centred(head.weights(points), values, weights)
    system, spread = LeastSquares(rows, wanted), _spread(values, weights)
    share, size = weights / weights.sum(), np.abs(values).max(axis=0)
    best: Choice | None = None
    for ridge in RIDGES if alpha is None else (alpha,):
        squares = (system.left_out(ridge, share) ** 2).sum(axis=0) / weights.sum()
        found = system.solved(ridge)
        largest = np.abs(found - level @ found + mean).max(axis=0)
        tame = (largest <= TAME * size) | (ROUNDINGS * roundoff * largest <= np.sqrt(squares))
        choice = Choice(head, ridge, float((squares / spread**2).mean()), bool(tame.all()))
        best = choice if choice.beats(best) else best
    assert best is not None
    return best


def _values(head: ScatteredFit, points: Array, values: Array, weights: Array, alpha: float) -> Array:
    """The values (p, k) from all points, whose rows are reduced block by block to a triangle of the same solution."""
    p, step = head.anchors, max(head.anchors, BLOCK // head.anchors)
    pieces = [slice(i, i + step) for i in range(0, len(points), step)]
    level = sum(weights[piece] @ head.weights(points[piece]) for piece in pieces) / weights.sum()
    mean = weights @ values / weights.sum()
    triangle: Array = np.empty((0, p + values.shape[1]))
    for piece in pieces:
        check_time("fitting values")
        block = np.column_stack([head.weights(points[piece]) - level, values[piece] - mean])
        triangle = np.asarray(np.linalg.qr(np.vstack([triangle, np.sqrt(weights[piece])[:, None] * block]), mode="r"))
    found = LeastSquares(triangle[:, :p], triangle[:, p:]).solved(alpha)
    return np.asarray(found - level @ found + mean)


def _centred(rows: Array, values: Array, weights: Array) -> tuple[Array, Array, Array, Array]:
    """Rows and values about their weighted means, times the roots of the weights; and these means."""
    total, roots = weights.sum(), np.sqrt(weights)[:, None]
    level, mean = weights @ rows / total, weights @ values / total
    return roots * (rows - level), roots * (values - mean), level, mean


def _spread(values: Array, weights: Array) -> Array:
    """The weighted standard deviation (k,) of values; one where they are all the same."""
    mean = weights @ values / weights.sum()
    found = np.sqrt(weights @ (values - mean) ** 2 / weights.sum())
    return np.where(found > 0, found, 1.0)


def _sharpnesses(count: int, chosen: Choice | None) -> tuple[float, ...]:
    """Those that are tried with so many anchors."""
    if count <= WIDELY or chosen is None:
        return SHARPNESSES
    nearest = int(np.abs(np.log(np.array(SHARPNESSES) / chosen.head.sharpness)).argmin())
    return SHARPNESSES[max(0, nearest - 1) : nearest + 2]


def _counts(most: int) -> Iterator[int]:
    """Anchors that are tried."""
    count = FEWEST
    while count < most:
        yield count
        count = math.ceil(GROWTH * count)
    yield most

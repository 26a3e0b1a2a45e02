r"""Softmax heads as they run, on cells: scores, weights, means of values, with far keys left out.

A softmax does not see what is common to all scores of a query. With $\bar k$ any vector, here the mean key at the
middle of the cell, and c about the output there,
$$ \sigma_k = q \cdot (k_k - \bar k), \qquad
   \mathrm{out} = c + \frac{\sum_k e^{\sigma_k}(v_k - c)}{\sum_k e^{\sigma_k}} , $$
so that an error of the query counts with $|k_k - \bar k|$, one of a score with $|v_k - c|$ and the weight of its key.
The run's weights are $e^{\sigma_k}$ with $\sigma_k$ moved by what computing the score (:mod:`.rounding`), subtracting
the largest and the exponential round (:mod:`.softmax`): that much is added to the rest of $\sigma_k$. The mean of the
values with these weights is then rounded as a quotient of two sums.

On cells on which models say little, the output lies between the extremes of such means with every $\sigma_k$ anywhere
in its range: these are attained with the weights of larger values heavy and the others light, or the reverse. A model
is dropped for that range only where what it leaves out is about as large: one that varies as much is no worse.

**Far keys.** Let b be a key and $g_k$ bound $\log w_k/w_b$ of the run's weights on the cell, from above. Then the share
of k is at most $e^{g_k}$; if keys F together have at most $\varphi = \sum_F e^{g_k}$, the mean of all values is
$(1 - \varphi') m + \varphi' m_F$, $\varphi' \le \varphi$, m the mean of the others, and so within $\varphi$ times the
spread of the values of m. Whichever keys are left out, this holds; those with $g_k \ge 0$ are kept, so that the
largest score is among the others'. Sums still run over all keys: far ones are terms of sizes $\varphi\max|v|$ together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from attnforge.kernel.models import Models, exp_above
from attnforge.kernel.rounding import Sums, is_simple, tree_error
from attnforge.kernel.softmax import SoftmaxArithmetic
from attnforge.outward import Up, gamma
from attnforge.outward.arrays import TINY, UNIT, two_sum

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

CRUDE = 2.0  # where the rest of a model, times this, is as large as half the range, the range says as much
BELOW = 1 - 2.0**-40  # turns a few rounded operations, exponentials among them, into a lower bound
LARGEST = 700.0  # exponents of weights above are not told apart
RANGE, RANGE_64 = 2.0**126, 2.0**1022  # sums up to here, and their products by log2(e), do not overflow
TREES = 2**12  # keys times features of values up to which sums are bounded as trees
FAR = 42.0  # a key whose weight is e^-42 of another's is far, unless a caller says otherwise
CROWDED = 0.7  # of the keys near: leaving out the others saves nothing


class Scores(NamedTuple):
    """Scores (C, q, p) of a run but for a common polynomial; bounds of their sizes, and (C, q) of what is added up."""

    relative: Models
    sizes: Up
    reach: Up


@dataclass(frozen=True, eq=False)
class Far:
    """Keys left out: how many there are with them, bounds (C, q) of their shares, and (1 or C, q, v) of all values."""

    share: Up
    spread: Up
    largest: Up
    reach: Up


@dataclass(frozen=True, eq=False)
class Summed:
    """Of means m (C, q, v), for rounding: E|v|, E|v - m|, what trees lose of values and weights, the largest |v|."""

    mass: Up
    spread: Up
    trees: tuple[Up, Up]
    largest: Up


def mixture(query: Models, keys: Array | Models, values: Array | Models, arithmetic: SoftmaxArithmetic) -> Models:
    """The means (C, q, v) of values (C, q, p, v), for queries (C, q, f) and keys (C, q, p, f)."""
    return mean_of(scores(query, keys, arithmetic), values, arithmetic)


def scores(query: Models, keys: Array | Models, arithmetic: SoftmaxArithmetic) -> Scores:
    """Scores of queries less those of the mean key, as they run."""
    middle = keys.c[0] if isinstance(keys, Models) else keys
    mean = shares((query.c[0][:, :, None] * middle).sum(axis=-1))[..., None, :] @ middle
    if isinstance(keys, Models):
        relative = (query[:, :, None] * keys.less(mean)).sum()
        simple = is_simple(query)[:, :, None] | is_simple(keys)
        sums = Sums.products(query.size()[:, :, None], keys.size(), simple)
    else:
        relative = query.through(*(np.swapaxes(part, -1, -2) for part in two_sum(keys, -mean)))
        sums = Sums.of(query.size(), is_simple(query), np.swapaxes(keys, -1, -2))
    common = query.through(np.swapaxes(mean, -1, -2))
    sizes = (relative.size() + common.size()).least(sums.sizes)
    error = sums.error(sizes, arithmetic.unit, arithmetic.machine.underflow)
    relative = centred(relative) if isinstance(keys, Models) else relative
    return Scores(relative.wider(error), sizes + error, (sums.sizes + error).most(-1))


def shares(scores: Array) -> Array:
    """About the weights at the middle; any numbers serve."""
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(np.nan_to_num(weights / weights.sum(axis=-1, keepdims=True), nan=0.0))


def mean_of(
    scores: Scores, values: Array | Models, arithmetic: SoftmaxArithmetic, after: int = 1, far: Far | None = None
) -> Models:
    """The means (C, q, v) of values (C, q, p, v) by softmax weights, with so many roundings to the dtype ``after``."""
    logs = disturbed(scores, arithmetic)
    weights = logs.exp()
    total = weights.sum()
    least = least_sum(logs, total)
    share = (exp_above(logs.c[0], logs.swing()) / least[..., None]).least(1.0)
    centre = shares(logs.c[0])[..., None, :] @ (values.c[0] if isinstance(values, Models) else values)
    if isinstance(values, Models):
        apart: Array | Models = values.less(centre)
        above = (weights[..., None] * values.less(centre)).sum(-2)
    else:
        apart, low = two_sum(values, -centre)
        above = weights.through(apart, low)
    found = above.over(total[..., None], least[..., None])
    found = found.between(*_extremes(logs, apart), found.rest * CRUDE)
    reach, apart_most = scores.reach, found.size()
    if far is not None:
        found, reach = found.wider(far.share[..., None] * far.spread), far.reach
        apart_most = found.size()
    summed = _summed(share, values, apart, apart_most, arithmetic, far)
    return rounded(found.less(-centre[..., 0, :]), summed, reach, arithmetic, after)


def rounded(exact: Models, summed: Summed, reach: Up, arithmetic: SoftmaxArithmetic, after: int = 1) -> Models:
    """Means as the run adds them up, divides and casts; unknown where it may overflow."""
    size = exact.size().least(summed.mass)
    made = arithmetic.quotient(size, summed.mass, summed.spread, summed.trees)
    lost = arithmetic.vanished(summed.largest)
    cast = (size if after == 1 else summed.mass) + made + lost
    found = exact.wider(made + lost + cast * gamma(after, arithmetic.machine.roundoff))
    largest = reach[..., None].larger(summed.largest * arithmetic.keys)
    known = (largest.values <= (RANGE_64 if arithmetic.is_double else RANGE)) & np.isfinite(largest.values)
    return found.only(known & (found.size().values <= arithmetic.machine.largest))


def _summed(
    share: Up, values: Array | Models, apart: Array | Models, off: Up, arithmetic: SoftmaxArithmetic, far: Far | None
) -> Summed:
    """What rounding needs to know, of values, and of these ``apart`` from a centre that the means are ``off``."""
    low, high = values.range() if isinstance(values, Models) else (values, values)
    size, beside = Up.between(low, high), apart.size() if isinstance(apart, Models) else Up.of(apart)
    largest, row = size.most(-2), share[..., None, :]
    mass, spread = (row @ size)[..., 0, :], (row @ beside)[..., 0, :] * (1.0 + 4 * UNIT) + off
    half = Up.of(np.nextafter(high.max(axis=-2) - low.min(axis=-2), np.inf)) * 0.5
    left = Up.zeros(*share.shape[:-1])
    if far is not None:
        largest, half, left = far.largest, far.spread * 0.5, far.share
        mass, spread = mass + left[..., None] * largest, spread + left[..., None] * far.spread
    mass = mass.least(largest)
    trees = tree_losses(share, low, high, left, largest, arithmetic)
    return Summed(mass, spread.least(half), trees, largest)


def tree_losses(
    share: Up, low: Array, high: Array, left: Up, largest: Up, arithmetic: SoftmaxArithmetic
) -> tuple[Up, Up]:
    """What adding up loses (C, q, v), of weighted values between ``low`` and ``high``, and (C, q, 1) of weights.

    Where there are many, what any order loses of anything: a rounding an addition.
    """
    unit, keys, operations = arithmetic.unit, arithmetic.keys, arithmetic.operations
    if np.prod(low.shape[-2:]) > TREES:
        every = Up.of(gamma(keys - 1, unit))
        return largest * every, every
    ends = (Up(np.maximum(sign * end, 0.0)) for sign, end in ((1, high), (-1, low)))
    positive, negative = ((share[..., None] * end).T for end in ends)
    of_values = tree_error(positive, negative, left[..., None] * largest, keys, operations, unit)
    of_weights = tree_error(share, share * 0.0, left, keys, operations, unit)
    return of_values.least(largest * gamma(keys - 1, unit)), of_weights.least(gamma(keys - 1, unit))[..., None]


def _extremes(relative: Models, values: Array | Models) -> tuple[Array, Array]:
    """The smallest and the largest mean (C, q, v) of values (C, q, p, v) with logarithms of weights (C, q, p)."""
    low, high = relative.range()
    sure = low.max(axis=-1, keepdims=True)
    least, most = np.exp(low - sure) * BELOW, np.exp(np.minimum(high - sure, LARGEST)) / BELOW + TINY
    ends = values.range() if isinstance(values, Models) else (values, values)
    above = largest_mean(ends[1], least[..., None], most[..., None])
    return -largest_mean(-ends[0], least[..., None], most[..., None]), above


def largest_mean(values: Array, least: Array, most: Array) -> Array:
    """The largest mean of values, their weights between ``least`` and ``most``: heavy from some value on, else light.

    Sums of p terms and their differences are off by a few roundings of all weights that count, times the values. That
    ``most`` ends somewhere is less than one: as ``least`` is up to 1, weights beyond can be scaled down, together.
    """
    order = np.argsort(-values, axis=-2)
    values, light, heavy = (
        np.take_along_axis(np.broadcast_to(each, order.shape), order, axis=-2) for each in (values, least, most)
    )

    def sums(terms: Array, others: Array) -> Array:
        return np.asarray(terms.cumsum(axis=-2) + (others.sum(axis=-2, keepdims=True) - others.cumsum(axis=-2)))

    means = sums(heavy * values, light * values) / sums(heavy, light)
    slack = np.abs(values).max(axis=-2) * gamma(16 * values.shape[-2] + 64)
    return np.asarray(means.max(axis=-2) + slack)


def centred(scores: Models) -> Models:
    """Less a polynomial that is common to all keys: about their mean, by the weights at the middle."""
    common = (scores.c * shares(scores.c[0])).sum(axis=-1, keepdims=True)
    return scores - Models(scores.table, common, Up.zeros(*common.shape[1:]))


def disturbed(scores: Scores, arithmetic: SoftmaxArithmetic) -> Models:
    """The logarithms of the run's weights, less a common polynomial."""
    low, high = scores.relative.range()
    lead = Up.of(np.nextafter(high.max(axis=-1, keepdims=True) - low, np.inf))
    moved = arithmetic.subtraction(lead, scores.sizes) + arithmetic.exponents(lead)
    return scores.relative.wider(moved + 4 * arithmetic.machine.underflow)


def least_sum(relative: Models, total: Models) -> Array:
    """Lower bounds of sums of weights, from their logarithms and from the model of the sum."""
    each = np.exp(relative.c[0] - relative.swing().values) * BELOW
    by_sum = each.sum(axis=-1) * (1 - 2.0**-30)
    return np.asarray(np.fmax(by_sum, np.nextafter(total.c[0] - total.swing().values, -np.inf)))


# Far keys


def mixture_of_near(
    query: Models, keys: Array, values: Array, arithmetic: SoftmaxArithmetic, distance: float
) -> Models:
    """The same for numbers as keys and values (1, q, p, ..), without keys whose weights are e^-distance of another's.

    Cells with about as many keys left are looked at together; any distance will do.
    """
    gap, reach = gaps(query, keys, arithmetic)
    counts, every = (gap >= -max(0.0, distance)).sum(axis=-1).max(axis=1), keys.shape[2]
    group = np.ceil(np.log2(np.maximum(counts, 4)) * 2).astype(np.int64)
    spread = Up.of(np.nextafter(values.max(axis=2) - values.min(axis=2), np.inf))
    largest, parts, order = Up.of(np.abs(values).max(axis=2)), [], []
    for each in np.unique(group):
        cells = np.flatnonzero(group == each)
        order.append(cells)
        most = int(2.0 ** (each / 2))  # not the largest count among them: what is said of a cell is its own
        if most > CROWDED * every:
            parts.append(mixture(query[cells], keys, values, arithmetic))
            continue
        nearest = np.argpartition(-gap[cells], most, axis=-1)
        near = np.arange(keys.shape[1])[:, None], nearest[..., :most]
        beyond = np.take_along_axis(gap[cells], nearest[..., most:], axis=-1)
        far = Far(Up.exp_of(beyond).sum(), spread, largest, reach[cells])
        found = scores(query[cells], keys[0][near], arithmetic)
        parts.append(mean_of(found, values[0][near], arithmetic, far=far))
    back = np.argsort(np.concatenate(order), kind="stable")
    return Models.joined(parts, -3)[back]


def gaps(query: Models, keys: Array, arithmetic: SoftmaxArithmetic) -> tuple[Array, Up]:
    r"""Bounds (C, q, p) of the logarithms of the run's weights relative to one key's, and (C, q) of sums of products.

    With $q = q_0 + \sum_d q_d t_d + r$, r bounded entry by entry, $s_k - s_b \le q_0 k_k - q_0 k_b +
    \sum_d |q_d k_k - q_d k_b| + |r|(|k_k| + |k_b|)$. float64 rounds that by $\gamma$ of all sizes: with S their largest
    sum, products and sums of f terms by $4 \gamma_{f + 1} S$, what is added up by $4 \gamma_{D + 6} S$; a low part of
    the middle is a rounding of it. The run adds roundings of both scores, of the subtraction, and of exponentials.
    """
    table, matrix, terms = query.table, np.swapaxes(keys, -1, -2), keys.shape[-1]
    linear, sizes = np.flatnonzero(table.totals == 1), Up.of(np.swapaxes(keys, -1, -2))
    bent = query.rest + Up.of(query.c[0]) * (2 * UNIT)
    for row in np.flatnonzero(table.totals > 1):
        bent = bent + Up.of(query.c[row])
    unsure, whole = ((each[..., None, :] @ sizes)[..., 0, :] for each in (bent, query.size()))
    middle = (query.c[0][..., None, :] @ matrix)[..., 0, :]
    best = middle.argmax(axis=-1)[..., None]
    gap = middle - np.take_along_axis(middle, best, axis=-1)
    for row in linear:
        slopes = (query.c[row][..., None, :] @ matrix)[..., 0, :]
        gap += np.abs(slopes - np.take_along_axis(slopes, best, axis=-1))
    reach = whole.most(-1)
    score = reach * gamma(terms + 2, arithmetic.unit) + 4 * terms * arithmetic.machine.underflow
    run = score + arithmetic.subtraction((reach + score) * 2.0, reach + score) + arithmetic.exponentials()
    run = (run + 4 * arithmetic.machine.underflow) * 2.0
    own = reach * (16 * gamma(terms + len(table) + 16)) + 16 * terms * len(table) * TINY
    more = unsure + Up(np.take_along_axis(unsure.values, best, axis=-1)) + (run + own)[..., None]
    gap = np.nextafter(gap + more.values, np.inf)
    known = np.isfinite(reach.values)[..., None] & ~np.isnan(gap)
    return np.where(known, gap, 0.0), reach

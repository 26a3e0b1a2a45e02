r"""Heads whose keys are a product of smaller sets: their means, factor by factor.

**Factors.** Let key k stand at place $k_a$ of factor a, such that places and keys are one to one, and let $K^{(a)}$ be
rows of a factor, of as many columns as the keys have. With $s_k = q \cdot \sum_a K^{(a)}_{k_a} + d_k$,
$|d_k| \le \omega = \sum_f |q_f| \max_k |K_{kf} - \sum_a K^{(a)}_{k_a f}|$, and without d,
$$ p_k = \prod_a p^{(a)}_{k_a}, \qquad
   \sum_k p_k V_k = \frac{\sum_{k_1} e^{\sigma^{(1)}_{k_1}} \cdots \sum_{k_r} e^{\sigma^{(r)}_{k_r}} V_k}
   {\prod_a \sum_j e^{\sigma^{(a)}_j}} , $$
a contraction, axis by axis, of models. Any places and rows will do: what they do not explain is $\omega$. Columns that
belong to one factor are zero in the rows of others; a column that is a sum of functions of the factors, as $-|c|^2$ of
c, has rows in each.

**The run** is over all keys. Its log-weights are off by $\eta_k \le \eta_0 + \sum_a \eta^{(a)}_{k_a}$: sums of
products, their sizes, and how far a key is below the best are sums over factors. With $\rho_k = p_k (e^{\eta_k} - 1)$,
$$ |\mathrm{mean}' - m| \le \frac{\sum_k \rho_k |V_k - m|}{1 - \sum_k \rho_k} , $$
whose sums are contractions, too: with $S = \sum_j p_j |V_j - c|$ and $E = \sum_j \rho_j |V_j - c|$ over the keys of
some factors, those with one factor more are $\sum_j p_j S_j$ and $\sum_j p_j (e^{\eta_j} E_j + (e^{\eta_j} - 1) S_j)$.

Which keys are a product is a guess from the numbers (:func:`factors_of`); :class:`Factors` is what is checked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from itertools import combinations

import numpy as np
import numpy.typing as npt

from attnforge.kernel.heads import (
    CRUDE,
    TREES,
    Summed,
    least_sum,
    mixture,
    mixture_of_near,
    rounded,
    shares,
    tree_losses,
)
from attnforge.kernel.models import Models, exp_above
from attnforge.kernel.rounding import Sums, is_simple, power_of_two
from attnforge.kernel.softmax import SoftmaxArithmetic
from attnforge.outward import Up, gamma
from attnforge.outward.arrays import UNIT, two_sum

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

MANY = 16  # keys from which on some may be far, or they may be a product
POOR = 1e-3  # of the values' spread: models that leave out more are compared with those of near keys


def means(
    query: Models, keys: Array | Models, values: Array | Models, arithmetic: SoftmaxArithmetic, far: float
) -> Models:
    """The means (C, q, v) of values (C, q, p, v), for queries (C, q, f) and keys (C, q, p, f), the way that fits."""
    if isinstance(keys, Models) or isinstance(values, Models) or keys.shape[2] < MANY:
        return mixture(query, keys, values, arithmetic)
    factors = factors_of(keys[0, 0]) if keys.shape[1] == 1 and query.table.inputs > 1 else None
    if factors is None:
        return mixture_of_near(query, keys, values, arithmetic, far)
    found = mixture_of_factors(query, keys[0, 0], values[0, 0], factors, arithmetic)
    poor = np.flatnonzero(~(found.rest.values <= POOR * np.ptp(values[0, 0], axis=0)).all(axis=(1, 2)))
    if not len(poor):
        return found
    other = mixture_of_near(query[poor], keys, values, arithmetic, far)
    better = found[poor].where(found[poor].rest.values <= other.rest.values, other)
    place = np.arange(found.shape[0])
    place[poor] = found.shape[0] + np.arange(len(poor))
    return Models.joined([found, better], -3)[place]


@dataclass(frozen=True, eq=False)
class Factors:
    """Rows (p_a, f) of each factor; the keys in the order of their places, and what the rows do not explain (f,)."""

    rows: tuple[Array, ...]
    order: Indices
    unexplained: Up

    @classmethod
    def of(cls, keys: Array, rows: tuple[Array, ...], places: tuple[Indices, ...]) -> Factors:
        """Of keys (p, f), each at a place (p,) of every factor."""
        sizes = tuple(map(len, rows))
        number = np.ravel_multi_index(places, sizes)
        if not np.array_equal(np.sort(number), np.arange(math.prod(sizes))):
            raise ValueError("Keys and places are one to one")
        left, lost = keys, Up.zeros(*keys.shape)
        for row, place in zip(rows, places, strict=True):
            left, rounding = two_sum(left, -row[place])
            lost = lost + rounding
        return cls(rows, np.argsort(number), (Up.of(left) + lost).most(0))


def factors_of(keys: Array) -> Factors | None:
    """A guess: columns that tell all keys apart, in groups of which every combination occurs; others are sums."""
    codes = [np.unique(column, return_inverse=True)[1].ravel() for column in keys.T]
    base: list[int] = []
    for column in sorted((c for c in range(len(codes)) if codes[c].any()), key=lambda c: int(codes[c].max())):
        if _count([codes[c] for c in (*base, column)]) > max(_count([codes[c] for c in base]), 1):
            base.append(column)
    groups = _groups(codes, base)
    places = tuple(np.unique(keys[:, group], axis=0, return_inverse=True)[1].ravel() for group in groups)
    sizes = [int(place.max(initial=0)) + 1 for place in places]
    if len(groups) < 2 or math.prod(sizes) != len(keys) or _count([codes[c] for c in base]) != len(keys):
        return None
    rows = [np.zeros((size, keys.shape[1])) for size in sizes]
    for column in range(keys.shape[1]):
        left = keys[:, column]
        for row, place, group in sorted(zip(rows, places, groups, strict=True), key=lambda each: column not in each[2]):
            row[:, column] = np.bincount(place, left) / np.bincount(place) if column not in base else 0.0
            if column in group:
                row[place, column] = left
            left = left - row[place, column]
    return Factors.of(keys, tuple(rows), places)


def _count(codes: list[Indices]) -> int:
    return len(np.unique(np.stack(codes, axis=1), axis=0)) if codes else 0


def _groups(codes: list[Indices], base: list[int]) -> list[list[int]]:
    """Columns that belong together: those of which not every pair of values occurs."""
    groups = [[column] for column in base]
    for f, g in combinations(base, 2):
        one, two = (next(group for group in groups if column in group) for column in (f, g))
        if one is not two and _count([codes[f], codes[g]]) < _count([codes[f]]) * _count([codes[g]]):
            one += two
            groups = [group for group in groups if group is not two]
    return groups


@dataclass(frozen=True, eq=False)
class _Axis:
    """One factor on cells: weights (C, 1, p_a) as models, bounds of its shares, and of what the run makes of them."""

    weights: Models
    total: Models
    least: Array
    share: Up
    middle: Array
    disturbance: Up


def mixture_of_factors(
    query: Models, keys: Array, values: Array, factors: Factors, arithmetic: SoftmaxArithmetic
) -> Models:
    """The means (C, 1, v) of values (p, v), for queries (C, 1, f) and keys (p, f)."""
    unexplained = (query.size() * factors.unexplained).sum()
    common, axes, plain = Up.zeros(*unexplained.shape), [], np.asarray(power_of_two(keys).all(axis=0))
    for rows in factors.rows:
        mean = shares((query.c[0][..., None, :] @ rows.T)[..., 0, :])[..., None, :] @ rows
        common = common + query.through(np.swapaxes(mean, -1, -2)).size()[..., 0]
        axes.append(_axis(query, rows, mean, plain, arithmetic))
    off = _uniform(query, keys, common, unexplained, arithmetic)
    shift = values.min(axis=0) / 2 + values.max(axis=0) / 2
    sizes = tuple(map(len, factors.rows))
    tensor = values[factors.order].reshape(*sizes, -1)
    exact = _contracted(two_sum(tensor, -shift), axes)
    least = reduce(lambda one, two: np.nextafter(one * two, -np.inf), (np.maximum(axis.least, 0.0) for axis in axes))
    total = reduce(Models.__mul__, [axis.total for axis in axes])
    found = exact.over(total[..., None], least[..., None])
    low, high = (np.broadcast_to(end, found.shape) for end in (values.min(axis=0) - shift, values.max(axis=0) - shift))
    low, high = np.nextafter(low, -np.inf), np.nextafter(high, np.inf)
    found = found.between(low, high, found.rest * CRUDE).less(np.broadcast_to(-shift, found.shape))
    return _as_it_runs(found, values, tensor, axes, off, query, keys, arithmetic)


def _axis(
    query: Models, rows: Array, mean: Array, plain: npt.NDArray[np.bool_], arithmetic: SoftmaxArithmetic
) -> _Axis:
    """One factor's weights; products by columns of powers of two (``plain``) are exact."""
    relative = query.through(*(np.swapaxes(part, -1, -2) for part in two_sum(rows, -mean)))
    weights = relative.exp()
    total = weights.sum()
    least = least_sum(relative, total)
    share = (exp_above(relative.c[0], relative.swing()) / least[..., None]).least(1.0)
    low, high = relative.range()
    lead = Up.of(np.nextafter(high.max(axis=-1, keepdims=True) - low, np.inf))
    sums = _sums(query, rows, plain)
    sizes = relative.size()
    error = sums.error(sizes, arithmetic.unit, arithmetic.machine.underflow)
    disturbance = error + arithmetic.subtraction(lead, sizes + error)
    return _Axis(weights, total, least, share, shares(relative.c[0]), disturbance)


def _sums(query: Models, rows: Array, plain: Mask) -> Sums:
    """The products of scores (C, 1, p) with rows (p, f), counted as if none were zero."""
    simple, by = is_simple(query) | plain, Up.of(rows).T
    sizes, inexact = query.size() @ by, Up(np.where(simple, 0.0, query.size().values)) @ by
    return Sums(np.full(sizes.shape, float(rows.shape[1])), sizes, inexact, np.zeros(sizes.shape, dtype=np.bool_))


def _uniform(query: Models, keys: Array, common: Up, unexplained: Up, arithmetic: SoftmaxArithmetic) -> Up:
    """What the run's log-weights (C, 1) are off by, for any key, beside what is said of its factors."""
    reach = (query.size() @ Up.of(keys).T).most(-1)
    error = reach * gamma(keys.shape[1] + 1, arithmetic.unit) + 4 * keys.shape[1] * arithmetic.machine.underflow
    scores = (common + unexplained * (keys.shape[1] + 1.0)) * arithmetic.unit
    scores = scores * (1.0 + gamma(keys.shape[1] + 4, arithmetic.unit))
    subtracted = arithmetic.subtraction((unexplained + error) * 2.0, common + unexplained + error)
    lost = 4 * arithmetic.machine.underflow
    found: Up = unexplained + scores + subtracted + arithmetic.exponentials() + lost
    return found


def _contracted(tensor: tuple[Array, Array], axes: list[_Axis]) -> Models:
    """Sums (C, 1, v) of values (p_1, .., p_r, v), which have low parts, by weights."""
    *before, last = axes
    lengths, width = tensor[0].shape[:-2], tensor[0].shape[-1]
    found = last.weights.through(*(np.moveaxis(part, -2, 0).reshape(part.shape[-2], -1) for part in tensor))
    for i, axis in list(enumerate(before))[::-1]:
        rows = found.shaped(found.shape[0], 1, math.prod(lengths[:i]), lengths[i], width)
        found = (axis.weights[:, :, None, :, None] * rows).sum(-2)
    return found.shaped(found.shape[0], 1, width)


def _as_it_runs(
    found: Models,
    values: Array,
    tensor: Array,
    axes: list[_Axis],
    off: Up,
    query: Models,
    keys: Array,
    arithmetic: SoftmaxArithmetic,
) -> Models:
    """With the run's weights, and rounded."""
    centre = _mean(tensor, [axis.middle for axis in axes])
    beside = Up.of(tensor - centre.reshape(len(centre), *(1,) * len(axes), -1)) * (1.0 + 4 * UNIT)
    every = Up(np.concatenate([beside.values, np.ones((*beside.shape[:-1], 1))], axis=-1))
    within, disturbed = _disturbed(every, axes, off)
    drift = found.less(centre[:, None]).size()
    span = Up.of(np.nextafter(np.ptp(values, axis=0), np.inf))
    moved = disturbed[..., :-1] + disturbed[..., -1:] * drift
    moved = (moved / np.nextafter(1.0 - disturbed.values[..., -1:], -np.inf)).least(span)
    largest = Up.of(np.abs(values).max(axis=0))
    larger: Up = reduce(Up.__add__, [axis.disturbance.most(-1) for axis in axes], off)[..., None] * 2.0
    mass = (_shared(Up.of(tensor)[None], axes) * larger.exp()).least(largest)
    spread = (within[..., :-1] * larger.exp() + drift + moved).least(span * 0.5)
    reach = (query.size() @ Up.of(keys).T).most(-1)
    trees = _trees(tensor, axes, larger, largest, arithmetic)
    return rounded(found.wider(moved), Summed(mass, spread, trees, largest), reach, arithmetic)


def _trees(tensor: Array, axes: list[_Axis], larger: Up, largest: Up, arithmetic: SoftmaxArithmetic) -> tuple[Up, Up]:
    """What adding up loses, of all keys with their shares, which disturbances make this much ``larger``."""
    values = tensor.reshape(1, 1, -1, tensor.shape[-1])
    share = larger.exp()[..., 0] if values.size <= TREES else Up.zeros(*larger.shape[:-1])
    for axis in axes if values.size <= TREES else ():
        share = Up((share[..., None] * axis.share[:, 0, None]).values.reshape(len(share.values), -1))
    return tree_losses(share[:, None], values, values, Up.zeros(len(share.values), 1), largest, arithmetic)


def _mean(tensor: Array, middle: list[Array]) -> Array:
    """About the means (C, v) at the middles of cells."""
    found = np.broadcast_to(tensor, (len(middle[0]), *tensor.shape))
    for weights in middle[::-1]:
        found = np.einsum("c...pv,cp->c...v", found, weights[:, 0])
    return found


def _shared(sizes: Up, axes: list[_Axis]) -> Up:
    """Sums (C, 1, v) of sizes (C or 1, p_1, .., p_r, v) by bounds of shares."""
    for axis in axes[::-1]:
        sizes = _along(axis.share, sizes)
    return sizes[:, None]


def _along(share: Up, sizes: Up) -> Up:
    """Sums over the last axis but one, by numbers (C, 1, p)."""
    lengths, width = sizes.shape[1:-2], sizes.shape[-1]
    flat = Up(np.moveaxis(sizes.values, -2, 1).reshape(sizes.shape[0], sizes.shape[-2], -1))
    found = share @ flat
    return Up(found.values.reshape(found.shape[0], *lengths, width))


def _disturbed(sizes: Up, axes: list[_Axis], off: Up) -> tuple[Up, Up]:
    """Sums (C, 1, v) of sizes by shares, and by what disturbances make of shares."""
    within, disturbed = sizes, sizes * 0.0
    for axis in axes[::-1]:
        more = axis.disturbance.expm1()
        grown = axis.share * (more + 1.0)
        within, disturbed = (
            _along(axis.share, within),
            _along(grown, disturbed) + _along(axis.share * more, within),
        )
    more = off.expm1()[..., None]
    within, disturbed = within[:, None], disturbed[:, None]
    return within, disturbed * (more + 1.0) + within * more

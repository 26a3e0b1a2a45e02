r"""A head that selects among cells of any shape: its error by branch and bound on boxes.

Scores are affine in x. On a box with winner w (the best key at its middle) the differences $s_j - s_w$ are affine too,
so their ranges are exact: relative weights $e_j = e^{s_j - s_w}$ lie between $e^{lo_j}$ and $e^{hi_j}$, with
$e_w = 1$. Rounding moves each difference by at most $d_j + d_w$ and widens these ranges. Keys with $hi_j < -T$ are
far: together they weigh at most $\phi = \sum e^{hi_j}$, and stay far on every part of the box. The others bound the
output by the extremes of
$$ \sum_j e_j v_j \Big/ \sum_j e_j , \quad e_j \in [e^{lo_j}, e^{hi_j}] , $$
attained with all $e_j$ of larger values high and all of smaller values low, or the reverse: sort by value and try every
cut. (With many near keys, or large boxes, by their smallest and largest value.) The target's range on the box gives the
rest. Boxes are halved (:mod:`attnforge.outward.branch_and_bound`), all at once, until none exceeds the largest error
seen by more than a few per cent, or splitting cannot help, or a limit is reached; the bound holds in any case.

Parts: ``spacing``, what selection errs with exact scores; ``leakage``, far keys' weight times the spread of values;
``rounding``, the rest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from attnforge.certification.affine_scores import Scores, dot
from attnforge.certification.target_range import Range, range_of, seen_at
from attnforge.effort import NORMAL, Effort
from attnforge.errors import CertificateError
from attnforge.kernel.heads import largest_mean
from attnforge.outward import Up, add_up, gamma
from attnforge.outward.branch_and_bound import Found, Rules, Supremum, branch_and_bound
from attnforge.targets import Box, Formula, Target

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

CLOSE = 0.03  # the bound may exceed the largest error found by this fraction
BOXES, ENCLOSURES = 15, 20  # times the boxes of a proof, of a callable and of a formula: 20 to 100 microseconds each
PAIRS = 2**23  # of a box and a near key, held at once
FEW = 64  # near keys up to which the extremes are found by sorting
PROBES = 2048  # points that give a first idea of the error
SLACK = 1 + 2.0**-44  # for the few roundings of an expression of positive terms


@dataclass(frozen=True, eq=False)
class _Keys:
    """Scores slope . x + constant of P keys in float64, with values (P, k).

    ``exact`` (P,) bounds how far these floats and their differences are from the exact scores of the weights, ``run``
    (P,) how far the run's scores are from these; ``error`` (r,) is to be multiplied with differences of ``lever``.
    """

    slope: Array
    constant: Array
    values: Array
    exact: Array
    run: Array
    error: Array
    lever: Array

    @classmethod
    def of(cls, scores: Scores) -> _Keys:
        slope, constant, reach = scores.slope, scores.constant, Up.of(scores.box)
        size = dot(Up.of(slope.mid), reach) + Up.of(constant.mid)
        exact = dot(Up.of(slope.rad), reach) + Up.of(constant.rad) + size * gamma(2 * len(reach.values) + 8)
        run, error = scores.noise.values, scores.error.values
        return cls(slope.mid, constant.mid, scores.values, exact.values, run, error, scores.lever.mid)


@dataclass(frozen=True, eq=False)
class _Near:
    """For every box the mass of far keys (B,), and those that may be near: ``count`` of ``key`` from ``start`` on."""

    far: Array
    start: Indices
    count: Indices
    key: Indices

    def __getitem__(self, index: npt.NDArray[np.generic]) -> _Near:
        return _Near(self.far[index], self.start[index], self.count[index], self.key)


@dataclass(eq=False)
class _Level:
    """Boxes (B, D), mass of far keys (B,), and pairs of a box and a key that may be near, sorted by box."""

    lower: Array
    upper: Array
    far: Array
    box: Indices
    key: Indices
    middle: Array = field(init=False)
    radius: Array = field(init=False)

    def __post_init__(self) -> None:
        self.middle = self.lower / 2 + self.upper / 2
        self.radius = np.maximum(self.upper - self.middle, self.middle - self.lower) * (1 + 2.0**-50)

    @classmethod
    def of(cls, lower: Array, upper: Array, near: _Near) -> _Level:
        """The pairs written out."""
        ends = np.cumsum(near.count)
        box = np.repeat(np.arange(len(lower)), near.count)
        return cls(lower, upper, near.far, box, near.key[np.arange(len(box)) + (near.start - ends + near.count)[box]])

    @property
    def starts(self) -> Indices:
        return np.searchsorted(self.box, np.arange(len(self.lower)))

    @property
    def counts(self) -> Indices:
        return np.diff(np.append(self.starts, len(self.box)))


@dataclass(frozen=True, eq=False)
class _Weights:
    """For every pair: s_j - s_w at the middle, its swing over the box, its uncertainty, exact and as run."""

    middle: Array
    swing: Array
    exact: Array
    run: Array


def bound_selection(
    scores: list[Scores], target: Target, domain: Box, ceiling: float = math.inf, effort: Effort = NORMAL
) -> tuple[dict[str, float], bool]:
    """Named parts of the error of one head over cells of any shape, one set of scores a query token; whether it ended.

    ``ceiling`` is a bound known already: where an error close to it is found, there is no use in looking on.
    """
    tokens, ended, k = [], True, scores[0].values.shape[1]
    for i, each in enumerate(scores):
        found = _search(each, target, domain, slice(i * k, (i + 1) * k), ceiling, effort)
        spacing, leakage = (0.0, 0.0) if found.parts is None else found.parts.max(axis=0).tolist()
        total, ended = found.bound, ended and found.limit is None
        disturbed = max(total - spacing - leakage, 0.0) if math.isfinite(total) else math.inf
        slack = float((Up.of(disturbed) * SLACK + _slack(each)).values)
        tokens.append({"spacing": spacing, "leakage": leakage, "rounding": add_up(slack, each.written)})
    return {name: max(parts[name] for parts in tokens) for name in tokens[0]}, ended


def _slack(scores: Scores) -> Up:
    """What is added to any bound for the sums of values: errors of this size need not be known better."""
    return Up.of(scores.values).most() * 2.0**-42


def _search(scores: Scores, target: Target, domain: Box, outputs: slice, ceiling: float, effort: Effort) -> Supremum:
    """The largest error of all boxes, with its spacing and leakage, by branch and bound over the domain."""
    lower, upper, keys = domain.lower.reshape(1, -1), domain.upper.reshape(1, -1), _Keys.of(scores)
    seen, spread = _probe(keys, target, lower, upper, outputs), scores.spread
    if math.isnan(seen):
        wanted = "A bound is about a target that has a value everywhere on the domain"
        raise CertificateError(wanted, "none at some point of it", "Shrink the domain")
    count = len(keys.values)
    aside = np.log(count) + np.log(max(spread, 1e-300) / max(0.003 * seen, 1e-9 * spread, 1e-300))
    look = _Look(keys, range_of(target), target, outputs, max(float(aside), 3.0), spread, seen)
    limit = effort.boxes * (ENCLOSURES if isinstance(target, Formula) else BOXES)
    everything = _Near(np.zeros(1), np.zeros(1, np.int64), np.array([count]), np.arange(count))
    rules = Rules(1 + CLOSE, limit, negligible=float(_slack(scores).values), ceiling=ceiling)
    return branch_and_bound(look, lower, upper, rules, data=everything)


def _probe(keys: _Keys, target: Target, lower: Array, upper: Array, outputs: slice) -> float:
    """The largest error at random points, by the exact scores: where to stop, not a bound."""
    count = max(16, min(PROBES, PAIRS // len(keys.values)))
    points = np.random.default_rng(0).uniform(lower, upper, size=(count, lower.shape[1]))
    logits = points @ keys.slope.T + keys.constant
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    out = weights @ keys.values / weights.sum(axis=1, keepdims=True)
    return float(np.abs(out - seen_at(target, points)[:, outputs]).max())


@dataclass(frozen=True, eq=False)
class _Look:
    """Bounds of the error on boxes; keys more than ``aside`` below the winner are dropped, their mass kept."""

    keys: _Keys
    ranges: Range
    target: Target
    outputs: slice
    aside: float
    spread: float
    probed: float

    def __call__(self, lower: Array, upper: Array, data: _Near) -> Found:
        keys, level = self.keys, _Level.of(lower, upper, data)
        level, weights = _drop_far(level, _relative_weights(level, keys), self.aside)
        low, high = (side[:, self.outputs] for side in self.ranges(lower, upper))
        spacing = _error(level, weights, keys, low, high, weights.exact)
        doubtful = np.any(weights.run > weights.exact)
        total = _error(level, weights, keys, low, high, weights.run) if doubtful else spacing
        leakage = level.far * self.spread * SLACK
        bound = (total + leakage) * SLACK
        known = np.maximum.reduceat(weights.swing, level.starts) <= 0.01
        settled = known & ((high - low).max(axis=1) <= 0.5 * CLOSE * total)
        held = np.empty(len(bound), dtype=np.int64)
        order = np.argsort(-bound, kind="stable")
        held[order] = np.cumsum(level.counts[order])
        seen = np.maximum(_seen(level, weights, keys, self.target, self.outputs), self.probed)
        near = _Near(level.far, level.starts, level.counts, level.key)
        parts, longest = np.stack([spacing, leakage], axis=1), (upper - lower).argmax(axis=1)
        return Found.of(bound, seen, longest, settled | (held > PAIRS), parts=parts, data=near)


def _relative_weights(level: _Level, keys: _Keys) -> _Weights:
    """Differences to the winner of each box."""
    box, key = level.box, level.key
    at = np.einsum("pd,pd->p", keys.slope[key], level.middle[box]) + keys.constant[key]
    top = np.maximum.reduceat(at, level.starts)
    winner = np.empty(len(level.lower), dtype=np.int64)
    best = at == top[box]
    winner[box[best]] = key[best]
    rival = winner[box]
    tilt = keys.slope[key] - keys.slope[rival]
    middle = np.einsum("pd,pd->p", tilt, level.middle[box]) + (keys.constant[key] - keys.constant[rival])
    swing = np.einsum("pd,pd->p", np.abs(tilt), level.radius[box]) * SLACK
    exact = keys.exact[key] + keys.exact[rival]
    run = exact + keys.run[key] + keys.run[rival] + np.abs(keys.lever[key] - keys.lever[rival]) @ keys.error
    other = key != rival
    return _Weights(middle * other, swing * other, exact * other, run * SLACK * other)


def _drop_far(level: _Level, weights: _Weights, aside: float) -> tuple[_Level, _Weights]:
    highest = weights.middle + weights.swing + weights.run
    near = highest >= -aside
    mass = np.bincount(level.box[~near], np.exp(highest[~near]), minlength=len(level.lower))
    kept = _Level(level.lower, level.upper, (level.far + mass) * SLACK, level.box[near], level.key[near])
    return kept, _Weights(weights.middle[near], weights.swing[near], weights.exact[near], weights.run[near])


def _seen(level: _Level, weights: _Weights, keys: _Keys, target: Target, outputs: slice) -> Array:
    """Errors (B,) at the middles."""
    relative = np.exp(weights.middle)
    weighted = np.add.reduceat(relative[:, None] * keys.values[level.key], level.starts)
    out = weighted / np.add.reduceat(relative, level.starts)[:, None]
    return np.asarray(np.abs(out - seen_at(target, level.middle)[:, outputs]).max(axis=1))


def _error(level: _Level, weights: _Weights, keys: _Keys, low: Array, high: Array, doubt: Array) -> Array:
    """Bound (B,) of the distance between the near keys' output and the target, scores being off by ``doubt``."""
    least = np.minimum.reduceat(keys.values[level.key], level.starts)
    most = np.maximum.reduceat(keys.values[level.key], level.starts)
    counts = level.counts
    reach = weights.swing + doubt
    calm = np.maximum.reduceat(weights.middle + reach, level.starts) <= 100
    few = np.flatnonzero((counts > 1) & (counts <= FEW) & calm)
    if len(few):
        pairs, present = _table(level.starts[few], counts[few])
        bottom = np.where(present, np.exp((weights.middle - reach)[pairs]) * (1 - 2.0**-44), 0.0)[..., None]
        top = np.where(present, np.exp((weights.middle + reach)[pairs]) * (1 + 2.0**-44), 0.0)[..., None]
        values = np.where(present[..., None], keys.values[level.key[pairs]], 0.0)
        least[few] = np.maximum(least[few], -largest_mean(-values, bottom, top))
        most[few] = np.minimum(most[few], largest_mean(values, bottom, top))
    return np.asarray(np.maximum(most - low, high - least).max(axis=1))


def _table(starts: Indices, counts: Indices) -> tuple[Indices, npt.NDArray[np.bool_]]:
    """Pairs of each box as rows, padded by repeating the first."""
    columns = np.arange(counts.max())
    present = columns < counts[:, None]
    return starts[:, None] + np.where(present, columns, 0), present

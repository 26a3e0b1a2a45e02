r"""A head that selects among cells of any shape: its error by branch and bound on boxes.

Scores are affine in x. On a box with winner w (the best key at its middle) the differences $s_j - s_w$ are affine too,
so their ranges are exact: relative weights $e_j = e^{s_j - s_w}$ lie between $e^{lo_j}$ and $e^{hi_j}$, with
$e_w = 1$. Rounding moves each difference by at most $d_j + d_w$ and widens these ranges. Keys with $hi_j < -T$ are
far: together they weigh at most $\phi = \sum e^{hi_j}$, and stay far on every part of the box. The others bound the
output by the extremes of
$$ \sum_j e_j v_j \Big/ \sum_j e_j , \quad e_j \in [e^{lo_j}, e^{hi_j}] , $$
attained with all $e_j$ of larger values high and all of smaller values low, or the reverse: sort by value and try every
cut. (With many near keys, or large boxes, by their smallest and largest value.) The target's range on the box gives the
rest. Boxes are halved, level by level, until none exceeds the largest error found by more than a few per cent, or
splitting cannot help, or a limit is reached; the bound holds in any case.

Parts: ``spacing``, what selection errs with exact scores; ``leakage``, far keys' weight times the spread of values;
``rounding``, the rest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from attnforge.balls import Balls, Machine, add_up, gamma, product_up
from attnforge.certification.cells import one_head
from attnforge.certification.row_of_anchors import softmax_roundings
from attnforge.certification.target_range import Range, range_of, seen_at
from attnforge.certification.tokens import Tokens, mixed_linear, project, whole_input
from attnforge.effort import NORMAL, Effort, time_is_up
from attnforge.errors import CertificateError, RefusalError
from attnforge.network import Head, Network
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
class Scores:
    """Scores slope . x + constant of P keys, with values (P, k).

    ``exact`` (P,) bounds how far these floats and their differences are from the exact scores of the weights, ``run``
    (P,) how far the run's scores are from these; ``query`` (r,) is the error of the query features, to be multiplied
    with differences of ``keys`` (P, r).
    """

    slope: Array
    constant: Array
    values: Array
    exact: Array
    run: Array
    query: Array
    keys: Array


@dataclass(eq=False)
class _Found:
    """What is known so far: the largest error seen, and the largest bounds of boxes that are done with."""

    seen: float
    spacing: float = 0.0
    leakage: float = 0.0
    total: float = 0.0
    boxes: int = 0

    @property
    def goal(self) -> float:
        return max((1 + CLOSE) * self.seen, self.total)


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

    @property
    def starts(self) -> Indices:
        return np.searchsorted(self.box, np.arange(len(self.lower)))


@dataclass(frozen=True, eq=False)
class _Weights:
    """For every pair: s_j - s_w at the middle, its swing over the box, its uncertainty, exact and as run."""

    middle: Array
    swing: Array
    exact: Array
    run: Array


def bound_selection(
    network: Network,
    target: Target,
    domain: Box,
    machine: Machine,
    ceiling: float = math.inf,
    effort: Effort = NORMAL,
) -> dict[str, float]:
    """Named parts of the error of one head over cells of any shape.

    ``ceiling`` is a bound known already: where an error close to it is found, there is no use in looking on, and the
    parts add up to what is above it.
    """
    encode, head = one_head(network)
    n, inputs = network.tokens or 1, int(np.prod(target.domain.shape))
    outputs = target.outputs or 1
    if head.memory_values is None or domain.lower.size != inputs or head.memory_values.shape[1] != outputs:
        raise CertificateError("Network and target must have the same shape", f"{inputs} inputs, {outputs} outputs")
    if np.any(domain.lower < target.domain.lower) or np.any(domain.upper > target.domain.upper):
        raise CertificateError("Cells are certified where the target lives", "a larger domain", "Build a new network")
    tokens = whole_input(domain.lower.reshape(n, -1), domain.upper.reshape(n, -1), machine)
    for layer in encode:
        tokens = mixed_linear(layer, tokens, machine)
    worst = _Found(0.0)
    for i in range(n):
        scores = read_scores(head, tokens.rows(slice(i, i + 1)), machine)
        found = _search(scores, target, domain, slice(i * outputs, (i + 1) * outputs), ceiling, effort)
        worst.spacing, worst.leakage = max(worst.spacing, found.spacing), max(worst.leakage, found.leakage)
        worst.total = max(worst.total, found.total)
    known = math.isfinite(worst.total)
    disturbed = max(worst.total - worst.spacing - worst.leakage, 0.0) if known else math.inf
    rounding = add_up(product_up(disturbed, SLACK), _output_rounding(head.memory_values, machine))
    return {"spacing": worst.spacing, "leakage": worst.leakage, "rounding": rounding}


def read_scores(head: Head, token: Tokens, machine: Machine) -> Scores:
    """Scores of one query token against all keys, from the weights."""
    keys, values = head.memory_keys, head.memory_values
    if keys is None or values is None:
        raise CertificateError("The head's keys are its memory", "other keys", "Rebuild the network")
    query = project(token, head.query, machine)
    slope = Balls.exact(keys) @ Balls(query.slope.mid[0].T, query.slope.rad[0].T)
    constant = (Balls.exact(keys) @ Balls(query.constant.mid.T, query.constant.rad.T))[:, 0]
    reach = query.box.magnitude()[0]
    size = np.abs(slope.mid) @ reach + np.abs(constant.mid)
    exact = slope.rad @ reach + constant.rad + gamma(2 * len(reach) + 8) * size
    arithmetic = gamma(keys.shape[1] + 4, machine.accumulation) * (np.abs(keys) @ query.magnitude()[0])
    run = arithmetic + softmax_roundings(len(keys), machine) + keys.shape[1] * machine.underflow
    if not float(run.max()) < 20:
        got = f"scores off by up to {float(run.max()):.3g}"
        raise RefusalError(f"{machine.name} must tell the scores of cells apart", got, "Use fewer cells, or float64")
    return Scores(slope.mid, constant.mid, values, exact * SLACK, run * SLACK, query.error[0] * SLACK, keys)


def _output_rounding(values: Array, machine: Machine) -> float:
    """What adding up weighted values costs, relative to the largest."""
    count, largest = len(values), float(np.abs(values).max())
    half = machine.roundoff > machine.accumulation
    relative = add_up(gamma(count + 4, machine.accumulation), gamma(3 if half else 2, machine.roundoff))
    return add_up(product_up(add_up(relative, 2.0**-42), largest), product_up(count, machine.underflow, largest + 1.0))


def _search(scores: Scores, target: Target, domain: Box, outputs: slice, ceiling: float, effort: Effort) -> _Found:
    """Branch and bound over the domain."""
    lower, upper = domain.lower.reshape(1, -1), domain.upper.reshape(1, -1)
    spread = float((scores.values.max(axis=0) - scores.values.min(axis=0)).max()) * SLACK
    found, ranges = _Found(_probe(scores, target, lower, upper, outputs)), range_of(target)
    aside = np.log(len(scores.values)) + np.log(max(spread, 1e-300) / max(0.003 * found.seen, 1e-9 * spread, 1e-300))
    limit = effort.boxes * (ENCLOSURES if isinstance(target, Formula) else BOXES)
    count = np.arange(len(scores.values))
    level = _Level(lower, upper, np.zeros(1), np.zeros_like(count), count)
    while len(level.lower) and found.goal < ceiling:
        found.boxes += len(level.lower)
        level, errors = _look(level, scores, ranges, target, outputs, max(aside, 3.0), spread, found)
        open_ = _open(level, errors, found, found.boxes if time_is_up() else limit)
        _close(errors, ~open_, found)
        level = _halved(level, open_)
    if len(level.lower):
        found.spacing = found.total = math.inf
    return found


def _probe(scores: Scores, target: Target, lower: Array, upper: Array, outputs: slice) -> float:
    """The largest error at random points, by the exact scores: where to stop, not a bound."""
    count = max(16, min(PROBES, PAIRS // len(scores.values)))
    points = np.random.default_rng(0).uniform(lower, upper, size=(count, lower.shape[1]))
    logits = points @ scores.slope.T + scores.constant
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    out = weights @ scores.values / weights.sum(axis=1, keepdims=True)
    return float(np.abs(out - seen_at(target, points)[:, outputs]).max())


@dataclass(frozen=True, eq=False)
class _Errors:
    """Bounds for every box, and whether splitting it can lower them."""

    spacing: Array
    leakage: Array
    total: Array
    settled: npt.NDArray[np.bool_]


def _look(
    level: _Level, scores: Scores, ranges: Range, target: Target, outputs: slice, aside: float, spread: float,
    found: _Found,
) -> tuple[_Level, _Errors]:  # fmt: skip
    """Bounds of the error on every box of a level; far keys are dropped from it, their mass kept."""
    weights = _relative_weights(level, scores)
    level, weights = _drop_far(level, weights, aside)
    low, high = (side[:, outputs] for side in ranges(level.lower, level.upper))
    found.seen = max(found.seen, _seen(level, weights, scores, target, outputs))
    spacing = _error(level, weights, scores, low, high, weights.exact)
    total = _error(level, weights, scores, low, high, weights.run) if np.any(weights.run > weights.exact) else spacing
    leakage = level.far * spread * SLACK
    known = np.maximum.reduceat(weights.swing, level.starts) <= 0.01
    settled = known & ((high - low).max(axis=1) <= 0.5 * CLOSE * total)
    return level, _Errors(spacing, leakage, (total + leakage) * SLACK, settled)


def _relative_weights(level: _Level, scores: Scores) -> _Weights:
    """Differences to the winner of each box."""
    box, key = level.box, level.key
    at = np.einsum("pd,pd->p", scores.slope[key], level.middle[box]) + scores.constant[key]
    top = np.maximum.reduceat(at, level.starts)
    winner = np.empty(len(level.lower), dtype=np.int64)
    best = at == top[box]
    winner[box[best]] = key[best]
    rival = winner[box]
    tilt = scores.slope[key] - scores.slope[rival]
    middle = np.einsum("pd,pd->p", tilt, level.middle[box]) + (scores.constant[key] - scores.constant[rival])
    swing = np.einsum("pd,pd->p", np.abs(tilt), level.radius[box]) * SLACK
    exact = scores.exact[key] + scores.exact[rival]
    run = exact + scores.run[key] + scores.run[rival] + np.abs(scores.keys[key] - scores.keys[rival]) @ scores.query
    other = key != rival
    return _Weights(middle * other, swing * other, exact * other, run * SLACK * other)


def _drop_far(level: _Level, weights: _Weights, aside: float) -> tuple[_Level, _Weights]:
    highest = weights.middle + weights.swing + weights.run
    near = highest >= -aside
    mass = np.bincount(level.box[~near], np.exp(highest[~near]), minlength=len(level.lower))
    kept = _Level(level.lower, level.upper, (level.far + mass) * SLACK, level.box[near], level.key[near])
    return kept, _Weights(weights.middle[near], weights.swing[near], weights.exact[near], weights.run[near])


def _seen(level: _Level, weights: _Weights, scores: Scores, target: Target, outputs: slice) -> float:
    """The largest error at the middles."""
    relative = np.exp(weights.middle)
    weighted = np.add.reduceat(relative[:, None] * scores.values[level.key], level.starts)
    out = weighted / np.add.reduceat(relative, level.starts)[:, None]
    return float(np.abs(out - seen_at(target, level.middle)[:, outputs]).max())


def _error(level: _Level, weights: _Weights, scores: Scores, low: Array, high: Array, doubt: Array) -> Array:
    """Bound (B,) of the distance between the near keys' output and the target, scores being off by ``doubt``."""
    least = np.minimum.reduceat(scores.values[level.key], level.starts)
    most = np.maximum.reduceat(scores.values[level.key], level.starts)
    counts = np.diff(np.append(level.starts, len(level.box)))
    reach = weights.swing + doubt
    calm = np.maximum.reduceat(weights.middle + reach, level.starts) <= 100
    few = np.flatnonzero((counts > 1) & (counts <= FEW) & calm)
    if len(few):
        pairs, present = _table(level.starts[few], counts[few])
        bottom = np.where(present, np.exp((weights.middle - reach)[pairs]) * (1 - 2.0**-44), 0.0)
        top = np.where(present, np.exp((weights.middle + reach)[pairs]) * (1 + 2.0**-44), 0.0)
        for k in range(scores.values.shape[1]):
            values = np.where(present, scores.values[level.key[pairs], k], 0.0)
            least[few, k] = np.maximum(least[few, k], -_extreme(-values, bottom, top))
            most[few, k] = np.minimum(most[few, k], _extreme(values, bottom, top))
    return np.asarray(np.maximum(most - low, high - least).max(axis=1))


def _table(starts: Indices, counts: Indices) -> tuple[Indices, npt.NDArray[np.bool_]]:
    """Pairs of each box as rows, padded by repeating the first."""
    columns = np.arange(counts.max())
    present = columns < counts[:, None]
    return starts[:, None] + np.where(present, columns, 0), present


def _extreme(values: Array, bottom: Array, top: Array) -> Array:
    """Upper bound (B,) of sum e v / sum e over e between bottom and top, entries (B, m); absent keys have e = 0.

    Values are counted from a middle one, and 2^-42 of their spread is added for rounding: sums of m <= 64 terms,
    at most as large as the spread times the weights.
    """
    order = np.argsort(values, axis=1)
    values, bottom, top = (np.take_along_axis(array, order, axis=1) for array in (values, bottom, top))
    origin = values[:, :1] / 2 + values[:, -1:] / 2
    shifted = values - origin

    def cuts(lower: Array, upper: Array) -> Array:
        before, after = np.cumsum(lower, axis=1), np.cumsum(upper[:, ::-1], axis=1)[:, ::-1]
        return np.concatenate([after[:, :1], before[:, :-1] + after[:, 1:], before[:, -1:]], axis=1)

    best = (cuts(bottom * shifted, top * shifted) / cuts(bottom, top)).max(axis=1)
    scale = np.abs(values).max(axis=1)
    return np.asarray(best + origin[:, 0] + 2.0**-42 * (values[:, -1] - values[:, 0]) + 2.0**-50 * scale)


def _open(level: _Level, errors: _Errors, found: _Found, limit: int) -> npt.NDArray[np.bool_]:
    """Boxes to split: above the goal, still to be improved, and within the limits, the worst first."""
    splittable = np.any((level.middle > level.lower) & (level.middle < level.upper), axis=1)
    chosen = (errors.total > found.goal) & ~errors.settled & splittable
    pairs = np.diff(np.append(level.starts, len(level.box)))
    order = np.flatnonzero(chosen)[np.argsort(-errors.total[chosen], kind="stable")]
    fits = (np.arange(1, len(order) + 1) <= (limit - found.boxes) // 2) & (np.cumsum(pairs[order]) <= PAIRS)
    chosen[order[~fits]] = False
    return np.asarray(chosen)


def _close(errors: _Errors, done: npt.NDArray[np.bool_], found: _Found) -> None:
    found.spacing = max(found.spacing, float(errors.spacing[done].max(initial=0.0)))
    found.leakage = max(found.leakage, float(errors.leakage[done].max(initial=0.0)))
    found.total = max(found.total, float(errors.total[done].max(initial=0.0)))


def _halved(level: _Level, chosen: npt.NDArray[np.bool_]) -> _Level:
    """The chosen boxes, each cut in two along its longest side."""
    lower, upper, count = level.lower[chosen], level.upper[chosen], int(chosen.sum())
    rows, axis = np.arange(count), (upper - lower).argmax(axis=1)
    cut = level.middle[chosen][rows, axis]
    left, right = upper.copy(), lower.copy()
    left[rows, axis], right[rows, axis] = cut, cut
    number = np.cumsum(chosen) - 1
    kept = chosen[level.box]
    box, key = number[level.box[kept]], level.key[kept]
    return _Level(
        np.concatenate([lower, right]),
        np.concatenate([left, upper]),
        np.tile(level.far[chosen], 2),
        np.concatenate([box, box + count]),
        np.tile(key, 2),
    )

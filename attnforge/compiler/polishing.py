"""Polish a compiled target: the same heads, with values of least sup error, or the network as it was.

The construction's values come from least squares or closed forms. With the keys kept, the sup error is a convex
function of the values, whose minimum is a linear programme (:mod:`attnforge.anchors.minimax`); with ``positions`` the
row of a head with one axis is deformed first. Whatever comes out is certified anew, and taken only if it errs less at
points that took no part in it and no proved bound grows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from attnforge.anchors.axis import Axis
from attnforge.anchors.fresh_points import fresh
from attnforge.anchors.minimax import CLIMBS, minimax_values, polished_axis
from attnforge.compiler.budget import Budget, budget
from attnforge.compiler.certifying import certified
from attnforge.compiler.compiled import Compiled
from attnforge.compiler.measuring import largest_error
from attnforge.compiler.runnable import check_runnable
from attnforge.effort import NORMAL, TIME, Effort, check_time, in_force
from attnforge.errors import OutOfTimeError, RefusalError
from attnforge.network import Attention, Head, Linear, Network, attention_weights, rounded
from attnforge.outward import machine
from attnforge.progress import Progress
from attnforge.targets import Box
from attnforge.theorems.tensor_heads import TensorHead, heads_network

Array = npt.NDArray[np.float64]

POLISHED = ("tensor_grid", "ridge", "additive", "polynomial")
MOST_ANCHORS = 3000  # the programme costs the cube of them
WILDEST = 10.0  # times the largest value there was, is the largest there may be
PER_GAP = 16  # points between neighbouring anchors of a single row
PER_ANCHOR, FEWEST, MOST_WEIGHTS = 24, 10_000, 2e7  # random points for several axes; weights held at once
TRIES, SPREADS = 48, (1.0, 0.3, 0.1, 0.03, 0.01, 0.003)  # points around each of the worst, how far, in gaps
WORK = 2e13  # operations: large networks get fewer rounds
WORTH = 0.05  # a smaller gain may be the luck of the points
FRESH_SEEDS = (2**20, 2**20 + 1)  # for judging; those used for solving are small


def polish(
    compiled: Compiled,
    *,
    positions: bool = False,
    effort: str | Effort | None = None,
    timeout: float | None = None,
    workers: int = 1,
    progress: Progress = False,
) -> Compiled:
    """The same network with values of smaller sup error; the one given, saying so, where none were found.

    Args:
        compiled: by ``tensor_grid``, ``ridge``, ``additive`` or ``polynomial``, of at most 3,000 anchors in all.
        positions: of a single head with one axis, also move its anchors.
        effort: ``"low"``, ``"normal"``, ``"high"`` or an ``af.Effort``: how many rounds, and how hard to prove
            what comes out.
        timeout: seconds after which the network is returned as it was.
        workers: processes that share a long proof; -1 for all cores.
        progress: True shows what is being done; a callable is told (fraction, text).

    The target is evaluated in batches, at some 50 points an anchor of a single row and at 100,000 to 200,000 for grids
    and sums of terms; its values are remembered.

    >>> from attnforge.compiler.compile import compile
    >>> net = compile("sin(8*x)", {"x": (-1, 1)}, tol=1e-4)
    >>> better = polish(net)
    >>> better.certificate.estimate.error < net.certificate.estimate.error, better.anchors == net.anchors
    (True, True)
    """
    check_runnable("polish", compiled)
    with budget(effort, timeout, workers, progress=progress) as given:
        return polished(compiled, positions, given)


def polished(compiled: Compiled, positions: bool, given: Budget) -> Compiled:
    """The same within a budget."""
    _refuse_unless_polishable(compiled)
    try:
        return _better(compiled, positions, given)
    except OutOfTimeError:
        return _because(compiled, f"{compiled.reason}; not polished: that takes longer than {TIME}")


def _better(compiled: Compiled, positions: bool, given: Budget) -> Compiled:
    given.watch.say(f"polishing {compiled.anchors:,} values")
    found = {"values": _certified(compiled, _polished(compiled, compiled.network), given)}
    if positions and Sampling.of(compiled.network, compiled.domain).is_one_row and compiled.anchors > 2:
        given.watch.say("moving anchors")
        found["positions and values"] = _certified(compiled, _polished(compiled, _moved(compiled)), given)
    check_time("polishing")
    given.watch.say("measuring at fresh points")
    before, *errors = _judged(compiled, *found.values())
    tried = sorted(zip(errors, found, strict=True))
    kept = [(error, what) for error, what in tried if _proves_as_much(found[what], compiled)]
    if not kept or not kept[0][0] <= (1 - WORTH) * before:
        after, what = (kept or tried)[0]
        doubt = "" if kept else ", but a larger bound"
        said = f"polish did not help (sup error {before:.2g}, with other {what} {after:.2g}{doubt})"
        return _because(compiled, f"{compiled.reason}; {said}")
    after, what = kept[0]
    return _because(found[what], f"{compiled.reason}; {what} polished (sup error {before:.2g} -> {after:.2g})")


def _proves_as_much(new: Compiled, old: Compiled) -> bool:
    """Whether no proof is lost: larger values can raise the part of a bound that is rounding."""
    bound, proved = new.certificate.bound, old.certificate.bound
    return proved is None or (bound is not None and bound <= proved)


def _refuse_unless_polishable(compiled: Compiled) -> None:
    if compiled.construction not in POLISHED:
        requirement = f"Only fitted heads are polished: {', '.join(POLISHED)}"
        raise RefusalError(requirement, compiled.construction, "Leave it as it is, or compile it by one of these")
    if not _is_one_layer_of_memory(compiled.network):
        requirement = "Polishing takes linear maps and one layer of heads that hold all their values"
        raise RefusalError(requirement, str(compiled.network), "Polish what `compile` returns")
    if compiled.anchors > MOST_ANCHORS:
        requirement = f"Polishing takes at most {MOST_ANCHORS:,} anchors in all: its work grows with their cube"
        raise RefusalError(requirement, f"{compiled.anchors:,}", "Ask for a smaller tol instead")


def _is_one_layer_of_memory(network: Network) -> bool:
    *before, last = network.layers
    if not isinstance(last, Attention) or last.residual or not all(isinstance(layer, Linear) for layer in before):
        return False
    return network.tokens == 1 and all(
        head.key_rows is None and head.claims is not None and _is_identity(head.output) for head in last.heads
    )


def _is_identity(matrix: Array) -> bool:
    return np.array_equal(matrix, np.eye(len(matrix)))


def _polished(compiled: Compiled, network: Network) -> Network:
    """The network with values of least sup error, as it runs in the compiled dtype."""
    run = rounded(network, compiled.dtype)
    start = np.concatenate([_values(head) for head in run.heads])
    where = Sampling.of(network, compiled.domain)
    found = minimax_values(
        lambda points: _weights(run, points),
        lambda points: _wanted(compiled, points),
        start,
        where.first(),
        _largest(compiled),
        where.proposed,
        min(in_force().exchanges, max(2, int(WORK / (60 * 6 * len(start) ** 3)))),
    )
    return _with_values(network, found.values)


def _largest(compiled: Compiled) -> float:
    """The largest value allowed: WILDEST times what there was, unless rounding, M roundoff for values of size M, tells.

    A sixteenth of the error may be spent on it.
    """
    size = max(float(np.abs(_values(head)).max()) for head in compiled.network.heads)
    seen = compiled.certificate.estimate
    told = np.inf if seen is None else seen.error / (16 * machine(compiled.dtype).roundoff)
    return min(WILDEST * size, max(size, told))


def _moved(compiled: Compiled) -> Network:
    """The network's one row of anchors deformed for the target, and values to start from."""
    (claims,) = (head.claims for head in compiled.network.heads if head.claims is not None)
    where = Sampling.of(compiled.network, compiled.domain)
    ((row,),) = where.rows
    points = where.first()
    at = points @ row.weights + row.offset
    order = np.argsort(at)[::2]  # every trial solves for values: half the points make it twice as fast
    positions = claims.positions.reshape(-1)
    finest = float(positions[np.diff(positions).argmin()])
    axis = Axis.graded(positions, float(row.ends[0]), float(row.ends[-1]), claims.sharpness, finest)
    moved, values = polished_axis(axis, at[order], _wanted(compiled, points[order]), _largest(compiled))
    tensor = TensorHead(row.weights[None], np.array([row.offset]), (moved,), values)
    return heads_network([tensor], compiled.network.features, compiled.construction, compiled.dtype)


def _weights(network: Network, points: Array) -> Array:
    """Softmax weights (N, anchors) of all heads, side by side."""
    (layer,) = attention_weights(network, points[:, None, :])
    return np.concatenate([weights[:, 0] for weights in layer], axis=1)


def _wanted(compiled: Compiled, points: Array) -> Array:
    return np.asarray(compiled.target.values(points), dtype=np.float64).reshape(len(points), -1)


def _values(head: Head) -> Array:
    return np.empty((0, 0)) if head.memory_values is None else head.memory_values


def _with_values(network: Network, values: Array) -> Network:
    """The heads with these values (anchors, k), in order."""
    *before, last = network.layers
    if not isinstance(last, Attention):
        return network
    parts = np.split(values, np.cumsum([head.memory_size for head in last.heads])[:-1])
    heads = tuple(replace(head, memory_values=part) for head, part in zip(last.heads, parts, strict=True))
    return replace(network, layers=(*before, replace(last, heads=heads)))


def _judged(*networks: Compiled) -> list[float]:
    """The largest error of each at the same fresh points: random ones, between anchors, and where a climb leads."""
    where = Sampling.of(networks[0].network, networks[0].domain)
    points = where.random(NORMAL.points, FRESH_SEEDS[0])
    wanted = _wanted(networks[0], points)

    def error(net: Compiled) -> float:
        between = np.abs(net.at_points(points).reshape(wanted.shape) - wanted).max()
        return max(float(between), *(largest_error(net, net.target, NORMAL, seed=seed).sup for seed in FRESH_SEEDS))

    return [error(net) for net in networks]


def _certified(compiled: Compiled, network: Network, given: Budget) -> Compiled:
    check_time("polishing")
    return certified(network, compiled.target, compiled.construction, compiled.dtype, given)


def _because(compiled: Compiled, reason: str) -> Compiled:
    return replace(compiled, reason=reason)


@dataclass(frozen=True, eq=False)
class Row:
    """A row of anchors along one form w . x + t: the ends (gaps + 1,) of its gaps within what the form attains."""

    weights: Array
    offset: float
    ends: Array

    @classmethod
    def of(cls, form: Array, positions: Array, box: Box) -> Row:
        """The form (D + 1,) on the box; anchors beyond it are ghosts, and bound no gap."""
        weights, offset = form[:-1], float(form[-1])
        middle, reach = float(weights @ box.middle) + offset, float(np.abs(weights) @ (box.upper - box.lower)) / 2
        inside = np.clip(positions, middle - reach, middle + reach)
        return cls(weights, offset, np.unique(np.append(inside, [middle - reach, middle + reach])))

    def gaps_at(self, places: Array) -> Array:
        """The length of the gap that holds each place."""
        if len(self.ends) < 2:
            return np.zeros_like(places)
        return np.diff(self.ends)[np.clip(np.searchsorted(self.ends, places) - 1, 0, len(self.ends) - 2)]

    def random(self, count: int, rng: np.random.Generator) -> Array:
        """Places (count,) in gaps taken at random, now and then at their ends."""
        left = rng.integers(max(1, len(self.ends) - 1), size=count)
        right = np.minimum(left + 1, len(self.ends) - 1)
        part = np.clip(rng.uniform(-0.1, 1.1, size=count), 0.0, 1.0)
        return np.asarray(self.ends[left] + part * (self.ends[right] - self.ends[left]))

    def moved(self, points: Array, places: Array, box: Box) -> Array:
        """The points (N, D), moved so that the form is at ``places`` (N,).

        Towards the corner at which the form is largest, or smallest: it is affine on the way, so the fraction is known.
        Inputs the form does not read stay.
        """
        at = points @ self.weights + self.offset
        up = (places >= at)[:, None] == (self.weights > 0)
        corner = np.where(self.weights == 0, points, np.where(up, box.upper, box.lower))
        far = (corner - points) @ self.weights
        fraction = np.divide(places - at, far, out=np.zeros_like(at), where=far != 0)
        return np.clip(points + np.clip(fraction, 0.0, 1.0)[:, None] * (corner - points), box.lower, box.upper)


@dataclass(frozen=True, eq=False)
class Sampling:
    """Points of the box that are dense where the heads' anchors are: one tuple of rows a head."""

    box: Box
    rows: tuple[tuple[Row, ...], ...]
    anchors: int

    @classmethod
    def of(cls, network: Network, box: Box) -> Sampling:
        """From what the heads claim; a wrong claim makes the points less apt, and nothing else."""
        rows, inputs = [], network.features
        for claims in (head.claims for head in network.heads if head.claims is not None):
            positions = claims.positions.reshape(len(claims.positions), -1)
            forms = np.eye(inputs, inputs + 1) if claims.forms is None else claims.forms
            rows.append(tuple(Row.of(form, at, box) for form, at in zip(forms, positions.T, strict=True)))
        return cls(box, tuple(rows), sum(head.memory_size for head in network.heads))

    @property
    def is_one_row(self) -> bool:
        """Whether there is one head with one axis."""
        return len(self.rows) == 1 and len(self.rows[0]) == 1

    @property
    def count(self) -> int:
        """How many random points to look at in a round."""
        if self.is_one_row:
            return PER_GAP * (len(self.rows[0][0].ends) + self.anchors)
        return int(min(max(FEWEST, PER_ANCHOR * self.anchors), max(2 * self.anchors, MOST_WEIGHTS / self.anchors)))

    def first(self) -> Array:
        """Random points; of a single row, Chebyshev points in every gap too, in order."""
        points = self.random(self.count, 0)
        if not self.is_one_row:
            return points
        row = self.rows[0][0]
        each = max(PER_GAP, PER_GAP * self.anchors // (len(row.ends) - 1 or 1))  # a gap may hold many ghosts' tails
        inner = 0.5 - 0.5 * np.cos(np.pi * (np.arange(each) + 0.5) / each)
        places = np.unique(np.append(row.ends[:-1, None] + np.diff(row.ends)[:, None] * inner, row.ends))
        anywhere = fresh(self.box.lower, self.box.upper, len(places), 1)
        return np.concatenate([row.moved(anywhere, places, self.box), points])

    def random(self, count: int, seed: int) -> Array:
        """Half of them anywhere and on faces, half moved into random gaps of each axis of a head, head by head."""
        points = fresh(self.box.lower, self.box.upper, count, seed)
        rng = np.random.default_rng(seed)
        for number, axes in enumerate(self.rows):
            chosen = np.arange(number, count // 2, len(self.rows))
            for row in axes:
                points[chosen] = row.moved(points[chosen], row.random(len(chosen), rng), self.box)
        return points

    def proposed(self, worst: Array, number: int) -> Array:
        """Fresh points, and some closer and closer around the worst, as seen by every row."""
        rng = np.random.default_rng(number + 1)
        around = np.tile(worst, (TRIES, 1))
        spreads = np.resize(SPREADS, TRIES).repeat(len(worst))
        for row in (row for axes in self.rows for row in axes):
            at = around @ row.weights + row.offset
            steps = spreads * row.gaps_at(at) * rng.standard_normal(len(at))
            around = row.moved(around, at + steps, self.box)
        return np.concatenate([self.random(self.count // CLIMBS, number + 1), around])

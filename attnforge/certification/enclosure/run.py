r"""What rounding adds to heads over constant keys: scores, exponentials, sums, for any order of summation.

On a cell let $e_k$ be the exact weights, up to a common factor. The run's are $e_k e^{\delta_k}$, again up to a common
factor (the maximum it subtracts, the query's error in the direction of the best key w), with $|\delta_k| \le \eta_k$:
products $q_f K_{kf}$ that are not exact, their sum, the subtraction of the maximum, exponentials. So
$$ |\mathrm{out}' - \mathrm{out}|
   = \Big|\frac{\sum_k e_k (e^{\delta_k} - 1)(v_k - \mathrm{out})}{\sum_k e_k e^{\delta_k}}\Big|
   \le \frac{\sum_k e_k (e^{\eta_k} - 1)\,(|v_k - o| + D)}{\sum_k e_k e^{-\eta_k}}, \qquad |\mathrm{out} - o| \le D : $$
keys count with their weight and with their distance to the output. With o the output at the middle and $\sigma_k$ the
most that the cell moves a log-weight, $D = \sum_k e_k (e^{\sigma_k} - 1)|v_k - o| / \sum_k e_k e^{-\sigma_k}$.

Sums: any order is a binary tree, whose node errs by u times its exact sum, and by no more than the smaller of its two
addends. A sum over j leaves is at most $G_j$, the larger of the j largest positive and the j largest negative terms;
among the trees with m leaves, the one that adds leaf after leaf has, for every s, the most nodes of more than s leaves:
the error is at most $u \sum_{j=2}^m G_j$. Terms beyond the m largest err by at most their sum: the best m is taken.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.certification.tokens import Tokens, input_tokens, linear, project
from attnforge.kernel.rounding import count_roundings, power_of_two
from attnforge.kernel.softmax import SECOND_ORDER, SoftmaxArithmetic
from attnforge.network import Head, Linear
from attnforge.outward import Balls, Machine, gamma, product_up
from attnforge.outward.branch_and_bound import Found, Rules, branch_and_bound

Array = npt.NDArray[np.float64]

BLOCK = 2**20  # pairs of a cell and a key held at once
PAIRS = 2**23  # pairs looked at to sharpen the bound, at most
CELLS = 64  # of an even cover, at first: those that matter are cut
PARTS = 8  # of an interval that matters
SLACK = 1 + 2.0**-30  # for the roundings of an expression of positive terms, sums over the keys included
CLOSE = 1.05  # cells are cut until the bound is this near to what it is at points
TOP = 16  # cells whose middles are those points
LARGEST = 700.0  # exponents above are not told apart


class Run(ABC):
    """A network as it runs, with so many ``keys`` in all."""

    keys: int

    def on(self, lower: Array, upper: Array, sharp: bool = False) -> Array:
        """Bounds (C,) on cells (C, D) of what rounding adds; ``sharp`` ones take longer."""
        step = max(1, BLOCK // self.keys)
        blocks = [slice(i, i + step) for i in range(0, len(lower), step)]
        return np.concatenate([self._block(lower[block], upper[block], sharp) for block in blocks])

    @abstractmethod
    def _block(self, lower: Array, upper: Array, sharp: bool) -> Array:
        """The bounds, of cells few enough to be held at once."""


def rounding(run: Run, lower: Array, upper: Array, enough: float = 0.0) -> float:
    """The largest difference between the run and exact arithmetic on cells (C, D) from ``lower`` to ``upper``.

    The bound is over all outputs. Cells where it exceeds ``enough`` are looked at closely, and cut.
    """

    def look(lows: Array, highs: Array, _: Any) -> Found:
        bound, seen = run.on(lows, highs), np.zeros(len(lows))
        close = np.flatnonzero(bound > enough)
        if len(close):
            bound[close] = run.on(lows[close], highs[close], sharp=True)
            top = close[np.argsort(-bound[close])[:TOP]]
            middle = lows[top] / 2 + highs[top] / 2
            seen[top] = run.on(middle, middle, sharp=True)
        return Found.of(bound, seen, (highs - lows).argmax(axis=1))

    lower, upper = _finer(run, lower, upper, enough) if lower.shape[1] == 1 else (lower, upper)
    rules = Rules(CLOSE, len(lower) + PAIRS // run.keys, negligible=enough)
    return branch_and_bound(look, lower, upper, rules).bound * SLACK


def _finer(run: Run, lower: Array, upper: Array, enough: float) -> tuple[Array, Array]:
    """Intervals (C, 1), those with more than enough in parts: halving them takes as many looks and more time."""
    large = run.on(lower, upper) > enough
    edges = np.linspace(lower[large], upper[large], PARTS + 1)
    ends = ((lower, edges[:-1]), (upper, edges[1:]))
    low, high = (np.concatenate([whole[~large], parts.reshape(-1, 1)]) for whole, parts in ends)
    return low, high


def evenly(lower: Array, upper: Array, cells: int = CELLS) -> tuple[Array, Array]:
    """About so many equal cells of a box (D,), as lower and upper ends (C, D).

    >>> [ends.ravel().tolist() for ends in evenly(np.zeros(1), np.ones(1), 2)]
    [[0.0, 0.5], [0.5, 1.0]]
    """
    pieces = max(1, int(cells ** (1 / len(lower)) + 1e-9))
    edges = np.linspace(lower, upper, pieces + 1)
    count, axes = pieces ** len(lower), np.arange(len(lower))
    places = np.arange(count)[:, None] // pieces ** axes[::-1] % pieces  # NumPy's own grids have 32 axes at most
    return edges[places, axes], edges[places + 1, axes]


@dataclass(frozen=True, eq=False)
class LinearInput:
    """The linear form y = weights . x of inputs in a box."""

    weights: Array
    lower: Array
    upper: Array

    def along(self, query: Tokens, lower: Array, upper: Array) -> Tokens:
        """A query on the whole box (one row) as one of y on cells (C, 1); what is no function of y is uncertain."""
        slope, size = query.slope[0], np.maximum(np.abs(self.lower), np.abs(self.upper))
        pivot = int(np.abs(self.weights * (self.upper - self.lower)).argmax())
        multiple = slope.mid[pivot] / self.weights[pivot]
        parallel = self.weights[:, None] * multiple
        beside = size @ (np.abs(slope.mid - parallel) + slope.rad + 2.0**-51 * np.abs(parallel)) * SLACK
        cells, width = len(lower), len(multiple)
        return Tokens(
            np.arange(cells),
            Balls.between(lower, upper),
            Balls.exact(np.broadcast_to(multiple, (cells, 1, width))),
            Balls(
                *(np.broadcast_to(part, (cells, width)) for part in (query.constant.mid, query.constant.rad + beside))
            ),
            np.broadcast_to(query.error, (cells, width)),
        )


class MemoryRun(Run):
    """The run of heads over constant keys, and what rounding does to it on cells.

    With ``form`` the cells (C, 1) are intervals of a linear form of the input, which the heads read.
    """

    def __init__(
        self, encode: tuple[Linear, ...], heads: tuple[Head, ...], machine: Machine, form: LinearInput | None = None
    ) -> None:
        self.encode, self.heads, self.machine, self.form = encode, heads, machine, form
        self.keys = sum(head.memory_size for head in heads)

    def _block(self, lower: Array, upper: Array, sharp: bool) -> Array:
        form = self.form
        tokens = input_tokens(*((lower, upper) if form is None else (form.lower[None], form.upper[None])), self.machine)
        for layer in self.encode:
            tokens = linear(layer, tokens, self.machine)
        queries = [project(tokens, head.query, self.machine) for head in self.heads]
        if form is not None:
            queries = [form.along(query, lower, upper) for query in queries]
        pairs = zip(self.heads, queries, strict=True)
        parts = [_head(head, query, self.machine, sharp) for head, query in pairs]
        off, size = (np.sum([part[i] for part in parts], axis=0) for i in (0, 1))
        terms = sum(len(head.output) for head in self.heads)
        added = gamma(terms - 1 if len(parts) > 1 else 0, self.machine.roundoff) * (off + size)
        found = (off + added).max(axis=1) * SLACK
        return np.where(np.isnan(found), np.inf, found)


@dataclass(frozen=True, eq=False)
class Weights:
    """Weights of keys on cells, (C, p), relative to the best key's.

    At the middle their logarithms are ``relative``; the cell moves these by at most ``moved``, the run by ``eta``.
    """

    relative: Array
    moved: Array
    eta: Array

    def at(self) -> Array:
        """The weights at the middle."""
        return np.exp(self.relative)

    def change(self) -> Array:
        """By how much a weight on the cell may differ from that at the middle."""
        small = np.exp(self.relative) * np.expm1(np.minimum(self.moved, 1.0))
        return np.where(self.moved <= 1.0, small, np.exp(np.minimum(self.relative + self.moved, LARGEST)))

    def disturbance(self) -> Array:
        """By how much the run may differ from a weight; infinite where that leaves float64."""
        high = self.relative + self.moved
        small = np.exp(np.minimum(high, LARGEST)) * np.expm1(np.minimum(self.eta, 1.0))
        found = np.where(self.eta <= 1.0, small, np.exp(np.minimum(high + self.eta, LARGEST)))
        return np.where(high + self.eta < LARGEST, found, np.inf)

    def share(self) -> Array:
        """Upper bounds of the run's softmax weights."""
        high = np.exp(np.minimum(self.relative + self.moved + self.eta, LARGEST))
        return np.minimum(high * SLACK / self.total(self.moved + self.eta)[:, None], 1.0)

    def total(self, moved: Array) -> Array:
        """The sum of the weights from below, when each may shrink by exp(-moved)."""
        return np.asarray(np.exp(self.relative - moved).sum(axis=1) / SLACK)


def _head(head: Head, query: Tokens, machine: Machine, sharp: bool) -> tuple[Array, Array]:
    """On every cell, for every output (C, m): the rounding of one head, and a bound of its exact output."""
    weights = _weights(head, query, machine)
    columns = [_output(weights, np.asarray(head.memory_values), column, machine, sharp) for column in head.output.T]
    off, size = (np.stack([found[i] for found in columns], axis=1) for i in (0, 1))
    return off, size


def _weights(head: Head, query: Tokens, machine: Machine) -> Weights:
    keys = np.asarray(head.memory_keys)
    slope, radius = query.slope.mid[0], query.box.rad  # the same affine map of the input on every cell
    tilts, sizes, width = slope @ keys.T, np.abs(keys).T, keys.shape[1] + len(slope)
    reach = query.box.magnitude() @ np.abs(slope) + np.abs(query.constant.mid)
    uncertain = query.box.magnitude() @ query.slope.rad[0] + query.constant.rad
    scores = query.box.mid @ tilts + query.constant.mid @ keys.T
    winner = scores.argmax(axis=1)
    known = gamma(width + 12) * (reach @ sizes) + 2.0**-51
    moved, eta = known + _of(known, winner), np.zeros_like(known)
    for d in range(len(slope)):
        moved += np.abs(tilts[d] - tilts[d][winner][:, None]) * radius[:, d, None]
    for f in range(keys.shape[1]):
        apart = np.abs(keys[:, f] - keys[winner, f][:, None])
        moved += apart * uncertain[:, f, None]
        eta += apart * query.error[:, f, None]
    moved[np.arange(len(winner)), winner] = 0.0  # relative to itself
    moved *= SLACK
    size = np.abs(scores) + radius @ np.abs(tilts) + known + (uncertain + query.error) @ sizes
    relative = scores - _of(scores, winner)
    kernel = SoftmaxArithmetic(machine, len(keys), written_out=head.is_small)
    eta += _score_roundings(query, keys, size, relative, moved, kernel)
    return Weights(relative, moved, eta * SLACK)


def _of(array: Array, winner: npt.NDArray[np.int64]) -> Array:
    return np.take_along_axis(array, winner[:, None], axis=1)


def _score_roundings(
    query: Tokens, keys: Array, size: Array, relative: Array, moved: Array, kernel: SoftmaxArithmetic
) -> Array:
    """Disturbance (C, p) of log-weights by products and sums, by subtracting the maximum, and by exponentials."""
    told, sizes = query.magnitude(), np.abs(keys).T
    both = told @ sizes
    inexact = np.where(query.is_simple(), 0.0, told) @ np.where(power_of_two(keys), 0.0, np.abs(keys)).T
    sums = np.maximum((told > 0).astype(np.float64) @ (keys != 0).T - 1.0, 0.0)
    off = moved + query.error @ sizes
    return kernel_roundings(Products(both, inexact, sums, keys.shape[1]), size, relative, off, kernel)


@dataclass(frozen=True, eq=False)
class Products:
    """What scores are sums of, (p,) or (C, p): sizes of all products, of those that are not exact; additions."""

    both: Array
    inexact: Array
    sums: Array
    features: int


def kernel_roundings(made_of: Products, size: Array, relative: Array, off: Array, kernel: SoftmaxArithmetic) -> Array:
    """Disturbance (C, p) of log-weights by products and sums, by subtracting the maximum, and by exponentials.

    The last sum of a score errs by a unit of the score, at most ``size``; sums before it by one of all sizes together.
    Beside these the run's ``relative`` scores are ``off``, on the cell.
    """
    unit, far, large = kernel.unit, *kernel.rates
    wrong = gamma(made_of.features + 1, unit) * made_of.both
    sums = np.maximum(made_of.sums - 1.0, 0.0) * (made_of.both + wrong) + np.minimum(made_of.sums, 1.0) * (size + wrong)
    off = off + wrong
    lead = np.maximum((relative + off).max(axis=1, keepdims=True), 0.0)  # the run's largest score is at most so high
    subtracted = far * (lead - relative + off) + large * (size + wrong)
    lost = 4 * made_of.features * kernel.machine.underflow
    return np.asarray(unit * SECOND_ORDER * (made_of.inexact + sums + subtracted) + float(kernel.exponentials()) + lost)


def _output(weights: Weights, values: Array, output: Array, machine: Machine, sharp: bool) -> tuple[Array, Array]:
    """The rounding (C,) of one output, and a bound of its size in exact arithmetic."""
    mass = np.abs(values) @ np.abs(output)
    disturbed, size = disturbed_mean(weights, values @ output, mass, values.shape[1])
    share = weights.share()
    made = sums(share, values, output, size + disturbed, machine, added(share, values, output, machine, sharp))
    return (disturbed + made) * SLACK, size if values.shape[1] == 1 else share @ mass


def disturbed_mean(
    weights: Weights, written: Array, mass: Array, terms: int, varying: Array | float = 0.0
) -> tuple[Array, Array]:
    """How far (C,) disturbed weights move the mean of ``written``, (p,) or (C, p), and a bound of that mean.

    What is written are sums of ``terms`` products, of size ``mass``; on a cell it may vary by ``varying`` (C, p).
    """
    at = weights.at()
    middle = (at * written).sum(axis=1) / at.sum(axis=1)
    signed = written - middle[:, None]
    gap = (np.abs(signed) + gamma(terms + 2) * (mass + np.abs(middle)[:, None]) + varying) * SLACK
    share = weights.share()
    within = np.fmin((share * gap).sum(axis=1), 2 * gap.max(axis=1)) * SLACK  # no weight is larger than its share
    moved = np.abs((at * signed).sum(axis=1)) + ((weights.change() + gamma(len(written) + 8) * at) * gap).sum(axis=1)
    drifted = (share * varying).sum(axis=1) * SLACK
    spread = np.fmin(moved * SLACK / weights.total(weights.moved) + drifted, within)
    disturbed = (weights.disturbance() * (gap + spread[:, None])).sum(axis=1) * SLACK
    disturbed = np.fmin(disturbed / weights.total(weights.moved + weights.eta), within)
    return disturbed, (np.abs(middle) + spread) * SLACK


def added(share: Array, values: Array, output: Array, machine: Machine, sharp: bool) -> tuple[Array, Array]:
    """What adding up may lose (C,): of weighted values, and of the weights."""
    count, unit = len(values), machine.accumulation
    mass, blocks = share @ (np.abs(values) @ np.abs(output)), SoftmaxArithmetic(machine, count).blocks - 1
    if not sharp:
        return gamma(count + blocks, unit) * mass, np.full(len(share), gamma(count + blocks, unit))
    adding = np.sum([_added(share * column, unit) for column in (values * np.abs(output)).T], axis=0)
    return adding + gamma(blocks, unit) * mass, _added(share, unit) + gamma(blocks, unit)


def sums(
    share: Array, values: Array, output: Array, size: Array, machine: Machine, lost_in: tuple[Array, Array]
) -> Array:
    """The rounding (C,) of weighted sums, of their division by the sum of weights, and of what comes after.

    A product and two roundings of the division may fall on each term; the half types round weights and the result.
    ``lost_in`` is what adding up values and weights may lose.
    """
    count, unit = len(values), machine.accumulation
    mass = share @ (np.abs(values) @ np.abs(output))
    adding, normed = lost_in
    normed = normed / (1 - np.minimum(normed, 0.5)) if normed.max() <= 0.5 else np.full(len(share), np.inf)
    half = machine.roundoff > unit
    after = gamma(int(count_roundings(output[:, None])[0]) + 2 * half, machine.roundoff)
    lost = product_up(2 * count, machine.underflow, float(np.abs(values).max() * np.abs(output).sum()) + 1.0)
    made = (adding * (1 + gamma(4, machine.roundoff)) + gamma(3, unit) * mass) * (1 + normed) + normed * size
    return np.asarray((made + after * (mass + made) + lost) * SLACK)


def _added(terms: Array, unit: float) -> Array:
    """What any order of adding up (C, p) terms may lose, for terms at most this large, of these signs."""
    count = terms.shape[1]
    ordered = np.sort(terms, axis=1)
    above, below = np.maximum(ordered[:, ::-1], 0.0).cumsum(axis=1), np.maximum(-ordered, 0.0).cumsum(axis=1)
    sizes = np.sort(np.abs(terms), axis=1)
    least = sizes.cumsum(axis=1)
    beyond = np.concatenate([least[:, -2::-1], np.zeros((len(terms), 1))], axis=1)  # the terms after the m largest
    largest = np.maximum(above, below)
    nodes = np.arange(count)
    among = largest.cumsum(axis=1) - largest[:, :1] + nodes * beyond
    everything = gamma(count, unit) * least[:, -1]
    found = (unit * (among + nodes * everything[:, None]) + (1 + 2 * gamma(count, unit)) * beyond).min(axis=1)
    return np.asarray(np.minimum(found, everything) * SLACK)

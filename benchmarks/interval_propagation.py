r"""Plain interval propagation through a network: the proof that knows nothing of attention.

Every number of the network becomes an interval, outward rounded in float64; scores are absolute, and the softmax is
$e^{s_k} / \sum_j e^{s_j}$ on intervals, shifted by the largest upper score so that nothing overflows. That the same
score stands above and below, that weights add up to one and that scores move together with the input is not used. The
target is evaluated on intervals too, and the error on a box is the largest distance between the two.

It is sound (``benchmarks`` are compared with the networks' outputs at random points by
``tests/certification/test_interval_propagation.py``) and serves as what proofs of this package are compared with. It
speaks of exact arithmetic: no rounding of the run is added.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from flint import arb

from attnforge.expression.evaluate import bounds
from attnforge.expression.intervals import Interval
from attnforge.network import Attention, Head, Linear, Network
from attnforge.network.layers import Layer, Rows, Term
from attnforge.outward import gamma, lower, precision, upper
from attnforge.targets import Box, Formula, ReluNetwork, Target
from attnforge.targets.relu_network import Affine, Stage

Array = npt.NDArray[np.float64]

CHUNK = 2**21  # attention weights held at once
TINY = float(np.finfo(np.float64).tiny)
EXP_ULPS = 4  # NumPy's exp is within this many units in the last place


@dataclass(frozen=True, eq=False)
class Intervals:
    """An array of intervals [lower, upper]."""

    lower: Array
    upper: Array

    @classmethod
    def exact(cls, values: Array) -> Intervals:
        """These numbers."""
        return cls(values, values)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the array."""
        return self.lower.shape

    def __add__(self, other: Intervals) -> Intervals:
        return _outward(self.lower + other.lower, self.upper + other.upper)

    def __mul__(self, other: Intervals) -> Intervals:
        products = [a * b for a in (self.lower, self.upper) for b in (other.lower, other.upper)]
        with np.errstate(invalid="ignore"):
            return _outward(np.minimum.reduce(products), np.maximum.reduce(products))

    def __getitem__(self, index: Any) -> Intervals:
        return Intervals(self.lower[index], self.upper[index])

    def sum(self) -> Intervals:
        """Along the last axis: any order of summation errs by at most gamma(n) times the sum of sizes."""
        error = 2 * gamma(self.shape[-1]) * np.maximum(np.abs(self.lower), np.abs(self.upper)).sum(axis=-1)
        return _outward(self.lower.sum(axis=-1) - error, self.upper.sum(axis=-1) + error)

    def times(self, matrix: Array) -> Intervals:
        """``self @ matrix`` for a matrix of numbers: each end meets the entries of its sign."""
        positive, negative = np.maximum(matrix, 0), np.minimum(matrix, 0)
        low = self.lower @ positive + self.upper @ negative
        high = self.upper @ positive + self.lower @ negative
        sizes = np.maximum(np.abs(self.lower), np.abs(self.upper)) @ np.abs(matrix)
        error = 2 * gamma(2 * matrix.shape[-2] + 2) * sizes + TINY * matrix.shape[-2]
        return _outward(low - error, high + error)

    def mixed_by(self, matrix: Array) -> Intervals:
        """``matrix @ self``."""
        turned = Intervals(np.swapaxes(self.lower, -1, -2), np.swapaxes(self.upper, -1, -2)).times(matrix.T)
        return Intervals(np.swapaxes(turned.lower, -1, -2), np.swapaxes(turned.upper, -1, -2))


def _outward(low: Array, high: Array) -> Intervals:
    return Intervals(np.nextafter(low, -np.inf), np.nextafter(high, np.inf))


def softmax(scores: Intervals) -> Intervals:
    """exp(s_k) / sum exp(s_j) along the last axis, each of the two taken alone; at most 1, at least 0.

    >>> found = softmax(Intervals.exact(np.zeros(2)))
    >>> bool(found.lower[0] <= 0.5 <= found.upper[0]), bool(found.upper[0] - found.lower[0] < 1e-14)
    (True, True)
    """
    top = scores.upper.max(axis=-1, keepdims=True)
    shifted = scores + Intervals.exact(-top)
    slack = EXP_ULPS * 2.0**-52
    low, high = np.exp(shifted.lower) * (1 - slack), np.exp(shifted.upper) * (1 + slack) + TINY
    total = Intervals(np.maximum(low - TINY, 0.0), high).sum()
    with np.errstate(divide="ignore"):
        above = high / np.maximum(total.lower, 0.0)[..., None]
    found = _outward(np.maximum(low - TINY, 0.0) / total.upper[..., None], above)
    return Intervals(np.maximum(found.lower, 0.0), np.minimum(found.upper, 1.0))


def propagate(network: Network, tokens: Intervals) -> Intervals:
    """The network's outputs (boxes, n', m') on boxes of inputs (boxes, n, m)."""
    if network.context is not None:
        raise NotImplementedError("networks of one input only")
    for layer in network.layers:
        tokens = _layer(layer, tokens)
    return tokens


def _layer(layer: Layer, state: Intervals) -> Intervals:
    if isinstance(layer, Linear):
        return _linear(layer, state)
    return _attention(layer, state) if isinstance(layer, Attention) else softmax(state)


def _linear(layer: Linear, state: Intervals) -> Intervals:
    parts = [_term(term, state) for term in layer.terms]
    if layer.constant is not None:
        rows = len(layer.constant) if not parts else parts[0].shape[-2]
        parts.append(
            Intervals.exact(np.broadcast_to(layer.constant, (len(state.lower), rows, layer.constant.shape[1])))
        )
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _term(term: Term, state: Intervals) -> Intervals:
    if term.map is not None:
        state = state.times(term.map) if term.map.ndim == 2 else state[..., None, :].times(term.map)[..., 0, :]
    return state if term.mix is None else state.mixed_by(term.mix)


def _attention(layer: Attention, state: Intervals) -> Intervals:
    width = layer.heads[0].output.shape[1]
    zero = np.zeros((*state.shape[:-1], width))
    total = state if layer.residual else Intervals.exact(zero)
    for head in layer.heads:
        found = _head(head, state).times(head.output)
        if head.query_rows.indices is None:
            total = total + found
            continue
        low, high = zero.copy(), zero.copy()
        low[..., head.query_rows.indices, :], high[..., head.query_rows.indices, :] = found.lower, found.upper
        total = total + Intervals(low, high)
    return total


def _head(head: Head, state: Intervals) -> Intervals:
    """Weighted values (boxes, query, v)."""
    asking = _take(head.query_rows, state)
    queries = asking.times(head.query)
    scores, values = [], []
    if head.memory_keys is not None and head.memory_values is not None:
        scores.append(queries.times(head.memory_keys.T))
        values.append(
            Intervals.exact(np.broadcast_to(head.memory_values, (*scores[0].shape, head.memory_values.shape[1])))
        )
    if head.key_rows is not None and head.key is not None and head.value is not None:
        own = head.key_rows.kind == "own"
        told = asking[..., None, :] if own else _take(head.key_rows, state)[:, None]
        keys, read = told.times(head.key), told.times(head.value)
        scores.append((queries[..., None, :] * keys).sum())
        shape = (*scores[-1].shape, read.shape[-1])
        values.append(Intervals(np.broadcast_to(read.lower, shape), np.broadcast_to(read.upper, shape)))
    weights = softmax(_joined(scores, -1))
    if head.key_rows is None and head.memory_values is not None:
        return weights.times(head.memory_values)
    both = _joined(values, -2)
    products = weights[..., None] * both
    return Intervals(np.swapaxes(products.lower, -1, -2), np.swapaxes(products.upper, -1, -2)).sum()


def _take(rows: Rows, state: Intervals) -> Intervals:
    return Intervals(rows.take(state.lower), rows.take(state.upper))


def _joined(parts: list[Intervals], axis: int) -> Intervals:
    return Intervals(*(np.concatenate([getattr(part, end) for part in parts], axis) for end in ("lower", "upper")))


def target_on(target: Target, boxes: Intervals) -> Intervals:
    """The target (boxes, k) on boxes of inputs (boxes, d): a formula node by node, a ReLU network stage by stage."""
    if isinstance(target, ReluNetwork):
        for stage in target.stages:
            boxes = _stage(stage, boxes)
        return boxes
    if not isinstance(target, Formula):
        raise NotImplementedError("formulas and ReLU networks only")
    with precision():
        found = [_formula_on(target, low, high) for low, high in zip(boxes.lower, boxes.upper, strict=True)]
    low, high = np.array(found).T
    return Intervals(low[:, None], high[:, None])


def _formula_on(target: Formula, low: Array, high: Array) -> tuple[float, float]:
    ends = zip(target.names, low.tolist(), high.tolist(), strict=True)
    found = bounds(target.tree, {name: Interval(arb(a), arb(b)) for name, a, b in ends})
    return lower(found.lower), upper(found.upper)


def _stage(stage: Stage, state: Intervals) -> Intervals:
    if isinstance(stage, Affine):
        return state.times(stage.weight) + Intervals.exact(stage.bias[None])
    if stage.slope:
        raise NotImplementedError("ReLU, ReLU6 and Hardtanh only")
    return Intervals(*(np.clip(end, stage.lower, stage.upper) for end in (state.lower, state.upper)))


def equal_boxes(box: Box, count: int) -> Intervals:
    """About ``count`` equal boxes (boxes, d), as many along every axis."""
    low, high = box.lower.ravel(), box.upper.ravel()
    per_axis = max(1, round(count ** (1 / low.size)))
    edges = [np.linspace(a, b, per_axis + 1) for a, b in zip(low, high, strict=True)]
    cells = np.array(list(itertools.product(*(list(itertools.pairwise(edge)) for edge in edges))))
    return Intervals(cells[..., 0], cells[..., 1])


def bound(network: Network, target: Target, boxes: Intervals) -> float:
    """The largest |network - target| on the boxes, as far as plain intervals tell."""
    largest = 0.0
    for part in _chunks(network, boxes):
        out = propagate(network, part[:, None, :])[:, 0, :]
        wanted = target_on(target, part)
        over, under = out + Intervals(-wanted.upper, -wanted.lower), wanted + Intervals(-out.upper, -out.lower)
        largest = max(largest, float(over.upper.max()), float(under.upper.max()))
    return largest if math.isfinite(largest) else math.inf


def _chunks(network: Network, boxes: Intervals) -> Iterator[Intervals]:
    size = max(1, CHUNK // max(head.memory_size + 8 for head in network.heads))
    yield from (boxes[i : i + size] for i in range(0, len(boxes.lower), size))

r"""Weights that were trained after they were constructed: read back into a network, and bounded again.

The theorem's own proof reads a head as a row of anchors and charges every departure from it at its worst; weights that
training has moved a little are soon beyond it. What stays true is that a head over constant keys sees a token x only
through its query q = A x + e. So the error at a token is a function of y = w . x + t and q, and with
$q = \alpha (y - t) + e + \rho$, $\alpha = A w / |w|^2$, the remainder $\rho$ is small where training changed little:
:func:`bound_along_form` encloses output and target on cells of (y, one entry of rho) and divides the worst ones.

On a cell, the scores relative to those of the key that leads at its middle are affine, so their ranges are sums of
absolute values; over independent weights $e_k \in [\exp(d_k - r_k), \exp(d_k + r_k)]$ the largest
$\sum e_k v_k / \sum e_k$ takes the lower end up to some value and the upper end beyond it, so that one scan finds it.
Soft heads follow y closely; there the error at the middle y plus half the cell's width times the largest derivative of
the error is much smaller, and the smaller of the two is taken.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from attnforge.errors import CertificateError
from attnforge.network import Attention, Head, Layer, Linear, Network, Term
from attnforge.runtime.dense import HeadGroup
from attnforge.runtime.module import AttentionLayer, LinearLayer
from attnforge.runtime.shapes import TargetModule
from attnforge.targets import TruncatedLinear

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

ROOM = 2.0**-40  # of every sum of absolute values: more than the roundings of the proof and of the run in float64
CLOSE = 1.02  # cells are divided until the bound is within this factor of the error at a middle of one
WORST = 0.8  # of the largest bound of a cell: from there on, cells are divided
UNDERFLOW = 1e-280  # sums of weights below it may have lost digits
BATCH = 4_000  # cells looked at together
STEPS = 64  # cells of y a token to begin with


def trained_network(module: TargetModule, like: Network) -> Network:
    """The network whose weights are those of a module that was made of ``like`` and then trained."""
    pairs = zip(module.core.layers, like.layers, strict=True)
    return replace(like, layers=tuple(_layer(trained, layer) for trained, layer in pairs))


def bound_along_form(network: Network, target: TruncatedLinear, *, cells: int = 200_000) -> float:
    """A bound of |network - target| on the target's domain, for a linear map and one head over constant keys.

    Every token is looked at on its own; see the module's text for why it holds. The worst cells are divided until the
    bound is hardly above the error in the middle of one, or there are ``cells`` of them: more cells, a smaller bound.
    """
    problem = _Problem.of(network, target)
    if not (np.all(np.isfinite(problem.magnitude)) and np.all(np.isfinite(problem.values))):
        raise CertificateError("Weights must be finite", "NaN or infinity", "Train with smaller steps")
    pool = problem.first_cells()
    upper, seen, along = problem.enclose(pool)
    largest = float(seen.max())
    while len(pool) < cells and upper.max() > CLOSE * largest:
        worst = upper >= max(CLOSE * largest, WORST * float(upper.max()))
        parts = _divided(pool[worst], along[worst])
        found, seen, axes = problem.enclose(parts)
        largest = max(largest, float(seen.max()))
        pool, upper = np.concatenate([pool[~worst], parts]), np.concatenate([upper[~worst], found])
        along = np.concatenate([along[~worst], axes])
    return float(upper.max())


@dataclass(frozen=True, eq=False)
class _Problem:
    """Per token: slope and constant of the queries along y, what x may add, the range of y, and sums of magnitudes."""

    slope: Array  # (n, r)
    constant: Array  # (n, r)
    rest: Array  # (n, r)
    magnitude: Array  # (n, r)
    reach: Array  # (n, 2)
    keys: Array  # (p, r), in ascending order of values
    values: Array  # (p,)
    split: int
    interval: tuple[float, float]

    @classmethod
    def of(cls, network: Network, target: TruncatedLinear) -> _Problem:
        """Read the network."""
        maps, shifts, head = _parts(network)
        values = np.asarray(head.memory_values) @ head.output[:, 0]
        order = np.argsort(values, kind="stable")
        keys = np.asarray(head.memory_keys)[order]
        a, e = maps @ head.query, shifts @ head.query  # (n, d, r), (n, r)
        box = target.domain.fixed((len(e), network.features))
        middle, half = (box.upper + box.lower) / 2, (box.upper - box.lower) / 2
        w = np.broadcast_to(target.w, (len(e), network.features))
        t = np.broadcast_to(target.t, (len(e),))
        slope = (a * w[:, :, None]).sum(axis=1) / np.maximum((w * w).sum(axis=1), UNDERFLOW)[:, None]
        aside = a - slope[:, None, :] * w[:, :, None]
        centre = (aside * middle[:, :, None]).sum(axis=1)
        largest = np.abs(middle) + half
        size = (np.abs(maps) * largest[:, :, None]).sum(axis=1) + np.abs(shifts)
        reach = (np.abs(w) * largest).sum(axis=1) + np.abs(t)
        about = (w * middle).sum(axis=1) + t
        wide = (np.abs(w) * half).sum(axis=1) + ROOM * reach
        magnitude = size @ np.abs(head.query) + np.abs(slope) * (reach + np.abs(t))[:, None]
        rest = (np.abs(aside) * half[:, :, None]).sum(axis=1) + ROOM * magnitude
        split = int(np.argmax((rest * np.ptp(keys, axis=0)).max(axis=0)))
        return cls(
            slope,
            e - slope * t[:, None] + centre,
            rest,
            magnitude,
            np.stack([about - wide, about + wide], axis=1),
            keys,
            values[order],
            split,
            (target.lower, target.upper),
        )

    def first_cells(self) -> Array:
        """Rows (token, y from, y to, remainder from, remainder to) that cover everything."""
        ends = np.linspace(self.reach[:, 0], self.reach[:, 1], STEPS + 1, axis=1)
        ends[:, -1] = self.reach[:, 1]
        rest = np.repeat(self.rest[:, self.split], STEPS)
        token = np.repeat(np.arange(len(ends), dtype=np.float64), STEPS)
        return np.stack([token, ends[:, :-1].ravel(), ends[:, 1:].ravel(), -rest, rest], axis=1)

    def enclose(self, cells: Array) -> tuple[Array, Array, Array]:
        """A bound of the error on every cell, the error at its middle, and the column to divide it along."""
        parts = [self._enclose(cells[i : i + BATCH]) for i in range(0, len(cells), BATCH)]
        upper, middle, along = zip(*parts, strict=True)
        return np.concatenate(upper), np.concatenate(middle), np.concatenate(along)

    def _enclose(self, cells: Array) -> tuple[Array, Array, Array]:
        token = cells[:, 0].astype(np.int64)
        y, half = (cells[:, 2] + cells[:, 1]) / 2, (cells[:, 2] - cells[:, 1]) / 2
        slope, rest = self.slope[token], self.rest[token].copy()
        query = self.constant[token] + slope * y[:, None]
        query[:, self.split] += (cells[:, 4] + cells[:, 3]) / 2
        rest[:, self.split] = (cells[:, 4] - cells[:, 3]) / 2
        scores = query @ self.keys.T
        first = np.argmax(scores, axis=1)
        leader, lead = self.keys[first], np.arange(len(first))
        along = slope @ self.keys.T
        middle = scores - scores[lead, first][:, None]
        rates = along - along[lead, first][:, None]  # of the relative scores, per unit of y
        aside = np.zeros_like(middle)
        for feature in range(self.keys.shape[1]):
            aside += np.abs(self.keys[:, feature] - leader[:, feature, None]) * rest[:, feature, None]
        size = self.magnitude[token]
        aside += ROOM * (1 + size @ np.abs(self.keys).T + (size * np.abs(leader)).sum(axis=1)[:, None])
        away = aside + np.abs(rates) * half[:, None]
        a, b = self.interval
        largest = np.abs(self.values).max() + max(abs(a), abs(b))
        low, high = _mixed(middle - away, middle + away, self.values)
        whole = np.maximum(high - np.clip(cells[:, 1], a, b), np.clip(cells[:, 2], a, b) - low)
        low, high = _mixed(middle - aside, middle + aside, self.values)
        across = np.maximum(high - np.clip(y, a, b), np.clip(y, a, b) - low)
        inside = (cells[:, 1] >= a) & (cells[:, 2] <= b), (cells[:, 2] > a) & (cells[:, 1] < b)
        steep = _steepest(middle - away, middle + away, rates, self.values - self.values[first][:, None], inside)
        error = np.minimum(whole, across + half * steep * (1 + ROOM)) + ROOM * largest
        weights = np.exp(middle)
        there = weights @ self.values / weights.sum(axis=1)
        beside = np.abs(np.diff(self.keys, axis=0)).max(axis=0)  # what each does to the scores of neighbouring keys
        sideways = rest[:, self.split] * beside[self.split] > half * (np.abs(slope) @ beside)
        return np.minimum(error, largest * (1 + ROOM)), np.abs(there - np.clip(y, a, b)), np.where(sideways, 3, 1)


def _mixed(low: Array, high: Array, values: Array) -> tuple[Array, Array]:
    """Least and largest of sum e v / sum e over log e in [low, high], (C, p) each; values ascend.

    >>> low, high = _mixed(np.log([[1.0, 1.0]]), np.log([[3.0, 1.0]]), np.array([0.0, 1.0]))
    >>> low.round(6).tolist(), high.round(6).tolist()
    ([0.25], [0.5])
    """
    top = high.max(axis=1, keepdims=True)  # the largest weight is 1: nothing overflows
    small, large = np.exp(low - top), np.exp(high - top)
    least = _scan(large, small, values, float(values[0])).min(axis=1)
    return least, _scan(small, large, values, float(values[-1])).max(axis=1)


def _steepest(low: Array, high: Array, rates: Array, values: Array, inside: tuple[Flags, Flags]) -> Array:
    """A bound of |d(output - target)/dy| on cells, relative scores changing by ``rates`` and in [low, high].

    The output changes by the covariance of rates and values under the softmax weights, the target by 1 inside its
    interval and 0 outside; ``inside`` says which cells are all inside, and which are in part.
    """
    top = high.max(axis=1, keepdims=True)
    small, large = np.exp(low - top), np.exp(high - top)
    others, least = large.sum(axis=1, keepdims=True), small.sum(axis=1, keepdims=True)
    most = np.minimum(large / np.maximum(large + np.maximum(least - small, 0.0), UNDERFLOW), 1.0)
    few = small / (others + ROOM)
    both, one, other = (_weighted(few, most, each) for each in (rates * values, rates, values))
    corners = np.stack([i * j for i in one for j in other])
    upwards = both[1] - corners.min(axis=0) - inside[0]
    downwards = corners.max(axis=0) - both[0] + inside[1]
    room = ROOM * (np.abs(rates).max(axis=1) + 1) * (np.abs(values).max(axis=1) + 1) * low.shape[1]
    steepest: Array = np.maximum(upwards, downwards) + room
    return np.where(least[:, 0] > math.sqrt(UNDERFLOW), steepest, np.inf)


def _weighted(few: Array, most: Array, values: Array) -> tuple[Array, Array]:
    """Least and largest of sum w v for weights between ``few`` and ``most``, sign by sign."""
    up, down = np.maximum(values, 0.0), np.minimum(values, 0.0)
    return (few * up + most * down).sum(axis=1), (most * up + few * down).sum(axis=1)


def _scan(first: Array, last: Array, values: Array, worst: float) -> Array:
    """The mean of the values with the weights ``first`` up to a key and ``last`` beyond, for every such key.

    Only weights of one sign are added, so that sums are as accurate as their terms; where nearly all underflow, the
    mean is ``worst``.
    """
    mass = np.cumsum(first, axis=1) + _beyond(last)
    moment = np.cumsum(first * values, axis=1) + _beyond(last * values)
    return np.where(mass > UNDERFLOW, moment / np.maximum(mass, UNDERFLOW), worst)


def _beyond(terms: Array) -> Array:
    """Sums over all later columns."""
    sums = np.zeros_like(terms)
    sums[:, :-1] = np.cumsum(terms[:, :0:-1], axis=1)[:, ::-1]
    return sums


def _divided(cells: Array, along: Array) -> Array:
    """Every cell in two, along y (from column 1 on) or the remainder (from column 3 on)."""
    rows = np.arange(len(cells))
    middle = (cells[rows, along] + cells[rows, along + 1]) / 2
    left, right = cells.copy(), cells.copy()
    left[rows, along + 1], right[rows, along] = middle, middle
    return np.concatenate([left, right])


def _parts(network: Network) -> tuple[Array, Array, Head]:
    """Maps (n, d, m), constants (n, m) and the head of a network of one linear map and one head over constant keys."""
    shape = [type(layer) for layer in network.layers]
    if shape != [Linear, Attention] or network.tokens is None:
        raise CertificateError("This proof covers a linear map and one layer of attention", str(shape))
    encode, attention = network.layers
    assert isinstance(encode, Linear)
    assert isinstance(attention, Attention)
    if len(attention.heads) != 1 or len(encode.terms) != 1 or attention.residual:
        got = f"{len(attention.heads)} heads, {len(encode.terms)} linear terms, residual={attention.residual}"
        raise CertificateError("This proof covers one head after one linear term", got)
    head, term = attention.heads[0], encode.terms[0]
    if term.map is None or term.mix is not None or head.memory_keys is None or not _plain(head):
        raise CertificateError("This proof covers a head over constant keys that sees each token on its own", "another")
    if head.output.shape[1] != 1:
        raise CertificateError("This proof covers one output feature", str(head.output.shape[1]))
    n, constant = network.tokens, encode.constant
    maps = np.broadcast_to(term.map, (n, *term.map.shape[-2:]))
    shifts = np.zeros((n, maps.shape[-1])) if constant is None else np.broadcast_to(constant, (n, maps.shape[-1]))
    return maps, shifts, head


def _plain(head: Head) -> bool:
    """Whether every token asks, and no token is asked."""
    return head.key_rows is None and head.query_rows.kind == "all"


def _layer(trained: nn.Module, layer: Layer) -> Layer:
    if isinstance(layer, Linear) and isinstance(trained, LinearLayer):
        terms = (Term(_array(trained, f"map{i}"), _array(trained, f"mix{i}")) for i in range(len(layer.terms)))
        return Linear(tuple(terms), _array(trained, "constant"))
    if isinstance(layer, Attention) and isinstance(trained, AttentionLayer):
        stacked = [(group, i) for group in trained.groups for i in range(len(_weight(group, "output")))]
        heads = (_head(*stacked[at], head) for at, head in zip(trained.order, layer.heads, strict=True))
        return replace(layer, heads=tuple(heads))
    return layer


def _head(group: nn.Module, at: int, head: Head) -> Head:
    if not isinstance(group, HeadGroup):
        raise CertificateError("Heads are read from a module of ours", type(group).__name__)
    names = ("query", "key", "value", "output", "memory_keys", "memory_values")
    found = {name: _array(group, name) for name in names}
    return replace(head, **{name: None if array is None else array[at] for name, array in found.items()})  # type: ignore[arg-type]


def _weight(module: nn.Module, name: str) -> torch.Tensor:
    weight = getattr(module, name)
    assert isinstance(weight, torch.Tensor)
    return weight


def _array(module: nn.Module, name: str) -> Array | None:
    if getattr(module, name) is None:
        return None
    array: Array = _weight(module, name).detach().cpu().double().numpy().copy()
    return array

"""A network to diagnose, as something that runs: on points of its target's shape, exactly, at another sharpness too."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch

from attnforge.errors import DomainError, TargetError
from attnforge.measurement.gaps import point_box
from attnforge.measurement.near_anchors import near_anchors
from attnforge.measurement.points import line_points, random_points
from attnforge.network import Attention, Layer, Linear, Network, Softmax, Term
from attnforge.runtime import AttentionNetwork
from attnforge.targets import Box, JointFunction, Target
from attnforge.targets.table import Table

Array = npt.NDArray[np.float64]

WITHIN, KINKS = 256, 2  # points along a truncated linear form within its interval, and at its ends
SAME = 1e-6  # of the size of an axis: closer to a listed point is that point, as float32 holds it


@dataclass(frozen=True, eq=False)
class Subject:
    """A network, the dtype it runs in, and what it should compute where that is known.

    ``norm`` is the one the error is meant in: the largest, or a mean for targets that are only integrable. ``bound`` is
    what a certificate says of the largest error, a claim like others.
    """

    network: Network
    dtype: str = "float64"
    target: Target | None = None
    norm: str = "sup"
    bound: float | None = None

    def points(self, count: int, seed: int) -> Array:
        """Where to look: half at random, half between anchors or along the target's linear form, and two corners."""
        if self.target is None:
            raise DomainError("A bare network has no domain", "no points", "Pass x: tokens of shape (..., n, m)")
        if isinstance(self.target, Table):
            chosen = np.random.default_rng(seed).permutation(len(self.target.points))[:count]
            return np.asarray(self.target.points[np.sort(chosen)], dtype=np.float64)
        rng = np.random.default_rng(seed)
        box, tokens = point_box(self.target, self.network)
        random = random_points(box, tokens, max(2, count // 2), rng)
        near = np.empty((0, *box.shape)) if tokens else near_anchors(self.network, box, count // 2, rng)
        line = line_points(self.target, box, tokens, max(2, count // (2 * (tokens or 1))), _places(self.target, rng))
        ends = np.stack([box.lower, box.upper])
        return np.concatenate([ends, line[len(line) - KINKS :], line[: len(line) - KINKS], random, near])

    @cached_property
    def is_judged(self) -> bool:
        """Whether the target's values are known; the code of a callable is not stored in a file."""
        if self.target is None:
            return False
        box, _ = point_box(self.target, self.network)
        try:
            getattr(self.target, "unchecked", lambda _: None)(box.middle[None])
        except TargetError:
            return False
        return True

    @property
    def box(self) -> Box | None:
        """The domain, where there is a target."""
        return None if self.target is None else point_box(self.target, self.network)[0]

    def inputs(self, points: Array) -> tuple[Array, Array | None]:
        """Points of the target as the network's tokens (N, n, m) and second input."""
        if isinstance(self.target, JointFunction):
            x, y = self.target.split(points)
            return _as_tokens(y, len(self.target.query.shape)), _as_tokens(x, len(self.target.keys.shape))
        if self.target is None or self.target.layout == "tokens":
            return points, None
        return points[:, None, :], None

    def errors(self, points: Array, wanted: Array, network: Network | None = None) -> Array:
        """|network(x) - target(x)| in exact weights and float64, the largest over outputs and tokens: (N,)."""
        out = run(network or self.network, *self.inputs(points))
        with np.errstate(invalid="ignore"):
            missed = np.abs(self._shaped(out).reshape(len(points), -1) - wanted.reshape(len(points), -1))
        return np.asarray(missed.max(axis=1))

    def wanted(self, points: Array) -> Array:
        """The target's values."""
        assert self.target is not None
        return np.asarray(self.target.values(points), dtype=np.float64)

    def _shaped(self, out: Array) -> Array:
        """The network's output (N, n', m') as the target's values."""
        assert self.target is not None
        out = out if getattr(self.target, "outputs", None) is not None else out[..., 0]
        many = self.target.layout == "tokens"
        if isinstance(self.target, JointFunction):
            many = len(self.target.query.shape) == 2
        return out if many else out[:, 0]


def listed_points(table: Table, points: Array) -> Array:
    """The points of a table that (N, d) points are, up to the rounding of float32; others are refused.

    >>> table = Table([[0.0], [0.1]], [1.0, 2.0])
    >>> listed_points(table, np.array([[-0.0], [np.float32(0.1)]])).tolist()
    [[0.0], [0.1]]
    """
    from scipy.spatial import cKDTree

    near = SAME * np.maximum(np.abs(table.points).max(axis=0), np.finfo(np.float64).tiny)
    distance, row = cKDTree(table.points / near).query(points / near, p=np.inf)
    if (distance > 1).any():
        got = str(points[int(distance.argmax())].tolist())
        raise DomainError("A table is known at its listed points only", got, "Pass points of the table, or leave x out")
    return np.asarray(table.points[row] + 0.0)


def run(network: Network, tokens: Array, context: Array | None) -> Array:
    """The network's output in float64, by the runtime: on heads of many keys far faster than in NumPy."""
    module = AttentionNetwork(network, torch.float64)
    with torch.no_grad():
        told = None if context is None else torch.from_numpy(np.ascontiguousarray(context))
        return np.asarray(module(torch.from_numpy(np.ascontiguousarray(tokens)), told).numpy())


def _places(target: Target, rng: np.random.Generator) -> Array:
    """Values of the form of a truncated linear target: random ones in its interval, last its ends, the kinks."""
    try:
        form = target.truncated_form()
    except TargetError:
        return np.empty(0)
    lower, upper = float(form.lower.mid), float(form.upper.mid)
    return np.concatenate([rng.uniform(lower, upper, size=WITHIN), [lower, upper]])


def sites(network: Network) -> list[int]:
    """Layers that take a softmax whose sharpness can be turned: attention, and softmax over features."""
    return [
        i
        for i, layer in enumerate(network.layers)
        if isinstance(layer, Attention)
        or (isinstance(layer, Softmax) and i > 0 and isinstance(network.layers[i - 1], Linear))
    ]


def sharpened(network: Network, site: int, factor: float) -> Network:
    """The same network with all scores of one layer multiplied."""
    layers = list(network.layers)
    layer = layers[site]
    if isinstance(layer, Attention):
        layers[site] = replace(layer, heads=tuple(replace(h, query=factor * h.query) for h in layer.heads))
    else:
        layers[site - 1] = _scaled(layers[site - 1], factor)
    return replace(network, layers=tuple(layers))


def attention_index(network: Network, site: int) -> int:
    """The number of a layer among the layers of attention."""
    return sum(isinstance(layer, Attention) for layer in network.layers[:site])


def _scaled(layer: Layer, factor: float) -> Linear:
    assert isinstance(layer, Linear)
    terms = tuple(Term(factor * t.map, t.mix) if t.map is not None else _mixed(t, factor) for t in layer.terms)
    return Linear(terms, None if layer.constant is None else factor * layer.constant)


def _mixed(term: Term, factor: float) -> Term:
    return Term(None, factor * (np.eye(1) if term.mix is None else term.mix))


def _as_tokens(points: Array, dimensions: int) -> Array:
    return points if dimensions == 2 else points[:, None, :]

"""One plain network of each construction of the papers, changes of it, and an error measured without our search."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import attnforge as af
from attnforge.network import Network, head_places
from attnforge.network import with_head as edited

DTYPES = ("float64", "float32", "bfloat16", "float16")
PROVED = af.Effort(1, 1, 1, 1)  # laws look for the worst point themselves

SMALL = {  # one plain instance of each, for laws that need no search
    "truncated_linear": lambda **k: af.constructions.truncated_linear([1.0, -0.5], 0.25, -1, 2, anchors=12, **k),
    "multihead_truncated_linear": lambda **k: af.constructions.multihead_truncated_linear(
        [1.0, -0.5], 0.25, -1, 2, tokens=10, heads=3, **k
    ),
    "gate": lambda **k: af.constructions.gate([1.0, -0.5], 0.25, -1, 2, **k),
}


def truth(net: af.Compiled, x: np.ndarray) -> np.ndarray:
    """The target in extended precision, written out once more: clamp(w . x + t, a, b)."""
    target = net.target
    y = (x.astype(np.longdouble) * target.w).sum(axis=-1) + target.t
    return np.minimum(np.maximum(y, target.lower), target.upper)


def crossing(net: af.Compiled, count: int = 400) -> np.ndarray:
    """Points (N, n, d) from the lowest to the highest value of every token's form, then random and corner points."""
    rows = net.network.tokens or 1
    box = net.target.domain.fixed((rows, net.network.features))
    w = np.broadcast_to(net.target.w, (rows, net.network.features))
    low = np.where(w >= 0, box.lower, box.upper)
    high = np.where(w >= 0, box.upper, box.lower)
    s = np.linspace(0.0, 1.0, count)[:, None, None]
    rng = np.random.default_rng(5)
    corners = np.where(rng.random((64, *box.shape)) < 0.5, box.lower, box.upper)
    points = np.concatenate([low + s * (high - low), rng.uniform(box.lower, box.upper, (count, *box.shape)), corners])
    return np.clip(points, box.lower, box.upper)


def worst(net: af.Compiled, x: np.ndarray | None = None) -> float:
    """The largest error at the points (those of :func:`crossing` by default). NaN counts as infinite."""
    x = crossing(net) if x is None else x
    error = float(np.abs(net(x) - truth(net, x)).max())
    return np.inf if np.isnan(error) else error


def with_head(network: Network, index: int = 0, **changes: Any) -> Network:
    """The network with some fields of one head replaced."""
    return edited(network, *head_places(network)[index], **changes)


def with_claims(network: Network, index: int = 0, **changes: Any) -> Network:
    """The network with some of one head's claims replaced: the weights stay."""
    return with_head(network, index, claims=replace(network.heads[index].claims, **changes))


def changed(array: np.ndarray, index: Any, value: float) -> np.ndarray:
    """A copy with one entry changed."""
    copy = array.copy()
    copy[index] = value
    return copy


def running(net: af.Compiled, network: Network) -> af.Compiled:
    """Another network behind the same target and certificate."""
    return af.Compiled(network, net.target, net.certificate, net.construction, net.dtype)

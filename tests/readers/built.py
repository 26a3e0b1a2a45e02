"""The networks of the catalogue that mutations start from, and how far a run of one is from its target."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import attnforge as af
from tests.catalogue import network
from tests.laws.forms import form

Array = npt.NDArray[np.float64]

SLACK = 2.0**-50  # a few roundings of the target's own values
QUICK = af.Effort(1, 1, 0, 0, sizings=2, keys=256, intervals=4_000, boxes=2_000, pairs=2.5e6, anchors=256)
"""Proofs of low effort; errors are looked for by the laws themselves."""
THOROUGH = af.Effort(1, 1, 0, 0)

NAMES = (
    "truncated, two inputs", "truncated, tokens", "truncated, literal", "multihead", "multihead, literal", "gate",
    "gate, tokens", "gate, literal", "relu", "leaky relu", "hardtanh", "two layers", "two layers, tokens",
    "softmax tail", "partition", "partition, hard", "callable on cells", "partition, sequence", "cross-attention",
    "sine", "grid", "ridge", "additive", "sparse grid", "callable on a sparse grid", "polynomial", "graph",
    "multiplier", "exponential", "logistic", "table", "head in a prompt", "a network alone",
)  # fmt: skip
OTHER_DTYPES = {"truncated, two inputs": "float32", "gate": "float16", "bell": "float32"}

BUILT: dict[str, tuple[str, str]] = {
    **{name: (name, "float64") for name in NAMES},
    **{f"{name} [{dtype}]": (name, dtype) for name, dtype in OTHER_DTYPES.items()},
}
"""Names and dtypes in the catalogue."""


def built(name: str) -> Any:
    """The network, made once."""
    return network(*BUILT[name])


def points_of(net: Any, count: int = 1500) -> list[Array]:
    """Points of the domain: along its diagonals, at and near its corners, random.

    A network on any number of tokens is looked at on several numbers of them, where its target is.
    """
    if form(net) == "listed":
        return [net.target.points]
    if net.target.layout != "tokens" or form(net) == "two inputs":
        return [_spread(net.domain, count)]
    tokens = getattr(net.target, "rows", 1)
    free = net.network.tokens is None and tokens == 1
    numbers = (1, 2, 3) if free else (net.network.tokens or tokens,)
    return [_spread(net.domain.fixed((n, net.network.features)), count) for n in numbers]


def _spread(box: af.Box, count: int) -> Array:
    rng = np.random.default_rng(0)
    share = rng.uniform(size=(count, *box.shape))
    corners, along = count // 6, np.linspace(0.0, 1.0, count // 3)
    share[:corners] = rng.integers(0, 2, size=share[:corners].shape)
    share[corners : 2 * corners] = np.abs(share[:corners] - 1e-3 * share[corners : 2 * corners])
    at = slice(2 * corners, 2 * corners + len(along))
    share[at] = along.reshape(-1, *(1 for _ in box.shape))
    return np.clip(box.lower + share * (box.upper - box.lower), box.lower, box.upper)


def error_of(net: Any) -> float:
    """The largest error of its run at these points, in excess of what float64 knows of the target; NaN is infinite."""
    worst = 0.0
    for points in points_of(net):
        with np.errstate(all="ignore"):
            wanted = np.asarray(net.target.values(points), dtype=np.float64)
            found = np.asarray(net.at_points(points), dtype=np.float64)
            if found.shape != wanted.shape:
                return np.inf  # another number of rows or outputs
            worst = max(worst, float(np.nan_to_num(np.abs(found - wanted) - SLACK * np.abs(wanted), nan=np.inf).max()))
    return worst

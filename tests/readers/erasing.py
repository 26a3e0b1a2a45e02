"""What a proof owes to names and claims, and what it makes of weights that were moved a little."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import attnforge as af
from attnforge.network import Head, Network, flatten, unflatten, with_heads
from tests.readers.built import THOROUGH, error_of, points_of

WRITTEN = ("memory_values", "value", "output")  # arrays that say what is written, not who is asked
SIZES = (1e-6, 1e-3)  # of perturbations


@dataclass(frozen=True)
class Proved:
    """What was proved of a changed network: status, bound, the error of its run; or why it was refused."""

    status: str
    bound: float | None = None
    error: float = 0.0
    reason: str = ""


def erased(network: Network, *, claims: bool) -> Network:
    """Without its name, and without the claims of its heads."""
    unnamed = replace(network, construction="")
    return with_heads(unnamed, lambda head: replace(head, claims=None)) if claims else unnamed


def perturbed(network: Network, size: float, seed: int, *, everything: bool) -> Network:
    """Every number of what heads write, or of all weights, times 1 + size times a random number in [-1, 1]."""
    skeleton, arrays = flatten(network)
    rng = np.random.default_rng(seed)
    chosen = [name for name in arrays if is_weight(name) and (everything or name.endswith(WRITTEN))]
    moved = {name: arrays[name] * (1 + size * rng.uniform(-1, 1, arrays[name].shape)) for name in chosen}
    return unflatten(skeleton, {**arrays, **moved})


def is_weight(name: str) -> bool:
    """Whether an array is one of weights: neither a set of rows nor a claim."""
    return not name.endswith("_rows") and ".claims." not in name


def proved(net: Any, network: Network) -> Proved:
    """The network against the target of another."""
    changed = replace(net, network=network)
    try:
        found = af.certify(changed, effort=THOROUGH)
    except af.AttnforgeError as reason:
        return Proved("refused", reason=str(reason))
    return Proved(found.status, found.bound, error_of(changed))


def is_deep(network: Network) -> bool:
    """Whether bumps stand before what reads them: graphs that are found by their claims."""
    return sum(not hasattr(layer, "terms") for layer in network.layers) > 1


def written_size(net: Any) -> float:
    """The largest sum of |weight| |value| that a head may write: of constant values, and of tokens on the domain."""
    reach = max(float(np.abs(points).max()) for points in points_of(net))
    return max(_size(head, reach) for head in net.network.heads)


def _size(head: Head, reach: float) -> float:
    output = np.abs(head.output)
    memory = 0.0 if head.memory_values is None else float((np.abs(head.memory_values) @ output).max())
    tokens = 0.0 if head.value is None else float((np.abs(head.value).sum(axis=0) @ output).max()) * max(reach, 1.0)
    return max(memory, tokens)

"""What a proof owes to names and claims, and what it makes of weights that were moved a little."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from attnforge.certification.certify import certify
from attnforge.compiler import Compiled
from attnforge.errors import AttnforgeError
from attnforge.network import Attention, Network, flatten, unflatten
from attnforge.network.apply import apply_layer
from attnforge.network.flatten import is_weight
from tests.readers.built import error_of, points_of

Array = npt.NDArray[np.float64]

WRITTEN = ("memory_values", "value", "output")  # arrays that say what is written, not who is asked
DEEP = ("two_layer", "softmax_tail")  # graphs of layers whose bumps are found by their claims
TABLES = ("table", "sparse_grid")  # without a bound


@dataclass(frozen=True)
class Seen:
    """What was proved of a changed network: status, bound, the error of its run; or why it was refused."""

    status: str
    bound: float | None = None
    error: float = 0.0
    reason: str = ""


def erased(network: Network, *, claims: bool) -> Network:
    """Without its name, and without the claims of its heads."""
    layers = network.layers
    if claims:
        layers = tuple(
            replace(layer, heads=tuple(replace(head, claims=None) for head in layer.heads))
            if isinstance(layer, Attention)
            else layer
            for layer in layers
        )
    return replace(network, layers=layers, construction="")


def perturbed(network: Network, size: float, seed: int, *, everything: bool) -> Network:
    """Every number of what heads write, or of all weights, times 1 + size times a random number in [-1, 1]."""
    skeleton, arrays = flatten(network)
    rng = np.random.default_rng(seed)
    moved = {
        name: array * (1 + size * rng.uniform(-1, 1, array.shape))
        if is_weight(name) and (everything or name.endswith(WRITTEN))
        else array
        for name, array in arrays.items()
    }
    return unflatten(skeleton, moved)


def proved(net: Compiled, network: Network) -> Seen:
    """The network against the target of another."""
    try:
        found = certify(network, net.target, dtype=net.dtype)
    except AttnforgeError as reason:
        return Seen("refused", reason=str(reason))
    error = error_of(Compiled(network, net.target, found, net.construction, net.dtype))
    return Seen(found.status, found.bound, error)


def written_size(net: Compiled) -> float:
    """The largest sum of |weight| |value|, as the last layer of attention writes it, at points of the domain."""
    points = points_of(net)[-1]
    state = points if points.ndim == 3 else points[:, None]
    if net.network.context is not None:
        return float(
            max(
                np.abs(head.memory_values).max()
                if head.memory_values is not None
                else np.abs(net.target.values(points)).max()
                for head in net.network.heads
            )
        )
    last = max(i for i, layer in enumerate(net.network.layers) if isinstance(layer, Attention))
    for layer in net.network.layers[:last]:
        state = apply_layer(layer, state)
    sizes = [np.abs(part).max() for head in net.network.layers[last].heads for part in _parts(head, state)]
    return float(max(sizes))


def _parts(head: object, state: Array) -> list[Array]:
    """What keys may write: memory, and tokens."""
    found = [] if head.memory_values is None else [np.abs(head.memory_values) @ np.abs(head.output)]
    return found if head.value is None else [*found, np.abs(state) @ np.abs(head.value) @ np.abs(head.output)]

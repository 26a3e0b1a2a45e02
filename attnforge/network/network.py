"""The network itself: layers, the shape it takes, and how to run, print, rebuild and round it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.balls import round_to
from attnforge.errors import FileFormatError
from attnforge.network.apply import apply
from attnforge.network.describe import describe
from attnforge.network.flatten import flatten, is_weight, unflatten_context, unflatten_layer
from attnforge.network.layers import Attention, Head, Layer, Linear

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Network:
    """A sequence of layers on (n, m) arrays.

    ``tokens`` is None where any number of tokens is accepted; ``context`` is the shape of the second input, if any,
    again with None for any number of tokens, and ``context_layers`` are linear maps it passes before any attention
    reads it: they may lengthen it.
    ``construction`` says which theorem to look for in it: a claim, like those of the heads.
    """

    layers: tuple[Layer, ...]
    features: int
    tokens: int | None = None
    context: tuple[int | None, int] | None = None
    construction: str = ""
    context_layers: tuple[Linear, ...] = ()

    def __call__(self, tokens: Array, context: Array | None = None) -> Array:
        """Run in NumPy float64: (..., n, m) to (..., n', m')."""
        return apply(self, tokens, context)

    def __str__(self) -> str:
        return describe(self)

    @property
    def heads(self) -> tuple[Head, ...]:
        """All heads, layer by layer."""
        return tuple(head for layer in self.layers if isinstance(layer, Attention) for head in layer.heads)


def unflatten(skeleton: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> Network:
    """The inverse of :func:`attnforge.network.flatten`. A skeleton that does not fit its arrays is refused."""
    try:
        layers = tuple(unflatten_layer(entry, f"layer{i}.", arrays) for i, entry in enumerate(skeleton["layers"]))
        context = None if skeleton["context"] is None else _shape(skeleton["context"])
        told = unflatten_context(skeleton, arrays)
        claim = str(skeleton["construction"])
        return Network(layers, int(skeleton["features"]), skeleton["tokens"], context, claim, told)
    except (KeyError, TypeError, IndexError, ValueError, OverflowError) as error:
        raise FileFormatError("The network's description must match its arrays", repr(error)) from error


def _shape(entry: Sequence[Any]) -> tuple[int | None, int]:
    """A stored shape: rows, None for any number, and features."""
    return None if entry[0] is None else int(entry[0]), int(entry[1])


def rounded(network: Network, dtype: str) -> Network:
    """The network whose weights are the dtype's nearest numbers: what actually runs in that dtype."""
    skeleton, arrays = flatten(network)
    return unflatten(skeleton, {n: round_to(a, dtype) if is_weight(n) else a for n, a in arrays.items()})

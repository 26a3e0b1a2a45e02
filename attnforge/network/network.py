"""The network itself: layers, the shape it takes, and how to run, print, rebuild and round it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.display import Card, Displayed
from attnforge.errors import FileFormatError, RefusalError, TargetError
from attnforge.network.apply import apply
from attnforge.network.architecture import check_architecture
from attnforge.network.describe import describe
from attnforge.network.flatten import CLAIM, flatten, is_weight, unflatten_context, unflatten_layers
from attnforge.network.layers import Attention, Head, Layer, Linear
from attnforge.outward import machine, round_to

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Network(Displayed):
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

    def __post_init__(self) -> None:
        check_architecture(self)

    def __call__(self, tokens: Array, context: Array | None = None) -> Array:
        """Run in NumPy float64: (..., n, m) to (..., n', m')."""
        return apply(self, tokens, context)

    def __str__(self) -> str:
        return describe(self)

    def __repr__(self) -> str:
        return f"<{describe(self).partition(chr(10))[0]}>"

    def _card(self) -> Card:
        first, *layers = describe(self).splitlines()
        return Card("Network", statement=first.removeprefix("Network "), facts={"layers": tuple(layers)})

    @property
    def heads(self) -> tuple[Head, ...]:
        """All heads, layer by layer."""
        return tuple(head for layer in self.layers if isinstance(layer, Attention) for head in layer.heads)


def unflatten(skeleton: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> Network:
    """The inverse of :func:`attnforge.network.flatten`. A skeleton that does not fit its arrays is refused."""
    left = dict(arrays)
    try:
        layers, told = unflatten_layers(skeleton, left), unflatten_context(skeleton, left)
        context = None if skeleton["context"] is None else tuple(skeleton["context"])
        claim = skeleton["construction"]
        network = Network(layers, skeleton["features"], skeleton["tokens"], context, claim, told)
    except TargetError as error:
        raise FileFormatError(error.requirement, error.got, "Build it anew") from error
    except (KeyError, TypeError, IndexError, ValueError, OverflowError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(
            "The network's description must match its arrays", repr(error), "Build it anew"
        ) from error
    for name in left:
        if CLAIM not in name:
            raise FileFormatError("Every array of a network is one that its description names", name[:80])
    return network


def rounded(network: Network, dtype: str) -> Network:
    """The network whose weights are the dtype's nearest numbers: what actually runs in that dtype."""
    if dtype == "float64":  # as networks hold them
        return network
    skeleton, arrays = flatten(network)
    for name, array in arrays.items():
        if is_weight(name):
            with np.errstate(over="ignore"):
                arrays[name] = round_to(array, dtype)
            if not np.isfinite(arrays[name]).all():
                got = f"an entry of {name} beyond the largest {dtype} number, {machine(dtype).largest:g}"
                raise RefusalError(f"Every weight must fit {dtype}", got, "Scale the target, or use a wider dtype")
    return unflatten(skeleton, arrays)

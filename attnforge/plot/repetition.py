"""Blocks of layers that come again and again, as the steps of an algorithm do: where they are wired alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from attnforge.network import Attention, Head, Layer, Linear

ARRAYS = ("query", "key", "value", "output", "memory_keys", "memory_values")


def period(layers: Sequence[Layer]) -> int:
    """The number of layers of the smallest block that, wired alike, makes up the network; all where nothing repeats.

    Step sizes may differ from block to block: weights count as zero or not.

    >>> from attnforge.in_context import Huber
    >>> period(Huber(steps=5, learning_rate=(0.1, 0.2, 0.3, 0.4, 0.5)).build(features=2).network.layers)
    4
    """
    found = {id(layer): _pattern(layer) for layer in layers}
    patterns = [found[id(layer)] for layer in layers]
    count = len(patterns)
    sizes = (size for size in range(1, count) if count % size == 0)
    return next((size for size in sizes if patterns[size:] == patterns[:-size]), count)


def is_same_weights(layers: Sequence[Layer], size: int) -> bool:
    """Whether blocks of so many layers share theirs."""
    return all(later is earlier for later, earlier in zip(layers[size:], layers, strict=False))


def _pattern(layer: Layer) -> tuple[Any, ...]:
    if isinstance(layer, Attention):
        return ("attention", layer.residual, *(_head(head) for head in layer.heads))
    if isinstance(layer, Linear):
        return ("linear", _mask(layer.constant), *((_mask(term.map), _mask(term.mix)) for term in layer.terms))
    return ("softmax",)


def _head(head: Head) -> tuple[Any, ...]:
    rows = [
        None if each is None else (each.kind, each.source, str(each.indices))
        for each in (head.query_rows, head.key_rows)
    ]
    name = "" if head.claims is None else f"{head.claims.construction} {head.claims.formula}"
    return (*rows, name, *(_mask(getattr(head, array)) for array in ARRAYS))


def _mask(array: Any) -> Any:
    return None if array is None else (array.shape, np.packbits(array != 0).tobytes())

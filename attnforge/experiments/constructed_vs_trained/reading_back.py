"""Weights that were trained after they were constructed, read back into a network."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from attnforge.errors import CertificateError
from attnforge.network import Attention, Head, Layer, Linear, Network, Term
from attnforge.runtime.dense import HeadGroup
from attnforge.runtime.module import AttentionLayer, LinearLayer
from attnforge.runtime.shapes import TargetModule

Array = npt.NDArray[np.float64]


def trained_network(module: TargetModule, like: Network) -> Network:
    """The network whose weights are those of a module that was made of ``like`` and then trained."""
    pairs = zip(module.core.layers, like.layers, strict=True)
    return replace(like, layers=tuple(_layer(trained, layer) for trained, layer in pairs))


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

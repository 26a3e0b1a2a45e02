"""The weights that are constructed instead of trained, as a module, and read back after training."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

import attnforge as af
from attnforge.experiments.clamp import planned, step
from attnforge.experiments.constructed_vs_trained.task import KEYS, LOWER, REACH, UPPER, Task, truncated
from attnforge.experiments.table import Array
from attnforge.network import Attention, Head, Layer, Linear, Network, Term
from attnforge.runtime import AttentionNetwork, TargetModule
from attnforge.targets import TruncatedLinear

MEAN = 1.4  # c = beta h^2 of the smallest mean square error
SENTINELS = 3  # a side, where heads meet: at c = 1.4 two would leak


def build(kind: str, heads: int, w: Array, t: Array) -> tuple[Network, TruncatedLinear]:
    """The weights of one or several heads of p keys each, without any proof."""
    target, sharpness = truncated(w, t), MEAN if kind in ("mean", "estimated") else kind
    theorem, plan = planned(KEYS, heads, SENTINELS if heads > 1 else 0, sharpness, (LOWER, UPPER))
    return theorem.build(target, plan), target


def by_library(task: Task, heads: int) -> Any:
    """The public call for the weights of kind ``mean``."""
    given, domain = (task.w, task.t, LOWER, UPPER), af.Box(-REACH, REACH)
    if heads == 1:
        beta = MEAN / step(KEYS, LOWER, UPPER) ** 2
        return af.constructions.truncated_linear(*given, anchors=KEYS, sharpness=beta, domain=domain)
    beta = MEAN / step(heads * (KEYS - 2 * SENTINELS), LOWER, UPPER) ** 2
    return af.constructions.multihead_truncated_linear(
        *given, tokens=KEYS, heads=heads, sharpness=beta, sentinels=SENTINELS, domain=domain
    )


def as_module(network: Network, target: TruncatedLinear, *, trainable: bool) -> TargetModule:
    """The network as a torch module in float64."""
    return TargetModule(AttentionNetwork(network, torch.float64, trainable), target.layout, keep_features=False)


def trained_network(module: TargetModule, like: Network) -> Network:
    """The network whose weights are those of a module that was made of ``like`` and then trained."""
    pairs = zip(module.core.layers, like.layers, strict=True)
    return replace(like, layers=tuple(_layer(trained, layer) for trained, layer in pairs))


def _layer(trained: Any, layer: Layer) -> Layer:
    """Of a module that has the attributes of a runtime's layer of this kind."""
    if isinstance(layer, Linear):
        terms = (Term(_array(trained, f"map{i}"), _array(trained, f"mix{i}")) for i in range(len(layer.terms)))
        return Linear(tuple(terms), _array(trained, "constant"))
    if isinstance(layer, Attention):
        stacked = [(group, i) for group in trained.groups for i in range(len(group.output))]
        places = [stacked[at] for at in trained.order]
        heads = (_head(group, i, head) for (group, i), head in zip(places, layer.heads, strict=True))
        return replace(layer, heads=tuple(heads))
    return layer


def _head(group: Any, at: int, head: Head) -> Head:
    names = ("query", "key", "value", "output", "memory_keys", "memory_values")
    stacked = {name: _array(group, name) for name in names}
    weights: Any = {name: None if array is None else array[at] for name, array in stacked.items()}
    return replace(head, **weights)


def _array(module: Any, name: str) -> Array | None:
    weight = getattr(module, name)
    return None if weight is None else np.asarray(weight.detach().cpu().double().numpy().copy())

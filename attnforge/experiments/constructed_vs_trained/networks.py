"""The weights that are constructed instead of trained, as a network and as a module."""

from __future__ import annotations

from typing import Any

import torch

import attnforge as af
from attnforge.experiments.clamp import planned, step
from attnforge.experiments.constructed_vs_trained.task import KEYS, LOWER, REACH, UPPER, Task, truncated
from attnforge.experiments.table import Array
from attnforge.network import Network
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

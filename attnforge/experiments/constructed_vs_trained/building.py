"""The weights that are constructed instead of trained, with the same number of keys and heads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attnforge as af
from attnforge.experiments.constructed_vs_trained.task import KEYS, LOWER, REACH, UPPER, Array, Task, truncated

if TYPE_CHECKING:
    from attnforge.network import Network
    from attnforge.targets import TruncatedLinear

MEAN = 1.4  # c = beta h^2 of the smallest mean square error
SENTINELS = 3  # a side, where heads meet: at c = 1.4 two would leak
CONSTRUCTED = {
    "hard": "hard selection",
    "tuned": "tuned for the largest error",
    "mean": "tuned for the mean square (c = 1.4)",
    "estimated": "c = 1.4, w and t estimated",
}


def build(kind: str, heads: int, w: Array, t: Array) -> tuple[Network, TruncatedLinear]:
    """The weights of one or several heads of p keys each, without any proof."""
    from attnforge.anchors import uniform
    from attnforge.theorems.multihead_truncated_linear import HeadsPlan, MultiheadTruncatedLinear, plan_sharpness
    from attnforge.theorems.truncated_linear import AnchorPlan, TruncatedLinearHead, resolve_sharpness

    target = truncated(w, t)
    asked: Any = kind
    if heads == 1:
        _, h = uniform(LOWER, UPPER, KEYS, "closed")
        beta = MEAN / h**2 if kind in ("mean", "estimated") else resolve_sharpness(asked, h, KEYS, "float64")
        return TruncatedLinearHead().build(target, AnchorPlan(KEYS, beta)), target
    plan = HeadsPlan(KEYS, heads, 1.0, SENTINELS)
    h = plan.spacing(LOWER, UPPER)
    beta = MEAN / h**2 if kind in ("mean", "estimated") else plan_sharpness(asked, plan, LOWER, UPPER)
    return MultiheadTruncatedLinear().build(target, HeadsPlan(KEYS, heads, beta, SENTINELS)), target


def by_library(task: Task, heads: int) -> Any:
    """The public call for the weights of kind ``mean``."""
    given, domain = (task.w, task.t, LOWER, UPPER), af.Box(-REACH, REACH)
    if heads == 1:
        beta = MEAN / ((UPPER - LOWER) / (KEYS - 1)) ** 2
        return af.constructions.truncated_linear(*given, anchors=KEYS, sharpness=beta, domain=domain)
    beta = MEAN / ((UPPER - LOWER) / (heads * (KEYS - 2 * SENTINELS) - 1)) ** 2
    return af.constructions.multihead_truncated_linear(
        *given, tokens=KEYS, heads=heads, sharpness=beta, sentinels=SENTINELS, domain=domain
    )


def as_module(network: Network, target: TruncatedLinear, *, trainable: bool) -> Any:
    """The network as a torch module in float64."""
    import torch

    from attnforge.runtime import AttentionNetwork, TargetModule

    return TargetModule(AttentionNetwork(network, torch.float64, trainable), target.layout, keep_features=False)

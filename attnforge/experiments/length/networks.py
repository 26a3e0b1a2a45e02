"""Heads that map every token to a truncated linear function of its own, for sequences of any length."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

LOWER, UPPER, REACH = -25.0, 25.0, 5.0  # of the authors: clamp(w_i . x_i + t_i, -25, 25) for x in [-5, 5]


def sequence_weights(n: int, d: int, seed: int) -> tuple[Array, Array]:
    """Weights w (n, d), of the same length for every d, and t (n,), all normal."""
    rng = np.random.default_rng([seed, n, d])
    return rng.normal(size=(n, d)) * (10 / d) ** 0.5, rng.normal(size=n)


def one_head(n: int, d: int, p: int, layout: str = "memory", seed: int = 0) -> tuple[Any, Any, float]:
    """Network, target and the theorem's bound of one tuned head; without the search that a certificate begins with."""
    from attnforge.targets import Box, TruncatedLinear
    from attnforge.theorems.truncated_linear import AnchorPlan, TruncatedLinearHead, resolve_sharpness

    w, t = sequence_weights(n, d, seed)
    target = TruncatedLinear(w, t, LOWER, UPPER, Box(-REACH, REACH))
    chosen: Any = layout
    beta = resolve_sharpness("tuned", (UPPER - LOWER) / (p - 1), p, "float64")
    plan, head = AnchorPlan(p, beta, "closed", chosen), TruncatedLinearHead()
    return head.build(target, plan), target, sum(head.bound(target, plan).values())


def many_heads(n: int, d: int, heads: int, sentinels: int, seed: int = 0) -> tuple[Any, Any, float, int]:
    """The same for H tuned heads of n keys each, w shared by the tokens; and the number of anchors in all."""
    from attnforge.targets import Box, TruncatedLinear
    from attnforge.theorems.multihead_truncated_linear import HeadsPlan, MultiheadTruncatedLinear, plan_sharpness

    w, t = sequence_weights(1, d, seed)
    target = TruncatedLinear(w[0], float(t[0]), LOWER, UPPER, Box(-REACH, REACH))
    plan = HeadsPlan(n, heads, 1.0, sentinels)
    plan = replace(plan, sharpness=plan_sharpness("tuned", plan, LOWER, UPPER))
    construction = MultiheadTruncatedLinear()
    return construction.build(target, plan), target, sum(construction.bound(target, plan).values()), heads * plan.own

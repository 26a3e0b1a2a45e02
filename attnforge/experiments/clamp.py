"""Heads that compute clamp(y, a, b) of one number: constructed, or trained on uniform points."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import attnforge as af
from attnforge.experiments.experiment import Row
from attnforge.theorems.multihead_truncated_linear import HeadsPlan, MultiheadTruncatedLinear, plan_sharpness
from attnforge.theorems.truncated_linear import AnchorPlan, TruncatedLinearHead, resolve_sharpness

LOWER, UPPER, REACH = -1.0, 1.0, 2.0  # clamp(y, -1, 1) for y in [-2, 2], unless said otherwise
TRAINING, BATCH = 4096, 512  # points, and points a step


def step(anchors: int, lower: float = LOWER, upper: float = UPPER) -> float:
    """Between two anchors of a row from end to end.

    >>> step(5), step(21, 0.0, 2.0)
    (0.5, 0.1)
    """
    return (upper - lower) / (anchors - 1)


def planned(
    keys: int, heads: int, sentinels: int, sharpness: Any, ends: tuple[float, float], layout: Any = "memory"
) -> tuple[Any, Any]:
    """The theorem and the plan of one head, or of several that have sentinels; nothing is built or proved.

    The sharpness is "hard", "tuned", or the number c = beta h^2.
    """
    named = isinstance(sharpness, str)
    if not sentinels:
        h = step(keys, *ends)
        beta = resolve_sharpness(sharpness, h, keys, "float64") if named else sharpness / h**2
        return TruncatedLinearHead(), AnchorPlan(keys, beta, "closed", layout)
    plan = HeadsPlan(keys, heads, 1.0, sentinels)
    beta = plan_sharpness(sharpness, plan, *ends) if named else sharpness / plan.spacing(*ends) ** 2
    return MultiheadTruncatedLinear(), replace(plan, sharpness=beta)


def one_head(p: int, lower: float = LOWER, upper: float = UPPER, reach: float = REACH, **options: Any) -> af.Compiled:
    """One head of p anchors on [lower, upper] for y in [-reach, reach]."""
    box = af.Box(-reach, reach)
    return af.constructions.truncated_linear([1.0], 0.0, lower, upper, anchors=p, domain=box, **options)


def several_heads(
    heads: int, keys: int, sentinels: int, sharpness: Any, ends: tuple[float, float] = (LOWER, UPPER), **options: Any
) -> af.Compiled:
    """Heads of so many keys, sentinels counted, that share one row of anchors; y is between the ends unless told."""
    sizes: Any = {"tokens": keys, "heads": heads, "sentinels": sentinels, "domain": af.Box(*ends)} | options
    lower, upper = ends
    return af.constructions.multihead_truncated_linear([1.0], 0.0, lower, upper, sharpness=sharpness, **sizes)


def judged(net: af.Compiled, points: int) -> dict[str, Any]:
    """Mean square and largest error at fresh points, and the bound."""
    found = af.measure(net, points=points)
    return {"mse": found.rms**2, "error": found.sup, "bound": net.certificate.bound}


def trained(keys: int, heads: int, epochs: int, seed: int, points: int) -> Row:
    """Heads trained on uniform points, and judged on others, evenly spaced."""
    import torch

    from attnforge.experiments.training import MemoryHeads, train

    generator = torch.Generator().manual_seed(seed)
    inputs = REACH * (2 * torch.rand(TRAINING, 1, generator=generator) - 1)
    module = MemoryHeads(1, keys, heads, seed=seed)
    fit = train(module, inputs, inputs[:, 0].clamp(LOWER, UPPER), epochs=epochs, batch=BATCH, seed=seed)
    fresh = torch.linspace(-REACH, REACH, points)[:, None]
    with torch.no_grad():
        error = module(fresh) - fresh[:, 0].clamp(LOWER, UPPER)
    return {"mse": float(error.square().mean()), "error": float(error.abs().max()), "seconds": fit.seconds}

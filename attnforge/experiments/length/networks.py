"""Heads that map every token to a truncated linear function of its own, and their errors at risky places."""

from __future__ import annotations

from typing import Any

import numpy as np

from attnforge.experiments.clamp import planned, step
from attnforge.experiments.experiment import Case, Row
from attnforge.experiments.table import Array
from attnforge.targets import Box, TruncatedLinear

LOWER, UPPER, REACH = -25.0, 25.0, 5.0  # of the authors: clamp(w_i . x_i + t_i, -25, 25) for x in [-5, 5]
EVALUATED = 50_000  # tokens, in all sequences of a case together: the same for every length
CHUNK = 10_000  # tokens at a time
PAIRS = 5e8  # of a query and a key: fewer tokens are evaluated where keys are many


def sequence_weights(n: int, d: int, seed: int) -> tuple[Array, Array]:
    """Weights w (n, d), of the same length for every d, and t (n,), all normal."""
    rng = np.random.default_rng([seed, n, d])
    return rng.normal(size=(n, d)) * (10 / d) ** 0.5, rng.normal(size=n)


def one_head(n: int, d: int, p: int, layout: str = "memory", seed: int = 0) -> tuple[Any, Any, float]:
    """Network, target and the theorem's bound of one tuned head; without the search that a certificate begins with."""
    w, t = sequence_weights(n, d, seed)
    target = TruncatedLinear(w, t, LOWER, UPPER, Box(-REACH, REACH))
    head, plan = planned(p, 1, 0, "tuned", (LOWER, UPPER), layout)
    return head.build(target, plan), target, sum(head.bound(target, plan).values())


def many_heads(n: int, d: int, heads: int, sentinels: int, seed: int = 0) -> tuple[Any, Any, float, int]:
    """The same for H tuned heads of n keys each, w shared by the tokens; and the number of anchors in all."""
    w, t = sequence_weights(1, d, seed)
    target = TruncatedLinear(w[0], float(t[0]), LOWER, UPPER, Box(-REACH, REACH))
    construction, plan = planned(n, heads, sentinels, "tuned", (LOWER, UPPER))
    return construction.build(target, plan), target, sum(construction.bound(target, plan).values()), heads * plan.own


def largest_error(case: Case) -> Row:
    """The largest error over sequences whose forms are at risky places, and the bound."""
    n, d = case["n"], case["d"]
    if case["kind"] == "anchors":
        network, target, bound = one_head(n, d, case["p"], seed=case["seed"])
        anchors, heads = case["p"], 1
    else:
        network, target, bound, anchors = many_heads(n, d, case["H"], case["sentinels"], case["seed"])
        heads = case["H"]
    rows = max(1, int(min(EVALUATED, PAIRS / anchors)) // n)
    # forms of its own for every case: a head reads x through its form only, so the same forms would give equal errors
    rng, h = np.random.default_rng([case["seed"], n, d, anchors, heads]), step(anchors, LOWER, UPPER)
    borders = LOWER + h * (np.arange(heads + 1) * (anchors / heads) - 0.5)
    y = risky_forms(rows * n, h, np.array([LOWER, UPPER, *borders[1:-1]]), rng).reshape(rows, n)
    return {"p": anchors, "error": _largest(network, target, y), "bound": bound, "evaluated": rows * n}


def risky_forms(count: int, h: float, borders: Array, rng: np.random.Generator) -> Array:
    """Values y: half of them anywhere from a - 2h to b + 2h, half within two steps of an end or of a border."""
    anywhere = rng.uniform(LOWER - 2 * h, UPPER + 2 * h, count)
    near = rng.choice(borders, count) + rng.uniform(-2 * h, 2 * h, count)
    return np.where(np.arange(count) % 2 == 0, anywhere, near)


def inputs_of(y: Array, w: Array, t: Array) -> tuple[Array, Array]:
    """Inputs (B, n, d) in the box with w_i . x_i + t_i near y (B, n), and what the forms then are.

    x_i = s sign(w_i) has the form s |w_i|_1 + t_i; where y is out of reach, s is cut off.
    """
    reach = np.abs(w).sum(axis=-1)
    s = np.clip((y - t) / reach, -REACH, REACH)
    x = s[..., None] * np.sign(w)
    return x, np.asarray(np.einsum("bnd,nd->bn", x, np.broadcast_to(w, x.shape[1:])) + t)


def _largest(network: Any, target: Any, y: Array) -> float:
    import torch

    from attnforge.runtime import AttentionNetwork

    module = AttentionNetwork(network, torch.float64, False)
    w, t = np.broadcast_to(target.w, (y.shape[1], target.w.shape[-1])), np.broadcast_to(target.t, y.shape[1])
    worst, batch = 0.0, max(1, CHUNK // y.shape[1])
    for first in range(0, len(y), batch):
        x, form = inputs_of(y[first : first + batch], w, t)
        with torch.no_grad():
            found = module(torch.from_numpy(x)).numpy()[..., 0]
        worst = max(worst, float(np.abs(found - np.clip(form, LOWER, UPPER)).max()))
    return worst

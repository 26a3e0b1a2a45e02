"""One head of p anchors at a sharpness, run in a dtype: its errors, lost queries, and values fitted at a sharpness."""

from __future__ import annotations

from typing import Any

import numpy as np

import attnforge as af
from attnforge.anchors.axis import Axis
from attnforge.effort import Effort
from attnforge.experiments.clamp import one_head, step
from attnforge.experiments.experiment import Row
from attnforge.experiments.table import Array

HEADS = {"authors": (25.0, 60), "fine": (1.0, 256)}  # clamp to [-reach, reach] with p anchors
BEYOND = 1.2  # queries reach so many times as far as the anchors
DTYPES = ("float64", "float32", "float16", "bfloat16")
ROW_SHARPNESS = 40.0  # of the heads whose winning keys are compared: hard in every dtype
FITTED, GHOSTS = 33, 10  # anchors of the head whose values are fitted; ghosts a side
LEMMA = Effort(points=1, intervals=1)  # heads are run here, their certificates not read: the lemma's bound will do
CUT = 1e-13  # of singular values, relative to the largest


def errors(reach: float, p: int, c: float, dtype: str, queries: int, seed: int) -> Row:
    """Errors in steps h and in squares of them, weights that underflow, queries that lose their key."""
    module, fits = _module(reach, p, c, dtype)
    h, even = step(p, -reach, reach), _rounded(np.linspace(-BEYOND * reach, BEYOND * reach, queries), dtype)
    y = np.concatenate([even, _rounded(_near_ends(reach, h), dtype)])
    out, weights = _run(module, y)
    finite = np.isfinite(out)
    error = (out - np.clip(y, -reach, reach)) / h
    drawn = _rounded(_drawn(reach, queries, seed), dtype)
    missed = (_run(module, drawn)[0] - np.clip(drawn, -reach, reach)) / h
    # At the anchor from which keys are counted scores are exact: 0, and -c for its neighbours.
    at = _run(module, _rounded(np.array([-reach + h * (p // 2)]), dtype))[1][0]
    return {
        "error": float(np.abs(error).max()) if finite.all() else None,
        "mse": float(np.mean(missed**2)) if np.isfinite(missed).all() else None,
        "not_finite": float(1 - finite.mean()),
        "neighbour": float(np.sort(at)[-2]) if np.isfinite(at).all() else None,
        "lost": _share_lost(weights[: len(even)], even, reach, p),
        "built_for_dtype": fits,
    }


def winners(dtype: str, p: int, seed: int) -> Row:
    """Random queries against a hard row of p anchors on [-1, 1]."""
    y = _rounded(np.random.default_rng(seed).uniform(-1.0, 1.0, 1000), dtype)
    module, fits = _module(1.0, p, ROW_SHARPNESS, dtype)
    return {"lost": _share_lost(_run(module, y)[1], y, 1.0, p), "built_for_dtype": fits}


def fitted(c: float) -> Row:
    """sin(8x) on [-1, 1] by values fitted at this sharpness, and by sampled ones, in float64."""
    axis = Axis.uniform(-1.0, 1.0, FITTED + 2 * GHOSTS, GHOSTS, c)
    x, fresh = np.linspace(-1, 1, 12 * FITTED + 1), np.linspace(-1, 1, 10_001)
    values, _, rank, singular = np.linalg.lstsq(axis.weights(x), np.sin(8 * x), rcond=CUT)
    weights = axis.weights(fresh)
    return {
        "error": float(np.abs(weights @ values - np.sin(8 * fresh)).max()),
        "sampled_error": float(np.abs(weights @ np.sin(8 * axis.positions) - np.sin(8 * fresh)).max()),
        "condition": float(singular[0] / singular[int(rank) - 1]),
        "largest_value": float(np.abs(values).max()),
    }


def _share_lost(weights: Array, y: Array, reach: float, p: int) -> float:
    """The share of queries whose winning key is not the nearest anchor; without a winner (NaN) it is lost as well."""
    broken = ~np.isfinite(weights).all(axis=1)
    winner = np.where(np.isfinite(weights), weights, -1.0).argmax(axis=1)
    place = np.clip((y + reach) / step(p, -reach, reach), 0, p - 1)
    lost = np.abs(place - winner) > 0.5 + 1e-6  # half-way between two anchors either may win
    return float(np.mean(lost | broken))


def _module(reach: float, p: int, c: float, dtype: str) -> tuple[Any, bool]:
    """The head in the dtype, and whether it was built for it: what is refused there is built in float64 and cast."""

    def built(kind: str) -> Any:
        return one_head(
            p, -reach, reach, BEYOND * reach, sharpness=c / step(p, -reach, reach) ** 2, dtype=kind, effort=LEMMA
        )

    try:
        return built(dtype).module(), True
    except af.RefusalError:
        return built("float64").module(dtype=dtype), False


def _run(module: Any, y: Array) -> tuple[Array, Array]:
    """Outputs (N,) and attention weights (N, p), as the dtype has them."""
    import torch

    with torch.no_grad():
        x = torch.from_numpy(y[:, None, None])
        weights = module.attention(x)[0][0][:, 0].double().numpy()
        return module(x).double().numpy().ravel(), weights


def _rounded(y: Array, dtype: str) -> Array:
    """The nearest numbers of the dtype: rounding of inputs is not what is looked at here."""
    import torch

    return np.asarray(torch.from_numpy(y).to(getattr(torch, dtype)).double().numpy())


def _drawn(reach: float, count: int, seed: int) -> Array:
    """Queries that a mean is taken over: w . x + t of the authors' data, scaled from their reach of 25 to this one.

    Ten inputs uniform in [-5, 5], w and t standard normal.
    """
    rng = np.random.default_rng(seed)
    x, w, t = rng.uniform(-5, 5, (count, 10)), rng.standard_normal((count, 10)), rng.standard_normal(count)
    return np.asarray(((w * x).sum(axis=1) + t) * reach / HEADS["authors"][0])


def _near_ends(reach: float, h: float) -> Array:
    """Queries close together around both ends: the largest error is there, or between any two anchors."""
    steps = np.linspace(-1.0, 3.0, 401) * h
    return np.concatenate([-reach + steps, reach - steps])

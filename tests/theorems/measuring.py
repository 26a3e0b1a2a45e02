"""What the tests of constructions share: inputs that reach given values of a linear form, scores, measured errors."""

from __future__ import annotations

from typing import Any

import numpy as np

from attnforge.network import Network, apply_layer


def forms(lower: float, upper: float, steps: int, points: int = 40) -> np.ndarray:
    """Values of the form: dense on and around [lower, upper] cut into ``steps``, and far outside."""
    length = upper - lower
    dense = np.linspace(lower - 3 * length / steps, upper + 3 * length / steps, points * (steps + 6) + 1)
    far = np.array([lower - 10 * length, lower - length, upper + length, upper + 10 * length])
    return np.concatenate([dense, far])


def inputs(target: Any, forms: np.ndarray, tokens: int | None = None) -> np.ndarray:
    """(P, n, d) inputs along w on which every token's w . x + t runs through the (P,) forms."""
    w, t = np.broadcast_arrays(target.w, np.reshape(target.t, (-1, 1)))
    along = w / (w * w).sum(axis=-1, keepdims=True)
    x = (forms[:, None, None] - t[:, :1]) * along
    return np.broadcast_to(x, (len(forms), max(tokens or 0, x.shape[1]), x.shape[2])).copy()


def errors(network: Network, target: Any, y: np.ndarray, tokens: int | None = None) -> np.ndarray:
    """|network - target| at every point and token, also beyond the domain."""
    x = inputs(target, y, network.tokens or tokens)
    found, wanted = network(x), target.values(x)
    return np.abs(found - wanted if target.outputs is not None else found[..., 0] - wanted)


def scores(network: Network, x: np.ndarray, head: int = 0) -> np.ndarray:
    """The scores (query, key) of one head on one input (n, d), from W_Q, W_K and the keys, less the first key's."""
    state, one = apply_layer(network.layers[0], x), network.heads[head]
    keys = [] if one.memory_keys is None else [one.memory_keys]
    if one.key_rows is not None and one.key_rows.kind == "all":
        keys.append(state @ one.key)
    found = one.query_rows.take(state) @ one.query @ np.concatenate(keys).T
    return found - found[:, :1]

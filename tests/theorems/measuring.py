"""What the tests of constructions share: inputs that reach given values of the linear form, and measured errors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from attnforge.network import Head, Linear, Network, head_places, with_head
from attnforge.network.apply import apply_layer
from attnforge.targets import Box, TruncatedLinear


def clamp(w=(1.0,), t=0.0, lower=-1.0, upper=2.0, **options) -> TruncatedLinear:
    return TruncatedLinear(w, t, lower, upper, options.pop("domain", Box(-10, 10)), **options)


def per_token(n: int, d: int, lower: float = -1.0, upper: float = 2.0, seed: int = 0, **options) -> TruncatedLinear:
    """A target in which every token has its own w and t."""
    rng = np.random.default_rng([seed, n, d])
    return clamp(rng.normal(size=(n, d)), rng.normal(size=n), lower, upper, **options)


def inputs(target: TruncatedLinear, forms: np.ndarray, tokens: int | None = None) -> np.ndarray:
    """(P, n, d) inputs along w on which every token's w . x + t runs through the (P,) forms."""
    w, t = np.broadcast_arrays(target.w, np.reshape(target.t, (-1, 1)))
    along = w / (w * w).sum(axis=-1, keepdims=True)
    x = (forms[:, None, None] - t[:, :1]) * along
    return np.broadcast_to(x, (len(forms), max(tokens or 0, x.shape[1]), x.shape[2])).copy()


def forms(lower: float, upper: float, steps: int, points: int = 40) -> np.ndarray:
    """Values of the form: dense on and around [lower, upper] cut into ``steps``, and far outside."""
    length = upper - lower
    dense = np.linspace(lower - 3 * length / steps, upper + 3 * length / steps, points * (steps + 6) + 1)
    far = np.array([lower - 10 * length, lower - length, upper + length, upper + 10 * length])
    return np.concatenate([dense, far])


def errors(network: Network, target: TruncatedLinear, y: np.ndarray, tokens: int | None = None) -> np.ndarray:
    """|network - target| at every point and token."""
    x = inputs(target, y, network.tokens or tokens)
    found = network(x)
    wanted = target.values(x)
    return np.abs(found - wanted if target.outputs is not None else found[..., 0] - wanted)


def sup_error(network: Network, target: TruncatedLinear, steps: int, tokens: int | None = None) -> float:
    return float(errors(network, target, forms(target.lower, target.upper, steps), tokens).max())


def scores(network: Network, x: np.ndarray, head: int = 0) -> np.ndarray:
    """The scores (query, key) of one head on one input (n, d), from W_Q, W_K and the keys."""
    state = apply_layer(network.layers[0], x)
    one = network.heads[head]
    keys = [] if one.memory_keys is None else [one.memory_keys]
    if one.key_rows is not None and one.key_rows.kind == "all":
        keys.append(state @ one.key)
    return one.query_rows.take(state) @ one.query @ np.concatenate(keys).T


def relative(rows: np.ndarray) -> np.ndarray:
    """Scores up to the constant common to all keys."""
    return rows - rows[:, :1]


def changed(network: Network, head: int = 0, **changes) -> Network:
    """The network with arrays of one head replaced."""
    return with_head(network, *head_places(network)[head], **changes)


def encoded(network: Network, constant: np.ndarray) -> Network:
    """The network with another constant in its first linear map."""
    first = network.layers[0]
    assert isinstance(first, Linear)
    return replace(network, layers=(replace(first, constant=constant), *network.layers[1:]))


def with_entry(array: np.ndarray, index: object, value: float) -> np.ndarray:
    array = array.copy()
    array[index] = value
    return array


def roles(one: Head) -> list[str]:
    assert one.claims is not None
    return list(one.claims.roles)

"""Heads of our networks as a diagnosis sees them: exact scores, and the weights the runtime computes in a dtype."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import torch

from attnforge.measurement.diagnosis.view import HeadView, chosen_rows
from attnforge.network import Attention, Head, Linear, Network
from attnforge.network.apply import apply_layer
from attnforge.outward import round_to
from attnforge.runtime import AttentionNetwork
from attnforge.runtime.module import AttentionLayer

Array = npt.NDArray[np.float64]

PAIRS = 2**22  # weights of one layer held at once
FEWEST = 16  # queries a head is asked at least, however many keys it has


def affordable(network: Network, count: int, tokens: int) -> int:
    """How many of ``count`` points keep the weights of every layer within memory."""
    keys = [
        sum(_keys(head, tokens) for head in layer.heads) for layer in network.layers if isinstance(layer, Attention)
    ]
    return int(min(count, max(FEWEST, PAIRS // max(1, tokens * max(keys, default=1)))))


def network_views(network: Network, dtype: str, tokens: Array, context: Array | None = None) -> Iterator[HeadView]:
    """Every head at every query of (N, n, m) tokens, layer by layer; inputs are numbers of the dtype to begin with."""
    exact, real = AttentionNetwork(network, torch.float64), AttentionNetwork(network, getattr(torch, dtype))
    last = max((i for i, layer in enumerate(network.layers) if isinstance(layer, Attention)), default=-1)
    number = 0
    with torch.no_grad():
        states = [torch.from_numpy(round_to(tokens, dtype)).to(module.dtype) for module in (exact, real)]
        second = None if context is None else torch.from_numpy(round_to(context, dtype))
        told = [None if second is None else module._second(states[0], second) for module in (exact, real)]
        for place, layer in enumerate(network.layers[: last + 1]):
            truly, really = exact.layer(place), real.layer(place)
            if isinstance(layer, Attention):
                assert isinstance(really, AttentionLayer)
                weights, state = really.weights(states[1], told[1]), states[0].numpy()
                read = None if told[0] is None else told[0].expand(len(state), -1, -1).numpy()
                for i, head in enumerate(layer.heads):
                    yield head_view(head, number, i, dtype, state, read, weights[i].double().numpy())
                number += 1
            states = [truly(states[0], told[0]), really(states[1], told[1])]


def head_view(
    head: Head, layer: int, number: int, dtype: str, state: Array, context: Array | None, ran: Array
) -> HeadView:
    """One head at the queries of a (N, n, m) state; ``ran`` (N, query, key) are its weights in the dtype."""
    asking = head.query_rows.take(state)
    with np.errstate(over="ignore", invalid="ignore"):
        queries = asking @ head.query
        keys, values, constant = _keys_of(head, state, asking, context)
    rows, alike = len(state) * queries.shape[-2], queries.shape[-2]
    asked, weights = queries.reshape(rows, -1), ran.reshape(rows, ran.shape[-1])
    asking_something = np.flatnonzero(asked.any(axis=1))  # padding tokens ask nothing, and nobody reads their answers
    kept = asking_something if len(asking_something) else np.arange(rows)
    if keys.ndim > 2:  # a copy of the keys for every query
        kept = kept[chosen_rows(len(kept), keys.shape[-2] * keys.shape[-1], seed=0)]
        keys = keys[kept // alike] if keys.ndim == 3 else keys.reshape(rows, *keys.shape[-2:])[kept]
    return HeadView(
        layer,
        number,
        asked[kept],
        keys,
        weights[kept],
        dtype,
        values,
        constant=constant,
        claims=head.claims,
    )


def _keys_of(head: Head, state: Array, asking: Array, context: Array | None) -> tuple[Array, Array | None, bool]:
    """Keys (p, r), (N, p, r) or (N, query, p, r), the values that go with constant ones, and whether they are."""
    if head.key_rows is None:
        assert head.memory_keys is not None
        return head.memory_keys, head.memory_values, True
    assert head.key is not None
    assert head.value is not None
    if head.key_rows.kind == "own":
        rows = asking[..., None, :]
    else:
        source = state if head.key_rows.source == "state" else context
        assert source is not None
        rows = head.key_rows.take(source)
    keys, values = rows @ head.key, rows @ head.value
    if head.memory_keys is not None and head.memory_values is not None:
        before = np.broadcast_to(head.memory_keys, (*keys.shape[:-2], *head.memory_keys.shape))
        keys = np.concatenate([before, keys], axis=-2)
        values = np.concatenate(
            [np.broadcast_to(head.memory_values, (*values.shape[:-2], *head.memory_values.shape)), values], axis=-2
        )
    same = keys.ndim == 3 and len(keys) > 1 and bool((keys == keys[:1]).all() and (values == values[:1]).all())
    return (keys[0], values[0], True) if same else (keys, None, False)


def _keys(head: Head, tokens: int) -> int:
    return head.memory_size + (0 if head.key_rows is None else max(tokens, 1))


def affine_queries(network: Network, box_middle: Array) -> tuple[Array, Array, Array] | None:
    """State at the first layer of attention as an affine function of all inputs: its value, slopes, and the point.

    (n', m'), (D, n', m') and (n, m): exact up to rounding, since only linear maps come before. None where there is
    none such, a second input, or more than ``MOST_INPUTS`` inputs.
    """
    before: list[Linear] = []
    for layer in network.layers:
        if isinstance(layer, Attention):
            break
        if not isinstance(layer, Linear):
            return None
        before.append(layer)
    else:
        return None
    tokens = box_middle.reshape(-1, network.features)
    if network.context is not None or tokens.size > MOST_INPUTS:
        return None
    batch = np.concatenate([np.zeros((1, tokens.size)), np.eye(tokens.size)]).reshape(-1, *tokens.shape)
    state = batch
    for layer in before:
        state = apply_layer(layer, state)
    return np.asarray(state[0]), np.asarray(state[1:] - state[0]), tokens


MOST_INPUTS = 1024

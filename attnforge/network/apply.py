"""Run a network in NumPy: the reference every other execution is compared with."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from attnforge.arrays import float64
from attnforge.errors import DomainError
from attnforge.network.architecture import rows_named
from attnforge.network.layers import Attention, Head, Layer, Linear, Softmax, Term

if TYPE_CHECKING:
    from attnforge.network.network import Network

Array = npt.NDArray[np.float64]

Count = TypeVar("Count", int, int | None)

CHUNK = 2**24  # attention weights held at once: 128 MB


def apply(network: Network, tokens: Array, context: Array | None = None) -> Array:
    """The network's output on a (..., n, m) array, in float64.

    Large batches run in chunks, so memory stays bounded by the weights of ``CHUNK`` query-key pairs.
    """
    tokens = _checked(network, tokens)
    batch = tokens.shape[:-2]
    flat = tokens.reshape(-1, *tokens.shape[-2:])
    second = _checked_context(network, context)
    if second is not None:
        context = np.broadcast_to(second, (*batch, *second.shape[-2:])).reshape(len(flat), *second.shape[-2:])
    step = max(1, CHUNK // count_pairs(network, tokens.shape[-2], 0 if second is None else second.shape[-2]))
    parts = [
        _run(network, flat[i : i + step], None if context is None else context[i : i + step])
        for i in range(0, max(len(flat), 1), step)
    ]
    result = np.concatenate(parts)
    return result.reshape(*batch, *result.shape[1:])


def attention_weights(network: Network, tokens: Array, context: Array | None = None) -> list[list[Array]]:
    """For each layer of attention, for each head, the (..., query, key) softmax weights."""
    state, found = _checked(network, tokens), []
    context = _told(network, _checked_context(network, context))
    for layer in network.layers:
        if isinstance(layer, Attention):
            found.append([weights_and_values(head, state, context)[0] for head in layer.heads])
        state = apply_layer(layer, state, context)
    return found


def apply_layer(layer: Layer, state: Array, context: Array | None = None) -> Array:
    """One layer on a (..., n, m) array."""
    match layer:
        case Linear():
            return _linear(layer, state)
        case Attention():
            return _attention(layer, state, context)
        case Softmax():
            return _softmax(state)


def layers_in(network: Network, kind: type[np.floating[Any]]) -> tuple[Layer, ...]:
    """The layers with weights of this type, for ``apply_layer`` on states of the same: as a run in that dtype does."""
    if kind is np.float64:
        return network.layers
    return tuple(_cast(layer, kind) for layer in network.layers)


def constant_features(network: Network) -> Array | None:
    """The features (m,) of a token where heads read them, as far as they do not depend on the input; NaN where they do.

    That they do is said by weights that are not zero. None unless the network maps tokens one by one, alike, and then
    ends in a layer of attention.
    """
    *before, last = network.layers
    state, varies = np.zeros((1, network.features)), np.ones(network.features, dtype=bool)
    for layer in before:
        if not isinstance(layer, Linear) or any(term.mix is not None for term in layer.terms):
            return None
        maps = [np.eye(len(varies)) if term.map is None else term.map for term in layer.terms]
        if any(each.ndim == 3 for each in maps) or (layer.constant is not None and len(layer.constant) > 1):
            return None
        varies = np.any([(each[varies] != 0).any(axis=0) for each in maps], axis=0)
        state = _linear(layer, state)
    return np.where(varies, np.nan, state[0]) if isinstance(last, Attention) and not last.residual else None


def _cast(part: Any, kind: type[np.floating[Any]]) -> Any:
    if isinstance(part, np.ndarray):
        return part.astype(kind)
    if isinstance(part, tuple):
        return tuple(_cast(each, kind) for each in part)
    if not isinstance(part, Linear | Attention | Term | Head):
        return part
    found = copy(part)  # not a part of any network: those hold float64
    for name, value in vars(part).items():
        object.__setattr__(found, name, _cast(value, kind))
    return found


def _run(network: Network, state: Array, context: Array | None) -> Array:
    context = _told(network, context)
    for layer in network.layers:
        state = apply_layer(layer, state, context)
    return state


def _told(network: Network, context: Array | None) -> Array | None:
    """The second input as attention reads it: after its linear maps."""
    if context is not None:
        for layer in network.context_layers:
            context = _linear(layer, context)
    return context


def _linear(layer: Linear, state: Array) -> Array:
    total = _term(layer.terms[0], state)
    for term in layer.terms[1:]:
        total = total + _term(term, state)
    return total if layer.constant is None else total + layer.constant


def _term(term: Term, state: Array) -> Array:
    if term.map is not None:
        state = state @ term.map if term.map.ndim == 2 else (state[..., None, :] @ term.map)[..., 0, :]
    return state if term.mix is None else term.mix @ state


def _attention(layer: Attention, state: Array, context: Array | None) -> Array:
    width = layer.heads[0].output.shape[1]
    total = state.copy() if layer.residual else np.zeros((*state.shape[:-1], width), dtype=state.dtype)
    for head in layer.heads:
        weights, values = weights_and_values(head, state, context)
        out = (weights[..., None, :] @ values)[..., 0, :] if values.ndim > weights.ndim else weights @ values
        if head.query_rows.indices is None:
            total = total + out @ head.output
        else:
            total[..., head.query_rows.indices, :] += out @ head.output
    return total


def weights_and_values(head: Head, state: Array, context: Array | None = None) -> tuple[Array, Array]:
    """Softmax weights (..., query, key) and values, (..., key, v) or, for own rows, (..., query, key, v)."""
    queries = head.query_rows.take(state) @ head.query
    keys, values = _keys_and_values(head, state, context)
    if keys.ndim > queries.ndim:
        return _softmax((keys @ queries[..., None])[..., 0]), values
    return _softmax(queries @ np.swapaxes(keys, -1, -2)), values


def _keys_and_values(head: Head, state: Array, context: Array | None) -> tuple[Array, Array]:
    if head.key_rows is None:
        assert head.memory_keys is not None
        assert head.memory_values is not None
        return head.memory_keys, head.memory_values
    assert head.key is not None
    assert head.value is not None
    if head.key_rows.kind == "own":
        rows = head.query_rows.take(state)[..., None, :]
    else:
        source = state if head.key_rows.source == "state" else context
        if source is None:
            raise DomainError("This network reads a second input (its keys and values)", "one input", "Call net(X, Y)")
        rows = head.key_rows.take(source)
    keys, values = rows @ head.key, rows @ head.value
    if head.memory_keys is None or head.memory_values is None:
        return keys, values
    return _with_memory(head.memory_keys, keys), _with_memory(head.memory_values, values)


def _with_memory(memory: Array, rows: Array) -> Array:
    return np.concatenate([np.broadcast_to(memory, (*rows.shape[:-2], *memory.shape)), rows], axis=-2)


def _softmax(scores: Array) -> Array:
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def _checked(network: Network, tokens: npt.ArrayLike) -> Array:
    tokens = float64(tokens)
    wanted = (network.tokens or "n", network.features)
    if tokens.ndim < 2 or tokens.shape[-1] != network.features or network.tokens not in (None, tokens.shape[-2]):
        raise DomainError(f"The network takes arrays of shape (..., {wanted[0]}, {wanted[1]})", f"shape {tokens.shape}")
    if network.tokens is None:
        check_rows("tokens", tokens.shape[-2], rows_named(network, "state"))
    return tokens


def check_rows(what: str, given: int, named: int) -> None:
    """Raise unless there are as many rows as heads name; softmax over none of them is not defined either."""
    if given < named:
        raise DomainError(f"This network reads at least {named} {what}", str(given), "Pass more rows")


def _checked_context(network: Network, context: npt.ArrayLike | None) -> Array | None:
    if context is None:
        return None
    if network.context is None:
        raise DomainError("This network reads one input", "a second one", "Call net(X)")
    second = float64(context)
    rows, features = network.context
    fits = second.ndim >= 2 and rows in (None, second.shape[-2]) and features == second.shape[-1]
    if not fits:
        wanted = f"The network's second input has shape (..., {rows or 'n'}, {features})"
        raise DomainError(wanted, f"shape {second.shape}", "Reshape it")
    if rows is None:
        check_rows("rows of its second input", second.shape[-2], rows_named(network, "context"))
    return second


def count_pairs(network: Network, tokens: int, told: int) -> int:
    """Query-key pairs of the largest head, or numbers of the lengthened second input, for one batch entry."""
    largest = tokens
    for second in network.context_layers:
        told = rows_after(second, told)
        largest = max(largest, told * _width_after(second))
    for layer in network.layers:
        if isinstance(layer, Linear):
            tokens = rows_after(layer, tokens)
        if isinstance(layer, Attention):
            keys = max(head.memory_size + _rows_read(head, tokens, told) for head in layer.heads)
            largest = max(largest, tokens * keys)
    return max(largest, 1)


def _rows_read(head: Head, tokens: int, told: int) -> int:
    if head.key_rows is None:
        return 0
    return told if head.key_rows.source == "context" else tokens


def _width_after(layer: Linear) -> int:
    maps = [term.map for term in layer.terms if term.map is not None]
    arrays = [layer.constant, *maps] if layer.constant is not None else maps
    return int(arrays[0].shape[-1]) if arrays else 1


def rows_after(layer: Linear, tokens: Count) -> Count | int:
    """The number of tokens after a linear map; None where any number may come and go."""
    for term in layer.terms:
        if term.mix is not None:
            return len(term.mix)
    if layer.constant is not None and len(layer.constant) > 1:
        return len(layer.constant)
    return tokens

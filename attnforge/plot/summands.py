r"""What every key of a layer adds to one number behind it: weight times value, carried through the linear maps.

A layer of attention writes $\sum_h \sum_k w_{hk}(x)\, v_{hk}(x) W_O^h$ beside what it passes on, a softmax over
features writes its weights themselves. Linear maps follow, so that one number of what they make of it is
$$ \mathrm{rest}(x) + \sum_{h,k} w_{hk}(x)\, \big( v_{hk}(x) W_O^h \cdot g \big), $$
with a vector $g$ read from the maps: softmax weights times values, added up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attnforge.errors import DomainError, RefusalError
from attnforge.network import Attention, Head, Layer, Linear, Network, Softmax, apply_layer, weights_and_values

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Keys:
    """One head, by its number in the layer, at N inputs: weights (N, K), what they add (N, K), roles of the keys."""

    number: int
    weights: Array
    added: Array
    roles: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Summands:
    """Heads of a layer that add something, what else there is (N,), and whether the sum is an output of the network."""

    heads: tuple[Keys, ...]
    rest: Array
    is_output: bool

    @property
    def total(self) -> Array:
        """All of it (N,): the number."""
        return np.asarray(self.rest + sum(head.added.sum(axis=1) for head in self.heads))


def summands(network: Network, tokens: Array, layer: int | None, output: int) -> Summands:
    """What the keys of a layer add to the first token's feature ``output``, after the linear maps that follow.

    Args:
        network: of one input sequence.
        tokens: N inputs (N, n, m).
        layer: which of the layers of attention and softmaxes, counted from 0; None: the last one.
        output: which feature.

    >>> import attnforge as af
    >>> net = af.constructions.max_affine("x^2", {"x": (0, 1)}, cells=2, sharpness="hard")
    >>> found = summands(net.network, np.array([[[0.1]], [[0.9]]]), None, 0)
    >>> found.heads[0].added.round(4).tolist(), bool(np.allclose(found.total, net(np.array([0.1, 0.9]))))
    ([[0.0625, 0.0], [0.0, 0.5625]], True)
    """
    at = _place(network, layer)
    before, chosen, after = network.layers[:at], network.layers[at], _linear_after(network.layers[at + 1 :])
    state = tokens
    for each in before:
        state = apply_layer(each, state)
    reader, constant = _reading(after, _base(chosen, state[:1]).shape[1:], output)
    rest = np.einsum("nij,ij->n", _base(chosen, state), reader) + constant
    found = _attended(chosen, state, reader) if isinstance(chosen, Attention) else _chosen(state, reader)
    return Summands(tuple(found), rest, at + 1 + len(after) == len(network.layers))


def _place(network: Network, layer: int | None) -> int:
    """Where the layer stands among all."""
    if network.context is not None:
        got = "a network of two inputs"
        raise RefusalError("Sums are drawn for networks of one input sequence", got, "Use plot.attention_map")
    places = [i for i, each in enumerate(network.layers) if not isinstance(each, Linear)]
    if not places:
        raise RefusalError("Some layer must have a softmax", "linear maps alone", "Use plot.graph")
    if layer is not None and not 0 <= layer < len(places):
        wanted = f"`layer` must be at least 0 and below {len(places)}, the number of layers with a softmax"
        raise DomainError(wanted, str(layer), "Count from 0, or leave it out for the last one")
    return places[-1 if layer is None else layer]


def _linear_after(layers: Sequence[Layer]) -> tuple[Layer, ...]:
    """Those that come before the next softmax."""
    count = next((i for i, each in enumerate(layers) if not isinstance(each, Linear)), len(layers))
    return tuple(layers[:count])


def _base(layer: Layer, state: Array) -> Array:
    """What stands behind the layer without its keys: what it passes on, or zeros."""
    if isinstance(layer, Attention) and layer.residual:
        return state
    width = layer.heads[0].output.shape[1] if isinstance(layer, Attention) else state.shape[-1]
    return np.zeros((*state.shape[:-1], width))


def _reading(layers: Sequence[Layer], shape: tuple[int, ...], output: int) -> tuple[Array, float]:
    """Weights g (n, m) and constant of the first token's feature after the linear maps."""
    units = np.eye(int(np.prod(shape))).reshape(-1, *shape)
    states = np.concatenate([np.zeros((1, *shape)), units])
    for each in layers:
        states = apply_layer(each, states)
    features = states.shape[-1]
    if not 0 <= output < features:
        wanted = f"`output` must be at least 0 and below {features}, the number of features behind this layer"
        raise DomainError(wanted, str(output), "Count from 0")
    read = states[:, 0, output]
    return (read[1:] - read[0]).reshape(shape), float(read[0])


def _attended(layer: Attention, state: Array, reader: Array) -> list[Keys]:
    """Every head, for every query token that counts."""
    found = []
    for number, head in enumerate(layer.heads):
        weights, values = weights_and_values(head, state)
        rows = range(state.shape[1]) if head.query_rows.indices is None else head.query_rows.indices
        for query, row in enumerate(rows):
            held = values[..., query, :, :] if values.ndim > weights.ndim else values
            worth = held @ (head.output @ reader[row])  # (K,) or (N, K)
            if worth.any():
                roles = _roles(head, weights.shape[-1])
                found.append(Keys(number, weights[:, query], weights[:, query] * worth, roles))
    return found


def _chosen(state: Array, reader: Array) -> list[Keys]:
    """The features of every token that counts, under a softmax."""
    weights = apply_layer(Softmax(), state)
    rows = [i for i in range(len(reader)) if reader[i].any()]
    return [Keys(i, weights[:, i], weights[:, i] * reader[i], ("feature",) * reader.shape[1]) for i in rows]


def _roles(head: Head, count: int) -> tuple[str, ...]:
    claims = head.claims
    return claims.roles if claims is not None and len(claims.roles) == count else ("key",) * count

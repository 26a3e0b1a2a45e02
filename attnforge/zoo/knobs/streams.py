r"""The hidden streams of a network, and the same network with other coordinates in them.

States are what stands between layers. A residual makes two of them one *stream*: what is added must be in the same
coordinates as what it is added to. A stream is *hidden* unless it is the input, the output, or goes through a softmax
over features, whose coordinates others fix.

Whoever writes into a hidden stream writes through E, and whoever reads it reads through R:
$$ z \to z E, \quad W_Q, W_K, W_V \to R\,W, \quad W_O \to W_O E, \quad P \to R_{\text{before}}\,P\,E_{\text{after}} . $$
The function is kept whenever $E R W = W$ for every matrix W that reads the stream: then $(zE)(RW) = zW$, head by head.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from attnforge.errors import RefusalError
from attnforge.network import Attention, Head, Layer, Linear, Network, Softmax, Term

Array = npt.NDArray[np.float64]

NO_STREAM = "A knob turns the stream between a first and a last map, in which nobody else fixes coordinates"
PLAIN = "Choose a network with a first map, or leave this knob alone"


@dataclass(frozen=True)
class Hidden:
    """A hidden stream: the states it is, numbered by the layers before them, and its width.

    ``second`` ones are of the second input, behind its linear maps.
    """

    states: tuple[int, ...]
    width: int
    second: bool = False


@dataclass(frozen=True, eq=False)
class Coordinates:
    """How a stream of m features is written, E (m, m'), and read, R (m', m)."""

    write: Array
    read: Array


def hidden_streams(network: Network) -> tuple[Hidden, ...]:
    """All of them, in the order of layers, those of the second input last; a RefusalError where there is none."""
    widths, fixed = _widths(network.layers, network.features), {0, len(network.layers)}
    fixed |= {i + k for i, layer in enumerate(network.layers) if isinstance(layer, Softmax) for k in (0, 1)}
    found = [Hidden(tuple(run), widths[run[0]]) for run in _joined(network.layers) if fixed.isdisjoint(run)]
    if network.context is not None:
        behind = _widths(network.context_layers, network.context[1])
        found += [Hidden((i,), width, second=True) for i, width in enumerate(behind) if i > 0]
    if not found:
        raise RefusalError(NO_STREAM, "a network whose input or output is its only stream", PLAIN)
    return tuple(found)


def _widths(layers: tuple[Layer, ...], features: int) -> list[int]:
    """Of the states before, between and behind the layers."""
    found = [features]
    for layer in layers:
        match layer:
            case Linear(terms):
                mapped = next((term.map for term in terms if term.map is not None), None)
                found.append(found[-1] if mapped is None else mapped.shape[-1])
            case Attention(heads):
                found.append(heads[0].output.shape[1])
            case Softmax():
                found.append(found[-1])
    return found


def _joined(layers: tuple[Layer, ...]) -> Iterator[list[int]]:
    """Runs of states that residuals make one."""
    run = [0]
    for i, layer in enumerate(layers, start=1):
        if isinstance(layer, Attention) and layer.residual:
            run.append(i)
        else:
            yield run
            run = [i]
    yield run


def carried(network: Network, coordinates: Mapping[Hidden, Coordinates]) -> Network:
    """The network with other coordinates in these streams, and the same ones in all others."""
    of_state = {state: each for stream, each in coordinates.items() if not stream.second for state in stream.states}
    of_second = {state: each for stream, each in coordinates.items() if stream.second for state in stream.states}
    told = of_second.get(len(network.context_layers))
    layers = tuple(
        _carried(layer, of_state.get(i), of_state.get(i + 1), told) for i, layer in enumerate(network.layers)
    )
    context = tuple(
        _linear(layer, of_second.get(i), of_second.get(i + 1)) for i, layer in enumerate(network.context_layers)
    )
    return replace(network, layers=layers, context_layers=context)


def _carried(layer: Layer, before: Coordinates | None, after: Coordinates | None, told: Coordinates | None) -> Layer:
    match layer:
        case Linear():
            return _linear(layer, before, after)
        case Attention(heads):
            return replace(layer, heads=tuple(_head(head, before, after, told) for head in heads))
        case Softmax():
            return layer


def _linear(layer: Linear, before: Coordinates | None, after: Coordinates | None) -> Linear:
    constant = layer.constant if layer.constant is None or after is None else layer.constant @ after.write
    return Linear(tuple(replace(term, map=_map(term, before, after)) for term in layer.terms), constant)


def _map(term: Term, before: Coordinates | None, after: Coordinates | None) -> Array | None:
    """R P E, in which whatever is left out is the identity."""
    factors = [
        None if before is None else before.read,
        term.map,
        None if after is None else after.write,
    ]
    product: Array | None = None
    for factor in factors:
        if factor is not None:
            product = factor if product is None else product @ factor
    return product


def _head(head: Head, before: Coordinates | None, after: Coordinates | None, told: Coordinates | None) -> Head:
    keys = told if head.key_rows is not None and head.key_rows.source == "context" else before
    return replace(
        head,
        query=head.query if before is None else before.read @ head.query,
        output=head.output if after is None else head.output @ after.write,
        key=head.key if keys is None or head.key is None else keys.read @ head.key,
        value=head.value if keys is None or head.value is None else keys.read @ head.value,
    )


def readers(network: Network, stream: Hidden) -> Array:
    """All matrices that read a stream, side by side, (m, columns): the zero column where nobody does."""
    found = [np.zeros((stream.width, 1))]
    for state in stream.states:
        layers = network.context_layers if stream.second else network.layers
        layer = layers[state] if state < len(layers) else None
        if isinstance(layer, Linear):
            maps = [np.eye(stream.width) if term.map is None else term.map for term in layer.terms]
            found += [part for each in maps for part in each.reshape(-1, *each.shape[-2:])]
        elif isinstance(layer, Attention):
            found += [part for head in layer.heads for part in _read_by(head, second=False)]
        elif stream.second:
            found += [part for head in network.heads for part in _read_by(head, second=True)]
    return np.hstack(found)


def _read_by(head: Head, *, second: bool) -> list[Array]:
    """The maps of a head that read the state, or the second input."""
    of_second = head.key_rows is not None and head.key_rows.source == "context"
    told = [each for each in (head.key, head.value) if each is not None and of_second == second]
    return told if second else [head.query, *told]

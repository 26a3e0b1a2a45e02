r"""Distractor heads: they attend and write like the others, and nothing that counts reads what they write.

Every stream that heads write into gets as many features more as there are distractors a layer, and what reads it gets
zeros for them (:mod:`.streams`, E = (1 0), R its transpose). Each layer gets heads made after its own: of a random one
of them the shapes, the rows asked and read, and the sizes of queries and keys; the numbers are Gaussian. They read all
of the stream, one another included, and write along random directions of the new features. Heads that compute the
function have no weight on these, so it is what it was, to the last bit.

In a random basis (:mod:`.basis`) the new features are no longer to be seen, and weights that were zero are products
that cancel to rounding. A proof charges that with the size of what a distractor can write: its largest value, since
softmax weights add up to 1. They claim to be distractors, but no proof takes their word: what is read of one by whoever
counts enters the bound.

Where all heads write the output itself, a last map is added that takes the outputs and leaves the rest.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from attnforge.certification.stream import DISTRACTOR
from attnforge.errors import RefusalError, TargetError
from attnforge.network import Attention, Claims, Head, Linear, Network, Term
from attnforge.zoo.knobs.streams import PLAIN, Coordinates, Hidden, carried, hidden_streams

Array = npt.NDArray[np.float64]


def with_distractors(network: Network, count: int, rng: np.random.Generator) -> Network:
    """The network with ``count`` further heads in every layer of attention that writes into a hidden stream."""
    if type(count) is not int or count < 1:
        raise TargetError("`distractors` is a number of heads a layer", repr(count)[:40], "Use 0, 1, 2, ..")
    ended, streams = network, _written_streams(network)
    if not streams:
        ended = _with_read_out(network)
        streams = _written_streams(ended)
    if not streams:
        got = "a network whose input or output is its only stream"
        raise RefusalError("Distractors write into a stream that no input or output is", got, PLAIN)
    wider = carried(ended, {stream: _wider(stream, count) for stream in streams.values()})
    layers = list(wider.layers)
    for i, stream in streams.items():
        layers[i] = _crowded(layers[i], stream.width, count, rng)
    return replace(wider, layers=tuple(layers))


def _written_streams(network: Network) -> dict[int, Hidden]:
    """The hidden streams that layers of attention write into, by the numbers of the layers."""
    own = {state: stream for stream in hidden_streams(network) if not stream.second for state in stream.states}
    return {i: own[i + 1] for i, layer in enumerate(network.layers) if isinstance(layer, Attention) and i + 1 in own}


def _with_read_out(network: Network) -> Network:
    """The network with a last map, where heads write the output by themselves."""
    last = network.layers[-1]
    if not isinstance(last, Attention) or last.residual:
        return network
    read_out = Linear((Term(np.eye(last.heads[0].output.shape[1])),))
    return replace(network, layers=(*network.layers, read_out))


def _wider(stream: Hidden, count: int) -> Coordinates:
    write = np.eye(stream.width, stream.width + count)
    return Coordinates(write, write.T)


def _crowded(layer: object, written: int, count: int, rng: np.random.Generator) -> Attention:
    """The layer with distractors, which write features from ``written`` on, at random places among its heads."""
    assert isinstance(layer, Attention)
    heads = list(layer.heads)
    for model in rng.choice(len(layer.heads), size=count):
        distractor = _distractor(layer.heads[model], written, rng)
        heads.insert(int(rng.integers(len(heads) + 1)), distractor)
    return replace(layer, heads=tuple(heads))


def _distractor(model: Head, written: int, rng: np.random.Generator) -> Head:
    """A head like this one that writes features from ``written`` on.

    Queries and keys have its sizes, so that it is as sharp. Values are of size 1: what a distractor can write is as
    large as its largest value, and heads that multiply hold values up to the inverse of their smallest weights.
    """
    shown = {name: _drawn(getattr(model, name), rng) for name in ("query", "key", "memory_keys")}
    told = {name: _drawn(getattr(model, name), rng, size=1.0) for name in ("value", "memory_values")}
    output = np.zeros(model.output.shape)
    output[:, written:] = rng.normal(size=output[:, written:].shape)
    output /= np.linalg.norm(output, axis=1, keepdims=True)
    claims = Claims(DISTRACTOR, 0.0, np.zeros(1), ())
    return replace(model, **shown, **told, output=output, claims=claims)  # type: ignore[arg-type]


def _drawn(array: Array | None, rng: np.random.Generator, size: float | None = None) -> Array | None:
    """Gaussian numbers in the shape of an array, with its Frobenius norm or with this largest entry."""
    if array is None:
        return None
    drawn = rng.normal(size=array.shape)
    factor = np.linalg.norm(array) / np.linalg.norm(drawn) if size is None else size / np.abs(drawn).max()
    return np.asarray(drawn * factor)

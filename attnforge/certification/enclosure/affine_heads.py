"""One layer of heads over constant keys, read from a network: scores affine in the input, exact as balls."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from flint import arb, arb_mat

from attnforge.errors import CertificateError
from attnforge.network import Attention, Head, Linear, Network

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class AffineHead:
    """Scores slopes . x + offsets of p keys with values (p, k), as balls that contain the exact numbers.

    ``slopes`` (D, p), ``offsets`` (1, p), ``values`` (p, k).
    """

    slopes: arb_mat
    offsets: arb_mat
    values: arb_mat


def read_heads(network: Network) -> tuple[tuple[Linear, ...], tuple[Head, ...]]:
    """The linear maps before the only layer of attention, and its heads; anything else is refused."""
    *before, last = network.layers
    encode = tuple(layer for layer in before if isinstance(layer, Linear))
    plain = isinstance(last, Attention) and not last.residual and len(encode) == len(before)
    if not isinstance(last, Attention) or not plain or network.tokens != 1 or network.context_layers:
        got = ", ".join(type(layer).__name__ for layer in network.layers)
        raise CertificateError("This proof covers linear maps and one layer of attention over constant keys", got)
    for head in last.heads:
        if head.key_rows is not None or head.memory_keys is None or head.query_rows.indices is not None:
            raise CertificateError("Keys and values are the heads' own memory", "keys from tokens", "Rebuild it")
    return encode, last.heads


def affine_head(encode: tuple[Linear, ...], head: Head, inputs: int) -> AffineHead:
    """The head's scores as affine functions of the input: products of the weights, in balls."""
    slope, offset = arb_mat(inputs, inputs, np.eye(inputs).ravel().tolist()), arb_mat(1, inputs)
    for layer in encode:
        slope, offset = _through(layer, slope, offset)
    keys, values = head.memory_keys, head.memory_values
    if keys is None or values is None:
        raise CertificateError("Keys and values are the heads' own memory", "none", "Rebuild it")
    seen = _balls(head.query) * _balls(keys.T)
    return AffineHead(slope * seen, offset * seen, _balls(values) * _balls(head.output))


def _through(layer: Linear, slope: arb_mat, offset: arb_mat) -> tuple[arb_mat, arb_mat]:
    """An affine function of the only token, sent through a linear map."""
    if len(layer.terms) != 1 or layer.terms[0].mix is not None or layer.terms[0].map is None:
        raise CertificateError("The only token passes one map", "a sum or a mixing of tokens", "Rebuild it")
    weights = _balls(layer.terms[0].map)
    moved = offset * weights
    return slope * weights, moved if layer.constant is None else moved + _balls(layer.constant)


def _balls(array: Array) -> arb_mat:
    rows, columns = array.shape
    return arb_mat(rows, columns, [arb(float(value)) for value in array.ravel()])

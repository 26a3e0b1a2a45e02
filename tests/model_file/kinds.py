"""One small model of every kind a file can hold, from the catalogue."""

from functools import partial

import attnforge as af
from attnforge.model_file import StoredModel
from tests.catalogue import network

KINDS = {
    "formula": partial(network, "sine"),
    "formula of two inputs": partial(network, "grid"),
    "graph": partial(network, "graph"),
    "truncated linear": partial(network, "truncated, tokens"),
    "literal": partial(network, "gate, literal"),
    "relu": partial(network, "deep relu"),
    "callable": partial(network, "callable on a row"),
    "joint callable": partial(network, "cross-attention"),
    "table": partial(network, "table"),
    "float32": partial(network, "clamp", "float32"),
}


def stored(net: af.Compiled) -> StoredModel:
    """What a file of it holds."""
    return StoredModel(net.network, net.target, net.certificate, net.construction, net.dtype, net.reason)

"""The intermediate representation: networks made of linear maps and softmax attention, as frozen NumPy data.

Rows are tokens. A network maps an (n, m) array to an (n', m') array; everything is batched over leading axes.
"""

from attnforge.network.apply import (
    apply,
    apply_layer,
    attention_weights,
    constant_features,
    count_pairs,
    layers_in,
    weights_and_values,
)
from attnforge.network.architecture import check_architecture, output_shape, rows_named
from attnforge.network.causal import CausalEdge, CausalGraph, CausalNode, causal_graph
from attnforge.network.describe import count_keys, describe
from attnforge.network.editing import (
    head_places,
    moved,
    scaled,
    with_head,
    with_heads,
    without_head,
    without_keys,
)
from attnforge.network.flatten import content_digest, count_parameters, digest, flatten
from attnforge.network.layers import FEW, Attention, Claims, Head, Layer, Linear, Rows, Softmax, Term
from attnforge.network.network import Network, rounded, unflatten

__all__ = [
    "FEW",
    "Attention",
    "CausalEdge",
    "CausalGraph",
    "CausalNode",
    "Claims",
    "Head",
    "Layer",
    "Linear",
    "Network",
    "Rows",
    "Softmax",
    "Term",
    "apply",
    "apply_layer",
    "attention_weights",
    "causal_graph",
    "check_architecture",
    "constant_features",
    "content_digest",
    "count_keys",
    "count_pairs",
    "count_parameters",
    "describe",
    "digest",
    "flatten",
    "head_places",
    "layers_in",
    "moved",
    "output_shape",
    "rounded",
    "rows_named",
    "scaled",
    "unflatten",
    "weights_and_values",
    "with_head",
    "with_heads",
    "without_head",
    "without_keys",
]

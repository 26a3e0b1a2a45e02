"""The theorems by name: each function builds one construction with the numbers given and returns it certified."""

from attnforge.constructions.bumps import softmax_tail, two_layer
from attnforge.constructions.cells import cross_attention, max_affine
from attnforge.constructions.fitted import additive, graph, polynomial, ridge, sparse_grid, tensor_grid
from attnforge.constructions.rectified import relu_network
from attnforge.constructions.registers import exponential, logistic, multiplier
from attnforge.constructions.tables import table
from attnforge.constructions.truncated import gate, multihead_truncated_linear, truncated_linear

__all__ = [
    "additive",
    "cross_attention",
    "exponential",
    "gate",
    "graph",
    "logistic",
    "max_affine",
    "multihead_truncated_linear",
    "multiplier",
    "polynomial",
    "relu_network",
    "ridge",
    "softmax_tail",
    "sparse_grid",
    "table",
    "tensor_grid",
    "truncated_linear",
    "two_layer",
]

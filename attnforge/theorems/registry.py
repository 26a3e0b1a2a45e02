"""The list of constructions. A new one is a new file and an entry here; tables, laws and doors follow."""

from __future__ import annotations

from typing import Any

from attnforge.errors import RefusalError
from attnforge.theorems.cell_averages import CellAverages
from attnforge.theorems.construction import Construction
from attnforge.theorems.cross_attention import CrossAttention
from attnforge.theorems.exponential import Exponential
from attnforge.theorems.free_cells import FreeCells
from attnforge.theorems.gate import Gate
from attnforge.theorems.graph.construction import GraphConstruction
from attnforge.theorems.logistic import Logistic
from attnforge.theorems.max_affine import MaxAffine
from attnforge.theorems.multihead_truncated_linear import MultiheadTruncatedLinear
from attnforge.theorems.multiplier import Multiplier
from attnforge.theorems.polynomial import PolynomialHead
from attnforge.theorems.relu_network import ReluNetworkConstruction
from attnforge.theorems.softmax_tail import SoftmaxTail
from attnforge.theorems.sparse_grid import SparseGrid
from attnforge.theorems.structured import Additive, Ridge
from attnforge.theorems.table import TableHead
from attnforge.theorems.tensor_grid import TensorGrid
from attnforge.theorems.truncated_linear import TruncatedLinearHead
from attnforge.theorems.two_layer import TwoLayer

STAGES: tuple[tuple[Construction[Any], ...], ...] = (
    (Gate(), TruncatedLinearHead(), MultiheadTruncatedLinear(), ReluNetworkConstruction()),
    (GraphConstruction(),),
    (Ridge(), Additive()),
    (PolynomialHead(), TensorGrid(), SparseGrid(), TableHead()),
    (Multiplier(), Exponential(), Logistic()),
    (TwoLayer(), SoftmaxTail(), MaxAffine(), CrossAttention()),
)
"""Exact gadgets, graphs, fitted heads, heads on registers, hard cells: a later one for what earlier ones refuse."""

CONSTRUCTIONS: tuple[Construction[Any], ...] = tuple(entry for stage in STAGES for entry in stage)

VARIANTS: tuple[Construction[Any], ...] = (FreeCells(), CellAverages())
"""Constructions under the name of another, which nothing chooses: their public function is asked for them."""


def construction(name: str) -> Construction[Any]:
    """The construction of that name.

    >>> construction("gate").rate
    'O(1/sharpness), 3 keys'
    """
    by_name = {entry.name: entry for stage in STAGES for entry in stage}
    if name not in by_name:
        requirement = f"`construction` must be 'auto' or one of {', '.join(by_name)}"
        raise RefusalError(requirement, repr(name), "Choose one of these")
    return by_name[name]

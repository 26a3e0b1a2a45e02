"""The list of constructions. A new theorem is a new file and a line here."""

from __future__ import annotations

from typing import Any

from attnforge.errors import RefusalError
from attnforge.theorems.construction import Construction
from attnforge.theorems.cross_attention import CrossAttention
from attnforge.theorems.gate import Gate
from attnforge.theorems.max_affine import MaxAffine
from attnforge.theorems.multihead_truncated_linear import MultiheadTruncatedLinear
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
    (Ridge(), Additive()),
    (PolynomialHead(), TensorGrid(), SparseGrid(), TableHead()),
    (TwoLayer(), SoftmaxTail(), MaxAffine(), CrossAttention()),
)
"""Exact gadgets, fitted heads, hard cells: a later stage is for what the earlier ones refuse."""

CONSTRUCTIONS: tuple[Construction[Any], ...] = tuple(entry for stage in STAGES for entry in stage)


def construction(name: str) -> Construction[Any]:
    """The construction of that name.

    >>> construction("gate").rate
    'O(1/sharpness), 3 keys'
    """
    found = [entry for entry in CONSTRUCTIONS if entry.name == name]
    if not found:
        names = ", ".join(entry.name for entry in CONSTRUCTIONS)
        raise RefusalError(f"`construction` must be 'auto' or one of {names}", repr(name), "Choose one of these")
    return found[0]

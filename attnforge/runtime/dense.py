"""The dense kernel: like heads stacked and run by one call of ``scaled_dot_product_attention``.

Three cases, by where the keys come from. *Memory only*: keys do not depend on the batch, so the whole batch is one long
row of queries. *Own token*: each query has a few keys to itself; a million such attentions of three keys would drown
in the fused kernel's overhead, so their softmax is written out, accumulated in float32 or better as the kernel does.
*Rows*: ordinary attention; where one second input serves the batch, again one long row of queries. Values are
zero-padded to the width of queries and keys (or the reverse): otherwise PyTorch falls back to a kernel an order of
magnitude slower. The sharpness is folded into the weights, so the scale is 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from attnforge.errors import DomainError
from attnforge.network import Head, Rows
from attnforge.runtime.weights import keep


def group_heads(heads: tuple[Head, ...]) -> tuple[list[int], list[list[Head]]]:
    """Heads of equal shape and rows together, and for each head its place in the concatenated groups."""
    groups: dict[object, list[int]] = {}
    for i, head in enumerate(heads):
        groups.setdefault(_signature(head), []).append(i)
    flat = [i for members in groups.values() for i in members]
    return [flat.index(i) for i in range(len(heads))], [[heads[i] for i in members] for members in groups.values()]


def write(groups: Sequence[HeadGroup], state: Tensor, context: Tensor | None, total: Tensor | None) -> Tensor:
    """Add the outputs of groups with common query rows to ``total`` (batch, n, m_out): one product for all of them."""
    joined = torch.cat([group(state, context) for group in groups], dim=-1)
    written = joined @ torch.cat([group.output.flatten(0, 1) for group in groups])
    rows = groups[0].query_rows
    if rows is None:
        return written if total is None else total + written
    base = written.new_zeros(state.shape[0], state.shape[1], written.shape[-1]) if total is None else total
    return base.index_add(1, rows, written)


class HeadGroup(nn.Module):
    """Heads of the same shape and rows, stacked along a first axis."""

    query: Tensor
    output: Tensor
    key: Tensor | None
    value: Tensor | None
    memory_keys: Tensor | None
    memory_values: Tensor | None
    query_rows: Tensor | None
    key_rows: Tensor | None

    def __init__(self, heads: list[Head], dtype: torch.dtype, trainable: bool) -> None:
        super().__init__()
        for name in ("query", "key", "value", "output", "memory_keys", "memory_values"):
            arrays = [getattr(head, name) for head in heads]
            keep(self, name, None if arrays[0] is None else np.stack(arrays), dtype, trainable)
        self.own_only = heads[0].key_rows is not None and heads[0].key_rows.kind == "own"
        self.from_context = heads[0].key_rows is not None and heads[0].key_rows.source == "context"
        self.register_buffer("query_rows", _indices(heads[0].query_rows))
        self.register_buffer("key_rows", _indices(heads[0].key_rows))

    def forward(self, state: Tensor, context: Tensor | None) -> Tensor:
        """The heads' means of their values, side by side: (batch, query, heads * v)."""
        if self.own_only:
            weights, values = self._own(state)
            mixed = (weights.unsqueeze(-2) @ values).squeeze(-2).to(self.output.dtype).unsqueeze(0)
        else:
            mixed = _attend(*self._project(state, context))
        rows = state.shape[1] if self.query_rows is None else len(self.query_rows)
        return mixed.transpose(1, 2).reshape(state.shape[0], rows, self.output.shape[0] * self.output.shape[1])

    def weights(self, state: Tensor, context: Tensor | None) -> list[Tensor]:
        """Softmax weights (batch, query, key) of every head."""
        if self.own_only:
            weights = self._own(state)[0].unsqueeze(0)
        else:
            queries, keys, _ = (_wide(part) for part in self._project(state, context))
            weights = torch.softmax(queries @ keys.transpose(-1, -2), dim=-1)
        weights = weights.to(self.output.dtype)
        rows = state.shape[1] if self.query_rows is None else len(self.query_rows)
        heads = weights.shape[1]
        return [weights[:, h].reshape(state.shape[0], rows, weights.shape[-1]) for h in range(heads)]

    def _project(self, state: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values (batch or 1, heads, tokens, width)."""
        asking = state if self.query_rows is None else state.index_select(1, self.query_rows)
        if self.key is None or self.value is None:
            assert self.memory_keys is not None
            assert self.memory_values is not None
            queries = _each(asking.reshape(-1, asking.shape[-1]), self.query)
            return queries.unsqueeze(0), self.memory_keys.unsqueeze(0), self.memory_values.unsqueeze(0)
        told = self._told(state, context).unsqueeze(1)
        one = told.shape[0] == 1  # the same keys for the whole batch: one long row of queries
        asking = asking.reshape(1, 1, -1, asking.shape[-1]) if one else asking.unsqueeze(1)
        keys, values = told @ self.key, told @ self.value
        if self.memory_keys is not None and self.memory_values is not None:
            keys = torch.cat([self.memory_keys.expand(keys.shape[0], -1, -1, -1), keys], dim=2)
            values = torch.cat([self.memory_values.expand(values.shape[0], -1, -1, -1), values], dim=2)
        return asking @ self.query, keys, values

    def _own(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """Softmax weights (heads, queries, keys) and values (heads, queries, keys, v) of heads with own keys."""
        assert self.key is not None
        assert self.value is not None
        asking = state if self.query_rows is None else state.index_select(1, self.query_rows)
        flat = asking.reshape(-1, asking.shape[-1])
        queries, keys, values = (_wide(_each(flat, weight)) for weight in (self.query, self.key, self.value))
        scores = queries.unsqueeze(-2) @ keys.unsqueeze(-1)
        values = values.unsqueeze(-2)
        if self.memory_keys is not None and self.memory_values is not None:
            remembered = queries @ _wide(self.memory_keys).transpose(-1, -2)
            scores = torch.cat([remembered.unsqueeze(-2), scores], dim=-1)
            constant = _wide(self.memory_values).unsqueeze(1).expand(-1, values.shape[1], -1, -1)
            values = torch.cat([constant, values], dim=-2)
        return torch.softmax(scores.squeeze(-2), dim=-1), values

    def _told(self, state: Tensor, context: Tensor | None) -> Tensor:
        source = context if self.from_context else state
        if source is None:
            raise DomainError("This network reads a second input (its keys and values)", "one input", "Call net(X, Y)")
        return source if self.key_rows is None else source.index_select(1, self.key_rows)


def _each(rows: Tensor, weights: Tensor) -> Tensor:
    """Rows (N, m) times the matrix (m, r) of every head, (heads, N, r): one product, since many thin ones are slow."""
    heads, _, width = weights.shape
    return (rows @ weights.transpose(0, 1).flatten(1)).reshape(len(rows), heads, width).transpose(0, 1)


def _attend(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Softmax attention with scale 1, values and keys padded to one width."""
    width, out = queries.shape[-1], values.shape[-1]
    if out < width:
        values = functional.pad(values, (0, width - out))
    elif width < out:
        queries, keys = functional.pad(queries, (0, out - width)), functional.pad(keys, (0, out - width))
    return functional.scaled_dot_product_attention(queries, keys, values, scale=1.0)[..., :out]


def _wide(tensor: Tensor) -> Tensor:
    """At least float32: scores and weighted sums are not accumulated in a half type."""
    return tensor.float() if tensor.dtype in (torch.bfloat16, torch.float16) else tensor


def _signature(head: Head) -> object:
    arrays = (head.query, head.key, head.value, head.output, head.memory_keys)
    shapes = tuple(None if array is None else array.shape for array in arrays)
    return shapes, rows_key(head.query_rows), rows_key(head.key_rows)


def rows_key(rows: Rows | None) -> object:
    """Equal for equal rows."""
    if rows is None:
        return None
    return rows.kind, rows.source, None if rows.indices is None else rows.indices.tobytes()


def _indices(rows: Rows | None) -> Tensor | None:
    return None if rows is None or rows.indices is None else torch.tensor(rows.indices)

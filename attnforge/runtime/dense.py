"""The dense kernel: like heads stacked and run by one call of ``scaled_dot_product_attention``.

Three cases, by where the keys come from. *Memory only*: keys do not depend on the batch, so the whole batch is one long
row of queries. *Own token*: each query has its few keys to itself, so queries join the batch. *Rows*: ordinary
attention. Values are zero-padded to the width of queries and keys (or the reverse): otherwise PyTorch falls back to a
kernel an order of magnitude slower. The sharpness is folded into the weights, so the scale is 1.
"""

from __future__ import annotations

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

    def forward(self, state: Tensor, context: Tensor | None, total: Tensor | None) -> Tensor:
        """Add the heads' outputs at their query rows to ``total`` (batch, n, m_out)."""
        queries, keys, values = self._project(state, context)
        mixed = _attend(queries, keys, values)  # (batch or 1, heads, query, v)
        written = (mixed @ self.output).sum(dim=1)
        rows = state.shape[1] if self.query_rows is None else len(self.query_rows)
        written = written.reshape(state.shape[0], rows, -1)
        if self.query_rows is None:
            return written if total is None else total + written
        base = written.new_zeros(state.shape[0], state.shape[1], written.shape[-1]) if total is None else total
        return base.index_add(1, self.query_rows, written)

    def weights(self, state: Tensor, context: Tensor | None) -> list[Tensor]:
        """Softmax weights (batch, query, key) of every head."""
        queries, keys, _ = self._project(state, context)
        wide = torch.promote_types(queries.dtype, torch.float32)
        weights = torch.softmax(queries.to(wide) @ keys.to(wide).transpose(-1, -2), dim=-1).to(queries.dtype)
        rows = state.shape[1] if self.query_rows is None else len(self.query_rows)
        heads = weights.shape[1]
        return [weights[:, h].reshape(state.shape[0], rows, -1) for h in range(heads)]

    def _project(self, state: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values (batch or 1, heads, tokens, width)."""
        asking = state if self.query_rows is None else state.index_select(1, self.query_rows)
        if self.key is None or self.value is None:
            assert self.memory_keys is not None
            assert self.memory_values is not None
            flat = asking.reshape(1, 1, -1, asking.shape[-1])
            return flat @ self.query, self.memory_keys.unsqueeze(0), self.memory_values.unsqueeze(0)
        if self.own_only:
            asking = asking.reshape(-1, 1, 1, asking.shape[-1])
            told = asking
        else:
            asking, told = asking.unsqueeze(1), self._told(state, context).unsqueeze(1)
        keys, values = told @ self.key, told @ self.value
        if self.memory_keys is not None and self.memory_values is not None:
            keys = torch.cat([self.memory_keys.expand(keys.shape[0], -1, -1, -1), keys], dim=2)
            values = torch.cat([self.memory_values.expand(values.shape[0], -1, -1, -1), values], dim=2)
        return asking @ self.query, keys, values

    def _told(self, state: Tensor, context: Tensor | None) -> Tensor:
        source = context if self.from_context else state
        if source is None:
            raise DomainError("This network reads a second input (its keys and values)", "one input", "Call net(X, Y)")
        return source if self.key_rows is None else source.index_select(1, self.key_rows)


def _attend(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Softmax attention with scale 1, values and keys padded to one width."""
    width, out = queries.shape[-1], values.shape[-1]
    if out < width:
        values = functional.pad(values, (0, width - out))
    elif width < out:
        queries, keys = functional.pad(queries, (0, out - width)), functional.pad(keys, (0, out - width))
    return functional.scaled_dot_product_attention(queries, keys, values, scale=1.0)[..., :out]


def _signature(head: Head) -> object:
    arrays = (head.query, head.key, head.value, head.output, head.memory_keys)
    shapes = tuple(None if array is None else array.shape for array in arrays)
    return shapes, _rows_key(head.query_rows), _rows_key(head.key_rows)


def _rows_key(rows: Rows | None) -> object:
    if rows is None:
        return None
    return rows.kind, rows.source, None if rows.indices is None else rows.indices.tobytes()


def _indices(rows: Rows | None) -> Tensor | None:
    return None if rows is None or rows.indices is None else torch.tensor(rows.indices)

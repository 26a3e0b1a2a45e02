"""The dense and the batched kernel: like heads stacked, and run at once.

Three cases, by what the keys are. *Few constants, and the own token*, the batched kernel: a million attentions of three
keys would drown in the overhead of ``scaled_dot_product_attention``, so their softmax is written out, in float32 or
better, queries last in memory: softmax over a few numbers side by side is slow, over a few rows it is as fast as its
exponentials. Certificates rest on this (:attr:`attnforge.network.Head.is_small`). *Many constants*: the whole batch is
one long row of queries. *Rows*: ordinary attention; where one second input serves the batch, again one long row of
queries. Values are zero-padded to the width of queries and keys (or the reverse): otherwise PyTorch falls back to a
kernel an order of magnitude slower. The sharpness is folded into the weights, so the scale is 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from attnforge.errors import DomainError
from attnforge.network import Head, Rows
from attnforge.runtime.arithmetic import HALVES, halves_stay_halves
from attnforge.runtime.tracing import has_tangent, is_plain, parts
from attnforge.runtime.weights import keep

HELD = 2**18  # scores held at once where a softmax is written out: two megabytes in float64, which caches hold


class Kernel(Protocol):
    """Heads of equal query rows, however they run: their means, and where and by what these are written."""

    query_rows: Tensor | None
    output: Tensor

    def __call__(self, state: Tensor, context: Tensor | None) -> Tensor:
        """The heads' means of their values, one head below the other, a column a query: (heads * v, batch * query)."""


def group_heads(heads: tuple[Head, ...]) -> tuple[list[int], list[list[Head]]]:
    """Heads of equal shape and rows together, and for each head its place in the concatenated groups."""
    groups: dict[object, list[int]] = {}
    for i, head in enumerate(heads):
        groups.setdefault(_signature(head), []).append(i)
    flat = [i for members in groups.values() for i in members]
    return [flat.index(i) for i in range(len(heads))], [[heads[i] for i in members] for members in groups.values()]


def write(groups: Sequence[Kernel], means: Tensor, state: Tensor, total: Tensor | None) -> Tensor:
    """Add the outputs of groups with common query rows to ``total`` (batch, n, m_out): one product for all of them.

    ``means`` (heads * v, batch * query) are those of all groups.
    """
    means = means.T
    output = joined([group.output.flatten(0, 1) for group in groups], 0)
    rows = groups[0].query_rows
    shape = (state.shape[0], state.shape[1] if rows is None else len(rows), output.shape[1])
    if rows is None and total is not None:
        return torch.addmm(total.flatten(0, 1), means, output).reshape(shape)
    written = (means @ output).reshape(shape)
    if rows is None:
        return written
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
        told = heads[0].key_rows
        self.written_out = heads[0].is_small or (told is not None and told.kind == "own")
        self.from_context = told is not None and told.source == "context"
        self.at_once = max(1, HELD // (len(heads) * (heads[0].memory_size + 1)))
        self._seen: dict[str, tuple[Tensor, int, tuple[Tensor, Tensor] | None]] = {}
        self.register_buffer("query_rows", row_indices(heads[0].query_rows))
        self.register_buffer("key_rows", row_indices(told))

    def forward(self, state: Tensor, context: Tensor | None) -> Tensor:
        """The heads' means of their values, one head below the other, a column a query: (heads * v, batch * query)."""
        if not self.written_out:
            mixed = attend(*self._project(state, context))
            return mixed.permute(1, 3, 0, 2).flatten(2).flatten(0, 1)
        asking = parts(asking_rows(state, self.query_rows).flatten(0, 1), self.at_once)
        return joined([self._mean(part.T.contiguous()) for part in asking], 1)

    def weights(self, state: Tensor, context: Tensor | None) -> list[Tensor]:
        """Softmax weights (batch, query, key) of every head."""
        if self.written_out:
            asking = asking_rows(state, self.query_rows).flatten(0, 1)
            weights = torch.softmax(self._scores(asking.T), dim=1).transpose(1, 2)
        else:
            queries, keys, _ = (wide(part) for part in self._project(state, context))
            weights = torch.softmax(queries @ keys.transpose(-1, -2), dim=-1).transpose(0, 1)
        rows = state.shape[1] if self.query_rows is None else len(self.query_rows)
        return [each.to(self.output.dtype).reshape(state.shape[0], rows, weights.shape[-1]) for each in weights]

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        before = self.output.dtype, self.output.device
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if before != (self.output.dtype, self.output.device):  # a parameter is the same object then
            self._seen.clear()
        return self

    def _project(self, state: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values (batch or 1, heads, tokens, width)."""
        asking = asking_rows(state, self.query_rows)
        if self.key is None or self.value is None:
            assert self.memory_keys is not None
            assert self.memory_values is not None
            queries = asking.flatten(0, 1) @ self.query.transpose(0, 1).flatten(1)  # features last: the kernel needs it
            queries = queries.reshape(1, -1, self.query.shape[0], self.query.shape[2]).transpose(1, 2)
            return queries, self.memory_keys.unsqueeze(0), self.memory_values.unsqueeze(0)
        told = self.told(state, context).unsqueeze(1)
        one = told.shape[0] == 1  # the same keys for the whole batch: one long row of queries
        asking = asking.reshape(1, 1, -1, asking.shape[-1]) if one else asking.unsqueeze(1)
        keys, values = told @ self.key, told @ self.value
        if self.memory_keys is not None and self.memory_values is not None:
            keys = torch.cat([self.memory_keys.expand(keys.shape[0], -1, -1, -1), keys], dim=2)
            values = torch.cat([self.memory_values.expand(values.shape[0], -1, -1, -1), values], dim=2)
        return asking @ self.query, keys, values

    def _scores(self, asking: Tensor) -> Tensor:
        """Scores (heads, keys, N) of tokens (m, N) that ask, with constant keys and their own."""
        queries = wide(self._each(asking, "query"))
        found = [] if self.memory_keys is None else [wide(self.memory_keys) @ queries]
        if self.key is not None:
            found.append((queries * wide(self._each(asking, "key"))).sum(dim=1, keepdim=True))
        return joined(found, 1)

    def _mean(self, asking: Tensor) -> Tensor:
        """Means of values (heads * v, N) of tokens (m, N) that ask."""
        weights = torch.softmax(self._scores(asking), dim=1)
        constant = own = None
        if self.memory_values is not None:
            constant = wide(self.memory_values).transpose(1, 2) @ weights[:, : self.memory_values.shape[1]]
        if self.value is not None:
            own = weights[:, -1:] * wide(self._each(asking, "value"))
        mean = constant if own is None else own if constant is None else constant + own
        assert mean is not None
        return mean.to(self.output.dtype).flatten(0, 1)

    def _each(self, asking: Tensor, name: str) -> Tensor:
        """Tokens (m, N) times the matrix (m, r) of every head, (heads, r, N): one product, many thin ones are slow.

        Most heads read a feature or a constant at a time: then features are picked and scaled, which is the same.
        """
        weights: Tensor = getattr(self, name)
        heads, _, width = weights.shape
        picked = None if weights.requires_grad or torch.compiler.is_compiling() else self._picked(weights, name)
        if picked is None:
            return (weights.transpose(1, 2).flatten(0, 1) @ asking).reshape(heads, width, -1)
        features, scales = picked
        return (asking.index_select(0, features) * scales).reshape(heads, width, -1)

    def _picked(self, weights: Tensor, name: str) -> tuple[Tensor, Tensor] | None:
        """For every column the feature it reads, and its weight; None if one reads several. Known until it changes."""
        seen, version, found = self._seen.get(name, (None, 0, None))
        if seen is not weights and not (is_plain(weights) and _has_version(weights)):
            return None
        if seen is not weights or version != weights._version:
            numbers = weights.detach()
            if not is_plain(numbers):  # the first call is one under jvp or vmap, where no tensor shows its numbers
                return None
            columns = numbers.cpu().double().transpose(1, 2).flatten(0, 1).numpy()
            features = np.abs(columns).argmax(axis=1)
            scales = np.take_along_axis(columns, features[:, None], axis=1)
            alone = bool(((columns != 0).sum(axis=1) <= 1).all())
            found = (
                (torch.from_numpy(features).to(weights.device), torch.from_numpy(scales).to(weights)) if alone else None
            )
            self._seen[name] = weights, weights._version, found
        return found

    def told(self, state: Tensor, context: Tensor | None) -> Tensor:
        """The tokens (batch or 1, k, m) that keys and values are made of."""
        source = context if self.from_context else state
        if source is None:
            raise DomainError("This network reads a second input (its keys and values)", "one input", "Call net(X, Y)")
        return source if self.key_rows is None else source.index_select(1, self.key_rows)


def asking_rows(state: Tensor, rows: Tensor | None) -> Tensor:
    """The tokens (batch, query, m) that ask."""
    return state if rows is None else state.index_select(1, rows)


def joined(found: Sequence[Tensor], dim: int) -> Tensor:
    """Parts one after the other; one alone is not copied."""
    return found[0] if len(found) == 1 else torch.cat(list(found), dim=dim)


def attend(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Softmax attention with scale 1, values and keys padded to one width."""
    if has_tangent(queries, keys, values) or halves_stay_halves(values.dtype):
        queries, keys, wider = (wide(each) for each in (queries, keys, values))
        return (torch.softmax(queries @ keys.transpose(-1, -2), dim=-1) @ wider).to(values.dtype)
    width, out = queries.shape[-1], values.shape[-1]
    if out < width:
        values = functional.pad(values, (0, width - out))
    elif width < out:
        queries, keys = functional.pad(queries, (0, out - width)), functional.pad(keys, (0, out - width))
    return functional.scaled_dot_product_attention(queries, keys, values, scale=1.0)[..., :out]


def wide(tensor: Tensor) -> Tensor:
    """At least float32: scores and weighted sums are not accumulated in a half type."""
    return tensor.float() if tensor.dtype in HALVES else tensor


def _has_version(tensor: Tensor) -> bool:
    """Whether it says when its numbers have changed, and has any: what was made in inference mode does not say."""
    return not (tensor.is_inference() or tensor.is_meta)


def _signature(head: Head) -> object:
    arrays = (head.query, head.key, head.value, head.output, head.memory_keys)
    shapes = tuple(None if array is None else array.shape for array in arrays)
    return shapes, rows_key(head.query_rows), rows_key(head.key_rows)


def rows_key(rows: Rows | None) -> object:
    """Equal for equal rows."""
    if rows is None:
        return None
    return rows.kind, rows.source, None if rows.indices is None else rows.indices.tobytes()


def row_indices(rows: Rows | None) -> Tensor | None:
    """Listed rows as a buffer holds them."""
    return None if rows is None or rows.indices is None else torch.tensor(rows.indices)

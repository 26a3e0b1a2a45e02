"""Heads with hooks: each on its own, its softmax written out, every value handed to its point."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from attnforge.runtime.dense import Kernel, asking_rows, joined, wide
from attnforge.runtime.hooks import HeadHooks, watched


def hooked_means(kernel: Kernel, hooks: Mapping[int, HeadHooks], state: Tensor, context: Tensor | None) -> Tensor:
    """What the kernel gives, (heads * v, batch * query), with the heads that have hooks written out."""
    count = len(kernel.output)
    others = () if len(hooks) == count else kernel(state, context).tensor_split(count)
    found = (
        _mixed(kernel, j, state, context, hooks[j]).flatten(0, 1).T if j in hooks else others[j] for j in range(count)
    )
    return joined(list(found), 0)


def _mixed(kernel: Any, j: int, state: Tensor, context: Tensor | None, hooks: HeadHooks) -> Tensor:
    """The means of the values of one head, (batch, query, v)."""
    asking = asking_rows(state, kernel.query_rows)
    queries = wide(asking @ kernel.query[j].to(asking))
    parts = []  # scores (batch, query, k) of some keys, and what gives their mean of values
    if kernel.memory_keys is not None:
        keys, values = (wide(each[j].to(asking)) for each in (kernel.memory_keys, kernel.memory_values))
        parts.append((queries @ keys.T, values))
    if kernel.key is not None:
        told = asking.unsqueeze(-2) if kernel.written_out else kernel.told(state, context)
        keys, values = wide(told @ kernel.key[j]), wide(told @ kernel.value[j])
        if kernel.written_out:  # a token's own key: a product for every token
            parts.append(((queries.unsqueeze(-2) @ keys.transpose(-1, -2)).squeeze(-2), values))
        else:
            parts.append((queries @ keys.transpose(-1, -2), values))
    scores = watched(hooks.hook_attn_scores, joined([scores for scores, _ in parts], -1))
    pattern = watched(hooks.hook_pattern, torch.softmax(scores, dim=-1))
    shares = torch.split(pattern, [scores.shape[-1] for scores, _ in parts], dim=-1)
    mean = _weighted(shares[0], parts[0][1])
    for share, (_, values) in zip(shares[1:], parts[1:], strict=True):
        mean = mean + _weighted(share, values)
    return watched(hooks.hook_z, mean.to(kernel.output.dtype))


def _weighted(weights: Tensor, values: Tensor) -> Tensor:
    """Sums (batch, query, v) of values (k, v) or (batch, k, v), or of those of every token, (batch, query, k, v)."""
    return (weights.unsqueeze(-2) @ values).squeeze(-2) if values.dim() == 4 else weights @ values

"""Heads inside a torch module, seen while it runs: ``nn.MultiheadAttention`` anywhere in it, and our own heads.

Forward hooks note what each attention is given; nothing of the module is changed, and the hooks are taken off again. An
attention that is called several times is seen at its first call.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from attnforge.balls import MACHINES
from attnforge.errors import TargetError
from attnforge.measurement.diagnosis.network_views import head_view
from attnforge.measurement.diagnosis.view import HeadView
from attnforge.network import Head, Rows
from attnforge.runtime.dense import HeadGroup

Array = npt.NDArray[np.float64]
Call = tuple[tuple[Any, ...], dict[str, Any]]

QUERIES = 2**22  # query-key pairs looked at, a head


def module_views(module: nn.Module, inputs: tuple[Any, ...]) -> list[HeadView]:
    """Run ``module(*inputs)`` and look at every head of attention in it.

    A bare ``nn.MultiheadAttention`` may be given one input, then query, key and value alike.
    """
    if isinstance(module, nn.MultiheadAttention) and len(inputs) == 1:
        inputs = inputs * 3
    calls: dict[str, Call] = {}
    hooks = [
        part.register_forward_pre_hook(_noting(calls, name), with_kwargs=True)
        for name, part in module.named_modules()
        if isinstance(part, nn.MultiheadAttention | HeadGroup)
    ]
    try:
        with torch.no_grad():
            module(*inputs)
    finally:
        for hook in hooks:
            hook.remove()
    parts = dict(module.named_modules())
    if not calls:
        got = f"{type(module).__name__} without any that was called"
        remedy = "Pass its weights: af.diagnose(AttentionWeights(query, key, value), x)"
        raise TargetError("A module is diagnosed by its nn.MultiheadAttention", got, remedy)
    views: list[HeadView] = []
    for layer, (name, call) in enumerate(calls.items()):
        part = parts[name]
        seen = _of_torch(part, call) if isinstance(part, nn.MultiheadAttention) else _of_ours(part, call)
        views += [_named(view, layer, name) for view in seen]
    return views


def _noting(calls: dict[str, Call], name: str) -> Callable[..., None]:
    def note(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        calls.setdefault(name, (args, kwargs))

    return note


def _of_ours(group: nn.Module, call: Call) -> list[HeadView]:
    """The heads of one group, rebuilt from its buffers as the dtype holds them."""
    assert isinstance(group, HeadGroup)
    state, context = call[0][0], call[0][1] if len(call[0]) > 1 else call[1].get("context")
    dtype = str(group.output.dtype).removeprefix("torch.")
    with torch.no_grad():
        weights = group.weights(state, context)
    told = None if context is None else _numpy(context.expand(state.shape[0], -1, -1))
    return [head_view(_head(group, h), 0, h, dtype, _numpy(state), told, _numpy(ran)) for h, ran in enumerate(weights)]


def _head(group: HeadGroup, number: int) -> Head:
    def part(name: str) -> Array | None:
        tensor = getattr(group, name)
        return None if tensor is None else _numpy(tensor[number])

    query, output = part("query"), part("output")
    assert query is not None
    assert output is not None
    asking = Rows() if group.query_rows is None else Rows.some(_numpy(group.query_rows))
    source = "context" if group.from_context else "state"
    told: Rows | None = None
    if group.key is not None:
        told = Rows("own") if group.own_only else Rows(source=source)  # type: ignore[arg-type]
        if group.key_rows is not None:
            told = Rows.some(_numpy(group.key_rows), source)  # type: ignore[arg-type]
    return Head(query, output, asking, part("key"), part("value"), told, part("memory_keys"), part("memory_values"))


def _of_torch(module: nn.MultiheadAttention, call: Call) -> list[HeadView]:
    """The heads of a MultiheadAttention at the tokens it was given, masks and biases included."""
    named = dict(zip(("query", "key", "value", "key_padding_mask", "need_weights", "attn_mask"), call[0], strict=False))
    named |= call[1]
    query, key = (_batch_first(module, named[name]) for name in ("query", "key"))
    dtype = str(module.out_proj.weight.dtype).removeprefix("torch.")
    if dtype not in MACHINES:
        raise TargetError("The module's dtype must be one of " + ", ".join(MACHINES), dtype, "Cast it with .to")
    low, high = _projections(module, query, key, torch.float64), _projections(module, query, key, query.dtype)
    bias = _bias(module, named, query, key.shape[1], low[1].shape[2])
    wide = torch.float32 if query.dtype in (torch.float16, torch.bfloat16) else query.dtype
    scores = high[0].to(wide) @ high[1].to(wide).transpose(-1, -2)
    ran = torch.softmax(scores + bias.to(wide), dim=-1)
    return [_head_of(low, ran, bias, dtype, h) for h in range(module.num_heads)]


def _head_of(exact: tuple[Tensor, Tensor], ran: Tensor, bias: Tensor, dtype: str, number: int) -> HeadView:
    """One head, at as many queries as memory allows."""
    queries, keys = exact[0][:, number], exact[1][:, number]
    rows, p, r = queries.shape[0] * queries.shape[1], keys.shape[1], keys.shape[2]
    step = max(1, rows * p * r // QUERIES)
    chosen = torch.arange(0, rows, step)
    entry = torch.div(chosen, queries.shape[1], rounding_mode="floor")
    masks = bias.expand(queries.shape[0], ran.shape[1], queries.shape[1], p)[:, number].reshape(rows, p)[chosen]
    return HeadView(
        0,
        number,
        _numpy(queries.reshape(rows, r)[chosen]),
        _numpy(keys[entry]),
        _numpy(ran[:, number].reshape(rows, p)[chosen]),
        dtype,
        bias=_numpy(masks) if bool((masks != 0).any()) else None,
        ours=False,
    )


def _projections(module: nn.MultiheadAttention, query: Tensor, key: Tensor, kind: torch.dtype) -> tuple[Tensor, Tensor]:
    """Scaled queries and keys (B, H, n, r) in a dtype; torch's constant bias key and zero key come last."""
    size, heads = module.embed_dim, module.num_heads
    joined: Tensor | None = module.in_proj_weight  # None where keys have a width of their own
    if joined is not None:
        weight_q, weight_k = joined[:size], joined[size : 2 * size]
    else:
        weight_q, weight_k = module.q_proj_weight, module.k_proj_weight
    asked, told = (x.to(kind) @ w.to(kind).T for x, w in ((query, weight_q), (key, weight_k)))
    if module.in_proj_bias is not None:
        asked, told = asked + module.in_proj_bias[:size].to(kind), told + module.in_proj_bias[size : 2 * size].to(kind)
    if module.bias_k is not None:
        told = torch.cat([told, module.bias_k.to(kind).expand(len(told), 1, size)], dim=1)
    if module.add_zero_attn:
        told = torch.cat([told, told.new_zeros(len(told), 1, size)], dim=1)
    split = [x.reshape(*x.shape[:-1], heads, size // heads).transpose(1, 2) for x in (asked, told)]
    return split[0] / math.sqrt(size // heads), split[1]


def _bias(module: nn.MultiheadAttention, named: dict[str, Any], query: Tensor, keys: int, columns: int) -> Tensor:
    """What masks add to the scores, (B or 1, H or 1, n, columns): the columns beyond the keys are never masked."""
    total = torch.zeros(1, 1, query.shape[1], columns, dtype=torch.float64)
    mask, padding = named.get("attn_mask"), named.get("key_padding_mask")
    if mask is not None:
        added = _as_bias(mask)
        shape = (-1, module.num_heads, *added.shape[-2:]) if added.dim() == 3 else (1, 1, *added.shape)
        total = total + nn.functional.pad(added.reshape(shape), (0, columns - keys))
    if padding is not None:
        added = _as_bias(padding)
        total = total + nn.functional.pad(added.reshape(-1, 1, 1, keys), (0, columns - keys))
    return total


def _as_bias(mask: Tensor) -> Tensor:
    zeros = torch.zeros(mask.shape, dtype=torch.float64)
    return zeros.masked_fill(mask, -math.inf) if mask.dtype == torch.bool else mask.to(torch.float64)


def _batch_first(module: nn.MultiheadAttention, tokens: Tensor) -> Tensor:
    if tokens.dim() == 2:
        return tokens.unsqueeze(0)
    return tokens if module.batch_first else tokens.transpose(0, 1)


def _named(view: HeadView, layer: int, name: str) -> HeadView:
    return replace(view, layer=layer, name=name)


def _numpy(tensor: Tensor) -> Any:
    if not tensor.is_floating_point():
        return tensor.detach().cpu().numpy()
    return tensor.detach().to("cpu", torch.float64).numpy()

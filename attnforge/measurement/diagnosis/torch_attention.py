"""``nn.MultiheadAttention`` at one call: the queries looked at, their keys and masks, copied while the module runs.

What was given to a call may be changed later by the module, so it is copied; only for the queries that are looked at,
so that the copies fit in memory. Scores and weights are made from the copies, head by head.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attnforge.errors import TargetError
from attnforge.measurement.diagnosis.view import HeadView, chosen_rows
from attnforge.outward import MACHINES

NAMES = ("query", "key", "value", "key_padding_mask", "need_weights", "attn_mask")


@dataclass(frozen=True, eq=False)
class TorchCall:
    """Tokens (N, m) of N queries, tokens (E, p, m') of the keys of their batch entries, and which entry is whose.

    ``bias`` (N, 1 or H, columns) is what masks add to the scores, ``blind`` how many queries see no key at all.
    """

    module: nn.MultiheadAttention
    queries: Tensor
    keys: Tensor
    entry: Tensor
    bias: Tensor | None
    dtype: str
    blind: int

    def views(self) -> Iterator[HeadView]:
        """The heads, masks and biases included."""
        wide = torch.float32 if self.queries.dtype in (torch.float16, torch.bfloat16) else self.queries.dtype
        for number in range(self.module.num_heads):
            exact, real = (self._projected(number, kind) for kind in (torch.float64, self.queries.dtype))
            bias = None if self.bias is None else self.bias[:, number if self.bias.shape[1] > 1 else 0]
            scores = (real[1].to(wide)[self.entry] @ real[0].to(wide)[..., None])[..., 0]
            scores = scores if bias is None else scores + bias.to(wide)
            yield HeadView(
                0,
                number,
                _numpy(exact[0]),
                _numpy(exact[1][self.entry]),
                _numpy(torch.softmax(scores, dim=-1)),
                self.dtype,
                bias=None if bias is None else _numpy(bias),
                ours=False,
                blind=self.blind,
            )

    @torch.no_grad()
    def _projected(self, number: int, kind: torch.dtype) -> tuple[Tensor, Tensor]:
        """Scaled queries (N, r) and keys (E, columns, r); torch's constant bias key and zero key come last."""
        module, r = self.module, self.module.head_dim
        size, cut = module.embed_dim, slice(number * r, (number + 1) * r)
        joined: Tensor | None = module.in_proj_weight  # None where keys have a width of their own
        both = (
            (joined[:size], joined[size : 2 * size])
            if joined is not None
            else (module.q_proj_weight, module.k_proj_weight)
        )
        asked, told = (x.to(kind) @ w[cut].to(kind).T for x, w in zip((self.queries, self.keys), both, strict=True))
        if module.in_proj_bias is not None:
            asked, told = (
                x + b[cut].to(kind) for x, b in zip((asked, told), module.in_proj_bias.reshape(3, -1)[:2], strict=True)
            )
        if module.bias_k is not None:
            told = torch.cat([told, module.bias_k[..., cut].to(kind).expand(len(told), 1, r)], dim=1)
        if module.add_zero_attn:
            told = torch.cat([told, told.new_zeros(len(told), 1, r)], dim=1)
        return asked / math.sqrt(r), told


def torch_call(module: nn.MultiheadAttention, args: tuple[Any, ...], kwargs: dict[str, Any], seed: int) -> TorchCall:
    """What the attention is given, at as many queries as memory allows."""
    named = dict(zip(NAMES, args, strict=False)) | kwargs
    dtype = str(module.out_proj.weight.dtype).removeprefix("torch.")
    if dtype not in MACHINES:
        raise TargetError("The module's dtype must be one of " + ", ".join(MACHINES), dtype, "Cast it with .to")
    query, key = (_batch_first(module, named[name]) for name in ("query", "key"))
    columns = key.shape[1] + (module.bias_k is not None) + module.add_zero_attn
    mask, padding = _by_head(module, named.get("attn_mask")), _by_entry(named.get("key_padding_mask"))
    seeing = torch.ones(query.shape[:2], dtype=torch.bool)
    if columns == key.shape[1]:
        seeing = _seeing(mask, padding, query.shape[0], query.shape[1])
    rows = np.flatnonzero(seeing.cpu().numpy())
    chosen = rows[chosen_rows(len(rows), columns * module.head_dim, seed)]
    entry, position = (torch.from_numpy(part).to(query.device) for part in np.divmod(chosen, query.shape[1]))
    entries, own = torch.unique(entry, return_inverse=True)
    bias = _bias(mask, padding, entry, position, columns)
    blind = seeing.numel() - len(rows)
    return TorchCall(module, query[entry, position], key[entries], own, bias, dtype, blind)


def _seeing(mask: Tensor | None, padding: Tensor | None, batch: int, tokens: int) -> Tensor:
    """Which queries (B, n) some key is allowed to, in every head."""
    unmasked = None if padding is None else padding > -math.inf  # (B, p)
    if mask is None:
        everywhere = torch.ones(batch, 1, dtype=torch.bool) if unmasked is None else unmasked.any(dim=1, keepdim=True)
        return everywhere.expand(batch, tokens)
    allowed = mask > -math.inf  # (B or 1, H or 1, n, p)
    if unmasked is None:
        return allowed.any(dim=-1).all(dim=1).expand(batch, tokens)
    if len(mask) == 1 and mask.shape[1] == 1:  # how many keys both allow, without a (B, n, p) array
        return unmasked.float() @ allowed[0, 0].float().T > 0
    return (allowed & unmasked[:, None, None]).any(dim=-1).all(dim=1).expand(batch, tokens)


def _bias(mask: Tensor | None, padding: Tensor | None, entry: Tensor, position: Tensor, columns: int) -> Tensor | None:
    """What masks add to the scores of the chosen queries; the columns beyond the keys are never masked."""
    if mask is None and padding is None:
        return None
    total = torch.zeros(len(entry), 1, 1, dtype=torch.float64, device=entry.device)
    if mask is not None:
        total = total + mask[entry if len(mask) > 1 else 0 * entry, :, position]
    if padding is not None:
        total = total + padding[entry][:, None]
    return nn.functional.pad(total, (0, columns - total.shape[-1]))


def _by_head(module: nn.MultiheadAttention, mask: Tensor | None) -> Tensor | None:
    """A mask (n, p) or (B H, n, p) as numbers to add, (B or 1, H or 1, n, p)."""
    if mask is None:
        return None
    return _added(mask).reshape(-1, module.num_heads if mask.dim() == 3 else 1, *mask.shape[-2:])


def _by_entry(padding: Tensor | None) -> Tensor | None:
    """A mask (p,) or (B, p) as numbers to add, (B, p)."""
    return None if padding is None else _added(padding).reshape(-1, padding.shape[-1])


def _added(mask: Tensor) -> Tensor:
    zeros = torch.zeros(mask.shape, dtype=torch.float64, device=mask.device)
    return zeros.masked_fill(mask, -math.inf) if mask.dtype == torch.bool else mask.to(torch.float64)


def _batch_first(module: nn.MultiheadAttention, tokens: Tensor) -> Tensor:
    if tokens.dim() == 2:
        return tokens.unsqueeze(0)
    return tokens if module.batch_first else tokens.transpose(0, 1)


def _numpy(tensor: Tensor) -> Any:
    return tensor.detach().to("cpu", torch.float64).numpy()

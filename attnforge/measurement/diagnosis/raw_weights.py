r"""Somebody's own attention, given by its weights: out = softmax(scale (x W_Q + b_Q)(x W_K + b_K)^T) (x W_V + b_V)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from attnforge.balls import machine, round_to
from attnforge.errors import TargetError
from attnforge.measurement.diagnosis.view import HeadView

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class AttentionWeights:
    """Heads of one attention, ready to be diagnosed.

    ``query``, ``key`` (m, H r) act on tokens (rows) from the right, as in ``x @ query``; a torch ``nn.Linear`` holds
    the transpose. ``value`` (m, H v) may be left out: only duplicate keys need it. ``memory_keys`` (p, H r) and
    ``memory_values`` (p, H v) are constant keys that every query sees too; with these and no ``key`` the head sees
    nothing else. ``scale`` is 1 / sqrt(r) where None, as in torch; ``causal`` hides later tokens.
    """

    query: Any
    key: Any = None
    value: Any = None
    query_bias: Any = None
    key_bias: Any = None
    memory_keys: Any = None
    memory_values: Any = None
    heads: int = 1
    scale: float | None = None
    causal: bool = False
    dtype: str = "float32"


def weights_views(weights: AttentionWeights, x: Array) -> list[HeadView]:
    """The heads at the tokens of x (..., n, m), in exact arithmetic and in the dtype."""
    machine(weights.dtype)
    query, key, memory = (_matrix(a) for a in (weights.query, weights.key, weights.memory_keys))
    if query is None or (key is None and memory is None):
        raise TargetError("Attention needs `query` and one of `key`, `memory_keys`", "none", "Give (m, r) matrices")
    width = query.shape[1]
    if width % weights.heads or any(a is not None and a.shape[1] != width for a in (key, memory)):
        got = f"widths {[a.shape[1] for a in (query, key, memory) if a is not None]} and {weights.heads} heads"
        raise TargetError("Queries and keys have H r features each", got, "Transpose, or correct `heads`")
    if x.ndim < 2 or x.shape[-1] != query.shape[0]:
        raise TargetError(f"Tokens have {query.shape[0]} features", f"shape {x.shape}", "Pass x (..., n, m)")
    tokens = round_to(x.reshape(-1, *x.shape[-2:]), weights.dtype)
    scale = weights.scale if weights.scale is not None else 1 / math.sqrt(width // weights.heads)
    low, high = _Exact(weights, query, key, memory, scale), _InDtype(weights, query, key, memory, scale)
    return [_view(weights, h, tokens, low, high) for h in range(weights.heads)]


class _Exact:
    """Queries and keys of the weights as they are, rounded to the dtype and then computed with in float64."""

    def __init__(
        self, weights: AttentionWeights, query: Array, key: Array | None, memory: Array | None, scale: float
    ) -> None:
        self.query, self.scale, self.heads = query, scale, weights.heads
        self.key, self.memory = key, memory
        self.query_bias, self.key_bias = _matrix(weights.query_bias), _matrix(weights.key_bias)

    def parts(self, tokens: Array, head: int) -> tuple[Array, Array]:
        """Queries (B, n, r), scaled, and keys (p, r) or (B, p, r)."""
        r = self.query.shape[1] // self.heads
        cut = slice(head * r, (head + 1) * r)
        queries = tokens @ self.query[:, cut] + (0.0 if self.query_bias is None else self.query_bias[0, cut])
        remembered = None if self.memory is None else self.memory[:, cut]
        if self.key is None:
            assert remembered is not None
            return queries * self.scale, remembered
        keys = tokens @ self.key[:, cut] + (0.0 if self.key_bias is None else self.key_bias[0, cut])
        if remembered is not None:
            keys = np.concatenate([np.broadcast_to(remembered, (len(keys), *remembered.shape)), keys], axis=1)
        return queries * self.scale, keys


class _InDtype(_Exact):
    """The same in torch and in the dtype; scores of half types are accumulated in float32, as torch's kernels do."""

    def ran(self, tokens: Array, head: int, dtype: str, bias: Array | None) -> Array:
        """Softmax weights (B, n, p)."""
        kind = getattr(torch, dtype)
        r = self.query.shape[1] // self.heads
        cut = slice(head * r, (head + 1) * r)

        def held(array: Array) -> torch.Tensor:
            return torch.from_numpy(np.array(array, dtype=np.float64)).to(kind)

        given = held(tokens)
        queries = given @ held(self.query[:, cut])
        queries = queries if self.query_bias is None else queries + held(self.query_bias[0, cut])
        keys = None if self.key is None else given @ held(self.key[:, cut])
        if keys is not None and self.key_bias is not None:
            keys = keys + held(self.key_bias[0, cut])
        if self.memory is not None:
            remembered = held(self.memory[:, cut]).expand(len(given), -1, -1)
            keys = remembered if keys is None else torch.cat([remembered, keys], dim=1)
        assert keys is not None
        wide = torch.float32 if kind in (torch.float16, torch.bfloat16) else kind
        scores = (queries.to(wide) * self.scale) @ keys.to(wide).transpose(-1, -2)
        scores = scores if bias is None else scores + torch.from_numpy(bias).to(wide)
        return np.asarray(torch.softmax(scores, dim=-1).double().numpy())


def _view(weights: AttentionWeights, head: int, tokens: Array, exact: _Exact, real: _InDtype) -> HeadView:
    queries, keys = exact.parts(tokens, head)
    bias = _causal(tokens.shape[1], keys.shape[-2]) if weights.causal and exact.key is not None else None
    with torch.no_grad():
        ran = real.ran(tokens, head, weights.dtype, bias)
    rows = queries.shape[0] * queries.shape[1]
    constant = keys.ndim == 2
    if not constant:
        keys = np.broadcast_to(keys[:, None], (*queries.shape[:2], *keys.shape[1:])).reshape(rows, *keys.shape[1:])
    spread = None if bias is None else np.broadcast_to(bias, (len(tokens), *bias.shape)).reshape(rows, -1)
    values = _matrix(weights.memory_values) if constant else None
    return HeadView(
        0,
        head,
        queries.reshape(rows, -1),
        keys,
        ran.reshape(rows, -1),
        weights.dtype,
        values,
        spread,
        constant,
        ours=False,
    )


def _causal(tokens: int, keys: int) -> Array:
    """Minus infinity where a key token comes after the query's; constant keys come first and are always seen."""
    later = np.triu(np.ones((tokens, tokens), dtype=bool), 1)
    seen = np.zeros((tokens, keys - tokens), dtype=bool)
    return np.where(np.hstack([seen, later]), -np.inf, 0.0)


def _matrix(given: Any) -> Array | None:
    """A float64 matrix from NumPy or torch; a vector becomes one row."""
    if given is None:
        return None
    array = given.detach().to("cpu", torch.float64).numpy() if isinstance(given, torch.Tensor) else given
    try:
        found = np.atleast_2d(np.asarray(array, dtype=np.float64))
    except (TypeError, ValueError):
        raise TargetError("Weights must be matrices of numbers", repr(given)[:80], "Give arrays or tensors") from None
    if found.ndim != 2 or not np.isfinite(found).all():
        raise TargetError("Weights must be finite matrices", f"shape {found.shape}", "Give (m, r) arrays")
    return found

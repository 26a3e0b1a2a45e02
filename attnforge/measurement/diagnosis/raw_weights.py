r"""Somebody's own attention, given by its weights: out = softmax(scale (x W_Q + b_Q)(x W_K + b_K)^T) (x W_V + b_V)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from attnforge.arrays import float64
from attnforge.errors import DomainError, TargetError
from attnforge.measurement.diagnosis.view import HeadView, Indices, chosen_rows
from attnforge.outward import machine, round_to

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class AttentionWeights:
    """Heads of one attention, ready to be diagnosed.

    ``query``, ``key`` (m, H r) act on tokens (rows) from the right, as in ``x @ query``; a torch ``nn.Linear`` holds
    the transpose. ``value`` (m, H v) may be left out: it has no part in the scores. ``memory_keys`` (p, H r) and
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


def weights_views(weights: AttentionWeights, x: Array, seed: int = 0) -> Iterator[HeadView]:
    """The heads at the tokens of x (..., n, m), in exact arithmetic and in the dtype, one after the other.

    ``seed`` draws the queries looked at, where there are too many for the memory.
    """
    checked = _checked(weights)
    if x.ndim < 2 or x.shape[-1] != checked.features or not x.size:
        raise DomainError(f"Tokens have {checked.features} features", f"shape {x.shape}", "Pass x (..., n, m)")
    tokens = round_to(x.reshape(-1, *x.shape[-2:]), weights.dtype)
    chosen = chosen_rows(tokens.shape[0] * tokens.shape[1], checked.numbers(tokens.shape[1]), seed)
    return (checked.view(head, tokens, chosen) for head in range(checked.heads))


@dataclass(frozen=True, eq=False)
class _Checked:
    """The same as float64 matrices that fit each other."""

    query: Array
    key: Array | None
    query_bias: Array
    key_bias: Array
    memory: Array | None
    values: Array | None
    heads: int
    scale: float
    causal: bool
    dtype: str

    @property
    def features(self) -> int:
        return int(self.query.shape[0])

    @property
    def width(self) -> int:
        return int(self.query.shape[1]) // self.heads

    def numbers(self, tokens: int) -> int:
        """How many numbers one query holds: its weights, and where keys differ by batch entry the keys."""
        remembered = 0 if self.memory is None else len(self.memory)
        return remembered if self.key is None else (remembered + tokens) * self.width

    def view(self, head: int, tokens: Array, chosen: Indices) -> HeadView:
        """One head at some queries, counted through all entries of the batch."""
        entry, position = np.divmod(chosen, tokens.shape[1])
        entries, own = np.unique(entry, return_inverse=True)
        asking, told, cut = tokens[entry, position], tokens[entries], self._columns(head)
        queries, keys = (part.numpy() for part in self._projected(cut, asking, told, torch.float64))
        constant = self.key is None
        bias = None if constant or not self.causal else _causal(position, tokens.shape[1], keys.shape[-2])
        v = 0 if self.values is None else self.values.shape[1] // self.heads
        values = self.values[:, head * v : (head + 1) * v] if constant and self.values is not None else None
        ran = self._ran(cut, asking, told, own, bias)
        keys = keys if constant else keys[own.ravel()]
        return HeadView(0, head, self.scale * queries, keys, ran, self.dtype, values, bias, constant, ours=False)

    def _columns(self, head: int) -> slice:
        return slice(head * self.width, (head + 1) * self.width)

    def _projected(self, cut: slice, asking: Array, told: Array, kind: torch.dtype) -> tuple[Tensor, Tensor]:
        """Queries (N, r), not yet scaled, and keys (p, r) or (E, p, r), computed in a dtype."""

        def held(array: Array) -> Tensor:
            return torch.from_numpy(np.array(array, dtype=np.float64)).to(kind)

        queries = held(asking) @ held(self.query[:, cut]) + held(self.query_bias[cut])
        remembered = None if self.memory is None else held(self.memory[:, cut])
        if self.key is None:
            assert remembered is not None
            return queries, remembered
        keys = held(told) @ held(self.key[:, cut]) + held(self.key_bias[cut])
        if remembered is not None:
            keys = torch.cat([remembered.expand(len(keys), -1, -1), keys], dim=1)
        return queries, keys

    def _ran(self, cut: slice, asking: Array, told: Array, own: Indices, bias: Array | None) -> Array:
        """Softmax weights (N, p) in the dtype; half types accumulate scores in float32, as torch's kernels do."""
        kind = getattr(torch, self.dtype)
        wide = torch.float32 if kind in (torch.float16, torch.bfloat16) else kind
        queries, keys = (part.to(wide) for part in self._projected(cut, asking, told, kind))
        queries = queries * self.scale
        if keys.dim() == 2:
            scores = queries @ keys.T
        else:
            scores = (keys[torch.from_numpy(own.ravel())] @ queries[..., None])[..., 0]
        scores = scores if bias is None else scores + torch.from_numpy(bias).to(wide)
        return np.asarray(torch.softmax(scores, dim=-1).double().numpy())


def _checked(given: AttentionWeights) -> _Checked:
    """Every part a finite matrix of a shape that fits the others."""
    machine(given.dtype)
    heads = given.heads
    if not _is_count(heads):
        raise TargetError("`heads` must be a whole number, at least 1", repr(heads)[:80], "Give the number of heads")
    query, key, memory = (_matrix(name, getattr(given, name)) for name in ("query", "key", "memory_keys"))
    if query is None or (key is None and memory is None):
        raise TargetError("Attention needs `query` and one of `key`, `memory_keys`", "none", "Give (m, r) matrices")
    m, width = query.shape
    if width % heads or any(a is not None and a.shape[1] != width for a in (key, memory)):
        got = f"widths {[a.shape[1] for a in (query, key, memory) if a is not None]} and {heads} heads"
        raise TargetError("Queries and keys have H r features each", got, "Transpose, or correct `heads`")
    values = _matrix("memory_values", given.memory_values)
    for name, part, rows in (("key", key, m), ("value", _matrix("value", given.value), m)):
        _check_rows(name, part, rows, heads, "as many as `query`")
    _check_rows("memory_values", values, 0 if memory is None else len(memory), heads, "as many as `memory_keys`")
    if key is None and given.key_bias is not None:
        raise TargetError("`key_bias` is added to the keys of tokens", "no `key`", "Leave it out")
    query_bias, key_bias = (_vector(name, getattr(given, name), width) for name in ("query_bias", "key_bias"))
    scale = 1 / math.sqrt(width // heads) if given.scale is None else _number("scale", given.scale)
    return _Checked(query, key, query_bias, key_bias, memory, values, heads, scale, bool(given.causal), given.dtype)


def _is_count(given: object) -> bool:
    return isinstance(given, int | np.integer) and not isinstance(given, bool) and int(given) >= 1


def _check_rows(name: str, part: Array | None, rows: int, heads: int, words: str) -> None:
    if part is not None and (len(part) != rows or part.shape[1] % heads):
        wanted = f"`{name}` must have {rows} rows, {words}, and the same number of columns for every head"
        raise TargetError(wanted, f"shape {part.shape} and {heads} heads", "Transpose, or correct it")


def _vector(name: str, given: Any, width: int) -> Array:
    """A bias of one row, zero where there is none."""
    if given is None:
        return np.zeros(width)
    found = _matrix(name, given)
    assert found is not None
    if found.shape != (1, width):
        raise TargetError(f"`{name}` must have shape ({width},)", f"shape {np.shape(given)}", "Flatten it")
    return np.asarray(found[0])


def _number(name: str, given: Any) -> float:
    try:
        found = float(given)
    except (TypeError, ValueError):
        found = math.nan
    if not math.isfinite(found):
        raise TargetError(f"`{name}` must be a finite number", repr(given)[:80], "Leave it out for 1 / sqrt(r)")
    return found


def _causal(position: Indices, tokens: int, keys: int) -> Array:
    """Minus infinity where a key token comes after the query's; constant keys come first and are always seen."""
    later = np.arange(tokens) > position[:, None]
    seen = np.zeros((len(position), keys - tokens), dtype=bool)
    return np.where(np.hstack([seen, later]), -np.inf, 0.0)


def _matrix(name: str, given: Any) -> Array | None:
    """A float64 matrix from NumPy or torch; a vector becomes one row."""
    if given is None:
        return None
    try:
        found = np.atleast_2d(float64(given))
    except DomainError:
        got = repr(given)[:80]
        raise TargetError(f"`{name}` must be a matrix of numbers", got, "Give an array or a tensor") from None
    if found.ndim != 2 or not found.size or not np.isfinite(found).all():
        got = f"shape {found.shape}" if found.ndim != 2 or not found.size else "NaN or infinity"
        raise TargetError(f"`{name}` must be a finite matrix", got, "Give a two-dimensional array")
    return found

"""Keys in shards: what each knows of a softmax, and the merge of two (:mod:`attnforge.lemmas.shards`).

:func:`partial`, :func:`merge` and :func:`mean` are pure functions of tensors: whoever holds some of the keys, in
whatever process, computes a :class:`Partial`, which is 2 + v numbers a query, and the merge of all of them is the
softmax over all keys, equal to the one computed at once but for rounding.

>>> q, K, V = torch.rand(3, 2), torch.rand(200, 2), torch.rand(200, 1)
>>> together = merge(partial(q, K[:70], V[:70]), partial(q, K[70:], V[70:]))
>>> torch.testing.assert_close(mean(together), torch.softmax(q @ K.T, dim=1) @ V)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from attnforge.lemmas.shards import part_count
from attnforge.network import Head
from attnforge.runtime.dense import asking_rows, row_indices, wide
from attnforge.runtime.tracing import is_plain
from attnforge.runtime.weights import keep

KEYS = 2**12  # taken at once: rows of scores long enough for a product of matrices
HELD = 2**16  # scores at once: half a megabyte in float64, which caches hold several of
# Below the first an exponential is less than the smallest normal number; above the second it is computed fast, and
# between them it is less than that of the second by less than half that number.
FAINT = {torch.float64: (-708.4, -708.0), torch.float32: (-87.34, -87.0)}


class Partial(NamedTuple):
    """What some keys know of N queries: largest score (N,), sum of weights relative to it (N,), of values (N, v)."""

    largest: Tensor
    weight: Tensor
    weighted: Tensor


Shard = tuple[Tensor, Tensor]


def partial(queries: Tensor, keys: Tensor, values: Tensor) -> Partial:
    """Of queries (N, r), keys (p, r) and values (p, v); in float32 or better, in memory that does not grow with p."""
    parts = part_count(len(keys), KEYS)
    shards = list(zip(torch.tensor_split(keys, parts), torch.tensor_split(values, parts), strict=True))
    rows = torch.split(wide(queries), max(1, HELD * parts // max(len(keys), 1)))
    found = [reduce(merge, (_part(some, *shard) for shard in shards)) for some in rows]
    return found[0] if len(found) == 1 else Partial(*(torch.cat(each) for each in zip(*found, strict=True)))


def merge(one: Partial, other: Partial) -> Partial:
    """What both know together: associative and commutative but for rounding."""
    largest = torch.maximum(one.largest, other.largest)
    a, b = _exponential(one.largest - largest), _exponential(other.largest - largest)
    weighted = one.weighted * a[:, None] + other.weighted * b[:, None]
    return Partial(largest, one.weight * a + other.weight * b, weighted)


def mean(known: Partial) -> Tensor:
    """The means of values (N, v), once all keys are known."""
    return known.weighted / known.weight[:, None]


class ShardedHead(nn.Module):
    """One head; what it is asked, and answers, is as with :class:`attnforge.runtime.dense.HeadGroup`.

    ``ask`` gives what all shards know of queries (N, r); by default those held here, one after the other.
    """

    query: Tensor
    output: Tensor
    query_rows: Tensor | None
    key = value = key_rows = None
    from_context = written_out = False

    def __init__(self, head: Head, dtype: torch.dtype, shards: int) -> None:
        super().__init__()
        self.count = shards
        for name, array in (("keys", head.memory_keys), ("values", head.memory_values)):
            for i, part in enumerate(np.array_split(np.asarray(array), shards)):
                keep(self, f"{name}{i}", part, dtype, False)
        keep(self, "query", head.query[None], dtype, False)
        keep(self, "output", head.output[None], dtype, False)
        self.register_buffer("query_rows", row_indices(head.query_rows))
        self.ask: Callable[[Tensor], Partial] = self._ask_all

    def forward(self, state: Tensor, _context: Tensor | None) -> Tensor:
        """The means of its values, a column a query: (v, batch * query)."""
        asking = asking_rows(state, self.query_rows).flatten(0, 1)
        return mean(self.ask(asking @ self.query[0])).to(self.output.dtype).T

    def weights(self, state: Tensor, _context: Tensor | None) -> list[Tensor]:
        """Softmax weights (batch, query, key), which only a process that holds all shards has."""
        queries, keys = wide(asking_rows(state, self.query_rows) @ self.query[0]), wide(self.memory_keys[0])
        return [torch.softmax(queries @ keys.T, dim=-1).to(self.output.dtype)]

    def shard(self, number: int) -> Shard:
        """Its keys and values."""
        return self.get_buffer(f"keys{number}"), self.get_buffer(f"values{number}")

    def keep_only(self, number: int) -> None:
        """Forget all other shards."""
        for name in [f"{kind}{i}" for kind in ("keys", "values") for i in range(self.count) if i != number]:
            setattr(self, name, None)

    @property
    def memory_keys(self) -> Tensor:
        """Its keys (1, p, r)."""
        return torch.cat([keys for keys, _ in self._shards()]).unsqueeze(0)

    @property
    def memory_values(self) -> Tensor:
        """Its values (1, p, v)."""
        return torch.cat([values for _, values in self._shards()]).unsqueeze(0)

    def _shards(self) -> Sequence[Shard]:
        return [self.shard(i) for i in range(self.count)]

    def _ask_all(self, queries: Tensor) -> Partial:
        return reduce(merge, (partial(queries, *shard) for shard in self._shards()))


def _part(queries: Tensor, keys: Tensor, values: Tensor) -> Partial:
    """One exponential of every score, written out."""
    scores = queries @ wide(keys).T
    largest = scores.amax(dim=1)
    weights = _exponential(scores - largest[:, None])
    return Partial(largest, weights.sum(dim=1), weights @ wide(values))


def _exponential(exponents: Tensor) -> Tensor:
    """What is below the smallest normal number vanishes: it would take ten times as long as all others.

    The exponents are overwritten, unless torch follows them.
    """
    vanishing, least = FAINT[exponents.dtype]
    faint = exponents < vanishing
    if not is_plain(exponents):
        return torch.exp(exponents.clamp(min=least)).masked_fill(faint, 0.0)
    return exponents.clamp_(min=least).exp_().masked_fill_(faint, 0.0)

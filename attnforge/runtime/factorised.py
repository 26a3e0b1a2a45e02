"""The factorised kernel: one head whose keys are a product of small sets, as small softmaxes and a contraction.

Equal to dense attention in exact arithmetic (:mod:`attnforge.lemmas.product`, where its rounding is bounded, too). With
N keys in d factors of about $N^{1/d}$ a query takes $d N^{1/d}$ exponentials instead of N, and the rest is one product
of matrices: the factors are taken in two halves, weights of a half multiplied out. Everything is written out in float32
or better, queries last in memory. Large batches run in a loop compiled by numba
(:mod:`attnforge.runtime.product_loop`) that divides once, by the product of all sums.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

from attnforge.lemmas.product import places
from attnforge.network import Head
from attnforge.runtime.compiling import is_affordable
from attnforge.runtime.dense import HELD, asking_rows, joined, row_indices, wide
from attnforge.runtime.tracing import is_plain, parts
from attnforge.runtime.weights import keep

COMPILED = 2**18  # exponentials of a batch from which on the compiled loop is worth its start


class FactorisedHead(nn.Module):
    """One head; what it is asked, and answers, is as with :class:`attnforge.runtime.dense.HeadGroup`.

    Its buffers are those of the factors, so that whatever is loaded into them is a product again.
    """

    output: Tensor
    values: Tensor
    query_rows: Tensor | None
    order: Tensor
    key = value = key_rows = None
    from_context = written_out = False

    def __init__(self, head: Head, factors: list[list[int]], dtype: torch.dtype) -> None:
        super().__init__()
        keys, values = np.asarray(head.memory_keys), np.asarray(head.memory_values)
        rows = [places(keys, group) for group in factors]
        self.sizes = [int(row.max()) + 1 for row in rows]
        for j, (group, row) in enumerate(zip(factors, rows, strict=True)):
            keep(self, f"query{j}", head.query[:, group], dtype, False)
            keep(self, f"keys{j}", keys[np.unique(row, return_index=True)[1]][:, group], dtype, False)
        place = np.ravel_multi_index(tuple(rows), tuple(self.sizes))
        self.columns = [column for group in factors for column in group]
        self.split = min(range(1, len(factors)), key=self._held)
        left = math.prod(self.sizes[: self.split])
        keep(self, "values", values[place.argsort()].T.reshape(values.shape[1] * left, -1), dtype, False)
        keep(self, "output", head.output[None], dtype, False)
        self.at_once = max(1, HELD // (values.shape[1] * self._held(self.split)))
        self.register_buffer("query_rows", row_indices(head.query_rows))
        self.register_buffer("order", torch.from_numpy(place), persistent=False)

    def forward(self, state: Tensor, _context: Tensor | None) -> Tensor:
        """The means of its values, a column a query: (v, batch * query)."""
        asking = asking_rows(state, self.query_rows).flatten(0, 1)
        if not torch.compiler.is_compiling() and len(asking) * sum(self.sizes) >= COMPILED:
            half, affordable = wide(self.values) is not self.values, is_affordable("attnforge.runtime.product_loop")
            if affordable and not half and asking.device.type == "cpu" and is_plain(asking, *self.buffers()):
                return self._means(asking)
        return joined([self._mean(part) for part in parts(asking, self.at_once)], 1)

    def weights(self, state: Tensor, _context: Tensor | None) -> list[Tensor]:
        """Softmax weights (batch, query, key)."""
        asking = asking_rows(state, self.query_rows)
        found = _multiplied(self._factors(asking.flatten(0, 1)))[self.order].T.to(self.output.dtype)
        return [found.reshape(state.shape[0], asking.shape[1], len(self.order))]

    @property
    def query(self) -> Tensor:
        """The map to queries (1, m, r) of the whole head."""
        return self._whole([getattr(self, f"query{j}") for j in range(len(self.sizes))])

    @property
    def memory_keys(self) -> Tensor:
        """Its keys (1, N, r)."""
        rows = torch.unravel_index(self.order, self.sizes)
        return self._whole([getattr(self, f"keys{j}")[row] for j, row in enumerate(rows)])

    @property
    def memory_values(self) -> Tensor:
        """Its values (1, N, v)."""
        return self.values.reshape(-1, math.prod(self.sizes))[:, self.order].T.unsqueeze(0)

    def _whole(self, columns: list[Tensor]) -> Tensor:
        """Columns of all factors in the order of the head's."""
        found = torch.cat(columns, dim=1)
        return (
            torch.empty_like(found).index_copy(1, torch.tensor(self.columns, device=found.device), found).unsqueeze(0)
        )

    def _mean(self, asking: Tensor) -> Tensor:
        weights = self._factors(asking)
        left, right = _multiplied(weights[: self.split]), _multiplied(weights[self.split :])
        inner = (wide(self.values) @ right).reshape(len(self.values) // len(left), *left.shape)
        return (inner * left).sum(dim=1).to(self.output.dtype)

    def _means(self, asking: Tensor) -> Tensor:
        """The same by the compiled loop."""
        from attnforge.runtime.product_loop import means  # numba takes a second to import

        factors = range(len(self.sizes))
        queries = asking @ torch.cat([getattr(self, f"query{j}") for j in factors], dim=1)
        keys = torch.block_diag(*[getattr(self, f"keys{j}") for j in factors])  # type: ignore[no-untyped-call]
        return torch.from_numpy(means(queries.numpy(), keys.numpy(), self.sizes, self.split, self.values.numpy()))

    def _factors(self, asking: Tensor) -> list[Tensor]:
        """The softmax (p_j, N) of every factor."""
        rows = asking.T
        maps = [(getattr(self, f"query{j}"), getattr(self, f"keys{j}")) for j in range(len(self.sizes))]
        return [torch.softmax(wide(keys) @ wide(query.T @ rows), dim=0) for query, keys in maps]

    def _held(self, split: int) -> int:
        """Numbers a query and an output that a split holds: weights of both halves."""
        return math.prod(self.sizes[:split]) + math.prod(self.sizes[split:])


def _multiplied(weights: list[Tensor]) -> Tensor:
    """All products (p_1 * .. * p_j, N) of one weight a factor."""
    total = weights[0]
    for each in weights[1:]:
        total = (total.unsqueeze(1) * each).flatten(0, 1)
    return total

"""The window kernel: one head over a product of even rows of keys, of which a query meets the nearest few.

What is left out weighs at most ``tail`` (:mod:`attnforge.lemmas.window`). Positions along the rows are computed in
float64, whatever the dtype: differences to the nearest key are exact to a rounding of the query, where products of
queries with far keys would have lost them. Large batches run in a loop compiled by numba
(:mod:`attnforge.runtime.window_loop`), with one exponential a row and query; small ones, for which compiling would take
longer, those that are differentiated, and other devices, in torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from attnforge.lemmas.window import MOST, Row, half_width
from attnforge.network import Head
from attnforge.runtime.compiling import is_affordable
from attnforge.runtime.dense import HELD, asking_rows, attend, joined, row_indices
from attnforge.runtime.tracing import is_plain, parts
from attnforge.runtime.weights import keep

Array = npt.NDArray[np.float64]

PAIRS = 2**15  # of queries and keys, below which dense attention takes less time than finding windows
COMPILED = 2**19  # weights of a batch from which on the compiled loop is worth its start


class WindowHead(nn.Module):
    """One head; what it is asked, and answers, is as with :class:`attnforge.runtime.dense.HeadGroup`.

    Unless windows are ``forced``, few queries of few keys are answered by dense attention, which takes less time.
    """

    output: Tensor
    values: Tensor
    query_rows: Tensor | None
    queries: Tensor
    lines: Tensor
    place: Tensor
    key = value = key_rows = None
    from_context = written_out = False

    def __init__(self, head: Head, rows: list[Row], dtype: torch.dtype, tail: float, forced: bool = True) -> None:
        super().__init__()
        self.least = 0 if forced else PAIRS
        self.head, self.rows, self.sizes = head, rows, tuple(row.size for row in rows)
        self.counts = [min(2 * half_width(row.sharpness, tail / len(rows)) + 1, row.size) for row in rows]
        place = np.ravel_multi_index(tuple(row.place for row in rows), self.sizes)
        values = np.asarray(head.memory_values)[place.argsort()]
        columns = [head.query[:, row.columns[0]] / row.square for row in rows]
        lines = [[row.tie, row.spacing, row.sharpness] for row in rows]
        self.register_buffer("queries", torch.tensor(np.stack(columns)))
        self.register_buffer("lines", torch.tensor(lines, dtype=torch.float64))
        self.register_buffer("place", torch.from_numpy(place), persistent=False)
        self.register_buffer("query_rows", row_indices(head.query_rows))
        keep(self, "values", values.T.reshape(-1, *self.sizes), dtype, False)
        keep(self, "output", head.output[None], dtype, False)

    def forward(self, state: Tensor, _context: Tensor | None) -> Tensor:
        """The means of its values, a column a query: (v, batch * query)."""
        asking = asking_rows(state, self.query_rows).flatten(0, 1)
        here = asking.device.type == "cpu" and not torch.compiler.is_compiling()
        if here and len(asking) * len(self.place) < self.least:
            query, keys = self._maps
            return attend((asking @ query)[None, None], keys, self.values.flatten(1).T[None, None])[0, 0].T
        large = here and len(asking) * math.prod(self.counts) >= COMPILED
        if not (large and is_plain(asking, *self.buffers()) and is_affordable("attnforge.runtime.window_loop")):
            some = parts(asking, max(1, HELD // math.prod(self.counts)))
            return joined([self._mean(part) for part in some], 1)
        from attnforge.runtime.window_loop import line, product  # numba takes a second to import

        values = self.values.numpy()
        out = np.empty((len(values), len(asking)), dtype=values.dtype)
        tables = [_table(*each) for each in zip(self._sharpness, self.counts, strict=True)]
        given = asking.numpy(), self.queries.numpy(), self.lines.numpy()
        if len(self.rows) == 1:
            line(*given, *tables, values, out)
        else:
            alone = MOST - len(self.rows)  # rows of one key in front
            product(*given, *[(1.0,)] * alone, *tables, values.reshape(-1, *[1] * alone, *self.sizes), out)
        return torch.from_numpy(out)

    def _mean(self, asking: Tensor) -> Tensor:
        """Means (v, N) by torch: row by row, as the compiled loop."""
        keys, weights = self._near(asking)
        total = self.values.flatten(1)[:, keys].reshape(len(self.values), asking.shape[0], *self.counts)
        for each in reversed(weights):
            total = (total * each.reshape(asking.shape[0], *[1] * (total.dim() - 3), each.shape[1])).sum(dim=-1)
        return total

    def weights(self, state: Tensor, _context: Tensor | None) -> list[Tensor]:
        """Softmax weights (batch, query, key), zero where they are left out."""
        asking = asking_rows(state, self.query_rows)
        keys, (whole, *others) = self._near(asking.flatten(0, 1))
        for each in others:
            whole = (whole[:, :, None] * each[:, None, :]).flatten(1)
        found = whole.new_zeros(len(keys), len(self.place)).scatter(1, keys, whole)[:, self.place]
        return [found.reshape(*asking.shape[:2], -1)]

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Like any module, but positions are computed in float64 whatever the dtype."""
        exact = {name: self.get_buffer(name) for name in ("queries", "lines")}
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, tensor in exact.items():
            moved = self.get_buffer(name)
            if moved.dtype != torch.float64:
                setattr(self, name, tensor.to(moved.device))
        return self

    def _load_from_state_dict(
        self, state_dict: Mapping[str, Any], prefix: str, metadata: Any, strict: bool, *reports: list[str]
    ) -> None:
        """Like any module, but where the keys stand is known from the head it was made of."""
        errors = reports[-1]
        for name in ("queries", "lines"):
            given, own = state_dict.get(prefix + name), self.get_buffer(name)
            if given is not None and not torch.equal(given.to(own), own):
                errors.append(
                    f"{prefix}{name}: the keys of the window kernel are fixed when a module is made, and these are "
                    'those of another network; load them into its own module, or into one of kernel="dense".'
                )
        super()._load_from_state_dict(state_dict, prefix, metadata, strict, *reports)

    @property
    def query(self) -> Tensor:
        """The map to queries (1, m, r) of the head as it was given."""
        return torch.tensor(self.head.query[None])

    @property
    def memory_keys(self) -> Tensor:
        """Its keys (1, N, r)."""
        return torch.tensor(np.asarray(self.head.memory_keys)[None])

    @property
    def memory_values(self) -> Tensor:
        """Its values (1, N, v)."""
        return self.values.flatten(1)[:, self.place].T.unsqueeze(0)

    @cached_property
    def _maps(self) -> tuple[Tensor, Tensor]:
        """The map to queries (m, r), and the keys (1, 1, N, r) in the order of the rows."""
        keys = self.memory_keys[None, :, self.place.cpu().argsort()]
        return self.query[0].to(self.values.dtype), keys.to(self.values.dtype)

    @property
    def _sharpness(self) -> list[float]:
        return [row.sharpness for row in self.rows]

    def _near(self, asking: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The keys (N, n) in the windows of all queries, and the weights (N, n_j) of every row."""
        levels = asking.double() @ self.queries.T
        keys = torch.zeros(levels.shape[0], 1, dtype=torch.int64, device=levels.device)
        weights = []
        for y, row, count in zip(levels.unbind(dim=1), self.rows, self.counts, strict=True):
            p, c = (y - row.tie) / row.spacing, row.sharpness
            nearest = p.detach().ceil().clamp(-row.middle, row.size - 1 - row.middle)
            first = (nearest + row.middle - count // 2).clamp(0, row.size - count)
            m = torch.arange(count, device=levels.device) + (first - nearest - row.middle)[:, None]
            scores = m * (c * (p - nearest))[:, None] - c * m * (m - 1) / 2
            weights.append(torch.softmax(scores, dim=1).to(self.values.dtype))
            at = (m + (nearest + row.middle)[:, None]).to(torch.int64)
            keys = (keys[:, :, None] * row.size + at[:, None, :]).flatten(1)
        return keys, weights


def _table(c: float, count: int) -> tuple[float, ...]:
    """Factors of weights of the keys around the nearest."""
    return tuple(math.exp(-c * m * (m - 1) / 2) for m in range(-(count // 2), count - count // 2))

"""The window kernel: one head over a product of even rows of keys, of which a query meets the nearest few.

What is left out weighs at most ``tail`` (:mod:`attnforge.lemmas.window`). Positions along the rows are computed in
float64, whatever the dtype: differences to the nearest key are exact to a rounding of the query, where products of
queries with far keys would have lost them. Large batches run in a loop compiled by numba, where weights of a row are
$r^m G_m$, one exponential a row and query; small ones, for which compiling would take longer, those that are
differentiated, and other devices, in torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from attnforge.lemmas.window import MOST, Row, half_width
from attnforge.network import Head
from attnforge.runtime.dense import asking_rows, row_indices
from attnforge.runtime.weights import keep

Array = npt.NDArray[np.float64]

COMPILED = 2**21  # weights of a batch from which on the compiled loop is worth its start
BLOCK = 256  # queries located at a time
BEYOND = 60.0  # nearer than any position where the last key has all the weight but e^-60


class WindowHead(nn.Module):
    """One head; what it is asked, and answers, is as with :class:`attnforge.runtime.dense.HeadGroup`."""

    output: Tensor
    values: Tensor
    query_rows: Tensor | None
    queries: Tensor
    place: Tensor
    key = value = key_rows = None
    from_context = written_out = False

    def __init__(self, head: Head, rows: list[Row], dtype: torch.dtype, tail: float) -> None:
        super().__init__()
        self.head, self.rows, self.sizes = head, rows, tuple(row.size for row in rows)
        self.counts = [min(2 * half_width(row.sharpness, tail / len(rows)) + 1, row.size) for row in rows]
        place = np.ravel_multi_index(tuple(row.place for row in rows), self.sizes)
        values = np.asarray(head.memory_values)[place.argsort()]
        columns = [head.query[:, row.columns[0]] / row.square for row in rows]
        self.register_buffer("queries", torch.tensor(np.stack(columns)))
        self.register_buffer("place", torch.from_numpy(place), persistent=False)
        self.register_buffer("query_rows", row_indices(head.query_rows))
        keep(self, "values", values.T.reshape(-1, *self.sizes), dtype, False)
        keep(self, "output", head.output[None], dtype, False)

    def forward(self, state: Tensor, _context: Tensor | None) -> Tensor:
        """The means of its values, a column a query: (v, batch * query)."""
        asking = asking_rows(state, self.query_rows).flatten(0, 1)
        small = len(asking) * math.prod(self.counts) < COMPILED
        if small or asking.requires_grad or asking.device.type != "cpu" or torch.compiler.is_compiling():
            keys, weights = self._near(asking)
            total = self.values.flatten(1)[:, keys].reshape(len(self.values), len(asking), *self.counts)
            for each in reversed(weights):  # row by row, as the compiled loop
                total = (total * each.reshape(len(asking), *[1] * (total.dim() - 3), -1)).sum(dim=-1)
            return total
        values = self.values.numpy()
        out = np.empty((len(values), len(asking)), dtype=values.dtype)
        alone = MOST - len(self.rows)  # rows of one key in front
        tables = [np.ones(1)] * alone + [_table(*each) for each in zip(self._sharpness, self.counts, strict=True)]
        ties = np.ones((MOST, 3))
        ties[alone:] = [[row.tie, row.spacing, row.sharpness] for row in self.rows]
        queries = np.zeros((MOST, asking.shape[1]))
        queries[alone:] = self.queries.numpy()
        loop = _compiled(*[1] * alone, *self.counts)
        loop(asking.numpy(), queries, ties, *tables, values.reshape(len(values), *[1] * alone, *self.sizes), out)
        return torch.from_numpy(out)

    def weights(self, state: Tensor, _context: Tensor | None) -> list[Tensor]:
        """Softmax weights (batch, query, key), zero where they are left out."""
        asking = asking_rows(state, self.query_rows)
        keys, (whole, *others) = self._near(asking.flatten(0, 1))
        for each in others:
            whole = (whole[:, :, None] * each[:, None, :]).flatten(1)
        found = whole.new_zeros(len(keys), len(self.place)).scatter(1, keys, whole)[:, self.place]
        return [found.reshape(*asking.shape[:2], -1)]

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

    @property
    def _sharpness(self) -> list[float]:
        return [row.sharpness for row in self.rows]

    def _near(self, asking: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The keys (N, n) in the windows of all queries, and the weights (N, n_j) of every row."""
        levels = asking.double() @ self.queries.T
        keys = torch.zeros(len(levels), 1, dtype=torch.int64, device=levels.device)
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


def _table(c: float, count: int) -> Array:
    """Factors of weights that many keys to either side of the nearest."""
    m = np.arange(1 - count, count, dtype=np.float64)
    return np.asarray(np.exp(-c * m * (m - 1) / 2))


@cache
def _compiled(*counts: int) -> Callable[..., None]:
    """The loop over queries for windows of so many keys of three rows: constants that the compiler unrolls.

    Queries are taken in blocks: positions of a block first, which vectorises, then windows. A window is moved inwards
    where the row ends, so that it always holds as many. Far beyond the row's end the last key has all the weight:
    positions there are taken as nearer, lest powers overflow.
    """
    from numba import njit

    options: Any = {"cache": True, "fastmath": {"reassoc", "contract"}, "error_model": "numpy"}
    n, m, s = counts

    def locate(tokens: Any, query: Any, tie: Any, size: int, nearest: Any, rises: Any) -> None:
        """The nearest keys of some queries, and the logarithm by which weights rise from them."""
        low, high, c = -(size // 2), size - 1 - size // 2, tie[2]
        for b in range(len(tokens)):
            y = 0.0
            for f in range(len(query)):
                y += query[f] * tokens[b, f]
            p = min(max((y - tie[0]) / tie[1], low - BEYOND / c), high + BEYOND / c)
            at = min(max(math.ceil(p), low), high)
            nearest[b] = at
            rises[b] = y if math.isnan(y) else c * (p - at)

    locate = njit(**options)(locate)

    def weigher(count: int) -> Any:
        half = count // 2

        def weigh(nearest: float, a: float, table: Any, size: int, weights: Any) -> Any:
            """Fill in the weights, not normalised; the first key, and their sum."""
            place = int(nearest) + size // 2
            first = min(max(place - half, 0), size - count)
            start = first - place
            up = math.exp(a)
            if start == -half and count % 2 == 1:  # away from the ends, both sides at once
                down, right, left, total = 1.0 / up, 1.0, 1.0, 1.0
                weights[half] = 1.0
                for k in range(1, half + 1):
                    right *= up
                    left *= down
                    after, before = right * table[count - 1 + k], left * table[count - 1 - k]
                    weights[half + k], weights[half - k] = after, before
                    total += after + before
                return first, total
            power, total = math.exp(start * a), 0.0
            for k in range(count):
                weight = power * table[count - 1 + start + k]
                weights[k] = weight
                total += weight
                power *= up
            return first, total

        def alone(nearest: float, a: float, table: Any, size: int, weights: Any) -> Any:
            weights[0] = 1.0
            return 0, 1.0

        return njit(**options)(weigh if count > 1 else alone)

    first, second, third = (weigher(count) for count in counts)

    def loop(tokens: Any, queries: Any, ties: Any, table: Any, other: Any, last: Any, values: Any, out: Any) -> None:
        u, v, w = np.empty(n, values.dtype), np.empty(m, values.dtype), np.empty(s, values.dtype)
        nearest, rises = np.zeros((3, BLOCK)), np.zeros((3, BLOCK))
        for start in range(0, len(tokens), BLOCK):
            some = tokens[start : start + BLOCK]
            for row in range(3):
                if values.shape[1 + row] > 1:
                    locate(some, queries[row], ties[row], values.shape[1 + row], nearest[row], rises[row])
            for b in range(len(some)):
                i, p = first(nearest[0, b], rises[0, b], table, values.shape[1], u)
                j, q = second(nearest[1, b], rises[1, b], other, values.shape[2], v)
                k, r = third(nearest[2, b], rises[2, b], last, values.shape[3], w)
                for o in range(len(values)):
                    mean = values.dtype.type(0)
                    for x in range(n):
                        middle = values.dtype.type(0)
                        for y in range(m):
                            inner = values.dtype.type(0)
                            for z in range(s):
                                inner += w[z] * values[o, i + x, j + y, k + z]
                            middle += v[y] * inner
                        mean += u[x] * middle
                    out[o, start + b] = mean / (p * q * r)

    compiled: Callable[..., None] = njit(**options)(loop)
    return compiled

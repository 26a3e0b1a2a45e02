"""One head as a diagnosis sees it: the queries it was asked, its keys, and the weights that came out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.network import Claims

Array = npt.NDArray[np.float64]
AnyArray = npt.NDArray[Any]
Indices = npt.NDArray[np.intp]

CHUNK = 2**21  # scores held at once: 16 MB in float64, 32 MB in extended precision
NUMBERS = 2**22  # of keys or weights held for all queries of one head: 32 MB
FEWEST = 8  # queries a head is looked at, however many keys it has


def chosen_rows(rows: int, each: int, seed: int) -> Indices:
    """As many of ``rows`` queries as memory allows if one holds ``each`` numbers: sorted, drawn at random.

    At random, because every so-manieth query may be the same position of every sequence.

    >>> chosen_rows(3, 10, seed=0), len(chosen_rows(10**6, 2**18, seed=0))
    (array([0, 1, 2]), 16)
    """
    kept = min(rows, max(FEWEST, NUMBERS // max(1, each)))
    if kept == rows:
        return np.arange(rows)
    return np.sort(np.random.default_rng(seed).choice(rows, kept, replace=False))


@dataclass(frozen=True, eq=False)
class HeadView:
    """What one head was asked and what it did, whoever built it.

    ``queries`` (N, r) and ``keys``, (p, r) for all queries or (N, p, r) for each its own, are exact: float64 numbers in
    which nothing of the dtype is left but what it did to the inputs. ``ran`` (N, p) are the softmax weights as the
    dtype computed them, ``bias`` (N, p) is what a mask adds to the scores (minus infinity forbids a key).
    ``constant`` says that the keys do not depend on the input: they are anchors. ``values`` (p, v) go with such keys.
    ``blind`` counts the queries that were left out because a mask forbids them every key: no softmax is defined there.
    """

    layer: int
    head: int
    queries: Array
    keys: Array
    ran: Array | None = None
    dtype: str = "float64"
    values: Array | None = None
    bias: Array | None = None
    constant: bool = False
    ours: bool = True
    claims: Claims | None = None
    name: str = ""
    blind: int = 0

    @property
    def count(self) -> int:
        """Number of keys."""
        return int(self.keys.shape[-2])

    def chunks(self) -> Iterator[slice]:
        """Slices of the queries whose scores fit in memory; one, empty, where there are none."""
        step = max(1, CHUNK // max(1, self.count))
        return (slice(i, i + step) for i in range(0, max(1, len(self.queries)), step))

    def scores(self, rows: slice) -> AnyArray:
        """Scores (n, p) of some queries; those of a float64 head in extended precision, which judges it."""
        kind: Any = np.longdouble if self.dtype == "float64" else np.float64
        queries: AnyArray = self.queries[rows].astype(kind)
        keys: AnyArray = (self.keys if self.keys.ndim == 2 else self.keys[rows]).astype(kind)
        found: AnyArray = queries @ keys.T if keys.ndim == 2 else (keys @ queries[..., None])[..., 0]
        return found if self.bias is None else found + self.bias[rows]

    def magnitudes(self, rows: slice) -> Array:
        """The largest sum of |q_i k_i| over the keys, (n,): what the rounding of a score is proportional to."""
        queries, keys = np.abs(self.queries[rows]), np.abs(self.keys if self.keys.ndim == 2 else self.keys[rows])
        if keys.ndim == 2:
            return np.asarray((queries @ keys.T).max(axis=1))
        return np.asarray((keys @ queries[..., None])[..., 0].max(axis=1))

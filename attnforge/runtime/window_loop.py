"""Loops over the windows of queries, compiled by numba for windows of so many keys: constants that it unrolls.

Queries are taken in blocks: positions of a block first, which vectorises, then windows. Weights are those of
:mod:`attnforge.lemmas.window`, not normalised: from the nearest key on, powers of $e^a$ to the right and of $e^{-a}$ to
the left, times the factors of a table. A window that does not fit between the ends of its row is moved inwards, so that
it always holds as many; there every weight is an exponential of its own, since far beyond the end powers would
overflow. All this is computed in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

OPTIONS: Any = {"cache": True, "fastmath": {"reassoc", "contract"}, "error_model": "numpy"}
BLOCK = 256  # queries located at a time
NOTHING = -700.0  # logarithms of weights are no smaller: exponentials that underflow take long


@cache
def line_loop(count: int) -> Callable[..., None]:
    """For one row: means (v, N) in ``out`` of values (v, p), for tokens (N, m) asking by ``queries`` (1, m).

    ``rows`` (1, 3) holds the middle tie, the spacing of ties and c, ``table`` the factors of weights around the nearest
    key. Means are summed in float64.
    """
    from numba import njit

    half, fits, locate = count // 2, count % 2 == 1, _locator()

    def loop(tokens: Any, queries: Any, rows: Any, table: Any, values: Any, out: Any) -> None:
        size, c = values.shape[1], rows[0, 2]
        places, rises = np.empty(BLOCK, np.int64), np.empty(BLOCK)
        for start in range(0, len(tokens), BLOCK):
            some = tokens[start : start + BLOCK]
            locate(some, queries[0], rows[0], size, places, rises)
            for b in range(len(some)):
                at, a = places[b], rises[b]
                for o in range(len(values)):
                    if fits and half <= at < size - half:
                        up = math.exp(a)
                        down = 1.0 / up
                        right, left, total, mean = up, down, 1.0, float(values[o, at])
                        for k in range(1, half + 1):
                            after, before = right * table[half + k], left * table[half - k]
                            total += after + before
                            mean += after * values[o, at + k] + before * values[o, at - k]
                            right *= up
                            left *= down
                    else:
                        first, total, mean = min(max(at - half, 0), size - count), 0.0, 0.0
                        for k in range(first, first + count):
                            score = (k - at) * a - c * (k - at) * (k - at - 1) / 2
                            weight = math.exp(NOTHING if score < NOTHING else score)
                            total += weight
                            mean += weight * values[o, k]
                    out[o, start + b] = mean / total

    compiled: Callable[..., None] = njit(**OPTIONS)(loop)
    return compiled


@cache
def product_loop(n: int, m: int, s: int) -> Callable[..., None]:
    """For three rows, as :func:`line_loop`: queries (3, m), rows (3, 3), a table each, values (v, p, q, r).

    Two rows, queries (2, m) and rows (2, 3), are three with one key in the first (n = 1). Weights are rounded to the
    dtype of values, in which means are summed, row by row.
    """
    from numba import njit

    first, second, third, locate = _weigher(n), _weigher(m), _weigher(s), _locator()
    f, g = (0, 1) if n == 1 else (1, 2)

    def loop(tokens: Any, queries: Any, rows: Any, table: Any, other: Any, last: Any, values: Any, out: Any) -> None:
        u, v, w = np.empty(n, values.dtype), np.empty(m, values.dtype), np.empty(s, values.dtype)
        places, rises = np.zeros((3, BLOCK), np.int64), np.zeros((3, BLOCK))
        _, size, broad, deep = values.shape
        for start in range(0, len(tokens), BLOCK):
            some = tokens[start : start + BLOCK]
            if n > 1:
                locate(some, queries[0], rows[0], size, places[0], rises[0])
            locate(some, queries[f], rows[f], broad, places[1], rises[1])
            locate(some, queries[g], rows[g], deep, places[2], rises[2])
            for b in range(len(some)):
                i, p = first(places[0, b], rises[0, b], table, rows[0, 2], size, u)
                j, q = second(places[1, b], rises[1, b], other, rows[f, 2], broad, v)
                k, r = third(places[2, b], rises[2, b], last, rows[g, 2], deep, w)
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

    compiled: Callable[..., None] = njit(**OPTIONS)(loop)
    return compiled


@cache
def _locator() -> Any:
    """Finds the places of the nearest keys of some queries, and a."""
    from numba import njit

    def locate(tokens: Any, query: Any, row: Any, size: int, places: Any, rises: Any) -> None:
        middle, c = size // 2, row[2]
        for b in range(len(tokens)):
            y = 0.0
            for f in range(len(query)):
                y += query[f] * tokens[b, f]
            p = (y - row[0]) / row[1]
            at = min(max(math.ceil(p), -middle), size - 1 - middle)
            rises[b] = c * (p - at)
            places[b] = min(
                max(int(at) + middle, 0), size - 1
            )  # what is no number has a place, and weights that are none

    return njit(**OPTIONS)(locate)


@cache
def _weigher(count: int) -> Any:
    """Fills in the weights of a window; returns its first key, and their sum."""
    from numba import njit

    half, fits = count // 2, count % 2 == 1

    def weigh(at: int, a: float, table: Any, c: float, size: int, weights: Any) -> Any:
        first = min(max(at - half, 0), size - count)
        if fits and half <= at < size - half:
            up = math.exp(a)
            down = 1.0 / up
            right, left, total = up, down, 1.0
            weights[half] = 1.0
            for k in range(1, half + 1):
                after, before = right * table[half + k], left * table[half - k]
                weights[half + k], weights[half - k] = after, before
                total += after + before
                right *= up
                left *= down
            return first, total
        total = 0.0
        for k in range(count):
            score = (first + k - at) * a - c * (first + k - at) * (first + k - at - 1) / 2
            weight = math.exp(NOTHING if score < NOTHING else score)
            weights[k] = weight
            total += weight
        return first, total

    def alone(at: int, a: float, table: Any, c: float, size: int, weights: Any) -> Any:
        weights[0] = 1.0
        return 0, 1.0

    return njit(**OPTIONS)(weigh if count > 1 else alone)

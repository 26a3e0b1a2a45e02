"""Loops over the windows of queries, compiled by numba for windows of so many keys, once for all on a machine.

Queries are taken in blocks: positions of a block first, which vectorises, then windows. Weights are those of
:mod:`attnforge.lemmas.window`, not normalised: from the nearest key on, powers of $e^a$ to the right and of $e^{-a}$ to
the left, times the factors of a table. A window that does not fit between the ends of its row is moved inwards, so that
it always holds as many; there every weight is an exponential of its own, since far beyond the end powers would
overflow. All this is computed in float64.

Tables are tuples: their length, the number of keys in a window, is then part of their type, and loops are unrolled.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

OPTIONS: Any = {"cache": True, "fastmath": {"reassoc", "contract"}, "error_model": "numpy"}
BLOCK = 256  # queries located at a time
NOTHING = -700.0  # logarithms of weights are no smaller: exponentials that underflow take long


def _locate(tokens: Any, query: Any, row: Any, size: int, places: Any, rises: Any) -> None:
    """The places of the nearest keys of some queries, and a; ``row`` holds the middle tie, the spacing of ties, and c.

    What is no number has a place, too: its weights are none.
    """
    middle, c = size // 2, row[2]
    for b in range(len(tokens)):
        y = 0.0
        for f in range(len(query)):
            y += query[f] * tokens[b, f]
        p = (y - row[0]) / row[1]
        at = min(max(math.ceil(p), -middle), size - 1 - middle)
        rises[b] = c * (p - at)
        places[b] = min(max(int(at) + middle, 0), size - 1)


def _weigh(at: int, a: float, table: Any, c: float, size: int, weights: Any) -> Any:
    """Fill in the weights of a window; its first key, and their sum."""
    count, half = len(table), len(table) // 2
    first, total = min(max(at - half, 0), size - count), 1.0
    if count % 2 == 1 and half <= at < size - half:
        up = math.exp(a)
        down = 1.0 / up
        right, left = up, down
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
        weight = _alone(first + k - at, a, c)
        weights[k] = weight
        total += weight
    return first, total


def _exponential(m: int, a: float, c: float) -> float:
    """The weight of the key m places from the nearest."""
    score = m * a - c * m * (m - 1) / 2
    return math.exp(NOTHING if score < NOTHING else score)


_locate_all: Any = njit(**OPTIONS)(_locate)
_alone: Any = njit(**OPTIONS)(_exponential)
_weigh_all: Any = njit(**OPTIONS)(_weigh)


def _line(tokens: Any, queries: Any, rows: Any, table: Any, values: Any, out: Any) -> None:
    count, half, size, c = len(table), len(table) // 2, values.shape[1], rows[0, 2]
    places, rises = np.empty(BLOCK, np.int64), np.empty(BLOCK)
    for start in range(0, len(tokens), BLOCK):
        some = tokens[start : start + BLOCK]
        _locate_all(some, queries[0], rows[0], size, places, rises)
        for b in range(len(some)):
            at, a = places[b], rises[b]
            for o in range(len(values)):
                if count % 2 == 1 and half <= at < size - half:
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
                        weight = _alone(k - at, a, c)
                        total += weight
                        mean += weight * values[o, k]
                out[o, start + b] = mean / total


def _product(tokens: Any, queries: Any, rows: Any, table: Any, other: Any, last: Any, values: Any, out: Any) -> None:
    n, m, s = len(table), len(other), len(last)
    f, g = (0, 1) if n == 1 else (1, 2)
    u, v, w = np.ones(n, values.dtype), np.empty(m, values.dtype), np.empty(s, values.dtype)
    places, rises = np.zeros((3, BLOCK), np.int64), np.zeros((3, BLOCK))
    i, p = 0, 1.0
    for start in range(0, len(tokens), BLOCK):
        some = tokens[start : start + BLOCK]
        if n > 1:
            _locate_all(some, queries[0], rows[0], values.shape[1], places[0], rises[0])
        _locate_all(some, queries[f], rows[f], values.shape[2], places[1], rises[1])
        _locate_all(some, queries[g], rows[g], values.shape[3], places[2], rises[2])
        for b in range(len(some)):
            if n > 1:
                i, p = _weigh_all(places[0, b], rises[0, b], table, rows[0, 2], values.shape[1], u)
            j, q = _weigh_all(places[1, b], rises[1, b], other, rows[f, 2], values.shape[2], v)
            k, r = _weigh_all(places[2, b], rises[2, b], last, rows[g, 2], values.shape[3], w)
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


line: Any = njit(**OPTIONS)(_line)
"""Means (v, N) in ``out`` of values (v, p) over one row, for tokens (N, m) that ask by ``queries`` (1, m).

``rows`` (1, 3) says of the row what ``_locate`` reads, ``table`` the factors of weights around the nearest key. Means
are summed in float64.
"""

product: Any = njit(**OPTIONS)(_product)
"""The same over three rows: queries (3, m), rows (3, 3), a table each, values (v, p, q, r).

Two rows, queries (2, m) and rows (2, 3), are three with one key in the first. Weights are rounded to the dtype of
values, in which means are summed, row by row.
"""

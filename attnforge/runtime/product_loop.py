r"""Means over products of keys, compiled by numba: exponentials, weights of halves, a product of matrices, a division.

$e^t = 2^k e^r$ with k the whole number nearest to $t/\ln 2$ and $r = t - k \ln 2$, $\ln 2$ in two parts of which the
first, times k, is exact. In float64 the Taylor polynomial of degree 12 errs by at most $0.3466^{13}/13! < 2^{-52}/100$
relatively, in float32 that of degree 7 by $0.3466^8/8! < 2^{-23}/20$; r by half a unit of $2^{-54}$ or $2^{-25}$; and
the sum $1 + r(1 + r(\dots))$ rounds like $e^r$, whose smaller terms are rounded before: together below 2 units in the
last place, where certificates charge 4 and more (:mod:`attnforge.kernel.softmax`). k is added to the exponent's bits.
All of it is arithmetic on whole rows, which compilers vectorise; a library's exponential is called entry by entry.
Queries are taken in blocks, along rows, that caches hold.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

OPTIONS: Any = {"cache": True, "fastmath": {"contract"}, "error_model": "numpy"}
BLOCK = 256  # queries at a time
LOG2, REST = math.log(2), 2.3190468138462996e-17  # their sum is ln 2 to 107 bits


def _constants(dtype: Any, mantissa: int, least: int, bits: int, degree: int) -> tuple[Any, Any, Any]:
    """The smallest t, 1/ln 2, what rounds to whole numbers, ln 2 in ``bits`` bits and the rest; Taylor's coefficients.

    Below the smallest t exponentials are no normal numbers; it counts instead. At last, where exponents begin.
    """
    high = math.floor(LOG2 * 2.0**bits) / 2.0**bits
    numbers = least * LOG2, 1 / LOG2, 1.5 * 2.0**mantissa, high, (LOG2 - high) + REST
    terms = tuple(dtype(1 / math.factorial(k)) for k in range(degree, -1, -1))
    return tuple(map(dtype, numbers)), terms, (np.int64 if mantissa == 52 else np.int32)(mantissa)


CONSTANTS = {
    "float64": _constants(np.float64, 52, -1022, 33, 12),
    "float32": _constants(np.float32, 23, -126, 12, 7),
}


def _exponentials(scores: Any, bits: Any, room: Any, shifted: Any, total: Any, how: Any) -> None:
    """Put exponentials in the place of scores (p, B) less the largest, and their sums into ``total``.

    ``bits`` and ``shifted`` are the whole numbers behind the scores and behind the ``room``; ``how`` are constants.
    """
    count, width = scores.shape
    (least, unit, whole, high, low), terms, shift = how
    total[:] = scores[0]
    for k in range(1, count):
        row = scores[k]
        for b in range(width):
            total[b] = max(total[b], row[b])
    for k in range(count):
        row, own = scores[k], bits[k]
        for b in range(width):
            t = max(row[b] - total[b], least)
            at = t * unit + whole
            n = at - whole
            r = (t - n * high) - n * low
            power = terms[0]
            for c in terms[1:]:
                power = power * r + c
            row[b] = power
            room[b] = at
        for b in range(width):
            own[b] += shifted[b] << shift
    total[:] = 0.0
    for k in range(count):
        row = scores[k]
        for b in range(width):
            total[b] += row[b]


def _multiplied(weights: Any, sizes: Any, room: Any) -> Any:
    """All products (p_1 * .. * p_j, B) of one weight a factor: of one alone the weights, of several in ``room``."""
    if len(sizes) == 1:
        return weights
    count = sizes[0]
    room[:count] = weights[:count]
    start = count
    for size in sizes[1:]:
        for i in range(count - 1, -1, -1):
            for k in range(size - 1, -1, -1):
                one, other, into = room[i], weights[start + k], room[i * size + k]
                for b in range(len(into)):
                    into[b] = one[b] * other[b]
        start += size
        count *= size
    return room


_exponentials_all: Any = njit(**OPTIONS)(_exponentials)
_multiplied_all: Any = njit(**OPTIONS)(_multiplied)


def _means(queries: Any, keys: Any, sizes: Any, split: int, values: Any, bits: Any, how: Any, out: Any) -> None:
    width, dtype = bits.shape[1], values.dtype
    weights, shifted = bits[:-1].view(dtype), bits[-1]
    room, sums, total = shifted.view(dtype), np.empty(width, dtype), np.empty(width, dtype)
    rows, half = int(np.prod(sizes[:split])), int(np.sum(sizes[:split]))
    lefts, rights = np.empty((rows, width), dtype), np.empty((values.shape[1], width), dtype)
    inner = np.empty((len(values), width), dtype)
    for start in range(0, len(queries), width):
        first = min(start, len(queries) - width)  # the last block takes some again
        np.dot(keys, queries[first : first + width].T, weights)
        total[:] = 1.0
        at = 0
        for size in sizes:
            _exponentials_all(weights[at : at + size], bits[at : at + size], room, shifted, sums, how)
            total *= sums
            at += size
        left = _multiplied_all(weights[:half], sizes[:split], lefts)
        right = _multiplied_all(weights[half:], sizes[split:], rights)
        np.dot(values, right, inner)
        for o in range(len(out)):
            mean = out[o, first : first + width]
            mean[:] = 0.0
            for i in range(rows):
                one, other = inner[o * rows + i], left[i]
                for b in range(width):
                    mean[b] += one[b] * other[b]
            for b in range(width):
                mean[b] /= total[b]


_means_all: Any = njit(**OPTIONS)(_means)


def means(queries: Any, keys: Any, sizes: list[int], split: int, values: Any) -> Any:
    """Means (v, N) of queries (N, r) to the ``keys`` (sum of ``sizes``, r) of all factors, in float32 or float64.

    A factor's keys are zero in the columns of others. ``values`` (v p_1 .. p_s, product of the other sizes) are those
    of the halves that ``split`` makes.
    """
    out = np.empty((len(values) // math.prod(sizes[:split]), len(queries)), values.dtype)
    how = CONSTANTS[values.dtype.name]
    bits = np.empty((len(keys) + 1, min(BLOCK, len(queries))), how[2].dtype)
    _means_all(queries, keys, np.array(sizes), split, values, bits, how, out)
    return out

r"""Rows of evenly spaced keys: all but a few weights near the largest one are negligible.

**Row.** The scores of a factor (:mod:`.product`) are $s_k = q_0 K_k + q_1 b_k$, with $K_k$ in arithmetic progression of
step $\Delta$ and $b_k$ a convex quadratic of k, k counted from a middle key. Put $g = -q_1 \Delta > 0$, and let
$\tau_k = (b_{k+1} - b_k)/\Delta$, in steps of $\delta$. Then
$$ s_{k+1} - s_k = g\,(y - \tau_k), \qquad y = q_0 / (-q_1) : $$
neighbours tie at $y = \tau_k$, and with $p = (y - \tau_0)/\delta$ the largest score is that of $i = \lceil p \rceil$,
or of the last key on that side, and
$$ s_{i+m} - s_i = m\,a - c\,m(m-1)/2, \qquad a = c\,(p - i), \quad c = g\,\delta. $$

**Tail.** Between the outer ties $-c \le a \le 0$. If $a \ge -c/2$, the keys beyond $|m| \le w$ have at most
$$ T_w = \sum_{n > w} \bigl(e^{-c\,n(n-1)/2} + e^{-c\,n^2/2}\bigr) $$
of the weight of the largest key: on the right $m a \le 0$, on the left $n|a| \le n c/2$. Else the sides change their
parts. Beyond the outer ties the row ends, and what is there falls faster. Without the tail a mean of values errs by at
most $2 T_w \max|v|$; over a product of rows the tails add up.

**Departure.** Keys and offsets that are not exactly so, by $\epsilon_K$ and $\epsilon_b$, move the logarithm of a
weight, relative to another's, by at most $D = 2(|q_0| \epsilon_K + |q_1| \epsilon_b)$, and the mean over a window by at
most $(e^{2D} - 1)$ times what the values in it differ by.

>>> row = as_row(np.eye(2), np.column_stack([np.arange(100.0), np.arange(100.0) ** 2]))
>>> row.step, row.tie, row.spacing, max(row.departure) < 1e-20  # 51^2 - 50^2
(1.0, 101.0, 2.0, True)
>>> half_width(1.0, 1e-7), half_width(1.0, 1e-12)
(6, 7)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from attnforge.lemmas.product import column_groups, places
from attnforge.outward.arrays import two_product, two_sum

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

CLOSE = 2.0**-8  # of a step, and of the bend of offsets, by which keys of a row may depart from an even one
MOST = 3  # rows of a product
FEWEST = 1024  # keys from which on a window is chosen of its own accord
TAILS = {"float64": 1e-12, "float32": 1e-7}  # what is left out, at most


@dataclass(frozen=True, eq=False)
class Row:
    r"""The ``columns`` it is made of, the step $\Delta$ of keys, the ``tie`` $\tau_0$, the ``spacing`` $\delta$.

    ``place`` (N,) is where each key of the head stands in the row of ``size``, from 0 on; ``departure`` is
    $(\epsilon_K, \epsilon_b)$, ``square`` is $-q_1$.
    """

    columns: tuple[int, ...]
    step: float
    tie: float
    spacing: float
    size: int
    place: Indices
    departure: tuple[float, float]
    square: float = 1.0

    @property
    def middle(self) -> int:
        """The place of key 0."""
        return self.size // 2

    @property
    def sharpness(self) -> float:
        """The c of scores."""
        return self.square * self.step * self.spacing


def rows_of(query: Array, keys: Array, token: Array) -> list[Row] | None:
    """The rows whose product the keys (N, r) are; None where a window does not serve.

    ``token`` (m,) are the features that do not vary, NaN where they do: offsets are multiplied by the same for all.
    """
    varies, groups, found = np.isnan(token), column_groups(keys), []
    for group in groups if len(groups) <= MOST else []:
        where = places(keys, group)
        first = np.unique(where, return_index=True)[1]
        row = as_row(query[:, group], keys[first][:, group])
        if row is None or query[varies][:, group[1:]].any():
            return None
        square = -float(np.where(varies, 0.0, token) @ query[:, group[1]])
        if not square > 0:
            return None
        found.append(replace(row, columns=tuple(group), square=square, place=row.place[where]))
    return found or None


def as_row(query: Array, keys: Array) -> Row | None:
    """The row behind keys (p, r), r >= 2, of queries by the map ``query`` (m, r); None if they are no row.

    The first column holds keys, all others, which the query multiplies alike, offsets.
    """
    if keys.shape[1] < 2 or len(keys) < 3 or np.any(query[:, 2:] != query[:, 1:2]):
        return None
    order = np.argsort(keys[:, 0], kind="stable")
    positions, offsets = keys[order, 0], keys[order, 1:].T
    bent = offsets.sum(axis=0)
    middle, last = len(keys) // 2, len(keys) - 1
    at = np.arange(len(keys), dtype=np.float64) - middle
    low, level, high = (Fraction(float(bent[k])) for k in (0, middle, last))
    bend = float(((low - level) / middle + (high - level) / (last - middle)) / last)
    tilt = float((high - level) / (last - middle) - Fraction(bend) * (last - middle))
    step = float(positions[-1] - positions[0]) / last
    if not (step > 0 and bend > 0 and math.isfinite(step) and math.isfinite(tilt)):
        return None
    off = (
        _largest(positions, -positions[middle], *two_product(np.array(-step), at)),
        _largest(*offsets, -bent[middle], *two_product(np.array(-tilt), at), *two_product(np.array(-bend), at * at)),
    )
    if not (off[0] <= CLOSE * step and off[1] <= CLOSE * bend):
        return None
    place = np.argsort(order)
    return Row(tuple(range(keys.shape[1])), step, (tilt + bend) / step, 2 * bend / step, len(keys), place, off)


def _largest(*terms: Array) -> float:
    """The largest sum of terms (p,) from above: what additions round is added up, too, and what that rounds charged."""
    total = lost = size = np.zeros(1)
    for term in terms:
        total, rounded = two_sum(total, term)
        lost, size = lost + rounded, size + np.abs(term)
    return float((np.abs(total + lost) * (1 + 2.0**-50) + 2.0**-96 * size).max())


def tail(c: float, width: int) -> float:
    r"""$T_w$, from above: terms until they are below a rounding, and the rest by a geometric series."""
    total, n = 0.0, width + 1
    while True:
        term = math.exp(-c * n * (n - 1) / 2) + math.exp(-c * n * n / 2)
        ratio = math.exp(-c * n)
        if ratio < 0.5 and term <= 2.0**-60 * total:
            return (total + term / (1 - ratio)) * (1 + 2.0**-40)
        if term == 0.0:
            return 2.0**-1000
        total, n = total + term, n + 1


def half_width(c: float, at_most: float) -> int:
    """The smallest w with a tail of at most that."""
    width = max(0, math.floor((math.sqrt(1 + 8 * math.log(2 / at_most) / c) - 3) / 2))
    while tail(c, width) > at_most:
        width += 1
    return width

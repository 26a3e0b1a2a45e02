r"""Linear algebra whose bits are the same on every processor: for what would otherwise hang on roundings.

A BLAS adds in the order that suits the processor, and NumPy's exponential has other last bits where there are other
vector instructions. Where the error of a fit is far above rounding that does not matter. Near it, which of two fits
errs less, and how large the values of an ill-posed one are, is decided by these bits. Here all is made of sums,
products, quotients and roots of single numbers, which IEEE arithmetic rounds alike everywhere, in an order that is
written down (NumPy adds along an axis in the same order on all processors), and of products of matrices that are exact:

**Products**, after Ozaki and others (2012). Rows of A and columns of B are scaled by powers of two and cut into
:data:`SLICES` slices of whole numbers of b bits, $2 b + \log_2 k \le 53$ for k terms: every product of two slices is
exact, in whatever order a BLAS adds it up.

**Decomposition**, the pivoted QLP of Stewart (1999). Householder's $W \Pi = Q R$ with the largest column first, then
$R^T = Z L^T$: so $W = Q L (\Pi Z)^T$ with L lower triangular, its diagonal close to the singular values, and leading
columns to the spaces of singular vectors. The solution of rank r is $v = \Pi Z_r L_r^{-1} Q_r^T f$; as L is lower
triangular, one substitution serves all r.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

SLICES = 3  # of at least 20 bits each for up to 2^13 terms: together finer than the roundoff of a sum
PIECE = 2**14  # numbers at a time: what is in between stays in the cache
TINY = float(np.finfo(np.float64).tiny)
LN2_HIGH, LN2_LOW = float.fromhex("0x1.62e42feep-1"), float.fromhex("0x1.a39ef35793c76p-33")
LEAST = -745.2  # whose exponential is zero
# As in fdlibm: ln(2) in two parts, of which the first has 31 bits, so that k times it is exact, and for |r| < ln(2)/2
# e^r = 1 - (r c / (c - 2) - r), c = r - r^2 (P1 + r^2 (P2 + ..)), right to 2^-59.
REMEZ = tuple(
    map(
        float.fromhex,
        (
            "0x1.555555555553ep-3",
            "-0x1.6c16c16bebd93p-9",
            "0x1.1566aaf25de2cp-14",
            "-0x1.bbd41c5d26bf1p-20",
            "0x1.6376972bea4d0p-25",
        ),
    )
)


def exponential(x: Array) -> Array:
    """The exponential of numbers that are not positive, right to a unit in the last place.

    >>> exponential(np.array([0.0, -1.0, -np.inf])).tolist()
    [1.0, 0.36787944117144233, 0.0]
    """
    flat, found = x.ravel(), np.empty(x.size)
    for i in range(0, x.size, PIECE):
        found[i : i + PIECE] = _exponential(np.maximum(flat[i : i + PIECE], LEAST))
    return found.reshape(x.shape)


def _exponential(x: Array) -> Array:
    turns = np.rint(x * (1 / math.log(2)))
    high, low = x - turns * LN2_HIGH, turns * LN2_LOW
    r = high - low
    square = r * r
    rest = square * REMEZ[-1]
    for coefficient in REMEZ[-2::-1]:
        rest = square * (rest + coefficient)
    rest = r - rest
    return np.asarray(np.ldexp(1 - ((low - r * rest / (2 - rest)) - high), turns.astype(np.int32)))


@lru_cache(maxsize=512)
def cosines(count: int, offset: float = 0.0) -> Array:
    r"""The cosines of $\pi (j + offset) / count$, j = 0, .., count, rounded from 64 digits.

    >>> cosines(2).tolist()
    [1.0, 0.0, -1.0]
    """
    from flint import arb, ctx

    before, ctx.prec = ctx.prec, 212
    try:
        angles = [(j + arb(offset)) / count for j in range(count + 1)]
        found = np.array([float(angle.cos_pi().mid()) for angle in angles])
    finally:
        ctx.prec = before
    found.flags.writeable = False
    return found


def product(a: Array, b: Array) -> Array:
    """The matrix product (m, k) by (k, n), more accurate than a sum in float64, of the same bits everywhere.

    >>> product(np.array([[0.1, 1.0]]), np.array([[0.1], [1.0]])).tolist()
    [[1.01]]
    """
    bits = (53 - max(1, b.shape[0] - 1).bit_length()) // 2
    (left, scale), (right, other) = _slices(a, bits), _slices(b.T, bits)
    total = np.zeros((len(a), b.shape[1]))
    for order in range(SLICES - 1, -1, -1):
        level = sum((left[i] @ right[order - i].T for i in range(order + 1)), start=np.zeros_like(total))
        total += np.ldexp(level, -bits * (order + 2))
    return np.asarray(np.ldexp(np.ldexp(total, scale), other.T))


def _slices(a: Array, bits: int) -> tuple[list[Array], npt.NDArray[np.int32]]:
    """Whole numbers of so many bits, each slice counting in 2^-bits of the last; the exponents of rows."""
    exponents = np.frexp(np.abs(a).max(axis=1, initial=0.0, keepdims=True))[1]
    rest, slices = np.ldexp(a, bits - exponents), []
    for _ in range(SLICES):
        slices.append(np.rint(rest))
        rest = (rest - slices[-1]) * 2.0**bits
    return slices, exponents


@dataclass(frozen=True, eq=False)
class Decomposition:
    """The factors of W (n, p): reflections of Q and Z, the order of columns, L (p, p).

    Where there are fewer rows than columns, rows of zeros are added.
    """

    left: Array
    right: Array
    order: npt.NDArray[np.int64]
    lower: Array

    @classmethod
    def of(cls, w: Array) -> Decomposition:
        """The pivoted QLP."""
        rows = np.zeros((w.shape[1], max(w.shape)))
        rows[:, : len(w)] = w.T
        left, columns, order = _reflections(rows, pivoted=True)
        right, rows, _ = _reflections(columns.T, pivoted=False)
        return cls(left, right, order, rows)

    @property
    def sizes(self) -> Array:
        """About the singular values: those of the diagonal, that do not grow again."""
        return np.asarray(np.minimum.accumulate(np.abs(np.diag(self.lower))))

    def multiplied(self, a: Array, b: Array) -> Array:
        """The matrix product."""
        return product(a, b)

    def projected(self, wanted: Array) -> Array:
        """Coordinates (p, q) of right-hand sides (n, q) in the columns of Q."""
        rows = np.zeros((wanted.shape[1], self.left.shape[1]))
        rows[:, : len(wanted)] = wanted.T
        for k, v in enumerate(self.left):
            _reflect(rows[:, k:], v[k:])
        return np.ascontiguousarray(rows[:, : len(self.lower)].T)

    def solved(self, projected: Array) -> Array:
        """Coordinates (p, q) in the columns of Z: the first r of them are those of the solution of rank r."""
        y = projected.copy()
        for k, pivot in enumerate(np.diag(self.lower).tolist()):
            y[k] /= math.copysign(max(abs(pivot), TINY), pivot)
            y[k + 1 :] -= self.lower[k + 1 :, k, None] * y[k]
        return y

    def values(self, solved: Array, rank: int) -> Array:
        """The solution (p, q) of that rank."""
        rows = np.zeros(solved.shape[::-1])
        rows[:, :rank] = solved[:rank].T
        for k in range(len(self.right) - 1, -1, -1):
            _reflect(rows[:, k:], self.right[k, k:])
        values = np.empty_like(solved)
        values[self.order] = rows.T
        return values


def _reflections(rows: Array, pivoted: bool) -> tuple[Array, Array, npt.NDArray[np.int64]]:
    """Householder's reflections (p, n) of columns, given as rows (p, n); these, reflected (p, p); and their order."""
    rows, order = np.array(rows, order="C"), np.arange(len(rows))
    reflections = np.zeros_like(rows)
    for k in range(len(rows)):
        if pivoted:
            largest = k + int((rows[k:, k:] * rows[k:, k:]).sum(axis=1).argmax())
            rows[[k, largest]], order[[k, largest]] = rows[[largest, k]], order[[largest, k]]
        column = rows[k, k:]
        size = math.sqrt(float((column * column).sum()))
        if size == 0.0:
            continue
        v = reflections[k, k:]
        v[:] = column
        v[0] += math.copysign(size, column[0])
        v /= math.sqrt(size * (size + abs(float(column[0]))))  # its square is 2: the reflection is 1 - v v^T
        _reflect(rows[k:, k:], v)
    return reflections, np.tril(rows[:, : len(rows)]), order


def _reflect(rows: Array, v: Array) -> None:
    rows -= (rows * v).sum(axis=1)[:, None] * v

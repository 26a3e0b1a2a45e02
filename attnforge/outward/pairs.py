r"""Double-double numbers: arrays of pairs of float64 numbers, hi + lo, and the exponential, with what they are off.

Everything rests on IEEE operations in float64, rounded to nearest with roundoff $u = 2^{-53}$: a rounded sum is off by
at most u of itself, a product or quotient by that or, below the smallest normal number (``TINY``), by less than it.
``two_sum`` and ``two_product`` give what a sum or product lacks, exactly; of products below $2^{-900}$ up to ``TINY``.
Operations take pairs as exact, and return a pair and an upper bound of the absolute error; that is infinite where
something overflows. Terms are charged by what was computed, as is proved where each is.

**Products of matrices**, after Ozaki and others (2012). Rows of A and columns of B are scaled by powers of two to at
most 1 and cut into slices of b bits, $2 b + \lceil\log_2 k\rceil \le 53$ for k terms: slice i is rounded to multiples
of $2^{-b(i+1)}$, of size at most $2^{-bi}$ (half of that from i = 1 on, but where lo joins). Products of slices i and j
are sums of k multiples of $2^{-b(i+j+2)}$, of at most 53 bits: exact in whatever order a BLAS adds them up, and so is
the sum of both with i + j = 1. Of n slices those with $i + j \ge n$ are left out, at most
$(n - 1)(1 + 2^{1-b}) 2^{-bn}$ a term, and what is beyond the slices, $2^{-bn-1} + 2^{-52-2b}$ of either factor, for lo
joins at slice 2, where rounding is by $u 2^{-2b}$, and scaling loses $2^{-1074}$. The sums with $i + j \ge 2$ are at
most $4 \cdot 2^{-2b}$ a term, and rounded at most 6 times; what joins them is at most 2u. All in all at most
$n 2^{-bn} (1 + 2^{-8}) + 2^{-48.6-2b}$ a term, times the scales, where the first is at most $1.004 \cdot 2^{-48-2b}$:
for $n b \ge 100$ and b from 10 to 26, $n \le 2^{52-2b}$, but for b = 26, where $n b = 104$. So $2^{-47-2b}$ is charged.

**Exponentials.** With $c = \log 2 / 4096$, $x = m c + r$: $e^x = 2^{\lfloor m/4096 \rfloor} T_{m \bmod 4096} e^r$. In
[-700, 709], m has 23 bits; c is the sum of 30 bits $c_1$, a multiple of $2^{-42}$, 30 more $c_2$, a multiple of
$2^{-72}$, and $c_3$, so that $m c_1$ and $m c_2$ are exact, $m c_3 \le 2^{-50}$ is rounded by $2^{-103}$, and $c_3$
itself off by $2^{-126}$. Sums are exact pairs: r = s + l, $|s| \le 2^{-13.5}$, $|l| \le 2^{-49}$, off by $2^{-101}$.
$$ e^{s+l} - 1 = s + q + l (1 + s + q) + \ldots, \quad q = s^2 (1/2 + s (1/6 + s (1/24 + s/120))), $$
the dots being less than $s^6/720 (1 + s) + l^2 + l |s|^6/720 < 2^{-89}$; q is at most $2^{-27.9}$ and rounded by 3
roundoffs, all else that is added to it by one each, and so is its product with T, itself a pair to $2^{-104}$; then
three sums of at most $2^{-27}$: together less than $2^{-77}$. Claimed are $2^{-75}$, and $2^{-1000}$ for the low parts
of small numbers, and for those below $e^{-700}$, which are taken for zero.

In float64, T and $T (s + s^2/2 + s^3/6)$ are off by less than 3 roundoffs of the sum, $s^4/24 < 2^{-58}$ among them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from flint import arb

from attnforge.outward.arrays import TINY, UNIT, gamma, two_product, two_sum
from attnforge.outward.real import precision
from attnforge.outward.upward import Up

Array = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]

BITS = 100  # of products of matrices, relative to their largest factors
LOWEST, HIGHEST = -700.0, 709.0  # exponents below are as good as the first, above nothing is known
TABLE = 12  # the logarithm of the powers of two that are kept of an octave
EXPONENTIAL, NOTHING = 2.0**-75, 2.0**-1000  # what exponentials of pairs are off, relative and absolute
PLAIN = 2.0**-50  # what exponentials of float64 numbers are off, and the product by which they are raised
EXACT = 2.0**-900  # products from here on lack what a float64 number holds
SMALL = 2.0**-10  # numbers below are about e^x - 1


@dataclass(frozen=True, eq=False)
class Pairs:
    """The numbers hi + lo; ``lo`` has the shape of ``hi`` or is one zero for all."""

    hi: Array
    lo: Array

    @classmethod
    def of(cls, hi: Array, lo: Array | None = None) -> Pairs:
        """Float64 numbers, and their low parts if there are any."""
        return cls(hi, np.zeros(()) if lo is None else lo)

    @property
    def is_plain(self) -> bool:
        """Whether there are no low parts."""
        return not self.lo.any()

    def normal(self) -> Pairs:
        """The same numbers, hi being nearest to them."""
        return self if self.is_plain else Pairs(*two_sum(self.hi, self.lo))

    def plus(self, other: Pairs) -> tuple[Pairs, Up]:
        """Sums: of the low parts and what the sum of the high ones lacks, two roundings."""
        hi, lost = two_sum(self.hi, other.hi)
        if self.is_plain and other.is_plain:
            return _charged(Pairs(hi, lost), Up.zeros(*hi.shape))
        both = self.lo + other.lo
        lo = lost + both
        return _charged(Pairs(*two_sum(hi, lo)), (Up.of(both) + lo) * UNIT)

    def times(self, other: Pairs) -> tuple[Pairs, Up]:
        """Products: four roundings of what is added to the exact product of the high parts, that of the low ones."""
        hi, lost = two_product(self.hi, other.hi)
        is_zero = ((self.hi == 0) & (self.lo == 0)) | ((other.hi == 0) & (other.lo == 0))
        if self.is_plain and other.is_plain:
            return _charged(Pairs(hi, lost), Up(np.where(is_zero | (np.abs(hi) >= EXACT), 0.0, TINY)))
        error = Up(np.where(is_zero, 0.0, 4 * TINY))
        one, two = self.hi * other.lo, self.lo * other.hi
        both = one + two
        lo = lost + both
        rounded = (Up.of(one) + two + both + lo) * UNIT
        return _charged(Pairs(*two_sum(hi, lo)), error + rounded + Up.of(self.lo) * other.lo)

    @np.errstate(all="ignore")
    def over(self, other: Pairs) -> tuple[Pairs, Up]:
        r"""Quotients q of numbers n by d, and bounds not of their error but of the residual $|n - q d|$.

        Of the high parts the remainder $n_0 - q_0 d_0$ of the rounded quotient is a float64 number, and so is what it
        is summed up from; the low parts join it in two roundings. Its quotient by $d_0$, which is rounded, is added to
        $q_0$, and leaves what the low part of d makes of it.
        """
        first = self.hi / other.hi
        product, lost = two_product(first, other.hi)
        more = first * other.lo
        far = self.lo - more
        left = ((self.hi - product) - lost) + far
        second = left / other.hi
        rounded = (Up.of(more) + far + Up.of(left) * 2.0) * UNIT
        below = (Up.of(other.hi) + 2.0) * TINY
        found = Pairs(*two_sum(first, second))
        return _charged(found, rounded + Up.of(second) * other.lo + below)

    def sum(self, axis: int) -> tuple[Pairs, Up]:
        r"""Sums along an axis, half by half, L times.

        Of the high parts what each sum lacks is exact, at most u of it: together $L u (1 + u)^L \sum |hi|$. It joins
        the low parts in two roundings each time, so that all of these are off by $\gamma_{2L}$.
        """
        hi = np.moveaxis(self.hi, axis, 0)
        lo = np.broadcast_to(np.moveaxis(self.lo, axis, 0) if self.lo.ndim else self.lo, hi.shape)
        levels = max(len(hi) - 1, 0).bit_length()
        sizes = Up(np.abs(lo)).sum(0) + Up(np.abs(hi)).sum(0) * (levels * UNIT * (1 + 2.0**-40))
        while len(hi) > 1:
            half = len(hi) // 2
            total, lost = two_sum(hi[:half], hi[half : 2 * half])
            low = (lo[:half] + lo[half : 2 * half]) + lost
            hi, lo = (np.concatenate([new, old[2 * half :]]) for new, old in ((total, hi), (low, lo)))
        if not len(hi):
            hi, lo = np.zeros((1, *hi.shape[1:])), np.zeros((1, *hi.shape[1:]))
        return _charged(Pairs(*two_sum(hi[0], lo[0])), sizes * gamma(2 * levels))

    @np.errstate(all="ignore")
    def through(self, matrix: Pairs) -> tuple[Pairs, Up]:
        """Rows (..., m) times a matrix (m, p), or as many as fit (..., m, p), by exact products of slices."""
        one, two, terms = self.normal(), matrix.normal(), self.hi.shape[-1]
        bits = (53 - max(terms - 1, 0).bit_length()) // 2
        count = -(-BITS // bits)
        (left, row), (right, column) = _slices(one, -1, bits, count), _slices(two, -2, bits, count)
        exponents = row + column[..., 0, :]
        levels = [_level(left, right, i, exponents.shape) for i in range(count)]
        hi, lost = two_sum(levels[0], levels[1])
        lo = lost + sum(levels[:1:-1], start=np.zeros(exponents.shape))
        made = terms * 2.0 ** (-47 - 2 * bits)
        present = (one.hi != 0).any(axis=-1, keepdims=True) & (two.hi != 0).any(axis=-2)
        scale = Up(np.where(present, np.ldexp(np.ones(exponents.shape), exponents), 0.0))
        hi, lo = two_sum(hi, lo)
        error = scale * made + np.where(present, 4 * TINY, 0.0)
        return _charged(Pairs(np.ldexp(hi, exponents), np.ldexp(lo, exponents)), error)

    @np.errstate(all="ignore")
    def exp(self) -> tuple[Pairs, Up]:
        """The exponential."""
        x = Pairs(*two_sum(self.hi, np.broadcast_to(self.lo, self.hi.shape)))
        table = _exponentials()
        count = np.rint(np.clip(x.hi, LOWEST, HIGHEST) * table.inverse)
        s, first = two_sum(x.hi, -count * table.steps[0])
        s, second = two_sum(s, -count * table.steps[1])
        s, third = two_sum(s, x.lo)
        low = ((first + second) + third) - count * table.steps[2]
        q = (s * s) * (1 / 2 + s * (1 / 6 + s * (1 / 24 + s * (1 / 120))))
        more = q + (low + low * (s + q))
        place, power = _place(count)
        hi, lo = table.hi[place], table.lo[place]
        product, lost = two_product(hi, s)
        total, lack = two_sum(hi, product)
        total, low = two_sum(total, lack + (lost + (hi * more + (lo + lo * s))))
        far, known = x.hi < LOWEST, x.hi <= HIGHEST
        hi, lo = (np.where(far, 0.0, np.where(known, np.ldexp(part, power), np.inf)) for part in (total, low))
        return _charged(Pairs(hi, lo), Up.of(hi) * EXPONENTIAL + NOTHING)


def _charged(found: Pairs, error: Up) -> tuple[Pairs, Up]:
    """With no bound where something is not a number."""
    finite = np.isfinite(found.hi) & np.isfinite(found.lo)
    return found, Up(np.where(finite & ~np.isnan(error.values), error.values, np.inf))


def _slices(numbers: Pairs, axis: int, bits: int, count: int) -> tuple[list[Array], Whole]:
    """Slices of normal pairs scaled by powers of two along an axis, those there are, and the powers' logarithms."""
    exponents = np.frexp(np.abs(numbers.hi).max(axis=axis, keepdims=True, initial=0.0))[1].astype(np.int64)
    rest, joining, found = np.ldexp(numbers.hi, -exponents), np.ldexp(numbers.lo, -exponents), []
    for i in range(count):
        if i == 2:
            rest = rest + joining
        grid = 1.5 * 2.0 ** (52 - bits * (i + 1))
        part = (rest + grid) - grid
        rest = rest - part
        found.append(part)
        if not rest.any() and (i > 1 or numbers.is_plain):
            break
    return found, exponents


def _level(left: list[Array], right: list[Array], total: int, shape: tuple[int, ...]) -> Array:
    """The sum of the products of slices i and j, i + j = ``total``."""
    pairs = ((left[i], right[total - i]) for i in range(len(left)) if 0 <= total - i < len(right))
    return sum((matrix_product(*each) for each in pairs), start=np.zeros(shape))


def matrix_product(rows: Array, matrix: Array) -> Array:
    """Rows (..., m) times a matrix (m, p), or as many as fit (..., m, p); rows of one matrix are taken at once."""
    while matrix.ndim > 2 and len(matrix) == 1 and rows.ndim > matrix.ndim - 2:
        matrix = matrix[0]
    ahead = max(rows.ndim - matrix.ndim + 1, 0)
    if matrix.ndim == 2 or not ahead:
        return np.asarray(rows @ matrix if matrix.ndim == 2 else (rows[..., None, :] @ matrix)[..., 0, :])
    front = rows.shape[:ahead]
    flat = np.moveaxis(rows.reshape(-1, *rows.shape[ahead:]), 0, -2) @ matrix
    return np.moveaxis(flat, -2, 0).reshape(*front, *flat.shape[:-2], matrix.shape[-1])


@dataclass(frozen=True, eq=False)
class _Table:
    """Powers of two by the 4096th part of an octave, and the parts of its logarithm."""

    hi: Array
    lo: Array
    steps: tuple[float, float, float]
    inverse: float


@lru_cache
def _exponentials() -> _Table:
    with precision(200):
        step = arb(2).log() / 2**TABLE
        first = float(np.round(float(step) * 2.0**42)) * 2.0**-42
        second = float(np.round(float(step - arb(first)) * 2.0**72)) * 2.0**-72
        powers = [(arb(i) * step).exp() for i in range(2**TABLE)]
        hi = [float(power.mid()) for power in powers]
        lo = [float((power - arb(near)).mid()) for power, near in zip(powers, hi, strict=True)]
        steps = (first, second, float(step - arb(first) - arb(second)))
        return _Table(np.array(hi), np.array(lo), steps, float(1 / step))


def _place(count: Array) -> tuple[Whole, Whole]:
    """Where in the table, and the power of two."""
    whole = np.nan_to_num(count).astype(np.int64)
    return whole & (2**TABLE - 1), whole >> TABLE


@np.errstate(all="ignore")
def _exponential(x: Array) -> Array:
    """Of float64 numbers between the ends."""
    table = _exponentials()
    count = np.rint(x * table.inverse)
    s = (x - count * table.steps[0]) - count * table.steps[1]
    place, power = _place(count)
    hi = table.hi[place]
    return np.asarray(np.ldexp(hi + hi * (s * (1 + s * (1 / 2 + s * (1 / 6)))), power))


def exp_above(x: Array) -> Up:
    """Upper bounds of the exponential, infinite above its end.

    >>> bool(1.0 < exp_above(np.array(0.0)).values < 1 + 1e-14)
    True
    """
    found = _exponential(np.clip(x, LOWEST, HIGHEST)) * (1 + PLAIN)
    return Up(np.where(x <= HIGHEST, found, np.inf))


def exp_below(x: Array) -> Array:
    """Lower bounds of the exponential, zero of what is not a number."""
    found = _exponential(np.clip(x, LOWEST, HIGHEST)) * (1 - PLAIN)
    return np.where(x >= LOWEST, found, 0.0)


@np.errstate(all="ignore")
def expm1_above(x: Up) -> Up:
    """Upper bounds of e^x - 1, at most x e^x; what the bound of e^x has added exceeds the rounding here."""
    whole = exp_above(x.values)
    return Up(np.where(x.values < SMALL, (x * whole).values, whole.values - 1.0))

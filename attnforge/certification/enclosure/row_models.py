r"""Heads along a line as polynomials on many intervals at once, in float64, with a bound of what these leave out.

On an interval $m + r t$, $|t| \le 1$, let $y_k$ be the scores at m less the largest, $\bar a$ any slope, and
$D_k = (a_k - \bar a) r$: a common factor cancels, so that
$$ \mathrm{head}(t) = o + \frac{n(t)}{s(t)}, \quad n = \sum_k e^{y_k + D_k t} u_k(t), \quad s = \sum_k e^{y_k + D_k t},
   \quad u_k(t) = v_k(m + r t) - o . $$
Scores, slopes and values are pairs of float64 numbers (:class:`Pairs`), so that nothing is lost where they cancel; then
they are rounded to $\hat e_k$, $\hat D_k$, $\hat u_k$. What that does to a weight is a factor $e^{\zeta}$,
$|\zeta| \le \eta_k$, and $e^\eta - 1 \le \eta + \eta^2$ up to $\eta = 1$; weights below $e^{-600}$ count as zero, and
are charged for whole. With $X_k \ge \hat e_k e^{|\hat D_k|}$, the
coefficients $\sum_k \hat e_k \hat u_k \hat D_k^j / j!$, j up to K, leave out of n at most
$$ \rho_n = \sum_k X_k |\hat u_k|
   \Big(\eta_k + \eta_k^2 + 2 u |\hat D_k| + \gamma_{b + 4} + \frac{|\hat D_k|^{K+1}}{(K+1)!}\Big)
   + X_k\,\delta u_k , $$
for powers are rounded twice a degree, $\sum_j 2 j u |D|^j/j! = 2 u |D| e^{|D|}$, and sums of b levels once a level;
the same for s with 1 in place of $u_k$. For every polynomial q, $n/s - q = (n - q s)/s$; its coefficients make those of
$n - q s$ up to degree K vanish, to rounding. Since $\sum_k \hat e_k e^{\hat D_k t}$ is convex, s is at least
$s_0 - |s_1| - 3 \rho_s$. The origin o is about the output at m: there n is small, and so is all that is lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import factorial
from typing import Any

import numpy as np
import numpy.typing as npt
from flint import arb

from attnforge.certification.enclosure.affine_heads import AffineHead
from attnforge.outward import Up, gamma, precision
from attnforge.outward.arrays import TINY, UNIT, two_product, two_sum

Array = npt.NDArray[np.float64]

DEGREE = 23
LOWEST, HIGHEST = -600.0, 700.0  # exponents below are as good as the first, above it nothing is known
PARTS = 64  # of the octave whose powers of two are kept: the rest of an exponent is at most log(2)/128
WEIGHED = 6 * UNIT  # relative: an exponential is within 3 roundoffs, times 1 + the low part of its exponent
ROOT = float(np.nextafter(factorial(DEGREE + 1) ** (-1.0 / (DEGREE + 1)) * (1 + 2.0**-40), 1.0))
POINTS = 128  # intervals between points at which a polynomial is evaluated


@dataclass(frozen=True, eq=False)
class Pairs:
    """Numbers within ``off`` of hi + lo, the second a rounding of the first."""

    hi: Array
    lo: Array
    off: Up

    @classmethod
    def of(cls, numbers: list[arb]) -> Pairs:
        """Of balls."""
        hi = np.array([float(z.mid()) for z in numbers])
        rests = [z - arb(h) for z, h in zip(numbers, hi.tolist(), strict=True)]
        lo = np.array([float(z.mid()) for z in rests])
        off = [float((z - arb(h)).abs_upper()) for z, h in zip(rests, lo.tolist(), strict=True)]
        return cls(hi, lo, Up.of(np.nextafter(off, np.inf) * (np.array(off) > 0)))

    @classmethod
    def exactly(cls, numbers: Array) -> Pairs:
        """Of float64 numbers."""
        return cls(numbers, np.zeros_like(numbers), Up(np.zeros_like(numbers)))

    def __getitem__(self, index: Any) -> Pairs:
        return Pairs(self.hi[index], self.lo[index], self.off[index])

    def __add__(self, other: Pairs) -> Pairs:
        hi, lost = two_sum(self.hi, other.hi)
        lo = lost + (self.lo + other.lo)
        rounded = (np.abs(lost) + np.abs(self.lo) + np.abs(other.lo)) * (4 * UNIT)
        return Pairs(hi, lo, self.off + other.off + rounded)

    def __neg__(self) -> Pairs:
        return Pairs(-self.hi, -self.lo, self.off)

    def times(self, factor: Array) -> Pairs:
        """Times float64 numbers."""
        hi, lost = two_product(self.hi, factor)
        more = self.lo * factor
        rounded = (np.abs(lost) + np.abs(more)) * (4 * UNIT) + 8 * TINY
        return Pairs(hi, lost + more, self.off * factor + rounded)

    def rounded(self) -> tuple[Array, Up]:
        """The nearest float64 numbers, and how far they are off."""
        hi, lo = two_sum(self.hi, self.lo)
        return hi, self.off + lo


def exponential(exponents: Array) -> Array:
    r"""Within 3 roundoffs of exp(x), for x from -600 to 700, by operations that round correctly.

    With $x = n c + r$, $c = \log 2 / 64$, it is $2^{\lfloor n/64 \rfloor} T_{n \bmod 64} (1 + e^r - 1)$: c has a part
    of 33 bits, whose product with n is exact, and n times the other is rounded by $2^{-75}$; r is at most 0.0055, its
    rounding $2^{-60}$, and $r^6/720$ less than a third of a roundoff; T and the last sum err by one each.
    """
    count = np.rint(exponents * (1.0 / (_LONG + _SHORT)))
    rest = (exponents - count * _LONG) - count * _SHORT
    less = rest * (1 + rest * (1 / 2 + rest * (1 / 6 + rest * (1 / 24 + rest * (1 / 120)))))
    whole = count.astype(np.int64)
    powers = _POWERS[whole % PARTS]
    return np.ldexp(powers + powers * less, whole // PARTS)


def _constants() -> tuple[float, float, Array]:
    """Both parts of log(2)/64, and the powers of two by 64ths, rounded to nearest."""
    with precision():
        step = arb(2).log() / PARTS
        long = float(np.round(float(step) * 2.0**40)) * 2.0**-40
        return long, float(step - arb(long)), np.array([float(arb(2) ** (arb(i) / PARTS)) for i in range(PARTS)])


_LONG, _SHORT, _POWERS = _constants()


def above_exponential(exponents: Array) -> Up:
    """Upper bounds of exp(x), raised for who multiplies it by a number near 1; infinite where it is large."""
    found = exponential(np.clip(exponents, LOWEST, HIGHEST)) * (1 + 2.0**-40)
    return Up.of(np.where(exponents <= HIGHEST, found, np.inf))


@dataclass(frozen=True, eq=False)
class Polynomials:
    """Coefficients ``c`` (K + 1, C) of t, the ``rest`` (C,) that they leave out, and ``blur``: float64's part of it."""

    c: Array
    rest: Up
    blur: Up


class RowModel:
    """One head along the line."""

    def __init__(self, head: AffineHead) -> None:
        self.slopes, self.offsets, self.values = (
            Pairs.of(part.entries()) for part in (head.slopes, head.offsets, head.values)
        )
        self.tilted = [k for k, _ in head.tilts]
        self.tilts = Pairs.of([tilt[0, 0] for _, tilt in head.tilts])

    def crossings(self) -> Array:
        """About where the scores of keys pass those of the next steeper ones."""
        order = self.slopes.hi.argsort()
        with np.errstate(all="ignore"):
            found = -np.diff(self.offsets.hi[order]) / np.diff(self.slopes.hi[order])
        return np.asarray(found[np.isfinite(found)])

    def on(self, middle: Array, radius: Array) -> tuple[Array, Polynomials]:
        """On intervals: the origins (C,), and the head less these."""
        scores = self.slopes.times(middle[:, None]) + self.offsets
        cells, best = np.arange(len(middle)), scores.hi.argmax(axis=1)
        top = Pairs(scores.hi[cells, best][:, None], scores.lo[cells, best][:, None], Up.zeros(len(cells), 1))
        weights, behind, off, astray = _weights(scores + -top)
        about = weights.sum(axis=1, keepdims=True)
        mean = (weights * self.slopes.hi).sum(axis=1, keepdims=True) / about
        tilts, more = (self.slopes + -Pairs.exactly(mean)).times(radius[:, None]).rounded()
        values = self._values(middle)
        origin = (weights * values.hi).sum(axis=1) / about[:, 0]
        origin = np.where(np.isfinite(origin), origin, 0.0)
        eta, far = off + more, behind < LOWEST
        charged = Up(np.where(far, 1.0, np.where(eta.values <= 1.0, (eta + eta * eta).values, np.inf)))
        ends = np.nextafter(behind + np.abs(tilts), np.inf) + np.where(far, (astray + more).values, 0.0)
        found = _quotient(
            _Terms(weights, tilts, above_exponential(np.nextafter(ends, np.inf)), charged),
            *(values + -Pairs.exactly(origin[:, None])).rounded(),
            *self._rising(radius),
        )
        return origin, found

    def _values(self, middle: Array) -> Pairs:
        """The keys' values at the middles (C, p)."""
        values = self.values.times(np.ones((len(middle), 1)))
        if self.tilted:
            moved = values[:, self.tilted] + self.tilts.times(middle[:, None])
            for part, some in ((values.hi, moved.hi), (values.lo, moved.lo), (values.off.values, moved.off.values)):
                part[:, self.tilted] = some
        return values

    def _rising(self, radius: Array) -> tuple[Array, Up]:
        """By how much they rise from the middle to the end, and how far that is off."""
        rising, off = self.tilts.times(radius[:, None]).rounded()
        found, unsure = (np.zeros((len(radius), len(self.slopes.hi))) for _ in range(2))
        found[:, self.tilted], unsure[:, self.tilted] = rising, off.values
        return found, Up(unsure)


@dataclass(frozen=True, eq=False)
class _Terms:
    """Weights at the middle, exponents at the end, upper bounds of their product, and what weights are off by."""

    weights: Array
    tilts: Array
    whole: Up
    off: Up


def _weights(behind: Pairs) -> tuple[Array, Array, Up, Up]:
    """The exponentials of what keys are behind, that as float64 numbers, and how far logarithms and numbers may be off.

    Of keys far behind nothing is added up: their exponentials, at the end of the interval, are all left out.
    """
    hi, lo = two_sum(behind.hi, behind.lo)
    weights = np.where(hi < LOWEST, 0.0, exponential(np.clip(hi, LOWEST, HIGHEST)) * (1 + lo))
    return weights, hi, behind.off + Up.of(lo) * lo + WEIGHED, behind.off + lo


def _quotient(terms: _Terms, values: Array, unsure: Up, rising: Array, doubtful: Up) -> Polynomials:
    """The polynomials of n/s."""
    powers = np.empty((DEGREE + 1, *values.shape))
    powers[0] = terms.weights
    for j in range(1, DEGREE + 1):
        np.multiply(powers[j - 1], terms.tilts / j, out=powers[j])
    below, above = _summed(powers), _summed(powers * values)
    dropped = Up.zeros(len(values))
    if rising.any():
        above[1:] += _summed(powers[:-1] * rising)
        dropped = (Up.of(powers[-1]) * rising).sum()
    size = terms.whole * (Up.of(values) + Up.of(rising))
    tail = _tail(terms.tilts)
    off = terms.off + gamma(values.shape[1].bit_length() + 4) + Up.of(terms.tilts) * (2 * UNIT * (1 + 2.0**-40))
    blur = (size * off + terms.whole * (unsure + doubtful)).sum() + 2 * powers.size * TINY
    lacking = (terms.whole * tail).sum(), (terms.whole * off).sum()
    return _divided(above, below, ((size * tail).sum() + dropped, blur), lacking)


def _summed(terms: Array) -> Array:
    """Sums along the last axis, half by half: with n of binary length b, a term passes at most b additions."""
    while terms.shape[-1] > 1:
        half = terms.shape[-1] // 2
        paired = terms[..., :half] + terms[..., half : 2 * half]
        terms = np.concatenate([paired, terms[..., 2 * half :]], axis=-1)
    return terms[..., 0]


def _tail(tilts: Array) -> Up:
    """Of $|D|^{K+1}/(K+1)!$, at most 1: K + 1 is 24."""
    cube = (Up.of(tilts) * ROOT) ** 3
    twelfth = (cube * cube) ** 2
    return (twelfth * twelfth).least(1.0)


def _divided(above: Array, below: Array, left: tuple[Up, Up], lacking: tuple[Up, Up]) -> Polynomials:
    """n/s from coefficients (K + 1, C), and what these leave out: by truncation, and by rounding."""
    c = np.zeros_like(above)
    for j in range(DEGREE + 1):
        c[j] = (above[j] - (below[j:0:-1] * c[:j]).sum(axis=0)) / below[0]
    sizes, total = Up.of(c), Up.of(below)
    whole = sizes.sum(0)
    beyond = (sizes[1:] * Up(np.cumsum(np.abs(below[:0:-1]), axis=0) * (1 + gamma(2 * DEGREE)))).sum(0)
    made = whole * total.sum(0) * gamma(2 * DEGREE + 12) + 4 * c.shape[0] ** 2 * TINY
    rest, blur = (by + whole * of + more for by, of, more in zip(left, lacking, (beyond, made), strict=True))
    least = np.nextafter(below[0] - np.abs(below[1]), -np.inf) - 3 * (lacking[0] + lacking[1]).values
    least = np.nextafter(least, -np.inf)
    return Polynomials(c, (rest + blur) / least, blur / least)


def largest_sizes(c: Array) -> tuple[Array, Array]:
    r"""Bounds (C,) of polynomials (K + 1, C) of t on [-1, 1], from above and from below.

    Between points $\delta$ apart, p is within $\delta^2/8 \max |p''|$ of the line through its values there, and
    $|p''| \le \sum_j j (j - 1) |c_j|$; the values are off by $\gamma$ of $\sum_j |c_j|$.
    """
    values, sizes, degrees = np.abs(c.T @ _powers()), Up.of(c), np.arange(len(c))
    bent = (sizes * (degrees * (degrees - 1.0))[:, None]).sum(0) * (0.5 / POINTS**2)
    wrong = sizes.sum(0) * gamma(3 * len(c) + 8)
    above, below = Up.of(values.max(axis=1)) + bent + wrong, values[:, 1:-1].max(axis=1) - wrong.values
    return above.values, np.maximum(np.nextafter(below, -np.inf), 0.0)


@lru_cache
def _powers() -> Array:
    """Powers (K + 1, points) of evenly spaced points of [-1, 1]."""
    points = np.arange(-POINTS // 2, POINTS // 2 + 1) / (POINTS // 2)
    return np.cumprod(np.concatenate([np.ones((1, len(points))), np.tile(points, (DEGREE, 1))]), axis=0)

"""Midpoint-radius arrays: NumPy arithmetic in which every result encloses the exact one.

A ball array stands for all arrays within ``rad`` of ``mid``, entry by entry. A dot product of k terms computed by any
summation order, with or without fused operations, errs by at most ``gamma(k) sum |a_i b_i|`` with
``gamma(k) = k u / (1 - k u)`` (Higham 2002, section 3.1); radii are computed in floating point too, so each is inflated
by a relative ``RADIUS_SLACK`` that covers the roundings of its own few operations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
ArrayLike = npt.ArrayLike

UNIT = 2.0**-53
TINY = float(np.finfo(np.float64).tiny)
RADIUS_SLACK = 1.0 + 2.0**-40  # radii are sums of at most 2^11 groups of products: (2^11 + 8) u < 2^-41


def gamma(operations: int, unit: float = UNIT) -> float:
    """Relative error of ``operations`` roundings of size ``unit``, rounded up: k u / (1 - k u), or infinity.

    >>> gamma(2) > 2 * UNIT
    True
    """
    if operations == 0 or unit == 0:
        return 0.0
    product = operations * unit
    return up(product / (1.0 - product)) if product < 0.5 else float("inf")


def up(value: float) -> float:
    """The next float64 above: turns a correctly rounded result into an upper bound."""
    return math.nextafter(value, math.inf)


def down(value: float) -> float:
    """The next float64 below."""
    return math.nextafter(value, -math.inf)


def add_up(*values: float) -> float:
    """An upper bound of a sum.

    >>> add_up(0.1, 0.2) >= 0.3
    True
    """
    total = 0.0
    for value in values:
        total = up(total + value) if value else total
    return total


def product_up(*values: float) -> float:
    """An upper bound of a product of non-negative numbers (zero stays zero, infinity times zero is zero)."""
    if any(value == 0.0 for value in values):
        return 0.0
    total = 1.0
    for value in values:
        total = up(total * value)
    return total


@dataclass(frozen=True, eq=False)
class Balls:
    """An array of real intervals, ``mid - rad`` to ``mid + rad``."""

    mid: Array
    rad: Array

    @classmethod
    def exact(cls, values: ArrayLike) -> Balls:
        """The given float64 numbers, without error."""
        mid = np.asarray(values, dtype=np.float64)
        return cls(mid, np.zeros_like(mid))

    @classmethod
    def between(cls, lower: ArrayLike, upper: ArrayLike) -> Balls:
        """The intervals [lower, upper], rounded outward."""
        low, high = np.asarray(lower, dtype=np.float64), np.asarray(upper, dtype=np.float64)
        mid = low / 2 + high / 2
        return cls(mid, np.nextafter(np.maximum(high - mid, mid - low), np.inf))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return self.mid.shape

    def __add__(self, other: Balls) -> Balls:
        mid = self.mid + other.mid
        rounding = UNIT * np.abs(mid) * ((self.mid != 0) & (other.mid != 0))  # adding zero is exact
        return Balls(mid, _inflate(self.rad + other.rad + rounding))

    def __sub__(self, other: Balls) -> Balls:
        return self + Balls(-other.mid, other.rad)

    def __mul__(self, other: Balls) -> Balls:
        mid = self.mid * other.mid
        spread = np.abs(self.mid) * other.rad + self.rad * (np.abs(other.mid) + other.rad)
        return Balls(mid, _inflate(spread + UNIT * np.abs(mid) + TINY * (self._present() & other._present())))

    def __matmul__(self, other: Balls) -> Balls:
        terms = self.shape[-1]
        mid = self.mid @ other.mid
        spread = np.abs(self.mid) @ other.rad + self.rad @ (np.abs(other.mid) + other.rad)
        products = self._present().astype(np.float64) @ other._present().astype(np.float64)
        rounding = gamma(terms + 1) * (np.abs(self.mid) @ np.abs(other.mid)) + TINY * products
        return Balls(mid, _inflate(spread + rounding) * (1.0 + gamma(terms + 1)))

    def inverse(self) -> Balls:
        """One over balls that do not hold zero, infinite where they do: |1/x - 1/m| <= r / (|m| (|m| - r))."""
        size = np.abs(self.mid)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            mid = 1.0 / self.mid
            spread = self.rad / size / np.nextafter(size - self.rad, -np.inf) + UNIT * np.abs(mid) + TINY
        return Balls(mid, np.where(size > self.rad, _inflate(spread), np.inf))

    def __getitem__(self, index: Any) -> Balls:
        return Balls(self.mid[index], self.rad[index])

    def _present(self) -> npt.NDArray[np.bool_]:
        """Where the ball is not exactly zero: there a product may underflow."""
        return np.asarray((self.mid != 0) | (self.rad != 0))

    def magnitude(self) -> Array:
        """An upper bound of the absolute value, entry by entry."""
        return np.asarray(np.nextafter(np.abs(self.mid) + self.rad, np.inf) * (self.mid.astype(bool) | (self.rad > 0)))


def two_sum(one: Array, two: Array) -> tuple[Array, Array]:
    """The rounded sum, and exactly what it lacks (Knuth); NaN where it overflows."""
    total = one + two
    back = total - one
    return total, (one - (total - back)) + (two - back)


def two_product(one: Array, two: Array) -> tuple[Array, Array]:
    """The rounded product, and exactly what it lacks (Dekker); NaN where it overflows, above 2^996."""
    product, (high, low), (above, below) = one * two, _halves(one), _halves(two)
    return product, ((high * above - product) + high * below + low * above) + low * below


def _halves(numbers: Array) -> tuple[Array, Array]:
    """Two numbers of half the digits each, whose sum it is."""
    scaled = (2.0**27 + 1.0) * numbers
    high = scaled - (scaled - numbers)
    return high, numbers - high


def _inflate(radius: Array) -> Array:
    return radius * RADIUS_SLACK

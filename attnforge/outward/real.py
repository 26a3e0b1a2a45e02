"""python-flint's real balls with float64 doors that round outward."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from flint import arb, ctx

PRECISION = 96  # bits: float64 inputs are exact, and 40 guard bits are left for a sum of 10^6 terms


@contextmanager
def precision(bits: int = PRECISION) -> Iterator[None]:
    """Work at ``bits`` of precision inside the block and restore the caller's afterwards."""
    before = ctx.prec
    ctx.prec = bits
    try:
        yield
    finally:
        ctx.prec = before


def ball(value: float) -> arb:
    """The float64 number, exactly."""
    return arb(float(value))


def interval(low: float, high: float) -> arb:
    """The smallest ball that contains [low, high]."""
    return arb(low).union(arb(high))


def upper(value: arb) -> float:
    """A float64 not below any point of the ball: the nearest to its end, or the next one; NaN is infinity.

    >>> upper(arb(0)), upper(arb(1) / 3) > 1 / 3
    (0.0, True)
    """
    if not value.is_finite():
        return math.inf
    end = value.upper()
    nearest = float(end)
    return nearest if end <= nearest else math.nextafter(nearest, math.inf)


def lower(value: arb) -> float:
    """A float64 not above any point of the ball."""
    if not value.is_finite():
        return -math.inf
    end = value.lower()
    nearest = float(end)
    return nearest if end >= nearest else math.nextafter(nearest, -math.inf)

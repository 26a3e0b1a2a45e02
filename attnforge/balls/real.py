"""python-flint's real balls with float64 doors that round outward."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
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
    """A float64 above every point of the ball: ``float`` rounds to nearest, so one step further; NaN is infinity."""
    return float(np.nextafter(float(value.upper()), np.inf)) if value.is_finite() else float("inf")


def lower(value: arb) -> float:
    """A float64 below every point of the ball."""
    return float(np.nextafter(float(value.lower()), -np.inf)) if value.is_finite() else -float("inf")

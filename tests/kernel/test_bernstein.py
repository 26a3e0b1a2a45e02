"""The largest size of polynomials on boxes lies between the bounds, which pieces and higher degrees bring together."""

from __future__ import annotations

import os
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from attnforge.kernel.bernstein import largest_size

CELLS = int(os.environ.get("ATTNFORGE_EXAMPLES", "10"))
SHAPES = [(1,), (2,), (7,), (3, 5), (17, 2), (1, 4), (3, 1, 2), (2, 2, 2, 2)]


def exactly(coefficients, at):
    """The value at a point, without rounding."""
    total = Fraction(0)
    for exponent, c in np.ndenumerate(coefficients):
        term = Fraction(float(c))
        for x, power in zip(at, exponent, strict=True):
            term *= x**power
        total += term
    return total


def points(shape):
    """Ends, middles and others, fewer for more axes."""
    return list(product([Fraction(i, 4) for i in range(-4, 5, 1 if len(shape) < 3 else 4)], repeat=len(shape)))


@pytest.mark.parametrize("pieces", [1, 2, 3])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_values_lie_between_the_bounds(shape, pieces):
    rng = np.random.default_rng(0)
    c = rng.normal(size=(CELLS, *shape)) * 2.0 ** rng.integers(-20, 20, size=(CELLS, *[1] * len(shape)))
    c[::3] = np.round(c[::3], 1)  # so that values at corners may cancel
    found = largest_size(c, pieces)
    assert found.place.shape == (CELLS, len(shape))
    for cell in range(CELLS):
        sizes = [abs(exactly(c[cell], at)) for at in points(shape)]
        assert max(sizes) <= Fraction(found.above[cell])
        attained = abs(exactly(c[cell], [Fraction(round(x * pieces), pieces) for x in found.place[cell].tolist()]))
        assert Fraction(found.below[cell]) <= attained <= Fraction(found.above[cell])
        assert attained <= Fraction(found.below[cell]) + Fraction(1e-13) * Fraction(np.abs(c[cell]).sum())


def test_more_pieces_bring_the_bounds_together():
    """Chebyshev's polynomial of degree 6 is at most 1, and its coefficients add up to 99."""
    t6 = np.array([[-1.0, 0, 18, 0, -48, 0, 32]])
    spans = [float(largest_size(t6, pieces).above[0]) for pieces in (1, 2, 8, 32)]
    assert spans == sorted(spans, reverse=True)
    assert 1.0 <= spans[-1] <= 1.01
    assert spans[0] >= 1.5
    shifted = largest_size(np.array([[0.25, -1.0, 1.0]]), 8)  # (t - 1/2)^2: largest at the left end
    assert shifted.place.tolist() == [[-1.0]]
    assert shifted.below[0] == pytest.approx(2.25)


@pytest.mark.parametrize("scale", [2.0**-1000, 2.0**-1040, 2.0**-1074])
def test_what_underflows_is_charged(scale):
    c = np.round(np.random.default_rng(1).normal(size=(CELLS, 9, 3)) * 3) * scale
    found = largest_size(c, 3)
    for cell in range(CELLS):
        assert max(abs(exactly(c[cell], at)) for at in points((9, 3))) <= Fraction(found.above[cell])
    assert not largest_size(np.zeros((2, 4, 4)), 2).above.any()
    bent = np.array([[2.0, 1.0, -1.0]]) * scale  # largest at 1/2, an end of a piece: 9/4
    assert exactly(bent[0], [Fraction(1, 2)]) <= Fraction(largest_size(bent, 4).above[0])


def test_a_value_of_extreme_roundings_is_not_exceeded():
    """Of many terms of one sign, whose sum float64 rounds down."""
    rng = np.random.default_rng(2)
    c = (1 + 2.0**-52 * rng.integers(0, 3, size=(CELLS * 10, 12))) * 2.0 ** rng.integers(0, 3, size=(CELLS * 10, 12))
    found = largest_size(c, 1)
    assert all(sum(map(Fraction, row.tolist())) <= Fraction(top) for row, top in zip(c, found.above, strict=True))


def test_nothing_is_known_of_what_is_not_a_number():
    found = largest_size(np.array([[1.0, np.nan], [np.inf, 1.0], [1.0, 1.0], [1e308, 1e308]]), 2)
    assert np.isinf(found.above).tolist() == [True, True, False, True]
    assert found.below[[0, 1, 3]].tolist() == [0.0] * 3

"""Bernstein's bounds of polynomials: on both sides of the largest value, closer with more pieces."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial import polynomial

from attnforge.certification.enclosure.bernstein import largest_size


def test_a_parabola_by_hand():
    """1 - 2 t^2 has Bernstein coefficients -1, 3, -1 on [-1, 1], and 1, 1, -1 on [0, 1]."""
    polynomials = np.array([[1.0, 0.0, -2.0]])
    assert largest_size(polynomials, 1)[0][0] == pytest.approx(3.0, abs=1e-13)
    assert largest_size(polynomials, 2)[0][0] == pytest.approx(1.0, abs=1e-13)


@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_the_largest_value_lies_between(seed, inputs, pieces):
    rng = np.random.default_rng(seed)
    coefficients = rng.normal(size=(1, *[4] * inputs))
    points = rng.uniform(-1, 1, (inputs, 400))
    evaluate = {1: polynomial.polyval, 2: polynomial.polyval2d, 3: polynomial.polyval3d}[inputs]
    values = np.abs(evaluate(*points, coefficients[0]))
    above, below = largest_size(coefficients, pieces)
    assert values.max() <= above[0]
    assert 0 <= below[0] <= above[0]


def test_more_pieces_close_the_gap():
    """5 - (t - 0.3)^2 - (s + 0.2)^2 is largest inside: the gap falls with the square of the pieces."""
    coefficients = np.array([[[5 - 0.09 - 0.04, -0.4, -1.0], [0.6, 0, 0], [-1.0, 0, 0]]])
    gaps = [float(np.subtract(*largest_size(coefficients, pieces))[0]) for pieces in (2, 8, 32)]
    assert gaps[2] < 0.2 * gaps[1] < 0.04 * gaps[0]

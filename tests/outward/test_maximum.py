"""``supremum`` is above a dense sample, and close to it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st

from attnforge.outward import precision, supremum

CASES = {
    "parabola": (lambda x: x * (1 - x), lambda x: x * (1 - x), 0.0, 1.0),
    "maximum at the left end": (lambda x: (-x).exp(), lambda x: np.exp(-x), 0.0, 3.0),
    "maximum at the right end": (lambda x: x * x * x, lambda x: x**3, -1.0, 2.0),
    "two peaks": (lambda x: (7 * x).sin() + x / 5, lambda x: np.sin(7 * x) + x / 5, 0.0, 2.0),
    "negative": (lambda x: -1 - x * x, lambda x: -1 - x * x, -2.0, 2.0),
    "narrow peak": (
        lambda x: (-1000 * (x - arb(1) / 3) ** 2).exp(),
        lambda x: np.exp(-1000 * (x - 1 / 3) ** 2),
        -1.0,
        1.0,
    ),
}


@pytest.mark.parametrize("rtol", [0.01, 1e-4])
@pytest.mark.parametrize("case", CASES)
def test_supremum_is_above_a_dense_sample_and_within_rtol(case, rtol):
    balls, floats, low, high = CASES[case]
    sample = float(floats(np.linspace(low, high, 200_001)).max())
    with precision():
        found = supremum(balls, low, high, rtol=rtol)
    assert sample * (1 - 1e-14 * np.sign(sample)) <= found <= sample + (rtol + 1e-6) * abs(sample)


@given(st.lists(st.floats(-3, 3), min_size=2, max_size=5), st.floats(-2, 2), st.floats(0.1, 2))
@settings(max_examples=30)
def test_supremum_bounds_random_polynomials(coefficients, low, width):
    def polynomial(x):
        total = 0 * x
        for coefficient in coefficients:
            total = total * x + coefficient
        return total

    sample = float(polynomial(np.linspace(low, low + width, 4001)).max())
    with precision():
        found = supremum(polynomial, low, low + width)
    assert found >= sample - 1e-12


def test_a_function_without_a_bound_gives_infinity():
    with precision():
        assert supremum(lambda x: 1 / x, -1.0, 1.0) == math.inf


def test_cells_on_which_the_enclosure_fails_are_split_not_lost():
    with precision():
        found = supremum(lambda x: 1 / (1 + 1000 * (x - arb(1) / 3) ** 2), -1.0, 1.0)
    assert 1.0 - 1e-6 <= found <= 1.011

"""Rows of binomial anchors: Bernstein weights, nested rows, and the values that make Newton's polynomials."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnforge.anchors.binomial import LEAST, MOST, Binomial
from attnforge.anchors.leja import leja, newton

STEEPNESS = st.floats(0.3, 4.0)
X = np.linspace(-1, 1, 41)


@given(STEEPNESS, st.integers(0, 12))
def test_weights_are_bernstein_polynomials_of_the_sigmoid(steepness, degree):
    sigma = 1 / (1 + np.exp(-steepness * X))
    wanted = [math.comb(degree, k) * sigma**k * (1 - sigma) ** (degree - k) for k in range(degree + 1)]
    assert Binomial(steepness).axis(-1.0, 1.0, degree).weights(X) == pytest.approx(np.array(wanted).T, abs=1e-13)


@given(STEEPNESS, st.integers(0, 10))
def test_values_make_newton_polynomials(steepness, degree):
    rows, points = Binomial(steepness), leja(degree + 1)
    values = rows.values(degree, points)
    found = rows.axis(2.0, 5.0, degree).weights(3.5 + 1.5 * X) @ values
    assert found == pytest.approx(newton(points, rows.to_z(X)), abs=1e-14 * np.abs(values).max())


def test_a_sampled_value_in_place_of_a_fitted_one_is_seen():
    rows, points = Binomial(1.0), leja(4)
    values = rows.values(3, points)
    values[1, 2] *= 1.001
    found = rows.axis(-1.0, 1.0, 3).weights(X) @ values
    assert np.abs(found - newton(points, rows.to_z(X))).max() > 1e-4


@given(STEEPNESS)
def test_places_and_z_are_inverse(steepness):
    rows = Binomial(steepness)
    assert rows.to_place(rows.to_z(X)) == pytest.approx(X, abs=1e-13)
    assert rows.to_place(np.array([-1.0, 0.0, 1.0])).tolist() == [-1.0, 0.0, 1.0]


def test_values_of_chebyshev_polynomials_grow_at_the_rate():
    rows, degree = Binomial.of_rate(5.0), 6
    nodes = np.cos(np.pi * (np.arange(degree + 1) + 0.5) / (degree + 1))
    weights = rows.axis(-1.0, 1.0, degree).weights(rows.to_place(nodes))
    values = np.linalg.solve(weights, np.cos(degree * np.arccos(nodes)))
    assert values[[0, -1]] == pytest.approx((5.0**degree + 5.0**-degree) / 2, rel=1e-9)


def test_the_rate_falls_with_the_tolerance_and_the_precision():
    asked = ((1e-3, 1e-16), (1e-10, 1e-16), (1e-3, 1e-7))
    steep = [Binomial.for_tolerance(tol, roundoff).steepness for tol, roundoff in asked]
    assert steep[0] == Binomial.of_rate(MOST).steepness < steep[1] < steep[2] <= Binomial.of_rate(LEAST).steepness


def test_two_anchors_sit_at_one_over_the_steepness():
    assert Binomial(2.0).axis(0.0, 4.0, 1).positions.tolist() == [1.0, 3.0]  # t = -1, 1 about the middle 2, half 2


def test_an_interval_of_length_zero_has_constant_rows():
    assert Binomial(1.0).axis(3.0, 3.0, 0).weights(np.array([3.0])).tolist() == [[1.0]]

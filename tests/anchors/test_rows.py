"""Rows of anchors against exact arithmetic: weights, sharpness and ghosts, binomial rows, inverse heat values."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnforge.anchors.axis import Axis
from attnforge.anchors.binomial import Binomial
from attnforge.anchors.edges import Edge
from attnforge.anchors.hermite import HermiteRow, hermite_plan, hermite_values
from attnforge.anchors.leja import leja, newton
from attnforge.anchors.mesh import Spacing
from attnforge.anchors.panels import Panels
from attnforge.anchors.saturation import ghosts_for, sharpness_for
from attnforge.lemmas.saturation import reproduction, saturation

X = np.linspace(-1.0, 1.0, 41)


def gaussian(positions, step, c, x):
    """Weights proportional to exp(-c ((x - c_k) / h)^2)."""
    logs = -c * ((x[:, None] - positions) / step) ** 2
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def exact_graded(positions, c, x):
    """The definition of graded scores, in 60 digits: neighbours tie half-way, log-ratios of slope 2 c / gap."""
    with mpmath.workdps(60):
        at, point = [mpmath.mpf(float(p)) for p in positions], mpmath.mpf(float(x))
        scores = [mpmath.mpf(0)]
        for left, right in itertools.pairwise(at):
            scores.append(scores[-1] + 2 * mpmath.mpf(c) / (right - left) * (point - (left + right) / 2))
        weights = [mpmath.exp(s - max(scores)) for s in scores]
        total = mpmath.fsum(weights)
        return np.array([float(w / total) for w in weights])


@given(st.integers(2, 60), st.floats(0, 6), st.floats(0.01, 5))
def test_uniform_weights_are_gaussian_and_sum_to_one(inner, ghosts, c):
    count = inner + 2 * int(np.ceil(ghosts))
    axis = Axis.uniform(-1.0, 1.0, count, ghosts, c)
    np.testing.assert_allclose(axis.weights(X).sum(axis=1), 1.0, rtol=0, atol=1e-13)
    step = axis.positions[1] - axis.positions[0]
    np.testing.assert_allclose(axis.weights(X), gaussian(axis.positions, step, c, X), rtol=0, atol=1e-10)


def fine_at(edge, smallest, growth=1.5):
    """Positions from the edge to about one beyond it, the first gap the smallest."""
    gaps = smallest * growth ** np.arange(int(np.log(1 / smallest) / np.log(growth)))
    return edge + np.concatenate([[0.0], np.cumsum(gaps)])


@pytest.mark.parametrize("smallest", [1e-6, 1e-12])
@pytest.mark.parametrize("edge", [0.0, 0.3])
@pytest.mark.parametrize("side", [1, -1], ids=["fine on the left", "fine on the right"])
def test_one_sided_gradings_down_to_gaps_of_1e_12_keep_their_weights(side, edge, smallest):
    positions = np.sort(side * fine_at(edge, smallest))
    axis = Axis.graded(positions, float(positions[0]), float(positions[-1]), 0.25, side * edge)
    x = np.concatenate([(positions[1:] + positions[:-1]) / 2, positions])[::3]
    expected = np.array([exact_graded(positions, 0.25, point) for point in x])
    np.testing.assert_allclose(axis.weights(x), expected, rtol=0, atol=2e-14)


@pytest.mark.parametrize("smallest", [1e-3, 1e-6, 1e-9])
def test_two_sided_gradings_lose_what_their_largest_score_loses(smallest):
    right = fine_at(0.0, smallest)
    positions = np.concatenate([-right[:0:-1], right])
    axis = Axis.graded(positions, float(positions[0]), float(positions[-1]), 0.25, 0.0)
    x = np.concatenate([(positions[1:] + positions[:-1]) / 2, positions])[::3]
    expected = np.array([exact_graded(positions, 0.25, point) for point in x])
    largest = float(np.abs(axis.keys * positions).max())
    assert largest < 2 * 0.25 / smallest * 10
    assert np.abs(axis.weights(x) - expected).max() <= 4 * 2.0**-53 * largest + 1e-14


TOLERANCES = st.floats(1e-300, 0.2)


def leading(c: float) -> float:
    return 2 * math.pi / c * math.exp(-(math.pi**2) / c)


@given(TOLERANCES)
def test_the_sharpness_is_the_largest(tol):
    c = sharpness_for(tol)
    assert leading(c) == pytest.approx(tol, rel=1e-11)
    assert leading(1.001 * c) > tol


@given(st.floats(1e-14, 1e-2))
def test_the_proved_saturation_is_near_what_was_asked(tol):
    assert saturation(sharpness_for(tol), 1) == pytest.approx(tol, rel=0.02)


@given(st.floats(1e-300, 10.0), st.floats(0.05, 30.0))
def test_the_ghosts_are_the_fewest(tol, c):
    g = ghosts_for(tol, c)
    assert c * g**2 >= -math.log(tol) * (1 - 1e-12)
    assert g == 0 or c * (g - 1) ** 2 < -math.log(tol)


STEEPNESS = st.floats(0.3, 4.0)


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


@pytest.mark.parametrize("growth", [0.3, 0.5])
@pytest.mark.parametrize(("order", "gap"), [(1, 7.5e-7), (2, 7.5e-7**0.5), (3, 7.5e-7 ** (1 / 3))])
def test_meshes_have_the_gap_that_an_edge_asks_for_and_grow_gently(order, gap, growth):
    panels = Panels(np.array([-1.0, 0.3, 1.0]), (8, 8))
    rough = np.where(np.arange(len(panels.nodes)) % 2, 1.0, -1.0)[:, None]  # every panel needs its whole degree
    spacing = Spacing.wanted(panels, [Edge(0.3, order, 2.0)], 1e-6, rough)
    plain, extended = (spacing.anchors(1.0, growth, ghosts) for ghosts in (0, 4))
    gaps = np.diff(plain)
    assert (plain[0], plain[-1]) == (-1.0, 1.0)
    assert 0.9 * gap <= gaps.min() <= (1 + growth) * gap
    assert abs(plain[gaps.argmin()] - 0.3) <= 2 * gap
    assert np.maximum(gaps[1:] / gaps[:-1], gaps[:-1] / gaps[1:]).max() <= np.exp(growth) * 1.02
    assert gaps.max() <= 1.3 / 8 * 1.02
    np.testing.assert_array_equal(extended[4:-4], plain)
    np.testing.assert_allclose(np.diff(extended)[:5], gaps[0], rtol=1e-12)
    assert len(spacing.anchors(0.5, growth, 0)) > len(plain) > len(spacing.anchors(2.0, growth, 0))


def weights(row, x):
    u = (x - row.middle) / row.spacing
    scores = row.sharpness * (2 * row.steps * u[:, None] - row.steps**2)
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


def head(values, rows, points):
    """The output on the product of the points: one softmax an axis."""
    for row, x in zip(rows, points, strict=True):
        values = np.moveaxis(np.tensordot(weights(row, x), values, (1, 0)), 0, -1)
    return values


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.floats(-1, 1).map(lambda b: round(b, 6)), min_size=1, max_size=13),
    st.floats(-3, 3),
    st.floats(0.01, 10.0),
    st.integers(2, 12),
)
def test_any_polynomial_on_any_interval(scaled, lower, length, digits):
    """Coefficients in units of half the length, about the middle."""
    upper, tol = lower + length, 10.0**-digits
    row = hermite_plan(lower, upper, len(scaled) - 1, tol)
    coefficients = np.array(scaled) / (length / 2) ** np.arange(len(scaled))
    x = np.linspace(lower, upper, 301)
    wanted = np.polynomial.polynomial.polyval((x.astype(np.longdouble) - row.middle) / (length / 2), scaled)
    out = head(hermite_values(coefficients, [row]), [row], [x])
    reading = 1e-15 * 12 * (1 + (abs(lower) + length) / length)  # of x itself, near a large middle
    assert np.abs(out - wanted).max() <= (tol + reading) * sum(map(abs, scaled)) + 1e-300


@pytest.mark.parametrize("degree", [0, 1, 2, 5, 8, 12])
@pytest.mark.parametrize("tol", [10.0, 1.0, 0.1, 1e-2, 1e-4, 1e-7, 1e-10, 1e-13])
def test_a_plan_is_proved(degree, tol):
    row = hermite_plan(-1.0, 1.0, degree, tol)
    taylor = [math.comb(degree, order) * row.spacing**order for order in range(degree + 1)]
    assert sum(reproduction(row.sharpness, row.ghosts, row.count, taylor).values()) <= tol / 2
    assert row.count <= 5 + 3 * math.sqrt(degree + 1) - 2.2 * math.log10(min(tol, 1.0))


def exact_value(coefficients, row, step):
    """The inverse heat polynomial in fractions."""
    t, half = Fraction(row.spacing) * Fraction(step), Fraction(row.spacing) ** 2 / (4 * Fraction(row.sharpness))
    total = Fraction(0)
    for n, b in enumerate(coefficients):
        for i in range(n // 2 + 1):
            ways = math.factorial(n) // (math.factorial(i) * math.factorial(n - 2 * i))
            total += Fraction(b) * ways * (-half) ** i * t ** (n - 2 * i)
    return total


@given(st.lists(st.floats(-9, 9), min_size=1, max_size=13), st.floats(0.05, 2.0), st.floats(0.1, 2.0))
def test_every_value_is_correctly_rounded(coefficients, spacing, sharpness):
    row = HermiteRow(0.0, spacing, 6, sharpness, 0.0)
    wanted = [exact_value(coefficients, row, step) for step in row.steps]
    for found, value in zip(hermite_values(coefficients, [row]), wanted, strict=True):
        assert abs(Fraction(found) - value) <= abs(value) * Fraction(2) ** -52 + Fraction(10) ** -30

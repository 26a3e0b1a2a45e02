"""Minimax values: against closed forms, against a general solver of linear programmes, within their bounds."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from attnforge.anchors.axis import Axis
from attnforge.anchors.minimax import chebyshev, deformed, minimax_values, polished_axis

X = np.linspace(-1.0, 1.0, 401)


def least(columns, offset, bounds):
    """The same programme, by HiGHS."""
    ones = np.ones((len(offset), 1))
    rows = np.block([[columns, -ones], [-columns, -ones]])
    objective = np.append(np.zeros(len(bounds)), 1.0)
    limits = [(-b, b) for b in bounds] + [(0, None)]
    return linprog(objective, rows, np.concatenate([-offset, offset]), bounds=limits).fun


def powers(degree):
    return lambda x: x ** np.arange(degree + 1)


def least_squares(weights, wanted):
    return np.linalg.lstsq(weights, wanted, rcond=1e-12)[0]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 60), st.floats(1e-2, 1e2))
def test_the_interior_point_method_agrees_with_a_general_solver(seed, values, points, room):
    rng = np.random.default_rng(seed)
    columns, offset = rng.standard_normal((points, values)), rng.standard_normal(points)
    bounds = room * rng.uniform(0.1, 1.0, size=values)
    y, t = chebyshev(columns, offset, bounds, 1e-9)
    assert (np.abs(y) <= bounds).all()
    assert t == pytest.approx(np.abs(columns @ y + offset).max())
    assert t == pytest.approx(least(columns, offset, bounds), rel=1e-5, abs=1e-7)


def test_nothing_to_correct():
    y, t = chebyshev(np.ones((3, 2)), np.zeros(3), np.ones(2))
    assert (y.tolist(), t) == ([0.0, 0.0], 0.0)


@pytest.mark.parametrize("degree", [2, 3, 6])
def test_a_power_minus_its_best_polynomial_is_a_chebyshev_polynomial(degree):
    found = minimax_values(powers(degree - 1), lambda x: x**degree, np.zeros((degree, 1)), X[:, None], 100.0, gap=1e-9)
    assert found.error[0] == pytest.approx(2.0 ** (1 - degree), rel=2e-3)  # known to Chebyshev
    assert found.least[0] <= found.error[0] <= 1.03 * found.least[0]
    residual = X**degree - powers(degree - 1)(X[:, None]) @ found.values[:, 0]
    peaks = [np.cos(np.pi * k / degree) for k in range(degree + 1)]
    signs = np.sign([residual[np.abs(X - peak).argmin()] for peak in peaks])
    assert (signs[1:] == -signs[:-1]).all()  # it oscillates


def test_anchors_reach_what_the_programme_on_all_points_does():
    axis = Axis.uniform(-1.0, 1.0, 9, 2, 0.4)
    weights, wanted = axis.weights(X), np.sin(3 * X)
    start = least_squares(weights, wanted)
    found = minimax_values(
        lambda x: axis.weights(x[:, 0]), lambda x: np.sin(3 * x), start[:, None], X[:, None], 1e3, gap=1e-9
    )
    u, _, _ = np.linalg.svd(weights, full_matrices=False)
    error = np.abs(weights @ start - wanted).max()
    best = error * least(20 * u, (weights @ start - wanted) / error, np.full(9, 100.0))
    assert found.error[0] == pytest.approx(best, rel=0.03)
    assert found.error[0] < 0.95 * found.start[0] == pytest.approx(0.95 * error)


def test_outputs_are_independent():
    axis = Axis.uniform(-1.0, 1.0, 9, 2, 0.4)

    def solve(f, columns):
        start = least_squares(axis.weights(X), f(X[:, None]))
        assert start.shape == (9, columns)
        return minimax_values(lambda x: axis.weights(x[:, 0]), f, start, X[:, None], 1e3)

    both = solve(lambda x: np.hstack([np.sin(3 * x), 1e-3 * np.exp(x)]), 2)
    alone = solve(lambda x: 1e-3 * np.exp(x), 1)
    assert both.values[:, 1] == pytest.approx(alone.values[:, 0], abs=1e-9)
    assert (both.error < both.start).all()


@pytest.mark.parametrize("factor", [1.0, 1.5, 10.0])
def test_values_stay_tame(factor):
    axis = Axis.uniform(-1.0, 1.0, 24, 8, 0.3)
    wanted = np.abs(X)
    start = np.linalg.lstsq(axis.weights(X), wanted, rcond=1e-3)[0]
    largest = factor * np.abs(start).max()
    found = minimax_values(lambda x: axis.weights(x[:, 0]), np.abs, start[:, None], X[:, None], largest)
    assert np.abs(found.values).max() <= largest * (1 + 1e-12)
    assert (found.error < found.start) == (factor > 1)  # without room nothing moves


def test_proposals_are_looked_at():
    """Two points determine a line through both; the third, proposed, is where it errs."""
    asked = []

    def propose(worst, number):
        asked.append((worst.shape[1], number))
        return np.array([[0.5]])

    line, ends = powers(1), np.array([[0.0], [1.0]])
    alone = minimax_values(line, np.square, np.full((2, 1), 0.1), ends, 10.0, gap=1e-9)
    found = minimax_values(line, np.square, np.full((2, 1), 0.1), ends, 10.0, propose, gap=1e-9)
    assert alone.error[0] < 1e-6
    assert found.error[0] == pytest.approx(0.125, rel=1e-3)
    assert asked[:2] == [(1, 0), (1, 1)]


def test_the_start_is_kept_where_nothing_is_better():
    start = np.array([[-0.125], [1.0]])
    found = minimax_values(powers(1), np.square, start, np.linspace(0, 1, 101)[:, None], 10.0)
    assert found.error[0] <= found.start[0]
    exact = minimax_values(powers(2), np.square, np.array([[0.0], [0.0], [1.0]]), X[:, None], 10.0)
    assert exact.values.ravel().tolist() == [0.0, 0.0, 1.0]


def test_a_deformation_of_size_zero_changes_nothing():
    uniform = Axis.uniform(-1.0, 1.0, 8, 1.5, 0.4)
    graded = Axis.graded(np.array([-2.0, -1.0, -0.3, -0.1, 0.0, 0.05, 0.3, 1.0, 2.5]), -1.0, 1.0, 0.3, 0.0)
    for axis, count in ((uniform, 2), (graded, 5)):
        same = deformed(axis, np.zeros(count))
        assert same.positions == pytest.approx(axis.positions, abs=1e-14)
        assert same.weights(X) == pytest.approx(axis.weights(X), abs=1e-12)


def test_deformations_keep_kinks_in_place():
    half = np.concatenate([np.geomspace(1e-4, 0.2, 12), np.geomspace(0.2, 1e-4, 12)])
    side = np.geomspace(1e-4, 0.5, 10)
    gaps = np.concatenate([side[::-1], half, side])
    positions = -1.0 - side.sum() + np.concatenate([[0.0], np.cumsum(gaps)])
    axis = Axis.graded(positions, -2.0, 3.0, 0.3, -1.0)
    moved = deformed(axis, [0.1, 0.2, 0.3, -0.2, 0.1])
    kinks = (-1.0, -1.0 + half.sum())
    assert (np.diff(moved.positions) > 0).all()
    for kink in kinks:
        assert np.abs(moved.positions - kink).min() < 2e-4
    assert not np.allclose(moved.positions, positions, atol=1e-2)
    assert moved.sharpness == pytest.approx(0.3 * math.exp(0.1))


def test_a_polished_axis_reaches_less():
    axis, wanted = Axis.uniform(-1.0, 1.0, 9, 2, 0.6), np.exp(X)[:, None]
    largest = 100.0
    start = least_squares(axis.weights(X), wanted)
    found, values = polished_axis(axis, X, wanted, largest)
    error = np.abs(found.weights(X) @ values - wanted).max()
    assert error < 0.2 * np.abs(axis.weights(X) @ start - wanted).max()
    assert np.abs(values).max() <= largest
    assert len(found) == len(axis)

"""Numerics that decide, against brute force: reproducible sums, truncated fits, minimax, smoothing."""

from __future__ import annotations

import math

import numpy as np
import pytest
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from attnforge.anchors import smoothing
from attnforge.anchors.axis import Axis
from attnforge.anchors.fitting import Samples, cuts_between
from attnforge.anchors.minimax import chebyshev, minimax_values
from attnforge.anchors.panels import Panels, lobatto
from attnforge.anchors.reproducible import Decomposition, exponential, product
from attnforge.anchors.smoothing import LeastSquares
from attnforge.anchors.ties import first_of_least


def test_exponentials_are_right_to_a_unit_in_the_last_place():
    x = -np.concatenate([np.random.default_rng(0).exponential(40, size=2000), [0.0, 2.0**-60, 708.0, 745.0, 800.0]])
    wanted = np.array([float(arb(each).exp()) for each in x])
    assert (np.abs(exponential(x) - wanted) <= np.spacing(wanted)).all()


@pytest.mark.parametrize("terms", [1, 7, 300, 5000])
def test_products_are_nearer_than_sums_in_float64(terms):
    rng = np.random.default_rng(terms)
    a, b = rng.normal(size=(3, terms)) * [[1e9], [1.0], [1e-9]], rng.normal(size=(terms, 2))
    exact = np.array([[math.fsum(_split(row, column).tolist()) for column in b.T] for row in a])
    allowed = 2.0**-52 * np.abs(exact) + 2.0**-58 * terms * np.abs(a).max(axis=1)[:, None]
    assert (np.abs(product(a, b) - exact) <= allowed).all()


def _split(row, column):
    """The products of two vectors, each as two numbers that are exact."""
    high = np.float64(2.0**27 + 1)
    parts = [(each, (each * high) - (each * high - each)) for each in (row, column)]
    (a, top), (b, head) = parts
    low, tail = a - top, b - head
    return np.concatenate([top * head, top * tail, low * head, low * tail])


def test_products_have_the_same_bits_in_any_order():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(20, 90)), rng.normal(size=(90, 5))
    order = rng.permutation(90)
    assert np.array_equal(product(a, b), product(a[:, order], b[order]))
    assert not np.array_equal(a @ b, a[:, order] @ b[order])


@pytest.mark.parametrize(("rows", "columns"), [(40, 12), (12, 12), (6, 10)])
def test_the_decomposition_solves_least_squares(rows, columns):
    rng = np.random.default_rng(rows)
    w, wanted = rng.normal(size=(rows, columns)), rng.normal(size=(rows, 2))
    factors = Decomposition.of(w)
    rank = min(rows, columns)
    values = factors.values(factors.solved(factors.projected(wanted)), rank)
    assert np.allclose(values, np.linalg.lstsq(w, wanted, rcond=None)[0], atol=1e-12)


def test_truncated_it_errs_as_singular_values_do():
    axis, x = Axis.uniform(-1.0, 1.0, 40, 8, 0.3), lobatto(-1.0, 1.0, 160)
    w, wanted = axis.weights(x), np.sin(8 * x)[:, None]
    factors, (u, s, vt) = Decomposition.of(w), np.linalg.svd(w, full_matrices=False)
    solved = factors.solved(factors.projected(wanted))
    for rank in (24, 30, 34, 38):
        best = np.abs(w @ (vt[:rank].T @ ((u.T @ wanted)[:rank] / s[:rank, None])) - wanted).max()
        assert np.abs(w @ factors.values(solved, rank) - wanted).max() < 2 * best
    assert (factors.sizes[:36] > 0.5 * s[:36]).all()
    assert (factors.sizes[:36] < 2 * s[:36]).all()


def test_what_is_clearly_less_is_chosen():
    assert first_of_least([1.0, 1 - 1e-6, 2.0]) == 0
    assert first_of_least([1.0, 0.9, 0.9 - 1e-9]) == 1
    assert first_of_least([0.0, 0.0]) == 0


AXIS = Axis.uniform(-1.0, 1.0, 16, 3.0, 0.4)


def of(f):
    panels = Panels.whole(-1.0, 1.0, 40)
    fit_at, check_at = panels.samples(4), panels.samples(9.1)
    columns = np.asarray(f(panels.nodes), dtype=np.float64).reshape(len(panels.nodes), -1)
    return Samples(fit_at, check_at, panels.interpolation(fit_at), panels.interpolation(check_at), columns)


def test_the_residual_is_the_largest_error_at_the_check_points():
    given = of(lambda x: np.stack([np.sin(8 * x), np.cos(3 * x)], axis=1))
    for fit in given.fits(AXIS, cuts_between(1e-2, 1e-12)):
        reached = AXIS.weights(given.check_at) @ fit.values(given.columns)
        wanted = np.stack([np.sin(8 * given.check_at), np.cos(3 * given.check_at)], axis=1)
        assert fit.residual == pytest.approx(np.abs(reached - wanted).max(), rel=1e-3, abs=1e-12)


X = np.linspace(-1.0, 1.0, 401)


def least(columns, offset, bounds):
    """The same programme, by HiGHS."""
    ones = np.ones((len(offset), 1))
    rows = np.block([[columns, -ones], [-columns, -ones]])
    objective = np.append(np.zeros(len(bounds)), 1.0)
    limits = [(-b, b) for b in bounds] + [(0, None)]
    return linprog(objective, rows, np.concatenate([-offset, offset]), bounds=limits).fun


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


@pytest.mark.parametrize("degree", [2, 3, 6])
def test_a_power_minus_its_best_polynomial_is_a_chebyshev_polynomial(degree):
    found = minimax_values(
        lambda x: x ** np.arange(degree), lambda x: x**degree, np.zeros((degree, 1)), X[:, None], 100.0, gap=1e-9
    )
    assert found.error[0] == pytest.approx(2.0 ** (1 - degree), rel=2e-3)  # known to Chebyshev
    assert found.least[0] <= found.error[0] <= 1.03 * found.least[0]


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


@pytest.mark.parametrize("factor", [1.0, 1.5, 10.0])
def test_values_stay_tame(factor):
    axis = Axis.uniform(-1.0, 1.0, 24, 8, 0.3)
    wanted = np.abs(X)
    start = np.linalg.lstsq(axis.weights(X), wanted, rcond=1e-3)[0]
    largest = factor * np.abs(start).max()
    found = minimax_values(lambda x: axis.weights(x[:, 0]), np.abs, start[:, None], X[:, None], largest)
    assert np.abs(found.values).max() <= largest * (1 + 1e-12)
    assert (found.error < found.start) == (factor > 1)  # without room nothing moves


def left_out_by_fitting_again(rows, values, weights, alpha):
    """Residuals of points, each of a ridge regression with a free level on all the others."""
    found = []
    for i in range(len(rows)):
        keep = np.arange(len(rows)) != i
        w = weights[keep]
        level, mean = w @ rows[keep] / w.sum(), w @ values[keep] / w.sum()
        a, b = np.sqrt(w)[:, None] * (rows[keep] - level), np.sqrt(w)[:, None] * (values[keep] - mean)
        v = np.linalg.solve(a.T @ a + alpha * np.eye(a.shape[1]), a.T @ b)
        found.append(values[i] - mean - (rows[i] - level) @ v)
    return np.array(found)


@settings(max_examples=25)
@given(st.integers(4, 12), st.integers(2, 6), st.sampled_from([1e-3, 0.1, 10.0]), st.integers(0, 1000))
def test_points_are_left_out_as_if_fitted_again(count, anchors, alpha, seed):
    rng = np.random.default_rng(seed)
    rows, values = rng.dirichlet(np.ones(anchors), size=count), rng.normal(size=(count, 2))
    weights = rng.uniform(0.1, 3.0, count)
    centred, wanted, _, _ = smoothing._centred(rows, values, weights)
    share = weights / weights.sum()
    found = LeastSquares(centred, wanted).left_out(alpha, share) / np.sqrt(weights)[:, None]
    again = left_out_by_fitting_again(rows, values, weights, alpha)
    assert np.allclose(found, again, rtol=1e-6, atol=1e-9)

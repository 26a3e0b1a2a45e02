"""Ridge regression over anchors: leaving a point out is what the formula says, and choices follow from it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnforge.anchors import smoothing
from attnforge.anchors.smoothing import LeastSquares, fit_smoothed

RNG = np.random.default_rng(0)


def left_out_by_fitting_again(rows: np.ndarray, values: np.ndarray, weights: np.ndarray, alpha: float) -> np.ndarray:
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
def test_points_are_left_out_as_if_fitted_again(count: int, anchors: int, alpha: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, values = rng.dirichlet(np.ones(anchors), size=count), rng.normal(size=(count, 2))
    weights = rng.uniform(0.1, 3.0, count)
    centred, wanted, _, _ = smoothing._centred(rows, values, weights)
    share = weights / weights.sum()
    found = LeastSquares(centred, wanted).left_out(alpha, share) / np.sqrt(weights)[:, None]
    again = left_out_by_fitting_again(rows, values, weights, alpha)
    assert np.allclose(found, again, rtol=1e-6, atol=1e-9)


def test_nothing_cancels_where_every_point_is_met() -> None:
    x = np.linspace(-1, 1, 12)[:, None]
    rows = np.exp(-40.0 * (x - x.T) ** 2)
    rows /= rows.sum(axis=1, keepdims=True)
    y = RNG.normal(size=(12, 1))
    centred, wanted, _, _ = smoothing._centred(rows, y, np.ones(12))
    found = LeastSquares(centred, wanted).left_out(1e-10, np.full(12, 1 / 12))
    assert np.allclose(found, left_out_by_fitting_again(rows, y, np.ones(12), 1e-10), rtol=1e-3)
    assert np.abs(found).min() > 1e-3


def test_weights_are_repetitions() -> None:
    x = np.linspace(-1, 1, 40)[:, None]
    y, counts = np.sin(4 * x) + 0.1 * RNG.normal(size=(40, 1)), RNG.integers(1, 5, 40)
    weighted = fit_smoothed(x, y, counts.astype(float), anchors=8, alpha=1e-3, sharpness=0.3).head
    rows = weighted.weights(np.repeat(x, counts, axis=0))
    values = np.repeat(y, counts, axis=0)
    centred, wanted, level, mean = smoothing._centred(rows, values, np.ones(len(values)))
    v = LeastSquares(centred, wanted).solved(1e-3)
    assert np.allclose(weighted.values, v - level @ v + mean, atol=1e-9)


def test_what_is_given_is_kept() -> None:
    x = RNG.uniform(-1, 1, (60, 2))
    fit = fit_smoothed(x, np.sin(x[:, :1]), np.ones(60), anchors=17, alpha=0.25, sharpness=0.7)
    assert (fit.head.anchors, fit.alpha) == (17, 0.25)
    assert fit.head.sharpness == pytest.approx(0.7)
    assert fit_smoothed(x, np.sin(x[:, :1]), np.ones(60), anchors=500).head.anchors == 60


def test_noise_takes_fewer_anchors_and_the_error_left_out_is_honest() -> None:
    x = np.sort(RNG.uniform(-1, 1, (300, 1)), axis=0)
    noisy = np.sin(5 * x) + 0.2 * RNG.normal(size=x.shape)
    fit, exact = fit_smoothed(x, noisy, np.ones(300)), fit_smoothed(x, np.sin(5 * x), np.ones(300))
    assert fit.left_out == pytest.approx(0.2, rel=0.15)
    assert exact.left_out < 1e-5
    assert np.sqrt(np.mean((fit.head.at(x) - np.sin(5 * x)) ** 2)) < 0.06
    assert fit.head.error == pytest.approx(np.abs(fit.head.at(x) - noisy).max())


@pytest.mark.parametrize("roundoff", [2.0**-53, 2.0**-24, 2.0**-8])
def test_values_are_as_large_as_the_dtype_allows(roundoff: float) -> None:
    x = RNG.uniform(-1, 1, (200, 3))
    fit = fit_smoothed(x, x @ [[1.0], [2.0], [3.0]], np.ones(200), roundoff=roundoff)
    large = np.abs(fit.head.values).max()
    assert large <= 2 * 6 or smoothing.ROUNDINGS * roundoff * large <= 1.01 * fit.left_out


def test_many_points_are_fitted_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    x = RNG.uniform(-1, 1, (500, 1))
    y = np.sin(3 * x) + 0.1 * RNG.normal(size=x.shape)
    at_once = fit_smoothed(x, y, np.ones(500), anchors=12, alpha=1e-3, sharpness=0.3).head.values
    monkeypatch.setattr(smoothing, "BLOCK", 12 * 40)
    assert np.allclose(fit_smoothed(x, y, np.ones(500), anchors=12, alpha=1e-3, sharpness=0.3).head.values, at_once)
    monkeypatch.setattr(smoothing, "ROWS", 100)  # choices compared on a hundred, values fitted to all
    assert np.abs(fit_smoothed(x, y, np.ones(500)).head.at(x) - np.sin(3 * x)).max() < 0.15


@pytest.mark.parametrize("count", [2, 3, 5])
def test_few_points(count: int) -> None:
    x = np.linspace(0, 1, count)[:, None]
    fit = fit_smoothed(x, 7 * np.ones((count, 1)), np.ones(count))
    assert np.allclose(fit.head.at(x), 7.0)
    assert np.isfinite(fit_smoothed(x, x, np.ones(count)).head.values).all()


def test_outputs_count_in_their_own_units() -> None:
    x = RNG.uniform(-1, 1, (100, 1))
    y = np.hstack([np.sin(6 * x), 1e6 * RNG.normal(size=x.shape)])
    alone = fit_smoothed(x, y[:, :1], np.ones(100)).left_out
    both = fit_smoothed(x, y, np.ones(100)).head
    assert np.abs(both.at(x)[:, 0] - y[:, 0]).max() < 0.5
    assert alone < 1e-3

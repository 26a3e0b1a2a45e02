import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnforge.experiments.slope import fit_base, fit_slope


@given(st.floats(-4, 4), st.floats(1e-6, 1e6))
def test_a_power_law_is_found(rate: float, factor: float) -> None:
    x = np.array([1.0, 2.0, 4.0, 8.0])
    found = fit_slope(x, factor * x**rate)
    assert found.value == pytest.approx(rate, abs=1e-9)
    assert found.meets(rate, 1e-9)
    assert not found.meets(rate + 0.1)


def test_the_interval_is_the_t_interval_of_the_regression() -> None:
    x, y = np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.1, -0.2, 0.4, 0.3])
    a = np.stack([np.ones(4), x], axis=1)
    coefficients, residual, *_ = np.linalg.lstsq(a, y)
    error = np.sqrt(residual[0] / 2 * np.linalg.inv(a.T @ a)[1, 1])
    found = fit_slope(np.exp(x), np.exp(y))
    assert found.value == pytest.approx(coefficients[1])
    assert found.high - found.value == pytest.approx(4.302652729911275 * error)  # Student's t, 2 degrees, 97.5 %


def test_about_95_of_100_intervals_hold_the_true_rate() -> None:
    rng = np.random.default_rng(0)
    x = 2.0 ** np.arange(6)
    hits = sum(fit_slope(x, x**-1 * np.exp(0.2 * rng.normal(size=6))).meets(-1) for _ in range(1000))
    assert 920 <= hits <= 980


def test_what_has_no_logarithm_is_left_out() -> None:
    assert fit_slope([1, 2, 4, 8], [1, 0.5, np.nan, 0.0]).points == 2
    assert str(fit_slope([1, 2], [1, 0.5])) == "-1.000 (two points: no interval)"
    alone = fit_slope([3, 3], [1, 2])
    assert (str(alone), alone.meets(-1), alone.meets(5)) == ("unknown (fewer than two points)", True, True)


def test_the_base_of_an_exponential() -> None:
    d = np.arange(1, 9)
    assert fit_base(d, 5 * 2.5**d).value == pytest.approx(2.5)

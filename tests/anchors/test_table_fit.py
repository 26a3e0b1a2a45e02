"""Tables on grids: the data are met, fewer anchors where they are smooth, and calm between the data."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import make_interp_spline

from attnforge.anchors import table_fit
from attnforge.anchors.table_fit import TableFit, fit_table, spline
from attnforge.errors import RefusalError, ToleranceError


def outputs(fit: TableFit, *places: np.ndarray) -> np.ndarray:
    """The head on the product of these places."""
    found = fit.values
    for a, x in enumerate(places):
        found = np.moveaxis(np.tensordot(fit.axes[a].weights(x), np.moveaxis(found, a, 0), axes=1), 0, a)
    return found[..., 0]


def franke(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return (
        0.75 * np.exp(-((9 * x - 2) ** 2 + (9 * y - 2) ** 2) / 4)
        + 0.75 * np.exp(-((9 * x + 1) ** 2) / 49 - (9 * y + 1) / 10)
        + 0.5 * np.exp(-((9 * x - 7) ** 2 + (9 * y - 3) ** 2) / 4)
        - 0.2 * np.exp(-((9 * x - 4) ** 2) - (9 * y - 7) ** 2)
    )


def test_spline_is_the_not_a_knot_cubic() -> None:
    t, x = np.array([1.0, 2.0, 2.5, 4.0, 7.0]), np.linspace(1, 7, 50)
    assert np.allclose(spline(t, np.sin(t)[:, None], x)[:, 0], make_interp_spline(t, np.sin(t))(x), atol=1e-13)
    assert spline(t[:2], t[:2, None], np.array([1.25])).tolist() == [[1.25]]


@pytest.mark.parametrize("tol", [1e-2, 1e-3, 1e-6, 1e-10])
def test_smooth_data_need_fewer_anchors_than_data(tol: float) -> None:
    x, fine = np.linspace(-1, 1, 50), np.linspace(-1, 1, 2001)
    fit = fit_table([x], np.sin(8 * x)[:, None], tol)
    assert np.abs(outputs(fit, x) - np.sin(8 * x)).max() == pytest.approx(fit.error, abs=1e-14)
    assert fit.error <= tol
    assert fit.anchors < 36
    assert np.abs(outputs(fit, fine) - np.sin(8 * fine)).max() < max(2 * tol, 3.2e-4)  # the spline's own error


def test_tighter_tolerances_take_more_anchors() -> None:
    x = np.linspace(-1, 1, 50)
    counts = [fit_table([x], np.sin(8 * x)[:, None], tol).anchors for tol in (1e-2, 1e-4, 1e-6, 1e-8)]
    assert counts == sorted(set(counts))


@pytest.mark.parametrize(("count", "own"), [(20, 1.1e-3), (40, 4e-5)])
def test_franke_is_as_good_between_the_data_as_its_spline(count: int, own: float) -> None:
    x, fine = np.linspace(0, 1, count), np.linspace(0, 1, 101)
    fit = fit_table([x, x], franke(*np.meshgrid(x, x, indexing="ij"))[..., None], 1e-6)
    assert fit.error <= 1e-6
    assert fit.anchors <= (count + 2) ** 2
    assert np.abs(outputs(fit, fine, fine) - franke(*np.meshgrid(fine, fine, indexing="ij"))).max() < own


def test_kinked_data_are_met_and_do_not_ring() -> None:
    x, fine = np.linspace(-1, 1, 40), np.linspace(-1, 1, 3001)
    fit = fit_table([x], np.abs(x)[:, None], 1e-6)
    assert fit.error <= 1e-6
    assert np.abs(outputs(fit, fine) - np.abs(fine)).max() < 0.018  # the cubic spline's is 0.0175
    far = np.abs(fine) > 0.3
    assert np.abs(outputs(fit, fine) - np.abs(fine))[far].max() < 1e-3


def test_unequal_data_have_graded_anchors() -> None:
    x, fine = -np.cos(np.pi * np.arange(41) / 40), np.linspace(-1, 1, 2001)
    fit = fit_table([x], (1 / (1 + 25 * x * x))[:, None], 1e-6)
    assert fit.is_graded
    assert fit.error <= 1e-6
    assert np.abs(outputs(fit, fine) - 1 / (1 + 25 * fine * fine)).max() < 1.6e-3  # the spline's is 1.5e-3


@pytest.mark.parametrize("tol", [1e-3, 1e-9])
def test_noise_is_met_by_an_anchor_a_datum_and_ghosts(tol: float) -> None:
    x = np.linspace(0, 1, 60)
    noise = np.random.default_rng(0).normal(size=60)
    fit = fit_table([x], noise[:, None], tol)
    assert fit.error <= tol
    assert 60 < fit.anchors <= 68
    fine = np.linspace(0, 1, 1001)
    wild = np.abs(spline(x, noise[:, None], fine)).max()
    assert np.abs(outputs(fit, fine)).max() < 1.2 * wild


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(-10, 10, width=32), min_size=2, max_size=12), st.integers(0, 2**16))
def test_any_data_at_any_places_are_met(values: list[float], seed: int) -> None:
    gaps = np.random.default_rng(seed).uniform(0.2, 1.0, size=len(values))
    fit = fit_table([np.cumsum(gaps)], np.array(values)[:, None], 1e-4)
    assert fit.error <= 1e-4
    assert np.abs(outputs(fit, np.cumsum(gaps)) - values).max() <= 1e-4


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_few_data(count: int) -> None:
    x, fine = np.linspace(0, 1, count), np.linspace(0, 1, 101)
    fit = fit_table([x], np.exp(x)[:, None], 1e-6)
    assert fit.error <= 1e-6
    assert np.abs(outputs(fit, fine) - spline(x, np.exp(x)[:, None], fine)[:, 0]).max() < 1e-4


def test_constant_data_take_two_anchors() -> None:
    assert fit_table([np.linspace(0, 1, 30)], np.full((30, 1), 3.0), 1e-9).anchors == 2


def test_several_outputs_share_the_anchors() -> None:
    x = np.linspace(0, 1, 30)
    fit = fit_table([x], np.stack([np.sin(6 * x), np.cos(6 * x)], axis=1), 1e-5)
    assert fit.values.shape == (fit.anchors, 2)
    assert fit.error <= 1e-5


def test_values_are_tame_in_a_coarse_dtype() -> None:
    x = np.linspace(-1, 1, 50)
    fit = fit_table([x], np.sin(8 * x)[:, None], 1e-2, roundoff=2.0**-11)
    assert np.abs(fit.values).max() <= 2


def test_what_cannot_be_met_says_what_can() -> None:
    x = np.linspace(0, 1, 30)
    with pytest.raises(ToleranceError, match=r"within tol=1e-18. Got .*e-1\d. Ask for tol >= "):
        fit_table([x], np.sin(9 * x)[:, None], 1e-18)


def test_long_rough_data_are_refused_before_time_is_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_fit, "MOST", 20)
    noise = np.random.default_rng(0).normal(size=(100, 1))
    with pytest.raises(ToleranceError, match=r"at most 20 anchors. Got 100 data that are not smooth enough"):
        fit_table([np.linspace(0, 1, 100)], noise, 1e-6)


def test_too_many_anchors_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_fit, "MOST_ANCHORS", 50)
    x = np.linspace(0, 1, 10)
    with pytest.raises(RefusalError, match="at most 50 anchors"):
        fit_table([x, x], np.random.default_rng(0).normal(size=(10, 10, 1)), 1e-6)


def test_long_smooth_data_are_thinned_and_checked_everywhere() -> None:
    x = np.linspace(0, 1, 20_000)
    fit = fit_table([x], np.sin(20 * x)[:, None], 1e-5)
    assert np.abs(outputs(fit, x) - np.sin(20 * x)).max() <= 1e-5
    assert fit.anchors < 40

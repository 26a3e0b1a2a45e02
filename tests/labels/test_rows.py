import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnforge.anchors.axis import Axis
from attnforge.labels.rows import key_axes


def axis_of(slopes: np.ndarray, offsets: np.ndarray, lower: float = 0.0, upper: float = 1.0):
    (found,) = key_axes(slopes[:, None], offsets, np.array([lower]), np.array([upper]))
    return found


@given(st.floats(-3, 3), st.floats(0.01, 2.0), st.floats(0.05, 40.0), st.integers(3, 40), st.integers(0, 2**31))
@settings(max_examples=60, deadline=None)
def test_a_gaussian_row_is_read_from_its_scores(start: float, h: float, c: float, count: int, seed: int) -> None:
    at, beta = start + h * np.arange(count), c / h**2
    order = np.random.default_rng(seed).permutation(count)
    found = axis_of((2 * beta * at)[order], (-beta * at * at)[order])
    assert found.sharpness == pytest.approx(c, rel=1e-6)
    assert np.allclose(found.positions[found.place], at[order], atol=1e-6 * h)


def test_a_graded_row_too() -> None:
    at = np.array([-1.0, -0.4, -0.1, 0.0, 0.1, 0.4, 1.0])
    axis = Axis.graded(at, -1.0, 1.0, 0.36, 0.0)
    found = axis_of(axis.keys, -axis.offsets, -1.0, 1.0)
    assert np.allclose(found.positions, at)
    assert found.sharpness == pytest.approx(0.36)
    assert found.regular


def test_one_key_out_of_place_moves_no_other() -> None:
    at = np.arange(12.0)
    at[1] += 0.5
    found = axis_of(2 * 2.7 * at, -2.7 * at * at)
    assert np.allclose(found.positions[found.place], at)


def test_a_product_grid_has_its_axes_and_ghosts() -> None:
    x, y = (a.ravel() for a in np.meshgrid(np.arange(-1.0, 4), np.arange(0.0, 6), indexing="ij"))
    slopes, offsets = 2 * np.stack([x, 3 * y], axis=1), -x * x - 3 * y * y
    first, second = key_axes(slopes, offsets, np.array([0.0, 0.0]), np.array([3.0, 5.0]))
    assert (first.beyond, second.beyond) == ((1, 0), (0, 0))
    assert (first.sharpness, second.sharpness) == pytest.approx((1.0, 3.0))


def test_scattered_keys_are_no_grid() -> None:
    places = np.random.default_rng(0).uniform(size=(20, 2))
    assert key_axes(2 * places, -(places**2).sum(axis=1), np.zeros(2), np.ones(2)) == ()
    assert key_axes(np.full((3, 1), np.nan), np.zeros(3), np.zeros(1), np.ones(1)) == ()

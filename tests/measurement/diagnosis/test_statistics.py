import numpy as np
import pytest

from attnforge.measurement.diagnosis.statistics import statistics
from attnforge.measurement.diagnosis.view import HeadView


def test_by_hand() -> None:
    weights = np.array([0.5, 0.25, 0.25])
    found = statistics(HeadView(0, 0, np.array([[1.0]]), np.log(weights)[:, None]))
    assert found.entropy == pytest.approx(1.5 * np.log(2))
    assert (found.largest_weight, found.two_nearest) == pytest.approx((0.5, 0.75))
    assert found.gap == pytest.approx(np.log(2))
    assert found.entropy_if_uniform == pytest.approx(np.log(3))


def test_a_masked_key_does_not_count() -> None:
    bias = np.array([[0.0, 0.0, -np.inf]])
    found = statistics(HeadView(0, 0, np.zeros((1, 1)), np.zeros((3, 1)), bias=bias))
    assert found.entropy_if_uniform == pytest.approx(np.log(2))
    assert found.entropy == pytest.approx(np.log(2))
    assert found.finite


def test_another_winner_is_lost_and_a_broken_tie_is_not() -> None:
    queries, keys = np.ones((1, 1)), np.array([[0.0], [5.0], [4.9]])
    ran = np.array([[1.0, 0.0, 0.0]])
    assert statistics(HeadView(0, 0, queries, keys, ran)).lost == 1.0
    assert statistics(HeadView(0, 0, queries, keys, ran[:, [1, 2, 0]])).lost == 0.0


def test_nan_is_not_finite() -> None:
    assert not statistics(HeadView(0, 0, np.ones((1, 1)), np.ones((2, 1)), np.full((1, 2), np.nan))).finite
    assert statistics(HeadView(0, 0, np.ones((1, 1)), np.ones((2, 1)))).to_dict()["lost"] == 0.0

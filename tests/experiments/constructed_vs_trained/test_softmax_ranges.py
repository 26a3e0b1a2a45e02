"""Ranges of softmax means by brute force and by hand."""

from __future__ import annotations

import numpy as np
import pytest

from attnforge.experiments.constructed_vs_trained.softmax_ranges import mixed_range, steepest


def test_the_mean_over_uncertain_weights_by_brute_force() -> None:
    draw = np.random.default_rng(0)
    values = np.sort(draw.standard_normal(6))
    low = draw.standard_normal((4, 6))
    high = low + draw.uniform(0, 2, (4, 6))
    least, largest = mixed_range(low, high, values)
    picks = np.array(np.meshgrid(*[[False, True]] * 6)).reshape(6, -1).T  # the extremes are at corners
    weights = np.exp(np.where(picks[None], high[:, None], low[:, None]))
    means = weights @ values / weights.sum(axis=-1)
    assert np.allclose(least, means.min(axis=1))
    assert np.allclose(largest, means.max(axis=1))


@pytest.mark.parametrize(("inside", "wanted"), [((True, True), 0.625), ((False, False), 0.375), ((False, True), 0.625)])
def test_the_derivative_of_the_error_by_hand(inside: tuple[bool, bool], wanted: float) -> None:
    scores = np.log([[1.0, 3.0]])  # weights 1/4 and 3/4: the covariance of (0, 2) and (0, 1) is 3/2 - 9/8
    flags = np.array([inside[0]]), np.array([inside[1]])
    found = steepest(scores, scores, np.array([[0.0, 2.0]]), np.array([[0.0, 1.0]]), flags)
    assert found[0] == pytest.approx(wanted, abs=1e-9)
    wider = steepest(scores - 0.1, scores + 0.1, np.array([[0.0, 2.0]]), np.array([[0.0, 1.0]]), flags)
    assert wider[0] > found[0]


def test_weights_that_underflow_say_nothing() -> None:
    least, largest = mixed_range(np.array([[-2000.0, -2000.0]]), np.array([[0.0, 0.0]]), np.array([-1.0, 3.0]))
    assert (least[0], largest[0]) == (-1.0, 3.0)
    ends, outside = (np.full((1, 2), -2000.0), np.zeros((1, 2))), np.array([False])
    assert steepest(*ends, np.ones((1, 2)), np.ones((1, 2)), (outside, outside))[0] == np.inf

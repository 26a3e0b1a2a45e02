"""One axis of anchors: weights against exact arithmetic, ties half-way, ghosts, a single anchor."""

from __future__ import annotations

import itertools

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnforge.anchors.axis import Axis

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


@pytest.mark.parametrize("count", [4, 5, 12])
@pytest.mark.parametrize("ghosts", [0.0, 0.5, 1.0])
def test_uniform_anchors_reach_so_many_gaps_beyond_each_end(count, ghosts):
    axis = Axis.uniform(2.0, 5.0, count, ghosts, 0.5)
    step = axis.positions[1] - axis.positions[0]
    assert len(axis) == count
    np.testing.assert_allclose(np.diff(axis.positions), step, rtol=1e-13)
    np.testing.assert_allclose([2.0 - axis.positions[0], axis.positions[-1] - 5.0], ghosts * step, atol=1e-13)
    np.testing.assert_array_equal(axis.keys, np.round(axis.keys))
    np.testing.assert_array_equal(axis.offsets, axis.keys**2)
    assert np.abs(axis.keys).max() <= count // 2


def test_a_single_anchor_sits_in_the_middle_and_weighs_one():
    axis = Axis.uniform(1.0, 4.0, 1, 0.0, 0.7)
    assert axis.positions.tolist() == [2.5]
    np.testing.assert_array_equal(axis.weights(np.array([1.0, 3.9])), 1.0)


@given(st.integers(3, 40), st.floats(0.05, 3), st.floats(-1, 1))
def test_graded_with_equal_gaps_is_the_gaussian_row(count, c, origin):
    positions = np.linspace(-1.2, 1.3, count)
    axis = Axis.graded(positions, -1.0, 1.0, c, origin)
    step = positions[1] - positions[0]
    np.testing.assert_allclose(axis.weights(X), gaussian(positions, step, c, X), rtol=0, atol=1e-12)


@given(st.lists(st.floats(1e-3, 1.0), min_size=1, max_size=12), st.floats(0.1, 2))
def test_neighbours_tie_half_way_whatever_the_gaps(gaps, c):
    positions = np.concatenate([[0.0], np.cumsum(gaps)])
    weights = Axis.graded(positions, 0.0, float(positions[-1]), c, 0.0).weights((positions[1:] + positions[:-1]) / 2)
    k = np.arange(len(gaps))
    np.testing.assert_allclose(weights[k, k], weights[k, k + 1], rtol=1e-9)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=1e-13)


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


def test_slopes_are_counted_from_the_far_end_of_a_one_sided_grading():
    """From the fine end keys times places, and so the rounding of scores, would be a hundred thousand million."""
    positions = fine_at(0.0, 1e-12)
    axis = Axis.graded(positions, 0.0, float(positions[-1]), 0.25, 0.0)
    assert float(np.abs(axis.keys * positions).max()) < 10
    assert float(np.abs((axis.keys - axis.keys[0]) * positions).max()) > 1e11


def test_inside_allows_for_rounding_and_no_more():
    positions = np.array([-1.5, -1.0 - 1e-12, -0.5, 1.0 + 1e-12, 1.0 + 1e-6])
    axis = Axis.graded(positions, -1.0, 1.0, 0.5, 0.0)
    assert axis.inside.tolist() == [False, True, True, True, False]
    assert Axis.uniform(0.0, 1.0, 8, 1.5, 0.5).inside.sum() == 4
    assert Axis.uniform(0.0, 0.3, 9, 2, 0.5).inside.sum() == 5

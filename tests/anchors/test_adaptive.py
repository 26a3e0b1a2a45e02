"""Where adaptive cells are put: free breakpoints on a line, greedily inserted centres."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnforge.anchors import Adaptive
from attnforge.anchors import breakpoints as line
from attnforge.anchors import centres as plane
from attnforge.anchors.breakpoints import breakpoints, dense_samples
from attnforge.anchors.centres import greedy_centres, spread_points
from attnforge.errors import RefusalError


def half_ranges(f, edges):
    """Half the range of f on every cell, on fresh points."""
    ranges = [np.ptp(f(np.linspace(a, b, 2001)[:, None])) / 2 for a, b in pairwise(edges)]
    return np.array(ranges)


@pytest.mark.parametrize("count", [0, -3])
def test_a_count_below_one_is_refused(count):
    with pytest.raises(RefusalError, match=rf"`count` must be at least 1\. Got {count}\. Ask for more"):
        Adaptive(count)


@pytest.mark.parametrize("count", [1.5, "8", None])
def test_a_count_is_a_whole_number(count):
    with pytest.raises(RefusalError, match=r"`count` must be a whole number of cells\. Got .*\. Round it"):
        Adaptive(count)


def test_a_monotone_function_is_cut_into_equal_ranges():
    edges, middles = breakpoints(lambda x: x**3, 0.0, 2.0, 8)
    np.testing.assert_allclose(edges, np.cbrt(np.arange(9.0)), atol=2e-2)
    np.testing.assert_allclose(middles[:, 0], np.arange(8) + 0.5, atol=2e-2)


def test_cells_follow_the_range_not_the_variation():
    """A bump that goes up and down again within one cell costs one range: |x| on [-1, 1] needs no breakpoint at 0."""
    edges, _ = breakpoints(np.abs, -1.0, 1.0, 3)
    np.testing.assert_allclose(edges, [-1.0, -0.5, 0.5, 1.0], atol=1e-2)


@pytest.mark.parametrize("count", [1, 2, 7, 100])
def test_no_cell_varies_more_than_an_equal_share(count):
    def f(x):
        return np.sin(9 * x) + x

    edges, _ = breakpoints(f, -1.0, 2.0, count)
    variation = np.abs(np.diff(f(np.linspace(-1, 2, 100_001)))).sum()
    assert len(edges) == count + 1
    assert np.all(np.diff(edges) > 0)
    assert (edges[0], edges[-1]) == (-1.0, 2.0)
    assert half_ranges(f, edges).max() <= 1.02 * variation / (2 * count)


def test_a_constant_is_halved_evenly_and_a_jump_is_found():
    edges, middles = breakpoints(lambda x: 0 * x + 2, 0.0, 1.0, 4)
    np.testing.assert_allclose(np.diff(edges), 0.25)
    assert np.all(middles == 2)
    edges, middles = breakpoints(lambda x: (x > 0.3) * 1.0, 0.0, 1.0, 3)
    assert np.abs(edges - 0.3).min() < 1e-3
    assert {0.0, 1.0} <= set(middles[:, 0])


def test_several_outputs_count_by_their_largest():
    both, _ = breakpoints(lambda x: np.hstack([x, 0.1 * np.sin(50 * x)]), 0.0, 1.0, 5)
    np.testing.assert_allclose(both, np.linspace(0, 1, 6), atol=5e-3)


def test_samples_crowd_where_the_function_varies():
    x = dense_samples(lambda x: np.tanh(100 * (x - 0.7)), 0.0, 1.0, 4000)
    assert (x[0], x[-1]) == (0.0, 1.0)
    assert np.mean(np.abs(x - 0.7) < 0.05) > 0.5


@given(count=st.integers(1, 60), seed=st.integers(0, 1000))
def test_centres_are_distinct_points_of_the_box(count, seed):
    slope = np.random.default_rng(seed).normal(size=(2, 1))
    lower, upper = np.array([-3.0, 10.0]), np.array([1.0, 10.5])
    centres, middles = greedy_centres(lambda x: np.sin(x @ slope), lower, upper, count)
    assert centres.shape == (count, 2)
    assert middles.shape == (count, 1)
    assert np.all((centres >= lower) & (centres <= upper))
    assert len(np.unique(centres, axis=0)) == count


def test_centres_crowd_at_a_peak_and_are_the_same_every_time():
    def peak(x):
        return np.exp(-60 * np.square(x - [0.3, 0.6]).sum(axis=1, keepdims=True))

    first, second = (greedy_centres(peak, np.zeros(2), np.ones(2), 80) for _ in range(2))
    assert np.array_equal(first[0], second[0])
    assert np.array_equal(first[1], second[1])
    assert np.mean(np.linalg.norm(first[0] - [0.3, 0.6], axis=1) < 0.3) > 0.7


def test_values_are_the_middle_of_the_range():
    _, middles = greedy_centres(lambda x: x[:, :1] ** 2, np.zeros(2), np.ones(2), 1)
    np.testing.assert_allclose(middles, 0.5, atol=1e-6)


@pytest.mark.parametrize("axes", [1, 2, 3, 5])
def test_spread_points_fill_the_cube_and_its_faces(axes):
    points = spread_points(4000, axes)
    assert np.all((points >= 0) & (points <= 1))
    for axis in range(axes):
        inside = points[(points[:, axis] > 0) & (points[:, axis] < 1), axis]
        assert abs(np.mean(inside) - 0.5) < 0.03
        assert np.any(points[:, axis] == 0)
        assert np.any(points[:, axis] == 1)


def test_too_many_cells_are_refused_before_sampling():
    def never(x):
        raise AssertionError("sampled")

    with pytest.raises(RefusalError, match=r"At most 100,000 free breakpoints.*Ask for fewer"):
        breakpoints(never, 0.0, 1.0, line.LARGEST + 1)
    with pytest.raises(RefusalError, match=r"At most 32,768 centres.*give centres"):
        greedy_centres(never, np.zeros(2), np.ones(2), plane.LARGEST + 1)

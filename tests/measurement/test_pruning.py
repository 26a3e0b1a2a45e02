"""Boxes cover the domain, are cut where the bound is largest, and prune only what the bound allows."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from attnforge.measurement.pruning import Boxes, cut, points_inside, whole
from attnforge.targets import Box

SQUARE = Box([-1, 0], [1, 3])


def slope_bounds(lower, upper):
    """Of x + y: its largest value on a box."""
    return upper.sum(axis=1)


def grown(times, error=-np.inf, bounds=slope_bounds, box=SQUARE, count=3):
    tree = whole(box, bounds)
    for _ in range(times):
        tree = cut(tree, bounds, error, count)
    return tree


def test_the_root_is_the_domain():
    root = whole(SQUARE, slope_bounds)
    assert (len(root), root.bound.tolist(), root.share.tolist()) == (1, [4.0], [1.0])


def test_the_longest_side_relative_to_the_domain_is_cut():
    tree = grown(1)
    assert sorted(tree.lower.tolist()) == [[-1, 0], [0, 0]]  # 2 : 2 and 3 : 3 are as long; the first one
    assert sorted(grown(2).upper.tolist()) == [[0, 1.5], [0, 3], [1, 1.5], [1, 3]]


def test_pruned_boxes_are_not_cut():
    tree = cut(grown(1), slope_bounds, 3.5, 99)  # the left half holds at most 3
    assert sorted(tree.bound.tolist()) == [2.5, 3.0, 4.0]
    assert tree.pruned(3.5) == 0.75
    assert tree.left(3.5).upper.tolist() == [[1, 3]]
    assert cut(tree, slope_bounds, 4.0, 99) is tree


@given(st.integers(0, 12), st.integers(1, 5), st.floats(-1, 5))
def test_the_boxes_cover_the_domain_without_overlap(times, count, error):
    tree = grown(times, error, count=count)
    assert tree.share.sum() == 1.0
    volumes = np.prod(tree.upper - tree.lower, axis=1)
    assert np.allclose(volumes / 6.0, tree.share)
    points = np.random.default_rng(0).uniform(SQUARE.lower, SQUARE.upper, size=(200, 2))
    assert tree.holds(points).all()
    larger = points[points.sum(axis=1) > error]
    assert tree.left(error).holds(larger).all()  # what is pruned holds nothing larger


def test_a_part_is_bounded_by_its_parent_too():
    def grudging(lower, upper):
        return np.where(np.prod(upper - lower, axis=1) < 6, np.inf, 4.0)

    assert grown(3, bounds=grudging).bound.tolist() == [4.0] * 7


def test_what_is_not_a_number_is_not_pruned():
    tree = grown(2, bounds=lambda lower, upper: np.full(len(lower), np.nan))
    assert np.isinf(tree.bound).all()
    assert tree.pruned(1e300) == 0.0


def test_thin_boxes_are_left_alone():
    point = Box([1.0, 2.0], [1.0, 2.0])
    assert len(grown(3, box=point)) == 1
    line = grown(200, box=Box([0.0, 2.0], [5e-324, 2.0]))
    assert len(line) == 1


def test_points_lie_inside_and_first_where_the_bound_is_largest():
    tree = grown(3).left(2.0)
    points = points_inside(tree, 40, np.random.default_rng(0))
    assert points.shape == (40, 2)
    assert tree.holds(points).all()
    top = tree.bound.argmax()
    assert np.allclose(points[0], (tree.lower[top] + tree.upper[top]) / 2)  # every fourth is a middle


def test_infinite_bounds_come_after_finite_ones():
    tree = Boxes(np.array([[0.0], [1.0]]), np.array([[1.0], [2.0]]), np.array([np.inf, 3.0]), np.array([0.5, 0.5]))
    assert points_inside(tree, 1, np.random.default_rng(0))[0, 0] >= 1.0


def test_no_points_are_in_no_boxes():
    none = grown(1).left(99.0)
    assert none.holds(np.zeros((3, 2))).tolist() == [False] * 3
    assert grown(1).holds(np.empty((0, 2))).shape == (0,)

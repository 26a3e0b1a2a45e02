"""Fresh points lie in the box, and the climb finds worse ones than it was given."""

from __future__ import annotations

import numpy as np

from attnforge.anchors.fresh_points import climb, fresh

LOWER, UPPER = np.array([-1.0, 0.0, 5.0]), np.array([1.0, 0.5, 9.0])


def test_points_are_inside_distinct_and_half_on_faces():
    points = fresh(LOWER, UPPER, 400, 7)
    assert ((points >= LOWER) & (points <= UPPER)).all()
    assert len(np.unique(points, axis=0)) == 400
    on_face = ((points == LOWER) | (points == UPPER)).any(axis=1)
    assert not on_face[:200].any()
    assert on_face[200:].mean() > 0.5


def test_seeds_give_other_points():
    assert not np.array_equal(fresh(LOWER, UPPER, 10, 0), fresh(LOWER, UPPER, 10, 1))


def test_the_climb_finds_a_peak_between_the_points():
    asked = []

    def error(points):
        asked.append(points)
        return np.exp(-20 * (((points - LOWER) / (UPPER - LOWER) - 0.3) ** 2).sum(axis=1))

    points = fresh(LOWER, UPPER, 50, 0)
    errors = error(points)
    assert climb(error, points, errors, LOWER, UPPER, 0) > max(0.99, errors.max())
    tried = np.vstack(asked[1:])
    assert ((tried >= LOWER) & (tried <= UPPER)).all()


def test_the_climb_never_says_less_than_what_is_known():
    points = fresh(LOWER, UPPER, 20, 0)
    errors = np.arange(20.0)
    assert climb(lambda places: np.zeros(len(places)), points, errors, LOWER, UPPER, 0) == 19.0

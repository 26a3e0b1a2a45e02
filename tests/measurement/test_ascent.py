"""Climbers go up, stay inside, and believe the run only."""

import numpy as np
import pytest

import attnforge as af
from attnforge.measurement.ascent import TRIES, Climbers, Slope, climb, starting
from attnforge.measurement.judge import Judge
from attnforge.targets import Formula

BOX = af.Box([-1, -2], [1, 2])
TALL = Formula("20 - (x - 0.5)^2 - (y + 1)^2", BOX, ("x", "y"))
HILL = Formula("3 - (x - 0.5)^2 - (y + 1)^2", BOX, ("x", "y"))


def flat(points, which):
    return np.zeros_like(points)


def hill_gradient(points, which):
    return np.stack([-2 * (points[:, 0] - 0.5), -2 * (points[:, 1] + 1)], axis=1)


def steep(points, which):
    return np.ones_like(points)


def judge(target=HILL):
    """The run is zero, so that the error is the target's size."""
    return Judge(lambda x: np.zeros(len(x)), target, BOX, 10**9, None)


def climbers(at, who):
    return starting(who(np.asarray(at, dtype=np.float64)), np.random.default_rng(0))


def test_each_round_is_no_lower_and_the_top_is_reached():
    who, rng, slope = judge(TALL), np.random.default_rng(0), Slope(flat, hill_gradient, 0)
    group = climbers([[-1, 2], [0.9, -1.9], [0, 0]], who)
    for _ in range(40):
        before = group.here.error
        group = climb(group, who, slope, rng)
        assert (group.here.error >= before).all()
    assert group.here.error == pytest.approx([20, 20, 20], abs=1e-9)
    assert np.allclose(group.here.at, [0.5, -1], atol=1e-4)
    assert who.error == group.here.error.max()


def test_uphill_points_up_whatever_the_sign():
    who = judge()
    here = who(np.array([[-1.0, 2.0], [0.0, 0.0]]))  # the second errs by -1.75: the run is below the target
    assert here.sign.tolist() == [1.0, -1.0]
    found = Slope(flat, hill_gradient, 0).uphill(here, BOX, np.random.default_rng(0))
    # In sides (2, 4): the gradients (3, -6) and (1, -2) become (6, -24) and (2, -8), the first upside down.
    assert np.allclose(found[1], [0.25, -1.0])
    # Upside down it is (-6, 24), both out of the box at this corner: a random direction instead.
    assert not np.allclose(found[0], 0.0)
    assert np.abs(found[0]).max() <= 1.0


def test_at_the_border_the_slope_along_it_is_followed():
    who = judge(Formula("x + 0.001*y", BOX, ("x", "y")))
    slope = Slope(flat, lambda points, which: np.tile([1.0, 0.001], (len(points), 1)), 0)
    group = climbers([[1.0, 0.0]], who)
    assert slope.uphill(group.here, BOX, np.random.default_rng(0)).tolist() == [[0.0, 1.0]]
    for _ in range(20):
        group = climb(group, who, slope, np.random.default_rng(0))
    assert group.here.at.tolist() == [[1.0, 2.0]]


def test_a_gradient_that_lies_does_not_lower_the_error():
    who, rng = judge(TALL), np.random.default_rng(0)
    group = climbers([[0.5, -1.0]], who)
    for _ in range(5):
        group = climb(group, who, Slope(steep, flat, 0), rng)
    assert group.here.error.tolist() == [20.0]


def test_every_point_tried_is_inside_and_counted():
    seen = []

    def run(x):
        seen.append(x)
        return np.zeros(len(x))

    who = Judge(run, HILL, BOX, 10**9, None)
    group = climbers(np.random.default_rng(1).uniform(BOX.lower, BOX.upper, size=(7, 2)), who)
    climb(group, who, Slope(flat, steep, 5), np.random.default_rng(0))
    BOX.check(np.concatenate(seen))
    assert who.count == 7 + 7 * (TRIES + 1 + 5) == 7 + 7 * Slope(flat, steep, 5).round


def test_steps_shrink_where_nothing_is_worse_and_start_anew_at_the_end():
    who, slope = judge(Formula("1", BOX, ("x", "y"))), Slope(flat, flat, 0)
    group = Climbers(who(np.zeros((2, 2))), np.array([0.5, 1e-15]))
    after = climb(group, who, slope, np.random.default_rng(0))
    assert after.step[0] == 0.5 / 64
    assert after.step[1] >= 1e-4


def test_unknown_slopes_of_some_inputs_leave_them_alone():
    who = judge()
    here = who(np.array([[0.0, 0.0]]))
    partly = Slope(flat, lambda points, which: np.array([[np.nan, 1.0]]), 0)
    assert partly.uphill(here, BOX, np.random.default_rng(0)).tolist() == [[0.0, 1.0]]


def test_the_highest_are_kept():
    who = judge()
    group = climbers([[0, 0], [0.5, -1], [-1, 2]], who)
    assert group.worst(1).here.at.tolist() == [[-1.0, 2.0]]  # 3 - 2.25 - 9 = -8.25
    assert group.worst(9).here.error.tolist() == sorted(group.here.error, reverse=True)

"""The judge counts, remembers the worst, and knows when to stop."""

import numpy as np
import pytest

from attnforge.measurement.judge import Judge
from attnforge.targets import Box, Formula

BOX = Box(-1, 1, shape=(1,))


def judge(run, evaluations=100, seconds=None):
    return Judge(run, Formula("x", BOX), BOX, evaluations, seconds)


def test_signs_outputs_and_the_worst_point():
    three = judge(lambda x: x[:, 0] + np.array([0.25, -0.5, 0.125]))
    found = three(np.array([[0.0], [0.5], [1.0]]))
    assert found.error.tolist() == [0.25, 0.5, 0.125]
    assert found.sign.tolist() == [1.0, -1.0, 1.0]
    assert found.which.tolist() == [0, 0, 0]
    assert found.worst(2).at.tolist() == [[0.5], [0.0]]
    assert (three.error, three.at.tolist(), three.count, three.left) == (0.5, [0.5], 3, 97)
    three(np.array([[0.0], [0.1], [0.2]]))
    assert (three.error, three.at.tolist()) == (0.5, [0.5])  # the first of equals stays


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_run_that_is_not_a_number_errs_infinitely_and_ends_it(value):
    broken = judge(lambda x: np.where(x[:, 0] > 0.5, value, x[:, 0]))
    assert broken(np.array([[0.0], [0.75]])).error.tolist() == [0.0, np.inf]
    assert (broken.error, broken.at.tolist(), broken.left) == (np.inf, [0.75], 0)


def test_no_time_is_no_evaluations(clock):
    late = judge(lambda x: x[:, 0], None, seconds=2.0)
    clock.passes(1.0)
    assert (late.left > 0, late.fraction) == (True, 0.5)
    clock.passes(1.0)
    assert (late.left, late.fraction) == (0, 1.0)


def test_the_fraction_spent_is_that_of_the_evaluations():
    half = judge(lambda x: x[:, 0])
    half.spend(50)
    assert half.fraction == 0.5
    half.spend(500)
    assert (half.fraction, half.left) == (1.0, 0)


def test_tops_are_apart():
    who = judge(lambda x: np.abs(x[:, 0]) + x[:, 0])  # errs by |x|
    found = who(np.array([[0.9], [0.95], [-0.9], [0.5], [-0.91]]))
    assert found.tops(3, np.array([0.1])).at.ravel().tolist() == [0.95, -0.91, 0.5]
    assert found.tops(9, np.array([0.0])).error.tolist() == sorted(found.error, reverse=True)
    assert found.tops(9, np.array([np.inf])).at.ravel().tolist() == [0.95]

"""How fast a target is, and the effort of a search cut down to what that allows."""

import time

import numpy as np
import pytest

from attnforge.effort import Effort
from attnforge.measurement import pace as module
from attnforge.measurement.pace import affordable, pace
from attnforge.targets import Box, Formula, Function

BOX = Box(0, 1, shape=(2,))


def slow(seconds):
    def function(x):
        time.sleep(seconds * len(x))
        return x[:, 0]

    return Function(function, BOX)


def test_a_slow_target_is_timed_at_a_single_point():
    target = slow(0.02)
    before = target.evaluation.remembered
    assert 0.02 <= pace(target.values, BOX, None, 1.0) < 0.05
    assert target.evaluation.remembered == before + 1


def test_remembered_values_do_not_make_a_target_look_fast():
    target = slow(0.01)
    assert min(pace(target.values, BOX, None, 0.5) for _ in range(3)) >= 0.01


def test_a_fast_target_is_timed_in_a_batch():
    assert 0 < pace(Formula("x + y", BOX, ("x", "y")).values, BOX, None, 10.0) < 1e-4


@pytest.mark.parametrize(("seconds_a_point", "allowed"), [(1e-9, 15_216), (1e-2, 951), (1.0, 7), (1e3, 1)])
def test_the_effort_is_halved_until_it_fits(monkeypatch, seconds_a_point, allowed):
    monkeypatch.setattr(module, "pace", lambda *_: seconds_a_point)
    assert affordable(Effort(4000), slow(0.0).values, BOX, None, 10.0) == Effort(4000).within(allowed)


def test_tokens_are_timed_by_the_sequence():
    seen = []

    def function(x):
        seen.append(x.shape)
        time.sleep(0.01)
        return x[..., 0]

    target = Function(function, Box(0, 1, shape=(3, 1)))
    pace(target.values, target.domain, 3, 0.5)
    assert seen[-1] == (1, 3, 1)
    assert np.prod(seen[-1]) == 3

"""How fast a target is, and the effort of a search cut down to what that allows."""

import numpy as np
import pytest

from attnforge.effort import Effort
from attnforge.measurement import pace as module
from attnforge.measurement.pace import affordable, pace
from attnforge.targets import Box, Formula, Function

BOX = Box(0, 1, shape=(2,))
FORMULA = Formula("x + y", BOX, ("x", "y"))


def slow(clock, seconds):
    def function(x):
        clock.passes(seconds * len(x))
        return x[:, 0]

    return Function(function, BOX)


def test_a_slow_target_is_timed_at_a_single_point(clock):
    target = slow(clock, 0.02)
    before = target.evaluation.remembered
    assert pace(target.values, BOX, None, 1.0) == pytest.approx(0.02)
    assert target.evaluation.remembered == before + 1


def test_remembered_values_do_not_make_a_target_look_fast(clock):
    target = slow(clock, 0.01)
    assert min(pace(target.values, BOX, None, 0.5) for _ in range(3)) == pytest.approx(0.01)


def test_a_fast_target_is_timed_in_a_batch(clock):
    """One value takes 1 ms, which is too little to be believed of ten seconds, and 512 take 2 ms a value less."""
    sizes = []

    def values(points):
        sizes.append(len(points))
        clock.passes(1e-3 + 1e-6 * len(points))

    assert pace(values, BOX, None, 10.0) == pytest.approx(1e-3 / 512 + 1e-6)
    assert sizes == [1, 8, 64, 512]


@pytest.mark.parametrize(("seconds_a_point", "allowed"), [(1e-9, 15_216), (1e-2, 951), (1.0, 7), (1e3, 1)])
def test_the_effort_is_halved_until_it_fits(monkeypatch, seconds_a_point, allowed):
    monkeypatch.setattr(module, "pace", lambda *_: seconds_a_point)
    assert affordable(Effort(4000), FORMULA.values, BOX, None, 10.0) == Effort(4000).within(allowed)


def test_tokens_are_timed_by_the_sequence(clock):
    seen = []

    def function(x):
        seen.append(x.shape)
        clock.passes(0.01)
        return x[..., 0]

    target = Function(function, Box(0, 1, shape=(3, 1)))
    pace(target.values, target.domain, 3, 0.5)
    assert seen[-1] == (1, 3, 1)
    assert np.prod(seen[-1]) == 3

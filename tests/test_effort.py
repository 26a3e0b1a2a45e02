"""One effort, and one clock: limits by name, and an end that whatever runs inside obeys."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import attnforge as af
from attnforge.effort import EFFORTS, NORMAL, Effort, as_effort, check_time, seconds_left, time_is_up, until


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_an_effort_within_a_limit_keeps_it(points, limit):
    found = Effort(points).within(limit)
    assert 1 <= found.evaluations <= max(limit, 1)
    assert found.points <= points
    if limit >= Effort(points).evaluations:
        assert found == Effort(points)
    elif limit >= 100:
        assert found.points >= min(points, limit // 4)
        assert found.climb > 0


def test_evaluations_are_counted():
    assert Effort(4000).evaluations == 4000 + 2000 + 16 * 24 * 24


def test_names_go_from_less_to_more():
    low, normal, high = (as_effort(name) for name in ("low", "normal", "high"))
    names = [name for name in Effort.__dataclass_fields__ if name not in ("workers", "cluster")]
    assert normal == NORMAL == as_effort(None)
    assert all(getattr(low, name) < getattr(normal, name) <= getattr(high, name) for name in names)
    assert [name for name in names if getattr(normal, name) == getattr(high, name)] == [
        "anchors"
    ]  # as many as fits can
    assert set(EFFORTS) == {"low", "normal", "high"}


@pytest.mark.parametrize("wrong", ["huge", 3, {"boxes": 2}])
def test_other_efforts_are_refused(wrong):
    with pytest.raises(af.RefusalError, match="'low', 'normal', 'high', or an Effort"):
        as_effort(wrong)


@pytest.mark.parametrize(
    "wrong",
    [{"boxes": 0}, {"seconds": 0.0}, {"workers": 0}, {"workers": -2}, {"tries": -1}, {"anchors": 0}, {"exchanges": 0}],
)
def test_limits_are_positive(wrong):
    with pytest.raises(af.RefusalError):
        Effort(**wrong)


def test_workers_are_counted():
    assert as_effort("low", workers=3).workers == as_effort("low", workers=3).processes == 3
    assert Effort(workers=-1).processes >= 1
    assert as_effort(Effort(cluster="a"), workers=2) == as_effort(None, 2, "a") == Effort(workers=2, cluster="a")


def test_without_an_end_there_is_time():
    assert seconds_left() == float("inf")
    assert not time_is_up()
    check_time("nothing")


def test_an_inner_end_does_not_move_an_outer_one(clock):
    with until(0.01), until(100):
        assert seconds_left() <= 0.01
        with until(None):
            assert seconds_left() <= 0.01
        clock.passes(0.02)
        assert time_is_up()
        with pytest.raises(af.OutOfTimeError, match="resting unfinished when time was up"):
            check_time("resting")
    assert not time_is_up()


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_an_end_lies_ahead(seconds):
    with pytest.raises(af.RefusalError, match="`timeout` must be a positive number"), until(seconds):
        pass

"""One effort: limits by number and by name, of which a part may be spent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import attnforge as af
from tests.refusals import refused

LINE = {"x": (-1, 1)}


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_an_effort_within_a_limit_keeps_it(points, limit):
    whole = af.Effort(points)
    found = whole.within(limit)
    assert 1 <= found.evaluations <= max(limit, 1)
    assert found.points <= points
    if limit >= whole.evaluations:
        assert found == whole
    elif limit >= 100:
        assert found.points >= min(points, limit // 4)
        assert found.climb > 0


def test_evaluations_are_counted():
    assert af.Effort(4000).evaluations == 4000 + 2000 + 16 * 24 * 24


def test_workers_are_counted():
    assert af.Effort(workers=3).processes == 3
    assert af.Effort(workers=-1).processes >= 1


WRONG = [
    {"boxes": 0}, {"seconds": 0.0}, {"workers": 0}, {"workers": -2}, {"tries": -1}, {"anchors": 0}, {"exchanges": 0},
]  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_limits_are_positive(wrong):
    with refused(af.RefusalError):
        af.Effort(**wrong)


@pytest.mark.parametrize("wrong", [
    *({"effort": effort} for effort in ("huge", 3, {"boxes": 2})), *({"timeout": end} for end in (0, -1, float("nan"))),
], ids=str)  # fmt: skip
def test_other_efforts_and_ends_that_are_over_are_refused(wrong):
    with refused(af.RefusalError):
        af.compile("relu(x)", LINE, 1e-6, **wrong)


@pytest.mark.parametrize("effort", ["low", "normal", "high", af.Effort(points=100, boxes=4096), None])
def test_efforts_have_names(effort):
    assert af.compile("sin(8*x)*abs(x)", LINE, 1e-3, effort=effort).certificate.bound <= 1e-3

"""The law of the project: what is measured never exceeds what is certified, on random networks of every construction.

``./test laws --examples N`` draws N of them and writes ``benchmarks/results/soundness.md``.
"""

from collections import Counter

import pytest

from tests.laws import soundness
from tests.laws.soundness import DTYPES, MAKERS, line

GATE, MASS, PART = 48, 200, 8  # networks of the gate, of all tests, of one test
POINTS = 1500


def parts(first, last):
    return [range(at, at + PART) for at in range(first, last, PART)]


def held(seeds):
    lines = [line(seed, POINTS) for seed in seeds]
    assert [each for each in lines if each["status"] in ("error", "violation") or each.get("violations")] == []
    assert sum(each["status"] == "ok" for each in lines) >= PART / 2, Counter(each["status"] for each in lines)


@pytest.mark.parametrize("seeds", parts(0, GATE), ids=str)
def test_no_error_exceeds_its_bound(seeds):
    held(seeds)


@pytest.mark.slow
@pytest.mark.parametrize("seeds", parts(GATE, MASS), ids=str)
def test_no_error_of_many_networks_exceeds_its_bound(seeds):
    held(seeds)


def test_every_construction_and_dtype_is_drawn():
    drawn = [soundness.draw(seed)[0] for seed in range(MASS)]
    assert {each.construction for each in drawn} == set(MAKERS)
    assert {each.dtype for each in drawn} == set(DTYPES)


def test_a_fifth_of_a_bound_is_exceeded():
    """The law can fail: most bounds are within five times an error that is found."""
    lines = [line(seed, POINTS, lowered=0.2) for seed in range(PART)]
    assert sum(bool(each.get("violations")) for each in lines) >= PART / 2


def test_a_meaning_that_is_off_a_little_is_seen(monkeypatch):
    """And the judge is no part of what is judged: with another sine, bounds are exceeded."""
    before = line(9, POINTS)
    assert before["status"] == "ok"
    exact = soundness.EXACT["sin"]
    monkeypatch.setitem(soundness.EXACT, "sin", lambda u: exact(u) * (1 + 1e-3))
    assert any(line(seed, POINTS).get("violations") for seed in range(9, 15))

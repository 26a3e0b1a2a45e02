"""Random formulas of hostile scales: a seeded slice of the benchmark, against 400-digit arithmetic."""

import types

import pytest

from benchmarks import formulas
from tests.clock import Clock

SEEDS = 24
OURS = ("proved", "conditional", "sampled", "refused")


@pytest.fixture(scope="module")
def lines():
    with pytest.MonkeyPatch.context() as patch:  # seconds are looks at the clock
        clock = Clock(tick=1.0)
        clock.install(patch)
        patch.setattr(formulas, "time", types.SimpleNamespace(monotonic=clock.look))
        patch.setattr(formulas, "TIMEOUT", 100.0)
        patch.setattr(formulas, "GRACE", 60.0)  # every construction that is left looks once, a search a few times
        return [formulas.line(seed) for seed in range(1000, 1000 + SEEDS)]


def test_no_error_exceeds_a_bound(lines):
    assert not [each["seed"] for each in lines if each.get("violated") or each["status"] == "violation"]


def test_no_exception_but_our_own(lines):
    assert not [(each["seed"], each["text"]) for each in lines if each["status"] not in OURS]


def test_none_is_later_than_its_timeout(lines):
    assert not [(each["seed"], each["seconds"]) for each in lines if each["late"]]


def test_estimates_are_the_errors_at_their_points(lines):
    assert not [each["seed"] for each in lines if each.get("misjudged")]


def test_the_law_is_not_empty_and_can_fail(lines):
    bounded = [each for each in lines if each.get("bound")]
    assert len(bounded) >= SEEDS / 4
    assert any(each["error"] > 0.5 * each["bound"] for each in bounded)
    page = "\n".join(formulas.summary(lines, "command"))
    assert f"**{SEEDS} formulas: 0 errors above a bound, 0 exceptions" in page
    broken = [each | {"violated": True} for each in bounded[:1]]
    assert "**1 formulas: 1 errors above a bound" in "\n".join(formulas.summary(broken, "command"))


def test_the_reference_knows_what_float64_does_not():
    node = formulas.parse("1e17*((1 + 1e-17*x) - 1)")
    assert formulas.error_at(node, {"x": 0.25}, 0.0) == pytest.approx(0.25)
    assert formulas.error_at(formulas.parse("sign(x - x)"), {"x": 0.25}, 0.0) == 0.0
    assert formulas.error_at(formulas.parse("sign(sqrt(x)^2 - x)"), {"x": 0.3}, 0.0) is None  # 400 digits do not tell
    assert formulas.error_at(formulas.parse("1/(x - x)"), {"x": 0.25}, 0.0) is None

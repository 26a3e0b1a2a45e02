from attnforge.experiments.claims import falls_as, within_bounds
from attnforge.experiments.table import Table


def test_a_rate_is_judged_by_its_interval() -> None:
    x = [1, 2, 4, 8]
    assert falls_as("", x, [1 / each for each in x], -1, slack=1e-9).verdict == "confirmed"
    assert falls_as("", x, [1 / each for each in x], -2, slack=0.1).verdict == "refuted"
    assert falls_as("", x, [1 / each**2 for each in x], -1).verdict == "refuted"
    assert falls_as("", x, [1, 0.1, 1, 0.1], -1).verdict == "undecided"
    assert falls_as("", [1, 2], [1, 0.5], -1).verdict == "undecided"
    assert falls_as("", x, [1, 1, 1, 1], 0, slack=1e-9, more="flat").evidence.endswith("; flat")


def test_bounds_are_a_law_that_can_be_broken() -> None:
    good = Table.of([{"error": 1.0, "bound": 1.0}, {"error": 9.0}])
    bad = Table.of([{"error": 1.0, "bound": 2.0}, {"error": 2.0, "bound": 1.9}])
    assert (within_bounds(good).verdict, within_bounds(good).law) == ("confirmed", True)
    assert within_bounds(bad).verdict == "refuted"
    assert within_bounds(Table.of([{"error": float("nan"), "bound": 1.0}])).verdict == "refuted"
    assert within_bounds(Table.of([{"error": 0.0, "bound": 0.0}])).verdict == "confirmed"
    assert within_bounds(Table.of([])).verdict == "undecided"

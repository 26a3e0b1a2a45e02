from __future__ import annotations

from attnforge.experiments.length.costs import cost, cost_apart


def test_costs_are_positive() -> None:
    row = cost("literal", 300, 2, 300)
    assert row["seconds"] > 0
    assert row["weights"] >= 2 * 8 * 300 * 300  # the maps that lengthen and shorten the sequence
    assert row["peak"] >= 0


def test_a_process_of_its_own_measures_the_same_weights() -> None:
    row = cost_apart({"kind": "cost", "layout": "memory", "n": 20, "d": 2, "p": 8})
    assert row["weights"] == cost("memory", 20, 2, 8)["weights"]
    assert row["seconds"] > 0

"""Medians, ratios of them, and numbers as text."""

from __future__ import annotations

import pytest

from attnforge.experiments.constructed_vs_trained.summaries import journeys, plain, ratios
from attnforge.experiments.table import Cell, Table
from tests.experiments.constructed_vs_trained.made_up import made_up


def test_ratios_are_of_medians() -> None:
    rows: list[dict[str, Cell]] = [{"kind": "trained", "heads": 1, "mse": mse} for mse in (1.0, 4.0, 100.0)]
    rows += [{"kind": "hard", "heads": 1, "mse": mse} for mse in (0.01, 0.02, 0.9)]
    assert ratios(Table.of(rows), "hard", "mse") == {1: pytest.approx(200)}


@pytest.mark.parametrize(("value", "text"), [(9.96, "10"), (12_345.6, "12,000"), (3.2e12, "3.2e+12"), (99.0, "99")])
def test_plain_numbers(value: float, text: str) -> None:
    assert plain(value) == text


def test_journeys_are_one_a_training_in_order_of_epochs() -> None:
    ways = journeys(Table.of(reversed(made_up().rows)))
    assert len(ways) == 3 * len(journeys(made_up(), "mean")) == 3 * 2 * 3
    assert [way.numbers("epoch").tolist() for way in ways] == [[0, 50]] * 18
    assert {way.texts("start")[0] for way in journeys(made_up(), "mean")} == {"mean"}

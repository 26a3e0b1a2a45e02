"""Findings that confirm, and that can fail; medians, ratios of them, and numbers as text."""

from __future__ import annotations

import pytest

from attnforge.experiments.constructed_vs_trained import ConstructedVsTrained, ConstructedVsTrainedSettings
from attnforge.experiments.constructed_vs_trained.findings import journeys, plain, ratios
from attnforge.experiments.constructed_vs_trained.task import CONSTRUCTED
from attnforge.experiments.table import Cell, Table
from tests.experiments.constructed_vs_trained.made_up import made_up


def verdicts(table: Table) -> dict[str, str]:
    return {each.claim: each.verdict for each in ConstructedVsTrained().findings(table, ConstructedVsTrainedSettings())}


def test_findings_confirm_and_refute() -> None:
    good = verdicts(made_up())
    assert set(good.values()) == {"confirmed", "measured"}
    worse = verdicts(made_up(ratio=99.0, gain=1.0, proved=False))
    compared = [claim for claim in worse if "at least 100 times" in claim]
    assert len(compared) == len(CONSTRUCTED) + 5
    lowered = [claim for claim in worse if "lowers its mean square error" in claim]
    for claim in [*compared, *lowered, "what training makes of the construction can be bounded again"]:
        assert worse[claim] == "refuted"


def test_one_number_of_heads_below_the_ratio_refutes() -> None:
    rows = [{**row, "mse": 1.0} if row["kind"] == "hard" and row["heads"] == 8 else row for row in made_up().rows]
    found = verdicts(Table.of(rows))
    assert [claim.split(": ")[1] for claim, verdict in found.items() if verdict == "refuted"] == ["hard selection"]


def test_an_error_above_its_bound_and_more_heads_that_do_not_help_are_seen() -> None:
    rows = [{**row, "error": 0.3} if row["kind"] == "tuned" else row for row in made_up().rows]
    assert verdicts(Table.of(rows))["no error above its certified bound"] == "refuted"
    flat = [{**row, "mse": 4.0} if row["kind"] == "trained" else row for row in made_up().rows]
    claim = "trained: the mean square error falls with H (Hu et al.)"
    assert (verdicts(made_up())[claim], verdicts(Table.of(flat))[claim]) == ("confirmed", "refuted")
    assert claim not in verdicts(Table.of(row for row in made_up().rows if row.get("heads") in (None, 4)))


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

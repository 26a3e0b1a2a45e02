"""Findings that confirm, and that can fail."""

from __future__ import annotations

from attnforge.experiments.constructed_vs_trained import ConstructedVsTrained, ConstructedVsTrainedSettings
from attnforge.experiments.constructed_vs_trained.building import CONSTRUCTED
from attnforge.experiments.table import Table
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

"""Selection: weights by hand, counts, findings that can fail, figures."""

import json
from dataclasses import replace

import numpy as np
import pytest

from attnforge.experiments.selection import Selection, SelectionSettings
from attnforge.experiments.settings import quick
from attnforge.experiments.table import Table

EXPERIMENT = Selection()
TINY = replace(quick(SelectionSettings), anchors=(3, 4), sharpness=(1.0, 10.0, 40.0), heads=2, keys=6, queries=501)


@pytest.fixture(scope="module")
def table():
    return Table.of({**case, **row} for case in EXPERIMENT.cases(TINY) for row in EXPERIMENT.measure(case))


def verdicts(table):
    return [finding.verdict for finding in EXPERIMENT.findings(table, TINY)]


def changed(table, **columns):
    return Table.of({**row, **columns} if row["part"] == "count" else row for row in table.rows)


def test_cases_are_distinct_and_plain():
    cases = EXPERIMENT.cases(SelectionSettings())
    assert len({json.dumps(case, sort_keys=True) for case in cases}) == len(cases)
    assert {type(cell) for case in cases for cell in case.values()} <= {str, int, float, bool}


def test_two_anchors_by_hand():
    # Two anchors at -1 and 1, h = 2: at s steps from the middle the nearer one weighs 1 / (1 + e^(-2 c s)) exactly.
    rows = EXPERIMENT.measure({"p": 2, "heads": 1, "c": 3.0, "queries": 1001})
    profile = [row for row in rows if row["part"] == "profile"]
    for row in profile:
        assert row["weight"] == pytest.approx(1 / (1 + np.exp(-6 * row["distance"])), abs=1e-12)
    (count,) = (row for row in rows if row["part"] == "count")
    # sigma(6 s) > 0.99 needs s > ln(99) / 6 = 0.766 > 1/2: no column is one-hot.
    assert count["one_hot"] == 0.0
    assert count["at_ties"] == pytest.approx(0.5)
    assert count["nearest_wins"] == 1.0


def test_one_hot_columns_are_as_many_as_predicted():
    count = EXPERIMENT.measure({"p": 5, "heads": 1, "c": 46.0, "queries": 4001})[0]
    assert count["one_hot"] == pytest.approx(1 - np.log(99) / 46, abs=3e-3)


def test_of_two_heads_one_owns_every_query():
    count = EXPERIMENT.measure({"p": 3, "heads": 2, "c": 10.0, "queries": 501})[0]
    assert count["one_owner"] == 1.0


def test_the_papers_claim_holds_but_for_ties(table):
    assert verdicts(table) == ["confirmed", "confirmed", "refuted", "confirmed", "confirmed"]


@pytest.mark.parametrize(
    ("place", "column", "value"),
    [(0, "nearest_wins", 0.999), (1, "one_hot", 0.2), (3, "as_formula", 0.99), (4, "one_owner", 0.9)],
)
def test_findings_can_fail(table, place, column, value):
    assert verdicts(changed(table, **{column: value}))[place] == "refuted"


def test_columns_without_ties_would_confirm_that_all_are_one_hot(table):
    assert verdicts(changed(table, at_ties=0.999))[2] == "confirmed"


def test_figures_and_notes(table):
    assert set(EXPERIMENT.figures(table, TINY)) == {"selection", "selection-heads", "selection-window"}
    assert "| 2 heads of 2 | 10 |" in EXPERIMENT.notes(table, TINY)[0]

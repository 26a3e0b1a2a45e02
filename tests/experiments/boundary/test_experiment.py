"""Errors at ends and borders: cases, findings that can fail, figures."""

import json
from dataclasses import replace

import pytest

from attnforge.experiments.boundary import Boundary, BoundarySettings
from attnforge.experiments.settings import quick
from attnforge.experiments.table import Table

EXPERIMENT = Boundary()
TINY = replace(
    quick(BoundarySettings),
    widths=(0.1,),
    distances=(0.0, 0.5, 32.0, 32.5),
    fitted=(0.5, 32.0),
    sizes=(64, 128, 256),
    heads=4,
    keys=10,
)


@pytest.fixture(scope="module")
def table():
    return Table.of({**case, **row} for case in EXPERIMENT.cases(TINY) for row in EXPERIMENT.measure(case))


def verdicts(table):
    return [finding.verdict for finding in EXPERIMENT.findings(table, TINY)]


def changed(table, where, **columns):
    return Table.of({**row, **columns} if where(row) else row for row in table.rows)


def test_cases_are_distinct_and_plain():
    cases = EXPERIMENT.cases(BoundarySettings())
    assert len({json.dumps(case, sort_keys=True) for case in cases}) == len(cases)
    assert {type(cell) for case in cases for cell in case.values()} <= {str, int, float, bool}


def test_findings(table):
    found = dict(zip([finding.claim for finding in EXPERIMENT.findings(table, TINY)], verdicts(table), strict=True))
    assert found["hard cells: errors spike at the edges of the domain"] == "refuted"
    assert found["tuned cells, ghosts: errors spike at the edges of the domain"] == "refuted"
    assert found["tuned cells, no ghosts: errors spike at the edges of the domain"] == "confirmed"
    assert found["sentinels correct: errors spike between heads"] == "refuted"
    assert found["sentinels shifted: errors spike between heads"] == "confirmed"
    assert found["fitted heads follow transitions and kinks to 1e-06 wherever they are"] == "confirmed"


@pytest.mark.parametrize(
    ("where", "columns", "claim", "verdict"),
    [
        (lambda row: row["part"] == "smooth", {"end": 1.0}, "hard cells: errors spike", "confirmed"),
        (lambda row: row["part"] == "smooth", {"end": 1e-9}, "tuned cells, no ghosts: errors spike", "refuted"),
        (lambda row: row["part"] == "heads", {"border": 9.0}, "sentinels correct", "confirmed"),
        (lambda row: row.get("distance") == 0.0, {"error": 9.0}, "tanh, w = 0.1", "confirmed"),
        (lambda row: row.get("by") == "fitted", {"error": 1e-3}, "fitted heads", "refuted"),
    ],
)
def test_findings_can_turn(table, where, columns, claim, verdict):
    found = EXPERIMENT.findings(changed(table, where, **columns), TINY)
    assert next(each.verdict for each in found if each.claim.startswith(claim)) == verdict


def test_orders_can_fail(table):
    rows = Table.of({**row, "end": row["cells"] ** -1.5} if row["part"] == "smooth" else row for row in table.rows)
    claims = ("of order", "as fast as inside")
    orders = [each.verdict for each in EXPERIMENT.findings(rows, TINY) if any(claim in each.claim for claim in claims)]
    assert orders == ["refuted", "refuted", "refuted"]


def test_figures_and_notes(table):
    names = {"boundary", "boundary-transitions", "boundary-heads"}
    assert set(EXPERIMENT.figures(table, TINY)) == names
    assert "tanh, w = 0.1" in EXPERIMENT.notes(table, TINY)[1]

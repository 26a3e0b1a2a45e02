"""Error against sharpness: cases, findings that can fail, figures."""

import json
from dataclasses import replace

import pytest

from attnforge.experiments.settings import quick
from attnforge.experiments.table import Table
from attnforge.experiments.temperature import Temperature, TemperatureSettings

EXPERIMENT = Temperature()
TINY = replace(
    quick(TemperatureSettings),
    named=(10.0, 1000.0),
    lowest=1.2,
    highest=1e3,
    points=5,
    queries=801,
    anchors=(16, 1024, 4096),
    fitted=(0.1, 1.0, 10.0),
)


@pytest.fixture(scope="module")
def table():
    return Table.of({**case, **row} for case in EXPERIMENT.cases(TINY) for row in EXPERIMENT.measure(case))


def verdicts(table):
    return [finding.verdict for finding in EXPERIMENT.findings(table, TINY)]


def changed(table, where, **columns):
    return Table.of({**row, **columns} if where(row) else row for row in table.rows)


def test_cases_are_distinct_and_plain():
    cases = EXPERIMENT.cases(TemperatureSettings())
    assert len({json.dumps(case, sort_keys=True) for case in cases}) == len(cases)
    assert {type(cell) for case in cases for cell in case.values()} <= {str, int, float, bool}


def test_a_named_beta_is_its_c():
    case = {"part": "named", "head": "fine", "dtype": "float64", "beta": 100.0, "queries": 101, "seed": 0}
    assert EXPERIMENT.measure(case)[0]["sharpness"] == pytest.approx(100 * (2 / 255) ** 2)


def test_findings(table):
    assert verdicts(table) == [
        "confirmed",
        "confirmed",
        "refuted",
        "confirmed",
        "confirmed",
        "measured",
        "confirmed",
        "measured",
        "confirmed",
    ]


@pytest.mark.parametrize(
    ("place", "where", "columns"),
    [
        (0, lambda row: row.get("c") == 1000.0, {"error": 0.01}),
        (1, lambda row: row.get("c") == 1000.0, {"mse": 1e-9}),
        (3, lambda row: row.get("c") == 1000.0, {"neighbour": 0.1}),
        (4, lambda row: row.get("dtype") == "bfloat16", {"not_finite": 0.5}),
        (6, lambda row: row.get("p") == 16, {"lost": 0.5}),
        (8, lambda row: row["part"] == "fitted" and row["c"] == 10.0, {"error": 1e-15}),
    ],
)
def test_findings_can_fail(table, place, where, columns):
    assert verdicts(changed(table, where, **columns))[place] == "refuted"


def test_falling_errors_would_confirm_that_sharper_is_better(table):
    rows = Table.of({**row, "error": 1 / row["beta"]} if row["part"] == "named" else row for row in table.rows)
    assert verdicts(rows)[2] == "confirmed"


def test_figures_and_notes(table):
    assert set(EXPERIMENT.figures(table, TINY)) == {"temperature", "temperature-limits"}
    assert "| authors | 10 | 7.18 |" in EXPERIMENT.notes(table, TINY)[1]

"""Error against sharpness: single heads by hand, findings that can fail, figures."""

import json
from dataclasses import replace

import numpy as np
import pytest

from attnforge.experiments.settings import quick
from attnforge.experiments.table import Table
from attnforge.experiments.temperature import HEADS, Temperature, TemperatureSettings

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


def curve(dtype, c, queries=1001, head="authors"):
    case = {"part": "curve", "head": head, "dtype": dtype, "c": c, "queries": queries, "seed": 0}
    return EXPERIMENT.measure(case)[0]


def test_cases_are_distinct_and_plain():
    cases = EXPERIMENT.cases(TemperatureSettings())
    assert len({json.dumps(case, sort_keys=True) for case in cases}) == len(cases)
    assert {type(cell) for case in cases for cell in case.values()} <= {str, int, float, bool}


def test_the_error_of_a_head_by_hand():
    reach, p = HEADS["authors"]
    h, c = 2 * reach / (p - 1), 5.0
    anchors, y = np.linspace(-reach, reach, p), np.linspace(-1.2 * reach, 1.2 * reach, 20_001)
    weights = np.exp(-c * ((y[:, None] - anchors) ** 2 - (y[:, None] - np.clip(y, -reach, reach)[:, None]) ** 2) / h**2)
    out = weights @ anchors / weights.sum(axis=1)
    row = curve("float64", c)
    assert row["error"] == pytest.approx(np.abs(out - np.clip(y, -reach, reach)).max() / h, rel=1e-3)
    assert row["neighbour"] == pytest.approx(np.exp(-c) / (1 + 2 * np.exp(-c) + 2 * np.exp(-4 * c)), rel=1e-9)
    assert row["lost"] == 0.0


def test_a_named_beta_is_its_c():
    case = {"part": "named", "head": "fine", "dtype": "float64", "beta": 100.0, "queries": 101, "seed": 0}
    assert EXPERIMENT.measure(case)[0]["sharpness"] == pytest.approx(100 * (2 / 255) ** 2)


def test_float16_underflows_then_overflows():
    soft, sharp, beyond = (curve("float16", c) for c in (10.0, 40.0, 2000.0))
    assert soft["neighbour"] > 0 == sharp["neighbour"]
    assert sharp["not_finite"] == 0.0
    assert sharp["built_for_dtype"]
    assert beyond["not_finite"] > 0
    assert beyond["error"] is None
    assert not beyond["built_for_dtype"]


@pytest.mark.parametrize(("head", "gain"), [("fine", 10), ("authors", 1)])
def test_a_power_of_two_helps_bfloat16_much_only_where_the_step_is_exact_too(head, gain):
    below, two, above = (curve("bfloat16", c, head=head)["mse"] for c in (1.8, 2.0, 2.2))
    assert gain * two < min(below, above)
    if gain == 1:
        assert 10 * two > min(below, above)


def test_too_many_anchors_lose_the_argmax():
    few, many = (EXPERIMENT.measure({"part": "row", "dtype": "float16", "p": p, "seed": 0})[0] for p in (16, 1024))
    assert few["lost"] < 0.01 < 0.5 < many["lost"]


def test_fitted_values_beat_sampled_ones_at_low_sharpness():
    row = EXPERIMENT.measure({"part": "fitted", "c": 0.3})[0]
    assert row["error"] < 1e-11 < 0.1 < row["sampled_error"]


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

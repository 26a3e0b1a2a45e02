"""Errors against heads: cases, one measured by hand, findings that can fail, figures."""

import json
from dataclasses import replace

import numpy as np
import pytest

from attnforge.experiments.rate_heads import SENTINELS, RateHeads, RateHeadsSettings
from attnforge.experiments.settings import quick
from attnforge.experiments.table import Table

EXPERIMENT = RateHeads()
TINY = replace(
    quick(RateHeadsSettings),
    heads=(1, 2, 4),
    keys=(8, 12),
    total=12,
    trained_heads=(1, 2),
    trained_keys=4,
    trained_total=8,
    repeats=2,
    epochs=1,
)


def made_up(power=-1.0, trained_power=0.0, dealt=1.0):
    """A table in which errors are powers of the sizes."""
    rows = []
    for case in EXPERIMENT.cases(replace(RateHeadsSettings(), trained_heads=(1, 2, 4, 8))):
        n, heads = case["keys"], case["heads"]
        if case["kind"] == "trained":
            error = 0.1 * heads**trained_power * (1 + 0.01 * case["start"])
            rows.append({**case, "error": error, "keys_in_all": n * heads})
        else:
            own = heads * (n - 2 * SENTINELS[case["kind"]])
            error = float(own) ** power if case["fixed"] == "each" else 0.1 * dealt ** (heads - 1)
            rows.append({**case, "error": error, "bound": 1.01 * error, "keys_in_all": n * heads})
    return Table.of(rows)


def verdicts(table):
    return {finding.claim: finding.verdict for finding in EXPERIMENT.findings(table, RateHeadsSettings())}


def test_cases_are_distinct_and_plain():
    cases = EXPERIMENT.cases(RateHeadsSettings())
    assert len({json.dumps(case, sort_keys=True) for case in cases}) == len(cases)
    assert {type(cell) for case in cases for cell in case.values()} <= {str, int, float, bool}


def test_a_fixed_total_deals_out_the_anchors_and_adds_sentinels():
    dealt = [case for case in EXPERIMENT.cases(TINY) if case["fixed"] == "all" and case["kind"] != "trained"]
    own = {(case["keys"] - 2 * SENTINELS[case["kind"]]) * case["heads"] for case in dealt}
    assert own == {12}


def test_hard_heads_err_by_half_a_step_less_the_softness_of_ties():
    # 2 heads of 6 keys, 1 sentinel a side: 8 anchors, h = 2/7. At c = ln 2^53 the staircase errs by
    # max over theta of sigma(c (2 theta - 1)) - theta = 0.428 steps.
    (row,) = EXPERIMENT.measure({"kind": "hard", "fixed": "each", "keys": 6, "heads": 2})
    c, theta = 53 * np.log(2), np.linspace(0.5, 1, 100_001)
    expected = (1 / (1 + np.exp(-c * (2 * theta - 1))) - theta).max() * 2 / 7
    assert row["error"] == pytest.approx(expected, rel=1e-6)
    assert row["error"] <= row["bound"]
    assert row["keys_in_all"] == 12


def test_training_depends_on_its_start_alone():
    case = {"kind": "trained", "fixed": "each", "keys": 3, "heads": 2, "start": 1, "epochs": 1, "seed": 0}
    first, again = (EXPERIMENT.measure(case)[0] for _ in range(2))
    other = EXPERIMENT.measure({**case, "start": 2})[0]
    assert first["error"] == again["error"] != other["error"]


def test_the_rate_is_confirmed_where_errors_follow_it():
    assert set(verdicts(made_up(trained_power=-1.0)).values()) == {"confirmed", "measured"}


def test_a_slower_rate_is_refuted():
    found = verdicts(made_up(power=-0.5))
    assert found["hard heads: error O(1/(nH)), over all n and H"] == "refuted"
    assert found["tuned heads: error O(1/H) with the anchors of every head fixed"] == "refuted"
    assert found["trained heads: error O(1/H) with the keys of every head fixed"] == "refuted"


def test_heads_that_help_with_the_total_fixed_refute_the_claim():
    found = verdicts(made_up(dealt=0.9))
    assert (
        found["hard heads: with the anchors of all heads together fixed, more heads do not lower the error"]
        == "refuted"
    )


def test_figures_and_notes_of_a_tiny_run():
    table = Table.of({**case, **row} for case in EXPERIMENT.cases(TINY) for row in EXPERIMENT.measure(case))
    assert set(EXPERIMENT.figures(table, TINY)) == {"rate-heads", "rate-heads-fixed"}
    assert "| 4 |" in EXPERIMENT.notes(table, TINY)[1]
    assert len(EXPERIMENT.findings(table, TINY)) == 9

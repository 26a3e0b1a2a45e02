"""Long sequences: what is measured, and what the judge makes of it."""

from __future__ import annotations

import json

import numpy as np
import pytest

from attnforge.experiments import length
from attnforge.experiments.length import LOWER, UPPER, Length, LengthSettings
from attnforge.experiments.settings import quick
from attnforge.experiments.table import Table
from attnforge.network import apply

TINY = LengthSettings(tokens=(5, 9), features=(2, 3), anchors=(8, 16, 32), heads=(1, 2), sentinels=(2,), widths=(2,))


def test_cases_are_distinct_and_flat() -> None:
    for settings in (LengthSettings(), quick(LengthSettings), TINY):
        cases = Length().cases(settings)
        assert len({json.dumps(case, sort_keys=True) for case in cases}) == len(cases)
        assert all(isinstance(cell, int | float | str) for case in cases for cell in case.values())


def test_only_costs_are_measured_alone() -> None:
    alone = [case["kind"] for case in Length().cases(TINY) if Length().alone(case)]
    assert set(alone) == {"cost"}


def test_padded_sequences_have_a_key_a_token() -> None:
    literal = [case for case in Length().cases(LengthSettings()) if case.get("layout") == "literal"]
    assert {case["p"] - case["n"] for case in literal} == {0}


def test_inputs_reach_the_forms_asked_for() -> None:
    w, t = length.sequence_weights(4, 3, seed=1)
    asked = np.array([[-1.0, 0.0, 2.0, 1e9]])
    x, form = length.inputs_of(asked, w, t)
    assert np.abs(x).max() <= length.REACH + 1e-12
    np.testing.assert_allclose(form[0, :3], asked[0, :3], atol=1e-12)
    np.testing.assert_allclose(form[0, 3], length.REACH * np.abs(w[3]).sum() + t[3])


def test_one_head_errs_by_the_known_share_of_a_step() -> None:
    [row] = Length().measure({"kind": "anchors", "n": 5, "d": 2, "p": 26, "seed": 0})
    step = (UPPER - LOWER) / 25
    assert row["error"] == pytest.approx(0.061 * step, rel=0.05)  # tuned: h E(c), E = 0.063
    assert row["error"] <= row["bound"]


def test_cases_draw_forms_of_their_own() -> None:
    """The same forms would give the same error whatever n and d are."""
    cases = [{"kind": "anchors", "n": n, "d": d, "p": 26, "seed": 0} for n, d in ((5, 2), (5, 3), (10, 2))]
    assert len({Length().measure(case)[0]["error"] for case in cases}) == 3


def test_heads_share_a_row_of_anchors() -> None:
    [row] = Length().measure({"kind": "heads", "n": 20, "d": 2, "H": 3, "sentinels": 4, "seed": 0})
    assert row["p"] == 3 * (20 - 8)
    assert 0.03 < row["error"] * (row["p"] - 1) / (UPPER - LOWER) < 0.07


def test_layouts_compute_the_same() -> None:
    lean, _, bound = length.one_head(6, 2, 8)
    padded, _, same = length.one_head(6, 2, 8, "literal")
    x = np.random.default_rng(0).uniform(-1, 1, size=(6, 2))
    np.testing.assert_allclose(apply(lean, x), apply(padded, x), atol=1e-10)
    assert bound == same


def test_costs_are_positive() -> None:
    row = length.cost("literal", 300, 2, 300)
    assert row["seconds"] > 0
    assert row["weights"] >= 2 * 8 * 300 * 300  # the maps that lengthen and shorten the sequence
    assert row["peak"] >= 0


def made_up(rate: float = -1.0, time: float = 1.0, spread: float = 0.0) -> Table:
    """A table in which everything follows the given laws."""
    rows = [
        {"kind": "anchors", "n": n, "d": d, "p": p, "error": p**rate * (1 + spread * n), "bound": 10.0}
        for n in TINY.tokens
        for d in TINY.features
        for p in TINY.anchors
    ]
    rows += [
        {"kind": "heads", "n": n, "H": h, "sentinels": 2, "p": n * h, "error": (n * h) ** rate, "bound": 10.0}
        for n in TINY.tokens
        for h in (1, 2, 4)
    ]
    rows += [
        {
            "kind": "cost",
            "layout": name,
            "n": n,
            "d": 2,
            "p": n,
            "seconds": 1e-6 * n**power,
            "peak": 1e4 * n,
            "weights": n,
        }
        for name, power in (("memory", time), ("literal", 2 * time))
        for n in (500, 1000, 2000)
    ]
    return Table.of(rows)


def verdicts(table: Table) -> dict[str, str]:
    return {finding.claim: finding.verdict for finding in Length().findings(table, TINY)}


def test_laws_that_hold_are_confirmed() -> None:
    found = verdicts(made_up())
    assert set(found.values()) == {"confirmed", "measured"}
    assert found["memory layout: time linear in n"] == "confirmed"


def test_laws_that_do_not_hold_are_refuted() -> None:
    assert verdicts(made_up(rate=-0.8))["n = 5: error O(1/p)"] == "refuted"
    assert verdicts(made_up(rate=-0.8))["n = 9 keys a head, 2 sentinels a side: error O(1/(nH))"] == "refuted"
    assert verdicts(made_up(time=1.5))["literal layout: time quadratic in n"] == "refuted"
    assert verdicts(made_up(spread=0.1))["the error depends neither on n nor on d"] == "refuted"


def test_figures_and_notes() -> None:
    figures = Length().figures(made_up(), TINY)
    assert sorted(figures) == ["length-cost", "length-error"]
    assert [len(axes.lines) for axes in figures["length-cost"].axes] == [2, 2]
    costs, heads = Length().notes(made_up(), TINY)
    assert "| literal | 2,000 | 2 |" in costs
    assert heads.count("\n") == 1 + 6

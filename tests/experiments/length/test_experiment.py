"""Long sequences: cases, and what the judge makes of a table."""

from __future__ import annotations

import json

from attnforge.experiments.length import Length, LengthSettings
from attnforge.experiments.settings import quick
from attnforge.experiments.table import Table

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

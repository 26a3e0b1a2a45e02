"""Precision: selection by scores, the judge, the figures."""

from __future__ import annotations

import json

import numpy as np
import pytest

from attnforge.experiments.dtypes import WAYS, Dtypes, DtypesSettings, largest_score
from attnforge.experiments.settings import quick
from attnforge.experiments.table import Table

TINY = DtypesSettings(
    dtypes=("float32", "float16"),
    anchors=(8, 600),
    fitted=(9, 17),
    depths=(1,),
    targets=("x^3 - x",),
    selected=(16, 64),
)


def test_cases_are_distinct_and_flat() -> None:
    for settings in (DtypesSettings(), quick(DtypesSettings)):
        cases = Dtypes().cases(settings)
        assert len({json.dumps(case, sort_keys=True) for case in cases}) == len(cases)
        assert all(isinstance(cell, int | float | str) for case in cases for cell in case.values())


@pytest.mark.parametrize("way", WAYS)
def test_double_precision_selects_the_nearest_anchor(way: str) -> None:
    u = np.random.default_rng(0).uniform(0, 999, 2000)
    np.testing.assert_array_equal(largest_score(u, 1000, way, "float64"), np.rint(u))


def test_centred_scores_lose_fewer_anchors_in_single_precision() -> None:
    shares = {}
    for way in WAYS:
        case = {"kind": "selection", "dtype": "float32", "scores": way, "p": 2048, "seed": 0}
        shares[way] = Dtypes().measure(case)[0]["wrong"]
    assert 0 < 2 * shares["centred"] < min(shares["paper"], shares["anchors"])


def test_half_precision_refuses_squares_that_it_cannot_hold() -> None:
    assert Dtypes().measure({"kind": "truncated_linear", "dtype": "float16", "p": 600}) == [{"refused": True}]


def test_the_tuned_head_errs_by_the_known_share_of_a_step() -> None:
    [row] = Dtypes().measure({"kind": "truncated_linear", "dtype": "float64", "p": 21})
    assert row["error"] == pytest.approx(0.0622 * 0.1, rel=0.02)
    assert row["error"] <= row["bound"]


def made_up(bound: float = 2.0, gate: float = 1e-6, tol: float = 2.0, centred: float = 0.1) -> Table:
    rows: list[dict[str, object]] = []
    for dtype in ("float64", "float32"):
        common = {"dtype": dtype, "refused": False, "keys": 8}
        rows += [
            {**common, "kind": kind, "p": p, "error": 1 / p, "bound": bound / p}
            for kind in ("truncated_linear", "tensor_grid")
            for p in (8, 16)
        ]
        rows.append({**common, "kind": "gate", "error": gate, "bound": 1.0})
        rows.append({**common, "kind": "compile", "target": "x", "smallest_tol": tol, "error": 1.0, "bound": 2.0})
        rows += [
            {"kind": "selection", "dtype": dtype, "scores": way, "p": 64, "wrong": wrong, "lost": 0.0}
            for way, wrong in (("paper", 0.2), ("anchors", 0.3), ("centred", centred))
        ]
    return Table.of(rows)  # type: ignore[arg-type]


def refuted(table: Table) -> list[str]:
    found = Dtypes().findings(table, DtypesSettings(dtypes=("float64", "float32")))
    return [finding.claim for finding in found if finding.verdict == "refuted"]


def test_laws_that_hold_are_confirmed() -> None:
    assert refuted(made_up()) == []


def test_laws_that_do_not_hold_are_refuted() -> None:
    assert refuted(made_up(bound=0.5)) == ["no error above its certified bound"]
    assert refuted(made_up(gate=0.5)) == ["in every dtype the gate errs less than any number of anchors"]
    assert refuted(made_up(tol=0.5)) == ["compile keeps the smallest tolerance that its refusal names"]
    assert "centred" in refuted(made_up(centred=0.25))[0]


def test_figures_and_notes_of_a_tiny_sweep() -> None:
    table = Table.of({**case, **row} for case in Dtypes().cases(TINY) for row in Dtypes().measure(case))
    assert any("refused from p = 600 on" in finding.evidence for finding in Dtypes().findings(table, TINY))
    figures = Dtypes().figures(table, TINY)
    assert sorted(figures) == ["dtype-error", "dtype-selection"]
    assert [axes.get_title() for axes in figures["dtype-selection"].axes] == ["float16"]
    assert "| compile x^3 - x | float16 |" in Dtypes().notes(table, TINY)[0]

"""Errors at ends and borders: networks changed by hand, findings that can fail, figures."""

import json
from dataclasses import replace

import numpy as np
import pytest

import attnforge as af
from attnforge.experiments.boundary import Boundary, BoundarySettings, shifted, without
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


def test_without_ghosts_only_cells_are_left():
    net = af.constructions.max_affine("x", {"x": (0, 1)}, cells=4)
    (head,) = without(net.network, "ghost").heads
    assert head.memory_values[:, 0].tolist() == [0.125, 0.375, 0.625, 0.875]
    assert set(head.claims.roles) == {"cell"}
    # At the end the half of a Gaussian row pulls inwards: sum of w_i (i + 1/2) h, w_i ~ exp(-c (i + 1/2)^2).
    place = np.arange(4) + 0.5
    weights = np.exp(-head.claims.sharpness * place**2)
    expected = 1 - weights @ place / weights.sum() / 4
    assert without(net.network, "ghost")(np.ones((1, 1, 1)))[0, 0, 0] == pytest.approx(expected, rel=1e-12)


def test_sentinels_shifted_by_nothing_change_nothing():
    net = af.constructions.multihead_truncated_linear([1.0], 0.0, 0, 1, tokens=8, heads=3)
    y = np.linspace(0, 1, 101)[:, None, None]
    assert np.array_equal(shifted(net.network, 0.0)(y), net.network(y))
    assert np.abs(shifted(net.network, 0.5)(y) - net.network(y)).max() > 0.1


def test_a_jump_at_the_end_is_harmless_but_for_ghosts():
    # The jump is a single point. Cells do not see it; ghosts, reflected about it, are worth 2 * 1 - (-1) = 3.
    case = {"part": "near", "by": "cells", "target": "jump", "width": 0.0, "distance": 0.0, "cells": 64}
    errors = {row["method"]: row["error"] for row in EXPERIMENT.measure(case)}
    assert errors["hard cells"] < 1e-12
    assert errors["tuned cells, no ghosts"] < 1e-12
    assert errors["tuned cells, ghosts"] == pytest.approx(2.0, abs=1e-6)


def test_fitted_heads_keep_their_tolerance_at_the_end():
    case = {"part": "near", "by": "fitted", "target": "tanh", "width": 0.1, "distance": 0.5, "cells": 64}
    (row,) = EXPERIMENT.measure(case)
    assert row["end"] <= row["error"] <= 1e-6


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

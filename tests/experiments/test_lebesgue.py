"""Integrable targets: closed forms, the judge, the figure."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad

from attnforge.experiments.lebesgue import TARGETS, Lebesgue, LebesgueSettings, exact, power_error
from attnforge.experiments.settings import quick
from attnforge.experiments.table import Table

TINY = LebesgueSettings(cells=(4, 8, 16), squares=(2, 3), pairs=(1, 2))


def test_cases_are_distinct_and_flat() -> None:
    for settings in (LebesgueSettings(), quick(LebesgueSettings)):
        cases = Lebesgue().cases(settings)
        assert len({json.dumps(case, sort_keys=True) for case in cases}) == len(cases)
        assert all(isinstance(cell, int | float | str) for case in cases for cell in case.values())


def test_a_pole_is_not_asked_for_in_a_norm_it_is_not_in() -> None:
    assert 2 not in TARGETS["pole"].rates
    assert not [c for c in Lebesgue().cases(TINY) if c["target"] == "pole" and c["norm"] == 2]


def test_closed_forms_by_hand() -> None:
    assert exact("jump", 1, 1) == pytest.approx(2 * (1 / 3) * (2 / 3))
    assert exact("jump", 2, 1) == pytest.approx(np.sqrt(2) / 3)
    assert exact("diagonal", 1, 1) == 0.5
    assert exact("disc", 1, 8) is None
    assert exact("pole", 1, 3) is None


@pytest.mark.parametrize("norm", [1, 2])
def test_closed_form_of_a_power_agrees_with_quadrature(norm: int) -> None:
    breaks, s = np.array([0.0, 0.25, 0.5]), 0.25
    total = 0.0
    for a, b in pairwise(breaks):
        mean = quad(lambda t: t**-s, a, b)[0] / (b - a)
        total += quad(lambda t, mean=mean: abs(t**-s - mean) ** norm, a, b, points=[mean ** (-1 / s)])[0]
    assert power_error(s, breaks, norm) == pytest.approx(total ** (1 / norm), rel=1e-6)


def test_a_jump_is_measured_as_computed_by_hand() -> None:
    [row] = Lebesgue().measure({"kind": "rate", "target": "jump", "norm": 1, "cells": 8, "seed": 0})
    assert row["error"] == pytest.approx(1 / 18, rel=0.01)
    assert row["sup"] == pytest.approx(2 / 3, rel=0.01)


def made_up(power: float = 1.0, sup: float = 0.6, above: float = 1.0, apart: float = 1.0) -> Table:
    """Errors that follow the limit rates, raised to a power."""
    rows: list[dict[str, object]] = [
        {
            "kind": "rate",
            "target": name,
            "norm": norm,
            "cells": cells,
            "error": above * cells ** (power * rate),
            "exact": cells ** (power * rate),
            "sup": sup if target.bounded else None,
        }
        for name, target in TARGETS.items()
        for norm, rate in target.rates.items()
        for cells in (8, 16, 32, 64)
    ]
    rows.append({"kind": "check", "target": "pole", "norm": 1, "cells": 16, "error": 0.5 * apart, "integrated": 0.5})
    return Table.of(rows)  # type: ignore[arg-type]


def refuted(table: Table) -> list[str]:
    return [finding.claim for finding in Lebesgue().findings(table, TINY) if finding.verdict == "refuted"]


def test_laws_that_hold_are_confirmed() -> None:
    assert refuted(made_up()) == []


def test_laws_that_do_not_hold_are_refuted() -> None:
    assert len(refuted(made_up(power=0.5))) == sum(len(target.rates) for target in TARGETS.values())
    assert refuted(made_up(sup=0.1)) == ["the sup error does not fall: it is at least half a jump"]
    assert refuted(made_up(above=1.1)) == ["the head errs no more than the cell averages it is made of"]
    assert refuted(made_up(apart=1.1)) == ["the reported norm is that of the network, integrated by SciPy's quad"]


def test_a_wide_interval_confirms_nothing() -> None:
    rows = [dict(row) for row in made_up().rows]
    for row in rows:
        if row["target"] == "disc":
            row["error"] = {8: 1.0, 16: 0.1, 32: 2.0, 64: 0.3}[row["cells"]]
    assert any("disc" in claim for claim in refuted(Table.of(rows)))


def test_figure_and_note_of_a_tiny_sweep() -> None:
    table = Table.of({**case, **row} for case in Lebesgue().cases(TINY) for row in Lebesgue().measure(case))
    errors = table.where(kind="rate").having("exact")
    assert np.all(errors.numbers("error") <= 1.01 * errors.numbers("exact"))
    figure = Lebesgue().figures(table, TINY)["lebesgue"]
    assert [axes.get_title() for axes in figure.axes] == ["L1", "L2", "sup"]
    [note] = Lebesgue().notes(table, TINY)
    assert note.count("infinite") == 3
    assert Lebesgue().findings(table, TINY)[-1].verdict == "confirmed"

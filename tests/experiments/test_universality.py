"""Universal constructions: targets, bumps, the judge, the figures."""

from __future__ import annotations

import json

import numpy as np
import pytest

from attnforge.experiments import universality
from attnforge.experiments.settings import quick
from attnforge.experiments.table import Table
from attnforge.experiments.universality import FUNCTIONS, HARD, LIPSCHITZ, TUNED, Universality, UniversalitySettings


def test_cases_are_distinct_and_flat() -> None:
    for settings in (UniversalitySettings(), quick(UniversalitySettings)):
        cases = Universality().cases(settings)
        assert len({json.dumps(case, sort_keys=True) for case in cases}) == len(cases)
        assert all(isinstance(cell, int | float | str) for case in cases for cell in case.values())


@pytest.mark.parametrize("name", ["wave", "franke", "kink"])
def test_constants_bound_the_slopes(name: str) -> None:
    side = np.linspace(0, 1, 401)
    values = FUNCTIONS[name](np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1))
    slopes = [np.abs(np.diff(values, axis=axis)).max() / side[1] for axis in (0, 1)]
    assert max(slopes) <= LIPSCHITZ[name]
    diagonal = np.abs(values[1:, 1:] - values[:-1, :-1]).max() / side[1]
    assert diagonal <= LIPSCHITZ[name]


def test_hard_cells_err_by_half_a_step_when_sorting() -> None:
    case = {"kind": "rate", "construction": "max_affine, hard", "target": "sort", "grid": 4, "seed": 0}
    [row] = Universality().measure(case)
    assert row["error"] == pytest.approx(1 / 8, rel=1e-3)
    assert row["error"] <= row["bound"]


def test_cross_attention_computes_the_same_function() -> None:
    joint = universality.built("cross_attention, hard", "kink", 4)
    plain = universality.built("max_affine, hard", "kink", 4)
    points = np.random.default_rng(0).uniform(size=(50, 2))
    np.testing.assert_allclose(joint(points[:, :1], points[:, 1:]), plain(points), atol=1e-9)


def test_a_bump_is_a_cross_and_its_weight_a_spike() -> None:
    [row] = Universality().measure({"kind": "bump", "grid": 8})
    assert row["least_inside"] == pytest.approx(1)
    assert row["largest_outside"] == pytest.approx(0, abs=1e-9)
    assert (row["bump_centre"], row["bump_same_row"]) == (pytest.approx(2), pytest.approx(1))
    assert row["bump_elsewhere"] == pytest.approx(0, abs=1e-9)
    assert row["weight_centre"] > 0.99
    assert row["weight_same_row"] < 1e-6


def made_up(
    hard: float = -1.0, tuned: float = -2.0, bump: float = 1.0, weight: float = 0.0, gain: float = 0.5
) -> Table:
    rows: list[dict[str, object]] = [
        {
            "kind": "rate",
            "construction": name,
            "target": target,
            "grid": grid,
            "keys": grid**2,
            "error": float(grid) ** (hard if name in HARD or target in universality.KINKED else tuned),
            "bound": 10.0,
        }
        for name in (*HARD, *TUNED)
        for target in universality.TARGETS
        if target != "sort" or not name.startswith("cross")
        for grid in (4, 8, 16, 32)
    ]
    rows.append(
        {"kind": "bump", "grid": 8, "least_inside": 1.0, "largest_outside": 0.0, "bump_centre": 2.0}
        | {"bump_same_row": bump, "bump_elsewhere": 0.0}
        | {"weight_centre": 1.0, "weight_same_row": weight, "weight_elsewhere": 0.0}
    )
    errors = {"adaptive": gain, "uniform": 1.0}
    rows += [{"kind": "cells", "construction": name, "grid": 8, "error": error} for name, error in errors.items()]
    return Table.of(rows)  # type: ignore[arg-type]


def refuted(table: Table) -> list[str]:
    found = Universality().findings(table, UniversalitySettings())
    return [finding.claim for finding in found if finding.verdict == "refuted"]


def test_laws_that_hold_are_confirmed() -> None:
    assert refuted(made_up(bump=0.0)) == []


def test_laws_that_do_not_hold_are_refuted() -> None:
    assert refuted(made_up()) == ["two_layer: layer 1's bump R_v vanishes away from its centre"]
    slow = refuted(made_up(hard=-0.5, bump=0.0))
    assert len(slow) == len(HARD) + len(TUNED)
    assert refuted(made_up(tuned=-1.0, bump=0.0)) == [f"{name}, smooth targets: error O(1/G^2)" for name in TUNED]
    assert "spike of it" in refuted(made_up(bump=0.0, weight=0.5))[0]
    assert "adaptive" in refuted(made_up(bump=0.0, gain=2.0))[0]


def test_figures_and_notes() -> None:
    table = made_up()
    figures = Universality().figures(table, UniversalitySettings())
    assert sorted(figures) == ["universality-bump", "universality-rates"]
    assert len(figures["universality-rates"].axes) == 4
    [note] = Universality().notes(table, UniversalitySettings())
    assert note.count("\n") == 1 + 4 * 4 + 2 * 4 - 2

import math
from typing import Any

import numpy as np
import pytest

from attnforge.experiments.dimension import (
    TARGETS,
    Dimension,
    DimensionSettings,
    base_of,
    cells_an_axis,
    lipschitz,
    misfits,
    target,
)
from attnforge.experiments.settings import quick
from attnforge.experiments.table import Table

STEP = 1e-6


def case(construction: str, target: str, d: int, tol: float, cells: int = 1000) -> dict[str, Any]:
    found = {"target": target, "construction": construction, "d": d, "tol": tol}
    return found | {"seed": 0, "cells": cells, "points": 500}


def rows(growth: dict[str, Any]) -> Table:
    """Keys by construction as functions of d, for all targets; errors half of what is allowed."""
    found = []
    for name in TARGETS:
        for construction, keys in growth.items():
            if construction in ("additive", "ridge") and construction != name:
                continue
            for d in range(5 if construction == "sparse grid" else 2, 11):
                cells = {"keys": keys(d), "parameters": d * keys(d), "built": True, "error": 5e-3, "bound": 1e-2}
                found.append({"target": name, "construction": construction, "d": d, "tol": 1e-2} | cells)
    return Table.of(found)


GROWTH: dict[str, Any] = {
    "hard cells": lambda d: 50**d,
    "two layers": lambda d: 50**d + 100 * d,
    "tensor grid": lambda d: 3**d,
    "sparse grid": lambda d: d**3,
    "additive": lambda d: 6 * d,
    "ridge": lambda d: 8,
}


def verdicts(table: Table) -> dict[str, str]:
    return {each.claim: each.verdict for each in Dimension().findings(table, DimensionSettings())}


@pytest.mark.parametrize("settings", [DimensionSettings(), quick(DimensionSettings)])
def test_cases_are_distinct_and_plain(settings: DimensionSettings) -> None:
    cases = Dimension().cases(settings)
    assert len({tuple(sorted(each.items())) for each in cases}) == len(cases)
    assert all(isinstance(cell, str | int | float) for each in cases for cell in each.values())


def test_constructions_get_the_targets_they_are_made_for() -> None:
    pairs = {(each["construction"], each["target"]) for each in Dimension().cases(DimensionSettings())}
    assert {pair for pair in pairs if pair[0] in ("additive", "ridge")} == {
        ("additive", "additive"),
        ("ridge", "ridge"),
    }


def test_targets_by_hand() -> None:
    x = np.array([[0.5, 1.0, 0.0]])
    assert target("gaussian", x)[0] == pytest.approx(math.exp(-0.5))
    assert target("decaying", x)[0] == pytest.approx(math.exp(-1 / 4 - 1 / 9))
    assert target("additive", x)[0] == pytest.approx(math.sin(2.5) + math.sin(5) + math.sin(3))
    assert target("ridge", x)[0] == pytest.approx(math.sin(8 * (0.5 - 1.0) / 3))


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("d", [1, 2, 5, 9])
def test_lipschitz_constants_bound_the_gradients_and_not_by_much(name: str, d: int) -> None:
    x = np.random.default_rng(d).random((20_000, d))
    moved = x[:, None, :] + STEP * np.eye(d)
    slopes = np.abs((target(name, moved) - target(name, x)[:, None]) / STEP).sum(axis=-1).max()
    assert slopes <= lipschitz(name, d) * (1 + 1e-4)
    assert slopes >= 0.4 * lipschitz(name, d)


def test_cells_keep_the_tolerance_by_the_theorem() -> None:
    for tol in (0.1, 0.03):
        count = cells_an_axis("additive", 2, tol)
        assert lipschitz("additive", 2) / (2 * count) <= tol * (1 + 1e-9) < lipschitz("additive", 2) / (2 * (count - 1))


@pytest.mark.parametrize("construction", ["hard cells", "two layers"])
def test_counted_is_what_is_built(construction: str) -> None:
    (built,) = Dimension().measure(case(construction, "gaussian", 2, 0.1))
    (counted,) = Dimension().measure(case(construction, "gaussian", 2, 0.1, cells=1))
    assert built["built"]
    assert not counted["built"]
    assert built["keys"] == counted["keys"]
    assert 0 < float(built["error"] or 0) <= float(built["bound"] or 0) <= 0.1 * (1 + 1e-9)
    assert counted["error"] is None
    assert counted["why"] == f"not built: would need {counted['keys']} keys"


def test_hard_cells_are_a_power() -> None:
    (row,) = Dimension().measure(case("hard cells", "ridge", 10, 1e-4))
    assert row["keys"] == pytest.approx(40_000.0**10)
    assert isinstance(row["keys"], float)


def test_structure_is_used() -> None:
    (sums,) = Dimension().measure(case("additive", "additive", 6, 1e-2))
    (form,) = Dimension().measure(case("ridge", "ridge", 6, 1e-2))
    assert sums["heads"] == 6
    assert float(sums["error"] or 1) <= 1e-2
    assert form["heads"] == 1
    assert float(form["error"] or 1) <= 1e-2
    assert sums["bound"] is None  # measured, not proved


def test_refusals_are_told() -> None:
    (row,) = Dimension().measure(case("tensor grid", "gaussian", 8, 1e-2))
    assert row["keys"] is None
    assert not row["built"]
    assert "values of f" in str(row["why"])


def test_growth() -> None:
    d = np.arange(1, 9)
    assert base_of(d, 5 * 2.5**d).value == pytest.approx(2.5)
    power, exponential = misfits((d, 4 * d**3), (d, 7 * d))
    assert power < 1e-20 < exponential
    assert misfits((d, 7.0**d)) == pytest.approx(misfits((d, 2 * 7.0**d)), abs=1e-12)
    assert misfits((d, 7.0**d))[1] < 1e-20 < misfits((d, 7.0**d))[0]


def test_few_numbers_of_inputs_are_not_judged() -> None:
    table = rows(GROWTH | {"sparse grid": lambda d: 3**d})
    few = Table.of(row for row in table.rows if row["construction"] != "sparse grid" or int(row["d"]) < 8)
    for each in Dimension().findings(few, DimensionSettings()):
        assert (each.verdict == "measured") == each.claim.startswith("sparse grid")
    none = Table.of(row for row in table.rows if row["construction"] != "sparse grid")
    assert [each.verdict for each in Dimension().findings(none, DimensionSettings())].count("measured") == 4


def test_claims_that_hold_are_confirmed() -> None:
    found = verdicts(rows(GROWTH))
    assert len(found) == 11
    assert set(found.values()) == {"confirmed"}


@pytest.mark.parametrize(
    ("claim", "construction", "keys"),
    [
        ("hard cells and two layers", "hard cells", lambda d: d**2),
        ("product grid, fitted, gaussian", "tensor grid", lambda d: d**2),
        ("sums of terms of one input", "additive", lambda d: d**2),
        ("functions of one linear form", "ridge", lambda d: d),
        ("sparse grid, gaussian", "sparse grid", lambda d: 3**d),
    ],
)
def test_claims_that_fail_are_refuted(claim: str, construction: str, keys: Any) -> None:
    (found,) = [each for name, each in verdicts(rows(GROWTH | {construction: keys})).items() if name.startswith(claim)]
    assert found == "refuted"


def test_errors_above_the_tolerance_are_seen() -> None:
    found = verdicts(Table.of(row | {"error": 0.02} for row in rows(GROWTH).rows))
    assert found["every network built keeps its tolerance at fresh points"] == "refuted"
    assert found["no error above its certified bound"] == "refuted"


def test_figures_and_notes() -> None:
    table = Table.of([*rows(GROWTH).rows, {"target": "ridge", "construction": "tensor grid", "d": 20, "tol": 1e-2}])
    figures = Dimension().figures(table, DimensionSettings())
    assert list(figures) == ["dimension", "dimension-tolerances"]
    for figure in figures.values():
        figure.draw_without_rendering()
    said, counts = Dimension().notes(table, DimensionSettings())
    assert said.startswith("Keys for tol = 0.01")
    assert "| gaussian | tensor grid | 9 | 243 | 6,561 | 59,049 |  |" in counts
    assert "| ridge | tensor grid | 9 | 243 | 6,561 | 59,049 | *refused* |" in counts


def test_what_was_only_counted_is_in_brackets() -> None:
    table = Table.of(row | {"built": row["construction"] != "hard cells"} for row in rows(GROWTH).rows)
    counts = Dimension().notes(table, DimensionSettings())[1]
    assert "| gaussian | hard cells | (2,500) |" in counts

from typing import Any

import pytest

from attnforge.experiments.dimension.networks import cells_an_axis, measured
from attnforge.experiments.dimension.targets import lipschitz


def case(construction: str, target: str, d: int, tol: float, cells: int = 1000) -> dict[str, Any]:
    found = {"target": target, "construction": construction, "d": d, "tol": tol}
    return found | {"seed": 0, "cells": cells, "points": 500}


def test_cells_keep_the_tolerance_by_the_theorem() -> None:
    for tol in (0.1, 0.03):
        count = cells_an_axis("additive", 2, tol)
        assert lipschitz("additive", 2) / (2 * count) <= tol * (1 + 1e-9) < lipschitz("additive", 2) / (2 * (count - 1))


@pytest.mark.parametrize("construction", ["hard cells", "two layers"])
def test_counted_is_what_is_built(construction: str) -> None:
    built = measured(case(construction, "gaussian", 2, 0.1))
    counted = measured(case(construction, "gaussian", 2, 0.1, cells=1))
    assert built["built"]
    assert not counted["built"]
    assert built["keys"] == counted["keys"]
    assert 0 < float(built["error"] or 0) <= float(built["bound"] or 0) <= 0.1 * (1 + 1e-9)
    assert counted["error"] is None
    assert counted["why"] == f"not built: would need {counted['keys']} keys"


def test_hard_cells_are_a_power() -> None:
    row = measured(case("hard cells", "ridge", 10, 1e-4))
    assert row["keys"] == pytest.approx(40_000.0**10)
    assert isinstance(row["keys"], float)


def test_structure_is_used() -> None:
    sums = measured(case("additive", "additive", 6, 1e-2))
    form = measured(case("ridge", "ridge", 6, 1e-2))
    assert sums["heads"] == 6
    assert float(sums["error"] or 1) <= 1e-2
    assert form["heads"] == 1
    assert float(form["error"] or 1) <= 1e-2
    assert sums["bound"] is None  # measured, not proved


def test_refusals_are_told() -> None:
    row = measured(case("tensor grid", "gaussian", 8, 1e-2))
    assert row["keys"] is None
    assert not row["built"]
    assert "values of f" in str(row["why"])

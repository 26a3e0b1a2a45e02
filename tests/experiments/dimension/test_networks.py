import math
from typing import Any

import numpy as np
import pytest

from attnforge.experiments.dimension.networks import TARGETS, cells_an_axis, lipschitz, measured, target

STEP = 1e-6


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

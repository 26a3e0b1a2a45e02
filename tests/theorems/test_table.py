"""The head through a table: its weights are the fit's, on grids and among scattered points."""

import numpy as np
import pytest

from attnforge.errors import TargetError
from attnforge.targets import Box, Formula
from attnforge.targets.table import Table
from attnforge.theorems import table as module
from attnforge.theorems.registry import CONSTRUCTIONS
from attnforge.theorems.table import TableHead
from tests.laws.cases import changed, with_head

RNG = np.random.default_rng(0)
POINTS = RNG.uniform(0, 2, size=(150, 2))
SCATTERED = Table(POINTS, np.sin(POINTS[:, 0]) * POINTS[:, 1])
LINE = np.linspace(0, 1, 12)
GRID = Table.from_grid([LINE, LINE], np.add.outer(LINE**2, np.sin(3 * LINE)))


def run(network, points: np.ndarray) -> np.ndarray:
    return network(points[:, None, :])[:, 0]


@pytest.mark.parametrize("table", [SCATTERED, GRID], ids=["scattered", "grid"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_network_meets_the_table(table: Table, dtype: str) -> None:
    theorem = TableHead()
    plan = theorem.size(table, 1e-3, dtype)
    network = theorem.build(table, plan)
    missed = np.abs(run(network, table.points)[:, 0] - table.table_values).max()
    assert missed <= 1e-3 * (1 + 1e-6)
    assert network.construction == "table"
    (head,) = network.heads
    assert theorem.cost(table, plan).anchors == head.memory_size == len(head.claims.positions)
    assert head.claims.positions.shape[1] == 2
    assert theorem.bound(table, plan) == {"fit": np.inf}


def test_a_moved_key_breaks_it() -> None:
    theorem = TableHead()
    network = theorem.build(SCATTERED, theorem.size(SCATTERED, 1e-3, "float64"))
    keys = network.heads[0].memory_keys
    network = with_head(network, memory_keys=changed(keys, (3, 0), keys[3, 0] + 0.1))
    assert np.abs(run(network, SCATTERED.points)[:, 0] - SCATTERED.table_values).max() > 1e-3


def test_the_scattered_head_is_the_fit() -> None:
    theorem = TableHead()
    plan = theorem.size(SCATTERED, 1e-2, "float64")
    assert plan.scattered is not None
    fresh = RNG.uniform(SCATTERED.domain.lower, SCATTERED.domain.upper, size=(100, 2))
    assert np.allclose(run(theorem.build(SCATTERED, plan), fresh), plan.scattered.at(fresh), atol=1e-10)
    assert "scattered points" in plan.reason
    assert "four fifths of them misses the others by up to" in plan.reason


def test_offsets_a_dtype_cannot_hold_are_split() -> None:
    theorem = TableHead()
    plans = {dtype: theorem.size(SCATTERED, 0.1, dtype) for dtype in ("float64", "bfloat16")}
    widths = {dtype: theorem.build(SCATTERED, plan).heads[0].query.shape[1] for dtype, plan in plans.items()}
    assert widths == {"float64": 3, "bfloat16": 4}


def test_grids_say_how_near_the_spline_they_are() -> None:
    reason = TableHead().size(GRID, 1e-3, "float64").reason
    assert "anchors with values fitted to 12 x 12 data; between the data within" in reason


def test_many_short_axes_become_scattered_points(monkeypatch: pytest.MonkeyPatch) -> None:
    corners = Table.from_grid([[0, 1]] * 3, np.arange(8.0).reshape(2, 2, 2))
    assert TableHead().size(corners, 1e-3, "float64").scattered is None
    monkeypatch.setattr(module, "MANY", 1)
    monkeypatch.setattr(module, "LAVISH", 1)
    assert TableHead().size(corners, 1e-3, "float64").scattered is not None


def test_tables_of_few_inputs_are_accepted_and_functions_by_name_only() -> None:
    theorem, formula = TableHead(), Formula("x", Box([0.0], [1.0]), ("x",))
    assert theorem.offers(formula) == "the target is not a table"
    assert theorem.accepts(formula) is None
    assert theorem.accepts(GRID) is None
    assert theorem.accepts(Table(RNG.normal(size=(30, 9)), np.arange(30))) is None
    assert theorem.accepts(Formula("x + y", Box(0, 1, shape=(9,)), tuple("abcdfgkxy"))) == "9 inputs are more than 8"


def test_a_function_is_listed_on_a_grid_as_fine_as_it_takes() -> None:
    wave = Formula("sin(8*x)", Box([0.0], [1.0]))
    coarse, fine = (TableHead().size(wave, tol, "float64") for tol in (1e-1, 1e-6))
    assert "9 data" in coarse.reason
    assert "33 data" in fine.reason
    x = RNG.uniform(0, 1, size=(500, 1))
    assert np.abs(run(TableHead().build(wave, fine), x)[:, 0] - np.sin(8 * x[:, 0])).max() <= 1e-6


def test_no_other_construction_takes_a_table() -> None:
    def refuses(entry) -> bool:
        try:
            return entry.accepts(GRID) is not None
        except TargetError:
            return True

    assert [entry.name for entry in CONSTRUCTIONS if not refuses(entry)] == ["table"]

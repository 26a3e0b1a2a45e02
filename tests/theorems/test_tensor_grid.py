"""The tensor grid construction: what it takes, what it reaches, what it says."""

from __future__ import annotations

import math

import numpy as np
import pytest

from attnforge.errors import RefusalError, TargetError, ToleranceError
from attnforge.targets import Box, Formula, Function
from attnforge.theorems.tensor_grid import TensorGrid

GRID = TensorGrid()


def formula(text, **ends):
    lower, upper = zip(*ends.values(), strict=True)
    return Formula(text, Box(lower, upper), tuple(ends))


def error_of(target, plan):
    network = GRID.build(target, plan)
    points = np.random.default_rng(2).uniform(
        target.domain.lower, target.domain.upper, size=(3000, len(plan.heads[0].axes))
    )
    wanted = np.asarray(target.values(points)).reshape(len(points), -1)
    return float(np.abs(network(points[:, None])[:, 0] - wanted).max())


@pytest.mark.parametrize(
    ("target", "tol"),
    [
        (formula("sin(8*x)", x=(-1, 1)), 1e-10),
        (formula("sin(8*x) + abs(x)", x=(-1, 1)), 1e-6),
        (formula("exp(x*y)", x=(0, 1), y=(-2, 1)), 1e-8),
        (Function(lambda x: np.stack([x[..., 0] * x[..., 1], x[..., 0]], axis=-1), Box(-1, 1, shape=(2,))), 1e-7),
    ],
    ids=["analytic", "kink", "two inputs", "two outputs"],
)
def test_reaches_its_tolerance(target, tol):
    plan = GRID.size(target, tol, "float64")
    assert error_of(target, plan) <= tol
    cost = GRID.cost(target, plan)
    assert cost.anchors == plan.heads[0].anchors
    assert GRID.bound(target, plan) == {"fit": math.inf}


def test_two_builds_are_the_same_to_the_bit():
    target = formula("exp(x*y)", x=(0, 1), y=(-2, 1))
    first, second = (GRID.build(target, GRID.size(target, 1e-6, "float64")).heads[0] for _ in range(2))
    np.testing.assert_array_equal(first.memory_values, second.memory_values)
    np.testing.assert_array_equal(first.memory_keys, second.memory_keys)
    np.testing.assert_array_equal(first.query, second.query)


def test_more_anchors_are_better():
    target = formula("sin(20*x)*cos(10*y)", x=(0, 1), y=(0, 1))
    errors = [error_of(target, GRID.with_counts(target, [n, n], "float64")) for n in (3, 6, 9)]
    assert errors[0] > 10 * errors[1] > 100 * errors[2]


def test_the_reason_names_kinks_by_their_input():
    assert "kink found at y = 0.25" in GRID.size(formula("x*abs(y - 0.25)", x=(0, 1), y=(0, 1)), 1e-3, "float64").reason
    unnamed = Function(lambda x: np.abs(x[..., 1] - 0.25), Box(0, 1, shape=(2,)))
    reason = GRID.size(unnamed, 1e-3, "float64").reason
    assert "kink found at x2 = 0.25" in reason
    assert reason.startswith("1 x ")
    assert "graded" in reason
    assert "kink" not in GRID.size(formula("sin(8*x)", x=(-1, 1)), 1e-3, "float64").reason


def test_what_is_not_taken():
    many = Function(lambda x: x.sum(axis=-1), Box(0, 1, shape=(9,)))
    assert GRID.accepts(many) == "9 inputs are more than 8"
    assert GRID.accepts(formula("x", x=(0, 1))) is None
    tokens = Function(lambda x: x[..., 0], Box(0, 1, shape=(3, 2)))
    assert GRID.accepts(tokens) == "the target is not a function on a box"


def test_refusals_name_place_and_remedy():
    with pytest.raises(ToleranceError, match=r"rounding.*Ask for tol >= "):
        GRID.size(formula("sin(8*x)", x=(-1, 1)), 1e-18, "float64")
    with pytest.raises(TargetError, match=r"jump of 1 at 0\.5 "):
        GRID.size(Function(lambda x: 1.0 * (x[..., 0] > 0.5), Box(0, 1, shape=(1,))), 1e-2, "float64")
    with pytest.raises(RefusalError, match="rough away from the axes"):
        GRID.size(formula("abs(x + y)", x=(-1, 1), y=(-1, 1)), 1e-4, "float64")

"""The construction: what it accepts, that its network is the sum of its heads, and what it says of itself."""

from __future__ import annotations

import math

import numpy as np
import pytest

from attnforge.anchors.combination import combine
from attnforge.errors import RefusalError
from attnforge.network import apply
from attnforge.targets import Box, Function
from attnforge.theorems.max_affine import flat_values
from attnforge.theorems.sparse_grid import SparseGrid
from tests.laws.cases import with_head

GRID = SparseGrid()


def decay(x):
    return np.exp(-x.sum(axis=-1) / 3)


def target(f=decay, inputs=6, lower=0.0, upper=1.0):
    return Function(f, Box(lower, upper, shape=(inputs,)))


@pytest.fixture(scope="module")
def six():
    asked = target()
    return asked, GRID.size(asked, 1e-4, "float64")


def test_the_network_is_the_sum_of_its_heads(six):
    asked, plan = six
    network = GRID.build(asked, plan)
    found = combine(flat_values(asked), asked.domain.lower, asked.domain.upper, 1e-4)
    x = np.random.default_rng(8).random((300, 6))
    assert apply(network, x[:, None])[:, 0] == pytest.approx(found.at(x), abs=1e-10)


def test_the_error_is_within_the_tolerance(six):
    asked, plan = six
    x = np.random.default_rng(9).random((500, 6))
    assert np.abs(apply(GRID.build(asked, plan), x[:, None]).ravel() - decay(x)).max() <= 1e-4


def test_a_value_disturbed_is_seen(six):
    asked, plan = six
    x = np.random.default_rng(9).random((500, 6))
    network = GRID.build(asked, plan)
    network = with_head(network, memory_values=network.heads[0].memory_values[::-1])
    wrong = np.abs(apply(network, x[:, None]).ravel() - decay(x)).max()
    assert wrong > 1e-4


def test_cost_and_words_count_the_anchors(six):
    asked, plan = six
    anchors = sum(head.anchors for head in plan.heads)
    assert GRID.cost(asked, plan).anchors == anchors < 7**6
    assert plan.reason.startswith(f"{len(plan.heads)} sparse grids of {anchors:,} anchors in all, the largest ")
    assert "values of f" in plan.reason


def test_two_builds_are_equal(six):
    asked, plan = six
    again = GRID.size(asked, 1e-4, "float64")
    pairs = zip(GRID.build(asked, plan).heads, GRID.build(asked, again).heads, strict=True)
    assert all(np.array_equal(a.memory_values, b.memory_values) for a, b in pairs)


def test_nothing_is_proved(six):
    assert GRID.bound(*six) == {"fit": math.inf}


def test_several_outputs():
    asked = target(lambda x: np.stack([np.sin(x.sum(axis=-1)), x[..., 0] * x[..., 2]], axis=-1), 3, -1.0, 1.0)
    plan = GRID.size(asked, 1e-5, "float64")
    x = np.random.default_rng(0).uniform(-1, 1, size=(200, 3))
    assert apply(GRID.build(asked, plan), x[:, None])[:, 0] == pytest.approx(asked.values(x), abs=1e-5)


def test_a_constant_is_one_grid_of_one_anchor():
    asked = target(lambda x: np.full(x.shape[:-1], 2.5), 3)
    plan = GRID.size(asked, 1e-6, "float64")
    assert plan.reason.startswith("one grid of 1 anchors")
    assert apply(GRID.build(asked, plan), np.zeros((1, 1, 3))).tolist() == [[[2.5]]]


@pytest.mark.parametrize("inputs", [5, 12])
def test_five_to_twelve_inputs_are_accepted(inputs):
    assert GRID.accepts(target(inputs=inputs)) is None


def test_other_targets_are_not():
    assert GRID.accepts(target(inputs=4)) == "fewer than 5 inputs need no sparse grid"
    assert GRID.accepts(target(inputs=13)) == "13 inputs are more than 12"
    sequence = Function(lambda x: x, Box(0, 1, shape=(3, 2)))
    assert GRID.accepts(sequence) == "the target is not a function on a box"


def test_rough_functions_are_refused():
    with pytest.raises(RefusalError, match=r"Sparse grids must reach tol=0\.01"):
        GRID.size(target(lambda x: np.abs(x.sum(axis=-1) - 2.3), 5), 1e-2, "float64")

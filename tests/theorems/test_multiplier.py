"""Products by one head: against 50 digits, for every number of keys and for any interval."""

from __future__ import annotations

import operator

import numpy as np
import pytest
import torch

from attnforge.errors import RefusalError
from attnforge.lemmas.reciprocal import FEWEST, MOST, reciprocal_error
from attnforge.targets import Box, Formula, TruncatedLinear
from attnforge.theorems.multiplier import Multiplier, MultiplierPlan, multiplier_head
from tests.theorems.registers import exactly, network_of, random_form, reach, run, run_torch

KEYS = range(FEWEST, MOST + 1)
ROUNDINGS = 16 * 2.0**-53
INTERVALS = [
    (-1.0, 1.0), (0.0, 1.0), (1.0, 2.0), (-2.0, -1.0), (-3.0, 0.5), (2.0, 1e6), (-1e-3, 1e9), (1e150, 3e150),
    (-1e-150, 2e-150), (1.0, 1.0 + 2.0**-52), (-7.25, -7.0), (3.0, 3.0), (-5e-300, -5e-300), (1e-300, 1e-299),
]  # fmt: skip


def largest(low: float, high: float) -> float:
    """4 r, the largest y r: what the error is relative to."""
    return 4 * max(high / 2 - low / 2, abs(low / 2 + high / 2) / 3)


def products(low: float, high: float, count: int = 300) -> np.ndarray:
    rng = np.random.default_rng(0)
    first = np.concatenate([[low, high], rng.uniform(low, high, size=count)]).clip(low, high)
    return np.stack([first, rng.uniform(-1, 1, size=len(first))], axis=1)


def x_times_y(low: float, high: float, keys: int):
    _, x, y, _ = np.eye(4)
    return network_of(multiplier_head(x, y, low, high, 3, keys))


@pytest.mark.parametrize("keys", KEYS)
def test_random_forms_are_multiplied(keys):
    rng = np.random.default_rng(keys)
    for inputs in (1, 2, 5):
        u, v, points = random_form(rng, inputs), random_form(rng, inputs), rng.uniform(-1, 1, size=(200, inputs))
        low, high = reach(u)
        found = run(network_of(multiplier_head(u, v, low, high, inputs + 1, keys)), points)
        error = np.abs(found - exactly(operator.mul, points, u, v)).max()
        assert error <= largest(low, high) * np.abs(v).sum() * (reciprocal_error(keys) + ROUNDINGS)


@pytest.mark.parametrize("keys", [2, 5, 7, 9])
@pytest.mark.parametrize(("low", "high"), INTERVALS)
def test_any_interval_will_do(low, high, keys):
    points, (_, x, y, _) = products(low, high), np.eye(4)
    error = np.abs(run(x_times_y(low, high, keys), points) - exactly(operator.mul, points, x, y))
    allowed = largest(low, high) * (reciprocal_error(keys) + ROUNDINGS) * np.abs(points[:, 1])
    assert np.all(error <= allowed + 5e-323)


@pytest.mark.parametrize(("keys", "most"), [(5, 2.1e-8), (7, 6.9e-12), (9, 4e-15)])
def test_as_precise_as_stated_and_no_more(keys, most):
    points, (_, x, y, _) = products(-1.0, 1.0, 2000), np.eye(4)
    error = np.abs(run(x_times_y(-1.0, 1.0, keys), points) - exactly(operator.mul, points, x, y))
    relative = (error / (4 * np.abs(points[:, 1]))).max()
    assert most / 3 < relative <= most


@pytest.mark.parametrize(("low", "high"), [(-1.0, 1.0), (1.0, 2.0), (-2.0, -1.0), (0.0, 1.0)])
def test_float32_is_right_to_its_roundings(low, high):
    points = products(low, high, 2000).astype(np.float32).astype(np.float64)
    found = run_torch(x_times_y(low, high, 9), points, torch.float32)
    relative = np.abs(found - points.prod(axis=1)) / (largest(low, high) * np.abs(points[:, 1]))
    assert relative.max() <= 5e-7


@pytest.mark.parametrize("keys", [5, 9])
def test_numpy_and_torch_agree(keys):
    points, network = products(-3.0, 0.5), x_times_y(-3.0, 0.5, keys)
    apart = np.abs(run(network, points) - run_torch(network, points, torch.float64))
    assert apart.max() <= ROUNDINGS * largest(-3.0, 0.5)


@pytest.mark.parametrize(("low", "high"), [(1.0, 2.0), (-2.0, -1.0), (6.0, 6.5)])
def test_within_a_factor_of_two_nothing_linear_is_left(low, high):
    _, form = multiplier_head(*np.eye(4)[1:3], low, high, 3)
    assert np.abs(form).max() <= 2.0**-52 * abs(high)


def test_nothing_is_written_where_a_factor_is_zero():
    head, form = multiplier_head(*np.eye(4)[1:3], 0.0, 0.0, 3)
    assert not head.value.any()
    assert not form.any()


def test_a_sink_that_is_moved_is_seen():
    """The mutation: one score off by 1e-6."""
    head, form = multiplier_head(*np.eye(4)[1:3], -1.0, 1.0, 3)
    keys = head.memory_keys.copy()
    keys[0, 1] += 1e-6
    moved = type(head)(**{**vars(head), "memory_keys": keys})
    points = products(-1.0, 1.0)
    assert np.abs(run(network_of((moved, form)), points) - points.prod(axis=1)).max() > 1e-8


@pytest.mark.parametrize(
    ("low", "high", "keys", "match"),
    [
        (1.0, -1.0, 9, "lies in an interval"),
        (np.nan, 1.0, 9, "lies in an interval"),
        (0.0, np.inf, 9, "lies in an interval"),
        (-1.7e308, 1.7e308, 9, "must be numbers"),
        (1e-320, 1e-319, 9, "must be numbers"),
        (-1.0, 1.0, 1, "2 to 10"),
        (-1.0, 1.0, 11, "2 to 10"),
    ],
)
def test_what_cannot_be_is_refused(low, high, keys, match):
    with pytest.raises(RefusalError, match=match):
        multiplier_head(*np.eye(4)[1:3], low, high, 3, keys)


MADE = Multiplier()


@pytest.mark.parametrize("text", ["x*y", "y*x"])
def test_the_record_takes_products_of_two_inputs(text):
    target = Formula(text, Box([-1, 2], [3, 5]), ("x", "y"))
    assert MADE.accepts(target) is None
    for tol in (1e-2, 1e-6, 1e-10):
        plan = MADE.size(target, tol, "float64")
        assert sum(MADE.bound(target, plan).values()) <= tol
        assert sum(MADE.bound(target, MultiplierPlan(plan.keys - 1)).values()) > tol
        assert MADE.cost(target, plan).anchors == plan.keys
        points = np.random.default_rng(0).uniform([-1, 2], [3, 5], size=(500, 2))
        error = np.abs(run(MADE.build(target, plan), points) - points.prod(axis=1)).max()
        assert error <= MADE.bound(target, plan)["quadrature"] + 1e-14


@pytest.mark.parametrize("text", ["x*x", "x*y*y", "x*y*2", "x + y", "x*sin(y)", "x^2", "x"])
def test_the_record_refuses_other_formulas(text):
    reason = MADE.accepts(Formula(text, Box([-1, -1], [1, 1]), ("x", "y")))
    assert "product of two inputs" in reason


def test_the_record_refuses_other_targets_and_tolerances():
    assert MADE.accepts(Formula("x*y", Box([-1] * 3, [1] * 3), ("x", "y", "z"))) is not None
    assert MADE.accepts(TruncatedLinear([1.0], 0.0, -1, 1, Box(-1, 1))) is not None
    with pytest.raises(RefusalError, match=r"at most 10 keys.*tol=1e-20"):
        MADE.size(Formula("x*y", Box([-1, -1], [1, 1]), ("x", "y")), 1e-20, "float64")

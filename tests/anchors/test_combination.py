"""Sparse grids of heads: what they reach, that heads add up to the sum, and when they refuse."""

from __future__ import annotations

import numpy as np
import pytest

from attnforge.anchors.binomial import Binomial
from attnforge.anchors.combination import Limits, add_up, combine, heads
from attnforge.anchors.leja import leja, newton
from attnforge.anchors.sparse_sum import SparseSum
from attnforge.anchors.surplus import DEGREES, evaluate
from attnforge.errors import RefusalError, ToleranceError


class Recorded:
    """A function that keeps the points it was asked for."""

    def __init__(self, f):
        self.f, self.asked = f, []

    def __call__(self, points):
        self.asked.append(points)
        return self.f(points).reshape(len(points), -1)

    @property
    def rows(self):
        return np.vstack(self.asked)


def rational(x):
    return 1 / (1 + x.sum(axis=1) / 4)


def gaussian(x):
    return np.exp(-((x - 0.5) ** 2).sum(axis=1))


def column(f):
    return lambda x: f(x)[:, None]


def fresh_error(found, f, inputs):
    """At other points than the construction's own."""
    x = np.random.default_rng(12345).random((2000, inputs))
    x[1000:] = np.where(np.random.default_rng(1).random((1000, inputs)) < 0.4, np.round(x[1000:]), x[1000:])
    return np.abs(found.at(x)[:, 0] - f(x)).max()


@pytest.mark.parametrize(("f", "inputs", "tol", "most"), [(rational, 5, 1e-4, 4_000), (gaussian, 6, 1e-3, 5_000)])
def test_the_tolerance_is_reached_with_few_anchors(f, inputs, tol, most):
    found = combine(column(f), np.zeros(inputs), np.ones(inputs), tol)
    assert found.error <= tol
    assert fresh_error(found, f, inputs) <= tol
    assert found.anchors <= most


def test_every_value_is_computed_once_inside_the_box_and_counted():
    lower, upper = np.array([-1.0, 0.0, 3.0, 0.0]), np.array([1.0, 0.5, 5.0, 1.0])
    f = Recorded(lambda x: np.sin(x.sum(axis=1)))
    found = combine(f, lower, upper, 1e-6)
    assert len(np.unique(f.rows, axis=0)) == len(f.rows) == found.evaluations
    assert ((f.rows >= lower) & (f.rows <= upper)).all()
    assert len(f.asked) < 60  # in batches


def test_heads_add_up_to_the_sum_of_terms():
    rows, lower, upper = Binomial.of_rate(6.0), np.array([0.0, -2.0, 1.0]), np.array([1.0, 2.0, 1.5])
    sums = SparseSum(column(lambda x: np.cos(x.sum(axis=1))), lower, upper, rows, 0)
    for _ in range(8):
        sums.grow(10_000)
    grids = heads(sums, np.ones(len(sums.terms.blocks), dtype=bool))
    x = np.random.default_rng(0).uniform(lower, upper, size=(200, 3))
    z = rows.to_z((2 * x - lower - upper) / (upper - lower))
    basis = np.stack([newton(leja(DEGREES), part).T for part in z.T])
    wanted = evaluate(sums.terms.levels, sums.terms.surpluses, basis)
    assert add_up(grids, x) == pytest.approx(wanted, abs=1e-11)
    assert sum(grid.anchors for grid in grids) < sum(np.prod(2 * sums.terms.blocks + 1, axis=1))


def test_what_was_needed_is_less_than_what_was_looked_at_and_suffices():
    sums = SparseSum(column(gaussian), np.zeros(4), np.ones(4), Binomial.of_rate(6.0), 0)
    while sums.error > 1e-4:
        sums.grow(10_000)
    keep, error = sums.needed(1e-3)
    assert error <= 1e-3
    assert 0 < keep.sum() < len(keep)


def test_a_constant_is_one_anchor():
    found = combine(lambda x: np.full((len(x), 1), 3.0), np.zeros(3), np.ones(3), 1e-9)
    assert found.anchors == 1
    assert found.at(np.zeros((1, 3))).tolist() == [[3.0]]


def test_heads_read_only_the_inputs_that_matter():
    found = combine(lambda x: np.cos(5 * x[:, 3:4]) + x[:, :1] * x[:, 1:2], np.zeros(5), np.ones(5), 1e-6)
    assert {grid.inputs for grid in found.grids} == {(0, 1), (3,)}


def test_several_outputs_share_their_anchors():
    def three(x):
        return np.stack([np.sin(x.sum(axis=1)), 10 * x[:, 0] * x[:, 1], np.ones(len(x))], axis=1)

    found = combine(three, np.zeros(4), np.ones(4), 1e-4)
    x = np.random.default_rng(3).random((500, 4))
    assert np.abs(found.at(x) - three(x)).max() <= 1e-4


def test_an_input_of_one_value_has_no_anchors():
    found = combine(column(lambda x: np.sin(x.sum(axis=1))), np.array([0.0, 1.0, -1.0]), np.ones(3), 1e-6)
    assert all(1 not in grid.inputs for grid in found.grids)


def test_a_dtype_with_few_digits_gets_small_values():
    def f(x):
        return np.cos(3 * x.sum(axis=1, keepdims=True))

    double, single = (combine(f, np.zeros(4), np.ones(4), 1e-3, roundoff=u) for u in (2.0**-53, 2.0**-24))
    assert single.magnitude * 2.0**-24 <= 1e-3 / 4
    assert single.magnitude < double.magnitude


def test_rows_too_gentle_for_the_rounding_are_made_steeper():
    found = combine(column(lambda x: np.cos(20 * x.sum(axis=1))), np.zeros(2), np.ones(2), 1e-3)
    assert fresh_error(found, lambda x: np.cos(20 * x.sum(axis=1)), 2) <= 1e-3


def test_refused_where_rounding_wins():
    with pytest.raises(ToleranceError, match=r"rounding of values must stay below tol=0.001. Got values up to"):
        combine(column(lambda x: np.cos(20 * x.sum(axis=1))), np.zeros(2), np.ones(2), 1e-3, roundoff=2.0**-24)


def test_refused_at_a_kink_before_many_values_are_spent():
    f = Recorded(lambda x: np.abs(x.sum(axis=1) - 2.2))
    with pytest.raises(RefusalError, match=r"must reach tol=0.01. Got .* at best, .* anchors in .* heads, converging"):
        combine(f, np.zeros(5), np.ones(5), 1e-2)
    assert len(f.rows) < 50_000


def test_refused_beyond_the_limits_with_what_they_allow():
    with pytest.raises(RefusalError, match=r"1,000 anchors in 4,000 heads .* Got .* while .* reach 0\.0"):
        combine(column(gaussian), np.zeros(6), np.ones(6), 1e-4, limits=Limits(anchors=1_000))
    with pytest.raises(RefusalError, match=r"with 500 values of f"):
        combine(column(gaussian), np.zeros(6), np.ones(6), 1e-4, limits=Limits(values=500))


@pytest.mark.parametrize("tol", [0.0, -1.0, np.nan, np.inf])
def test_a_tolerance_is_a_positive_number(tol):
    with pytest.raises(ToleranceError, match="`tol` must be positive and finite"):
        combine(column(gaussian), np.zeros(2), np.ones(2), tol)

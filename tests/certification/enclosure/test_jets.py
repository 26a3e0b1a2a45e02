"""Jets: multiplication, composition and inverses, by hand and by law."""

from __future__ import annotations

from math import comb, factorial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnforge.balls import Balls
from attnforge.certification.enclosure.jets import Jets, degrees, exp, exponential, reciprocal


def random_jets(rng, table, cells=3, rad=0.0):
    return Jets(table, rng.normal(size=(len(table), cells)), np.full((len(table), cells), rad))


@pytest.mark.parametrize(("inputs", "degree"), [(1, 5), (2, 4), (3, 3), (4, 2), (0, 3)])
def test_multi_indices_are_counted_and_sorted(inputs, degree):
    table = degrees(inputs, degree)
    assert len(table) == comb(inputs + degree, degree)
    assert (np.diff(table.totals) >= 0).all()
    assert all(table.count(d) == comb(inputs + d, d) for d in range(degree + 1))


def test_a_product_by_hand():
    """(1 + x)(2 + y) = 2 + y + 2 x + x y."""
    table, one, none = degrees(2, 2), np.ones(1), np.zeros(1)
    product = Jets.variable(table, 0, one, none) * Jets.variable(table, 1, 2 * one, none)
    expected = {(0, 0): 2.0, (0, 1): 1.0, (1, 0): 2.0, (1, 1): 1.0}
    assert {a: product.mid[i, 0] for a, i in table.place.items() if product.mid[i, 0]} == expected
    assert product.rad.max() < 1e-14


def test_the_exponential_of_a_sum_has_inverse_factorials():
    table, none = degrees(3, 4), np.zeros(1)
    total = sum((Jets.variable(table, i, none, none) for i in (1, 2)), start=Jets.variable(table, 0, none, none))
    expected = [1 / np.prod([factorial(int(power)) for power in exponent]) for exponent in table.exponents]
    found = exp(total)
    assert (np.abs(found.mid[:, 0] - expected) <= found.rad[:, 0]).all()
    assert found.rad.max() < 1e-13


@given(st.integers(0, 10**6), st.integers(1, 3))
@settings(max_examples=30, deadline=None)
def test_a_jet_times_its_inverse_is_one(seed, inputs):
    jets = random_jets(np.random.default_rng(seed), degrees(inputs, 4))
    jets.mid[0] += np.where(jets.mid[0] < 0, -1.0, 1.0)
    one = jets * reciprocal(jets)
    expected = np.zeros_like(one.mid)
    expected[0] = 1.0
    assert (np.abs(one.mid - expected) <= one.rad).all()


@given(st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_balls_contain_the_products_of_what_they_contain(seed):
    rng, table = np.random.default_rng(seed), degrees(2, 4)
    wide = [random_jets(rng, table, rad=0.3) for _ in range(2)]
    inside = [Jets(table, w.mid + rng.uniform(-0.3, 0.3, w.mid.shape), np.zeros_like(w.rad)) for w in wide]
    outer, inner = wide[0] * wide[1], inside[0] * inside[1]
    assert (np.abs(inner.mid - outer.mid) <= outer.rad + inner.rad).all()
    thinner = wide[0] * inside[1]
    assert (thinner.rad < outer.rad).all()


def test_what_may_vanish_has_no_inverse_and_stays_unknown():
    table = degrees(2, 3)
    jets = Jets.constant(table, np.array([0.5, 2.0]), np.array([0.6, 0.6]))
    found = reciprocal(jets)
    assert found.known.tolist() == [False, True]
    nothing = Jets.constant(table, np.zeros(2), np.zeros(2))
    assert (nothing * found).known.tolist() == [False, True]


def test_the_exponential_of_a_ball_reaches_both_ends():
    found = exponential(Balls(np.array([1.0]), np.array([2.0])))
    assert found.mid[0] - found.rad[0] <= np.exp(-1.0)
    assert found.mid[0] + found.rad[0] >= np.exp(3.0)
    assert found.rad[0] == pytest.approx((np.exp(3.0) - np.exp(-1.0)) / 2)

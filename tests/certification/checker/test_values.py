"""Sums of features: what they are, and what a run may make of them."""

import numpy as np
import pytest
from flint import arb

from attnforge.balls import machine, round_to
from attnforge.certification.checker.search import exactly
from attnforge.certification.checker.space import Form, Space
from attnforge.certification.checker.taylor import ONE, ZERO, Cell
from attnforge.certification.checker.values import Place, Value, combine, constant, is_simple, total


@pytest.fixture
def place():
    with exactly(2):
        yield at("float32")


def at(dtype, low=0.25, high=1.0):
    return Place(Space((low,), (high,)), Cell((low,), (high,), 2), machine(dtype))


def variable(place, off=0.0):
    return Value(place, Form({0: ONE}, ZERO), off)


def test_powers_of_two_and_single_terms_are_exact(place):
    x = variable(place)
    assert combine(place, [x], [1.0]).off == 0.0
    assert combine(place, [x], [2.0]).off == 0.0
    assert combine(place, [x], [0.5]).off <= 2 * 2.0**-126
    assert combine(place, [x], [3.0]).off == pytest.approx(3 * 2.0**-24, rel=1e-5)
    assert combine(place, [constant(place, 4.0)], [0.3]).off <= 2 * 2.0**-126
    assert combine(place, [x], [0.0], 7.0).form.constant == 7
    assert total(place, [x]) is x


def test_every_addition_counts(place):
    x = variable(place)
    assert combine(place, [x, x], [1.0, 1.0]).off == pytest.approx(2 * 2.0**-24, rel=1e-5)
    products, sums = 3 + 1 + 1, 4 + 5  # the larger two of 3, 1 and 1, then all
    assert combine(place, [x, x], [3.0, 1.0], 1.0).off == pytest.approx((products + sums) * 2.0**-24, rel=1e-5)
    assert combine(place, [variable(place, 0.125)], [-2.0]).off == pytest.approx(0.25, rel=1e-6)


def test_what_a_run_can_be_is_carried_through_sums(place):
    """Known to lie in [0, 1] though it may be off by one: twice it, less 1, lies in [-1, 1] and a rounding."""
    model = place.cell.constant(arb(0.5))
    value = Value(place, model, 1.0, arb(0.5, 0.5))
    found = combine(place, [value], [2.0], -1.0)
    assert found.off >= 2.0
    assert found.run.contains(-1)
    assert found.run.contains(1)
    assert 1.0 < float(abs(found.run).upper()) < 1 + 1e-6


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_no_run_is_further_off(dtype):
    """Weighted sums in the dtype, in random orders, against exact ones."""
    rng = np.random.default_rng(1)
    with exactly(2):
        for _ in range(60):
            place, count = at(dtype, 0.0, 1.0), int(rng.integers(1, 7))
            weights = round_to(rng.normal(size=count) * 10.0 ** rng.integers(-4, 4), dtype)
            weights = np.where(rng.random(count) < 0.3, 2.0 ** rng.integers(-14, 4, count), weights)
            shift = float(round_to(rng.normal(size=1), dtype)[0]) if rng.random() < 0.5 else 0.0
            found = combine(place, [variable(place)] * count, weights.tolist(), shift)
            for x in round_to(rng.uniform(0, 1, 20) ** 3, dtype):
                run = np.float64(0.0)
                for k in rng.permutation(count):
                    run = round_to(run + round_to(np.array(weights[k] * x), dtype), dtype)
                run = round_to(run + shift, dtype)
                exact = sum((arb(w) * arb(float(x)) for w in weights.tolist()), start=arb(shift))
                assert abs(arb(float(run)) - exact) <= arb(found.off)


def test_small_products_underflow_in_float16():
    """0.3 * 2^-14 is no float16 number: a power of two is not always exact."""
    with exactly(2):
        place = at("float16")
        x = float(round_to(np.array([0.3]), "float16")[0])
        lost = abs(float(round_to(np.array([x * 2.0**-14]), "float16")[0]) - x * 2.0**-14)
        assert 0 < lost <= combine(place, [variable(place)], [2.0**-14]).off


def test_what_may_overflow_is_not_known():
    with exactly(2):
        place = at("float16")
        large = combine(place, [variable(place)], [60000.0])
        beyond = combine(place, [large], [2.0])
        assert large.off < np.inf
        assert beyond.off == np.inf
        assert not beyond.run.is_finite()
        assert combine(place, [beyond], [0.0]).off == np.inf  # infinity times zero is no zero
        assert combine(place, [variable(place)] * 2, [60000.0, -60000.0]).off == np.inf  # before the sum is small
        assert Value(place, Form({0: ONE}, ZERO), float("nan")).off == np.inf


def test_simple_constants_are_zero_or_powers_of_two(place):
    assert is_simple(constant(place, 0.0))
    assert is_simple(constant(place, -0.25))
    assert not is_simple(constant(place, 3.0))
    assert not is_simple(variable(place))
    assert not is_simple(Value(place, Form({}, arb(2)), 1e-9))


def test_the_run_lies_in_what_is_told_of_it(place):
    value = Value(place, Form({0: ONE}, ZERO), 0.5, arb(0.75, 0.25))
    assert value.run.contains(0.5)
    assert not value.run.contains(0.25)
    assert value.size >= 1.0

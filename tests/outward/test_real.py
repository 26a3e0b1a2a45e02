"""The doors between float64 and arb round outward, and precision is restored."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from flint import arb, ctx
from hypothesis import given
from hypothesis import strategies as st

from attnforge.outward import ball, interval, lower, precision, upper
from attnforge.outward.real import PRECISION

numbers = st.floats(-1e150, 1e150)


def test_precision_is_restored_after_the_block_and_after_an_error():
    before = ctx.prec
    with precision():
        assert ctx.prec == PRECISION
        with precision(200):
            assert ctx.prec == 200
        assert ctx.prec == PRECISION
    assert ctx.prec == before

    def fail():
        with precision(200):
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert ctx.prec == before


@given(numbers, st.floats(1e-100, 1e100))
def test_upper_and_lower_enclose_the_exact_quotient(x, y):
    with precision():
        quotient = ball(x) / ball(y)
        assert Fraction(lower(quotient)) <= Fraction(x) / Fraction(y) <= Fraction(upper(quotient))
        assert upper(quotient) - lower(quotient) <= 2.0**-50 * abs(x / y) + 1e-320


@given(st.floats(-1e308, 1e308))
def test_a_float_is_its_own_ball(x):
    assert ball(x).is_exact()
    assert lower(ball(x)) == x == upper(ball(x))


@given(numbers, numbers, st.floats(0, 1))
def test_an_interval_contains_its_ends_and_what_lies_between(x, y, share):
    low, high = min(x, y), max(x, y)
    found = interval(low, high)
    inside = min(max(low + share * (high - low), low), high)
    assert all(found.contains(arb(point)) for point in (low, high, inside))


def test_numbers_beyond_float64_stay_on_the_safe_side():
    huge, small = arb(2) ** 2000, arb(2) ** -3000
    assert upper(huge) == math.inf
    assert lower(huge) <= 1.7976931348623157e308
    assert upper(small) > 0
    assert lower(small) <= 0
    assert lower(-huge) == -math.inf

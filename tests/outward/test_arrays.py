"""Every ball array contains the exact result, judged by rational arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnforge.outward import Balls, add_up, down, gamma, product_up, up
from attnforge.outward.arrays import UNIT, two_product, two_sum

# Products of two stay far from underflow; tiny numbers have their own tests.
sizes = st.one_of(st.floats(1e-100, 1e100), st.floats(0.5, 2.0), st.sampled_from([1.0, 1 / 3, 0.1, 2.0**-53]))
signed = st.one_of(st.just(0.0), sizes, sizes.map(lambda value: -value))
radii = st.one_of(st.just(0.0), sizes)
fractions = st.sampled_from([Fraction(-1), Fraction(0), Fraction(1), Fraction(1, 3), Fraction(-7, 11)])
pairs = st.tuples(signed, radii)
tiny = st.floats(-1e-290, 1e-290, allow_subnormal=True)
positives = st.floats(0.0, 1e300, allow_subnormal=True)


def at(ball: tuple[float, float], place: Fraction) -> Fraction:
    return Fraction(ball[0]) + place * Fraction(ball[1])


def balls(entries: list[tuple[float, float]]) -> Balls:
    return Balls(np.array([mid for mid, _ in entries]), np.array([rad for _, rad in entries]))


def holds(ball: Balls, index: object, exact: Fraction) -> bool:
    return abs(exact - Fraction(float(ball.mid[index]))) <= Fraction(float(ball.rad[index]))


@given(pairs, pairs, fractions, fractions)
@settings(max_examples=200)
def test_sums_differences_and_products_contain_the_exact_result(left, right, i, j):
    a, b = balls([left]), balls([right])
    x, y = at(left, i), at(right, j)
    assert holds(a + b, 0, x + y)
    assert holds(a - b, 0, x - y)
    assert holds(a * b, 0, x * y)


@given(tiny, tiny)
@settings(max_examples=100)
def test_exact_numbers_near_and_below_underflow_are_enclosed(x, y):
    a, b = Balls.exact([x]), Balls.exact([y])
    assert holds(a + b, 0, Fraction(x) + Fraction(y))
    assert holds(a * b, 0, Fraction(x) * Fraction(y))
    product = Balls.exact([[x, y]]) @ Balls.exact([[y], [x]])
    assert holds(product, (0, 0), 2 * Fraction(x) * Fraction(y))


@pytest.mark.parametrize("operation", ["__mul__", "__matmul__"])
def test_a_radius_that_underflows_is_not_lost(operation):
    x, y = Balls(np.array([[1e-200]]), np.zeros((1, 1))), Balls(np.zeros((1, 1)), np.array([[1e-200]]))
    assert holds(getattr(x, operation)(y), (0, 0), Fraction(1e-200) * Fraction(1e-200))
    assert holds(getattr(y, operation)(x), (0, 0), Fraction(1e-200) * Fraction(1e-200))


@given(st.data(), st.integers(1, 6), st.integers(1, 3), st.integers(1, 3))
@settings(max_examples=60)
def test_matrix_products_contain_the_exact_result(data, terms, rows, columns):
    left = data.draw(st.lists(pairs, min_size=rows * terms, max_size=rows * terms))
    right = data.draw(st.lists(pairs, min_size=terms * columns, max_size=terms * columns))
    places = data.draw(st.lists(fractions, min_size=2 * terms, max_size=2 * terms))
    a, b = balls(left), balls(right)
    a = Balls(a.mid.reshape(rows, terms), a.rad.reshape(rows, terms))
    b = Balls(b.mid.reshape(terms, columns), b.rad.reshape(terms, columns))
    product = a @ b
    for i in range(rows):
        for j in range(columns):
            exact = sum(
                at(left[i * terms + k], places[k]) * at(right[k * columns + j], places[terms + k]) for k in range(terms)
            )
            assert holds(product, (i, j), exact)


def test_a_long_cancelling_dot_product_contains_the_exact_result():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=5000), rng.normal(size=5000)
    x, y = np.concatenate([x, x]), np.concatenate([y, -y * (1 + 2.0**-50)])
    product = Balls.exact(x[None]) @ Balls.exact(y[:, None])
    exact = sum((Fraction(p) * Fraction(q) for p, q in zip(x, y, strict=True)), Fraction(0))
    assert holds(product, (0, 0), exact)
    assert product.rad[0, 0] < 1e-7  # and says something


def test_the_radius_of_a_product_is_tight():
    product = Balls(np.array([3.0]), np.array([0.5])) * Balls(np.array([-2.0]), np.array([0.25]))
    assert product.mid[0] == -6.0
    assert 3 * 0.25 + 0.5 * 2.25 <= product.rad[0] <= (3 * 0.25 + 0.5 * 2.25) * (1 + 1e-11)


def test_exact_zeros_stay_exact():
    zero, ball = Balls.exact([0.0]), Balls(np.array([1 / 3]), np.array([0.1]))
    assert (zero + zero).rad[0] == 0
    assert (zero - zero).rad[0] == 0
    assert (zero + Balls.exact([0.1])).rad[0] == 0
    assert (zero * ball).mid[0] == 0
    assert (zero * ball).rad[0] == 0
    assert (ball * zero).rad[0] == 0
    product = Balls.exact(np.zeros((2, 3))) @ Balls(np.ones((3, 2)), np.ones((3, 2)))
    assert not product.mid.any()
    assert not product.rad.any()
    assert zero.magnitude()[0] == 0


@given(st.lists(pairs, min_size=1, max_size=5))
def test_magnitude_is_above_every_absolute_value(entries):
    magnitude = balls(entries).magnitude()
    for found, entry in zip(magnitude, entries, strict=True):
        largest = max(abs(at(entry, Fraction(-1))), abs(at(entry, Fraction(1))))
        assert largest <= Fraction(float(found)) <= largest * (1 + Fraction(1, 2**50))


@given(st.floats(-1e300, 1e300), st.floats(-1e300, 1e300))
def test_between_contains_both_ends_and_little_more(x, y):
    low, high = min(x, y), max(x, y)
    ball = Balls.between([low], [high])
    assert holds(ball, 0, Fraction(low))
    assert holds(ball, 0, Fraction(high))
    middle = abs(Fraction(low)) + abs(Fraction(high))
    assert Fraction(float(ball.rad[0])) <= (Fraction(high) - Fraction(low)) / 2 + middle / 2**51 + Fraction(1e-320)


def test_indexing_keeps_midpoint_and_radius_together():
    ball = Balls(np.arange(6.0).reshape(2, 3), np.arange(6.0).reshape(2, 3) / 8)
    assert ball.shape == (2, 3)
    assert ball[1, 2].mid == 5.0
    assert ball[1, 2].rad == 0.625
    assert ball[:, 1].mid.tolist() == [1.0, 4.0]


@given(st.lists(st.floats(-1e300, 1e300), max_size=6))
def test_add_up_is_above_the_sum(values):
    total, size = sum(map(Fraction, values)), sum(abs(Fraction(value)) for value in values)
    found = Fraction(add_up(*values))
    assert total <= found <= total + 8 * size / 2**52 + Fraction(1e-320)


def test_add_up_leaves_zeros_alone():
    assert add_up() == 0.0
    assert add_up(0.0, 0.0) == 0.0
    assert add_up(1.0, float("inf")) == float("inf")
    assert Fraction(add_up(0.1, 0.2)) >= Fraction(0.1) + Fraction(0.2)


@given(st.lists(positives, min_size=1, max_size=4))
def test_product_up_is_above_the_product(values):
    exact = Fraction(1)
    for value in values:
        exact *= Fraction(value)
    found = product_up(*values)
    assert found == float("inf") or Fraction(found) >= exact
    if exact and Fraction(1e-300) < exact < Fraction(1e300) and found < 1e300 and min(values) > 1e-70:
        assert Fraction(found) <= exact * (1 + Fraction(1, 2**48))


def test_product_up_at_the_edges():
    assert product_up(0.0, float("inf")) == 0.0
    assert product_up(1e-300, 1e-300) > 0.0
    assert product_up(2.0, float("inf")) == float("inf")


@given(st.integers(1, 10**9), st.sampled_from([2.0**-53, 2.0**-24, 2.0**-11, 2.0**-8]))
def test_gamma_is_just_above_its_formula(count, unit):
    product = count * Fraction(unit)
    found = gamma(count, unit)
    if product >= Fraction(1, 2):
        assert found == float("inf")
    else:
        exact = product / (1 - product)
        assert exact <= Fraction(found) <= exact * (1 + Fraction(1, 2**51))


def test_gamma_of_nothing_is_nothing():
    assert gamma(0) == 0.0
    assert gamma(1) > UNIT


@given(st.floats(-1e308, 1e308))
def test_up_and_down_are_the_neighbours(value):
    assert down(value) < value < up(value)
    assert down(up(value)) == value


@pytest.mark.parametrize(("mid", "rad"), [(3.0, 0.0), (-0.1, 0.05), (7.0, 6.999), (1e-200, 1e-210), (2.0, 2.0)])
def test_inverses_enclose(mid, rad):
    found = Balls(np.array(mid), np.array(rad)).inverse()
    if rad >= abs(mid):
        assert np.isinf(found.rad)
        return
    low, high = (Fraction(float(found.mid)) + sign * Fraction(float(found.rad)) for sign in (-1, 1))
    for end in (Fraction(mid) - Fraction(rad), Fraction(mid) + Fraction(rad)):
        assert low <= 1 / end <= high


def test_what_sums_and_products_lack_is_exact():
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=200) * 10.0 ** rng.integers(-20, 20, size=200) for _ in range(2))
    for (rounded, lost), exact in ((two_sum(a, b), Fraction.__add__), (two_product(a, b), Fraction.__mul__)):
        for x, y, r, e in zip(a, b, rounded, lost, strict=True):
            assert Fraction(float(r)) + Fraction(float(e)) == exact(Fraction(float(x)), Fraction(float(y)))

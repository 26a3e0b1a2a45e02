"""Rows with inverse heat values, run in plain NumPy: polynomials come out, to the tolerance that was planned."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnforge.anchors.hermite import HermiteRow, centred, coefficient_size, hermite_plan, hermite_values
from attnforge.errors import DomainError, RefusalError, ToleranceError
from attnforge.lemmas.saturation import reproduction
from attnforge.targets.expression import evaluate, parse
from attnforge.targets.expression.polynomial import polynomial

UNIT_BOX = (-1.0, 1.0)


def weights(row, x):
    u = (x - row.middle) / row.spacing
    scores = row.sharpness * (2 * row.steps * u[:, None] - row.steps**2)
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


def head(values, rows, points):
    """The output on the product of the points: one softmax an axis."""
    for row, x in zip(rows, points, strict=True):
        values = np.moveaxis(np.tensordot(weights(row, x), values, (1, 0)), 0, -1)
    return values


def planned(text, names, box, tol):
    found = polynomial(parse(text), names)
    coefficients = centred(found, [(a + b) / 2 for a, b in box])
    part = tol / len(box) / coefficient_size(coefficients, [(b - a) / 2 for a, b in box])
    rows = [hermite_plan(a, b, degree, part) for (a, b), degree in zip(box, found.degrees, strict=True)]
    return coefficients, rows


def sup_error(text, names, box, rows, values):
    points = [np.linspace(a, b, 4001 if len(box) == 1 else 151) for a, b in box]
    grid = np.meshgrid(*(x.astype(np.longdouble) for x in points), indexing="ij")
    wanted = evaluate(parse(text), dict(zip(names, grid, strict=True)))
    return float(np.abs(head(values, rows, points) - wanted).max())


@pytest.mark.parametrize(
    ("text", "box", "tol", "anchors"),
    [
        ("x", [UNIT_BOX], 2e-15, 25),
        ("x^2", [UNIT_BOX], 2e-15, 29),
        ("x^3", [UNIT_BOX], 2e-15, 29),
        ("x^3 - x", [(-2.0, 2.0)], 1e-13, 32),
        ("x^3 - x", [(-2.0, 2.0)], 1e-3, 12),
        ("x^3 - x", [(3.0, 9.0)], 1e-9, 25),
        ("x^8", [UNIT_BOX], 1e-11, 32),
        ("128*x^8 - 256*x^6 + 160*x^4 - 32*x^2 + 1", [UNIT_BOX], 1e-11, 48),
        ("x^8 - x^5/3 + pi*x^2", [UNIT_BOX], 1e-11, 48),
        ("x^12", [UNIT_BOX], 1e-12, 38),
        ("7", [UNIT_BOX], 1e-13, 25),
        ("x*y", [UNIT_BOX, UNIT_BOX], 1e-13, 32),
        ("x^2*y - y^3", [UNIT_BOX, UNIT_BOX], 1e-13, 32),
        ("(x - 2*y)^3 + 5", [(0.0, 1.0), (-1.0, 3.0)], 1e-10, 32),
    ],
)
def test_a_planned_row_reproduces_the_polynomial(text, box, tol, anchors):
    names = ("x", "y")[: len(box)]
    coefficients, rows = planned(text, names, box, tol)
    assert max(row.count for row in rows) <= anchors
    assert sup_error(text, names, box, rows, hermite_values(coefficients, rows)) <= tol


def test_what_breaks_it():
    """Sampled values, a wrong variance, or missing ghosts: each is seen."""
    box = [UNIT_BOX]
    coefficients, [row] = planned("x^2", ("x",), box, 1e-12)
    values = hermite_values(coefficients, [row])
    assert sup_error("x^2", ("x",), box, [row], row.positions**2) > 0.1
    assert sup_error("x^2", ("x",), box, [row], values + 1e-11) > 1e-12
    shorter = HermiteRow(row.middle, row.spacing, row.count - 8, row.sharpness, row.ghosts - 4)
    assert sup_error("x^2", ("x",), box, [shorter], hermite_values(coefficients, [shorter])) > 1e-9


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.floats(-1, 1).map(lambda b: round(b, 6)), min_size=1, max_size=13),
    st.floats(-3, 3),
    st.floats(0.01, 10.0),
    st.integers(2, 12),
)
def test_any_polynomial_on_any_interval(scaled, lower, length, digits):
    """Coefficients in units of half the length, about the middle."""
    upper, tol = lower + length, 10.0**-digits
    row = hermite_plan(lower, upper, len(scaled) - 1, tol)
    coefficients = np.array(scaled) / (length / 2) ** np.arange(len(scaled))
    x = np.linspace(lower, upper, 301)
    wanted = np.polynomial.polynomial.polyval((x.astype(np.longdouble) - row.middle) / (length / 2), scaled)
    out = head(hermite_values(coefficients, [row]), [row], [x])
    reading = 1e-15 * 12 * (1 + (abs(lower) + length) / length)  # of x itself, near a large middle
    assert np.abs(out - wanted).max() <= (tol + reading) * sum(map(abs, scaled)) + 1e-300


@pytest.mark.parametrize("degree", [0, 1, 2, 5, 8, 12])
@pytest.mark.parametrize("tol", [10.0, 1.0, 0.1, 1e-2, 1e-4, 1e-7, 1e-10, 1e-13])
def test_a_plan_is_proved(degree, tol):
    row = hermite_plan(-1.0, 1.0, degree, tol)
    taylor = [math.comb(degree, order) * row.spacing**order for order in range(degree + 1)]
    assert sum(reproduction(row.sharpness, row.ghosts, row.count, taylor).values()) <= tol / 2
    assert row.count <= 5 + 3 * math.sqrt(degree + 1) - 2.2 * math.log10(min(tol, 1.0))


def test_a_plan_moves_and_scales_with_its_interval():
    here, there = hermite_plan(-1.0, 1.0, 4, 1e-9), hermite_plan(10.0, 18.0, 4, 1e-9)
    assert (here.count, here.sharpness, here.ghosts) == (there.count, there.sharpness, there.ghosts)
    assert there.middle == 14.0
    assert there.spacing == 4 * here.spacing
    assert there.positions[0] < 10.0 - (there.ghosts - 0.01) * there.spacing
    assert there.positions.shape == (there.count,)


def test_keys_are_exact():
    """2 c k and c k^2 have few bits, so a head's constants carry no rounding."""
    row = hermite_plan(-1.0, 1.0, 3, 1e-14)
    assert (row.sharpness * 1024).is_integer()
    k = Fraction(row.steps[0])
    assert Fraction(row.sharpness * float(k * k)) == Fraction(row.sharpness) * k * k


def exact_value(coefficients, row, step):
    """The inverse heat polynomial in fractions."""
    t, half = Fraction(row.spacing) * Fraction(step), Fraction(row.spacing) ** 2 / (4 * Fraction(row.sharpness))
    total = Fraction(0)
    for n, b in enumerate(coefficients):
        for i in range(n // 2 + 1):
            ways = math.factorial(n) // (math.factorial(i) * math.factorial(n - 2 * i))
            total += Fraction(b) * ways * (-half) ** i * t ** (n - 2 * i)
    return total


@given(st.lists(st.floats(-9, 9), min_size=1, max_size=13), st.floats(0.05, 2.0), st.floats(0.1, 2.0))
def test_every_value_is_correctly_rounded(coefficients, spacing, sharpness):
    row = HermiteRow(0.0, spacing, 6, sharpness, 0.0)
    wanted = [exact_value(coefficients, row, step) for step in row.steps]
    for found, value in zip(hermite_values(coefficients, [row]), wanted, strict=True):
        assert abs(Fraction(found) - value) <= abs(value) * Fraction(2) ** -52 + Fraction(10) ** -30


def test_values_by_hand():
    row = HermiteRow(5.0, 0.5, 5, 0.5, 0.0)  # variance 1/4
    t = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
    assert row.positions.tolist() == [4.0, 4.5, 5.0, 5.5, 6.0]
    np.testing.assert_array_equal(hermite_values([1.0, 2.0], [row]), 1 + 2 * t)
    np.testing.assert_array_equal(hermite_values([0, 0, 1.0], [row]), t**2 - 0.25)
    np.testing.assert_array_equal(hermite_values([0, 0, 0, 1.0], [row]), t**3 - 0.75 * t)
    np.testing.assert_array_equal(hermite_values([0, 0, 0, 0, 1.0], [row]), t**4 - 1.5 * t**2 + 0.1875)


def test_axes_stay_apart():
    """x^2 y z^3 on rows of different lengths: an outer product, axis by axis."""
    rows = [HermiteRow(0.0, 0.5, n, 0.5, 0.0) for n in (2, 3, 4)]
    coefficients = np.zeros((3, 2, 4))
    coefficients[2, 1, 3] = 2.0
    first, second, third = (hermite_values(np.eye(4)[n], [row]) for n, row in zip((2, 1, 3), rows, strict=True))
    found = hermite_values(coefficients, rows)
    np.testing.assert_array_equal(found, 2 * first[:, None, None] * second[:, None] * third)


@pytest.mark.parametrize(
    ("text", "middle", "wanted"),
    [
        ("x^3 - x", [0.0, 0.0], [[0], [-1], [0], [1]]),
        ("x^2", [3.0, 0.0], [[9], [6], [1]]),
        ("x*y", [1.0, 2.0], [[2, 1], [2, 1]]),
        ("0", [1.0, 2.0], [[0]]),
        ("x^2*y", [0.5, -1.0], [[-0.25, 0.25], [-1, 1], [-1, 1]]),
    ],
)
def test_centred(text, middle, wanted):
    np.testing.assert_array_equal(centred(polynomial(parse(text), ["x", "y"]), middle), np.array(wanted, dtype=float))


def test_centred_cancels_without_loss():
    """(x - 1000)^6 multiplied out and centred again."""
    found = centred(polynomial(parse("(x - 1000)^6"), ["x"]), [1000.0])
    assert found.tolist() == [0, 0, 0, 0, 0, 0, 1]


def test_coefficient_size():
    assert coefficient_size([[1.0, -2.0], [3.0, 4.0]], [2.0, 10.0]) == 1 + 20 + 6 + 80
    assert coefficient_size([-5.0], [3.0]) == 5.0


def test_refusals():
    row = HermiteRow(0.0, 0.5, 3, 0.5, 0.0)
    long_row = HermiteRow(0.0, 0.5, 2000, 0.5, 0.0)
    names = [f"x{i}" for i in range(6)]
    with pytest.raises(DomainError, match="`upper` must exceed `lower`"):
        hermite_plan(1.0, 1.0, 3, 1e-3)
    with pytest.raises(DomainError, match="`upper` must exceed `lower`"):
        hermite_plan(0.0, math.inf, 3, 1e-3)
    with pytest.raises(RefusalError, match=r"`degree` must lie between 0 and 12\. Got 13"):
        hermite_plan(0.0, 1.0, 13, 1e-3)
    with pytest.raises(ToleranceError, match="`tol` must be positive"):
        hermite_plan(0.0, 1.0, 3, 0.0)
    with pytest.raises(ToleranceError, match=r"degree 3 to 6.7e-16 at best. Got tol=1e-16. Ask for tol >= 7.3e-16"):
        hermite_plan(0.0, 1.0, 3, 1e-16)
    with pytest.raises(RefusalError, match="one dimension per axis"):
        hermite_values([1.0], [row, row])
    with pytest.raises(RefusalError, match="finite"):
        hermite_values([math.nan], [row])
    with pytest.raises(RefusalError, match=r"at most 1048576 entries\. Got 4000000"):
        hermite_values([[1.0]], [long_row, long_row])
    with pytest.raises(RefusalError, match="at most 1048576 entries"):
        centred(polynomial(parse("^12*".join(names) + "^12"), names), [0.0] * 6)
    with pytest.raises(DomainError, match="one number per variable"):
        centred(polynomial(parse("x"), ["x"]), [0.0, 1.0])


@pytest.mark.parametrize("degree", range(1, 13))
def test_the_remedy_of_a_refused_tolerance_works(degree):
    assert hermite_plan(-1.0, 1.0, degree, 1.1 * 6.7e-16).count <= 96

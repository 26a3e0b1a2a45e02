"""Rows with inverse heat values, summed in high precision: the identity holds, and no error exceeds its bound."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnforge.lemmas.saturation import reproduction, saturation, truncation

SHARPNESS = [0.2, 0.3, 0.5, 1.0, 2.0, 4.0]
DEGREES = range(13)
PHASES = [Fraction(i, 16) for i in range(16)]


@pytest.fixture(autouse=True)
def digits():
    with mpmath.workdps(60):
        yield


def inverse_heat(degree, u, c):
    """e^{-(s^2/2) d^2/du^2} u^degree with s^2 = 1/(2c)."""
    ways = [
        math.factorial(degree) // math.factorial(i) // math.factorial(degree - 2 * i) for i in range(degree // 2 + 1)
    ]
    return mpmath.fsum(w * (-1 / (4 * mpmath.mpf(c))) ** i * u ** (degree - 2 * i) for i, w in enumerate(ways))


def output(value, z, c, anchors):
    z = mpmath.mpf(z.numerator) / z.denominator if isinstance(z, Fraction) else mpmath.mpf(z)
    weights = [mpmath.exp(-c * (z - k) ** 2) for k in anchors]
    return mpmath.fsum(w * value(k - z) for w, k in zip(weights, anchors, strict=True)) / mpmath.fsum(weights)


def long_row(c):
    reach = math.ceil(math.sqrt(150 / c))
    return range(-reach, reach + 2)


@pytest.mark.parametrize("c", [0.3, 1.0, 3.0])
def test_the_identity(c):
    """t^5 - 2 t^2 about zero: the output is the average of p over the points z + i pi j / c."""
    z, row = mpmath.mpf("0.3"), long_row(c)
    weights = [mpmath.exp(-c * (z - k) ** 2) for k in row]
    values = [inverse_heat(5, mpmath.mpf(k), c) - 2 * inverse_heat(2, mpmath.mpf(k), c) for k in row]
    found = mpmath.fdot(weights, values) / mpmath.fsum(weights)
    factors = {j: mpmath.exp(-((mpmath.pi * j) ** 2) / c + 2j * mpmath.pi * j * z) for j in range(-15, 16)}
    points = {j: z + 1j * mpmath.pi * j / c for j in factors}
    wanted = mpmath.fsum(f * (points[j] ** 5 - 2 * points[j] ** 2) for j, f in factors.items()) / mpmath.fsum(
        factors.values()
    )
    assert abs(found - wanted) < mpmath.mpf(10) ** -45


@pytest.mark.parametrize("c", SHARPNESS)
def test_saturation_is_a_bound_and_a_tight_one(c):
    row = long_row(c)
    for degree in range(1, 13):
        worst = max(abs(output(lambda u, d=degree: inverse_heat(d, u, c), z, c, row)) for z in PHASES)
        assert worst <= saturation(c, degree)
        if c <= 2:  # two harmonics of opposite sign leave a gap where the staircase is coarse
            assert saturation(c, degree) <= 1.3 * worst + mpmath.mpf(10) ** -40


@pytest.mark.parametrize(
    ("c", "ghosts", "count"),
    [(0.3, 9.0, 19), (0.3, 9.25, 26), (0.5, 6.0, 14), (0.5, 7.5, 21), (1.0, 4.0, 10), (1.0, 5.5, 14), (3.0, 2.0, 11)],
)
def test_truncation_is_a_bound_and_a_tight_one(c, ghosts, count):
    """The domain is [0, length], and the first anchor sits ``ghosts`` steps before it."""
    reach, length = math.ceil(math.sqrt(150 / c)), count - 1 - 2 * ghosts
    kept, whole = ([mpmath.mpf(k) - ghosts for k in row] for row in (range(count), range(-reach, count + reach)))
    for degree in (1, 2, 3, 7, 12):
        worst = mpmath.mpf(0)
        for z in (0.0, length / 8, length / 2, length):
            finite, infinite = (output(lambda u, d=degree: inverse_heat(d, u, c), z, c, row) for row in (kept, whole))
            worst = max(worst, abs(finite - infinite))
        assert worst <= truncation(c, ghosts, degree, count)
        if length >= 1 and degree <= 3:
            assert truncation(c, ghosts, degree, count) <= 1.35 * worst


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.floats(-1, 1), min_size=2, max_size=7),
    st.floats(0.25, 1.5),
    st.floats(-1, 1),
    st.integers(3, 9),
)
def test_a_polynomial_on_a_finite_row_errs_by_no_more(coefficients, c, place, ghosts):
    """Coefficients about zero, domain [-4, 4], in steps."""
    z, count = mpmath.mpf(4 * place), 9 + 2 * ghosts
    row = [mpmath.mpf(k) for k in range(-4 - ghosts, 5 + ghosts)]
    weights = [mpmath.exp(-mpmath.mpf(c) * (z - k) ** 2) for k in row]
    values = [mpmath.fsum(a * inverse_heat(d, k, c) for d, a in enumerate(coefficients)) for k in row]
    error = abs(mpmath.fdot(weights, values) / mpmath.fsum(weights) - mpmath.polyval(coefficients[::-1], z))
    taylor = mpmath.taylor(lambda t: mpmath.polyval(coefficients[::-1], t), z, len(coefficients) - 1)
    sizes = [float(abs(a)) * (1 + 1e-15) + 1e-30 for a in taylor]
    assert error <= sum(reproduction(c, float(ghosts), count, sizes).values())


def test_values_known_by_hand():
    assert saturation(1.0, 1) == pytest.approx(2 * math.pi * math.exp(-(math.pi**2)), rel=2e-4)
    assert saturation(0.5, 3) == pytest.approx(2 * (2 * math.pi) ** 3 * math.exp(-2 * math.pi**2), rel=1e-7)
    assert saturation(0.02, 5) < 1e-190


def test_a_constant_is_exact():
    assert saturation(5.0, 0) == 0.0 == truncation(5.0, 0.0, 0, 2)
    assert reproduction(0.5, 3.0, 9, [7.0]) == {"saturation": 0.0, "truncation": 0.0}


@pytest.mark.parametrize("c", [0.0, -1.0, 1e-3, 101.0, math.inf, math.nan])
def test_nothing_is_said_outside_the_range(c):
    assert saturation(c, 1) == math.inf == truncation(c, 5.0, 1, 20)


@pytest.mark.parametrize(
    ("c", "ghosts", "degree", "count"),
    [(0.1, 1.0, 12, 20), (0.3, 5.0, 1, 10), (0.3, -1.0, 1, 10), (0.02, 1.0, 1, 5), (0.3, math.nan, 1, 10)],
)
def test_rows_too_short_get_no_bound(c, ghosts, degree, count):
    assert truncation(c, ghosts, degree, count) == math.inf


def test_more_ghosts_and_softer_heads_help():
    assert all(truncation(0.4, g + 1.0, 4, 40) < truncation(0.4, float(g), 4, 40) for g in range(4, 12))
    assert all(saturation(c / 2, d) < saturation(c, d) for c in (0.25, 0.5, 0.8) for d in range(1, 13))

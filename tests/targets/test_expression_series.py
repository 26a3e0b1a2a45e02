"""Power series of expressions: Taylor coefficients against mpmath's, over points and over intervals."""

from __future__ import annotations

import mpmath
import pytest
from flint import arb, arb_series, ctx
from hypothesis import given, settings
from hypothesis import strategies as st

from attnforge.targets.expression import parse
from attnforge.targets.expression.evaluate import taylor
from attnforge.targets.expression.series import NotSmoothError

TERMS = 6
SMOOTH = {
    "x^3 - 2*x + 1/x": lambda x: x**3 - 2 * x + 1 / x,
    "x^-2 + x^2.5": lambda x: x**-2 + x ** mpmath.mpf(2.5),
    "sqrt(x) + log(x)": lambda x: mpmath.sqrt(x) + mpmath.log(x),
    "exp(-x^2)*sin(3*x)": lambda x: mpmath.exp(-(x**2)) * mpmath.sin(3 * x),
    "cos(x) + tan(x/2)": lambda x: mpmath.cos(x) + mpmath.tan(x / 2),
    "sinh(x) - cosh(2*x)": lambda x: mpmath.sinh(x) - mpmath.cosh(2 * x),
    "tanh(x - 1) + tanh(2 - x)": lambda x: mpmath.tanh(x - 1) + mpmath.tanh(2 - x),
    "asin(x/3) + acos(x/4) + atan(x)": lambda x: mpmath.asin(x / 3) + mpmath.acos(x / 4) + mpmath.atan(x),
    "erf(x) + sigmoid(x) + softplus(x)": lambda x: (
        mpmath.erf(x) + 1 / (1 + mpmath.exp(-x)) + mpmath.log(1 + mpmath.exp(x))
    ),
    "abs(x - 9) + max(x, 0) + min(x, 8, 7)": lambda x: (9 - x) + x + x,
    "relu(x) + relu(-x) + clamp(x, 0, 5) + sign(x)*step(x)": lambda x: x + x + 1,
    "pi*x + e": lambda x: mpmath.pi * x + mpmath.e,
}


@pytest.fixture(autouse=True)
def _settings():
    before, ctx.cap, bits = ctx.cap, TERMS, ctx.prec
    ctx.prec = 120
    yield
    ctx.cap, ctx.prec = before, bits


@pytest.mark.parametrize("text", SMOOTH)
@given(x=st.floats(0.3, 2.5))
@settings(max_examples=12, deadline=None)
def test_coefficients_at_a_point(text, x):
    found = taylor(parse(text), {"x": arb_series([arb(x), 1])})
    with mpmath.workdps(40):
        for j, wanted in enumerate(mpmath.taylor(SMOOTH[text], mpmath.mpf(x), TERMS - 1)):
            assert abs(float((found[j] - arb(mpmath.nstr(wanted, 35))).mid())) <= 1e-12 * max(1, abs(wanted))


@pytest.mark.parametrize("text", SMOOTH)
@given(x=st.floats(0.4, 2.4), r=st.floats(1e-9, 0.05), s=st.floats(-1, 1))
@settings(max_examples=12, deadline=None)
def test_an_interval_encloses_every_point_of_it(text, x, r, s):
    """The law of enclosure: a coefficient over the interval contains the one at each of its points."""
    whole = taylor(parse(text), {"x": arb_series([arb(x, r), 1])})
    at = taylor(parse(text), {"x": arb_series([arb(x) + arb(s) * arb(r), 1])})
    assert all(whole[j].overlaps(at[j]) and whole[j].contains(at[j].mid()) for j in range(TERMS))


@pytest.mark.parametrize(
    "text",
    ["abs(x)", "max(x, 0)", "relu(x)", "clamp(x, 0, 1)", "sign(x)", "step(x)", "1/x", "sqrt(x)", "log(x)", "x^0.5"],
)
def test_no_series_across_a_kink_or_a_pole(text):
    with pytest.raises(NotSmoothError):
        taylor(parse(text), {"x": arb_series([arb(0, 0.01), 1])})


def test_whole_powers_of_what_changes_sign():
    found = taylor(parse("x^3"), {"x": arb_series([arb(0), 1])})
    assert [float(found[j].mid()) for j in range(4)] == [0, 0, 0, 1]

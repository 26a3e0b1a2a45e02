"""The table of functions, walked: every record has all of its parts, and they agree with mpmath."""

from __future__ import annotations

from pathlib import Path

import mpmath
import numpy as np
import pytest
from flint import arb, arb_series, ctx
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import attnforge
from attnforge.certification.checker.formula import FormulaOn
from attnforge.certification.checker.search import exactly
from attnforge.certification.checker.space import Form, Space
from attnforge.certification.checker.taylor import ONE, ZERO, Cell
from attnforge.errors import CertificateError
from attnforge.expression import Apply, Variable, derivative, enclose, evaluate, parse, to_text
from attnforge.expression import intervals as known
from attnforge.expression.evaluate import bounds, taylor
from attnforge.expression.functions import FUNCTIONS, NAMES
from attnforge.expression.intervals import Interval
from attnforge.expression.reductions import REDUCTIONS
from attnforge.kernel.degrees import degrees
from attnforge.kernel.formula import formula_models
from attnforge.kernel.models import Models
from benchmarks.formulas import MEANING, exact

DIGITS, BITS, TERMS = 60, 240, 8
LETTERS = ("x", "y", "z", "w")
CALLED = [name for name, function in FUNCTIONS.items() if function.arity]
UNARY = [
    "floor", "erf", "erfc", "normcdf", "silu", "gelu", "gelu_tanh", "sinc", "sphericalj1", "besselj0", "besselj1",
    "besselj2", "gamma", "lgamma", "digamma", "trigamma", "softplus", "sigmoid", "log", "acos",
]  # fmt: skip
UNREAD = {"unit"}  # by the checker, which refuses it
DOCUMENTED = Path(attnforge.__file__).parent.parent / "docs" / "formulas.md"


def node_of(name: str) -> Apply:
    function = FUNCTIONS[name]
    return Apply(name, tuple(map(Variable, LETTERS[: function.arity + function.variadic])))


def ball(value: mpmath.mpf) -> arb:
    return arb(mpmath.nstr(value, DIGITS - 5)) + arb(0, abs(float(value)) * 1e-50 + 1e-80)


def meaning(name: str, x: float) -> arb | None:
    """The value by mpmath; None where there is none."""
    try:
        with mpmath.workdps(DIGITS):
            found = MEANING[name](mpmath.mpf(x))
        return None if isinstance(found, mpmath.mpc) or not mpmath.isfinite(found) else ball(found)
    except (ValueError, ZeroDivisionError, ArithmeticError):
        return None


@pytest.fixture(autouse=True)
def _arithmetic():
    before, ctx.cap, bits = ctx.cap, TERMS, ctx.prec
    ctx.prec = BITS
    yield
    ctx.cap, ctx.prec = before, bits


@pytest.mark.parametrize("name", CALLED)
def test_every_function_has_all_of_its_parts(name):
    """Values, balls, series, derivative and text, at a point where every function is smooth, agree with each other."""
    node, point = node_of(name), dict(zip(LETTERS, (0.3, 0.2, 0.7, 0.6), strict=True))
    used = point if FUNCTIONS[name].arity > 1 else {"x": 0.3}
    balls = {letter: arb(value) for letter, value in point.items()}
    wanted = ball(exact(node, point))
    assert abs(arb(float(evaluate(node, point))) - wanted) < 2e-15 * (1 + abs(wanted))
    assert enclose(node, balls).overlaps(wanted)
    assert enclose(node, balls).rad() < 1e-60
    for each in used:
        series = taylor(node, {letter: arb_series([value, int(letter == each)]) for letter, value in balls.items()})
        assert series[0].overlaps(wanted)
        slope = enclose(derivative(node, each), balls)
        assert (slope.overlaps(series[1]) and slope.rad() < 1e-50) or name == "trigamma"
    assert parse(to_text(node)) == node
    middle = np.array([list(used.values())])
    inputs = Models.variables(degrees(len(used), 2), middle - 1e-9, middle + 1e-9)
    model = formula_models(node, {letter: inputs[:, i] for i, letter in enumerate(used)})
    assert model.rest.values[0] < 1e-14
    assert abs(model.c[0, 0] - float(wanted)) < 1e-14


@pytest.mark.parametrize("name", CALLED)
def test_the_checker_reads_every_function_or_refuses_it(name):
    node = node_of(name)
    letters = LETTERS[: len(node.arguments)]
    low = (0.3, 0.2, 0.7, 0.6)[: len(letters)]
    cell = Cell(low, tuple(x + 1e-6 for x in low), 2)
    inputs = {letter: Form({i: ONE}, ZERO) for i, letter in enumerate(letters)}
    with exactly(2):
        read = FormulaOn(inputs, Space([0.0] * len(low), [1.0] * len(low)), cell)
        if name in UNREAD:
            with pytest.raises(CertificateError, match=name):
                read(node)
            return
        wanted = enclose(node, dict(zip(letters, map(arb, low), strict=True)))
        assert cell.range(read(node)).overlaps(wanted)
        assert float(cell.range(read(node)).rad()) < 1e-4


def test_every_name_is_documented():
    page = DOCUMENTED.read_text()
    assert [name for name in (*NAMES, *REDUCTIONS) if f"`{name}" not in page] == []


@pytest.mark.parametrize("name", UNARY)
@given(
    x=st.one_of(
        st.floats(-6, 8, allow_subnormal=False),
        st.floats(-1e-3, 1e-3, allow_subnormal=False),
        st.sampled_from([0.0, 1.0, 2.0, -0.5, 1e-300]),
    )
)
@settings(max_examples=40, deadline=None)
def test_values_and_balls_agree_with_mpmath(name, x):
    node, wanted = Apply(name, (Variable("x"),)), meaning(name, x)
    found = enclose(node, {"x": arb(x)})
    assume(wanted is not None and found.is_finite() and abs(float(wanted)) < 1e300)
    assert found.overlaps(wanted)
    near = abs(x - round(x)) if name in ("gamma", "lgamma", "digamma", "trigamma") and x < 0.5 else 1.0
    assert abs(arb(float(evaluate(node, {"x": x}))) - wanted) <= 4e-15 / min(1.0, near) * (1 + abs(wanted))


@pytest.mark.parametrize("name", UNARY)
@given(x=st.floats(-6, 8), size=st.floats(-6, 0.5), share=st.floats(-1, 1))
@settings(max_examples=60, deadline=None)
def test_intervals_hold(name, x, size, share):
    r = 10.0**size
    box = Interval(arb(x) - arb(r), arb(x) + arb(r))
    found, at = bounds(Apply(name, (Variable("x"),)), {"x": box}), float(x + 0.999 * share * r)
    wanted = meaning(name, at)
    assume(wanted is not None)
    if not found.lower.is_nan():
        assert not found.lower > wanted
        assert not found.upper < wanted
        if size < -4 and name != "floor":
            slope = enclose(derivative(parse(f"{name}(x)"), "x"), {"x": arb(x, r)})
            most = 3 if x > 0 else 10  # by reflection, gamma is a product of two functions of x
            assert not slope.is_finite() or found.upper - found.lower < most * r * (1 + abs(slope))


@pytest.mark.parametrize("name", [name for name in UNARY if name != "floor"])
@given(x=st.one_of(st.floats(-5, 6), st.floats(-1e-3, 1e-3), st.just(0.0)))
@settings(max_examples=10, deadline=None)
def test_series_agree_with_mpmath(name, x):
    """The k-th coefficient by a circle around the point: functions are analytic, and mpmath knows them there."""
    poles = name in ("gamma", "lgamma", "digamma", "trigamma", "log", "acos")
    x = abs(x) % 0.4 + 0.3 if poles else x
    found = taylor(Apply(name, (Variable("x"),)), {"x": arb_series([arb(x), 1])})
    with mpmath.workdps(DIGITS):
        function = mpmath.loggamma if name == "lgamma" else MEANING[name]
        corners = [mpmath.expjpi(mpmath.mpf(2 * j) / 64) * mpmath.mpf("0.1") for j in range(64)]
        values = [function(x + corner) for corner in corners]
        for k in range(TERMS):
            wanted = mpmath.fsum(v * c**-k for v, c in zip(values, corners, strict=True)).real / 64
            assert abs(float((found[k] - ball(wanted)).mid())) < 1e-25 * (1 + 10.0**k)
            assert found[k].rad() < 1e-40 * 10.0**k


@pytest.mark.parametrize(
    ("lowest", "slope"),
    [
        (known.SILU_LOWEST, lambda x: 1 + x.exp() + x),
        (known.GELU_LOWEST, lambda x: known.normcdf_point(x) + x * (-x * x / 2).exp() / (2 * arb.pi()).sqrt()),
        (known.GAMMA_LOWEST, arb.digamma),
        (
            known.GELU_TANH_LOWEST,
            lambda x: (
                1
                + ((8 / arb.pi()).sqrt() * (x + known.GELU_CUBIC * x**3)).exp()
                + (8 / arb.pi()).sqrt() * (x + 3 * known.GELU_CUBIC * x**3)
            ),
        ),
    ],
)
def test_the_lowest_points_are_where_slopes_change_their_sign(lowest, slope):
    assert slope(lowest.lower()) < 0
    assert slope(lowest.upper()) > 0

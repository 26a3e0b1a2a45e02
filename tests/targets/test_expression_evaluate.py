"""Values on arrays and on balls: hand-computed numbers, dtypes, shapes, edges of the domain of definition."""

from __future__ import annotations

import math
import warnings

import flint
import numpy as np
import pytest
from flint import arb

from attnforge.errors import TargetError
from attnforge.targets.expression import Apply, Constant, Variable, enclose, evaluate, parse
from attnforge.targets.expression.evaluate import bounds
from attnforge.targets.expression.functions import FUNCTIONS
from attnforge.targets.expression.intervals import Interval, from_ball, to_ball

LONG = np.longdouble


@pytest.mark.parametrize(
    ("text", "x", "expected"),
    [
        ("2*x^3 - x/4 + 1", 2.0, 16.5),
        ("-x^2", 3.0, -9.0),
        ("2^-1", 0.0, 0.5),
        ("2^3^2", 0.0, 512.0),
        ("6/3/2", 0.0, 1.0),
        ("1 - 2 - 3", 0.0, -4.0),
        ("abs(x)", -2.0, 2.0),
        ("min(x, 1, 0.5)", 2.0, 0.5),
        ("max(x, 1, 0.5)", 2.0, 2.0),
        ("relu(x)", -2.0, 0.0),
        ("clamp(x, -1, 1)", 2.0, 1.0),
        ("sqrt(x)", 2.0, math.sqrt(2)),
        ("exp(x)", 2.0, math.exp(2)),
        ("log(x)", 2.0, math.log(2)),
        ("sin(x)", 2.0, math.sin(2)),
        ("cos(x)", 2.0, math.cos(2)),
        ("tan(x)", 2.0, math.tan(2)),
        ("sinh(x)", 2.0, math.sinh(2)),
        ("cosh(x)", 2.0, math.cosh(2)),
        ("tanh(x)", 2.0, math.tanh(2)),
        ("asin(x)", 0.5, math.asin(0.5)),
        ("acos(x)", 0.5, math.acos(0.5)),
        ("atan(x)", 2.0, math.atan(2)),
        ("erf(x)", 0.5, math.erf(0.5)),
        ("sigmoid(x)", 2.0, 1 / (1 + math.exp(-2))),
        ("softplus(x)", 2.0, math.log1p(math.exp(2))),
        ("sign(x)", -2.0, -1.0),
        ("step(x)", 0.0, 0.5),
        ("floor(x)", -1.5, -2.0),
        ("where(x < 1, 7, x)", 1.0, 1.0),
        ("where(x < 1, 7, x)", 0.5, 7.0),
        ("where(x <= 1, 7, x)", 1.0, 7.0),
        ("where(x > 1, 7, x)", 1.0, 1.0),
        ("where(x >= 1, 7, x)", 1.0, 7.0),
        ("where(x > 0, log(x), 3)", -1.0, 3.0),
        ("ln(x)", 2.0, math.log(2)),
        ("atan2(-x, -1)", 2.0, math.atan2(-2, -1)),
        ("atan2(0*x, -1)", -2.0, math.pi),
        ("hypot(x, -4)", 3.0, 5.0),
        ("hypot(x, 2, 2)", 1.0, 3.0),
        ("unit(x, 4)", -3.0, -0.6),
        ("erfc(x)", 3.0, math.erfc(3)),
        ("normcdf(x)", 0.5, math.erfc(-0.5 / math.sqrt(2)) / 2),
        ("silu(x)", -2.0, -2 / (1 + math.exp(2))),
        ("swish(x)", -2.0, -2 / (1 + math.exp(2))),
        ("gelu(x)", 2.0, math.erfc(-math.sqrt(2))),
        ("gelu_tanh(x)", 1.0, (1 + math.tanh(math.sqrt(2 / math.pi) * 1.044715)) / 2),
        ("sinc(x)", 0.0, 1.0),
        ("sinc(x)", 2.0, math.sin(2) / 2),
        ("sphericalj1(x)", 0.0, 0.0),
        ("sphericalj1(x)", 2.0, math.sin(2) / 4 - math.cos(2) / 2),
        ("besselj0(x)", 2.0, 0.22389077914123566),
        ("besselj1(x)", 2.0, 0.5767248077568734),
        ("besselj2(x)", 2.0, 0.35283402861563773),
        ("gamma(x)", 5.0, 24.0),
        ("gamma(x)", -0.5, -2 * math.sqrt(math.pi)),
        ("lgamma(x)", -0.5, math.log(2 * math.sqrt(math.pi))),
        ("digamma(x)", 1.0, -0.5772156649015329),
        ("digamma(x)", -0.25, 2.9141391202135278),
        ("trigamma(x)", 1.0, math.pi**2 / 6),
        ("trigamma(x)", -0.5, math.pi**2 / 2 + 4),
        ("pi", 0.0, math.pi),
        ("e", 0.0, math.e),
    ],
)
def test_values(text, x, expected):
    node = parse(text)
    value = evaluate(node, {"x": np.array([x, x])})
    np.testing.assert_allclose(
        value, [expected, expected], rtol=1e-15 if "gamma" in text or "bessel" in text else 4e-16
    )
    ball = enclose(node, {"x": arb(x)})
    assert ball.is_finite()
    assert ball.overlaps(arb(expected, 1e-15 * abs(expected) if "gamma" in text else 4e-16 * abs(expected)))
    assert ball.rad() < (1 if text == "step(x)" else 1e-14 * max(1.0, abs(expected)))


def test_the_table_of_values_covers_the_table_of_functions():
    used = " ".join(case[0] for case in test_values.pytestmark[0].args[1])
    assert all(name in used for name in FUNCTIONS)


@pytest.mark.parametrize("name", [name for name, function in FUNCTIONS.items() if function.arity])
def test_dtype_and_vectorisation(name):
    function = FUNCTIONS[name]
    node = Apply(name, tuple(map(Variable, "xyzw"[: function.arity])))
    points = np.linspace(0.1, 0.9, 5)
    for dtype in (np.float64, np.longdouble):
        shifts = zip("xyzw", (0, -0.05, 0.05, 0.1), strict=True)
        values = {each: (points + shift).astype(dtype) for each, shift in shifts}
        result = evaluate(node, values)
        assert result.dtype == dtype
        single = [evaluate(node, {each: value[i] for each, value in values.items()}) for i in range(5)]
        np.testing.assert_array_equal(result, single)
    if function.extended:  # the result has more than float64's accuracy
        with flint.ctx.workprec(100):
            exact = enclose(node, {each: _exact(value[2]) for each, value in values.items()})
            assert abs(_exact(result[2]) - exact) < 5e-19


def test_extended_precision_constants():
    assert evaluate(parse("pi"), {"x": LONG(0)}) == 4 * np.arctan(LONG(1))
    assert float(evaluate(parse("pi"), {})) == math.pi
    assert float(evaluate(parse("e"), {})) == math.e
    assert evaluate(parse("0.1"), {"x": LONG(0)}) == LONG(0.1)


def test_shapes_and_integer_input():
    assert evaluate(parse("x + y"), {"x": np.zeros((3, 1)), "y": np.zeros(4)}).shape == (3, 4)
    assert evaluate(parse("7"), {"x": np.zeros((2, 3))}).shape == (2, 3)
    assert evaluate(parse("7"), {}).shape == ()
    assert evaluate(parse("1/x"), {"x": [1, 2]}).tolist() == [1.0, 0.5]
    assert evaluate(parse("2^x"), {"x": np.array([-1], dtype=np.int64)}).tolist() == [0.5]
    assert evaluate(parse("x"), {"x": np.float32(0.5)}).dtype == np.float64


def test_the_result_is_a_new_array():
    x = np.zeros(3)
    evaluate(parse("x"), {"x": x})[0] = 1.0
    evaluate(parse("7"), {"x": x})[0] = 1.0
    assert not x.any()


def test_no_warning_leaks_and_nan_is_passed_on():
    x = np.array([-1.0, 0.0, 1e308, np.inf, np.nan])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name, function in FUNCTIONS.items():
            for value in (x, np.float64(-1.0), np.float64(0.0), np.float64(1e308)):
                node = Apply(name, (Variable("x"),) * function.arity)
                evaluate(node, {"x": value})
        assert np.isnan(evaluate(parse("sqrt(x)"), {"x": -1.0}))
        assert np.isnan(evaluate(parse("max(x, 0)"), {"x": np.nan}))
        assert np.isposinf(evaluate(parse("1/x"), {"x": 0.0}))


def test_stable_for_large_arguments():
    x = np.array([-1000.0, -40.0, 40.0, 1000.0])
    np.testing.assert_allclose(evaluate(parse("sigmoid(x)"), {"x": x}), [0, math.exp(-40), 1, 1], rtol=1e-14)
    np.testing.assert_allclose(evaluate(parse("softplus(x)"), {"x": x}), [0, math.exp(-40), 40, 1000], rtol=1e-14)
    assert enclose(parse("sigmoid(x)"), {"x": arb(-1e300)}).abs_upper() < 1e-300
    assert enclose(parse("sigmoid(x)"), {"x": arb(1e300)}).contains(1)
    assert enclose(parse("softplus(x)"), {"x": arb(1e300)}).contains(arb(1e300))
    assert enclose(parse("softplus(x)"), {"x": arb(-1e300)}).abs_upper() < 1e-300


@pytest.mark.parametrize(
    ("text", "low", "high", "expected"),
    [
        ("x^2", -1, 2, (0, 4)),
        ("x^3", -1, 2, (-1, 8)),
        ("x^-2", 1, 2, (0.25, 1)),
        ("x^-1", -2, -1, (-1, -0.5)),
        ("x^0", -1, 1, (1, 1)),
        ("x^0.5", 0, 4, (0, 2)),
        ("x^1.5", 0, 4, (0, 8)),
        ("2^x", -1, 3, (0.5, 8)),
        ("x^x", 1, 2, (1, 4)),
        ("abs(x)", -3, 2, (0, 3)),
        ("abs(x)", -3, -2, (2, 3)),
        ("relu(x)", -3, 2, (0, 2)),
        ("max(x, 1)", -3, 2, (1, 2)),
        ("min(x, 1, 0)", -3, 2, (-3, 0)),
        ("clamp(x, -1, 1)", -3, 0.5, (-1, 0.5)),
        ("sign(x)", -1, 1, (-1, 1)),
        ("sign(x)", 0, 0, (-1, 1)),
        ("sign(x)", 1, 2, (1, 1)),
        ("sign(x)", -2, -1, (-1, -1)),
        ("step(x)", -1, 0, (0, 1)),
        ("step(x)", 1, 2, (1, 1)),
        ("step(x)", -2, -1, (0, 0)),
        ("floor(x)", -0.5, 2, (-1, 2)),
        ("where(x < 1, 0, x)", -1, 0.5, (0, 0)),
        ("where(x < 1, 0, x)", 1, 2, (1, 2)),
        ("where(x < 1, 0, x)", 0.5, 2, (0, 2)),
        ("where(x < 0, 0, log(x + 1))", 0, 1, (0, math.log(2))),
        ("where(x < 1, 5, log(x))", -1, 0, (5, 5)),
        ("hypot(x, 3)", -4, 1, (3, 5)),
        ("unit(x, 3)", -4, 4, (-0.8, 0.8)),
        ("unit(x, 0)", -1, 1, (-1, 1)),
        ("unit(3, x)", -4, 1, (0.6, 1)),
        ("atan2(x, 1)", -1, 1, (-math.pi / 4, math.pi / 4)),
        ("atan2(1, x)", -1, 1, (math.pi / 4, 3 * math.pi / 4)),
        ("atan2(-1, x)", -1, 1, (-3 * math.pi / 4, -math.pi / 4)),
        ("atan2(x, -1)", 0, 1, (3 * math.pi / 4, math.pi)),
        ("erfc(x)", -1, 1, (math.erfc(1), math.erfc(-1))),
        ("normcdf(x)", 0, 1e200, (0.5, 1)),
        ("silu(x)", -5, 0, (-0.27846454276107374, 0)),
        ("gelu(x)", -5, 0, (-0.16997120747990369, 0)),
        ("gelu_tanh(x)", -5, 0, (-0.17004075057125412, 0)),
        ("silu(x)", -5, -4, (-4 / (1 + math.exp(4)), -5 / (1 + math.exp(5)))),
        ("gamma(x)", 1, 3, (0.8856031944108887, 2)),
        ("gamma(x)", 3, 4, (2, 6)),
        ("lgamma(x)", 1, 3, (-0.12148629053584961, math.log(2))),
        ("digamma(x)", 1, 2, (-0.5772156649015329, 0.42278433509846714)),
        ("digamma(x)", -0.75, -0.25, (-2.8941202000429321, 2.9141391202135278)),
        ("trigamma(x)", 1, 2, (math.pi**2 / 6 - 1, math.pi**2 / 6)),
        ("sinc(x)", -1e-200, 1e-200, (1, 1)),
        ("besselj0(x)", -1e300, 1e300, (-1, 1)),
        ("sqrt(x)", 0, 4, (0, 2)),
        ("sqrt(1 - x^2)", -1, 1, (0, 1)),
        ("log(exp(0*x))", -1, 1, (0, 0)),
        ("cosh(x)", -1, 0.5, (1, math.cosh(1))),
        ("tanh(x)", -1, 1, (math.tanh(-1), math.tanh(1))),
        ("acos(x)", -1, 1, (0, math.pi)),
        ("asin(sin(x))", -1e300, 1e300, (-math.pi / 2, math.pi / 2)),
        ("tan(x)", -1, 1.5, (math.tan(-1), math.tan(1.5))),
        ("1/(2 + sign(x))", -1, 1, (1 / 3, 1)),
        ("x - x", 0, 1, (-1, 1)),
        ("x*x*x", -1, 2, (-4, 8)),
    ],
)
def test_intervals_are_tight(text, low, high, expected):
    lower, upper = bounds(parse(text), {"x": Interval(arb(low), arb(high))})
    slack = 1e-14 * max(1.0, *map(abs, expected))
    assert expected[0] - slack <= float(lower) <= expected[0] + slack
    assert expected[1] - slack <= float(upper) <= expected[1] + slack
    assert not lower > expected[0] + 1e-15 * abs(expected[0])
    assert not upper < expected[1] - 1e-15 * abs(expected[1])


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("1/x", -1, 1),
        ("1/x", 0, 1),
        ("sqrt(x)", -1e-300, 1),
        ("log(x)", 0, 1),
        ("x^0.5", -1, 1),
        ("x^-1", -1, 1),
        ("x^-0.5", 0, 1),
        ("0^x", -1, 1),
        ("asin(x)", 0, 1.5),
        ("acos(x)", -1.5, 0),
        ("tan(x)", 1, 2),
        ("tan(x)", 0, 4),
        ("gamma(x)", 0, 1),
        ("gamma(x)", -1.5, -0.5),
        ("lgamma(x)", -0.5, 0.5),
        ("digamma(x)", -1, -0.5),
        ("trigamma(x)", -1.5, -0.5),
        ("atan2(x, -1)", -1, 1),
        ("atan2(x, 0)", 0, 1),
        ("atan2(0, x)", -1, 1),
        ("where(x < 0, 1, log(x))", -1, 1),
        ("where(log(x) < 0, 1, 2)", -1, 1),
        ("0*(1/x)", -1, 1),
        ("max(1/x, 0)", -1, 1),
        ("sign(1/x)", -1, 1),
        ("clamp(log(x), -1, 1)", -1, 1),
    ],
)
def test_undefined_somewhere_is_nan(text, low, high):
    assert bounds(parse(text), {"x": Interval(arb(low), arb(high))}).lower.is_nan()
    ball = enclose(parse(text), {"x": arb(low).union(arb(high))})
    assert ball.is_nan()
    assert ball.contains(arb(5))


def test_balls_that_touch_zero_stay_on_their_side():
    for high in (1.0, 0.1, 3e-200, 1e200):
        ball = to_ball(Interval(arb(0), arb(high)))
        assert ball.lower() == 0
        assert ball.upper() >= high
        assert ball.upper() <= high * (1 + 1e-8)
        assert to_ball(Interval(arb(-high), arb(0))).upper() == 0
    square = enclose(parse("x^2"), {"x": arb(0, 1)})
    assert square.lower() >= 0
    assert enclose(parse("sqrt(x)"), {"x": square}).is_finite()


def test_constants_are_exact():
    assert enclose(parse("0.1"), {}) == arb(0.1)
    assert enclose(parse("pi"), {}, precision=200).rad() < arb(2) ** -190
    assert enclose(parse("1/3"), {}).contains(arb(1) / 3)


def test_precision_is_local():
    before = flint.ctx.prec
    assert enclose(parse("1/3"), {}, precision=300).rad() < arb(2) ** -290
    assert flint.ctx.prec == before
    with pytest.raises(TargetError):
        enclose(parse("1/y"), {}, precision=300)
    assert flint.ctx.prec == before


def test_low_precision_is_still_an_enclosure():
    for text in ("-x", "abs(-x)", "x - 0.3", "max(-x, y)", "sin(x) - x^3", "x*-y"):
        x, y = arb(0.1), arb(-0.123456789)
        exact = enclose(parse(text), {"x": x, "y": y}, precision=200)
        assert enclose(parse(text), {"x": x, "y": y}, precision=10).contains(exact)


@pytest.mark.parametrize("values", [{}, {"y": 1.0}])
def test_missing_values(values):
    with pytest.raises(TargetError, match="needs a value for `x`"):
        evaluate(parse("x"), values)
    with pytest.raises(TargetError, match="needs a value for `x`"):
        enclose(parse("x"), {name: arb(value) for name, value in values.items()})


@pytest.mark.parametrize("value", [1j, "x", None, [object()]])
def test_values_are_real(value):
    with pytest.raises(TargetError, match="real numbers"):
        evaluate(parse("x"), {"x": value})


def test_trees_built_by_hand_are_checked():
    for node in (Apply("foo", (Constant(1.0),)), Apply("sin", ()), Apply("max", (Constant(1.0),))):
        with pytest.raises(TargetError, match="must be"):
            evaluate(node, {})
        with pytest.raises(TargetError, match="must be"):
            enclose(node, {})


def test_from_ball_and_back():
    ball = arb(3, 0.25)
    assert to_ball(from_ball(ball)).contains(ball)


def _exact(value: np.longdouble) -> arb:
    high = float(value)
    return arb(high) + arb(float(value - LONG(high)))

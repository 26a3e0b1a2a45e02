"""Derivatives: their text, their simplification, and what they say at kinks and jumps."""

from __future__ import annotations

import pytest
from flint import arb

from attnforge.targets.expression import Apply, Constant, Variable, derivative, enclose, evaluate, parse, to_text
from attnforge.targets.expression.evaluate import bounds
from attnforge.targets.expression.intervals import Interval
from attnforge.targets.expression.simplify import minus, plus, times


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3", "0"),
        ("pi*e", "0"),
        ("y", "0"),
        ("x", "1"),
        ("x + y", "1"),
        ("-x", "-1"),
        ("3*x", "3"),
        ("x*y", "y"),
        ("x/2", "1/2"),
        ("2/x", "-(2/x^2)"),
        ("x^2", "2*x"),
        ("x^3", "3*x^2"),
        ("x^0.5", "0.5*x^-0.5"),
        ("x^0.1", "0.1*x^(0.1 - 1)"),
        ("y^x", "y^x*log(y)"),
        ("sin(2*x)", "2*cos(2*x)"),
        ("exp(-x)", "-exp(-x)"),
        ("log(x)", "1/x"),
        ("sqrt(x)", "1/(2*sqrt(x))"),
        ("tanh(x)", "1/cosh(x)^2"),
        ("abs(x)", "sign(x)"),
        ("relu(x)", "step(x)"),
        ("max(x, 0)", "step(x)"),
        ("min(x, 0)", "step(-x)"),
        ("max(x, y)", "step(x - y)"),
        ("sign(x)", "0/x"),
        ("sign(y)*x", "sign(y)"),
    ],
)
def test_text(text, expected):
    assert to_text(derivative(parse(text), "x")) == expected


def test_indexed_variables():
    assert to_text(derivative(parse("x[0]*x[1]"), "x[1]")) == "x[0]"


def test_numbers_are_combined_only_exactly():
    assert plus(Constant(1.0), Constant(2.0)) == Constant(3.0)
    assert to_text(plus(Constant(0.1), Constant(0.2))) == "0.1 + 0.2"
    assert to_text(times(Constant(0.1), Constant(3.0))) == "0.1*3"
    assert isinstance(times(Constant(1e200), Constant(1e200)), Apply)
    assert minus(minus(Variable("x"))) == Variable("x")
    assert to_text(times(Constant(0.0), Variable("x"))) == "0*x"


@pytest.mark.parametrize(
    ("text", "low", "high", "expected"),
    [
        ("abs(x)", -1, 1, (-1, 1)),
        ("abs(x)", 0, 0, (-1, 1)),
        ("abs(x)", 0.5, 1, (1, 1)),
        ("relu(x)", -1, 1, (0, 1)),
        ("max(x, -x)", -1, 1, (-1, 1)),
        ("max(x, 2*x)", 3, 4, (2, 2)),
        ("min(x, 2*x)", 3, 4, (1, 1)),
        ("min(x, 2*x)", -1, 2, (0, 3)),
        ("clamp(x, -1, 1)", -0.5, 0.5, (1, 1)),
        ("clamp(x, -1, 1)", 0, 2, (0, 1)),
        ("clamp(x, -1, 1)", 2, 3, (0, 0)),
        ("clamp(0, x, 3)", 1, 2, (1, 1)),
        ("clamp(5, -1, x)", 1, 2, (1, 1)),
        ("max(x, 0, 1 - x, x/2)", 2, 3, (1, 1)),
    ],
)
def test_kinks_enclose_the_clarke_derivative(text, low, high, expected):
    interval = bounds(derivative(parse(text), "x"), {"x": Interval(arb(low), arb(high))})
    assert (float(interval.lower), float(interval.upper)) == expected


@pytest.mark.parametrize("text", ["max(x, x, x)", "min(x, x, x, x, x)", "max(x, x)", "max(x, min(x, x))"])
def test_ties_give_a_mean_of_the_slopes(text):
    assert evaluate(derivative(parse(text), "x"), {"x": 1.0}) == 1.0


@pytest.mark.parametrize(
    "text",
    ["sign(x)", "step(x)", "x*sign(x)", "sign(x)*0", "sqrt(x)", "sqrt(abs(x))", "1/x", "x^0.5", "1/(1 + step(x))"],
)
def test_no_slope_bounds_a_jump(text):
    """Otherwise a Lipschitz constant read off the derivative would be wrong."""
    slope = derivative(parse(text), "x")
    assert enclose(slope, {"x": arb(0, 1)}).is_nan()
    assert bounds(slope, {"x": Interval(arb(-1), arb(0))}).lower.is_nan()


def test_jumps_are_flat_elsewhere():
    assert enclose(derivative(parse("sign(x) + x"), "x"), {"x": arb(2, 1)}) == 1


def test_long_products_stay_small():
    node = parse("*".join(f"x[{i}]" for i in range(500)))
    assert to_text(derivative(node, "x[0]")).count("*") == 498
    twice = derivative(derivative(parse("*".join(["x"] * 300)), "x"), "x")
    assert evaluate(twice, {"x": 1.0}) == 300 * 299

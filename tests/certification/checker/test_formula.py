"""Formulas on cells against their values at points; kinks, jumps, poles and edges of domains."""

import numpy as np
import pytest
from flint import arb

from attnforge.certification.checker.formula import FormulaOn
from attnforge.certification.checker.search import exactly
from attnforge.certification.checker.space import Form, Space
from attnforge.certification.checker.taylor import ONE, ZERO, Cell
from attnforge.targets import Box, Formula
from tests.certification.checker.reference import formula_at

SMOOTH = [
    "sin(3*x)*cos(y)", "exp(x*y)/(2 + y)", "x^3 - 2*x*y^2 + 1", "sqrt(2 + x)*log(3 + y)", "tanh(4*x - y)",
    "atan(x)/(1 + x^2)", "sigmoid(x + y)*softplus(x - y)", "erf(x) + cosh(y) - sinh(x)", "(2 + x)^y", "(3 + x)^-2",
    "sinc(4*x) - sphericalj1(3*y)", "besselj0(3*x)*besselj1(2*y) + besselj2(x)", "gelu(x) + gelu_tanh(2*y) - silu(x*y)",
    "gamma(2 + x)/lgamma(4 + y)", "digamma(2 + x) + trigamma(2 + y)", "gamma(-0.5 + x/4) + lgamma(-1.5 + y/4)",
    "erfc(x)*normcdf(2*y)", "hypot(x, y, 1)", "atan2(y, 2 + x)", "atan2(2 + x, y) - atan2(x - 2, y)",
    "where(x < 2, x*y, 1/(x - y))",
    "(3 + x)^1.5", "asin(x/3) + acos(y/3)", "tan(x/2)*pi", "e^(x - y)", "x^0 + y^1", "(x - y)^7", "(x*y)^2",
]  # fmt: skip
KINKED = [
    "abs(x - y)", "max(x, y, 0.1)", "min(x^2, y)", "clamp(2*x, -0.5, y)", "relu(x)*relu(y)", "abs(abs(x) - 0.3)",
    "hypot(x, y)", "hypot(x - y, 2*x, y)", "where(x < y, x^2, y^2)", "where(x < 0, exp(x) - 1, x)*y",
    "max(sin(5*x), cos(5*y))", "abs(x)^3", "exp(abs(x))*relu(y - x)", "max(x, -x)/(2 + abs(y))",
]  # fmt: skip
JUMPING = [
    "sign(x)", "step(x - y)*x", "sign(x)*abs(x) + y", "max(sign(x), step(y))", "floor(3*x)", "where(x < y, 1, x)",
    "where(x < 0, sqrt(1 + x), 1/(1 + x))", "where(x + y < 0, 2, log(x + y + 1.0))",
]  # fmt: skip
CELLS = 12


def on(formula, low, high, order=4):
    cell = Cell(tuple(low), tuple(high), order)
    inputs = {name: Form({i: ONE}, ZERO) for i, name in enumerate(formula.names)}
    space = Space(formula.domain.lower.tolist(), formula.domain.upper.tolist())
    return cell, FormulaOn(inputs, space, cell)(formula.tree)


@pytest.mark.parametrize("text", [*SMOOTH, *KINKED, *JUMPING])
def test_ranges_contain_values(text):
    rng = np.random.default_rng(len(text))
    formula = Formula(text, Box([-1.0, -1.0], [1.0, 1.0]), ("x", "y"))
    with exactly(4):
        for _ in range(CELLS):
            low = rng.uniform(-1, 0.9, 2)
            high = np.minimum(low + 10.0 ** rng.uniform(-4, 0.3, 2), 1.0)
            if rng.random() < 0.3:
                low, high = -high, high * 1.0  # around kinks and jumps, the middle on them
                low, high = np.minimum(low, high), np.maximum(low, high)
            cell, model = on(formula, low.tolist(), high.tolist())
            span = cell.range(model)
            for point in [*rng.uniform(low, high, size=(6, 2)).tolist(), low.tolist(), high.tolist()]:
                value = formula_at(formula.tree, dict(zip("xy", point, strict=True)))
                if value.rad() < 1e-9:  # jumps have no value at the jump
                    assert not span.is_finite() or span.overlaps(value), (low, high, point)
                    assert not model.over[0].is_finite() or model.over[0].overlaps(value)


@pytest.mark.parametrize("text", SMOOTH)
def test_smooth_formulas_are_known_to_high_order_on_small_cells(text):
    formula = Formula(text, Box([-1.0, -1.0], [1.0, 1.0]), ("x", "y"))
    with exactly(4):
        cell, model = on(formula, (0.3, -0.4), (0.301, -0.399))
        middle = formula_at(formula.tree, {"x": float(cell.middle[0]), "y": float(cell.middle[1])})
        assert model.at[0].overlaps(middle)
        slope = max(abs(float(model.at[k].mid())) for k in cell.terms.axes)
        assert float(cell.range(model).rad()) <= slope * 1.1e-3 + 1e-5


@pytest.mark.parametrize(
    "text", ["sin(3*x)", "exp(x)/(2 + x)", "tanh(4*x)", "abs(x - 3)", "(2 + x)^2.5", "sqrt(2 - x)"]
)
def test_coefficients_are_the_derivatives(text):
    """Of degree one and two, against central differences of exact values."""
    formula, h = Formula(text, Box(-1.0, 1.0), ("x",)), 2.0**-20
    with exactly(4):
        cell, model = on(formula, (0.25,), (0.5,))
        x = float(cell.middle[0])
        before, here, after = (formula_at(formula.tree, {"x": y}) for y in (x - h, x, x + h))
        assert abs(float(model.at[1]) - float((after - before) / (2 * h))) < 1e-9
        assert abs(float(model.at[2]) - float((after - 2 * here + before) / (2 * h * h))) < 1e-8


def test_kinks_have_both_slopes_and_nothing_above():
    formula = Formula("abs(x)", Box(-1.0, 1.0), ("x",))
    with exactly(3):
        cell, model = on(formula, (-0.25,), (0.5,), 3)
        assert model.over[1].contains(-1)
        assert model.over[1].contains(1)
        assert not model.over[2].is_finite()
        assert not model.at[1].is_finite()
        assert model.at[0] == 0.125
        assert cell.range(model).contains(0)
        assert cell.range(model).contains(0.5)


def test_jumps_have_no_slope():
    formula = Formula("sign(x)", Box(-1.0, 1.0), ("x",))
    with exactly(3):
        cell, model = on(formula, (-0.25,), (0.5,), 3)
        assert not model.over[1].is_finite()
        assert cell.range(model).contains(-1)
        assert cell.range(model).contains(1)
        _, right = on(formula, (0.25,), (0.5,), 3)
        assert right.over[0] == 1


@pytest.mark.parametrize(
    ("text", "low", "high"), [("1/x", -0.5, 0.5), ("tan(2*x)", 0.5, 1.0), ("log(abs(x))", -0.1, 0.5)]
)
def test_nothing_is_said_across_a_pole(text, low, high):
    formula = Formula(text, Box(0.1, 0.2), ("x",)).on(Box(0.1, 0.2))
    with exactly(3):
        cell, model = on(formula, (low,), (high,), 3)
        assert not cell.range(model).is_finite()


def test_square_roots_begin_at_zero_without_a_slope():
    formula = Formula("sqrt(x)", Box(0.0, 1.0), ("x",))
    with exactly(3):
        cell, model = on(formula, (0.0,), (0.25,), 3)
        assert not model.over[1].is_finite()
        span = cell.range(model)
        assert not span.is_finite() or (span.contains(0) and span.contains(0.5))


def test_constants_are_exact():
    formula = Formula("pi - e", Box(0.0, 1.0), ("x",))
    with exactly(3):
        cell, model = on(formula, (0.0,), (1.0,), 3)
        assert cell.range(model).overlaps(arb.pi() - arb.const_e())
        assert float(cell.range(model).rad()) < 1e-40

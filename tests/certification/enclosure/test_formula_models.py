"""Models of formulas: they hold every value on a cell, closely where the formula is smooth, and know its kinks."""

from __future__ import annotations

import numpy as np
import pytest
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st

from attnforge.balls import precision
from attnforge.certification.enclosure.degrees import degrees
from attnforge.certification.enclosure.formula_models import formula_models
from attnforge.certification.enclosure.taylor_models import Models
from attnforge.errors import CertificateError
from attnforge.targets.expression import parse
from attnforge.targets.expression.evaluate import enclose

NAMES, DEGREE = ("x", "y"), 4

FORMULAS = [
    "x*y + x^3 - 2*y^2",
    "exp(-(x^2 + y^2))*cos(3*y)",
    "1/(3 + x - y^2)",
    "sqrt(4 + x*y)",
    "log(3 + x + y)*tanh(x - 2*y)",
    "(3 + x)^1.5/(2 + y)^2",
    "(2 + x^2)^y + pi*e",
    "sinc(x*y) + sphericalj1(x) - besselj0(3*x)*besselj1(y)*besselj2(x + y)",
    "gelu(x*y) + gelu_tanh(x) + silu(y) + erfc(x)*normcdf(y)",
    "gamma(1.5 + x*y/9) + lgamma(2 + y/4) + digamma(3 + x/4)*trigamma(3 + y/4)",
    "hypot(x, y, 2) + unit(x, y, 2)",
    "atan2(x, 4 + y) + atan2(4 + x, y) - atan2(x - 4, y)",
    "where(x < 9, x*y, exp(x)) + where(y > 9, x, y^2) + floor(0.5 + 0*x)",
    "sin(x*y)*erf(x) + atan(y) + sigmoid(x + y) + softplus(x*y)",
    "abs(x - 5)*max(y, x + 7) + relu(x + 4) + min(x, 3, y + 8) + clamp(y, -3, 3) + sign(x - 9) + step(y + 9)",
]


def models(text, lower, upper, names=NAMES, degree=DEGREE):
    inputs = Models.variables(degrees(len(names), degree), np.asarray(lower, float), np.asarray(upper, float))
    return formula_models(parse(text), {name: inputs[:, i] for i, name in enumerate(names)})


def polynomial(found, cell, t):
    return float((found.c[:, cell] * (t**found.table.exponents).prod(axis=1)).sum())


@pytest.mark.parametrize("text", FORMULAS)
@given(st.integers(0, 10**6))
@settings(max_examples=8, deadline=None)
def test_models_hold_every_value_closely(text, seed):
    rng = np.random.default_rng(seed)
    middle, radius = rng.uniform(-1, 1, (3, 2)), rng.uniform(0.001, 0.04, (3, 2))
    lower, upper = middle - radius, middle + radius
    found, at = models(text, lower, upper), models(text, middle, middle)
    for cell in range(3):
        point = rng.uniform(lower[cell], upper[cell])
        t = (point - (lower + upper)[cell] / 2) / ((upper - lower)[cell] / 2)
        for model, where, by in ((found, point, t), (at, middle[cell], np.zeros(2))):
            with precision(120):
                expected = float(enclose(parse(text), dict(zip(NAMES, map(arb, where.tolist()), strict=True))).mid())
            assert abs(polynomial(model, cell, by) - expected) <= model.rest.values[cell] + 1e-13 * (1 + abs(expected))
    assert at.rest.values.max() < 1e-12
    assert found.rest.values.max() < 1e-1


def test_the_rest_is_needed():
    """A point outside the cell is not in its model: the law above can fail."""
    found = models("exp(x)*y", [[0.4, 0.4]], [[0.6, 0.6]])
    assert abs(polynomial(found, 0, np.array([4.0, 4.0])) - np.exp(0.9) * 0.9) > found.rest.values[0]


def test_kinks_cost_their_chord_inside_a_cell_and_nothing_beside_it():
    lower = np.array([[-0.5, -0.5], [0.0, -0.5], [-1.0, -0.5]])
    found = models("abs(x) + y", lower, lower + 1.0, degree=2)
    assert found.rest.values.tolist() == pytest.approx([0.25, 0.0, 0.0], abs=1e-15)
    assert found.c[found.table.place[1, 0]].tolist() == [0.0, 0.5, -0.5]
    jump = models("step(x) + y", lower, lower + 1.0, degree=2)
    assert jump.rest.values.tolist() == [0.5] * 3  # at zero a jump takes neither value


def test_what_is_undefined_is_unknown():
    points = np.array([[1.0, -1.0], [-1.0, 1.0]])
    assert np.isinf(models("sqrt(x) + 0*log(y)", points, points).rest.values).all()


def test_inputs_without_a_name_are_refused():
    with pytest.raises(CertificateError, match="reads x, y"):
        models("x + z", np.zeros((1, 2)), np.zeros((1, 2)))


CELLS = np.array([[-0.5], [-0.25], [0.0], [0.25], [-0.125]])


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("where(x < 0, -x, x)", [True, True, True, True, False]),
        ("where(x < 0, 1, x)", [True, False, True, True, False]),  # to the left its value at zero is another one
        ("where(x <= 0, 1, x)", [True, True, False, True, False]),
        ("where(x < 0, 1/(x - 2), log(x))", [True, False, False, True, False]),
    ],
)
def test_cells_may_touch_the_border_only_where_the_branches_meet(text, known):
    """On the side that has the border's value, and on both if they meet; log(x) has no series at zero."""
    found = models(text, CELLS, CELLS + 0.25, ("x",), 6)
    assert (found.rest.values < 0.02).tolist() == known


def test_a_branch_that_is_not_chosen_may_have_no_value():
    found = models("where(x < 0, x^2, sqrt(x))", CELLS, CELLS + 0.25, ("x",), 6)
    assert (found.rest.values < 0.02).tolist() == [True, True, False, True, False]
    assert found.c[0, :2].tolist() == [0.140625, 0.015625]

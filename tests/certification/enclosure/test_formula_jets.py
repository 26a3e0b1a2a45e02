"""Jets of formulas: along every line they are the power series of python-flint, and over a cell they contain them."""

from __future__ import annotations

import numpy as np
import pytest
from flint import arb, arb_series, ctx
from hypothesis import given, settings
from hypothesis import strategies as st

from attnforge.balls import precision
from attnforge.certification.enclosure.formula_jets import formula_jets
from attnforge.errors import CertificateError
from attnforge.targets.expression import parse
from attnforge.targets.expression.evaluate import taylor

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


def along(text, point, direction):
    """The power series of the formula along a line, as balls."""
    before = ctx.cap
    ctx.cap = DEGREE + 1
    try:
        with precision(120):
            lines = {
                n: arb_series([arb(float(p)), arb(float(d))]) for n, p, d in zip(NAMES, point, direction, strict=True)
            }
            found = taylor(parse(text), lines)
            return np.array([float(found[j].mid()) for j in range(DEGREE + 1)])
    finally:
        ctx.cap = before


def on_line(jets, cell, direction):
    """Midpoints and radii of the coefficients along a line."""
    scale = (direction**jets.table.exponents).prod(axis=1)
    rows = [jets.table.totals == j for j in range(DEGREE + 1)]
    mid = np.array([(jets.mid[row, cell] * scale[row]).sum() for row in rows])
    return mid, np.array([(jets.rad[row, cell] * np.abs(scale[row])).sum() for row in rows])


@pytest.mark.parametrize("text", FORMULAS)
@given(st.integers(0, 10**6))
@settings(max_examples=8, deadline=None)
def test_jets_contain_the_series_along_lines(text, seed):
    rng = np.random.default_rng(seed)
    middle, radius, direction = rng.uniform(-1, 1, (3, 2)), rng.uniform(0.001, 0.1, (3, 2)), rng.normal(size=2)
    at, over = formula_jets(parse(text), NAMES, middle, radius, DEGREE)
    for cell in range(3):
        inside = middle[cell] + rng.uniform(-1, 1, 2) * radius[cell]
        for jets, point, slack in ((at, middle[cell], 1e-13), (over, inside, 1e-13)):
            expected = along(text, point, direction)
            mid, rad = on_line(jets, cell, direction)
            assert (np.abs(mid - expected) <= rad + slack * (1 + np.abs(expected))).all()
    assert at.rad.max() < 1e-10


def test_the_radii_are_needed():
    """A point outside the cell is not in its jets: the law above can fail."""
    _, over = formula_jets(parse("exp(x)*y"), NAMES, np.array([[0.5, 0.5]]), np.array([[0.1, 0.1]]), DEGREE)
    mid, rad = on_line(over, 0, np.array([1.0, 1.0]))
    assert (np.abs(mid - along("exp(x)*y", (0.9, 0.9), (1.0, 1.0))) > rad)[0]


def test_kinks_are_unknown_inside_a_cell_and_known_beside_it():
    middle, radius = np.array([[0.0, 0.0], [0.5, 0.0], [-0.5, 0.0]]), np.full((3, 2), 0.5)
    at, over = formula_jets(parse("abs(x) + y"), NAMES, middle, radius, 2)
    assert over.known.tolist() == at.known.tolist() == [False, True, True]
    slope = at.mid[at.table.place[1, 0]]
    assert slope[1:].tolist() == [1.0, -1.0]
    _, jump = formula_jets(parse("step(x) + y"), NAMES, middle, radius, 2)
    assert not jump.known.any()  # at zero a jump takes neither value


def test_what_is_undefined_is_unknown():
    at, _ = formula_jets(parse("sqrt(x) + 0*log(y)"), NAMES, np.array([[1.0, -1.0], [-1.0, 1.0]]), np.zeros((2, 2)), 3)
    assert not at.known.any()


def test_inputs_without_a_name_are_refused():
    with pytest.raises(CertificateError, match="reads x, y"):
        formula_jets(parse("x + z"), NAMES, np.zeros((1, 2)), np.zeros((1, 2)), 2)

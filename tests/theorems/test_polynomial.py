"""Polynomials in closed form: reached, counted, refused."""

from __future__ import annotations

import numpy as np
import pytest

from attnforge.errors import RefusalError, ToleranceError
from attnforge.targets import Box, Formula, Function
from attnforge.theorems.polynomial import PolynomialHead

HEAD = PolynomialHead()


def formula(text, lower=-1.0, upper=1.0, names="x"):
    shape = (len(names),)
    return Formula(text, Box(lower, upper, shape=shape), tuple(names))


def error_of(target, plan):
    box = target.domain
    points = np.random.default_rng(2).uniform(box.lower, box.upper, (3000, *box.shape))
    points[:2] = box.lower, box.upper
    return float(np.abs(HEAD.build(target, plan)(points[:, None])[:, 0, 0] - target.values(points)).max())


@pytest.mark.parametrize("tol", [1e-3, 1e-8, 1e-12])
@pytest.mark.parametrize(
    "target",
    [
        formula("x^3 - x", -2.0, 2.0),
        formula("x*y", -1.0, 2.0, "xy"),
        formula("x^2*y - 3*y + 1/2", -1.0, 1.0, "xy"),
        formula("5"),
        formula("x^2", 3.0, 4.0),
    ],
    ids=["cubic", "product", "two inputs", "constant", "off centre"],
)
def test_reaches_its_tolerance(target, tol):
    plan = HEAD.size(target, tol, "float64")
    assert error_of(target, plan) <= tol
    assert not HEAD.fitted


@pytest.mark.parametrize("text", ["0*x", "x - x", "x^2 - x^2"])
def test_the_zero_polynomial(text):
    plan = HEAD.size(formula(text), 1e-9, "float64")
    assert error_of(formula(text), plan) == 0.0


def test_degree_twelve_is_the_last():
    assert HEAD.accepts(formula("x^12")) is None
    assert error_of(formula("x^12"), HEAD.size(formula("x^12"), 1e-9, "float64")) <= 1e-9
    assert HEAD.accepts(formula("x^13")) == "the formula is not a polynomial of degree at most 12"


@pytest.mark.parametrize("text", ["sin(x)", "abs(x)", "1/(2 + x)", "sqrt(x + 2)"])
def test_other_formulas_are_not_taken(text):
    assert HEAD.accepts(formula(text)) == "the formula is not a polynomial of degree at most 12"
    with pytest.raises(RefusalError, match="must be a polynomial"):
        HEAD.size(formula(text), 1e-3, "float64")


def test_callables_and_many_inputs_are_not_taken():
    assert HEAD.accepts(Function(lambda x: x[..., 0], Box(0, 1, shape=(1,)))) == "the target is not a formula"
    assert HEAD.accepts(formula("a*b*c*d*f", names="abcdf")) == "5 inputs are more than 4"


def test_precision_costs_anchors_not_by_the_spacing():
    """Errors fall like exp(-pi^2/c): from 1e-4 to 1e-12 the anchors about triple, where hard cells need 1e8 times."""
    counts = [HEAD.size(formula("x^3 - x"), tol, "float64").heads[0].anchors for tol in (1e-4, 1e-8, 1e-12)]
    assert counts == sorted(counts)
    assert counts[-1] <= 3 * counts[0]


def test_below_rounding_is_refused():
    with pytest.raises(ToleranceError, match=r"degree 3 to .* at best.*Ask for tol >= "):
        HEAD.size(formula("x^3 - x"), 1e-19, "float64")

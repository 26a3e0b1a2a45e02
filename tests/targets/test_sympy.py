"""sympy expressions as targets, walked and not printed: nothing is simplified, and nothing is executed."""

from __future__ import annotations

import numpy as np
import pytest

import attnforge as af
from attnforge.expression import Apply, Constant, Variable, evaluate, from_sympy, parse, to_text, variables
from attnforge.expression.functions import FUNCTIONS
from tests.refusals import refused

sympy = pytest.importorskip("sympy")
x, y = sympy.symbols("x y")
EXPRESSIONS = [
    x**2 + 3 * x * y - 1, x / y - y / x, sympy.sqrt(x) + 1 / sympy.sqrt(y), x ** sympy.Rational(1, 3), 2**x * sympy.E,
    sympy.pi * x, sympy.Abs(x - y) + sympy.Min(x, y, 1) * sympy.Max(x, y), sympy.sin(x) * sympy.cos(y) + sympy.tan(x),
    sympy.sinh(x) + sympy.cosh(x) * sympy.tanh(y), sympy.asin(x / 4) + sympy.acos(y / 4) + sympy.atan(x),
    sympy.exp(-(x**2)) + sympy.log(y), sympy.erf(x) + sympy.sign(x - 2), sympy.Float(0.1) * x, -x, -(x * y),
    sympy.erfc(x) * sympy.gamma(y) + sympy.loggamma(x), sympy.Rational(2, 7) * x, x ** sympy.Float(0.5),
    sympy.besselj(0, x) + sympy.besselj(1, y) * sympy.besselj(2, x), sympy.Add(x, x, evaluate=False),
    sympy.sinc(x) + sympy.sinc(0 * x) + sympy.floor(x + y) + sympy.atan2(x, -y), sympy.Mul(x, evaluate=False),
    sympy.Heaviside(x - 1) + sympy.digamma(x) + sympy.polygamma(1, y), sympy.Piecewise((x, x < y), (y, True)),
    sympy.Piecewise((x, x <= sympy.Rational(5, 4)), (y, True)), sympy.Piecewise((0, x < 0), (x, x < 1), (x**2, True)),
    sympy.Piecewise((x, x > y), (y, True)) + sympy.Piecewise((2, y >= x), (x**2, True)), sympy.Integer(3),
]  # fmt: skip


@pytest.mark.parametrize("expr", EXPRESSIONS, ids=str)
def test_values_agree_with_sympy(expr):
    node = from_sympy(expr)
    wanted = float(expr.evalf(30, subs={x: sympy.Rational(5, 4), y: sympy.Float(0.7, 30)}))
    np.testing.assert_allclose(evaluate(node, {"x": 1.25, "y": 0.7}), wanted, rtol=1e-13)
    assert parse(to_text(node)) == node


def test_trees_are_those_written():
    assert from_sympy(sympy.Rational(1, 3)) == Apply("/", (Constant(1.0), Constant(3.0)))
    for expr, text in ((sympy.sqrt(x), "sqrt(x)"), (1 / x, "1/x"), (-x, "-x"), (sympy.E, "e")):
        assert from_sympy(expr) == parse(text)
    assert from_sympy(sympy.IndexedBase("x")[3]) == Variable("x[3]")
    assert variables(from_sympy(x + y)) == ("x", "y")
    assert np.isnan(evaluate(from_sympy(sympy.Mul(x, sympy.Pow(x, -1), evaluate=False)), {"x": 0.0}))
    gamma = sympy.Symbol("gamma")  # as functions are named, if the inputs are
    assert from_sympy(gamma * sympy.gamma(gamma), ["gamma"]) == parse("gamma*gamma(gamma)", ["gamma"])
    assert all(f.sympy is None or isinstance(getattr(sympy, f.sympy), type) for f in FUNCTIONS.values())


def nested(times, step):
    found = x
    for _ in range(times):
        found = step(found)
    return found


REFUSED = [
    sympy.zeta(x), sympy.Piecewise((x, x > 0)), sympy.Piecewise((x, sympy.Eq(x, 0)), (0, True)), sympy.Heaviside(x, 1),
    sympy.Piecewise((x, (x > 0) & (y > 0)), (0, True)), sympy.besselj(3, x), sympy.besselj(y, x), sympy.polygamma(2, x),
    sympy.Symbol("gamma"), sympy.Symbol("mean"), sympy.Function("sin")(x), sympy.Function("f")(x), x > 0, sympy.I * x,
    sympy.oo, sympy.nan, sympy.zoo, sympy.Matrix([x]), sympy.Integral(sympy.Function("f")(x), x), x**65,
    sympy.Derivative(sympy.Function("f")(x), x), sympy.Pow(9, sympy.Pow(9, 9, evaluate=False), evaluate=False),
    sympy.Integer(2**53 + 1), sympy.Integer(10) ** 400, sympy.Float("1e400"), sympy.Symbol("sin"), sympy.Symbol("pi"),
    sympy.Symbol("__import__('os')"), sympy.Symbol("lambda"), sympy.Symbol("x[0]; y"), sympy.IndexedBase("x")[-1],
    sympy.IndexedBase("x")[0, 1], sympy.IndexedBase("x")[sympy.Symbol("i")], nested(200, sympy.sin),
    nested(14, lambda each: sympy.Add(sympy.sin(each), sympy.cos(each))),
]  # fmt: skip


@pytest.mark.parametrize("expr", REFUSED, ids=range(len(REFUSED)))
def test_what_is_no_formula_is_refused(expr):
    for verb in (from_sympy, lambda each: af.compile(each, {"x": (0.5, 1), "y": (0, 1)}, 1e-2)):
        with refused(af.TargetError):
            verb(expr)


def test_a_network_of_a_sympy_expression_is_that_of_its_text():
    nets = [af.compile(each, {"x": (-1, 1), "y": (0, 1)}, 1e-3) for each in (sympy.sin(x) * y, "sin(x)*y")]
    assert nets[0].certificate.status == nets[1].certificate.status == "proved"
    assert abs(nets[0]([0.5, 0.5]) - nets[1]([0.5, 0.5])) <= 2e-3
    assert af.compile([x + y, "x*y"], {"x": (-1, 1), "y": (0, 1)}, 1e-3).target.outputs == 2

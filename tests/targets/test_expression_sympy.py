"""sympy expressions, walked and not printed."""

from __future__ import annotations

import numpy as np
import pytest

from attnforge.errors import TargetError
from attnforge.targets.expression import Apply, Constant, Variable, evaluate, from_sympy, parse, to_text, variables
from attnforge.targets.expression.functions import FUNCTIONS

sympy = pytest.importorskip("sympy")
x, y = sympy.symbols("x y")


@pytest.mark.parametrize(
    "expr",
    [
        x**2 + 3 * x * y - 1,
        x / y - y / x,
        sympy.sqrt(x) + 1 / sympy.sqrt(y),
        x ** sympy.Rational(1, 3),
        2**x * sympy.E,
        sympy.pi * x,
        sympy.Abs(x - y) + sympy.Min(x, y, 1) * sympy.Max(x, y),
        sympy.sin(x) * sympy.cos(y) + sympy.tan(x),
        sympy.sinh(x) + sympy.cosh(x) * sympy.tanh(y),
        sympy.asin(x / 4) + sympy.acos(y / 4) + sympy.atan(x),
        sympy.exp(-(x**2)) + sympy.log(y),
        sympy.erf(x) + sympy.sign(x - 2),
        sympy.erfc(x) * sympy.gamma(y) + sympy.loggamma(x),
        sympy.besselj(0, x) + sympy.besselj(1, y) * sympy.besselj(2, x),
        sympy.sinc(x) + sympy.sinc(0 * x) + sympy.floor(x + y) + sympy.atan2(x, -y),
        sympy.Heaviside(x - 1) + sympy.digamma(x) + sympy.polygamma(1, y),
        sympy.Piecewise((x, x < y), (y, True)),
        sympy.Piecewise((x, x <= sympy.Rational(5, 4)), (y, True)),
        sympy.Piecewise((x, x > y), (y, True)) + sympy.Piecewise((2, y >= x), (x**2, True)),
        sympy.Piecewise((0, x < 0), (x, x < 1), (x**2, True)),
        sympy.Float(0.1) * x,
        -x,
        -(x * y),
        sympy.Rational(2, 7) * x,
        x ** sympy.Float(0.5),
        sympy.Add(x, x, evaluate=False),
        sympy.Mul(x, evaluate=False),
        sympy.Integer(3),
    ],
    ids=str,
)
def test_values_agree_with_sympy(expr):
    node = from_sympy(expr)
    point = {"x": 1.25, "y": 0.7}
    expected = float(expr.evalf(30, subs={x: sympy.Rational(5, 4), y: sympy.Float(0.7, 30)}))
    np.testing.assert_allclose(evaluate(node, point), expected, rtol=1e-13)
    assert parse(to_text(node)) == node


def test_trees():
    assert from_sympy(sympy.Rational(1, 3)) == Apply("/", (Constant(1.0), Constant(3.0)))
    assert from_sympy(sympy.sqrt(x)) == parse("sqrt(x)")
    assert from_sympy(1 / x) == parse("1/x")
    assert from_sympy(-x) == parse("-x")
    assert from_sympy(sympy.E) == parse("e")
    assert from_sympy(sympy.IndexedBase("x")[3]) == Variable("x[3]")
    assert variables(from_sympy(x + y)) == ("x", "y")


def test_nothing_is_simplified():
    node = from_sympy(sympy.Mul(x, sympy.Pow(x, -1), evaluate=False))
    assert np.isnan(evaluate(node, {"x": 0.0}))


def test_every_class_named_in_the_table_exists():
    for function in FUNCTIONS.values():
        assert function.sympy is None or isinstance(getattr(sympy, function.sympy), type)


@pytest.mark.parametrize(
    ("expr", "words"),
    [
        (sympy.zeta(x), "zeta"),
        (sympy.Piecewise((x, x > 0)), "Piecewise"),
        (sympy.Piecewise((x, sympy.Eq(x, 0)), (0, True)), "Piecewise"),
        (sympy.Piecewise((x, (x > 0) & (y > 0)), (0, True)), "Piecewise"),
        (sympy.Heaviside(x, 1), "Heaviside"),
        (sympy.besselj(3, x), "besselj"),
        (sympy.besselj(y, x), "besselj"),
        (sympy.polygamma(2, x), "polygamma"),
        (sympy.Symbol("gamma"), "function or constant"),
        (sympy.Symbol("mean"), "function or constant"),
        (sympy.Function("sin")(x), "sin"),  # an undefined function that only looks like the sine
        (sympy.Function("f")(x), "`f`"),
        (x > 0, "StrictGreaterThan"),
        (sympy.I * x, "ImaginaryUnit"),
        (sympy.oo, "Infinity"),
        (sympy.nan, "NaN"),
        (sympy.zoo, "ComplexInfinity"),
        (sympy.Matrix([x]), "known parts|sympy expression"),
        (sympy.Integral(sympy.Function("f")(x), x), "Integral"),
        (sympy.Derivative(sympy.Function("f")(x), x), "Derivative"),
        (x**65, "between -64 and 64"),
        (sympy.Pow(9, sympy.Pow(9, 9, evaluate=False), evaluate=False), "between -64 and 64"),
        (sympy.Integer(2**53 + 1), "exact number"),
        (sympy.Integer(10) ** 400, "exact number"),
        (sympy.Float("1e400"), "finite"),
        (sympy.Symbol("sin"), "function or constant"),
        (sympy.Symbol("pi"), "function or constant"),
        (sympy.Symbol("__import__('os')"), "plain name"),
        (sympy.Symbol("lambda"), "word of Python"),
        (sympy.Symbol("x[0]; y"), "plain name"),
        (sympy.IndexedBase("x")[-1], "index"),
        (sympy.IndexedBase("x")[0, 1], "index"),
        (sympy.IndexedBase("x")[sympy.Symbol("i")], "index"),
        ("x + 1", "sympy expression is needed"),
        (3, "sympy expression is needed"),
        (None, "sympy expression is needed"),
    ],
    ids=lambda case: str(case)[:30],
)
def test_refused_by_name(expr, words):
    with pytest.raises(TargetError, match=words):
        from_sympy(expr)


def test_symbols_may_be_named_as_functions_are_if_the_inputs_are():
    gamma = sympy.Symbol("gamma")
    node = from_sympy(gamma * sympy.gamma(gamma), ["gamma"])
    assert node == parse("gamma*gamma(gamma)", ["gamma"])
    assert parse(to_text(node), ["gamma"]) == node


def test_size_is_limited():
    deep = x
    for _ in range(200):
        deep = sympy.sin(deep)
    with pytest.raises(TargetError, match="deep"):
        from_sympy(deep)
    wide = x
    for _ in range(14):
        wide = sympy.Add(sympy.sin(wide), sympy.cos(wide))
    with pytest.raises(TargetError, match="nodes"):
        from_sympy(wide)

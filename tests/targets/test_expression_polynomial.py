"""Polynomials: recognised with rigorous coefficients, multiplied out exactly, or not recognised at all."""

from __future__ import annotations

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given, settings
from hypothesis import strategies as st

from attnforge.targets.expression import Apply, Constant, Variable, evaluate, parse
from attnforge.targets.expression.polynomial import MAX_TERMS, polynomial

NAMES = ("x", "y")


def terms(text, names=NAMES, **options):
    found = polynomial(parse(text), names, **options)
    return None if found is None else {exponents: float(value) for exponents, value in found.terms.items()}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("3", {(0, 0): 3}),
        ("0", {}),
        ("x", {(1, 0): 1}),
        ("x^3 - x", {(3, 0): 1, (1, 0): -1}),
        ("(x + y)*(x - y)", {(2, 0): 1, (0, 2): -1}),
        ("(x + 2*y)^2/4", {(2, 0): 0.25, (1, 1): 1, (0, 2): 1}),
        ("x*x - x^2", {}),
        ("x*y - y*x + 1", {(0, 0): 1}),
        ("-(x - 1)^3", {(3, 0): -1, (2, 0): 3, (1, 0): -3, (0, 0): 1}),
        ("x^0 + y^1", {(0, 0): 1, (0, 1): 1}),
        ("x^(1 + 1)", {(2, 0): 1}),
        ("x^(2 + 0*y)", {(2, 0): 1}),
        ("(x - x)/2 + max(1, 2)*abs(-3)*x", {(1, 0): 6}),
        ("0*x*y", {}),
        ("sqrt(x - x + 4)*y", {(0, 1): 2}),
        ("x/2^-1", {(1, 0): 2}),
    ],
)
def test_multiplied_out(text, wanted):
    assert terms(text) == wanted


@pytest.mark.parametrize(
    "text",
    ["sin(x)", "1/x", "x/y", "x^-1", "x^0.5", "2^x", "x^y", "abs(x)", "relu(x)", "z", "x + z", "x/0", "x*(1/0)",
     "x/(pi - pi)", "0*log(x)", "x^13", "x^7*x^6", "x^13 - x^13", "x^(3*pi/pi)", "clamp(x, 0, 1)"],
)  # fmt: skip
def test_not_recognised(text):
    assert terms(text) is None


def test_the_limit_is_per_variable():
    assert terms("x^12*y^12") == {(12, 12): 1}
    assert terms("x^3", limit=3) == {(3, 0): 1}
    assert terms("x^3", limit=2) is None
    assert terms("x", limit=0) is None
    assert terms("pi - pi + 2", limit=0).keys() == {(0, 0)}


def test_coefficients_are_rigorous():
    found = polynomial(parse("sqrt(2)*x^2/3 + pi*x + 0.1"), ["x"])
    with ctx.workprec(200):
        assert found.terms[(2,)].contains(arb(2).sqrt() / 3)
        assert found.terms[(1,)].contains(arb.pi())
        assert found.terms[(0,)] == arb(0.1)
    assert found.terms[(2,)].rad() < 1e-35
    assert ctx.prec == 53


def test_a_coefficient_that_may_be_zero_stays():
    found = polynomial(parse("pi*x - pi*x + x^2"), ["x"])
    assert found.terms.keys() == {(1,), (2,)}
    assert found.terms[(1,)].contains(0)


def test_degrees_and_names():
    found = polynomial(parse("x[1]^3*x[0] + x[1]"), ["x[0]", "x[1]", "x[2]"])
    assert found.degrees == (1, 3, 0)
    assert found.names == ("x[0]", "x[1]", "x[2]")
    assert polynomial(parse("0"), NAMES).degrees == (0, 0)


def test_many_terms_are_refused():
    names = [f"x{i}" for i in range(13)]
    most = "*".join(f"(1 + {name})" for name in names[:12])
    assert len(terms(most, names)) == MAX_TERMS
    assert terms(f"{most} + {names[12]}", names) is None
    assert terms(f"({'+'.join(names)} + 1)^12", names) is None


def test_a_hostile_text_ends_early():
    cube = "((1 + x)*(1 + y)*(1 + z))^12"
    assert len(terms(cube, "xyz")) == 13**3
    assert len(terms(f"{cube} + 2*{cube}", "xyz")) == 13**3
    assert terms("+".join(f"{i}*{cube}" for i in range(1, 120)), "xyz") is None


nodes = st.recursive(
    st.one_of(
        st.builds(Variable, st.sampled_from(NAMES)), st.builds(Constant, st.integers(-8, 8).map(lambda n: n / 4))
    ),
    lambda inner: st.one_of(
        st.builds(lambda a, b: Apply("+", (a, b)), inner, inner),
        st.builds(lambda a, b: Apply("*", (a, b)), inner, inner),
        st.builds(lambda a: Apply("-", (a,)), inner),
        st.builds(lambda a, n: Apply("^", (a, Constant(n))), inner, st.integers(0, 3)),
        st.builds(lambda a, n: Apply("/", (a, Constant(n))), inner, st.sampled_from([2.0, -4.0, 3.0])),
    ),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(nodes)
def test_it_is_the_same_function(node):
    found = polynomial(node, NAMES)
    if found is None:
        return
    x, y = np.array([-1.0, -0.5, 0.25, 0.75, 1.0]), np.array([0.5, -0.75, 1.0, -0.25, 0.0])
    sizes = [float(abs(value)) for value in found.terms.values()]
    wanted = evaluate(node, {"x": x, "y": y})
    values = sum((float(value) * x**i * y**j for (i, j), value in found.terms.items()), np.zeros_like(x))
    np.testing.assert_allclose(values, wanted, rtol=0, atol=1e-12 * (1 + sum(sizes) + float(np.abs(wanted).max())))

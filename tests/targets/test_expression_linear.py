"""Affine and truncated affine expressions: recognised with rigorous coefficients, or refused with a reason."""

from __future__ import annotations

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given, settings
from hypothesis import strategies as st

from attnforge.errors import TargetError
from attnforge.targets.expression import (
    Apply,
    Constant,
    Variable,
    evaluate,
    linear_form,
    parse,
    truncated_linear_form,
)
from attnforge.targets.expression.linear import why_not_truncated_linear

NAMES = ("x", "y")
LOWER, UPPER = (-2.0, -1.0), (2.0, 3.0)


@pytest.mark.parametrize(
    ("text", "weights", "offset"),
    [
        ("x", (1, 0), 0),
        ("3", (0, 0), 3),
        ("2*x - y/4 + 1", (2, -0.25), 1),
        ("-(x - 3*(y + 1))*2", (-2, 6), 6),
        ("(x + y)/2^-1", (2, 2), 0),
        ("x^1 + y*abs(-2)", (1, 2), 0),
        ("x - x + y", (0, 1), 0),
        ("x*y^0*0 + y", None, None),
        ("(x - x)*y + x", (1, 0), 0),
        ("max(2, 3)*x + min(1, 2)", (3, 0), 1),
        ("x*y", None, None),
        ("x^2", None, None),
        ("1/x", None, None),
        ("2^x", None, None),
        ("abs(x)", None, None),
        ("relu(x)", None, None),
        ("x/0", None, None),
        ("x*(1/0)", None, None),
        ("x/(pi - pi)", None, None),
        ("x + z", None, None),
    ],
)
def test_linear_form(text, weights, offset):
    form = linear_form(parse(text), NAMES)
    if weights is None:
        assert form is None
    else:
        assert [float(weight) for weight in form.weights] == list(weights)
        assert float(form.offset) == offset


def test_coefficients_are_rigorous():
    form = linear_form(parse("sqrt(2)*x/3 + pi"), ["x"])
    with ctx.workprec(200):
        assert form.weights[0].contains(arb(2).sqrt() / 3)
        assert form.offset.contains(arb.pi())
    assert form.weights[0].rad() < 1e-35
    assert ctx.prec == 53


def test_names_give_the_order():
    form = linear_form(parse("x[1] + 2*x[0]"), ["x[0]", "x[1]", "x[2]"])
    assert [float(weight) for weight in form.weights] == [2, 1, 0]


@pytest.mark.parametrize(
    ("text", "weights", "offset", "lower", "upper"),
    [
        ("clamp(x + y, -1, 1)", (1, 1), 0, -1, 1),
        ("min(max(x, -1), 1)", (1, 0), 0, -1, 1),
        ("max(min(x, 1), -1)", (1, 0), 0, -1, 1),
        ("max(-1, min(1, x))", (1, 0), 0, -1, 1),
        ("min(1, 2, max(x, -3, -1))", (1, 0), 0, -1, 1),
        ("relu(x)", (1, 0), 0, 0, 2),
        ("max(x, -1)", (1, 0), 0, -1, 2),
        ("min(x, 1)", (1, 0), 0, -2, 1),
        ("x + 2*y", (1, 2), 0, -4, 8),
        ("-x + 1", (-1, 0), 1, -1, 3),
        ("3*clamp(x, -1, 1) + 2", (3, 0), 2, -1, 5),
        ("2 - clamp(x, -1, 0.5)/2", (-0.5, 0), 2, 1.75, 2.5),
        ("-relu(x)", (-1, 0), 0, -2, 0),
        ("relu(1 - relu(x))", (-1, 0), 1, 0, 1),
        ("clamp(clamp(x, -1, 1), -0.5, 3)", (1, 0), 0, -0.5, 1),
        ("min(relu(x), 1)", (1, 0), 0, 0, 1),
        ("clamp(2*relu(x) - 1, -5, 0.5)", (2, 0), -1, -1, 0.5),
        ("relu(x - 5)", (1, 0), -5, 0, 4),  # nothing of the box is left: any bound above will do
        ("min(x, -5)", (1, 0), 0, -9, -5),
        ("relu(x)^1 + 0*y", (1, 0), 0, 0, 2),
        ("relu(x) + (y - y)", (1, 0), 0, 0, 2),
        ("clamp(x, 5, 6)", (1, 0), 0, 5, 6),
    ],
)
def test_truncated_form(text, weights, offset, lower, upper):
    node = parse(text)
    form = truncated_linear_form(node, NAMES, LOWER, UPPER)
    assert [float(weight) for weight in form.weights] == list(weights)
    assert [float(form.offset), float(form.lower), float(form.upper)] == [offset, lower, upper]
    assert why_not_truncated_linear(node, NAMES) == ""
    _check_on_the_box(node, form)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1 + 2*sin(x)", "`sin(x)` is not affine"),
        ("clamp(x*y, 0, 1)", "`x*y` multiplies two factors that vary"),
        ("x + relu(x)", "`x + relu(x)` adds a truncated term"),
        ("relu(x) + relu(y)", "adds a truncated term"),
        ("relu(x)*relu(y)", "multiplies"),
        ("max(x, y)", "`max(x, y)` compares two terms that vary"),
        ("clamp(x, y, 1)", "bounds that vary"),
        ("x/y", "divides by something that varies"),
        ("x/0", "may divide by zero"),
        ("log(-1)*x", "`log(-1)` is not a finite number"),
        ("x^2", "`x^2` is not affine"),
        ("abs(x)", "`abs(x)` is not affine"),
        ("(pi - pi)*relu(x)", "sign is not certain"),
        ("min(max(x, pi), pi)", "too close"),
        ("3", "constant"),
        ("x - x", "constant"),
        ("max(min(x, -1), 1)", "constant"),
        ("clamp(min(x, -1), 0, 2)", "constant"),
        ("0*relu(x)", "constant"),
        ("z", "`z` is not one of the variables"),
        ("sin(" + "+".join(["x"] * 200) + ")", "..."),
    ],
)
def test_refused_with_a_reason(text, words):
    node = parse(text)
    assert truncated_linear_form(node, NAMES, LOWER, UPPER) is None
    assert words in why_not_truncated_linear(node, NAMES)


@pytest.mark.parametrize(
    ("text", "value"), [("clamp(x, 1, -1)", -1), ("2*clamp(x, 1, 1) + 1", 3), ("clamp(0, 3, 2)", 2)]
)
def test_a_clamp_without_room_is_its_upper_end(text, value):
    """min(max(u, a), b) = b where a >= b."""
    node = parse(text)
    assert truncated_linear_form(node, NAMES, LOWER, UPPER) is None
    assert linear_form(node, NAMES).offset == value
    assert "constant" in why_not_truncated_linear(node, NAMES)


def test_missing_bounds_are_rounded_outward():
    form = truncated_linear_form(parse("x/3 + 0.1*y"), NAMES, LOWER, UPPER)
    with ctx.workprec(200):
        assert form.upper >= arb(2) / 3 + arb(0.1) * 3
        assert form.lower <= -arb(2) / 3 - arb(0.1)
    assert arb(float(form.upper)) == form.upper  # a float64
    assert arb(float(form.lower)) == form.lower
    assert form.upper - form.lower < 1.7334


def test_the_box_is_checked():
    with pytest.raises(TargetError, match="lower and an upper end"):
        truncated_linear_form(parse("x"), NAMES, [0.0], [1.0])
    with pytest.raises(TargetError, match="finite"):
        truncated_linear_form(parse("x"), NAMES, [0.0, 0.0], [float("inf"), 1.0])


affine = st.tuples(*[st.sampled_from([-2.0, -0.5, 1.0, 3.0])] * 2, st.sampled_from([-1.0, 0.0, 0.3]))


@st.composite
def truncations(draw):
    a, b, c = draw(affine)
    node = Apply("+", (_times(a, Variable("x")), _times(b, Variable("y")), Constant(c)))
    for _ in range(draw(st.integers(0, 4))):
        kind, s, k = draw(st.sampled_from(["max", "min", "relu", "clamp", "scale"])), *draw(affine)[1:]
        bounds = {"max": (k,), "min": (k,), "clamp": (k - 1, k + 1)}.get(kind, ())
        if kind == "scale":
            node = Apply("+", (_times(s, node), Constant(k)))
        else:
            node = Apply(kind, (node, *map(Constant, bounds)))
    return node


def _times(factor, node):
    return Apply("*", (Constant(factor), node))


@settings(derandomize=True, deadline=None, max_examples=300)
@given(truncations())
def test_the_form_is_the_function_on_the_box(node):
    form = truncated_linear_form(node, NAMES, LOWER, UPPER)
    if form is None:
        assert "constant" in why_not_truncated_linear(node, NAMES)
        form = linear_form(node, NAMES)
    _check_on_the_box(node, form)


def _check_on_the_box(node, form):
    x, y = np.meshgrid(np.linspace(LOWER[0], UPPER[0], 9), np.linspace(LOWER[1], UPPER[1], 9))
    value = float(form.weights[0]) * x + float(form.weights[1]) * y + float(form.offset)
    if hasattr(form, "lower"):
        assert form.lower < form.upper
        value = np.clip(value, float(form.lower), float(form.upper))
    np.testing.assert_allclose(evaluate(node, {"x": x, "y": y}), value, atol=1e-12)

"""Piecewise affine expressions as ReLU networks: the same function, in exact arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from attnforge.errors import TargetError
from attnforge.targets import Box, Formula
from attnforge.targets.expression import parse, to_text
from attnforge.targets.expression.rectified import rectified
from attnforge.targets.expression.tree import Apply, Constant, Variable

NAMES = ("x", "y", "z")
leaves = st.one_of(
    st.sampled_from([Variable(name) for name in NAMES]),
    st.integers(-8, 8).map(lambda n: Constant(n / 4)),
)


def applied(inner):
    pair = st.tuples(inner, inner)
    return st.one_of(
        pair.map(lambda args: Apply("+", args)),
        inner.map(lambda arg: Apply("-", (arg,))),
        st.tuples(st.integers(-6, 6).map(lambda n: Constant(n / 2)), inner).map(lambda args: Apply("*", args)),
        inner.map(lambda arg: Apply("abs", (arg,))),
        inner.map(lambda arg: Apply("relu", (arg,))),
        st.lists(inner, min_size=2, max_size=4).map(lambda args: Apply("max", tuple(args))),
        pair.map(lambda args: Apply("min", args)),
        st.tuples(inner, inner, inner).map(lambda args: Apply("clamp", args)),
        st.tuples(inner, inner, inner, st.integers(-6, 6)).map(lambda args: joined(*args)),
    )


def joined(u, v, b, factor):
    """where(u < v, b + c (u - v), b)."""
    gap = Apply("+", (u, Apply("-", (v,))))
    return Apply("where", (u, v, Apply("+", (b, Apply("*", (Constant(factor / 2), gap)))), b))


EXACT = {
    "+": lambda *u: sum(u),
    "-": lambda u: -u,
    "*": lambda u, v: u * v,
    "abs": abs,
    "relu": lambda u: max(u, Fraction(0)),
    "max": max,
    "min": min,
    "clamp": lambda u, a, b: min(max(u, a), b),
    "where": lambda u, v, a, b: a if u < v else b,
}


def exactly(node, point):
    """The expression in rational arithmetic."""
    if isinstance(node, Constant):
        return Fraction(node.value)
    if isinstance(node, Variable):
        return point[node.name]
    return EXACT[node.function](*(exactly(each, point) for each in node.arguments))


def run(layers, point):
    """The network in rational arithmetic."""
    values = list(point)
    for i, (weight, bias) in enumerate(layers):
        columns = zip(weight.T.tolist(), bias.tolist(), strict=True)
        values = [sum((Fraction(w) * v for w, v in zip(c, values, strict=True)), Fraction(b)) for c, b in columns]
        if i < len(layers) - 1:
            values = [max(value, Fraction(0)) for value in values]
    return values


@given(st.recursive(leaves, applied, max_leaves=12), st.lists(st.fractions(-3, 3), min_size=3, max_size=3))
def test_network_and_expression_are_the_same_function(tree, numbers):
    try:
        layers = rectified(tree, NAMES)
    except TargetError:
        assume(False)
    assert run(layers, numbers) == [exactly(tree, dict(zip(NAMES, numbers, strict=True)))], to_text(tree)


@pytest.mark.parametrize(
    ("text", "widths"),
    [
        ("max(x, y)", [3]),  # relu(x - y), and y as relu(y) - relu(-y)
        ("abs(x)", [2]),
        ("abs(x) + x", [1]),  # x is carried by the same two units, and one of them cancels
        ("clamp(x, -1, 1) + abs(y)", [4]),
        ("abs(abs(x) - 0.5)", [2, 2]),
        ("max(x, y, z)", [5, 4]),
    ],
)
def test_units_are_shared_and_layers_are_few(text, widths):
    layers = rectified(parse(text), NAMES)
    assert [len(bias) for _, bias in layers] == [*widths, 1]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("max(sin(x), y)", r"sums, multiples, .*Got `sin\(x\)`"),
        ("x*abs(y)", r"Got `x\*abs\(y\)`"),
        ("abs(x)^2", "Got"),
        ("abs(x)/y", "Got"),
        ("abs(x)/0", "Got"),
        ("abs(x)/3", r"float64 numbers\. Got 1/3, which is none"),
        ("pi*abs(x)", "Got `pi`"),
        ("x + 2*y", "at least one kink"),
        ("abs(1e300*1e300*x)", "float64 numbers"),
    ],
)
def test_other_expressions_are_refused_with_a_reason(text, reason):
    with pytest.raises(TargetError, match=reason):
        rectified(parse(text), NAMES)


def test_numbers_are_computed_exactly():
    (first, _), (last, bias) = rectified(parse("3*(abs(x)/3) + sqrt(4)^2"), ["x"])
    assert first.tolist() == [[1.0, -1.0]]
    assert last.tolist() == [[1.0], [1.0]]
    assert bias.tolist() == [4.0]


def test_a_formula_gives_its_network():
    formula = Formula("max(x, 2*y) - abs(x + 1)", Box([-2, -1], [1, 3]), ("x", "y"))
    points = np.random.default_rng(0).uniform([-2, -1], [1, 3], size=(200, 2))
    assert np.abs(formula.rectified().values(points)[:, 0] - formula.values(points)).max() < 1e-15 * 16

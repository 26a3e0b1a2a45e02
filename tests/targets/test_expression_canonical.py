"""Canonical forms: what is the same has one, and what differs never has."""

import itertools

import numpy as np
import pytest
from flint import arb

from attnforge.targets.expression import evaluate, parse, variables
from attnforge.targets.expression.canonical import Canonical

SAME = [
    ("(x + y)*(x - y)", "x^2 - y^2"),
    ("sqrt((x^2 + y^2)/10)", "sqrt(x^2 + y^2)/sqrt(10)"),
    ("exp(-0.2*sqrt((x^2 + y^2)/10))", "exp(-0.2*(sqrt(x^2 + y^2)/sqrt(10)))"),
    ("hypot(x, y)", "sqrt(x^2 + y^2)"),
    ("sqrt(-2*x)", "sqrt(2)*sqrt(-x)"),
    ("sqrt(exp(y)*x)", "exp(y/2)*sqrt(x)"),
    ("sqrt(x)^2", "x"),
    ("abs(x)", "2*relu(x) - x"),
    ("max(x, y)", "y + relu(x - y)"),
    ("asin(x)", "pi/2 - 2*asin(sqrt((1 - x)/2))"),
    ("acos(x)", "2*asin(sqrt((1 - x)/2))"),
    ("asin(x)", "2*asin(sqrt(0.5 + 0.5*x)) - pi/2"),
    ("sqrt(2)*sqrt(2)*x", "2*x"),
]
OTHERS = [
    ("sqrt(x)", "x"),
    ("sqrt(x^2)", "x"),
    ("sqrt(x*y)", "sqrt(x)*sqrt(y)"),
    ("sqrt(-x)", "sqrt(x)"),
    ("sqrt(sqrt(x^2))^2", "x"),
    ("log(x^2)", "2*log(x)"),
    ("asin(-sqrt(x))", "asin(sqrt(x))"),
    ("asin(x*sqrt(y))", "pi/4 - asin(1 - 2*x^2*y)/2"),
    ("sin(x)", "sin(x + 1e-12)"),
]


def signless(_node):
    return -np.inf


@pytest.mark.parametrize(("one", "other"), SAME)
def test_what_is_the_same_whatever_the_signs_has_one_form(one, other):
    assert Canonical(signless).same(parse(one), parse(other))


@pytest.mark.parametrize(("one", "other"), OTHERS)
def test_what_differs_somewhere_has_another_form(one, other):
    assert not Canonical(signless).same(parse(one), parse(other))


def test_where_all_is_positive_roots_of_products_are_products_of_roots():
    forms = Canonical(lambda node: 1.0)
    assert forms.same(parse("sqrt(x*y^3)"), parse("exp(log(x)/2 + 1.5*log(y))"))


def test_kinks_that_are_never_reached_are_none():
    forms = Canonical(
        lambda node: float(np.min(values(node, {"x": np.linspace(0, 1, 9), "y": np.linspace(-2, -1, 9)})))
    )
    assert forms.same(parse("max(x, y, -2)"), parse("x"))
    assert forms.same(parse("atan2(y, x + 1)"), parse("atan(y/(1 + x))"))


def test_constants_are_numbers_in_a_difference():
    forms = Canonical(signless)
    assert all(abs(c) < 1e-13 for c, _ in forms.difference(parse("20 + exp(1) - x"), parse("20 - x + exp(1)")))
    ((coefficient, term),) = forms.difference(parse("exp(1) - x"), parse("2.718281828459045 - x"))
    assert abs(coefficient) < 1e-13
    assert not variables(term)


def expressions(rng, depth):
    if depth == 0:
        return str(rng.choice(["x", "y", "2", "0.5"]))
    part = lambda: expressions(rng, depth - 1)  # noqa: E731
    kind = rng.choice(["+", "-", "*", "/", "sqrt", "exp", "log", "^2", "^0.5", "relu", "hypot", "asin", "acos"])
    if kind in "+-*/":
        return f"({part()} {kind} {part()})"
    if kind.startswith("^"):
        return f"({part()}){kind}"
    return f"hypot({part()}, {part()})" if kind == "hypot" else f"{kind}({part()})"


def values(tree, points):
    with np.errstate(all="ignore"):
        found = evaluate(tree, {name: points[name] for name in variables(tree)})
    return np.broadcast_to(np.asarray(found, dtype=np.float64), points["x"].shape)


@pytest.mark.parametrize("seed", range(40))
def test_the_terms_of_a_difference_add_up_to_it(seed):
    rng = np.random.default_rng(seed)
    points = {"x": rng.uniform(-2, 2, 60), "y": rng.uniform(-2, 2, 60)}
    trees = [parse(expressions(rng, depth)) for depth in (1, 2, 2, 3)]
    for one, other in itertools.combinations(trees, 2):
        terms = Canonical(signless).difference(one, other)
        wanted = values(one, points) - values(other, points)
        total = sum((float(arb(c).mid()) * values(term, points) for c, term in terms), np.zeros(60))
        known = np.isfinite(wanted) & np.isfinite(total) & (np.abs(wanted) < 1e6)
        scale = 1 + sum((abs(float(arb(c).mid()) * values(term, points)) for c, term in terms), np.zeros(60))
        assert (np.abs(total - wanted)[known] <= 1e-9 * scale[known]).all(), (one, other)

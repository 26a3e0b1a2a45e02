"""Canonical forms: what is the same has one, what differs never has, and a difference is the sum of its terms."""

import itertools

import numpy as np
import pytest
from flint import arb

from attnforge.expression import evaluate, parse, variables
from attnforge.expression.canonical import Canonical

SAME = {
    "(x + y)*(x - y)": "x^2 - y^2", "sqrt((x^2 + y^2)/10)": "sqrt(x^2 + y^2)/sqrt(10)",
    "hypot(x, y)": "sqrt(x^2 + y^2)", "sqrt(-2*x)": "sqrt(2)*sqrt(-x)", "sqrt(x)^2": "x",
    "sqrt(exp(y)*x)": "exp(y/2)*sqrt(x)",
    "abs(x)": "2*relu(x) - x",
    "max(x, y)": "y + relu(x - y)",
    "asin(x)": "pi/2 - 2*asin(sqrt((1 - x)/2))", "acos(x)": "2*asin(sqrt((1 - x)/2))",
}  # fmt: skip
OTHERS = {
    "sqrt(x)": "x", "sqrt(x^2)": "x", "sqrt(x*y)": "sqrt(x)*sqrt(y)", "sqrt(-x)": "sqrt(x)", "sqrt(sqrt(x^2))^2": "x",
    "log(x^2)": "2*log(x)", "asin(-sqrt(x))": "asin(sqrt(x))", "sin(x)": "sin(x + 1e-12)",
    "asin(x*sqrt(y))": "pi/4 - asin(1 - 2*x^2*y)/2",
}  # fmt: skip


def signless(_node):
    return -np.inf


def test_what_is_the_same_has_one_form_and_what_differs_another():
    """Whatever the signs of the inputs; where they are known, roots of products are products of roots."""
    assert all(Canonical(signless).same(parse(one), parse(other)) for one, other in SAME.items())
    assert not any(Canonical(signless).same(parse(one), parse(other)) for one, other in OTHERS.items())
    assert Canonical(lambda node: 1.0).same(parse("sqrt(x*y^3)"), parse("exp(log(x)/2 + 1.5*log(y))"))
    assert all(abs(c) < 1e-13 for c, _ in Canonical(signless).difference(parse("exp(1) - x"), parse("exp(1) + 0 - x")))


def expressions(rng, depth):
    if depth == 0:
        return str(rng.choice(["x", "y", "2", "0.5"]))
    one, two = expressions(rng, depth - 1), expressions(rng, depth - 1)
    kind = rng.choice(["+", "-", "*", "/", "sqrt", "exp", "log", "^2", "^0.5", "relu", "hypot", "asin", "acos"])
    if kind in "+-*/":
        return f"({one} {kind} {two})"
    if kind.startswith("^"):
        return f"({one}){kind}"
    return f"hypot({one}, {two})" if kind == "hypot" else f"{kind}({one})"


def values(tree, points):
    found = evaluate(tree, {name: points[name] for name in variables(tree)})
    return np.broadcast_to(np.asarray(found, dtype=np.float64), points["x"].shape)


@pytest.mark.parametrize("seed", range(40))
def test_the_terms_of_a_difference_add_up_to_it(seed):
    rng = np.random.default_rng(seed)
    points = {"x": rng.uniform(-2, 2, 60), "y": rng.uniform(-2, 2, 60)}
    trees = [parse(expressions(rng, depth)) for depth in (1, 2, 2, 3)]
    for one, other in itertools.combinations(trees, 2):
        terms = [(float(arb(c).mid()), values(t, points)) for c, t in Canonical(signless).difference(one, other)]
        with np.errstate(all="ignore"):
            wanted = values(one, points) - values(other, points)
            total = sum((c * v for c, v in terms), np.zeros(60))
            scale = 1 + sum((abs(c * v) for c, v in terms), np.zeros(60))
        known = np.isfinite(wanted) & np.isfinite(total) & (np.abs(wanted) < 1e6)
        assert (np.abs(total - wanted)[known] <= 1e-9 * scale[known]).all(), (one, other)

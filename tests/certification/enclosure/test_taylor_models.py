"""Taylor models hold what they stand for: every operation against 60-digit arithmetic at random points of cells."""

import numpy as np
import pytest
from flint import arb

from attnforge.balls import Up, precision
from attnforge.certification.enclosure.degrees import degrees
from attnforge.certification.enclosure.formula_models import formula_models
from attnforge.certification.enclosure.taylor_models import Models
from attnforge.targets.expression import enclose, parse

RNG = np.random.default_rng(0)
SHAPES = [(1, 1), (1, 6), (2, 3), (3, 2), (5, 1)]


def random_models(inputs, degree, size, cells=20):
    table = degrees(inputs, degree)
    c = RNG.normal(size=(len(table), cells)) * size * 0.5 ** table.totals[:, None]
    return Models(table, c, Up(np.abs(RNG.normal(size=cells)) * 1e-9 * size))


def value(model, cell, t, share):
    """One of the functions that a model stands for, at a point."""
    total = arb(float(model.rest.values[cell])) * share
    for exponent, c in zip(model.table.exponents, model.c[:, cell], strict=True):
        term = arb(float(c))
        for x, power in zip(t, exponent, strict=True):
            term *= arb(float(x)) ** int(power)
        total += term
    return total


def holds(found, function, *models):
    """Whether the model found holds the function of functions that the others stand for, at random points."""
    with precision(200):
        for cell in range(found.shape[0]):
            t = RNG.uniform(-1, 1, size=found.table.inputs)
            t = np.sign(t) if cell % 2 else t
            exact = function(*(value(model, cell, t, float(RNG.uniform(-1, 1))) for model in models))
            apart = abs(exact - value(found, cell, t, 0))
            if not apart.lower() <= found.rest.values[cell]:
                return False
    return True


OPERATIONS = {
    "sum": (lambda a, b: a + b, lambda a, b: a + b),
    "difference": (lambda a, b: a - b, lambda a, b: a - b),
    "product": (lambda a, b: a * b, lambda a, b: a * b),
    "multiple": (lambda a, _: a.scaled(np.full(a.shape, 0.3)), lambda a, _: a * arb(0.3)),
    "exp": (lambda a, _: a.exp(), lambda a, _: a.exp()),
    "matrix": (
        lambda a, b: Models.joined([Models(m.table, m.c[..., None], m.rest[:, None]) for m in (a, b)], -1)
        .through(np.array([[0.3], [1e8]]))[:, 0],
        lambda a, b: a * arb(0.3) + b * arb(1e8),
    ),
}  # fmt: skip


@pytest.mark.parametrize("size", [1e-6, 0.3, 3.0, 40.0])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_holds_what_it_stands_for(name, shape, size):
    ours, exact = OPERATIONS[name]
    one, two = random_models(*shape, size), random_models(*shape, size)
    assert holds(ours(one, two), exact, one, two)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_quotient_holds_it(shape):
    above, below = random_models(*shape, 0.3), random_models(*shape, 0.05)
    below = below.less(np.full(below.shape, -2.0))
    least = below.range()[0]
    assert (least > 0).all()
    assert holds(above.over(below, least), lambda a, b: a / b, above, below)


def test_exponentials_of_smooth_functions_are_told_closely():
    table = degrees(1, 8)
    c = np.array([[1.0], [0.1], [0.01], *[[0.0]] * 6])
    assert (Models(table, c, Up.zeros(1)).exp().rest.values < 1e-6).all()


def test_a_model_that_leaves_out_its_rest_is_seen():
    one, two = random_models(2, 3, 1.0), random_models(2, 3, 1.0)
    found = one * two
    assert not holds(Models(found.table, found.c, Up.zeros(*found.shape)), lambda a, b: a * b, one, two)


def test_a_range_is_all_there_is_where_a_model_swings_more():
    wide = random_models(1, 2, 100.0)
    wide = wide.between(np.full(20, -1.0), np.full(20, 3.0), wide.swing())
    low, high = wide.range()
    assert np.allclose(low, -1.0)
    assert np.allclose(high, 3.0)


FORMULAS = [
    "x + 2*y - 3", "x*y/(3 + x^2)", "sin(3*x)*exp(y)", "sqrt(2 + x)*log(3 + y)", "abs(x - y/2)", "max(x, y, x*y)",
    "clamp(2*x - y, -1, 1)^2", "min(x, relu(y)) + tanh(x)", "sign(x)*step(y)", "(2 + x)^y", "sqrt(x + 1)", "pi*x^5 - e",
    "atan(5*x)/(1.5 + y)", "abs(abs(x) - 0.25)", "x^0.5",
]  # fmt: skip


@pytest.mark.parametrize("text", FORMULAS)
def test_a_formula_lies_in_its_models(text):
    tree, table, cells = parse(text), degrees(2, 4), 60
    middle = RNG.uniform(-1, 1, size=(cells, 2))
    radius = RNG.choice([0.0, 1e-6, 0.01, 0.3], size=(cells, 1)) * np.ones((1, 2))
    middle = np.clip(middle, -1 + radius, 1 - radius)
    variables = {}
    for i, name in enumerate("xy"):
        c = np.zeros((len(table), cells))
        c[0], c[table.place[tuple(int(k == i) for k in range(2))]] = middle[:, i], radius[:, i]
        variables[name] = Models(table, c, Up.zeros(cells))
    with np.errstate(all="ignore"):
        found = formula_models(tree, variables)
    with precision(200):
        for cell in range(cells):
            t = RNG.choice([-1.0, 0.0, 1.0, 0.37], size=2)
            at = {name: value(variables[name], cell, t, 0) for name in "xy"}
            exact = enclose(tree, at)
            if exact.is_finite() and np.isfinite(found.rest.values[cell]):
                assert abs(exact - value(found, cell, t, 0)).lower() <= found.rest.values[cell]
    assert np.isfinite(found.rest.values).mean() > 0.3

"""Taylor models of the provers hold what they stand for: every operation, formula, head and layer at random points."""

from __future__ import annotations

import numpy as np
import pytest
from flint import arb

from attnforge.errors import AttnforgeError
from attnforge.expression import enclose, parse
from attnforge.kernel.degrees import degrees
from attnforge.kernel.formula import formula_models
from attnforge.kernel.models import Models
from attnforge.kernel.run import run_network
from attnforge.network import rounded
from attnforge.outward import Up, machine, precision
from tests.readers.comparison import DTYPES, _torch
from tests.readers.networks import Case, random_case

SHAPES = [(1, 1), (1, 6), (2, 3), (3, 2), (5, 1)]


def random_models(rng, inputs, degree, size, cells=12):
    table = degrees(inputs, degree)
    c = rng.normal(size=(len(table), cells)) * size * 0.5 ** table.totals[:, None]
    return Models(table, c, Up(np.abs(rng.normal(size=cells)) * 1e-9 * size))


def value(model, cell, t, share=0.0):
    """One of the functions that a model stands for, at a point."""
    total = arb(float(model.rest.values[cell])) * share
    for exponent, c in zip(model.table.exponents, model.c[:, cell], strict=True):
        term = arb(float(c))
        for x, power in zip(t, exponent, strict=True):
            term *= arb(float(x)) ** int(power)
        total += term
    return total


def holds(rng, found, function, *models):
    """Whether the model found holds the function of functions that the others stand for, at random points."""
    with precision(200):
        for cell in range(found.shape[0]):
            t = rng.uniform(-1, 1, size=found.table.inputs)
            t = np.sign(t) if cell % 2 else t
            exact = function(*(value(model, cell, t, float(rng.uniform(-1, 1))) for model in models))
            if not abs(exact - value(found, cell, t)).lower() <= found.rest.values[cell]:
                return False
    return True


def through(a, b):
    joined = Models.joined([Models(m.table, m.c[..., None], m.rest[:, None]) for m in (a, b)], -1)
    return joined.through(np.array([[0.3], [1e8]]))[:, 0]


OPERATIONS = {
    "sum": (lambda a, b: a + b, lambda a, b: a + b),
    "difference": (lambda a, b: a - b, lambda a, b: a - b),
    "product": (lambda a, b: a * b, lambda a, b: a * b),
    "multiple": (lambda a, _: a.scaled(np.full(a.shape, 0.3)), lambda a, _: a * arb(0.3)),
    "exp": (lambda a, _: a.exp(), lambda a, _: a.exp()),
    "matrix": (through, lambda a, b: a * arb(0.3) + b * arb(1e8)),
}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_holds_what_it_stands_for(name, shape):
    rng, (ours, exact) = np.random.default_rng(0), OPERATIONS[name]
    for size in (1e-6, 0.3, 3.0, 40.0):
        one, two = random_models(rng, *shape, size), random_models(rng, *shape, size)
        found = ours(one, two)
        assert holds(rng, found, exact, one, two)
        if name == "product":  # a model that leaves out its rest is seen
            bare = Models(found.table, found.c, Up.zeros(*found.shape))
            assert not holds(rng, bare, exact, one, two)
    above, below = random_models(rng, *shape, 0.3), random_models(rng, *shape, 0.05)
    below = below.less(np.full(below.shape, -2.0))
    assert holds(rng, above.over(below, below.range()[0]), lambda a, b: a / b, above, below)


# Formulas

FORMULAS = [
    "x*y + x^3 - 2*y^2 + pi*x^5 - e", "exp(-(x^2 + y^2))*cos(3*y)", "1/(3 + x - y^2)", "sqrt(4 + x*y) + sqrt(x + 1)",
    "log(3 + x + y)*tanh(x - 2*y)", "(3 + x)^1.5/(2 + y)^2", "(2 + x^2)^y + x^0.5", "sin(3*x)*exp(y)", "(2 + x)^y",
    "sinc(x*y) + sphericalj1(x) - besselj0(3*x)*besselj1(y)*besselj2(x + y)", "hypot(x, y, 2) + unit(x, y, 2)",
    "gelu(x*y) + gelu_tanh(x) + silu(y) + erfc(x)*normcdf(y)", "atan2(x, 4 + y) + atan2(4 + x, y) - atan2(x - 4, y)",
    "gamma(1.5 + x*y/9) + lgamma(2 + y/4) + digamma(3 + x/4)*trigamma(3 + y/4)", "atan(5*x)/(1.5 + y)",
    "where(x < 9, x*y, exp(x)) + where(y > 9, x, y^2) + floor(0.5 + 0*x)", "abs(x - y/2)", "max(x, y, x*y)",
    "sin(x*y)*erf(x) + sigmoid(x + y) + softplus(x*y)", "clamp(2*x - y, -1, 1)^2", "min(x, relu(y)) + tanh(x)",
    "abs(x - 5)*max(y, x + 7) + relu(x + 4) + min(x, 3, y + 8) + clamp(y, -3, 3) + sign(x - 9) + step(y + 9)",
    "sign(x)*step(y)", "abs(abs(x) - 0.25)",
]  # fmt: skip


def on_cells(text, lower, upper, names=("x", "y"), degree=4):
    inputs = Models.variables(degrees(len(names), degree), np.asarray(lower, float), np.asarray(upper, float))
    with np.errstate(all="ignore"):
        return formula_models(parse(text), {name: inputs[:, i] for i, name in enumerate(names)})


@pytest.mark.parametrize("text", FORMULAS)
def test_a_formula_lies_in_its_models_closely(text):
    rng, cells = np.random.default_rng(len(text)), 40
    radius = rng.choice([0.0, 1e-6, 0.01, 0.3], size=(cells, 1)) * np.ones((1, 2))
    middle = np.clip(rng.uniform(-1, 1, size=(cells, 2)), -1 + radius, 1 - radius)
    found = on_cells(text, middle - radius, middle + radius)
    with precision(200):
        for cell in range(cells):
            t = rng.choice([-1.0, 0.0, 1.0, 0.37], size=2)
            low, high = (middle - radius)[cell], (middle + radius)[cell]
            at = {n: (arb(a) + arb(b)) / 2 + (arb(b) - arb(a)) / 2 * arb(s)
                  for n, a, b, s in zip("xy", low.tolist(), high.tolist(), t.tolist(), strict=True)}  # fmt: skip
            exact = enclose(parse(text), at)
            if exact.is_finite() and np.isfinite(found.rest.values[cell]):
                assert abs(exact - value(found, cell, t)).lower() <= found.rest.values[cell] + 1e-15
    assert np.isfinite(found.rest.values).mean() > 0.3
    smooth = not any(word in text for word in ("sign(x)", "abs", "max(x", "clamp(2", "min(x, relu", "x^0.5", "x + 1"))
    assert not smooth or found.rest.values[radius[:, 0] < 1e-3].max() < 1e-9


def test_kinks_cost_their_chord_inside_a_cell_and_nothing_beside_it():
    lower = np.array([[-0.5, -0.5], [0.0, -0.5], [-1.0, -0.5]])
    found = on_cells("abs(x) + y", lower, lower + 1.0, degree=2)
    assert found.rest.values.tolist() == pytest.approx([0.25, 0.0, 0.0], abs=1e-15)
    assert found.c[found.table.place[1, 0]].tolist() == [0.0, 0.5, -0.5]
    jump = on_cells("step(x) + y", lower, lower + 1.0, degree=2)
    assert jump.rest.values.tolist() == [0.5] * 3  # at zero a jump takes neither value
    unknown = on_cells("sqrt(x) + 0*log(y)", [[1.0, -1.0], [-1.0, 1.0]], [[1.0, -1.0], [-1.0, 1.0]])
    assert np.isinf(unknown.rest.values).all()


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("where(x < 0, -x, x)", [True, True, True, True, False]),
        ("where(x < 0, 1, x)", [True, False, True, True, False]),  # to the left its value at zero is another one
        ("where(x <= 0, 1, x)", [True, True, False, True, False]),
        ("where(x < 0, 1/(x - 2), log(x))", [True, False, False, True, False]),
        ("where(x < 0, x^2, sqrt(x))", [True, True, False, True, False]),
    ],
)
def test_cells_may_touch_the_border_only_where_the_branches_meet(text, known):
    """On the side that has the border's value, and on both if they meet; log(x) has no series at zero."""
    cells = np.array([[-0.5], [-0.25], [0.0], [0.25], [-0.125]])
    assert (on_cells(text, cells, cells + 0.25, ("x",), 6).rest.values < 0.02).tolist() == known


# Heads and layers


def inputs_of(case: Case, order: int):
    """Both inputs as rows, on the whole box, and its middle and radius."""
    middle = case.lower / 2 + case.upper / 2
    radius = np.nextafter(np.maximum(case.upper - middle, middle - case.lower), np.inf) * (case.upper > case.lower)
    found = Models.constant(degrees(len(middle), order), middle)
    found.c[1 : 1 + len(middle)] = np.diag(radius)[::-1]  # the last input's index comes first

    def rows(part: slice, count: int) -> Models:
        c, rest = found.c[:, part], found.rest.values[part]
        return Models(found.table, c.reshape(len(found.table), 1, count, -1), Up(rest.reshape(1, count, -1)))

    told = None if case.network.context is None else rows(slice(case.inputs, None), case.told)
    return rows(slice(0, case.inputs), case.tokens), told, middle, radius


def leaves(seed: int) -> list[str]:
    """The dtypes in which torch's runs of a random network leave its models."""
    case, rng, found = random_case(seed), np.random.default_rng([seed, 1]), []
    points, order = case.points(rng, 24), int(rng.integers(1, 3))
    for dtype in DTYPES:
        try:
            whole = rounded(case.network, dtype)
        except AttnforgeError:
            continue
        state, told, middle, radius = inputs_of(case, order)
        with np.errstate(all="ignore"):
            models = run_network(whole, state, machine(dtype), told)
            shares = (points - middle) / np.where(radius > 0, radius, 1.0)
            monomials = np.prod(shares[:, None] ** models.table.exponents, axis=2)
            c, rest = models.c.reshape(len(models.c), -1), models.rest.values.ravel()
            own = 2.0**-40 * np.abs(c).sum(axis=0)  # what evaluating the polynomial in float64 may add
            inside = np.abs(_torch(case, dtype, points) - monomials @ c) <= rest + own
        if not np.all(inside | np.isinf(rest)):
            found.append(dtype)
    return found


def test_runs_of_random_networks_lie_in_their_models(monkeypatch):
    assert [seed for seed in range(60) if leaves(seed)] == []
    monkeypatch.setattr(Models, "wider", lambda models, _: models)  # models that forget rounding are seen
    assert any("bfloat16" in leaves(seed) for seed in range(12))

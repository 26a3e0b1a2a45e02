"""Taylor models of the provers hold what they stand for: every operation, formula, head and layer at random points."""

from __future__ import annotations

import numpy as np
import pytest
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial import polynomial

from attnforge.balls import Balls, Up, machine, precision
from attnforge.certification.enclosure.bernstein import largest_size
from attnforge.certification.enclosure.degrees import degrees
from attnforge.certification.enclosure.factors import Factor, FactorHead, factor_head
from attnforge.certification.enclosure.formula_models import formula_models
from attnforge.certification.enclosure.head_models import head_models
from attnforge.certification.enclosure.kinks import kink_cuts
from attnforge.certification.enclosure.model_layers import largest_mean, run_network
from attnforge.certification.enclosure.taylor_models import Models
from attnforge.errors import AttnforgeError
from attnforge.network import Head, Linear, Term, rounded
from attnforge.targets.expression import enclose, parse
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


def test_models_are_close_and_ranges_all_there_is():
    c = np.array([[1.0], [0.1], [0.01], *[[0.0]] * 6])
    assert (Models(degrees(1, 8), c, Up.zeros(1)).exp().rest.values < 1e-6).all()
    wide = random_models(np.random.default_rng(0), 1, 2, 100.0)
    wide = wide.between(np.full(12, -1.0), np.full(12, 3.0), wide.swing())
    low, high = wide.range()
    assert np.allclose(low, -1.0)
    assert np.allclose(high, 3.0)


@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(1, 4))
@settings(max_examples=30)
def test_the_largest_value_of_a_polynomial_lies_between_bernsteins_bounds(seed, inputs, pieces):
    rng = np.random.default_rng(seed)
    coefficients = rng.normal(size=(1, *[4] * inputs))
    evaluate = {1: polynomial.polyval, 2: polynomial.polyval2d, 3: polynomial.polyval3d}[inputs]
    values = np.abs(evaluate(*rng.uniform(-1, 1, (inputs, 400)), coefficients[0]))
    above, below = largest_size(coefficients, pieces)
    assert max(values.max(), below[0], 0) <= above[0]
    parabola = np.array([[1.0, 0.0, -2.0]])  # Bernstein: -1, 3, -1 on [-1, 1], and 1, 1, -1 on [0, 1]
    assert [largest_size(parabola, n)[0][0] for n in (1, 2)] == pytest.approx([3.0, 1.0], abs=1e-13)


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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("where(2*x < 1, 0.5, x)*y + where(0 < y, x, -y)", [[0.5], [0.0]]),
        ("relu(4*y - 1)*x + max(x, 0.5, y)", [[0.5], [0.25, 0.5]]),
        ("clamp(x, -0.5, 0.5) + step(y)", [[-0.5, 0.5], [0.0]]),
        ("abs(x + y) + abs(x - 3) + abs(x*y) + sin(x) + max(x - x, y^2)", [[], []]),
        (" + ".join(f"abs(x - {k}/16)" for k in range(9)), [[], []]),  # too many: left to halving
    ],
)
def test_boxes_are_cut_at_kinks_first(text, expected):
    assert [found.tolist() for found in kink_cuts(parse(text), ("x", "y"), -np.ones(2), np.ones(2))] == expected
    (below, above), _ = kink_cuts(parse("abs(x - 1/3)"), ("x", "y"), -np.ones(2), np.ones(2))
    assert below < 1 / 3 < above < below + 1e-11


# Heads and layers


def random_head(rng, sizes):
    """A product of random factors, the first of x, the second of y; and the same head as one list of keys."""
    factors, slopes, offsets = [], np.zeros((2, 1)), np.zeros(1)
    for axis, size in enumerate(sizes):
        own = np.zeros((2, size))
        own[axis : axis + 1] = rng.normal(size=(1, size)) * 3 if axis < 2 else 0
        factors.append(Factor(Balls.exact(own), Balls.exact(rng.normal(size=size)), (axis,) if axis < 2 else ()))
        slopes = (slopes[:, :, None] + own[:, None]).reshape(2, -1)
        offsets = (offsets[:, None] + factors[-1].offsets.mid).ravel()
    head = FactorHead(tuple(factors), Balls.exact(rng.normal(size=sizes)))
    off = Balls(slopes, 1e-15 * np.abs(slopes)), Balls(offsets, 1e-15 * np.abs(offsets) + 1e-15)
    return head, FactorHead((Factor(*off, (0, 1)),), Balls.exact(head.values.mid.ravel()))


@pytest.mark.parametrize("sizes", [(3,), (3, 4), (2, 3, 4), (1, 2)])
@pytest.mark.parametrize("seed", range(3))
def test_models_of_heads_hold_every_value_from_factors_and_from_a_list(sizes, seed):
    rng = np.random.default_rng(seed)
    pair, table = random_head(rng, sizes), degrees(2, 4)
    middle, radius = rng.uniform(-1, 1, (3, 2)), np.array([[1e-12], [0.001], [0.05]])
    variables = Models.variables(table, middle - radius, middle + radius)
    found = [head_models(head, variables) for head in pair]
    assert found[0].rest.values[0] < 1e-10
    assert found[0].rest.values[2] < 0.1
    keys = pair[1].factors[0]
    with precision(160):
        for cell in range(3):
            t = rng.uniform(-1, 1, 2)
            at = [value(variables[:, i], cell, t) for i in range(2)]
            scores = [arb(a) * at[0] + arb(b) * at[1] + arb(c)
                      for a, b, c in zip(*keys.slopes.mid.tolist(), keys.offsets.mid.tolist())]  # noqa: B905  # fmt: skip
            weights = [score.exp() for score in scores]
            above = sum((w * v for w, v in zip(weights, pair[1].values.mid.tolist(), strict=True)), start=arb(0))
            for each in found:
                assert abs(above / sum(weights, start=arb(0)) - value(each, cell, t)) <= each.rest.values[cell] + 1e-13
    with np.errstate(all="ignore"):
        low, high = head_models(pair[0], Models.variables(table, -1e4 * np.ones((1, 2)), 1e4 * np.ones((1, 2)))).range()
    assert (low[0], high[0]) == pytest.approx((pair[0].values.mid.min(), pair[0].values.mid.max()))


def test_a_grid_splits_into_its_axes_whatever_its_order():
    x, y = (part.ravel() for part in np.meshgrid([-1.0, 0.0, 1.0], [-2.0, -1.0, 1.0, 2.0], indexing="ij"))
    keys, values = np.column_stack([x, x**2, y, y**2]), np.random.default_rng(0).normal(size=(12, 1))
    query = np.array([[2.0, 0, 0, 0], [0, 0, 3.0, 0], [0.5, -1.0, 0, -1.0]])
    encode, order = (Linear((Term(np.eye(2, 3)),), np.eye(1, 3, 2)),), np.random.default_rng(1).permutation(12)

    def read(keys, values, out=1.0):
        return factor_head(encode, Head(query, out * np.eye(1), memory_keys=keys, memory_values=values), 2)

    found = read(keys[order], values[order])
    assert np.array_equal(found.values.mid, values.reshape(3, 4))
    assert np.array_equal(read(keys, values, 2.0).values.mid, 2 * values.reshape(3, 4))
    assert [factor.reads for factor in found.factors] == [(0,), (1,)]
    assert found.factors[0].slopes.mid[0].tolist() == [-2.0, 0.0, 2.0]
    assert [factor.offsets.mid.tolist() for factor in found.factors] == [[-1.5, 0.0, -0.5], [-4.0, -1.0, -1.0, -4.0]]
    bent = keys + 0.25 * (np.arange(12) == 5)[:, None] * np.eye(1, 4, 1)
    for others in ((keys[:-1], values[:-1]), (bent, values), (np.vstack([keys, keys]), np.vstack([values, values]))):
        whole = read(*others)
        assert [factor.reads for factor in whole.factors] == [(0, 1)]
        assert np.array_equal(np.sort(whole.values.mid), np.sort(others[1][:, 0]))


@given(seed=st.integers(0, 10**6), keys=st.integers(1, 8))
def test_extremes_of_weighted_means(seed, keys):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(1, keys)) * 10.0 ** rng.uniform(-3, 3)
    low = rng.uniform(0.0, 1.0, (1, keys))
    high = low + rng.uniform(0.0, 1.0, (1, keys))
    low[0, 0] = high[0, 0] = 1.0
    weights = np.where((np.arange(2**keys)[:, None] >> np.arange(keys)) & 1, high, low)
    best = ((weights * values).sum(axis=1) / weights.sum(axis=1)).max()
    found = float(largest_mean(*(each[..., None] for each in (values, low, high)))[0, 0])
    assert best <= found <= best + 1e-9 * np.abs(values).max()


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

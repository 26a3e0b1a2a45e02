"""Polynomials of the checker hold what they stand for: coefficients, ranges and rests against exact values."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from flint import arb, arb_series

from attnforge.certification.checker.formula import FormulaOn
from attnforge.certification.checker.heads import _curved
from attnforge.certification.checker.powers import few, sums
from attnforge.certification.checker.search import exactly
from attnforge.certification.checker.space import Form, Space
from attnforge.certification.checker.taylor import ONE, UNKNOWN, ZERO, Cell, meet, terms
from attnforge.certification.checker.values import Place, Value, constant
from attnforge.outward import machine, precision
from attnforge.targets import Box, Formula
from tests.certification.exact import formula_at

SEEDS = range(3)


def overlap(found, wanted):
    return all(a.overlaps(b) for a, b in zip(found, wanted, strict=True))


def at_steps(cell, coefficients, point):
    """A polynomial at a point of its cell."""
    steps = [arb(x) - m for x, m in zip(point, cell.middle, strict=True)]
    powers = (np.prod([s**i for s, i in zip(steps, each, strict=True)], initial=ONE) for each in cell.terms.exponents)
    return sum((c * p for c, p in zip(coefficients, powers, strict=True)), start=ZERO)


# Algebra


@pytest.mark.parametrize("seed", SEEDS)
def test_one_variable_agrees_with_flints_own_series(seed):
    rng = np.random.default_rng(seed)
    with exactly(6):
        table = terms(1, 6)
        a, b = ([arb(x) for x in rng.uniform(-1, 1, table.count).tolist()] for _ in range(2))
        s, t = arb_series(a), arb_series(b)
        outer = arb_series([a[0], 1]).sin()
        wanted = {
            "multiply": (table.multiply(a, b), s * t),
            "inverse": (table.inverse(a), 1 / s),
            "exponential": ([a[0].exp() * x for x in table.exponential(a)], s.exp()),
            "compose": (table.compose([outer[j] for j in range(7)], a), s.sin()),
        }
        for name, (found, series) in wanted.items():
            assert overlap(found, [series[j] for j in range(7)]), name
            assert max(float(x.rad()) for x in found) < 1e-30, name


def rational(cell):
    """(x y + e^x) / (2.5 + x^2 + y), a function without poles where |x|, |y| <= 2."""
    x, y = cell.variable(0), cell.variable(1)
    grown = x.map(lambda c: [c[0].exp() * k for k in cell.terms.exponential(c)])
    above = cell.add(cell.multiply(x, y), grown)
    return cell.divide(above, cell.add(cell.constant(arb(2.5)), cell.multiply(x, x), y))


@pytest.mark.parametrize("seed", range(5))
def test_ranges_rests_and_largest_values_hold_what_is_attained_and_hardly_more(seed):
    """The quotient, and less its value at the middle: a function that changes sign within the cell."""
    rng = np.random.default_rng(seed)
    low = rng.uniform(-1, 1, 2)
    high = low + 10.0 ** rng.uniform(-2, -0.5, 2)
    with exactly(7):
        cell = Cell(tuple(low.tolist()), tuple(high.tolist()), 7)
        model = rational(cell)
        sharp, shift = cell.sharp(model), cell.constant(arb(-float(model.at[0].mid())))
        rest, (largest, seen), attained = cell.rest(model), cell.largest(cell.add(model, shift)), 0.0
        for point in [*rng.uniform(low, high, size=(20, 2)).tolist(), low.tolist(), high.tolist()]:
            here = rational(Cell(tuple(point), tuple(point), 7))
            assert cell.range(model).contains(here.at[0])
            for known in (model, sharp):
                assert all(over.contains(at) for over, at in zip(known.over, here.at, strict=True))
            assert abs(here.at[0] - at_steps(cell, model.at, point)) <= rest
            assert abs(here.at[0] + shift.at[0]) <= largest
            attained = max(attained, float(abs(here.at[0] + shift.at[0])))
        assert all(a.rad() <= b.rad() * 1.01 for a, b in zip(sharp.over, model.over, strict=True))
        assert largest <= 1.3 * attained + rest
        corners = itertools.product(*np.linspace(low, high, 5).T.tolist())
        assert seen <= max(float(abs(rational(Cell(c, c, 7)).at[0] + shift.at[0])) for c in corners)


def test_what_is_not_known_stays_unknown():
    with exactly(2):
        cell = Cell((-1.0,), (1.0,), 2)
        pole = cell.divide(cell.constant(arb(1)), cell.variable(0))
        assert not any(c.is_finite() for c in [*pole.over, cell.range(pole), *cell.terms.inverse([UNKNOWN, ONE, ZERO])])
        assert meet(UNKNOWN, arb(1)) == meet(arb(1), UNKNOWN) == 1
        assert meet(arb(0, 2), arb(3, 2)).contains(1.5)
        assert not meet(UNKNOWN, UNKNOWN).is_finite()


# Formulas

SMOOTH = [
    "sin(3*x)*cos(y)", "exp(x*y)/(2 + y)", "x^3 - 2*x*y^2 + 1", "sqrt(2 + x)*log(3 + y)", "tanh(4*x - y)",
    "atan(x)/(1 + x^2)", "sigmoid(x + y)*softplus(x - y)", "erf(x) + cosh(y) - sinh(x)", "(2 + x)^y", "(3 + x)^-2",
    "sinc(4*x) - sphericalj1(3*y)", "besselj0(3*x)*besselj1(2*y) + besselj2(x)", "gelu(x) + gelu_tanh(2*y) - silu(x*y)",
    "gamma(2 + x)/lgamma(4 + y)", "digamma(2 + x) + trigamma(2 + y)", "gamma(-0.5 + x/4) + lgamma(-1.5 + y/4)",
    "erfc(x)*normcdf(2*y)", "hypot(x, y, 1)", "atan2(y, 2 + x)", "atan2(2 + x, y) - atan2(x - 2, y)",
    "where(x < 2, x*y, 1/(x - y))", "(3 + x)^1.5", "asin(x/3) + acos(y/3)", "tan(x/2)*pi", "e^(x - y)", "x^0 + y^1",
    "(x - y)^7", "(x*y)^2",
]  # fmt: skip
KINKED = [
    "abs(x - y)", "max(x, y, 0.1)", "min(x^2, y)", "clamp(2*x, -0.5, y)", "relu(x)*relu(y)", "abs(abs(x) - 0.3)",
    "hypot(x, y)", "hypot(x - y, 2*x, y)", "where(x < y, x^2, y^2)", "where(x < 0, exp(x) - 1, x)*y", "abs(x)^3",
    "max(sin(5*x), cos(5*y))", "exp(abs(x))*relu(y - x)", "max(x, -x)/(2 + abs(y))", "sign(x)", "step(x - y)*x",
    "sign(x)*abs(x) + y", "max(sign(x), step(y))", "floor(3*x)", "where(x < y, 1, x)",
    "where(x < 0, sqrt(1 + x), 1/(1 + x))", "where(x + y < 0, 2, log(x + y + 1.0))",
]  # fmt: skip


def on(text, low, high, order=4):
    formula = Formula(text, Box([0.1] * len(low), [0.2] * len(low)), ("x", "y")[: len(low)])
    cell, space = Cell(tuple(low), tuple(high), order), Space([-1.0] * len(low), [1.0] * len(low))
    inputs = {name: Form({i: ONE}, ZERO) for i, name in enumerate(formula.names)}
    return cell, FormulaOn(inputs, space, cell)(formula.tree), formula.tree


@pytest.mark.parametrize("text", [*SMOOTH, *KINKED])
def test_ranges_contain_values_and_smooth_formulas_are_known_to_high_order(text):
    rng = np.random.default_rng(len(text))
    with exactly(4):
        for _ in range(8):
            low = rng.uniform(-1, 0.9, 2)
            high = np.minimum(low + 10.0 ** rng.uniform(-4, 0.3, 2), 1.0)
            if rng.random() < 0.3:  # around kinks and jumps, the middle on them
                low, high = np.minimum(-high, high), np.maximum(-high, high)
            cell, model, tree = on(text, low.tolist(), high.tolist())
            span = cell.range(model)
            for point in [*rng.uniform(low, high, size=(4, 2)).tolist(), low.tolist(), high.tolist()]:
                value = formula_at(tree, dict(zip("xy", point, strict=True)))
                if value.rad() < 1e-9:  # jumps have no value at the jump
                    assert not span.is_finite() or span.overlaps(value), (low, high, point)
                    assert not model.over[0].is_finite() or model.over[0].overlaps(value)
        if text in SMOOTH:
            cell, model, tree = on(text, (0.3, -0.4), (0.301, -0.399))
            assert model.at[0].overlaps(formula_at(tree, {"x": float(cell.middle[0]), "y": float(cell.middle[1])}))
            slope = max(abs(float(model.at[k].mid())) for k in cell.terms.axes)
            assert float(cell.range(model).rad()) <= slope * 1.1e-3 + 1e-5


# Linear forms along a line, and sums over keys


@pytest.mark.parametrize("seed", SEEDS)
def test_along_a_line_every_point_of_the_box_is_covered(seed):
    """Forms off the line are thick constants: each value of each form lies in the model at its y."""
    rng = np.random.default_rng(seed)
    low, w, s = rng.uniform(-1, 0, 5), rng.normal(size=5), rng.normal(size=5)
    high = low + rng.uniform(0.1, 1, 5)
    s = w * 1.7 + s * 10.0 ** -rng.integers(0, 18)
    with precision(160), exactly(2):
        space = Space(low.tolist(), high.tolist(), w.tolist())
        ends = [sum((arb(a) * arb(b) for a, b in zip(w.tolist(), side, strict=True)), start=arb(0))
                for side in (np.where(w > 0, low, high).tolist(), np.where(w > 0, high, low).tolist())]  # fmt: skip
        assert arb(space.lower[0]) <= ends[0] < arb(space.lower[0]) + 1e-14
        assert arb(space.upper[0]) - 1e-14 < ends[1] <= arb(space.upper[0])  # nothing beyond the box is looked at
        form = Form({i: arb(x) for i, x in enumerate(s.tolist())}, arb(0.25))
        for x in [*rng.uniform(low, high, size=(30, 5)).tolist(), low.tolist(), high.tolist()]:
            near = float(sum((arb(a) * b for a, b in zip(w.tolist(), x, strict=True)), start=arb(0)).mid())
            cell = Cell((near - 1e-9,), (near + 1e-9,), 2)
            value = sum((arb(a) * b for a, b in zip(s.tolist(), x, strict=True)), start=arb(0.25))
            assert cell.range(space.model(form, cell)).contains(value)


def key_by_key(cell, keys, key, values):
    """The coefficients of every column's sum at the middle, of scores less ``key``'s."""
    total = [[ZERO] * cell.terms.count for _ in values[0]]
    for row, numbers in zip(keys.tolist(), values.tolist(), strict=True):
        apart = [arb(k) - arb(w) for k, w in zip(row, key.tolist(), strict=True)]
        score = cell.terms.constant(sum((a * q for a, q in zip(apart, [*cell.middle, ONE], strict=True)), start=ZERO))
        for axis, slope in zip(cell.terms.axes, apart, strict=False):
            score[axis] = slope
        weights = [score[0].exp() * c for c in cell.terms.exponential(score)]
        total = [[t + w * arb(v) for t, w in zip(column, weights, strict=True)]
                 for column, v in zip(total, numbers, strict=True)]  # fmt: skip
    return total


def in_balls(place, query, keys, key, values):
    """The same sums by matrices of balls."""
    return few(place.cell, _curved(place, query, keys, key), [[arb(x) for x in row] for row in values.tolist()])


@pytest.mark.parametrize("added_up", [sums, in_balls])
@pytest.mark.parametrize("sharpness", [0.01, 1.0, 30.0, 1e4])
def test_coefficients_and_rest_are_those_of_the_sum_key_by_key(added_up, sharpness):
    rng = np.random.default_rng(int(sharpness))
    keys = sharpness * rng.normal(size=(25, 3))
    values = np.c_[rng.normal(size=25) * 10.0 ** rng.uniform(-3, 3, 25), np.ones(25)]
    low = rng.uniform(-1, 1, 2)
    high = low + 10.0 ** rng.uniform(-5, -1, 2) / max(sharpness, 1.0)
    with exactly(5), np.errstate(all="ignore"):
        cell = Cell(tuple(low.tolist()), tuple(high.tolist()), 5)
        place = Place(Space(low.tolist(), high.tolist()), cell, machine("float64"))
        query = [Value(place, Form({i: ONE}, ZERO), 0.0) for i in range(2)] + [constant(place, 1.0)]
        winner = keys[int((keys @ [*(low + high) / 2, 1.0]).argmax())]
        above, weight = added_up(place, query, keys, winner, values)
        found = cell.divide(above, weight)  # the slope taken off all sums cancels in quotients
        assert found.rest < 1e-3 * np.abs(values).max()
        for point in [*rng.uniform(low, high, (5, 2)).tolist(), low.tolist(), high.tolist(), None]:
            where = cell if point is None else Cell(tuple(point), tuple(point), 5)
            column, below = key_by_key(where, keys, winner, values)
            wanted = where.terms.multiply(column, where.terms.inverse(below))
            assert overlap(found.over, wanted)
            if point is None:
                assert overlap(found.at, wanted)
                assert float(found.at[0].rad()) < 1e-13 * np.abs(values).max()
            else:
                assert (at_steps(cell, found.at, point) + arb(0, found.rest)).overlaps(wanted[0])
        lone = [Value(place, Form({0: ONE}, ZERO), 0.0)]
        (wild,) = sums(place, lone, np.array([[0.0], [1e9]]), np.array([1e9]), np.ones((2, 1)))
        assert not any(x.is_finite() for x in wild.over) or wild.rest < np.inf

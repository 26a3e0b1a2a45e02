"""Coefficients against exact derivatives, and enclosures against values: both able to fail."""

import itertools
from math import comb

import numpy as np
import pytest
from flint import arb, arb_series, ctx

from attnforge.certification.checker.search import exactly
from attnforge.certification.checker.taylor import ONE, UNKNOWN, ZERO, Cell, Model, bernstein, meet, terms

SEEDS = range(6)


def overlap(found, wanted):
    return all(a.overlaps(b) for a, b in zip(found, wanted, strict=True))


def random_coefficients(rng, table):
    return [arb(x) for x in rng.uniform(-1, 1, table.count).tolist()]


@pytest.mark.parametrize(("variables", "order", "count"), [(1, 12, 13), (2, 7, 36), (3, 5, 56), (4, 4, 70)])
def test_there_are_as_many_terms_as_monomials(variables, order, count):
    table = terms(variables, order)
    assert table.count == comb(variables + order, order) == count
    assert [table.exponents[k].index(1) for k in table.axes] == list(range(variables))


@pytest.mark.parametrize("seed", SEEDS)
def test_one_variable_agrees_with_flints_own_series(seed):
    rng = np.random.default_rng(seed)
    with exactly(6):
        table = terms(1, 6)
        a, b = random_coefficients(rng, table), random_coefficients(rng, table)
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


@pytest.mark.parametrize(("variables", "order"), [(2, 5), (3, 4)])
def test_several_variables_obey_the_laws_of_algebra(variables, order):
    """A product by the inverse is 1, e^a e^-a is 1, and a linear exponent gives the same by both ways."""
    rng = np.random.default_rng(variables)
    with exactly(order):
        table = terms(variables, order)
        a = random_coefficients(rng, table)
        one = table.constant(ONE)
        assert overlap(table.multiply(a, table.inverse(a)), one)
        assert overlap(table.multiply(table.exponential(a), table.exponential([-x for x in a])), one)
        linear = [a[0], *a[1 : 1 + variables], *[ZERO] * (table.count - 1 - variables)]
        told = [x if x is not ZERO else arb(0) for x in linear]
        assert overlap(table.exponential(linear), table.exponential(told))


@pytest.mark.parametrize("seed", SEEDS)
def test_polynomials_are_expanded_as_by_hand(seed):
    """(p q)(m + t) by the binomial theorem, in two variables."""
    rng = np.random.default_rng(seed)
    p, q = rng.integers(-3, 4, (3, 3)), rng.integers(-3, 4, (3, 3))
    low, high = rng.uniform(-1, 0, 2), rng.uniform(0.1, 1, 2)
    with exactly(8):
        cell = Cell(tuple(low.tolist()), tuple(high.tolist()), 8)
        found = cell.multiply(polynomial(cell, p), polynomial(cell, q))
        x, y = cell.middle
        product = {}
        for (i, j), (k, n) in itertools.product(np.ndindex(3, 3), repeat=2):
            product[i + k, j + n] = product.get((i + k, j + n), 0) + int(p[i, j]) * int(q[k, n])
        for index, (a, b) in enumerate(cell.terms.exponents):
            terms_of = (
                c * comb(i, a) * comb(j, b) * x ** (i - a) * y ** (j - b)
                for (i, j), c in product.items()
                if i >= a and j >= b
            )
            assert found.at[index].overlaps(sum(terms_of, start=arb(0)))


def polynomial(cell, numbers):
    x, y = cell.variable(0), cell.variable(1)
    total = cell.constant(arb(0))
    for (i, j), c in np.ndenumerate(numbers):
        term = cell.constant(arb(int(c)))
        for factor in [x] * i + [y] * j:
            term = cell.multiply(term, factor)
        total = cell.add(total, term)
    return cell.tight(total)


@pytest.mark.parametrize("seed", SEEDS)
def test_ranges_and_coefficients_over_the_cell_contain_those_at_its_points(seed):
    rng = np.random.default_rng(seed)
    low = rng.uniform(-1, 1, 2)
    high = low + 10.0 ** rng.uniform(-3, 0, 2)
    with exactly(4):
        cell = Cell(tuple(low.tolist()), tuple(high.tolist()), 4)
        model = rational(cell)
        sharp = cell.sharp(model)
        for point in [*rng.uniform(low, high, size=(20, 2)).tolist(), low.tolist(), high.tolist()]:
            here = rational(Cell(tuple(point), tuple(point), 4))
            assert cell.range(model).contains(here.at[0])
            assert all(over.contains(at) for over, at in zip(model.over, here.at, strict=True))
            assert all(over.contains(at) for over, at in zip(sharp.over, here.at, strict=True))
        assert all(a.rad() <= b.rad() * 1.01 for a, b in zip(sharp.over, model.over, strict=True))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_rest_and_the_largest_value_bound_what_is_attained_and_hardly_more(seed):
    """The quotient less about its value at the middle: a function that changes sign within the cell."""
    rng = np.random.default_rng(seed)
    low = rng.uniform(-1, 1, 2)
    high = low + 10.0 ** rng.uniform(-2, -0.5, 2)
    with exactly(7):
        cell = Cell(tuple(low.tolist()), tuple(high.tolist()), 7)
        model = rational(cell)
        shift = cell.constant(arb(-float(model.at[0].mid())))
        rest, (largest, seen), attained = cell.rest(model), cell.largest(cell.add(model, shift)), 0.0
        for point in [*rng.uniform(low, high, size=(40, 2)).tolist(), low.tolist(), high.tolist()]:
            exact = rational(Cell(tuple(point), tuple(point), 7)).at[0]
            steps = [arb(x) - m for x, m in zip(point, cell.middle, strict=True)]
            powers = [steps[0] ** i * steps[1] ** j for i, j in cell.terms.exponents]
            polynomial = sum((c * t for c, t in zip(model.at, powers, strict=True)), start=ZERO)
            assert abs(exact - polynomial) <= rest
            assert abs(exact + shift.at[0]) <= largest
            attained = max(attained, float(abs(exact + shift.at[0])))
        assert largest <= 1.3 * attained + rest
        corners = itertools.product(*np.linspace(low, high, 5).T.tolist())
        assert seen <= max(float(abs(rational(Cell(c, c, 7)).at[0] + shift.at[0])) for c in corners)
        assert rest <= cell.rest(Model(model.at, model.over))


def test_bernstein_coefficients_enclose_a_wave_and_meet_its_ends():
    """Of T_4 on [-1, 1] every piece's ends are values, and the extremes are overshot by a third."""
    chebyshev = np.array([1.0, 0.0, -8.0, 0.0, 8.0])
    found = (bernstein(4, 4) @ chebyshev).reshape(4, 5)
    ends = np.linspace(-1, 1, 5)
    values = np.cos(4 * np.arccos(ends))
    assert np.allclose(found[:, 0], values[:-1])
    assert np.allclose(found[:, -1], values[1:])
    assert np.abs(found).max() >= 1.0
    assert np.abs(found).max() < 1.34
    assert np.abs(bernstein(12, 4)).max() <= 1.0


def rational(cell):
    """(x y + e^x) / (2 + x^2 + y), a function without poles where |x|, |y| <= 2 and y > -2."""
    x, y = cell.variable(0), cell.variable(1)
    grown = x.map(lambda c: [c[0].exp() * k for k in cell.terms.exponential(c)])
    above = cell.add(cell.multiply(x, y), grown)
    return cell.divide(above, cell.add(cell.constant(arb(2.5)), cell.multiply(x, x), y))


def test_even_monomials_are_not_negative():
    with exactly(4):
        cell = Cell((-1.0, -1.0), (1.0, 1.0), 4)
        size = dict(zip(cell.terms.exponents, cell.monomials, strict=True))
        assert size[2, 0].contains(0)
        assert size[2, 0].contains(1)
        assert size[2, 0].lower() > -1e-8
        assert size[1, 1].contains(-1)
        assert size[3, 0].contains(-1)
        assert size[2, 1].contains(-1)


def test_what_is_not_known_stays_unknown():
    with exactly(2):
        cell = Cell((-1.0,), (1.0,), 2)
        x = cell.variable(0)
        pole = cell.divide(cell.constant(arb(1)), x)
        assert not any(c.is_finite() for c in pole.over)
        assert not cell.range(pole).is_finite()
        assert not any(c.is_finite() for c in cell.terms.inverse([UNKNOWN, ONE, ZERO]))
        kink = Model([arb(0), UNKNOWN, UNKNOWN], [arb(0.5, 0.5), arb(0, 1), UNKNOWN])
        square = cell.multiply(kink, kink)
        assert square.over[1].is_finite()
        assert not square.over[2].is_finite()
        assert cell.range(square).contains(1)
        assert not cell.sharp(kink).over[2].is_finite()


def test_meet_takes_what_is_known():
    assert meet(UNKNOWN, arb(1)) == 1
    assert meet(arb(1), UNKNOWN) == 1
    assert meet(arb(0, 2), arb(3, 2)).contains(1.5)
    assert not meet(UNKNOWN, UNKNOWN).is_finite()


def test_the_block_restores_precision_and_order():
    before = ctx.prec, ctx.cap
    with exactly(7):
        assert (ctx.prec, ctx.cap) != before
    assert (ctx.prec, ctx.cap) == before

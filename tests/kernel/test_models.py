"""Every operation of models holds every function that its operands stand for: members at random points, in balls."""

from __future__ import annotations

import os
from functools import reduce

import numpy as np
import pytest
from flint import arb

from attnforge.kernel.degrees import degrees
from attnforge.kernel.models import Models, exp_above
from attnforge.outward import Up, precision

CELLS = int(os.environ.get("ATTNFORGE_EXAMPLES", "16"))
BITS = 400
TABLES = [
    degrees(1, 0), degrees(1, 1), degrees(1, 6), degrees(2, 3), degrees(3, 2), degrees(5, 1), degrees(2, 9, (8, 1)),
    degrees(2, 5, (3, 4)), degrees(3, 3, (3, 1, 1), lone=True), degrees(2, 2, (1, 1), lone=True), degrees(2, 4, (4, 0)),
]  # fmt: skip
REGIMES = ["rounded", "constant", "low", "unsure", "tiny", "short", "wide"]


def random_models(rng, table, regime, shape=None, size=1.0):
    """Models of one regime: which of what operations charge is large, and which is nothing."""
    shape = (CELLS,) if shape is None else shape
    mantissa = np.where(rng.integers(2, size=(len(table), *shape)), 1.0, rng.uniform(1, 2, size=(len(table), *shape)))
    c = rng.choice([-1.0, 1.0], size=mantissa.shape) * (mantissa + rng.uniform(0, 2.0**-30, size=mantissa.shape))
    c *= size * 2.0 ** (-table.totals.reshape(-1, *(1,) * len(shape)) * rng.choice([0.0, 1.0, 4.0], size=shape))
    c *= rng.integers(4, size=c.shape) > 0
    remainder, low = np.zeros(shape), None
    if regime == "constant":
        c[1:] = 0.0
    if regime in ("constant", "rounded", "wide"):
        low = c[0] * 2.0**-54 * rng.uniform(-1, 1, size=shape)
    if regime == "low":
        low = rng.uniform(-1, 1, size=shape) * 2.0 ** -rng.integers(1, 50, size=shape).astype(float) * size
    if regime in ("unsure", "wide"):
        remainder = rng.uniform(size=shape) * size * 2.0 ** -rng.integers(0, 60, size=shape).astype(float)
    if regime == "tiny":
        c *= 2.0**-530
        c[0] *= rng.integers(2)
    if regime == "short":
        c = np.round(c * 8) / 8
    return Models(table, c, Up(remainder), low)


def monomials(table, t):
    powers = [[arb(1)] for _ in t]
    for row, x in zip(powers, t.tolist(), strict=True):
        for _ in range(table.degree):
            row.append(row[-1] * arb(x))
    return [reduce(lambda a, b: a * b, (row[e] for row, e in zip(powers, each, strict=True)), arb(1))
            for each in table.exponents.tolist()]  # fmt: skip


def members(model, t, share):
    """One of the functions of each kind that the model stands for, at points (cells, inputs): balls (shape)."""
    found = np.empty(model.shape, dtype=object)
    low = np.broadcast_to(model.centre.lo, model.c.shape[1:])
    for cell in range(model.shape[0]):
        at = monomials(model.table, t[cell])
        for place in np.ndindex(model.shape[1:]):
            index = (cell, *place)
            c = model.c[(slice(None), *index)].tolist()
            some = sum((x * m for x, m in zip(map(arb, c), at, strict=True) if x != 0), start=arb(float(low[index])))
            found[index] = some + arb(float(share[index])) * arb(float(model.remainder.values[index]))
    return found


def points(rng, table, cells):
    t = rng.uniform(-1, 1, size=(cells, table.inputs))
    kind = rng.integers(4, size=(cells, 1))
    return np.where(kind < 2, np.sign(t), np.where(kind == 2, 0.0, t))


def shares(rng, model):
    return np.where(rng.integers(3, size=model.shape) > 0, rng.choice([-1.0, 1.0], size=model.shape), 0.5)


def misses(rng, found, function, *models, operands=None):
    """Whether some member of the operands leaves the result, and how much of its bound is used at most."""
    assert found.shape == found.c.shape[1:] == np.broadcast_shapes(found.shape, np.shape(found.centre.lo))
    most = 0.0
    with precision(BITS):
        t = points(rng, found.table, found.shape[0])
        exact = function(*(members(model, t, shares(rng, model)) for model in models))
        about = members(found, t, np.zeros(found.shape))
        for index in np.ndindex(found.shape):
            bound, miss = float(found.remainder.values[index]), abs(exact[index] - about[index])
            if np.isfinite(bound):
                assert miss.lower() <= bound, index
                most = max(most, float((miss / arb(bound)).mid()) if bound else 0.0)
    return most


def number(values, low=None):
    return np.vectorize(lambda a, b: arb(float(a)) + arb(float(b)), otypes=[object])(
        values, 0 * values if low is None else low
    )


def exps(values):
    return np.vectorize(lambda x: x.exp(), otypes=[object])(values)


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("table", TABLES, ids=str)
def test_sums_differences_and_multiples(table, regime):
    rng = np.random.default_rng(0)
    one, two = (random_models(rng, table, each) for each in (regime, rng.choice(REGIMES)))
    misses(rng, one + two, lambda a, b: a + b, one, two)
    misses(rng, one - two, lambda a, b: a - b, one, two)
    misses(rng, -one, lambda a: -a, one)
    for scale in (1.0, 2.0**-500):
        by = rng.normal(size=CELLS) * scale * (rng.integers(4, size=CELLS) > 0)
        by[:2] = 1.0, -1.0
        for low in (None, by * 2.0**-54 * rng.uniform(-1, 1, CELLS), by * rng.uniform(-1, 1, CELLS) * 0.01):
            with precision(BITS):
                exact = number(by, low)
            misses(rng, one.scaled(by, low), lambda a, exact=exact: a * exact, one)
            misses(rng, one.less(by, low), lambda a, exact=exact: a - exact, one)
            misses(
                rng,
                one.less(one.c[0], low),
                lambda a, exact=exact, by=by: a - number(one.c[0]) - exact + number(by),
                one,
            )


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("table", TABLES, ids=str)
def test_products(table, regime):
    rng = np.random.default_rng(1)
    for other in REGIMES:
        one, two = (random_models(rng, table, each, size=size) for each, size in ((regime, 1.0), (other, 30.0)))
        misses(rng, one * two, lambda a, b: a * b, one, two)


@pytest.mark.parametrize("regime", ["rounded", "tiny"])
@pytest.mark.parametrize("table", [degrees(1, 16), degrees(2, 6), degrees(2, 1)], ids=str)
def test_products_whose_monomials_are_all_kept(table, regime):
    """So that they are off by roundings alone; and of what has no constant part by those of higher coefficients."""
    rng = np.random.default_rng(8)
    for _ in range(3):
        one, two = (random_models(rng, table, regime, (8 * CELLS,)) for _ in range(2))
        for each in (one, two):
            each.c[table.totals > table.degree // 2] = 0.0
            each.c[0] *= rng.integers(2, size=each.shape)
        one, two = (Models(table, each.c, each.remainder) for each in (one, two))
        misses(rng, one * two, lambda a, b: a * b, one, two)
        misses(rng, one.scaled(two.c[0]), lambda a, two=two: a * number(two.c[0]), one)


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("table", TABLES, ids=str)
def test_quotients(table, regime):
    rng = np.random.default_rng(2)
    for other in REGIMES:
        for size in (1e-3, 0.03):
            one, two = random_models(rng, table, regime), random_models(rng, table, other, size=size)
            two = two.less(-np.abs(two.c[0]) * 2 - (two.swing().values * 2 + 2.0**-520))
            least = two.range()[0]
            assert (least > 0).all()
            with np.errstate(all="ignore"):
                found = one.over(two, least)
            misses(rng, found, lambda a, b: a / b, one, two)


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("table", TABLES, ids=str)
def test_exponentials(table, regime):
    rng = np.random.default_rng(3)
    for size in (1e-9, 1e-3, 0.3, 2.0, 30.0):
        one = random_models(rng, table, regime, size=size)
        one = one.less(rng.uniform(-5, 200, size=CELLS) * (rng.integers(3, size=CELLS) == 0))
        with np.errstate(all="ignore"):
            misses(rng, one.exp(), exps, one)


def test_exponentials_of_which_nothing_is_left_out():
    """All terms up to a high degree, so that roundings alone count; the powers add up to e^8, the first is 8."""
    rng, table, cells = np.random.default_rng(9), degrees(1, 64), 8 * CELLS
    c = np.zeros((len(table), cells))
    c[1] = rng.uniform(7, 8, size=cells)
    one = Models(table, c, Up.zeros(cells))
    found = one.exp()
    assert misses(rng, found, exps, one) > 0.01
    assert (found.remainder.values < 2.0**-45 * np.exp(8)).all()


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("table", TABLES[2:9:2], ids=str)
def test_matrices(table, regime):
    rng, cells = np.random.default_rng(4), max(CELLS // 8, 2)
    rows = random_models(rng, table, regime, (cells, 2, 3))
    batch = random_models(rng, table, regime, (cells, 1, 2, 3))
    for models, shape in ((rows, (3, 2)), (rows, (1, 2, 3, 4)), (rows, (cells, 2, 3, 2)), (batch, (2, 1, 3, 2))):
        for scale in (1.0, 2.0**-500):
            matrix = rng.normal(size=shape) * scale
            for low in (None, matrix * 2.0**-54, matrix * rng.uniform(-1, 1, size=shape) * 0.01):
                with precision(BITS):
                    exact = number(matrix, low)

                    def times(a, exact=exact):
                        return (a[..., :, None] * exact).sum(axis=-2)

                misses(rng, models.through(matrix, low), times, models)
    matrix = rng.normal(size=(3, 2))
    with precision(BITS):
        exact = number(matrix)
    misses(rng, rows.mixed(matrix), lambda a: np.einsum("ij,cjk->cik", exact, a), rows)
    for axis in (-1, -2):
        misses(rng, rows.sum(axis), lambda a, axis=axis: a.sum(axis=axis), rows)
    many = random_models(rng, table, regime, (2, 37))
    misses(rng, many.sum(), lambda a: a.sum(axis=-1), many)


@pytest.mark.parametrize("regime", REGIMES)
def test_the_same_functions_elsewhere(regime):
    rng, table = np.random.default_rng(5), degrees(2, 3)
    one, two = (random_models(rng, table, each, (4, 2, 3)) for each in (regime, "low"))
    plain = random_models(rng, table, "short", (4, 2, 3))
    for other in (two, plain):
        misses(rng, Models.joined([one, other], -2), lambda a, b: np.concatenate([a, b], axis=-2), one, other)
        mask = rng.integers(2, size=(4, 2, 3)) > 0
        misses(rng, one.where(mask, other), lambda a, b, mask=mask: np.where(mask, a, b), one, other)

        def replaced(a, b):
            a = a.copy()
            a[:, [1, 0]] = b
            return a

        misses(rng, one.placed((slice(None), [1, 0]), other), replaced, one, other)
    misses(rng, one.shaped(4, 6), lambda a: a.reshape(4, 6), one)
    misses(rng, one.moved(-3, -1).moved(-1, -3), lambda a: a, one)
    misses(rng, one.moved(-1, -2), lambda a: np.swapaxes(a, 1, 2), one)
    misses(rng, one[:, :1].stretched(4, 5, 3), lambda a: np.repeat(a[:, :1], 5, axis=1), one)
    misses(rng, one[:, 0, 1:], lambda a: a[:, 0, 1:], one)
    misses(rng, one.flat(), lambda a: a, one)
    misses(rng, one.wider(0.5), lambda a: a + 0.5, one)
    sure = one.only(mask)
    assert (np.isinf(sure.rest.values) == ~mask).all()
    assert np.array_equal(sure.remainder.values[mask], one.remainder.values[mask])


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("table", TABLES, ids=str)
def test_ranges_hold_all_members(table, regime):
    rng = np.random.default_rng(6)
    one = random_models(rng, table, regime)
    (low, high), swing, size, rest = one.range(), one.swing().values, one.size().values, one.rest.values
    bare = Models(table, one.c, one.rest)  # who leaves out low parts
    with precision(BITS):
        for _ in range(3):
            t = points(rng, table, CELLS)
            values, plain = members(one, t, shares(rng, one)), members(bare, t, np.zeros(bare.shape))
            for i, value in enumerate(values.tolist()):
                assert arb(low[i]) <= value.upper()
                assert value.lower() <= arb(high[i])
                assert abs(value - arb(float(one.c[0, i]))).lower() <= arb(swing[i])
                assert abs(value).lower() <= arb(size[i])
                assert abs(value - plain[i]).lower() <= arb(rest[i])
    loose = one.between(low, high, one.swing() * 4.0 + 1.0)
    assert not loose.c[1:].any()
    assert loose.low is None or not loose.low.any()
    misses(rng, loose, lambda a: a, one)
    same = one.between(low - 1.0, high + 1.0, one.rest)
    assert np.array_equal(same.c, one.c)
    misses(rng, same, lambda a: a, one)


def test_a_range_is_held_to_its_ends():
    rng, table = np.random.default_rng(10), degrees(1, 1)
    low = rng.normal(size=40 * CELLS)
    high = low + rng.uniform(size=low.size) * 2.0 ** -rng.integers(0, 50, size=low.size).astype(float)
    found = Models.constant(table, np.zeros(low.size)).only(np.zeros(low.size, dtype=bool))
    found = found.between(low, high, found.rest)
    with precision(BITS):
        for at, rest, ends in zip(
            found.c[0].tolist(), found.rest.values.tolist(), zip(low, high, strict=True), strict=True
        ):
            assert all(abs(arb(float(end)) - arb(at)) <= arb(rest) for end in ends)
    assert (found.rest.values <= (high - low) * 0.5 * (1 + 2.0**-40) + np.abs(low) * 2.0**-52).all()


def test_variables_reach_the_ends_of_their_cells_and_no_farther():
    rng = np.random.default_rng(7)
    lower = rng.normal(size=(CELLS, 3)) * 10.0 ** rng.integers(-8, 9, size=(CELLS, 3))
    lower[0], upper = 0.0, lower + rng.uniform(size=(CELLS, 3)) * 10.0 ** rng.integers(-12, 3, size=(CELLS, 3))
    upper[0], lower[1] = 1.0, upper[1]
    found = Models.variables(degrees(3, 2), lower, upper)
    low, high = found.range()
    assert (low <= lower).all()
    assert (upper <= high).all()
    assert ((high - low) <= (upper - lower) * (1 + 2.0**-50) + np.abs(lower) * 2.0**-51).all()
    assert low[:2].tolist() == lower[:2].tolist()
    assert high[:2].tolist() == upper[:2].tolist()
    fixed = Models.variables(degrees(3, 2, (2, 0, 1)), lower, upper)
    assert np.array_equal(fixed[:, ::2].range(), (low[:, ::2], high[:, ::2]))
    assert not fixed.c[1:, :, 1].any()
    assert (fixed.range()[0] <= lower).all()
    assert (fixed.range()[1] >= upper).all()


def test_what_cancels_does_so_to_a_hundred_bits():
    """(x + 1) - 1 and e^x e^-x at points: the centre keeps what float64 rounds away."""
    table, x = degrees(1, 3), np.linspace(0.1, 3.0, 7)
    one = Models.constant(table, x)
    assert (one.less(np.full(7, -1e10)).less(np.full(7, 1e10)) - one).size().values.max() < 1e-21
    unit = one.exp() * (-one).exp()
    assert (unit.less(np.ones(7)).size().values < 2.0**-72).all()
    third = one.scaled(x).over(one, x)
    assert ((third - one).size().values < 2.0**-98 * x).all()
    rows = Models.constant(table, np.array([[1e8, 1.0, -1e8]]))
    matrix = np.array([[np.pi], [1.0], [np.pi]])
    assert rows.through(matrix).less(np.array([[1.0]])).size().values < 1e-19


def test_small_cells_lose_what_they_vary_by():
    """What e^p and products leave out shrinks with the cell, to the power of the first degree that is left out."""
    table = degrees(1, 4)
    for radius in (1e-1, 1e-2, 1e-3):
        x = Models.variables(table, np.array([[1 - radius]]), np.array([[1 + radius]]))[:, 0]
        assert x.exp().rest.values < 5 * radius**5 / 100 + 8 * radius * 2.0**-53 + 2.0**-52
        assert x.exp().remainder.values < 5 * radius**5 / 100 + 40 * radius * 2.0**-53
        assert (x * x * x).remainder.values < 40 * radius * 2.0**-53


def test_nothing_is_known_of_what_overflows():
    table = degrees(1, 2)
    huge = Models(table, np.array([[1e200], [1e200], [0.0]]), Up.zeros(1))
    worst = Models(table, np.full((3, 1), np.nan), Up.zeros(1))
    zero, one = Models.constant(table, np.zeros(1)), Models.constant(table, np.ones(1))
    with np.errstate(all="ignore"):
        assert np.isinf(Models(table, np.full((3, 1), 1e308), Up.zeros(1)).scaled(np.array([10.0])).rest.values)
        unknown = [huge * huge, worst * zero, zero * worst, worst + one, huge.exp(), worst.exp()]
        unknown += [one.over(zero, np.zeros(1)), one.over(one, np.full(1, np.nan)), huge.less(np.array([np.nan]))]
        unknown += [huge.through(np.array([[1e200]])), one.only(np.array([False])) * zero, worst.shaped(1, 1).sum()]
        for found in unknown:
            assert np.isinf(found.rest.values).all()
            assert not np.isfinite(found.size().values).any()
            low, high = found.range()
            assert not np.isfinite(low).any()
            assert not np.isfinite(high).any()
    assert exp_above(np.array([800.0]), Up.zeros(1)).values.tolist() == [np.inf]

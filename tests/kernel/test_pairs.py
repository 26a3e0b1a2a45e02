"""Double-double numbers against balls of 400 bits: every operation is off by no more than it says, and hardly less."""

from __future__ import annotations

import os

import numpy as np
import pytest
from flint import arb

from attnforge.outward import Up, precision
from attnforge.outward.arrays import two_product
from attnforge.outward.pairs import Pairs, exp_above, exp_below, expm1_above, matrix_product

DRAWS = int(os.environ.get("ATTNFORGE_EXAMPLES", "3000"))
U = 2.0**-53


def numbers(rng, shape, spread):
    """Of many scales; many of few digits, or just above a power of two, where roundings are largest."""
    kinds = rng.integers(5, size=shape)
    mantissa = rng.uniform(1, 2, size=shape)
    near = 1 + rng.uniform(0, 2.0**-20, size=shape)
    short = 1 + rng.integers(0, 8, size=shape) / 8
    size = np.where(kinds < 2, near, np.where(kinds == 2, short, mantissa))
    return rng.choice([-1.0, 1.0], size=shape) * size * 2.0 ** rng.integers(-spread, spread + 1, size=shape)


def drawn(rng, shape, spread=3):
    """Pairs: nearly normal ones, some without low part, others whose low parts are large."""
    hi = numbers(rng, shape, spread)
    below = np.where(rng.integers(3, size=shape) == 0, rng.integers(1, 60, size=shape), 54)
    lo = numbers(rng, shape, 1) * np.abs(hi) * 2.0 ** -below.astype(float)
    return Pairs(hi, np.where(rng.integers(4, size=shape) == 0, 0.0, lo))


def opposed(rng, one):
    """Pairs which cancel a good part of what these make of others."""
    hi = numbers(rng, one.hi.shape, 1)
    lost, kind = two_product(one.hi, hi)[1], rng.integers(3, size=hi.shape)
    with np.errstate(all="ignore"):
        lo = np.select([kind == 0, kind == 1], [-one.lo * hi / one.hi, -(lost + one.lo * hi) / one.hi], -lost / one.hi)
    return Pairs(hi, np.nan_to_num(lo))


def exact(pair):
    """As objects: balls."""
    both = zip(pair.hi.ravel().tolist(), np.broadcast_to(pair.lo, pair.hi.shape).ravel().tolist(), strict=True)
    with precision(400):
        return [arb(h) + arb(low) for h, low in both]


def excess(found, error, wanted):
    """The largest ratio of an error and its bound."""
    with precision(400):
        misses = [abs(value - about).lower() for value, about in zip(wanted, exact(found), strict=True)]
        bounds = error.values.ravel().tolist()
        return max(_ratio(miss, bound) for miss, bound in zip(misses, bounds, strict=True) if np.isfinite(bound))


def _ratio(miss, bound):
    if not bound:
        return np.inf if miss > 0 else 0.0
    return float(miss / arb(bound))


PAIRS = {"scattered": drawn, "tiny": lambda rng, n: scaled_to(rng, drawn(rng, n), -1000, -500)}
OPERATIONS = {
    "plus": (lambda a, b: a.plus(b), lambda x, y: x + y),
    "times": (lambda a, b: a.times(b), lambda x, y: x * y),
}


def scaled_to(rng, pair, low, high):
    factor = 2.0 ** rng.integers(low, high, size=pair.hi.shape)
    return Pairs(pair.hi * factor, pair.lo * factor)


def partners(rng, one):
    """Others, unrelated and related ones."""
    some = rng.integers(4, size=one.hi.shape)
    other, against = drawn(rng, one.hi.shape), opposed(rng, one)
    near = Pairs(-one.hi * (1 + 2.0 ** -rng.integers(1, 50, size=one.hi.shape)), other.lo * 2.0**-40)
    parts = [[each.hi for each in (near, against)], [each.lo for each in (near, against)]]
    return Pairs(
        *(np.select([some == 0, some < 3], part, last) for part, last in zip(parts, (other.hi, other.lo), strict=True))
    )


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("kind", PAIRS)
@pytest.mark.parametrize("name", OPERATIONS)
def test_sums_and_products(name, kind, plain):
    rng, (ours, true) = np.random.default_rng(1), OPERATIONS[name]
    one = PAIRS[kind](rng, DRAWS)
    two = partners(rng, one) if kind == "scattered" else scaled_to(rng, drawn(rng, DRAWS), -560, 0)
    one, two = (Pairs.of(each.hi) for each in (one, two)) if plain else (one, two)
    found, error = ours(one, two)
    with precision(400):
        wanted = [true(x, y) for x, y in zip(exact(one), exact(two), strict=True)]
    assert excess(found, error, wanted) <= 1
    if kind == "scattered" and plain:
        assert not error.values.any()  # sums and products of float64 numbers are exact pairs
    elif kind == "scattered":
        assert excess(found, error * 0.5, wanted) > 1
        normal = np.abs(two.lo) + np.abs(one.lo) <= 2.0**-52 * np.minimum(np.abs(one.hi), np.abs(two.hi))
        sizes = np.abs(one.hi) + np.abs(two.hi) if name == "plus" else np.abs(one.hi * two.hi)
        assert (error.values[normal] <= 2.0**-102 * sizes[normal]).all()


@pytest.mark.parametrize("low", [0, -1000])
def test_quotients_leave_the_residual_they_say(low):
    rng = np.random.default_rng(2)
    one, two = drawn(rng, DRAWS), drawn(rng, DRAWS)
    two = Pairs(np.where(np.arange(DRAWS) % 2, one.hi * (1 + 2.0 ** -rng.integers(1, 53, DRAWS)), two.hi), two.lo)
    one = scaled_to(rng, one, low, low + 1 if low else 1)
    found, error = one.over(two)
    with precision(400):
        products = [x * y for x, y in zip(exact(found), exact(two), strict=True)]
        wanted = [x - z for x, z in zip(exact(one), products, strict=True)]
        assert all(not abs(x) > arb(e) for x, e in zip(wanted, error.values.tolist(), strict=True))
    if not low:
        normal = np.abs(two.lo / two.hi) + np.abs(one.lo / one.hi) <= 2.0**-52
        assert (error.values[normal] <= 2.0**-101 * np.abs(one.hi[normal])).all()


@pytest.mark.parametrize("count", [1, 2, 3, 7, 64, 301])
def test_sums_along_an_axis(count):
    rng = np.random.default_rng(count)
    one = drawn(rng, (max(DRAWS // count, 4), count), spread=8)
    one.hi[:, -1] = -one.hi[:, :-1].sum(axis=1) if count > 1 else one.hi[:, -1]
    for pair, axis in ((one, -1), (Pairs(one.hi.T, one.lo.T), 0)):
        found, error = pair.sum(axis)
        with precision(400):
            rows = np.array(exact(one), dtype=object).reshape(one.hi.shape)
            wanted = [sum(row, start=arb(0)) for row in rows.tolist()]
        assert excess(found, error, wanted) <= 1
        sizes = np.abs(one.hi).sum(axis=1) + np.abs(one.lo).sum(axis=1) * 2.0**53
        assert (error.values <= 2.0**-96 * sizes).all()
    plain, error = Pairs.of(one.hi).sum(-1)
    with precision(400):
        assert excess(plain, error, [sum(map(arb, row), start=arb(0)) for row in one.hi.tolist()]) <= 1


SHAPES = [
    ((3, 4), (4, 5)), ((2, 3, 1), (1, 4)), ((5, 40), (40, 2)), ((3, 2, 4), (1, 2, 4, 3)), ((3, 2, 4), (3, 2, 4, 3)),
    ((3, 1, 2, 4), (5, 1, 4, 3)), ((2, 0), (0, 3)), ((1, 700), (700, 2)), ((2, 4), (3, 2, 4, 2)),
    ((4, 3, 2), (3, 2, 5)),
]  # fmt: skip


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("spread", [0, 3, 30])
def test_products_by_matrices(shapes, spread):
    rng = np.random.default_rng(3)
    rows, matrix = (drawn(rng, shape, spread) for shape in shapes)
    short, plain = Pairs(np.sign(rows.hi), rng.uniform(-(2.0**-54), 2.0**-54, rows.hi.shape)), Pairs.of(matrix.hi)
    for one, two in ((rows, matrix), (rows, plain), (Pairs.of(rows.hi), Pairs.of(np.round(matrix.hi))), (short, plain)):
        found, error = one.through(two)
        objects = [np.array(exact(each), dtype=object).reshape(each.hi.shape) for each in (one, two)]
        with precision(400):
            wanted = (objects[0][..., None] * objects[1]).sum(axis=-2)
        about = (one.hi[..., None, :] @ two.hi)[..., 0, :]
        assert found.hi.shape == about.shape == wanted.shape
        if found.hi.size and one.hi.size:
            assert excess(found, error, [arb(0) + each for each in wanted.ravel().tolist()]) <= 1
        most = np.abs(one.hi).max(axis=-1, initial=0.0)[..., None] * np.abs(two.hi).max(axis=-2, initial=0.0)
        assert (error.values <= max(one.hi.shape[-1], 1) ** 3 * 2.0**-90 * most).all()
    assert np.allclose(matrix_product(rows.hi, matrix.hi), (rows.hi[..., None, :] @ matrix.hi)[..., 0, :])


def test_products_by_matrices_of_what_rounds_most():
    """Many factors of which all slices, here of 20 bits, are large and positive."""
    rng = np.random.default_rng(6)

    def factors(*shape):
        parts = ((2**19, 2**20, 20), (2**18, 2**19, 40), (2**11, 2**12, 53))
        hi = sum(rng.integers(low, high, size=shape) * 2.0**-bits for low, high, bits in parts)
        return Pairs(hi, rng.uniform(2.0**-55, 2.0**-54, size=shape))

    one, two = factors(2, 8192), factors(8192, 12)
    found, error = one.through(two)
    left, right = (np.array(exact(each), dtype=object).reshape(each.hi.shape) for each in (one, two))
    with precision(400):
        wanted = (left @ right).ravel().tolist()
    assert 2.0**-10 < excess(found, error, wanted) <= 1


@pytest.mark.parametrize("scales", [(-1000, -400), (-1060, 1), (900, -900), (-700, -350)])
def test_products_by_matrices_of_the_ends_of_the_range(scales):
    rng = np.random.default_rng(4)
    one, two = (scaled_to(rng, drawn(rng, (12, 12), 1), low, low + 3) for low in scales)
    one.hi[0], one.lo[0] = 0.0, 0.0
    found, error = one.through(two)
    objects = [np.array(exact(each), dtype=object).reshape(each.hi.shape) for each in (one, two)]
    with precision(400):
        wanted = (objects[0] @ objects[1]).ravel().tolist()
    assert excess(found, error, wanted) <= 1
    assert not error.values[0].any()


def test_exponentials():
    rng = np.random.default_rng(5)
    hi = np.concatenate([rng.uniform(-708, 709, DRAWS), rng.normal(size=DRAWS), rng.normal(size=DRAWS) * 2.0**-30])
    hi = np.concatenate([hi, [0.0, -0.0, 709.0, -700.0, -709.0, -1e6, 2.0**-1074, -1e308, np.log(2) / 8192]])
    x = Pairs(hi, numbers(rng, hi.shape, 3) * np.abs(hi) * 2.0**-54)
    found, error = x.exp()
    with precision(400):
        wanted = [each.exp() for each in exact(x)]
        assert excess(found, error, wanted) <= 1
        assert excess(found, Up(np.maximum(found.hi, 2.0**-1000) * 2.0**-81), wanted) > 1
        assert (error.values[hi > -600] <= 2.0**-74 * found.hi[hi > -600]).all()
        for value, above, below in zip(hi.tolist(), exp_above(hi).values.tolist(), exp_below(hi).tolist(), strict=True):
            true = arb(value).exp()
            assert below <= true.lower()
            assert true.upper() <= above
            assert value < -600 or above - below <= 2.0**-48 * above
        least = Up(np.abs(hi[hi > -1e5]))
        for value, above in zip(least.values.tolist(), expm1_above(least).values.tolist(), strict=True):
            assert arb(value).expm1().upper() <= above
            assert value < 2.0**-1000 or value > 700 or above <= (1.001 * arb(value).expm1()).upper()
    assert expm1_above(Up.zeros(1)).values.tolist() == [0.0]


def test_nothing_is_claimed_of_what_is_not_a_number():
    huge, bad = np.array([1e308, np.inf, np.nan, 2.0]), np.array([1e308, 1.0, 1.0, 0.0])
    one, two = Pairs.of(huge), Pairs.of(bad)
    with np.errstate(all="ignore"):
        results = [one.plus(two), one.times(two), one.exp(), one.through(Pairs.of(np.full((4, 2), 1e300)))]
        assert [np.isinf(error.values).tolist() for _, error in results[:3]] == [
            [True, True, True, False], [True, True, True, False], [True, True, True, False],
        ]  # fmt: skip
        assert np.isinf(results[3][1].values).all()
        assert np.isinf(two.over(Pairs.of(np.array([1.0, 0.0, np.nan, 0.0])))[1].values[1:]).all()
        assert np.isinf(one.sum(0)[1].values)
        assert exp_above(np.array([710.0, np.nan, np.inf])).values.tolist() == [np.inf] * 3
        assert exp_below(np.array([np.nan, -np.inf])).tolist() == [0.0, 0.0]
        assert np.isinf(Pairs(np.array([-800.0]), np.array([np.nan])).exp()[1].values).all()

"""Rounding bounds against brute force: random orders of summation, and the worst ones."""

import numpy as np
import pytest

from attnforge.balls import machine
from attnforge.certification.checker import rounding
from attnforge.network import Rows
from tests.network.examples import head

UNIT = 2.0**-24


def tree_sum(rng, terms):
    """Terms added in float32 along a random binary tree, often a lopsided one."""
    pool = [np.float32(t) for t in rng.permutation(terms)]
    lopsided = rng.random() < 0.5
    while len(pool) > 1:
        i = 0 if lopsided else int(rng.integers(len(pool)))
        first = pool.pop(i)
        j = int(rng.integers(len(pool)))
        pool[j if not lopsided else 0] = first + pool[j if not lopsided else 0]
    return float(pool[0])


def samples(rng, count):
    """Terms of many sizes: smooth weights, a few large ones, a geometric tail, mixed signs, ties."""
    yield rng.uniform(0, 1, count)
    yield rng.normal(size=count)
    yield 2.0 ** -np.arange(count) * rng.choice([-1, 1], count)
    yield np.append(1.0, np.full(count - 1, 2.0**-24))
    yield np.append(1.0, np.full(count - 1, 1.5 * 2.0**-24))
    yield np.append(rng.uniform(0.5, 1, 3), rng.uniform(0, 1e-9, count))
    yield np.append([1.0, -1.0], np.full(count, 2.0**-25))


@pytest.mark.parametrize("count", [2, 3, 8, 40])
def test_no_order_of_summation_loses_more(count):
    rng = np.random.default_rng(count)
    for terms in samples(rng, count):
        terms = np.float32(terms).astype(np.float64)
        exact, allowed = float(np.sum(terms.astype(np.longdouble))), rounding.added(terms, UNIT)
        for _ in range(40):
            assert abs(tree_sum(rng, terms) - exact) <= allowed


def test_the_bound_is_attained_up_to_a_factor():
    """1 + 2^-24 + 2^-24 + ... from the left stays 1: every addition loses half a unit."""
    terms = np.append(1.0, np.full(63, 2.0**-24))
    lost = 63 * 2.0**-24
    assert lost <= rounding.added(terms, UNIT) <= 1.01 * lost


def test_few_large_terms_cost_little():
    """A thousand terms of which two matter: far below the 1000 units that counting roundings gives."""
    terms = np.append([1.0, 0.5], np.full(1000, 1e-12))
    assert rounding.added(terms, UNIT) < 4 * UNIT
    assert rounding.added(np.array([0.7]), UNIT) <= UNIT


def test_opposite_signs_do_not_add_up():
    mixed = np.tile([1.0, -1.0], 50)
    assert rounding.added(mixed, UNIT) < 0.8 * rounding.added(np.abs(mixed), UNIT)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_scores_round_no_more_than_stated(dtype):
    """Dot products, and the subtraction of the largest, in the dtype against longer ones."""
    rng, model = np.random.default_rng(3), machine(dtype)
    kind = np.dtype(dtype).type
    for _ in range(200):
        keys, width = int(rng.integers(2, 9)), int(rng.integers(1, 5))
        q = (rng.normal(size=width) * 10.0 ** rng.integers(-2, 3)).astype(kind)
        k = rng.normal(size=(keys, width)).astype(kind)
        k[rng.random(k.shape) < 0.3] = kind(0.5)
        exact = (k.astype(np.longdouble) * q.astype(np.longdouble)).sum(axis=1)
        run = np.zeros(keys, kind)
        for column in rng.permutation(width):
            run = run + k[:, column] * q[column]
        apart = run - run.max()
        products = np.abs(k.astype(float) * q.astype(float))
        is_exact = np.abs(np.frexp(k.astype(float))[0]) == 0.5
        size, lead = np.abs(exact).astype(float), np.abs(apart).astype(float)
        found = rounding.scores(products, is_exact, size, lead, model)
        shift = (run.max() - exact[run.argmax()]).astype(float)  # common to all keys
        off = np.abs((apart.astype(np.longdouble) - (exact - exact[run.argmax()])).astype(float) + shift)
        assert np.all(off <= found + 1e-19)


@pytest.mark.parametrize(("dtype", "size"), [("float32", 1e38), ("bfloat16", 1e38), ("float64", 1e308)])
def test_scores_beyond_the_range_are_not_known(dtype, size):
    products, ones = np.full((1, 2), size), np.ones(1)
    exact = np.zeros((1, 2), dtype=bool)
    with np.errstate(all="ignore"):
        assert np.isnan(rounding.scores(products, exact, ones, ones, machine(dtype))).all()
    assert np.isfinite(rounding.scores(products / 100, exact, ones, ones, machine(dtype))).all()
    assert rounding.fits(np.array([1.0]), machine(dtype)).all()


def test_long_rows_of_keys_are_rescaled():
    assert (rounding.blocks(64), rounding.blocks(65)) == (1, 2)
    assert rounding.exponentials(65, machine("float32")) > 1.9 * rounding.exponentials(64, machine("float32"))
    assert rounding.exponentials(1, machine("float32")) >= 40 * UNIT


def test_heads_of_few_keys_are_written_out():
    small, large = head(memory=64), head(memory=65)
    assert rounding.Kernel.of(small) is rounding.WRITTEN_OUT
    assert rounding.Kernel.of(large) is rounding.Kernel.of(head(rows=Rows())) is rounding.ANY
    assert 8 * UNIT <= rounding.exponentials(64, machine("float32"), rounding.WRITTEN_OUT) <= 10 * UNIT
    given = np.ones((1, 2)), np.zeros((1, 2), dtype=bool), np.full(1, 2.0), np.full(1, 30.0), machine("float32")
    apart = rounding.scores(*given) - rounding.scores(*given, rounding.WRITTEN_OUT)
    assert apart >= 3 * 30 * UNIT

"""Keys that are products of smaller sets: means factor by factor hold what heads compute, and what runs make of it."""

from __future__ import annotations

import os
from functools import partial
from itertools import product

import numpy as np
import pytest
from flint import arb

from attnforge.kernel.degrees import degrees
from attnforge.kernel.heads import mixture, mixture_of_near
from attnforge.kernel.models import Models
from attnforge.kernel.product import Factors, factors_of, mixture_of_factors
from attnforge.kernel.rounding import EXACT
from attnforge.kernel.softmax import SoftmaxArithmetic
from attnforge.outward import Machine, machine, precision
from tests.kernel.executions import furthest
from tests.kernel.test_heads import one_output

EXAMPLES = int(os.environ.get("ATTNFORGE_EXAMPLES", "12"))
ROUGH = Machine("rough", 2.0**-10, 2.0**-10, 1e30, 0.0, 8)
SINGLE = Machine("rough single", 2.0**-10, 2.0**-10, 1e30, 0.0, 4)
HALF = Machine("rough half", 2.0**-7, 2.0**-12, 1e30, 0.0, 2)


def grid(sizes, rng, columns=1, scale=1.0):
    """The product of random sets, as keys (p, f)."""
    parts = [rng.normal(size=(size, columns)) * scale for size in sizes]
    return np.array([np.concatenate([part[i] for part, i in zip(parts, place, strict=True)])
                     for place in product(*map(range, sizes))])  # fmt: skip


def with_sum(keys, rng, noise=0.0):
    """With a column -|k|^2, as cells have, and what is not a sum of functions of the factors."""
    return np.hstack([keys, -(keys**2).sum(axis=1, keepdims=True) + noise * rng.normal(size=(len(keys), 1))])


def exactly(query, keys, values):
    """The mean, in balls."""
    with precision(300):
        scores = [sum((q * arb(float(k)) for q, k in zip(query, key, strict=True)), arb(0)) for key in keys]
        weights = [score.exp() for score in scores]
        total = sum(weights, arb(0))
        return [sum((w * arb(float(v)) for w, v in zip(weights, column, strict=True)), arb(0)) / total
                for column in values.T]  # fmt: skip


def query_on(rng, features, cells, radius, order=3):
    """Queries (C, 1, f) that are affine in two variables, with something unknown."""
    table = degrees(2, order)
    middle = rng.normal(size=(cells, 2))
    inputs = Models.variables(table, middle - radius, middle + radius)
    found = inputs.through(rng.normal(size=(2, features)))
    return found.wider(1e-3 * radius).shaped(cells, 1, features)


def at(models, index, t, share):
    """One of the functions a model stands for, at a point."""
    with precision(300):
        found = arb(float(models.rest.values[index])) * share
        for exponent, c in zip(models.table.exponents, models.c[(slice(None), *index)].tolist(), strict=True):
            found += arb(c) * arb(float(t[0])) ** int(exponent[0]) * arb(float(t[1])) ** int(exponent[1])
        return found


@pytest.mark.parametrize("sizes", [(4, 5), (3, 2, 4)])
def test_means_by_factors_hold_the_mean(sizes):
    rng, arithmetic = np.random.default_rng(len(sizes)), SoftmaxArithmetic(EXACT, int(np.prod(sizes)))
    closest = np.inf
    for seed in range(EXAMPLES):
        keys = with_sum(grid(sizes, rng, scale=(0.3, 2.0)[seed % 2]), rng, noise=(0.0, 0.01)[seed // 2 % 2])
        values = rng.normal(size=(len(keys), 2)) * 3 + 1
        factors = factors_of(keys)
        assert factors is not None
        assert sorted(map(len, factors.rows)) == sorted(sizes)
        query = query_on(rng, keys.shape[1], 3, (1e-3, 0.2)[seed % 3 == 0])
        found = mixture_of_factors(query, keys, values, factors, arithmetic)
        for cell in range(3):
            t = rng.choice([-1.0, 1.0, 0.3], size=2)
            given = [at(query, (cell, 0, f), t, rng.choice([-0.999999, 0.999999])) for f in range(keys.shape[1])]
            for feature, value in enumerate(exactly(given, keys, values)):
                off = abs(value - at(found, (cell, 0, feature), t, 0))
                rest = float(found.rest.values[cell, 0, feature])
                assert off.lower() <= rest
                closest = min(closest, rest / max(float(off.mid()), 1e-30))
    assert closest < 20


@pytest.mark.parametrize("on", [ROUGH, SINGLE, HALF], ids=lambda each: each.name)
@pytest.mark.parametrize("scale", [0.1, 1.0])
def test_the_worst_executions_stay_within_what_is_charged_by_factors(on, scale):
    rng, taken = np.random.default_rng(3), []
    for seed in range(max(2, EXAMPLES // 4)):
        keys = with_sum(grid((2, 3), rng, scale=3.0 * scale), rng)
        values, query = rng.normal(size=(6, 1)) + rng.integers(0, 3), rng.normal(size=3) / scale
        arithmetic = SoftmaxArithmetic(on, 6)
        given = Models.constant(degrees(2, 1), query[None, None])
        found = mixture_of_factors(given, keys, values, factors_of(keys), arithmetic)
        middle, radius = found.c[0].item(), found.swing().values.item()

        execute = partial(one_output, query=query, keys=keys, values=values, arithmetic=arithmetic)
        ends = furthest(execute, on, seed, 190)
        assert np.abs(ends - middle).max() <= radius * (1 + 1e-9)
        taken.append(np.abs(ends - middle).max() / radius)
        dense = mixture(given, keys[None, None], values[None, None], arithmetic)
        assert radius <= 2.5 * dense.swing().values.item()
    assert max(taken) > 0.3


def test_keys_far_below_the_best_are_charged_what_subtracting_it_rounds():
    """Two keys of one score but far from a third, which weighs nothing beside its value."""
    keys = np.array([[x, y] for x in (0.0, 1.0) for y in (0.0, 1.0)])
    values, arithmetic = np.array([[0.0], [40.0], [0.0], [0.0]]), SoftmaxArithmetic(SINGLE, 4, ulps=0)
    query = np.array([-20.0, -3.0])
    found = mixture_of_factors(
        Models.constant(degrees(2, 1), query[None, None]), keys, values, factors_of(keys), arithmetic
    )
    execute = partial(one_output, query=query, keys=keys, values=values, arithmetic=arithmetic)
    ends = furthest(execute, SINGLE, 0, 120)
    off = np.abs(ends - found.c[0].item()).max()
    assert 0.5 * found.swing().values.item() <= off <= found.swing().values.item()


def test_large_scores_are_charged_what_scaling_them_rounds():
    """By log2(e), before the largest is subtracted: a unit of the score, whatever is common to all keys."""
    keys = np.array([[x, y] for x in (4.0, 4.001) for y in (4.0, 4.001)])
    values, query = np.array([[1.0], [-1.0], [1.0], [-1.0]]), np.array([15.0, 17.0])
    arithmetic = SoftmaxArithmetic(Machine("single", 2.0**-14, 2.0**-14, 1e30, 0.0, 4), 4, ulps=0)
    given = Models.constant(degrees(2, 1), query[None, None])
    found = mixture_of_factors(given, keys, values, factors_of(keys), arithmetic)
    execute = partial(one_output, query=query, keys=keys, values=values, arithmetic=arithmetic)
    off = np.abs(furthest(execute, arithmetic.machine, 0, 120) - found.c[0].item()).max()
    assert 0.7 * found.swing().values.item() <= off <= found.swing().values.item()


def test_what_rows_do_not_explain_is_charged():
    """Any rows and places will do."""
    rng = np.random.default_rng(0)
    keys, values = grid((4, 4), rng), rng.normal(size=(16, 1))
    places = tuple(np.unravel_index(rng.permutation(16), (4, 4)))
    factors = Factors.of(keys, (rng.normal(size=(4, 2)), np.zeros((4, 2))), places)
    query = query_on(rng, 2, 4, 0.01)
    found = mixture_of_factors(query, keys, values, factors, SoftmaxArithmetic(EXACT, 16))
    for cell in range(4):
        value = exactly([at(query, (cell, 0, f), (1.0, -1.0), 0) for f in range(2)], keys, values)[0]
        assert abs(value - at(found, (cell, 0, 0), (1.0, -1.0), 0)).lower() <= found.rest.values[cell, 0, 0]
    with pytest.raises(ValueError, match="one to one"):
        Factors.of(keys, (np.zeros((4, 2)), np.zeros((4, 2))), (places[0], places[0]))


def test_what_differences_of_keys_and_rows_round_is_not_explained():
    places = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    factors = Factors.of(np.ones((4, 1)), (np.full((2, 1), 2.0**-60), np.ones((2, 1))), places)
    assert 2.0**-60 <= factors.unexplained.values.item() <= 2.0**-59


def test_a_guess_reads_groups_of_columns_and_sums():
    rng = np.random.default_rng(1)
    keys = with_sum(grid((4, 5), rng, columns=2), rng)[rng.permutation(20)][:, [3, 0, 4, 2, 1]]
    factors = factors_of(keys)
    assert factors is not None
    assert sorted(map(len, factors.rows)) == [4, 5]
    assert factors.unexplained.values.max() < 1e-14
    assert factors_of(rng.normal(size=(20, 2))) is None
    assert factors_of(keys[:-1]) is None
    assert factors_of(np.ones((16, 2))) is None


@pytest.mark.parametrize("dtype", [EXACT, machine("float64"), machine("float32")], ids=lambda each: each.name)
def test_factors_say_as_much_as_all_keys_at_once(dtype):
    """Of a head with many keys, what is left out and what is rounded."""
    axis = np.linspace(-1, 1, 17)
    keys = 12 * np.array(list(product(axis, axis)))
    values = np.sin(keys @ [[0.2], [0.1]])
    inputs = Models.variables(degrees(2, 24, (12, 12)), np.full((1, 2), 0.25), np.full((1, 2), 0.35))
    query, arithmetic = inputs.scaled(np.full((1, 2), 3.0)).shaped(1, 1, 2), SoftmaxArithmetic(dtype, 289)
    by_factors = mixture_of_factors(query, keys, values, factors_of(keys), arithmetic)
    at_once = mixture_of_near(query, keys[None, None], values[None, None], arithmetic, 42.0)
    assert by_factors.rest.values.item() < 1.1 * at_once.rest.values.item() < 1e-4

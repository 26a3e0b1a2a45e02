"""Heads as they run: no execution that the model of arithmetic allows leaves them, the worst come close."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from attnforge.kernel import heads
from attnforge.kernel.degrees import degrees
from attnforge.kernel.models import Models
from attnforge.kernel.rounding import EXACT
from attnforge.kernel.softmax import SoftmaxArithmetic
from attnforge.outward import Machine, Up
from tests.kernel.executions import furthest, head

EXAMPLES = int(os.environ.get("ATTNFORGE_EXAMPLES", "12"))

# rounding is what counts, so that second orders do, too; half types; what vanishes
ROUGH = Machine("rough", 2.0**-10, 2.0**-10, 1e30, 0.0, 8)
SINGLE = Machine("rough single", 2.0**-10, 2.0**-10, 1e30, 0.0, 4)
HALF = Machine("rough half", 2.0**-7, 2.0**-12, 1e30, 0.0, 2)
COARSE = Machine("coarse", 2.0**-6, 2.0**-6, 1e30, 0.0, 8)
COARSE_HALF = Machine("coarse half", 2.0**-4, 2.0**-9, 1e30, 0.0, 2)
FLUSHED = Machine("rough, flushed", 2.0**-30, 2.0**-30, 1e30, 2.0**-8, 8)


def one_output(run, query, keys, values, arithmetic):
    """An execution's output, of one feature."""
    return head(run, [np.full(len(run.deviations), q) for q in query], keys, values, arithmetic)[0]


def exactly(query, keys, values):
    weights = np.exp(keys @ query - (keys @ query).max())
    return weights @ values / weights.sum()


def constants(values, table=None):
    return Models.constant(table or degrees(1, 1), np.asarray(values, dtype=np.float64))


def bounds(query, keys, values, arithmetic):
    """The middle of the run's enclosure at a point, and its radius."""
    found = heads.mixture(constants(query[None, None]), keys[None, None], values[None, None], arithmetic)
    return found.c[0, 0, 0], found.swing().values[0, 0]


def share_attained(seed, query, keys, values, arithmetic):
    """How much of what is charged the worst execution takes, by features."""
    middle, radius = bounds(query, keys, values, arithmetic)
    exact, taken = exactly(query, keys, values), []
    assert np.all(np.abs(middle - exact) <= radius + 1e-12)
    for column in range(values.shape[1]):
        one = partial(one_output, query=query, keys=keys, values=values[:, [column]], arithmetic=arithmetic)
        size = len(keys) * (3 * keys.shape[1] + 16) + 40
        low_high = furthest(one, arithmetic.machine, seed, size)
        off = np.abs(low_high - middle[column]).max()
        assert off <= radius[column] * (1 + 1e-9), (seed, arithmetic)
        taken.append(off / radius[column])
    return taken


def arithmetic_of(machine, keys, written_out=False, block=64):
    return SoftmaxArithmetic(machine, keys, written_out=written_out, block=block)


@pytest.mark.parametrize("machine", [ROUGH, SINGLE, HALF, FLUSHED], ids=lambda each: each.name)
@pytest.mark.parametrize("written_out", [False, True])
def test_the_worst_executions_of_small_heads_stay_within_what_is_charged(machine, written_out):
    rng = np.random.default_rng(7)
    for seed in range(EXAMPLES):
        keys, features = int(rng.integers(1, 6)), int(rng.integers(1, 4))
        query, size = rng.normal(size=features), 10.0 ** rng.integers(-2, 2)
        places, values = rng.normal(size=(keys, features)) * size, rng.normal(size=(keys, 1)) + rng.integers(0, 3)
        share_attained(seed, query, places, values, arithmetic_of(machine, keys, written_out))


# Each charge, where it is most of what is charged: what the worst execution takes of it, at least

CASES = {
    "casting, and all that falls on one key": (ROUGH, [1.3], [[0.0]], [[5.0]], 1, 0.97),
    "adding up values and weights": (ROUGH, [1.3], [[0.0]] * 4, [[5.0]] * 4, 4, 0.6),
    "products of scores": (ROUGH, [9.7], [[3.3], [-3.3], [3.3], [-3.3]], [[1.0], [0.0], [0.0], [0.0]], 4, 0.3),
    "sums of scores": (ROUGH, [9.7, 8.7, 9.1], [[6.6, -3.3, -3.73], [3.3, 3.3, -6.67]], [[1.0], [-1.0]], 2, 0.4),
    "subtraction": (ROUGH, [1.0], [[0.0], [1.0]], [[0.0], [40.0]], 2, 0.4),
    "exponentials": (ROUGH, [1.0], [[0.0], [0.0]], [[1.0], [-1.0]], 2, 0.6),
    "exponentials in float32": (SINGLE, [1.0], [[0.0], [0.0]], [[1.0], [-1.0]], 2, 0.6),
    "scores scaled in float32": (SINGLE, [64.0], [[4.0], [4.0]], [[1.0], [-1.0]], 2, 0.6),
    "weights rounded to halves": (HALF, [1.0], [[0.0], [0.0]], [[1.0], [-1.0]], 2, 0.5),
    "weights rounded to halves, one sign": (HALF, [1.0], [[0.0], [0.0]], [[1.0], [1.1]], 2, 0.5),
    "weights rounded to halves in both sums": (HALF, [1.0], [[0.0]] * 8, [[1.0]] + [[0.0]] * 7, 8, 0.6),
    "quotients of sums that are far off": (COARSE, [1.0], [[0.0]] * 4, [[5.0]] * 4, 4, 0.5),
    "halves and sums that are far off": (COARSE_HALF, [1.0], [[0.0]] * 3, [[5.0], [5.0], [5.0]], 3, 0.5),
    "a quotient that is far off": (COARSE, [1.0], [[0.0]], [[5.0]], 1, 0.5),
    "values that vanish": (FLUSHED, [1.0], [[0.0], [-5.6], [-5.6]], [[1.0], [-9.0], [9.0]], 3, 0.02),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_is_charged_is_taken_by_some_execution(name):
    machine, query, keys, values, count, least = CASES[name]
    taken = [
        share_attained(seed, np.array(query), np.array(keys), np.array(values), arithmetic_of(machine, count, written))
        for seed in range(8)
        for written in (False, True)
    ]
    print(name, np.max(taken))
    assert np.max(taken) >= least


def test_rescaling_from_block_to_block_is_charged():
    """Blocks of one key: every key but the last is rescaled."""
    for seed in range(4):
        arithmetic = arithmetic_of(ROUGH, 4, block=1)
        taken = share_attained(seed, np.ones(1), np.zeros((4, 1)), np.full((4, 1), 3.0), arithmetic)
        assert max(taken) > 0.4


# Far keys


def near_and_all(rng, distance, machine, radius, count=40):
    keys, values = rng.normal(size=(count, 2)) * 3, rng.normal(size=(count, 2)) + 1
    middle = rng.normal(size=(6, 2))
    inputs = Models.variables(degrees(2, 2), middle - radius, middle + radius).wider(radius * 1e-2)
    given, arithmetic = inputs.shaped(6, 1, 2), SoftmaxArithmetic(machine, count)
    found = heads.mixture_of_near(given, keys[None, None], values[None, None], arithmetic, distance)
    return inputs, keys, values, found


@pytest.mark.parametrize("distance", [float("nan"), -5.0, 0.0, 1.0, 4.0, 42.0, float("inf")])
def test_any_distance_of_far_keys_is_sound(distance):
    """On cells with an unknown part, for the function itself; and what is left out is most of what is charged."""
    rng, closest = np.random.default_rng(5), np.inf
    for radius in (0.0, 1e-3, 0.1):
        inputs, keys, values, found = near_and_all(rng, distance, EXACT, radius)
        for cell in range(6):
            t = rng.choice([-1.0, 1.0], size=2)
            monomials = np.prod(t**found.table.exponents, axis=1)
            more = inputs.rest.values[cell] * rng.choice([-1.0, 1.0], size=2)
            exact = exactly(monomials @ inputs.c[:, cell] + more, keys, values)
            off = np.abs(monomials @ found.c[:, cell, 0] - exact)
            assert np.all(off <= found.rest.values[cell, 0] * (1 + 1e-9) + 1e-13)
            closest = min(closest, (found.rest.values[cell, 0] / np.maximum(off, 1e-30)).min())
    assert not 0 < distance < 5 or closest < 5


@pytest.mark.parametrize("part", ["slopes", "curvature", "rest"])
def test_no_weight_is_larger_than_its_gap_says(part):
    """Of any function that a query's model stands for; at some corner it comes close."""
    rng, table = np.random.default_rng(4), degrees(2, 2)
    keys, middle = rng.normal(size=(20, 3)), rng.normal(size=3)
    c, rest = np.zeros((len(table), 1, 1, 3)), np.zeros((1, 1, 3))
    c[0, 0, 0] = middle
    rows = np.flatnonzero(table.totals == {"slopes": 1, "curvature": 2}.get(part, 3))
    c[rows, 0, 0] = rng.normal(size=(len(rows), 3)) * 0.3
    rest[:] = 0.3 * (part == "rest")
    gap, _ = heads.gaps(Models(table, c, Up(rest)), keys[None, None], SoftmaxArithmetic(EXACT, 20))
    best, closest = int((keys @ middle).argmax()), np.inf
    for t in [(1, 1), (1, -1), (-1, 1), (-1, -1), (0, 1), (1, 0), (0, -1), (-1, 0)]:
        monomials = np.prod(np.array(t, dtype=float) ** table.exponents, axis=1)
        for signs in np.array(np.meshgrid(*[(-1, 1)] * 3)).reshape(3, -1).T:
            scores = keys @ (monomials @ c[:, 0, 0] + signs * rest[0, 0])
            assert np.all(scores - scores[best] <= gap[0, 0] + 1e-12)
            closest = min(closest, (gap[0, 0] - scores + scores[best])[np.arange(20) != best].min())
    assert closest < 1.0


def test_gaps_allow_for_what_the_run_rounds():
    gap, _ = heads.gaps(constants([[[1.0]]]), np.array([[[[5.0], [4.0]]]]), SoftmaxArithmetic(ROUGH, 2))
    assert gap[0, 0, 1] >= -1 + (5 + 4 + 1 + 16) * ROUGH.roundoff


def test_what_is_left_out_counts_among_what_is_summed():
    """Values that are zero but for far keys: additions, three roundings of each term, a cast."""
    keys, values = np.array([[0.0]] * 4 + [[-2.0]] * 2), np.array([[0.0]] * 4 + [[5.0]] * 2)
    given, far = (keys[None, None], values[None, None]), 2 * np.exp(-2)
    one, other = (
        heads.mixture_of_near(constants([[[1.0]]]), *given, SoftmaxArithmetic(on, 6), 1.0).rest.values.item()
        for on in (COARSE, EXACT)
    )
    assert one - other >= COARSE.roundoff * 5 * far * (5 + 3)
    small = SoftmaxArithmetic(replace(EXACT, largest=1.3), 6)
    assert np.isinf(heads.mixture_of_near(constants([[[1.0]]]), *given, small, 1.0).rest.values.item())


def test_far_keys_cost_what_they_weigh():
    keys, values = np.array([[0.0]] + [[-5.0]] * 19), np.array([[0.0]] + [[1.0]] * 19)
    given, arithmetic = constants([[[1.0]]]), SoftmaxArithmetic(EXACT, 20)
    found = heads.mixture_of_near(given, keys[None, None], values[None, None], arithmetic, 4.0)
    assert 16 * np.exp(-5) <= found.rest.values.item() <= 16 * np.exp(-5) * 1.001  # four are kept at least


@pytest.mark.parametrize("machine", [ROUGH, SINGLE, HALF, FLUSHED], ids=lambda each: each.name)
def test_the_worst_executions_stay_within_what_is_charged_with_far_keys(machine):
    """Roundings of all keys, with those left out."""
    rng = np.random.default_rng(6)
    for seed in range(max(2, EXAMPLES // 4)):
        keys, values = rng.normal(size=(6, 1)) * 3, rng.normal(size=(6, 1)) + 2
        arithmetic = arithmetic_of(machine, 6)
        found = heads.mixture_of_near(constants([[[1.0]]]), keys[None, None], values[None, None], arithmetic, 1.5)
        execute = partial(one_output, query=np.ones(1), keys=keys, values=values, arithmetic=arithmetic)
        ends = furthest(execute, machine, seed, 160)
        assert np.abs(ends - found.c[0].item()).max() <= found.swing().values.item()


def test_a_score_that_may_overflow_is_not_known():
    big = np.array([[2.0**100], [0.0]])
    arithmetic = SoftmaxArithmetic(Machine("float32", 2.0**-24, 2.0**-24, 3e38, 2.0**-126, 4), 2)
    for query, known in ((2.0**20, True), (2.0**27, False)):
        with np.errstate(all="ignore"):
            found = heads.mixture(constants([[[query]]]), big[None, None], np.ones((1, 1, 2, 1)), arithmetic)
        assert np.isfinite(found.rest.values.item()) == known


def test_sums_over_few_keys_that_matter_round_less_than_sums_over_all():
    keys = np.array([[0.0]] * 2 + [[-60.0]] * 98)
    arithmetic = arithmetic_of(ROUGH, 100)
    _, radius = bounds(np.ones(1), keys, np.full((100, 1), 3.0), arithmetic)
    assert radius[0] < 0.1 * float(arithmetic.mean()) * 3.0

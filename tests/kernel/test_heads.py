"""Heads as they run: no execution that the model of arithmetic allows leaves them, the worst come close."""

from __future__ import annotations

import os

import numpy as np
import pytest

from attnforge.kernel import heads
from attnforge.kernel.degrees import degrees
from attnforge.kernel.models import Models
from attnforge.kernel.softmax import SoftmaxArithmetic
from attnforge.outward import Machine
from tests.kernel.executions import Rounding, furthest, head

EXAMPLES = int(os.environ.get("ATTNFORGE_EXAMPLES", "12"))

# rounding is what counts, so that second orders do, too; half types; what vanishes
ROUGH = Machine("rough", 2.0**-10, 2.0**-10, 1e30, 0.0, 8)
SINGLE = Machine("rough single", 2.0**-10, 2.0**-10, 1e30, 0.0, 4)
HALF = Machine("rough half", 2.0**-7, 2.0**-12, 1e30, 0.0, 2)
FLUSHED = Machine("rough, flushed", 2.0**-30, 2.0**-30, 1e30, 2.0**-8, 8)


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

        def execute(run: Rounding, column=column):
            given = [np.full(len(run.deviations), q) for q in query]
            return head(run, given, keys, values[:, column : column + 1], arithmetic)[0]

        size = len(keys) * (3 * keys.shape[1] + 16) + 40
        low_high = furthest(execute, arithmetic.machine, seed, size)
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

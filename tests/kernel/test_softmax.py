"""The model of a softmax head's arithmetic against runs in float32, in blocks and in bad orders, and against itself."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from attnforge.kernel.softmax import SoftmaxArithmetic
from attnforge.outward import MACHINES, Up, gamma, machine

SINGLE = machine("float32")
F = np.float32


def written_out(scores, values):
    """Exponentials of the scores less the largest, their sum, quotients."""
    weights = np.exp((scores - scores.max()).astype(F))
    total = F(0.0)
    for w in weights:
        total = F(total + w)
    mean = F(0.0)
    for w, v in zip(weights, values, strict=True):
        mean = F(mean + F(F(w / total) * v))
    return float(mean)


def flash(scores, values, block, powers_of_two):
    """A kernel's softmax in float32: a running maximum, sums rescaled from block to block, one division."""
    scale = F(np.log2(np.e)) if powers_of_two else F(1.0)
    exp = np.exp2 if powers_of_two else np.exp
    top, total, weight = F(-np.inf), F(0.0), F(0.0)
    for start in range(0, len(scores), block):
        part = scores[start : start + block] * scale
        best = max(top, part.max())
        again = exp(F(top - best))
        total, weight, top = F(total * again), F(weight * again), best
        for s, v in zip(part, values[start : start + block], strict=True):
            w = exp(F(s - best))
            total, weight = F(total + F(w * v)), F(weight + w)
    return float(F(total / weight))


def exactly(scores, values):
    scores, values = scores.astype(np.longdouble), values.astype(np.longdouble)
    weights = np.exp(scores - scores.max())
    return float((weights * values).sum() / weights.sum()), weights / weights.sum()


@pytest.mark.parametrize("powers_of_two", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_no_run_in_blocks_leaves_the_model(seed, powers_of_two):
    rng = np.random.default_rng(seed)
    keys = int(rng.integers(2, 400))
    scores = (rng.normal(size=keys) * 10.0 ** rng.integers(-1, 3)).astype(F)
    values = rng.normal(size=keys).astype(F)
    model = SoftmaxArithmetic(SINGLE, keys)
    mean, weights = exactly(scores, values)
    apart, size = Up.of(scores.max() - scores), Up.of(scores)
    eta = model.subtraction(apart, size) + model.log_weights()
    moved = float((Up.of(weights.astype(np.float64)) * eta.expm1() * Up.of(values - mean)).sum() * 1.01)
    bound = moved + float(model.mean() * (weights @ np.abs(values)) + model.lost(np.abs(values).max()))
    assert abs(flash(scores, values, 64, powers_of_two) - mean) <= bound


@pytest.mark.parametrize("seed", range(6))
def test_a_softmax_that_is_written_out_stays_in_a_tighter_model(seed):
    rng = np.random.default_rng(seed)
    keys = int(rng.integers(2, 65))
    scores = (rng.normal(size=keys) * 10.0 ** rng.integers(-1, 3)).astype(F)
    values = rng.normal(size=keys).astype(F)
    mean, weights = exactly(scores, values)
    apart, size = Up.of(scores.max() - scores), Up.of(scores)
    bounds = []
    for model in (SoftmaxArithmetic(SINGLE, keys, written_out=True), SoftmaxArithmetic(SINGLE, keys)):
        eta = model.subtraction(apart, size) + model.log_weights()
        moved = float((Up.of(weights.astype(np.float64)) * eta.expm1() * Up.of(values - mean)).sum() * 1.01)
        bounds.append(moved + float(model.mean() * (weights @ np.abs(values)) + model.lost(np.abs(values).max())))
    assert abs(written_out(scores, values) - mean) <= bounds[0] <= bounds[1]


def test_the_roundings_of_both_sums_add_up():
    """One weight 1, then many of nearly a roundoff: the mean of values near 1 is off by nearly twice a sum's bound."""
    keys, unit = 1000, 2.0**-53
    weights, values = np.full(keys, unit * 0.9999), np.full(keys, 1.0003)
    weights[0] = values[0] = 1.0
    total = weight = 0.0
    for w, v in zip(weights, values, strict=True):
        total, weight = total + w * v, weight + w
    exact = sum(Fraction(w) * Fraction(v) for w, v in zip(weights, values, strict=True)) / sum(map(Fraction, weights))
    lost = abs(Fraction(total / weight) - exact)
    model = SoftmaxArithmetic(machine("float64"), keys, block=keys)
    assert 1.9 * model.sum() < lost < float(model.mean(after=0)) * 1.0003
    assert lost > gamma(keys + 4)


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("keys", [1, 2, 64, 65, 5000])
def test_the_model_is_tighter_than_what_it_replaces(name, keys):
    """40 (2 + keys / 64) roundings of log-weights; of float64, 9 an exponential and block."""
    model = SoftmaxArithmetic(machine(name), keys)
    unit, roundoff = model.unit, model.machine.roundoff
    assert float(model.log_weights()) <= 40 * (2 + keys / 64) * unit + (roundoff * 1.01 if model.is_half else 0.0)
    assert model.exponential == (8 if name == "float64" else 40) * unit
    assert model.sum() <= gamma(keys + model.blocks, unit)
    better = SoftmaxArithmetic(machine(name), keys, block=512, ulps=1)
    assert float(better.log_weights()) <= float(model.log_weights())
    small = SoftmaxArithmetic(machine(name), keys, written_out=True)
    assert small.exponential == 8 * unit
    assert small.scores(2) == gamma(4, unit)


def test_exponentials_near_one_err_by_half_as_much():
    model = SoftmaxArithmetic(machine("float64"), 2, ulps=1)
    near, far = model.near_one(Up.of([1e-9, 2.0])).values
    assert model.exponential / 2 <= near <= model.exponential / 2 * (1 + 1e-8)
    assert model.exponential <= far <= model.exponential * (1 + 1e-12)


def test_scores_are_sums_of_products():
    model = SoftmaxArithmetic(SINGLE, 3)
    assert model.score(5) == gamma(5, 2.0**-24)
    assert model.scores(5) == gamma(11, 2.0**-24)
    assert SoftmaxArithmetic(machine("float64"), 3).scores(5) == gamma(7)


def test_weights_that_vanish_move_a_mean_by_twice_the_values():
    model = SoftmaxArithmetic(machine("float16"), keys=100)
    weight, value = Fraction(model.machine.underflow), 1000
    others = (model.keys - 1) * weight
    moved = (others * value - value) / (1 + others) + value  # of one key of weight 1 and value -1000
    assert moved > (1 + value) * model.keys * weight
    assert moved <= Fraction(float(model.lost(value)))

"""Disturbed softmax weights, against brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnforge.lemmas.softmax import ratio_excess


def softmax(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores - scores.max())
    return weights / weights.sum()


@given(st.integers(2, 12), st.floats(0, 1), st.floats(0.1, 20), st.integers(0, 2**32 - 1))
def test_outputs_and_masses_move_by_no_more(keys, d, spread, seed):
    rng = np.random.default_rng(seed)
    scores, values = rng.normal(size=keys) * spread, rng.normal(size=keys)
    weights = softmax(scores)
    for reference in (weights @ values, values[0], 0.0):
        allowed = ratio_excess(d) * (weights @ np.abs(values - reference)) + 1e-14
        for delta in (d * np.sign(values - reference), -d * np.sign(values - reference), rng.uniform(-d, d, keys)):
            moved = softmax(scores + delta)
            assert abs((moved - weights) @ values) <= allowed
    chosen = rng.random(keys) < 0.5
    mass, moved = weights[chosen].sum(), softmax(scores + d * np.where(chosen, 1, -1))[chosen].sum()
    assert abs(moved - mass) <= ratio_excess(d) * mass * (1 - mass) + 1e-14


def test_the_bound_on_a_mass_is_attained_in_the_limit():
    d, scores = 1e-6, np.zeros(2)
    moved = softmax(scores + np.array([d, -d]))[0] - 0.5
    assert moved == pytest.approx(ratio_excess(d) / 4, rel=1e-5)


@pytest.mark.parametrize("d", [1e-300, 1e-17, 1e-3, 1.0, 100.0])
def test_the_number_is_expm1_rounded_up(d):
    assert math.expm1(2 * d) * (1 - 1e-15) < ratio_excess(d) <= math.expm1(2 * d) * (1 + 1e-15)


def test_the_ends():
    assert 0 <= ratio_excess(0.0) <= 5e-324
    assert ratio_excess(300.0) == ratio_excess(1e9) == math.inf

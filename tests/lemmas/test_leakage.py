"""A whole row of anchors, disturbed by an adversary, never errs by more than the lemma says -- and nearly as much."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnforge.lemmas.leakage import (
    interpolation,
    interpolation_estimate,
    mass_beyond,
    moment_beyond,
    open_end,
    row_error,
)
from attnforge.lemmas.spacing import spacing

SHARPNESS = [0.05, 0.3, 1.0, 1.5, 2.0, 2.7, 4.0, 8.0, 20.0, 60.0]
SLACK = 1e-12  # of the brute force's own rounding


def outputs(y: np.ndarray, values: np.ndarray, places: np.ndarray, c: float, delta: np.ndarray | float) -> np.ndarray:
    scores = -c * (y[:, None] - places) ** 2 + delta
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights @ values / weights.sum(axis=1)


def worst_row(c: float, p: int, *, d: float = 0.0, beyond: int = 0, ghosts: int = 0, points: int = 1501) -> float:
    """The largest |out - clamp| over y, with signs of the disturbance that push the output up, or down.

    ``beyond`` is 1 for an open grid (the interval is one step longer than the row).
    """
    places = np.arange(-ghosts, p + ghosts)
    values = np.clip(places, 0, p - 1).astype(np.float64)
    y = np.concatenate([np.linspace(-3.0 - ghosts, p + 3.0 + ghosts, points), np.arange(-1, p + 2) + 0.0])
    wanted, worst = np.clip(y, 0, p - 1 + beyond), 0.0
    for sign in (1.0, -1.0):
        out = outputs(y, values, places, c, 0.0)
        for _ in range(8 if d else 1):
            worst = max(worst, float(np.abs(out - wanted).max()))
            out = outputs(y, values, places, c, sign * d * np.sign(values - out[:, None]))
        worst = max(worst, float(np.abs(out - wanted).max()))
    return worst


@pytest.mark.parametrize("d", [0.0, 0.01, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("c", SHARPNESS)
def test_no_disturbed_row_errs_by_more(c, d):
    for p in (2, 3, 7, 40):
        assert worst_row(c, p, d=d) <= interpolation(c, d) + SLACK
        assert worst_row(c, p, d=d, beyond=1) <= max(interpolation(c, d), open_end(c, d)) + SLACK


@pytest.mark.parametrize("ghosts", [1, 2, 5])
@pytest.mark.parametrize("c", SHARPNESS)
def test_ghosts_beyond_the_ends_do_no_harm(c, ghosts):
    for p, d in ((2, 0.0), (9, 0.0), (9, 0.3)):
        assert worst_row(c, p, d=d, ghosts=ghosts) <= interpolation(c, d) + SLACK


@given(st.floats(0.05, 60), st.floats(0, 1), st.integers(2, 40), st.integers(0, 2**32 - 1))
@settings(max_examples=25)
def test_random_disturbances_never_break_the_bound(c, d, p, seed):
    rng, places = np.random.default_rng(seed), np.arange(p)
    y = rng.uniform(-2, p + 1, size=400)
    delta = rng.choice([-d, d, 0.0], size=(400, p))
    out = outputs(y, places.astype(float), places, c, delta)
    assert np.abs(out - np.clip(y, 0, p - 1)).max() <= interpolation(c, d) + SLACK
    parts = row_error(c, 1.0, p, open_grid=True, disturbance=d)
    assert np.abs(out - np.clip(y, 0, p)).max() <= sum(parts.values()) + SLACK


@pytest.mark.parametrize("c", [1.0, 1.4, 2.0, 2.5, 2.7, 3.0, 4.0, 8.0, 20.0, 60.0])
def test_the_bound_is_within_three_percent_of_the_truth(c):
    assert interpolation(c) <= 1.03 * worst_row(c, 40, points=20_001)
    assert max(interpolation(c), open_end(c)) <= 1.06 * worst_row(c, 40, beyond=1, points=20_001)


@pytest.mark.parametrize("c", SHARPNESS)
def test_the_estimate_follows_the_bound(c):
    for d in (0.0, 0.2):
        estimate = interpolation_estimate(c, d)
        assert estimate * (1 - 1e-9) <= interpolation(c, d) <= 1.02 * estimate


def test_too_soft_or_too_disturbed_is_infinite_never_wrong():
    assert interpolation(0.009) == open_end(0.009) == math.inf
    assert interpolation(2.0, 301.0) == math.inf
    assert mass_beyond(0.009, 1) == moment_beyond(0.009, 1) == math.inf


@pytest.mark.parametrize("open_grid", [False, True])
@pytest.mark.parametrize("c", [0.001, 0.05, 2.7, 40.0])
def test_the_parts_of_a_row_add_up_and_stay_within_the_interval(c, open_grid):
    h, p = 0.3, 5
    parts = row_error(c, h, p, open_grid=open_grid)
    total, length = sum(parts.values()), h * (p if open_grid else p - 1)
    assert set(parts) == {"spacing", "leakage"}
    assert min(parts.values()) >= 0
    assert h * worst_row(c, p, beyond=int(open_grid)) <= total * (1 + 1e-12) <= length * (1 + 1e-9)
    if c >= 2 and not open_grid:
        assert parts["spacing"] == pytest.approx(h * spacing(c), rel=1e-12)
        assert total == pytest.approx(h * interpolation(c), rel=1e-12)


@pytest.mark.parametrize("c", [0.01, 0.05, 0.5, 2.7, 30.0])
def test_gaussian_sums_are_just_above_the_exact_ones(c):
    with mpmath.workdps(40):
        sharpness, last = mpmath.mpf(c), int(20 / math.sqrt(c)) + 20

        def total(first: int, power: int) -> mpmath.mpf:
            return mpmath.fsum((i + 1) ** power * mpmath.exp(-sharpness * i * i) for i in range(first, first + last))

        for first in (1, 2, 7):
            exact = total(first, 0)
            assert exact <= mass_beyond(c, first) <= exact * (1 + mpmath.mpf("1e-10")) + mpmath.mpf("1e-323")
        for power in (0, 1, 2):
            exact = total(1, power)
            assert exact <= moment_beyond(c, power) <= exact * (1 + mpmath.mpf("1e-10"))

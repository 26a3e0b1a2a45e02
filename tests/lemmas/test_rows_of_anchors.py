"""Rows of anchors by brute force: spacing, leakage, borders, disturbances are within their lemmas, and not far."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from attnforge.lemmas.border import border, border_estimate
from attnforge.lemmas.cells import cell_excess, expected_distance
from attnforge.lemmas.disturbance import Disturbance, heads_disturbance
from attnforge.lemmas.leakage import (
    interpolation,
    interpolation_estimate,
    mass_beyond,
    moment_beyond,
    open_end,
    row_error,
)
from attnforge.lemmas.mean_square import mean_square
from attnforge.lemmas.softmax import ratio_excess
from attnforge.lemmas.spacing import spacing

SHARPNESS = [0.05, 0.3, 1.0, 2.0, 2.7, 4.0, 8.0, 20.0, 60.0]
SLACK = 1e-12  # of the brute force's own rounding


def weights_of(c, y, places, delta=0.0):
    return special.softmax(-c * (np.asarray(y)[..., None] - places) ** 2 + delta, axis=-1)


# Two anchors, and any softmax


@pytest.mark.parametrize("d", [0.0, 1e-3, 0.5, 5.0])
@pytest.mark.parametrize("c", [0.05, 0.5, 1.999, 2.001, 2.7, 8.0, 60.0])
def test_spacing_is_the_worst_of_two_disturbed_anchors(c, d):
    theta, worst = np.linspace(0.0, 1.0, 20_001), 0.0
    for first, second in itertools.product((-d, 0.0, d), repeat=2):
        right = 1 / (1 + np.exp(-(c * (2 * theta - 1) + second - first)))
        worst = max(worst, float(np.abs(right - theta).max()))
    assert worst - 1e-15 <= spacing(c, d) <= worst * (1 + 1e-5)


def test_spacing_by_hand():
    assert spacing(2.0) == pytest.approx(1 / (1 + np.exp(2.0)), rel=1e-14)
    root = np.sqrt(1 - 2 / 10)
    theta = 0.5 + np.log((1 + root) / (1 - root)) / 20
    assert spacing(10.0) == pytest.approx((1 + root) / 2 - theta, rel=1e-13)
    assert spacing(3.0, 1e3) == 1.0  # a share never exceeds one


@given(st.integers(2, 12), st.floats(0, 1), st.floats(0.1, 20), st.integers(0, 2**32 - 1))
def test_outputs_and_masses_of_a_disturbed_softmax_move_by_no_more(keys, d, spread, seed):
    rng = np.random.default_rng(seed)
    scores, values = rng.normal(size=keys) * spread, rng.normal(size=keys)
    weights = special.softmax(scores)
    for reference in (weights @ values, values[0], 0.0):
        allowed = ratio_excess(d) * (weights @ np.abs(values - reference)) + 1e-14
        for delta in (d * np.sign(values - reference), -d * np.sign(values - reference), rng.uniform(-d, d, keys)):
            assert abs((special.softmax(scores + delta) - weights) @ values) <= allowed
    chosen = rng.random(keys) < 0.5
    mass, moved = weights[chosen].sum(), special.softmax(scores + d * np.where(chosen, 1, -1))[chosen].sum()
    assert abs(moved - mass) <= ratio_excess(d) * mass * (1 - mass) + 1e-14


def test_the_number_of_a_disturbed_softmax_is_expm1_rounded_up():
    for d in (1e-300, 1e-17, 1e-3, 1.0, 100.0):
        assert math.expm1(2 * d) * (1 - 1e-15) < ratio_excess(d) <= math.expm1(2 * d) * (1 + 1e-15)
    assert 0 <= ratio_excess(0.0) <= 5e-324
    assert ratio_excess(300.0) == ratio_excess(1e9) == math.inf
    attained = special.softmax([1e-6, -1e-6])[0] - 0.5
    assert attained == pytest.approx(ratio_excess(1e-6) / 4, rel=1e-5)


# A whole row


def worst_row(c, p, *, d=0.0, beyond=0, ghosts=0, points=1501):
    """The largest |out - clamp| over y, with signs of the disturbance that push the output up, or down.

    ``beyond`` is 1 for an open grid: the interval is one step longer than the row.
    """
    places = np.arange(-ghosts, p + ghosts)
    values = np.clip(places, 0, p - 1).astype(np.float64)
    y = np.concatenate([np.linspace(-3.0 - ghosts, p + 3.0 + ghosts, points), np.arange(-1, p + 2) + 0.0])
    wanted, worst = np.clip(y, 0, p - 1 + beyond), 0.0
    for sign in (1.0, -1.0):
        out = weights_of(c, y, places) @ values
        for _ in range(8 if d else 1):
            worst = max(worst, float(np.abs(out - wanted).max()))
            out = weights_of(c, y, places, sign * d * np.sign(values - out[:, None])) @ values
        worst = max(worst, float(np.abs(out - wanted).max()))
    return worst


@pytest.mark.parametrize("d", [0.0, 0.01, 0.5, 1.0])
@pytest.mark.parametrize("c", SHARPNESS)
def test_no_disturbed_row_errs_by_more(c, d):
    for p in (2, 3, 7, 40):
        assert worst_row(c, p, d=d) <= interpolation(c, d) + SLACK
        assert worst_row(c, p, d=d, beyond=1) <= max(interpolation(c, d), open_end(c, d)) + SLACK
    for ghosts in (1, 2, 5):
        assert worst_row(c, 9, d=d, ghosts=ghosts) <= interpolation(c, d) + SLACK
    for by in (0.0, 0.2):
        estimate = interpolation_estimate(c, by)
        assert estimate * (1 - 1e-9) <= interpolation(c, by) <= 1.02 * estimate


@given(st.floats(0.05, 60), st.floats(0, 1), st.integers(2, 40), st.integers(0, 2**32 - 1))
@settings(max_examples=25)
def test_random_disturbances_never_break_the_bound(c, d, p, seed):
    rng, places = np.random.default_rng(seed), np.arange(p)
    y = rng.uniform(-2, p + 1, size=400)
    out = weights_of(c, y, places, rng.choice([-d, d, 0.0], size=(400, p))) @ places
    assert np.abs(out - np.clip(y, 0, p - 1)).max() <= interpolation(c, d) + SLACK
    parts = row_error(c, 1.0, p, open_grid=True, disturbance=d)
    assert np.abs(out - np.clip(y, 0, p)).max() <= sum(parts.values()) + SLACK


@pytest.mark.parametrize("c", [1.0, 1.4, 2.0, 2.5, 2.7, 4.0, 20.0, 60.0])
def test_the_bound_is_within_three_percent_of_the_truth(c):
    assert interpolation(c) <= 1.03 * worst_row(c, 40, points=20_001)
    assert max(interpolation(c), open_end(c)) <= 1.06 * worst_row(c, 40, beyond=1, points=20_001)


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
        assert (parts["spacing"], total) == pytest.approx((h * spacing(c), h * interpolation(c)), rel=1e-12)


@pytest.mark.parametrize("c", [0.01, 0.5, 2.7, 30.0])
def test_gaussian_sums_are_just_above_the_exact_ones(c):
    with mpmath.workdps(40):
        last = int(20 / math.sqrt(c)) + 20
        for first, power in ((1, 0), (2, 0), (7, 0), (1, 1), (1, 2)):
            found = [moment_beyond(c, power)] if first == 1 else []
            found += [mass_beyond(c, first)] if power == 0 else []
            terms = (((i + 1) ** power) * mpmath.exp(-mpmath.mpf(c) * i * i) for i in range(first, first + last))
            exact = mpmath.fsum(terms)
            for each in found:
                assert exact <= each <= exact * (1 + mpmath.mpf("1e-10")) + mpmath.mpf("1e-323")


def test_too_soft_or_too_disturbed_is_infinite_never_wrong():
    soft = interpolation(0.009), open_end(0.009), mass_beyond(0.009, 1), moment_beyond(0.009, 1), border(0.009, 2, 10)
    assert {*soft, interpolation(2.0, 301.0), cell_excess(1e-3)} == {math.inf}


# Heads that share a row


def counted_twice(c, r, m, heads, points=64):
    """The largest sum of own shares, minus one; ghosts belong to the head at their end."""
    y = np.linspace(-r - 3.0, heads * m + r + 3.0, points * (heads * m + 2 * r + 6) + 1)
    total = np.zeros_like(y)
    for q in range(heads):
        places = np.arange(q * m - r, q * m + m + r)
        own = (places >= q * m) & (places < q * m + m)
        own |= ((places < 0) & (q == 0)) | ((places >= heads * m) & (q == heads - 1))
        total += (weights_of(c, y, places) * own).sum(axis=1)
    assert total.min() >= 1 - 1e-13  # heads never leave a gap: a check of this very reference
    return float(total.max()) - 1


@pytest.mark.parametrize("r", [1, 2, 3])
@pytest.mark.parametrize("c", [0.3, 1.0, 3.0, 8.0])
def test_what_is_counted_twice_is_bounded_within_a_factor_of_three(c, r):
    for m in (1, 2, 20):
        bound, found = border(c, r, m), counted_twice(c, r, m, heads=8 if m < 5 else 4)
        assert found <= bound + 1e-13
        assert bound <= max(3 * found, 1e-10)
    leading = {1: math.exp(-6), 2: math.exp(-12) / 4, 3: math.exp(-24)}[r]
    assert border_estimate(3.0, r) == pytest.approx(leading, rel=1e-12)


@dataclass(frozen=True)
class Setting:
    """Heads of one row: c, sentinels, own anchors, their number, step and first anchor."""

    c: float
    r: int
    m: int
    heads: int
    h: float
    a: float

    def head(self, q):
        """Places and values of head q's keys."""
        last, first_own = self.heads * self.m - 1, q * self.m
        places = np.arange(first_own - self.r, first_own + self.m + self.r)
        own = (places >= first_own) & (places < first_own + self.m)
        own |= ((places < 0) & (q == 0)) | ((places > last) & (q == self.heads - 1))
        return places, np.where(own, self.a + self.h * np.clip(places, 0, last), 0.0)

    def pushed(self, y, sign, found):
        """The summed output when every head's scores and position are disturbed so as to push it up, or down."""
        total = np.zeros_like(y)
        for q in range(self.heads):
            places, values = self.head(q)
            outside = np.maximum(0, np.maximum(places[0] - y, y - places[-1]))
            allowed = (found.scores + found.growth * outside)[:, None]
            weights = weights_of(self.c, y, places)
            for _ in range(4):
                away = values - (weights @ values)[:, None]
                slope = (weights * away * (places - y[:, None])).sum(axis=1)
                at = y + sign * found.position * np.sign(slope)
                weights = weights_of(self.c, at, places, sign * allowed * np.sign(away))
            total += weights @ values
        return total

    def worst(self, found):
        y = np.linspace(-self.r - 4.0, self.heads * self.m + self.r + 4.0, 900)
        exact = sum(weights_of(self.c, y, self.head(q)[0]) @ self.head(q)[1] for q in range(self.heads))
        return max(float(np.abs(self.pushed(y, sign, found) - exact).max()) for sign in (1.0, -1.0))

    def bound(self, found):
        largest = max(abs(self.a), abs(self.a + self.h * (self.heads * self.m - 1)))
        return heads_disturbance(self.c, self.r, self.m, found, found.position, largest, self.h)


@pytest.mark.parametrize("seed", range(40))
def test_no_disturbance_moves_the_sum_by_more(seed):
    rng = np.random.default_rng(seed)
    c, h = np.exp(rng.uniform(np.log(0.3), np.log(20.0))), np.exp(rng.uniform(-3, 2))
    m, heads = int(rng.integers(1, 12)), int(rng.integers(2, 7))
    setting = Setting(c, int(rng.integers(1, 4)), m, heads, h, rng.uniform(-2, 1) * h * heads * m)
    growth = float(rng.choice([0.0, 10 ** rng.uniform(-6, 0) * c / 2]))
    found = Disturbance(10 ** rng.uniform(-6, -0.2), growth, 10 ** rng.uniform(-6, -0.7))
    assert setting.worst(found) <= setting.bound(found)


def test_the_bound_of_disturbances_is_within_a_factor_of_three():
    setting, found = Setting(2.45, 2, 9, 3, 0.35, -17.0), Disturbance(0.016, 0.0, 0.0)
    assert setting.bound(found) <= 3 * setting.worst(found)
    assert setting.bound(Disturbance(0.0, 0.0, 0.0)) < 1e-300
    assert Setting(2.0, 2, 9, 3, 1.0, 0.0).bound(Disturbance(0.0, 1.01, 0.0)) == math.inf  # outgrows the scores


# Cells, and squares


@pytest.mark.parametrize("c", SHARPNESS)
def test_the_expected_distance_to_a_chosen_centre_is_never_exceeded(c):
    for first, last in ((-40, 40), (-40, 0), (0, 40), (0, 1), (0, 0)):
        places = np.arange(first, last + 1, dtype=float)
        u = np.linspace(max(first, -1) - 0.5, min(last, 1) + 0.5, 1001)
        found = (weights_of(c, u, places) * np.maximum(np.abs(places - u[:, None]) - 0.5, 0)).sum(axis=1).max()
        assert found <= cell_excess(c)
    assert c < 2 or cell_excess(c) <= 1.25 * found_within(c)
    rng, places = np.random.default_rng(0), np.arange(-6, 7, dtype=float)
    for steps in ([1.0], [0.5, 2.0], [1.0, 1.0, 0.3]):
        u = rng.uniform(-0.5, 0.5, (60, len(steps)))
        each = [weights_of(c, u[:, j], places) for j in range(len(steps))]
        total = np.zeros(len(u))
        for index in itertools.product(range(len(places)), repeat=len(steps)):
            weight = math.prod(each[j][:, i] for j, i in enumerate(index))
            total += weight * np.max([steps[j] * np.abs(places[i] - u[:, j]) for j, i in enumerate(index)], axis=0)
        assert total.max() <= sum(expected_distance(c, steps)) <= sum(expected_distance(c, steps, True))


def found_within(c):
    """The excess in the middle of a long row."""
    places, u = np.arange(-40, 41, dtype=float), np.linspace(0, 0.5, 2001)
    return (weights_of(c, u, places) * np.maximum(np.abs(places - u[:, None]) - 0.5, 0)).sum(axis=1).max()


@settings(max_examples=30)
@given(st.floats(0.25, 40.0), st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.integers(1, 40))
def test_mean_squares_of_rows_are_bounded(c, theta, growth, count):
    """The infinite row; and, if the bound is below one, rows that begin at the bracket."""
    bound = mean_square(c, growth)

    def mean(places):
        distances = np.abs(places - theta)
        return weights_of(c, theta, places) @ (distances**2 * np.exp(growth * distances))

    assert mean(np.arange(-60, 62)) <= bound * (1 + 1e-12)
    assert bound > 1 or mean(np.arange(0, count + 1)) <= bound * (1 + 1e-12)

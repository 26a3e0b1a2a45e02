"""Heads whose scores and positions an adversary disturbs, each on its own: the sum moves by no more than the lemma."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

from attnforge.lemmas.disturbance import Disturbance, heads_disturbance


@dataclass(frozen=True)
class Setting:
    c: float
    r: int
    m: int
    heads: int
    h: float
    a: float

    @property
    def largest(self) -> float:
        return max(abs(self.a), abs(self.a + self.h * (self.heads * self.m - 1)))

    def head(self, q: int) -> tuple[np.ndarray, np.ndarray]:
        """Places and values of head q's keys."""
        last, first_own = self.heads * self.m - 1, q * self.m
        places = np.arange(first_own - self.r, first_own + self.m + self.r)
        own = (places >= first_own) & (places < first_own + self.m)
        own |= (places < 0) & (q == 0)
        own |= (places > last) & (q == self.heads - 1)
        return places, np.where(own, self.a + self.h * np.clip(places, 0, last), 0.0)

    def weights(self, q: int, y: np.ndarray, delta: np.ndarray | float) -> np.ndarray:
        scores = -self.c * (y[:, None] - self.head(q)[0]) ** 2 + delta
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True)

    def pushed(self, y: np.ndarray, sign: float, found: Disturbance) -> np.ndarray:
        """The summed output when every head's scores and position are disturbed so as to push it up, or down."""
        total = np.zeros_like(y)
        for q in range(self.heads):
            places, values = self.head(q)
            outside = np.maximum(0, np.maximum(places[0] - y, y - places[-1]))
            allowed = (found.scores + found.growth * outside)[:, None]
            weights = self.weights(q, y, 0.0)
            for _ in range(4):
                out = weights @ values
                away = values - out[:, None]
                slope = (weights * away * (places - y[:, None])).sum(axis=1)
                moved = y + sign * found.position * np.sign(slope)
                weights = self.weights(q, moved, sign * allowed * np.sign(away))
            total += weights @ values
        return total

    def worst(self, found: Disturbance) -> float:
        y = np.linspace(-self.r - 4.0, self.heads * self.m + self.r + 4.0, 900)
        exact = sum(self.weights(q, y, 0.0) @ self.head(q)[1] for q in range(self.heads))
        return max(float(np.abs(self.pushed(y, sign, found) - exact).max()) for sign in (1.0, -1.0))

    def bound(self, found: Disturbance) -> float:
        return heads_disturbance(self.c, self.r, self.m, found, found.position, self.largest, self.h)


def random_case(seed: int) -> tuple[Setting, Disturbance]:
    rng = np.random.default_rng(seed)
    c, h = np.exp(rng.uniform(np.log(0.3), np.log(20.0))), np.exp(rng.uniform(-3, 2))
    m, heads = int(rng.integers(1, 12)), int(rng.integers(2, 7))
    setting = Setting(c, int(rng.integers(1, 4)), m, heads, h, rng.uniform(-2, 1) * h * heads * m)
    growth = float(rng.choice([0.0, 10 ** rng.uniform(-6, 0) * c / 2]))
    return setting, Disturbance(10 ** rng.uniform(-6, -0.2), growth, 10 ** rng.uniform(-6, -0.7))


@pytest.mark.parametrize("seed", range(60))
def test_no_disturbance_moves_the_sum_by_more(seed):
    setting, found = random_case(seed)
    assert setting.worst(found) <= setting.bound(found)


@pytest.mark.parametrize("seed", range(15))
def test_random_disturbances_of_every_head_stay_inside(seed):
    setting, found = random_case(1000 + seed)
    rng = np.random.default_rng(seed)
    y = rng.uniform(-setting.r, setting.heads * setting.m - 1 + setting.r, size=300)
    exact, moved = np.zeros_like(y), np.zeros_like(y)
    for q in range(setting.heads):
        places, values = setting.head(q)
        exact += setting.weights(q, y, 0.0) @ values
        eta = rng.uniform(-1, 1, size=len(y)) * found.position
        moved += setting.weights(q, y + eta, rng.choice([-1, 1], size=(len(y), len(places))) * found.scores) @ values
    assert np.abs(moved - exact).max() <= setting.bound(found)


def test_the_bound_is_within_a_factor_of_three_where_scores_alone_are_disturbed():
    setting, found = Setting(2.45, 2, 9, 3, 0.35, -17.0), Disturbance(0.016, 0.0, 0.0)
    assert setting.worst(found) <= setting.bound(found) <= 3 * setting.worst(found)


def test_nothing_disturbed_is_nothing_moved():
    assert Setting(2.7, 2, 9, 3, 0.35, -17.0).bound(Disturbance(0.0, 0.0, 0.0)) < 1e-300


def test_disturbances_that_outgrow_the_scores_are_not_bounded():
    assert Setting(2.0, 2, 9, 3, 1.0, 0.0).bound(Disturbance(0.0, 1.01, 0.0)) == math.inf

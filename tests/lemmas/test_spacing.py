"""Two anchors by brute force: all disturbances, a dense bracket."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from attnforge.lemmas.spacing import spacing

SHARPNESS = [0.05, 0.5, 1.0, 1.999, 2.0, 2.001, 2.7, 4.0, 8.0, 20.0, 60.0]


def worst_pair(c: float, d: float) -> float:
    theta, worst = np.linspace(0.0, 1.0, 20_001), 0.0
    for first, second in itertools.product((-d, 0.0, d), repeat=2):
        right = 1 / (1 + np.exp(-(c * (2 * theta - 1) + second - first)))
        worst = max(worst, float(np.abs(right - theta).max()))
    return worst


@pytest.mark.parametrize("d", [0.0, 1e-3, 0.1, 0.5, 1.0, 5.0])
@pytest.mark.parametrize("c", SHARPNESS)
def test_spacing_is_the_worst_of_two_disturbed_anchors(c, d):
    worst = worst_pair(c, d)
    assert worst - 1e-15 <= spacing(c, d) <= worst * (1 + 1e-5)


def test_hand_computed_values():
    assert spacing(2.0) == pytest.approx(1 / (1 + np.exp(2.0)), rel=1e-14)
    root = np.sqrt(1 - 2 / 10)
    theta = 0.5 + np.log((1 + root) / (1 - root)) / 20
    assert spacing(10.0) == pytest.approx((1 + root) / 2 - theta, rel=1e-13)
    assert 0.49999 < spacing(1e8) <= 0.5
    assert spacing(3.0, 1e3) == 1.0  # a share never exceeds one


def test_more_disturbance_is_never_better():
    values = [spacing(3.0, d) for d in np.linspace(0, 2, 50)]
    assert values == sorted(values)
    assert values[0] < values[-1]

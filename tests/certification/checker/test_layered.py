"""Ranges and errors of layers, against what points and sampled departures attain."""

from __future__ import annotations

import numpy as np
import pytest

from attnforge.certification.checker.layered import Departure, Stage, output_error, ranges
from attnforge.targets import Activation, Affine

RNG = np.random.default_rng


def stages(seed: int, activation: Activation, depth: int = 4, width: int = 6) -> list[Stage]:
    rng = RNG(seed)
    found = []
    for k in range(depth):
        affine = Affine(rng.normal(size=(2 if k == 0 else width, width)), rng.normal(size=width))
        found.append(Stage(affine, None if k == depth - 1 else activation))
    return found


ACTIVATIONS = (
    Activation(0.0, None),
    Activation(0.0, None, 0.2),
    Activation(0.0, None, -1.5),
    Activation(-0.5, 0.75),
    Activation(None, 1.0, 3.0),
)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("seed", range(3))
def test_ranges_hold_all_values_and_are_not_wider_than_intervals(seed, activation):
    network, low, high = stages(seed, activation), np.array([-1.0, 0.5]), np.array([0.25, 1.0])
    forms, values = ranges(network, low, high)
    points, wide = RNG(seed).uniform(low, high, (5000, 2)), (low, high)
    for stage, form, value in zip(network, forms, values, strict=True):
        points = stage.affine(points)
        assert np.all(form[0] <= points.min(axis=0) + 1e-13)
        assert np.all(points.max(axis=0) - 1e-13 <= form[1])
        middle, radius = (wide[0] + wide[1]) / 2, (wide[1] - wide[0]) / 2
        plain = stage.affine(middle), np.abs(stage.affine.weight).T @ radius
        assert np.all(form[1] - form[0] <= 2 * plain[1] + 1e-9)
        points = points if stage.activation is None else stage.activation(points)
        assert np.all(value[0] <= points.min(axis=0) + 1e-13)
        assert np.all(points.max(axis=0) - 1e-13 <= value[1])
        wide = value
    assert np.all(forms[0][1] - forms[0][0] <= 2 * np.abs(network[0].affine.weight).T @ (high - low) / 2 + 1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_no_departure_leaves_the_bound(seed):
    rng = RNG(seed)
    weights = [rng.normal(size=(5, 5)) for _ in range(4)]
    kinds = rng.integers(0, 3, size=(4, 5))
    slopes = [(np.array([0.0, 1.0, 0.0])[kind], np.array([0.0, 1.0, 1.0])[kind]) for kind in kinds]
    departures = [Departure(rng.random(5), rng.random(5) * (k % 2), each) for k, each in enumerate(slopes)]
    start = rng.random(5)
    bound, worst = output_error(weights, departures, start), np.zeros(5)
    for _ in range(4000):
        aim = rng.choice([-1, 1], size=(4, 5))
        off = start * rng.choice([-1, 1], size=5)
        for weight, departure, (least, most), signs in zip(weights, departures, slopes, aim, strict=True):
            off = weight.T @ off + departure.forms * rng.choice([-1, 1], size=5)
            off = np.where(off * signs > 0, most, least) * off + departure.values * rng.choice([-1, 1], size=5)
        worst = np.maximum(worst, np.abs(off))
    assert np.all(worst <= bound)
    assert bound.max() <= 12 * worst.max()


def test_known_slopes_compose_exactly():
    rng = RNG(0)
    weights, ones, none = [rng.normal(size=(5, 5)) for _ in range(3)], np.ones(5), np.zeros(5)
    departures = [Departure(none, none, (ones, ones)) for _ in weights]
    wanted = np.abs(np.linalg.multi_dot(weights)).T @ ones
    assert output_error(weights, departures, ones) == pytest.approx(wanted, rel=1e-7)

"""Scattered points: met within the tolerance, judged by points held out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnforge.anchors import scattered
from attnforge.anchors.scattered import farthest_points, fit_scattered, judge, spread
from attnforge.errors import ToleranceError


def smooth(points: np.ndarray) -> np.ndarray:
    return np.exp(-(points**2).sum(axis=1))[:, None]


def scatter(count: int, inputs: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, size=(count, inputs))


@pytest.mark.parametrize("inputs", [1, 2, 3, 4])
def test_smooth_points_are_met_by_few_anchors(inputs: int) -> None:
    points, fresh = scatter(600, inputs), 0.9 * scatter(1000, inputs, seed=1)
    fit = fit_scattered(points, smooth(points), 1e-2)
    assert np.abs(fit.at(points) - smooth(points)).max() == pytest.approx(fit.error, rel=1e-9)
    assert fit.error <= 1e-2
    assert fit.anchors < 300
    assert np.abs(fit.at(fresh) - smooth(fresh)).max() < 5e-2
    assert fit.held_out < 5e-2


def test_tighter_tolerances_take_more_anchors() -> None:
    points = scatter(800, 2)
    fits = [fit_scattered(points, smooth(points), tol) for tol in (1e-1, 1e-2, 1e-4)]
    counts = [fit.anchors for fit in fits]
    assert counts == sorted(set(counts))
    assert fits[0].held_out > 10 * fits[2].held_out


def test_a_shifted_and_stretched_box_gives_the_same_head() -> None:
    points = scatter(300, 2)
    plain = fit_scattered(points, smooth(points), 1e-3)
    moved = fit_scattered(points * [1e3, 1e-3] + [5.0, -7.0], smooth(points), 1e-3)
    assert moved.anchors == plain.anchors
    assert np.allclose(moved.positions, plain.positions * [1e3, 1e-3] + [5.0, -7.0])


def test_noise_is_met_and_the_points_held_out_tell() -> None:
    points = scatter(200, 2)
    noise = np.random.default_rng(1).normal(size=(200, 1))
    fit = fit_scattered(points, noise, 1e-2)
    assert fit.error <= 1e-2
    assert fit.anchors <= 200
    assert fit.held_out > 0.5


def test_coarse_tolerance_does_not_chase_noise() -> None:
    points = scatter(300, 2)
    noisy = smooth(points) + 0.02 * np.random.default_rng(1).normal(size=(300, 1))
    fit = fit_scattered(points, noisy, 0.1)
    assert fit.anchors < 40
    assert np.abs(fit.at(points) - smooth(points)).max() < 0.1


def test_keys_have_few_bits() -> None:
    points = scatter(400, 2)
    fit = fit_scattered(points, smooth(points), 1e-3)
    assert np.array_equal(fit.centres * 2**10, np.round(fit.centres * 2**10))
    assert fit.sharpness == pytest.approx(fit.beta * fit.spacing**2)


def test_the_farthest_points_cover() -> None:
    points = scatter(500, 2)
    order = farthest_points(points, 50)
    assert len(set(order.tolist())) == 50
    chosen = points[order]
    reach = np.sqrt(((points[:, None] - chosen) ** 2).sum(axis=-1)).min(axis=1).max()
    apart = np.sqrt(((chosen[:, None] - chosen) ** 2).sum(axis=-1))
    assert reach <= apart[~np.eye(50, dtype=bool)].min() + 1e-12  # what makes a farthest-point order


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 10_000), st.integers(2, 200))
def test_spread_keeps_both_ends(total: int, count: int) -> None:
    found = spread(total, count)
    assert (found[0], found[-1]) == (0, total - 1)
    assert len(found) == min(total, count)


def test_weights_are_those_of_squared_distances() -> None:
    points = scatter(50, 3)
    fit = fit_scattered(points, smooth(points), 0.1)
    scaled = (points - fit.middle) / fit.half
    squares = ((scaled[:, None] - fit.centres) ** 2).sum(axis=-1)
    plain = np.exp(-fit.beta * squares)
    assert np.allclose(fit.weights(points), plain / plain.sum(axis=1, keepdims=True), atol=1e-12)


def test_judge_reproduces_constants_exactly_enough() -> None:
    weights = np.random.default_rng(0).dirichlet(np.ones(5), size=40)
    assert all(entry.residual < 1e-12 and entry.held_out < 1e-12 for entry in judge(weights, np.full((40, 1), 7.0)))


def test_what_cannot_be_met_says_what_can(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scattered, "MOST", 30)
    points = scatter(200, 2)
    noise = np.random.default_rng(1).normal(size=(200, 1))
    with pytest.raises(
        ToleranceError, match=r"by at most 30 anchors. Got an error of .* held out. Ask for tol >= "
    ) as caught:
        fit_scattered(points, noise, 1e-2)
    asked = float(str(caught.value).split(">= ")[1].rstrip("."))
    assert fit_scattered(points, noise, asked).error <= asked

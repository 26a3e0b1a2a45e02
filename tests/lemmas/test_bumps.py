"""The distance a softmax over bumps keeps: against brute force, with disturbed scores, and at its limits."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnforge.lemmas.bumps import (
    beyond_nearest,
    beyond_nearest_estimate,
    furthest,
    mean_offset_estimate,
    product_grid,
)

BETAS = (0.1, 1.0, 5.0, 20.0, 300.0)
GRIDS = (1, 2, 3, 4, 5, 8, 32)


def offsets_and_weights(u: np.ndarray, beta: float, grid: int) -> tuple[np.ndarray, np.ndarray]:
    """Signed distances to the centres and softmax weights, with the bump written as its definition."""
    offsets = np.arange(grid) + 0.5 - u[..., None]
    scores = beta * np.clip(1.5 - np.abs(offsets), 0.0, 1.0)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return offsets, weights / weights.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("beta", BETAS)
def test_it_bounds_every_cell_and_is_tight(beta: float, grid: int) -> None:
    u = np.unique(np.concatenate([np.linspace(0, grid, 4001), np.arange(grid)[:, None].repeat(1) + 1 - 1.3 / beta]))
    offsets, weights = offsets_and_weights(np.clip(u, 0, grid), beta, grid)
    worst = float((np.clip(np.abs(offsets) - 0.5, 0, None) * weights).sum(axis=-1).max())
    bound = beyond_nearest(beta, grid)
    assert worst <= bound
    assert bound <= 1.05 * worst + 1e-12


def test_one_centre_has_no_others() -> None:
    assert beyond_nearest(3.0, 1) == 0.0


def test_neighbours_alone_pull_by_the_kink() -> None:
    assert beyond_nearest(1e6, 50) == pytest.approx(0.2785e-6, rel=0.02)


def test_it_falls_with_beta_and_grows_with_the_grid() -> None:
    falling = [beyond_nearest(beta, 16) for beta in (1.0, 3.0, 10.0, 30.0, 100.0)]
    growing = [beyond_nearest(8.0, grid) for grid in (2, 4, 8, 16, 32)]
    assert all(a > b for a, b in pairwise(falling))
    assert all(a < b for a, b in pairwise(growing))


def test_a_soft_beta_fails_on_a_large_grid() -> None:
    assert beyond_nearest(5.0, 32) > 2.0
    assert beyond_nearest(20.0, 32) < 0.02


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.01, 2.0), st.integers(1, 4)), min_size=1, max_size=3),
    st.floats(0.1, 60.0),
    st.floats(0.0, 2.0),
    st.integers(0, 2**32 - 1),
)
def test_product_grids_with_disturbed_scores(axes: list, beta: float, d: float, seed: int) -> None:
    """E max_r h_r |delta_r| over the whole product grid, every score moved by up to d, as an adversary would."""
    rng = np.random.default_rng(seed)
    steps, grids = np.array([h for h, _ in axes]), tuple(grid for _, grid in axes)
    index = np.stack(np.meshgrid(*(np.arange(grid) + 0.5 for grid in grids), indexing="ij"), -1).reshape(-1, len(grids))
    u = rng.uniform(0.0, grids, size=(200, len(grids)))
    u[:100] = np.round(u[:100]) + rng.choice([0.0, 1e-9, -1e-9, 1 / beta, -1 / beta], size=(100, len(grids)))
    gaps = np.abs(index - np.clip(u, 0, grids)[:, None])
    distance = (steps * gaps).max(axis=-1)
    scores = beta * np.clip(1.5 - gaps, 0.0, 1.0).sum(axis=-1)
    far = distance > (np.median(distance, axis=1, keepdims=True) if rng.random() < 0.5 else steps.max() / 2)
    scores = scores + np.where(far, d, -d)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    expected = (weights * distance).sum(axis=1) / weights.sum(axis=1)
    half, rest = product_grid(beta, steps, grids)
    run = min(np.exp(2 * d) * rest, furthest(steps, grids))
    assert expected.max() <= (half + run) * (1 + 1e-12)


def test_without_the_factor_disturbed_scores_break_the_bound() -> None:
    u, d, beta, grid = np.array([0.93]), 1.0, 20.0, 4
    offsets, weights = offsets_and_weights(u, beta, grid)
    far = np.abs(offsets) > 0.5
    disturbed = weights * np.exp(np.where(far, d, -d))
    disturbed /= disturbed.sum()
    excess = float((np.clip(np.abs(offsets) - 0.5, 0, None) * disturbed).sum())
    assert excess > beyond_nearest(beta, grid)
    assert excess <= np.exp(2 * d) * beyond_nearest(beta, grid)


def test_no_distance_exceeds_the_largest_there_is() -> None:
    half, rest = product_grid(1e-3, np.array([0.25, 0.25]), (4, 4))
    assert half + rest <= 0.25 * 3.5 * (1 + 1e-12)


@pytest.mark.parametrize("grid", [2, 5, 16])
@pytest.mark.parametrize("margin", [0.0, 0.5])
def test_mean_offsets_by_brute_force(grid: int, margin: float) -> None:
    offsets, weights = offsets_and_weights(np.linspace(margin, grid - margin, 4001), 9.0, grid)
    worst = float(np.abs((offsets * weights).sum(axis=-1)).max())
    assert mean_offset_estimate(9.0, grid, margin) == pytest.approx(worst, rel=1e-3)


def test_estimates_stay_below_the_bound() -> None:
    for beta in BETAS:
        for grid in GRIDS:
            assert beyond_nearest_estimate(beta, grid) <= beyond_nearest(beta, grid)

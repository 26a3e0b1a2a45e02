"""Equal and adaptive anchors and their sharpness, as ``af.anchors`` gives them: against measurements of plain NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import attnforge as af
from attnforge.anchors import Adaptive, hard, sharpness, tuned, uniform
from tests.refusals import refused

ROW = np.arange(13)
POINTS = np.linspace(-1.0, 13.0, 1401)


def outputs(c: float, delta: np.ndarray | float = 0.0) -> np.ndarray:
    scores = -c * (POINTS[:, None] - ROW) ** 2 + delta
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights @ ROW / weights.sum(axis=1)


def sup_error(c: float, d: float = 0.0) -> float:
    """The worst error of 13 anchors whose scores an adversary moves by at most d."""
    worst = 0.0
    for sign in (1.0, -1.0):
        out = outputs(c)
        for _ in range(6 if d else 0):
            out = outputs(c, sign * d * np.sign(ROW - out[:, None]))
        worst = max(worst, float(np.abs(out - np.clip(POINTS, 0, 12)).max()))
    return worst


@given(st.floats(-100, 100), st.floats(0.01, 100), st.integers(2, 300), st.sampled_from(["closed", "open"]))
def test_anchors_are_equally_spaced_and_end_where_the_grid_says(a, length, count, grid):
    positions, h = uniform(a, a + length, count, grid)
    assert (len(positions), positions[0]) == (count, a)
    scale = abs(a) + length
    np.testing.assert_allclose(np.diff(positions), h, rtol=0, atol=1e-14 * scale)
    last = positions[-1] + (h if grid == "open" else 0.0)
    assert last == pytest.approx(a + length, rel=0, abs=1e-14 * scale)


def test_tuned_is_the_minimiser_of_the_measured_error():
    scan = np.exp(np.linspace(math.log(0.2), math.log(20.0), 120))
    errors = np.array([sup_error(c) for c in scan])
    assert sup_error(tuned()) <= 1.005 * errors.min()
    assert abs(tuned() - scan[errors.argmin()]) < 0.1
    assert errors.min() < sup_error(2 * tuned()) / 2  # a minimum that matters


@pytest.mark.parametrize("disturbance", [0.01, 0.05, 0.2])
def test_tuned_allows_for_scores_disturbed_in_proportion_to_c(disturbance):
    scan = np.exp(np.linspace(math.log(0.3), math.log(8.0), 60))
    best, least = tuned(disturbance), min(sup_error(c, disturbance * c) for c in scan)
    assert best < tuned()
    assert sup_error(best, disturbance * best) <= 1.1 * least


@pytest.mark.parametrize(("dtype", "roundoff"), [("float64", 2.0**-53), ("float32", 2.0**-24), ("bfloat16", 2.0**-8)])
def test_hard_is_where_the_neighbour_weighs_one_roundoff(dtype, roundoff):
    assert math.exp(-hard(dtype)) == pytest.approx(roundoff, rel=1e-12)
    beside = np.exp(-hard() * np.arange(1, 40) ** 2).sum()
    assert 1.0 + 2.0**-53 <= 1.0 + 1.01 * beside <= 1.0 + 2.0**-52
    assert outputs(hard())[POINTS <= 0.0] == pytest.approx(0.0, abs=2.0**-52)


def test_sharpness_scales_with_the_square_of_the_spacing():
    assert sharpness("hard", 0.5) == pytest.approx(4 * hard())
    assert sharpness("hard", 2.0, "float16") == pytest.approx(hard("float16") / 4)
    assert sharpness("tuned", 0.1, disturbance=0.05) == pytest.approx(100 * tuned(0.05))
    assert sharpness(7, 0.1) == 7.0
    for borders in ({"sentinels": 1, "border": 1e6}, {"sentinels": 3, "border": 100.0}):
        assert tuned(**borders) >= tuned() - 1e-6


WRONG = {
    "one anchor": lambda: uniform(0.0, 1.0, 1), "another grid": lambda: uniform(0.0, 1.0, 3, "half"),
    "soft": lambda: sharpness("soft", 0.1), "zero": lambda: sharpness(0.0, 0.1), "negative": lambda: sharpness(-1, 0.1),
    "NaN": lambda: sharpness(math.nan, 0.1), "infinite": lambda: sharpness(math.inf, 0.1),
    "no cell": lambda: Adaptive(0), "fewer": lambda: Adaptive(-3), "half a cell": lambda: Adaptive(1.5),
    "text": lambda: Adaptive("8"), "None": lambda: Adaptive(None),
    "too many cells": lambda: af.constructions.max_affine(np.sin, [(0, 1)], cells=Adaptive(100_001)),
    "too many centres": lambda: af.constructions.max_affine(np.sin, af.Box(0, 1, shape=(2,)), cells=Adaptive(32_769)),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments(name):
    with refused(af.RefusalError):
        WRONG[name]()


@pytest.mark.parametrize(
    ("f", "variation"),
    [
        (lambda x: x**3, 8.0),
        (lambda x: np.sin(9 * x) + x, 14.0),
        (lambda x: np.tanh(100 * (x - 0.7)), 2.0),
        (lambda x: 0 * x + 2, 0.0),
        (lambda x: np.concatenate([x, 0.1 * np.sin(20 * x)], axis=-1), 2.6),
    ],
)
@pytest.mark.parametrize("cells", [3, 8, 50])
def test_free_cells_on_a_line_vary_by_an_equal_share(f, variation, cells):
    assert worst(f, cells) <= 1.05 * variation / (2 * cells) + 1e-9


def worst(f, cells):
    net = af.constructions.max_affine(
        f, af.Box(0, 2, shape=(1,)), cells=Adaptive(cells), sharpness="hard", effort="low"
    )
    x = np.linspace(0, 2, 20_001)[:, None]
    errors = np.abs(net(x).reshape(len(x), -1) - f(x)).max(axis=1)
    return np.quantile(errors, 0.999)  # beside a border two cells are mixed


def test_what_goes_up_and_down_within_one_cell_costs_one_range():
    """|x - 1| needs no border at its kink: half the range of the middle cell is a quarter."""
    assert worst(lambda x: np.abs(x - 1), 3) <= 0.255


def test_free_centres_crowd_at_a_peak_and_are_the_same_every_time():
    def peak(x):
        return np.exp(-60 * np.square(x - [0.3, 0.6]).sum(axis=-1))

    box = af.Box(0, 1, shape=(2,))
    adaptive, again, equal = (
        af.constructions.max_affine(peak, box, cells=cells, effort="low") for cells in (Adaptive(81), Adaptive(81), 9)
    )
    assert af.network.digest(adaptive.network) == af.network.digest(again.network)
    assert adaptive.certificate.estimate.error < 0.7 * equal.certificate.estimate.error

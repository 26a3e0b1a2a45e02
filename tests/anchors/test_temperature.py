"""Hard is where a dtype sees no difference, tuned is where the sup error is smallest: both against measurements."""

from __future__ import annotations

import math

import numpy as np
import pytest

from attnforge.anchors import hard, sharpness, tuned
from attnforge.errors import RefusalError
from attnforge.lemmas.border import border
from attnforge.lemmas.leakage import interpolation

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


def test_tuned_is_the_minimiser_of_the_measured_error():
    scan = np.exp(np.linspace(math.log(0.2), math.log(20.0), 120))
    errors = np.array([sup_error(c) for c in scan])
    assert sup_error(tuned()) <= 1.005 * errors.min()
    assert abs(tuned() - scan[errors.argmin()]) < 0.1
    assert errors.min() < sup_error(2 * tuned()) / 2  # a minimum that matters


@pytest.mark.parametrize("disturbance", [0.01, 0.05, 0.2])
def test_tuned_allows_for_scores_disturbed_in_proportion_to_c(disturbance):
    scan = np.exp(np.linspace(math.log(0.3), math.log(8.0), 60))
    errors = np.array([sup_error(c, disturbance * c) for c in scan])
    best = tuned(disturbance)
    assert best < tuned()
    assert sup_error(best, disturbance * best) <= 1.1 * errors.min()


@pytest.mark.parametrize("sentinels", [1, 2, 3])
@pytest.mark.parametrize("largest", [1.0, 100.0, 1e6])
def test_tuned_weighs_the_row_against_its_borders(sentinels, largest):
    def error(c: float) -> float:
        return interpolation(c) + largest * border(c, sentinels, 48)

    best = tuned(sentinels=sentinels, border=largest)
    assert best >= tuned() - 1e-6
    assert error(best) <= 1.25 * min(error(c) for c in np.linspace(1.5, 12.0, 60))


@pytest.mark.parametrize(("dtype", "roundoff"), [("float64", 2.0**-53), ("float32", 2.0**-24), ("bfloat16", 2.0**-8)])
def test_hard_is_where_the_neighbour_weighs_one_roundoff(dtype, roundoff):
    assert math.exp(-hard(dtype)) == pytest.approx(roundoff, rel=1e-12)


def test_hard_keeps_the_staircase_to_one_roundoff():
    distance = np.arange(1, 40)
    beside = np.exp(-hard() * distance**2).sum()
    assert 1.0 + 2.0**-53 <= 1.0 + 1.01 * beside <= 1.0 + 2.0**-52
    assert outputs(hard())[POINTS <= 0.0] == pytest.approx(0.0, abs=2.0**-52)


def test_sharpness_scales_with_the_square_of_the_spacing():
    assert sharpness("hard", 0.5) == pytest.approx(4 * hard())
    assert sharpness("hard", 2.0, "float16") == pytest.approx(hard("float16") / 4)
    assert sharpness("tuned", 0.1) == pytest.approx(100 * tuned())
    assert sharpness("tuned", 0.1, disturbance=0.05) == pytest.approx(100 * tuned(0.05))
    assert sharpness(7, 0.1) == 7.0
    assert isinstance(sharpness(7, 0.1), float)


@pytest.mark.parametrize("asked", ["soft", 0.0, -1.0, math.nan, math.inf])
def test_a_sharpness_that_makes_no_sense_is_refused(asked):
    pattern = r"`sharpness` must be 'hard', 'tuned' or a positive number\. Got .*\. Give 'hard', 'tuned' or the number"
    with pytest.raises(RefusalError, match=pattern):
        sharpness(asked, 0.1)

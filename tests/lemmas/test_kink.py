"""Two lines and a far key, against brute force."""

from __future__ import annotations

import numpy as np
import pytest

from attnforge.lemmas.kink import far_key, kink

SHARPNESS = [1e-3, 0.5, 1.0, 7.0, 1e4, 1e12]


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 0.5 * (1 + np.tanh(x / 2))


@pytest.mark.parametrize("d", [0.0, 1e-3, 0.1, 1.0, 4.0])
@pytest.mark.parametrize("beta", SHARPNESS)
def test_the_loser_of_two_lines_pulls_by_no_more(beta, d):
    z = np.linspace(0.0, 60.0, 60_001) / beta
    pull = z * sigmoid(-beta * z + d)
    bound = kink(beta, d)
    assert pull.max() <= bound * (1 + 1e-12)
    assert d or bound <= pull.max() * (1 + 1e-6)  # attained, without a disturbance
    assert bound == pytest.approx((0.2784645427610738 + d) / beta, rel=1e-14)


@pytest.mark.parametrize("d", [0.0, 0.01, 0.5])
@pytest.mark.parametrize("scaled_gap", [0.1, 1.0, 5.0, 40.0])
@pytest.mark.parametrize("beta", SHARPNESS)
def test_a_far_key_pulls_by_no_more(beta, scaled_gap, d):
    gap = scaled_gap / beta
    pull = gap * float(sigmoid(np.float64(-scaled_gap + 2 * d)))
    exact = gap * np.exp(2 * d - scaled_gap)
    assert pull <= far_key(beta, gap, d)
    assert far_key(beta, gap, d) == pytest.approx(exact, rel=1e-12)


def test_a_key_beyond_underflow_still_pulls_a_little():
    assert 0 < far_key(1e6, 1.0) < 1e-300

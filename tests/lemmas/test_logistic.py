"""Two keys against a logistic function: the bound holds, and is attained up to a small factor."""

import numpy as np
import pytest
from flint import arb

from attnforge.lemmas.logistic import LOGISTIC, logistic_error, silu_error


@pytest.mark.parametrize("function", LOGISTIC)
def test_it_bounds_the_error_of_any_numbers(function):
    rng = np.random.default_rng(0)
    factor, scale, offset = LOGISTIC[function]
    for size in (1e-8, 1e-3, 0.1, 3.0):
        for _ in range(50):
            slope, apart, first, second = np.array([factor, 0, scale + offset, offset]) + size * rng.normal(size=4)
            y = np.linspace(-4, 4, 2001)
            theta = 1 / (1 + np.exp(-(slope * y + apart)))
            wanted = offset + scale / (1 + np.exp(-factor * y))
            error = np.abs(second + (first - second) * theta - wanted).max()
            bound = float(logistic_error(function, arb(slope), arb(apart), (arb(first), arb(second)), arb(4)))
            assert error <= bound * (1 + 1e-9) + 1e-15
            assert size > 0.1 or bound <= 40 * error + 1e-14


def test_what_is_uncertain_counts():
    wide = arb(0, 0.1)
    found = logistic_error("sigmoid", arb(1), wide, (arb(1), arb(0)), arb(1))
    assert 0.025 <= float(found) <= 0.0251


def test_it_bounds_the_error_of_a_silu_of_any_numbers():
    rng = np.random.default_rng(1)
    y = np.linspace(-4, 4, 2001)
    for size in (1e-8, 1e-3, 0.1, 3.0):
        for _ in range(50):
            slope, apart, rate, rest, other, last = np.array([1, 0, 1, 0, 0, 0]) + size * rng.normal(size=6)
            theta = 1 / (1 + np.exp(-(slope * y + apart)))
            error = np.abs((rate * y + rest) * theta + (other * y + last) * (1 - theta) - y / (1 + np.exp(-y))).max()
            values = (arb(rate), arb(rest)), (arb(other), arb(last))
            bound = float(silu_error(arb(slope), arb(apart), values, arb(4)))
            assert error <= bound * (1 + 1e-9) + 1e-15

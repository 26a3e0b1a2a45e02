"""The small-sharpness route's inequalities against brute force."""

import math

import numpy as np
import pytest

from attnforge.lemmas.small_sharpness import aggregation_error, combined_error


def slope(beta, keys, values):
    """out / beta of a softmax over keys and mirror images, in extended precision."""
    keys, values = keys.astype(np.longdouble), values.astype(np.longdouble)
    return (np.sinh(beta * keys) @ values / np.cosh(beta * keys).sum()) / np.longdouble(beta)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("beta", [1.0, 0.3, 0.1, 1e-2])
def test_one_head(seed, beta):
    rng = np.random.default_rng(seed)
    keys, values = rng.uniform(-1, 1, 20), rng.normal(size=(20, 3))
    keys[0] = 1.0
    length = np.linalg.norm(values, axis=1).max()
    error = np.linalg.norm(slope(beta, keys, values) - keys @ values / len(keys))
    assert error <= length * aggregation_error(beta)


def test_one_head_is_of_second_order():
    assert aggregation_error(1e-3) / aggregation_error(1e-4) == pytest.approx(100, rel=1e-3)
    assert aggregation_error(0.0) == 0.0
    assert aggregation_error(1e3) == math.inf


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("beta", [0.4, 0.2, 0.1, 0.05])
def test_two_heads(seed, beta):
    rng = np.random.default_rng(seed)
    keys, values = rng.uniform(-1, 1, 20), rng.normal(size=(20, 3))
    length = np.linalg.norm(values, axis=1).max()
    found = 4 * slope(beta, keys, values) / 3 - slope(2 * beta, keys, values) / 3
    error = np.linalg.norm(found - keys @ values / len(keys))
    bound = combined_error([(beta, 4 / 3), (2 * beta, -1 / 3)], 1.0)
    assert error <= length * bound
    assert bound < 30 * beta**4 * (1 + 10 * beta)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("reach", [1.0, 4.0, 12.0])
def test_few_large_residuals_among_many_small_ones(seed, reach):
    """The mean square says more than the largest: the bound is below the one without it, and holds."""
    rng = np.random.default_rng(seed)
    keys, values = rng.uniform(-0.3, 0.3, 200), rng.normal(size=(200, 3))
    keys[0] = reach
    heads = [(0.08, 1.0), (0.05, -0.3)]
    found = sum(c * slope(beta, keys, values) for beta, c in heads)
    error = np.linalg.norm(found - 0.7 * keys @ values / len(keys))
    length, mean = np.linalg.norm(values, axis=1).max(), math.sqrt(float(np.mean(keys**2)))
    bound = combined_error(heads, reach, mean)
    assert error <= length * bound
    assert bound <= combined_error(heads, reach)


def test_extremes():
    assert combined_error([(1e3, 1.0)], 1.0) == math.inf
    assert combined_error([(1.0, 1.0)], 0.0) == 0.0

"""A head from its prompt: products of data with data by barely sharp heads, their order, their bound."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnforge.errors import RefusalError, TargetError
from attnforge.network import Attention, Network, check_architecture, digest
from attnforge.targets import AttentionHead, Box
from attnforge.targets.in_context import HeadShape
from attnforge.theorems.in_context.head_emulation import (
    CAUCHY,
    best_sharpness,
    frozen_head,
    head_tokens,
    prompted,
)


def head_of(query: np.ndarray, key: np.ndarray, value: np.ndarray) -> AttentionHead:
    return AttentionHead(query, key, value, Box(-1, 1))


def random_head(d: int, r: int, v: int, seed: int = 0, size: float = 1.0) -> AttentionHead:
    rng = np.random.default_rng(seed)
    return head_of(*(size * rng.normal(size=(d, width)) / np.sqrt(d) for width in (r, r, v)))


def data(n: int, d: int, bound: float = 1.0, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-bound, bound, size=(n, d))


def projections(matrices: AttentionHead, x: np.ndarray, beta: float) -> np.ndarray:
    """What the first layer writes beside x."""
    network = frozen_head(matrices.shape)
    first = Network(network.layers[:2], network.features, None, network.context)
    return first(x, head_tokens(matrices, beta, "float64"))[:, network.features :]


def exact_projections(matrices: AttentionHead, x: np.ndarray) -> np.ndarray:
    return x @ np.hstack([matrices.query, matrices.key, matrices.value])


def test_one_feature_by_hand():
    """One feature: N(beta) = w tanh(beta x) / beta."""
    one = np.ones((1, 1))
    matrices, x, beta = head_of(2 * one, one, -one), np.array([[0.8]]), 0.5
    wanted = 4 / 3 * np.tanh(beta * 0.8) / beta - 1 / 3 * np.tanh(2 * beta * 0.8) / (2 * beta)
    np.testing.assert_allclose(projections(matrices, x, beta), wanted * np.array([[2.0, 1.0, -1.0]]), rtol=1e-14)


def test_the_prompt_by_hand():
    matrices = head_of(np.array([[1.0], [2.0]]), np.array([[3.0], [4.0]]), np.array([[5.0], [6.0]]))
    tokens = head_tokens(matrices, 0.5, "float64")  # d / beta = 4
    np.testing.assert_array_equal(tokens[:2], [[0.5, 0, 4, 12, 20], [0, 0.5, 8, 16, 24]])
    np.testing.assert_array_equal(tokens[2:], -tokens[:2])


def test_projections_are_of_fourth_order():
    matrices, x = random_head(5, 3, 2), data(20, 5)
    betas = np.array([0.4, 0.2, 0.1, 0.05])
    errors = [np.abs(projections(matrices, x, b) - exact_projections(matrices, x)).max() for b in betas]
    slopes = np.diff(np.log(errors)) / np.diff(np.log(betas))
    assert np.all(np.abs(slopes - 4) < 0.3)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 8), st.floats(0.01, 0.24), st.floats(0.1, 10.0), st.integers(0, 10**6))
def test_projections_keep_their_bound(d, t, bound, seed):
    matrices, x = random_head(d, 2, 2, seed), data(6, d, bound, seed + 1)
    off = np.abs(projections(matrices, x, t / bound) - exact_projections(matrices, x))
    stated = CAUCHY / 3 * (16 * t**4 / (1 - 4 * t**2) - 4 * t**4 / (1 - t**2))
    sizes = np.abs(x) @ np.abs(np.hstack([matrices.query, matrices.key, matrices.value]))
    assert np.all(off <= stated * sizes + 1e-11 * bound / t)


def test_the_constant_of_cauchy():
    assert np.sinh(1) / np.cos(1) < CAUCHY < 2.19


@pytest.mark.parametrize(("d", "r", "v", "n", "bound"), [(4, 3, 2, 10, 1.0), (16, 8, 8, 64, 3.0), (1, 1, 1, 1, 0.01)])
def test_emulated_heads_are_exact_to_ten_digits(d, r, v, n, bound):
    matrices, x = random_head(d, r, v), data(n, d, bound)
    beta = best_sharpness(d, bound, "float64")
    found = frozen_head(matrices.shape)(x, head_tokens(matrices, beta, "float64"))
    off = np.abs(found - matrices.values(x)).max()
    assert off <= 1e-10


def test_sharpness_balances_truncation_and_rounding():
    """The power of two the formula takes is within a factor of ten of the best of all."""
    matrices, x = random_head(8, 4, 4), data(40, 8)
    network, wanted = frozen_head(matrices.shape), matrices.values(x)

    def off(beta: float) -> float:
        return float(np.abs(network(x, head_tokens(matrices, beta, "float64")) - wanted).max())

    assert off(best_sharpness(8, 1.0, "float64")) <= 10 * min(off(2.0**-e) for e in range(2, 30))
    assert off(2.0**-2) > 1e3 * off(best_sharpness(8, 1.0, "float64"))
    assert off(2.0**-29) > 1e3 * off(best_sharpness(8, 1.0, "float64"))


def test_sharpness_scales_with_the_data():
    for dtype in ("float64", "float32"):
        betas = [best_sharpness(4, 2.0**e, dtype) for e in (-5, 0, 7)]
        assert betas == [betas[1] * 2**5, betas[1], betas[1] / 2**7]
    assert best_sharpness(4, 1.0, "float32") > best_sharpness(4, 1.0, "float64")


def test_the_network_depends_on_the_shape_only():
    shape = HeadShape(4, 3, 2)
    network = frozen_head(shape)
    assert digest(network) == digest(frozen_head(shape)) != digest(frozen_head(HeadShape(4, 2, 2)))
    assert check_architecture(network) == 2
    assert [len(layer.heads) for layer in network.layers if isinstance(layer, Attention)] == [2, 1]
    assert network.tokens is None


def test_a_prompt_becomes_constant_keys_with_the_same_numbers():
    matrices, x = random_head(4, 3, 2), data(10, 4)
    frozen, tokens = frozen_head(matrices.shape), head_tokens(matrices, 0.01, "float64")
    given = prompted(frozen, tokens)
    assert given.context is None
    np.testing.assert_array_equal(given(x), frozen(x, tokens))
    first = given.heads[0]
    np.testing.assert_array_equal(np.hstack([first.memory_keys, first.memory_values]), tokens)


def test_what_cannot_be_is_refused():
    one = np.ones((2, 2))
    with pytest.raises(TargetError, match="W_Q and W_K"):
        head_of(one, np.ones((3, 2)), one)
    with pytest.raises(TargetError, match="W_Q and W_K"):
        head_of(one, one, np.ones(2))
    with pytest.raises(TargetError, match="finite"):
        head_of(one, one, np.array([[np.nan], [1.0]]))
    with pytest.raises(TargetError, match="at least one"):
        HeadShape(0, 1, 1)
    for bound in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(TargetError, match="data_bound"):
            best_sharpness(4, bound, "float64")
    with pytest.raises(RefusalError, match="float64 or float32"):
        best_sharpness(4, 1.0, "bfloat16")
    with pytest.raises(RefusalError, match="Scale the matrices"):
        head_tokens(head_of(one * 1e38, one, one), 0.01, "float32")

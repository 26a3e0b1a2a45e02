"""The head as a network: weights by hand, the closed form, any number of examples, positions that hide the future."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnforge.errors import RefusalError, TargetError
from attnforge.network import Attention, attention_weights, check_architecture, digest, flatten, rounded
from attnforge.runtime import AttentionNetwork, audit
from attnforge.targets.in_context.kernel import check_kernel, tokens
from attnforge.theorems.in_context.formats import concatenated
from attnforge.theorems.in_context.kernel_regression import MOST_CAUSAL, causal_network, network

KERNELS = ("gaussian", "softmax")


def weights_of(kernel: str, h: float, x: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """The closed form's weights, from differences of points; (q, n)."""
    if kernel == "gaussian":
        scores = -((queries[:, None, :] - x[None, :, :]) ** 2).sum(-1) / (2 * h**2)
    else:
        scores = (queries[:, None, :] * x[None, :, :]).sum(-1) / h**2
    raw = np.exp(scores - scores.max(-1, keepdims=True))
    return raw / raw.sum(-1, keepdims=True)


def problem(d: int, k: int, n: int, q: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), rng.normal(size=(n, k)), rng.normal(size=(q, d))


def relative(found: np.ndarray, wanted: np.ndarray, y: np.ndarray) -> float:
    """The largest error, relative to the largest label: an average of labels has no better scale."""
    return float(np.abs(found - wanted).max() / np.abs(y).max())


def test_two_examples_by_hand():
    x, y, query = np.array([[0.0], [1.0]]), np.array([[0.0], [1.0]]), np.array([[0.25]])
    sigma = 1 / (1 + np.exp(0.5 * (0.75**2 - 0.25**2) * 4))
    net = network("gaussian", 0.5, features=1)
    assert net(*tokens("gaussian", x, y, query)).item() == pytest.approx(sigma, rel=1e-15)
    plain = network("softmax", 0.5, features=1)
    assert plain(*tokens("softmax", x, y, query)).item() == pytest.approx(1 / (1 + np.exp(-1.0)), rel=1e-15)


def test_the_softmax_kernel_reads_raw_concatenated_tokens():
    x, y, queries = problem(3, 2, 5, 4)
    asking, told = tokens("softmax", x, y, queries)
    assert np.array_equal(told, concatenated(x, y))
    assert np.array_equal(asking, queries)


def test_the_gaussian_token_holds_the_squared_norm_seen_from_the_first_example():
    x, y, queries = np.array([[1.0, 1.0], [4.0, 5.0]]), np.array([[7.0], [8.0]]), np.array([[1.0, 3.0]])
    asking, told = tokens("gaussian", x, y, queries)
    assert told.tolist() == [[0, 0, 0, 7], [3, 4, 25, 8]]
    assert asking.tolist() == [[0, 2]]


@given(
    kernel=st.sampled_from(KERNELS),
    h=st.floats(0.3, 10),
    sizes=st.tuples(st.integers(1, 6), st.integers(1, 3), st.integers(1, 40), st.integers(1, 5)),
    seed=st.integers(0, 2**20),
)
@settings(max_examples=60, deadline=None)
def test_the_network_is_the_closed_form(kernel, h, sizes, seed):
    d, k, n, q = sizes
    x, y, queries = problem(d, k, n, q, seed)
    net, given_tokens = network(kernel, h, d, k), tokens(kernel, x, y, queries)
    wanted = weights_of(kernel, h, x, queries)
    assert np.abs(attention_weights(net, *given_tokens)[0][0] - wanted).max() <= 1e-13
    assert relative(net(*given_tokens), wanted @ y, y) <= 1e-13


@pytest.mark.parametrize("kernel", KERNELS)
def test_in_torch_and_in_float32(kernel):
    x, y, queries = problem(5, 2, 100, 20)
    asking, told = (torch.from_numpy(part) for part in tokens(kernel, x, y, queries))
    net, wanted = network(kernel, 1.0, 5, 2), weights_of(kernel, 1.0, x, queries) @ y
    double = AttentionNetwork(net, torch.float64)
    assert relative(double(asking, told).numpy(), wanted, y) <= 1e-13
    single = AttentionNetwork(rounded(net, "float32"), torch.float32)
    assert relative(single(asking, told).numpy(), wanted, y) <= 1e-5
    audit(double, asking, told)


@pytest.mark.parametrize("kernel", KERNELS)
def test_one_head_whose_weights_do_not_depend_on_the_number_of_examples(kernel):
    free, few, many = (network(kernel, 0.7, 3, 2, n) for n in (None, 2, 1000))
    assert len(free.heads) == 1
    assert check_architecture(few) == check_architecture(many) == 2
    arrays = [flatten(net)[1] for net in (free, few, many)]
    assert all(np.array_equal(arrays[0][name], other[name]) for other in arrays[1:] for name in arrays[0])
    assert digest(few) == digest(network(kernel, 0.7, 3, 2, 2))
    x, y, queries = problem(3, 2, 1000, 3)
    given_tokens = tokens(kernel, x, y, queries)
    assert np.array_equal(free(*given_tokens), many(*given_tokens))


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_wrong_weight_is_seen(kernel):
    x, y, queries = problem(3, 1, 20, 5)
    net, wanted = network(kernel, 1.0, 3), weights_of(kernel, 1.0, x, queries) @ y
    *before, last = net.layers
    assert isinstance(last, Attention)
    head = replace(last.heads[0], query=last.heads[0].query * (1 + 1e-9))
    wrong = replace(net, layers=(*before, Attention((head,))))
    assert relative(wrong(*tokens(kernel, x, y, queries)), wanted, y) > 1e-12


@given(
    kernel=st.sampled_from(KERNELS), d=st.integers(1, 4), k=st.integers(1, 2), n=st.integers(1, 12), seed=st.integers(0)
)
@settings(max_examples=40, deadline=None)
def test_causal_predictions_come_from_the_prefix(kernel, d, k, n, seed):
    x, y, _ = problem(d, k, n, 1, seed)
    net = causal_network(kernel, 1.0, d, k, n)
    found = net(*tokens(kernel, x, y, x))
    assert check_architecture(net) == k
    assert np.array_equal(found[0], np.zeros(k))
    for i in range(1, n):
        assert relative(found[i], weights_of(kernel, 1.0, x[:i], x[i : i + 1]) @ y[:i], y) <= 1e-13


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_hidden_examples_weigh_exactly_nothing(dtype):
    n = 9
    x, y, _ = problem(2, 1, n, 1)
    asking, told = (torch.from_numpy(part) for part in tokens("gaussian", x, y, x))
    module = AttentionNetwork(causal_network("gaussian", 0.5, 2, 1, n), dtype)
    weights = module.attention(asking, told)[0][0].double().numpy()
    assert weights[0].tolist() == [1.0] + [0.0] * n
    assert np.array_equal(weights[1:, 0], np.zeros(n - 1))
    assert np.array_equal(np.triu(weights[:, 1:]), np.zeros((n, n)))
    assert np.abs(weights[1:].sum(-1) - 1).max() < (0.02 if dtype == torch.bfloat16 else 1e-6)


def test_the_first_query_would_see_everybody_without_the_constant_key():
    x, y, _ = problem(2, 1, 6, 1)
    net = causal_network("gaussian", 1.0, 2, 1, 6)
    before, last = net.layers
    assert isinstance(last, Attention)
    head = replace(last.heads[0], memory_keys=None, memory_values=None)
    found = replace(net, layers=(before, Attention((head,))))(*tokens("gaussian", x, y, x))
    assert found[0] == pytest.approx(y.mean(0))


def test_too_many_positions_are_refused():
    with pytest.raises(RefusalError, match=r"at most 2,048 examples. Got 2049"):
        causal_network("gaussian", 1.0, 2, 1, MOST_CAUSAL + 1)


@pytest.mark.parametrize("bandwidth", [0.0, -1.0, np.nan, np.inf, 1e-200])
def test_bandwidths_without_a_sharpness_are_refused(bandwidth):
    with pytest.raises(TargetError, match="`bandwidth` must be a positive number"):
        check_kernel("gaussian", bandwidth)


def test_other_kernels_are_refused():
    with pytest.raises(TargetError, match=r"'gaussian' or 'softmax'. Got 'cosine'"):
        check_kernel("cosine", 1.0)

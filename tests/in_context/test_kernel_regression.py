"""Kernel regression as a user meets it: shapes, kinds, batches, hard data, refusals."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from attnforge.errors import DomainError, RefusalError, TargetError
from attnforge.in_context.kernel_regression import KernelRegression
from attnforge.network import check_architecture, digest
from attnforge.runtime import audit, operations

KERNELS = ("gaussian", "softmax")


def closed_form(kernel: str, h: float, x: np.ndarray, y: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """Nadaraya-Watson from differences of points, batched; y (..., n, k)."""
    if kernel == "gaussian":
        scores = -((queries[..., :, None, :] - x[..., None, :, :]) ** 2).sum(-1) / (2 * h**2)
    else:
        scores = queries @ np.swapaxes(x, -1, -2) / h**2
    raw = np.exp(scores - scores.max(-1, keepdims=True))
    return (raw / raw.sum(-1, keepdims=True)) @ y


def problem(d: int = 10, n: int = 300, q: int = 40, batch: tuple[int, ...] = (), k: int | None = None):
    rng = np.random.default_rng(0)
    labels = (*batch, n) if k is None else (*batch, n, k)
    return rng.normal(size=(*batch, n, d)), 3.0 + rng.normal(size=labels), rng.normal(size=(*batch, q, d))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("bandwidth", [0.3, 1.0, 4.0])
def test_it_equals_the_closed_form(kernel, bandwidth):
    x, y, queries = problem()
    wanted = closed_form(kernel, bandwidth, x, y[:, None], queries)[:, 0]
    found = KernelRegression(bandwidth, kernel).build(features=10).predict(x, y, queries)
    assert np.abs(found / wanted - 1).max() <= 1e-13
    single = KernelRegression(bandwidth, kernel, dtype="float32").build(features=10).predict(x, y, queries)
    assert np.abs(single / wanted - 1).max() <= 1e-5


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("batch", "k"), [((), None), ((4,), None), ((2, 3), 2), ((), 1)])
def test_shapes_and_batches(kernel, batch, k):
    x, y, queries = problem(3, 12, 5, batch, k)
    net = KernelRegression(kernel=kernel).build(features=3, examples=12)
    found = net.predict(x, y, queries)
    wide = y[..., None] if k is None else y
    wanted = closed_form(kernel, 1.0, x, wide, queries)
    assert found.shape == ((*batch, 5) if k is None else (*batch, 5, k))
    assert found.reshape(wanted.shape) == pytest.approx(wanted, rel=1e-13)
    ((weights,),) = net.attention(x, y, queries)
    assert weights @ wide == pytest.approx(wanted, rel=1e-13)


@pytest.mark.parametrize("kernel", KERNELS)
def test_leading_axes_broadcast(kernel):
    x, y, _ = problem(2, 7, 1)
    queries = np.random.default_rng(1).normal(size=(4, 3, 2))
    net = KernelRegression(kernel=kernel).build(features=2)
    wanted = closed_form(kernel, 1.0, x, y[:, None], queries)[..., 0]
    assert net.predict(x, y, queries) == pytest.approx(wanted, rel=1e-13)
    many_x, many_y = np.stack([x, x + 1]), np.stack([y, 2 * y])
    wanted = closed_form(kernel, 1.0, many_x, many_y[..., None], queries[0])[..., 0]
    assert net.predict(many_x, many_y, queries[0]) == pytest.approx(wanted, rel=1e-13)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_torch_in_torch_out_and_numpy_alike(dtype):
    given = [torch.from_numpy(part).to(dtype) for part in problem(3, 12, 5)]
    net = KernelRegression().build(features=3)
    found = net.predict(*given)
    assert found.dtype == dtype
    arrays = net.predict(*(part.numpy() for part in given))
    assert arrays.dtype == given[0].numpy().dtype
    assert np.array_equal(found.numpy(), arrays)
    assert net.predict([[0, 0, 0], [2, 0, 0]], [1, 2], [[1, 0, 0]]).tolist() == [1.5]


def test_gradients_reach_the_data():
    x, y, queries = (torch.from_numpy(part).requires_grad_() for part in problem(2, 5, 3))
    net = KernelRegression().build(features=2)
    assert torch.autograd.gradcheck(lambda *data: net.predict(*data), (x, y, queries))


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_module_runs_on_the_tokens(kernel):
    x, y, queries = problem(3, 12, 5)
    net = KernelRegression(kernel=kernel).build(features=3, examples=12)
    tokens = tuple(torch.from_numpy(part) for part in net.tokens(x, y, queries))
    module = net.module()
    assert np.array_equal(module(*tokens)[:, 0].numpy(), net.predict(x, y, queries))
    assert not list(module.parameters())
    assert list(net.module(trainable=True).parameters())
    audit(module, *tokens)
    assert check_architecture(net.network) == 1
    assert len(net.network.heads) == 1
    assert net.network(*net.tokens(x, y, queries))[:, 0] == pytest.approx(net.predict(x, y, queries), rel=1e-13)


def test_the_same_weights_serve_every_prompt():
    net = KernelRegression().build(features=2)
    before = digest(net.network)
    for n in (1, 2, 50):
        x, y, queries = problem(2, n, 3)
        assert net.predict(x, y, queries) == pytest.approx(closed_form("gaussian", 1.0, x, y[:, None], queries)[:, 0])
    assert digest(net.network) == before


@pytest.mark.parametrize("kernel", KERNELS)
def test_one_example_and_equal_examples(kernel):
    net = KernelRegression(0.1, kernel).build(features=2)
    queries = np.array([[0.0, 0.0], [50.0, -3.0]])
    assert net.predict([[4.0, 5.0]], [7.0], queries).tolist() == [7.0, 7.0]
    labels = np.array([1.0, 2.0, 4.0, 9.0])
    assert net.predict(np.full((4, 2), 3.3), labels, queries) == pytest.approx(labels.mean(), rel=1e-15)


@pytest.mark.parametrize("distance", [1e3, 1e6, 1e100])
def test_far_from_everything_is_the_nearest_label(distance):
    net = KernelRegression().build(features=1)
    found = net.predict([[0.0], [1.0]], [3.0, 5.0], [[distance], [-distance]])
    assert found.tolist() == [5.0, 3.0]


def test_examples_far_apart():
    x = np.array([[0.0], [1e4], [-1e8]])
    net = KernelRegression().build(features=1)
    assert net.predict(x, [1.0, 2.0, 3.0], x).tolist() == [1.0, 2.0, 3.0]


def test_points_far_from_the_origin_keep_their_digits():
    x, y, queries = problem(2, 50, 10)
    shift = 2.0**20  # exact, if the points have 30 bits to spare
    x, queries = np.round(x * 2**20) / 2**20, np.round(queries * 2**20) / 2**20
    net = KernelRegression().build(features=2)
    wanted = net.predict(x, y, queries)
    assert np.abs(net.predict(x + shift, y, queries + shift) / wanted - 1).max() <= 1e-13


def test_ten_thousand_examples_by_the_fused_kernel():
    x, y, queries = problem(10, 10_000, 200)
    net = KernelRegression().build(features=10)
    tokens = (torch.from_numpy(part) for part in net.tokens(x, y, queries))
    seen = operations(net.module(), *tokens)
    assert "_scaled_dot_product_flash_attention_for_cpu" in seen  # never holds queries by examples
    assert not seen & {"_softmax", "_scaled_dot_product_attention_math"}
    wanted = closed_form("gaussian", 1.0, x, y[:, None], queries[:20])[:, 0]
    assert np.abs(net.predict(x, y, queries)[:20] / wanted - 1).max() <= 1e-13


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("k", [None, 2])
def test_causal_predictions_are_those_of_every_prefix(kernel, k):
    x, y, _ = problem(3, 30, 1, (2,), k)
    net = KernelRegression(kernel=kernel).build(features=3)
    found = net.predict_causal(x, y)
    assert found.shape == y.shape
    assert not found[:, 0].any()
    for i in range(1, 30):
        wanted = net.predict(x[:, :i], y[:, :i], x[:, i : i + 1])[:, 0]
        assert found[:, i] == pytest.approx(wanted, rel=1e-13)


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_future_changes_nothing(kernel):
    x, y, _ = problem(3, 20, 1)
    net = KernelRegression(kernel=kernel).build(features=3)
    before = net.predict_causal(x, y)
    x[12:], y[12:] = 1e3 * x[12:], -1e6
    after = net.predict_causal(x, y)
    assert np.array_equal(before[:12], after[:12])
    assert not np.array_equal(before[13:], after[13:])


def test_what_does_not_fit_is_refused():
    net = KernelRegression().build(features=2, examples=3)
    x, y, queries = problem(2, 3, 4)
    with pytest.raises(DomainError, match=r"X is \(..., n, 2\).*Got shapes \(3, 1\)"):
        net.predict(x[:, :1], y, queries)
    with pytest.raises(DomainError, match=r"of labels in columns, \(2, 1\)"):
        net.predict(x, y[:2], queries)
    with pytest.raises(DomainError, match="n >= 1"):
        KernelRegression().build(features=2).predict(x[:0], y[:0], queries)
    with pytest.raises(DomainError, match=r"built for 3 examples. Got 2. Build without `examples`"):
        net.predict(x[:2], y[:2], queries)
    with pytest.raises(DomainError, match=r"X_query is \(..., q, 2\).*Got shapes \(4,\)"):
        net.predict(x, y, queries[:, 0])
    with pytest.raises(DomainError, match="leading axes broadcast"):
        net.predict(np.stack([x, x]), np.stack([y, y]), np.stack([queries] * 3))
    with pytest.raises(DomainError, match=r"y must be finite. Got NaN"):
        net.predict(x, [1.0, np.nan, 2.0], queries)
    with pytest.raises(DomainError, match="X must be finite"):
        net.predict(x + np.inf, y, queries)
    with pytest.raises(DomainError, match="X_query must be finite"):
        net.predict(x, y, queries * np.nan)


def test_scores_that_overflow_are_refused_not_returned_as_nan():
    net = KernelRegression().build(features=1)
    with pytest.raises(DomainError, match=r"must not overflow.*larger bandwidth"):
        net.predict([[0.0], [1e200]], [1.0, 2.0], [[1e200]])
    with pytest.raises(DomainError, match=r"Scores must not exceed 1.25e\+29"):
        net.predict_causal([[0.0], [1e16]], [1.0, 2.0])


def test_settings_are_checked():
    with pytest.raises(TargetError, match="`bandwidth` must be a positive number"):
        KernelRegression(bandwidth=0.0)
    with pytest.raises(TargetError, match="'gaussian' or 'softmax'"):
        KernelRegression(kernel="cosine")
    with pytest.raises(TargetError, match="`dtype` must be"):
        KernelRegression(dtype="float16")
    with pytest.raises(TargetError, match=r"at least 1. Got 0, None and 1"):
        KernelRegression().build(features=0)
    with pytest.raises(RefusalError, match="at most 2,048 examples"):
        KernelRegression().build(features=1).predict_causal(np.zeros((2049, 1)), np.zeros(2049))

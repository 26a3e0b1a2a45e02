"""Kernel regression: against the closed form and exact averages, certified for prompts and boxes; refusals."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from flint import ctx
from hypothesis import given, settings
from hypothesis import strategies as st

import attnforge as af
from attnforge.in_context import KernelRegression
from attnforge.network import digest
from tests.in_context.runs import drift
from tests.refusals import refused

KERNELS, DTYPES = ("gaussian", "softmax"), ("float64", "float32", "bfloat16")
BOUND = 2.0


def closed_form(kernel, h, x, y, queries):
    """Nadaraya-Watson from differences of points, batched; y (..., n, k)."""
    if kernel == "gaussian":
        scores = -((queries[..., :, None, :] - x[..., None, :, :]) ** 2).sum(-1) / (2 * h**2)
    else:
        scores = queries @ np.swapaxes(x, -1, -2) / h**2
    raw = np.exp(scores - scores.max(-1, keepdims=True))
    return (raw / raw.sum(-1, keepdims=True)) @ y


def problem(d=10, n=300, q=40, batch=(), k=None):
    rng = np.random.default_rng(0)
    labels = (*batch, n) if k is None else (*batch, n, k)
    return rng.normal(size=(*batch, n, d)), 3.0 + rng.normal(size=labels), rng.normal(size=(*batch, q, d))


def prompt(d=3, n=40, q=7, k=None, seed=0, size=BOUND):
    rng = np.random.default_rng(seed)
    labels = (n,) if k is None else (n, k)
    return tuple(rng.uniform(-size, size, shape) for shape in ((n, d), labels, (q, d)))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("bandwidth", [0.3, 1.0, 4.0])
def test_it_equals_the_closed_form(kernel, bandwidth):
    x, y, queries = problem()
    wanted = closed_form(kernel, bandwidth, x, y[:, None], queries)[:, 0]
    for dtype, unit in (("float64", 1e-13), ("float32", 1e-5)):
        net = KernelRegression(bandwidth, kernel, dtype=dtype).build(features=10)
        assert np.abs(net.predict(x, y, queries) / wanted - 1).max() <= unit


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("batch", "k"), [((), None), ((4,), None), ((2, 3), 2), ((), 1)])
def test_shapes_and_batches(kernel, batch, k):
    x, y, queries = problem(3, 12, 5, batch, k)
    net = KernelRegression(kernel=kernel).build(features=3, examples=12)
    found, wide = net.predict(x, y, queries), y[..., None] if k is None else y
    wanted = closed_form(kernel, 1.0, x, wide, queries)
    assert found.shape == ((*batch, 5) if k is None else (*batch, 5, k))
    assert found.reshape(wanted.shape) == pytest.approx(wanted, rel=1e-13)
    ((weights,),) = net.attention(x, y, queries)
    assert weights @ wide == pytest.approx(wanted, rel=1e-13)


def test_leading_axes_broadcast_and_the_same_weights_serve_every_prompt():
    x, y, _ = problem(2, 7, 1)
    queries = np.random.default_rng(1).normal(size=(4, 3, 2))
    net = KernelRegression().build(features=2)
    before = digest(net.network)
    for many_x, many_y, asked in ((x, y, queries), (np.stack([x, x + 1]), np.stack([y, 2 * y]), queries[0])):
        wanted = closed_form("gaussian", 1.0, many_x, many_y[..., None], asked)[..., 0]
        assert net.predict(many_x, many_y, asked) == pytest.approx(wanted, rel=1e-13)
    assert net.predict([[0, 0], [2, 0]], [1, 2], [[1, 0]]).tolist() == [1.5]
    assert digest(net.network) == before


@pytest.mark.parametrize("kernel", KERNELS)
def test_prompts_are_what_the_network_and_its_module_take(kernel):
    net, data = KernelRegression(kernel=kernel).build(3), prompt()
    asking, told = net.prompt(*data)
    assert (asking.shape, told.shape) == ((7, 3), (40, 5 if kernel == "gaussian" else 4))
    assert np.abs(net.network(asking, told)[:, 0] - net(*data)).max() <= 1e-13
    tensors = net.prompt(*map(torch.tensor, data))
    assert np.abs(net.module()(*tensors)[:, 0].numpy() - net.predict(*data)).max() <= 1e-14
    assert len(net.network.heads) == 1


@pytest.mark.parametrize("distance", [1e3, 1e6, 1e100])
def test_far_from_everything_is_the_nearest_label(distance):
    net = KernelRegression().build(features=2)
    queries = np.array([[distance, 0.0], [-distance, 0.0]])
    assert net.predict([[1.0, 0.0], [-1.0, 0.0]], [5.0, 3.0], queries).tolist() == [5.0, 3.0]


def test_points_far_apart_or_far_from_the_origin_keep_their_digits():
    far = np.array([[0.0], [1e4], [-1e8]])
    assert KernelRegression().build(features=1).predict(far, [1.0, 2.0, 3.0], far).tolist() == [1.0, 2.0, 3.0]
    x, y, queries = problem(2, 50, 10)
    x, queries = np.round(x * 2**20) / 2**20, np.round(queries * 2**20) / 2**20  # 30 bits to spare: exact, if shifted
    net = KernelRegression().build(features=2)
    assert np.abs(net.predict(x + 2.0**20, y, queries + 2.0**20) / net.predict(x, y, queries) - 1).max() <= 1e-13


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
    x[:, 12:], y[:, 12:] = 1e3 * x[:, 12:], -1e6
    after = net.predict_causal(x, y)  # of another future
    assert np.array_equal(found[:, :12], after[:, :12])
    assert not np.array_equal(found[:, 13:], after[:, 13:])


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("d", "n", "h", "k"), [(1, 5, 1.0, None), (3, 40, 0.3, 2), (10, 300, 1.0, None)])
def test_certificates_cover_runs(kernel, dtype, d, n, h, k):
    net = KernelRegression(h, kernel, dtype).build(d, outputs=k or 1, data_bound=BOUND)
    for seed in range(4):
        data = prompt(d, n, 20, k, seed)
        one = net.certify(*data)
        assert drift(net, *data) <= one.bound
        assert one.status == "proved"
        for each in (data, [np.sign(part) * BOUND for part in data]):
            assert drift(net, *each) <= net.certificate.bound


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("h", [0.5, 1.0, 4.0])
def test_the_certificate_of_a_prompt_is_tight(kernel, h):
    net, ratios = KernelRegression(h, kernel).build(10, data_bound=BOUND), []
    for seed in range(8):
        data = prompt(10, 300, 50, seed=seed)
        one = net.certify(*data).bound
        ratios.append(one / drift(net, *data))
        assert one < net.certificate.bound
    assert np.median(ratios) <= 100
    assert max(ratios) <= 200


@given(
    kernel=st.sampled_from(KERNELS),
    dtype=st.sampled_from(DTYPES),
    scales=st.tuples(st.floats(-100, 100), st.floats(-3, 3), st.floats(-100, 100), st.floats(0, 6)),
    sizes=st.tuples(st.integers(1, 4), st.integers(1, 30), st.integers(1, 4), st.integers(1, 2)),
    seed=st.integers(0, 2**20),
)
@settings(max_examples=60, deadline=None)
def test_hostile_scales_are_covered_or_refused(kernel, dtype, scales, sizes, seed):
    (h, x_scale, y_scale, shift), (d, n, q, k) = scales, sizes
    x, y, queries = prompt(d, n, q, k, seed, 1.0)
    x, queries = ((each + 10.0**shift) * 10.0 ** (h + x_scale) for each in (x, queries))
    data = (x, y * 10.0**y_scale, queries)
    net = KernelRegression(10.0**h, kernel, dtype).build(d, outputs=k)
    try:
        one = net.certify(*data)
    except af.RefusalError:
        return
    with ctx.workprec(1000):
        exact = [entry for row in net.target.enclosed(*data) for entry in row]
        assert all(abs(run - each) <= one.bound for run, each in zip(net(*data).ravel().tolist(), exact, strict=True))


def test_a_network_of_one_output_takes_labels_one_by_one():
    net, (x, y, queries) = KernelRegression().build(3), prompt(k=3)
    columns = np.stack([net(x, y[:, j], queries) for j in range(3)], axis=-1)
    assert np.array_equal(net(x, y, queries), columns)
    several = KernelRegression().build(3, outputs=2)
    for call in (several, several.certify, several.prompt, net.certify, net.prompt):
        with refused(af.DomainError):
            call(x, y, queries)


X, Y, Q = problem(2, 3, 4)
P, L, A = prompt()
LINE, PLANE = KernelRegression().build(1), KernelRegression().build(2)
THREE, BOX = KernelRegression().build(2, examples=3), KernelRegression().build(3, data_bound=BOUND)
REFUSED = {
    "other features": (af.DomainError, lambda: THREE.predict(X[:, :1], Y, Q)),
    "other labels": (af.DomainError, lambda: THREE.predict(X, Y[:2], Q)),
    "no examples": (af.DomainError, lambda: PLANE.predict(X[:0], Y[:0], Q)),
    "other examples": (af.DomainError, lambda: THREE.predict(X[:2], Y[:2], Q)),
    "other queries": (af.DomainError, lambda: THREE.predict(X, Y, Q[:, 0])),
    "other batches": (af.DomainError, lambda: THREE.predict(np.stack([X, X]), np.stack([Y, Y]), np.stack([Q] * 3))),
    "a label that is none": (af.DomainError, lambda: THREE.predict(X, [1.0, np.nan, 2.0], Q)),
    "an example that is none": (af.DomainError, lambda: THREE.predict(X + np.inf, Y, Q)),
    "a query that is none": (af.DomainError, lambda: THREE.predict(X, Y, Q * np.nan)),
    "scores that overflow": (af.DomainError, lambda: LINE.predict([[0.0], [1e200]], [1.0, 2.0], [[1e200]])),
    "scores beyond the mask": (af.DomainError, lambda: LINE.predict_causal([[0.0], [1e16]], [1.0, 2.0])),
    "no bandwidth": (af.TargetError, lambda: KernelRegression(bandwidth=0.0)),
    "another kernel": (af.TargetError, lambda: KernelRegression(kernel="cosine")),
    "another dtype": (af.TargetError, lambda: KernelRegression(dtype="float16")),
    "no features": (af.TargetError, lambda: KernelRegression().build(features=0)),
    "long causal prompts": (af.RefusalError, lambda: LINE.predict_causal(np.zeros((2049, 1)), np.zeros(2049))),
    "examples beyond the bound": (af.DomainError, lambda: BOX(2 * P, L, A)),
    "labels beyond the bound": (af.DomainError, lambda: BOX(P, 2 * L, A)),
    "queries beyond the bound": (af.DomainError, lambda: BOX(P, L, 2 * A)),
    "certifying two prompts": (af.DomainError, lambda: BOX.certify(np.stack([P, P]), np.stack([L, L]), A)),
    "certifying no queries": (af.DomainError, lambda: BOX.certify(P, L, A[:0])),
    "measuring points of prompts": (af.TargetError, lambda: af.measure(BOX)),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_does_not_fit_is_refused(what):
    kind, call = REFUSED[what]
    with refused(kind):
        call()

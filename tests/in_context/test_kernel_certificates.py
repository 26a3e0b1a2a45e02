"""Certificates of kernel regression: for one prompt and for a data box, against runs; files; what is absent."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import attnforge as af
from attnforge.balls import precision, upper
from attnforge.compiler.page.page import page
from attnforge.in_context import KernelRegression
from attnforge.network import Linear, digest, editing
from attnforge.targets import target_from_data

KERNELS, DTYPES = ("gaussian", "softmax"), ("float64", "float32", "bfloat16")
BOUND = 2.0


def prompt(d=3, n=40, q=7, k=None, seed=0, size=BOUND):
    rng = np.random.default_rng(seed)
    labels = (n,) if k is None else (n, k)
    return tuple(rng.uniform(-size, size, shape) for shape in ((n, d), labels, (q, d)))


def error(net, x, y, queries):
    wide = (each.astype(np.longdouble) for each in (x, y, queries))
    return float(np.abs(net(x, y, queries) - net.target.average(*wide)).max())


def with_head(net, **changes):
    return editing.with_head(net.network, -1, 0, **changes)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("d", "n", "h", "k"), [(1, 5, 1.0, None), (3, 40, 0.3, 2), (10, 300, 1.0, None)])
def test_certificates_cover_runs(kernel, dtype, d, n, h, k):
    net = KernelRegression(h, kernel, dtype).build(d, outputs=k or 1, data_bound=BOUND)
    for seed in range(4):
        data = prompt(d, n, 20, k, seed)
        one = net.certify(*data)
        assert error(net, *data) <= one.bound
        assert one.status == "proved"
        corner = (np.sign(data[0]) * BOUND, np.sign(data[1]) * BOUND, np.sign(data[2]) * BOUND)
        for each in (data, corner):
            assert error(net, *each) <= net.certificate.bound


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("h", [0.5, 1.0, 4.0])
def test_the_certificate_of_a_prompt_is_tight(kernel, h):
    net, ratios = KernelRegression(h, kernel).build(10, data_bound=BOUND), []
    for seed in range(8):
        data = prompt(10, 300, 50, seed=seed)
        one = net.certify(*data).bound
        ratios.append(one / error(net, *data))
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
    size = 10.0 ** (h + x_scale)
    x, queries = ((each + 10.0**shift) * size for each in (x, queries))
    y = y * 10.0**y_scale
    net = KernelRegression(10.0**h, kernel, dtype).build(d, outputs=k)
    try:
        one = net.certify(x, y, queries)
    except af.RefusalError:
        return
    with precision(1000):
        exact = [entry for row in net.target.enclosed(x, y, queries) for entry in row]
        runs = net(x, y, queries).ravel().tolist()
        assert max(upper(abs(run - each)) for run, each in zip(runs, exact, strict=True)) <= one.bound


def test_the_average_by_balls_is_the_average():
    for kernel in KERNELS:
        target = KernelRegression(0.6, kernel).build(3, outputs=2).target
        data = prompt(k=2)
        with precision():
            found = [[float(entry) for entry in row] for row in target.enclosed(*data)]
        assert np.abs(np.array(found) - target.average(*data)).max() <= 1e-15 * 10
        assert target.values(np.hstack(data[:2])).shape == (40, 2)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_network_is_compiled_and_survives_a_file(kernel, tmp_path):
    net = KernelRegression(0.7, kernel).build(3, outputs=2, data_bound=BOUND)
    data, path = prompt(k=2), tmp_path / "net.safetensors"
    assert isinstance(net, af.Compiled)
    assert float(net.domain.upper) == BOUND
    net.save(path)
    again = af.load(path)
    assert type(again) is type(net)
    assert digest(again.network) == digest(net.network)
    assert np.array_equal(again(*data), net(*data))
    assert again.certificate == net.certificate == af.certify(again)
    assert again.certify(*data) == net.certify(*data)
    assert str(again) == str(net)
    assert "|net(X, y, X_query) - exact average| <=" in str(net)
    assert "net.certify(X, y, X_query)" in page(net, file="net.safetensors")
    assert target_from_data(*net.target.to_data()).to_data() == net.target.to_data()
    with pytest.raises(af.TargetError, match="points of a box"):
        af.measure(net)


def test_without_a_bound_of_the_data_there_is_none_and_the_reason_is_told(tmp_path):
    net, path = KernelRegression().build(3), tmp_path / "net.safetensors"
    assert net.certificate is None
    assert "data_bound" in net.reason
    assert "net.certify(X, y, X_query) certifies one prompt" in net.report()
    net.save(path)
    assert af.load(path).certificate is None
    assert af.check(path).verdict == "unprovable"
    assert net.certify(*prompt()).bound < 1e-12
    sharp = KernelRegression(1e-30, dtype="float32").build(3, data_bound=BOUND)
    assert sharp.certificate is None
    assert "float32" in sharp.reason


def test_stored_targets_are_checked():
    data, _ = KernelRegression().build(3).target.to_data()
    for change in ({"kernel": "cosine"}, {"bandwidth": (0.0).hex()}, {"features": True}, {"data_bound": "nan"}):
        with pytest.raises(af.FileFormatError, match="valid target"):
            target_from_data(data | change, {})


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("array", ["query", "key", "value", "output"])
def test_changed_arrays_are_seen(kernel, array):
    """The certificate reads the head: the bound grows with the error."""
    net, data = KernelRegression(kernel=kernel).build(3, data_bound=BOUND), prompt()
    for factor in (1.5, 1 + 1e-6):
        other = net.with_network(with_head(net, **{array: factor * getattr(net.network.heads[0], array)}))
        seen = error(other, *data)
        assert net.certificate.bound < seen <= other.certify(*data).bound <= 1000 * seen
        assert seen <= other.certificate.bound


def test_a_changed_constant_is_seen():
    net, data = KernelRegression().build(3, data_bound=BOUND), prompt()
    first, last = net.network.layers
    assert isinstance(first, Linear)
    other = net.with_network(replace(net.network, layers=(replace(first, constant=first.constant * 1.01), last)))
    assert net.certificate.bound < error(other, *data) <= other.certify(*data).bound


def test_scores_that_read_labels_are_seen():
    net, data = KernelRegression(kernel="softmax").build(3, data_bound=BOUND), prompt()
    key = net.network.heads[0].key.copy()
    key[-1, 0] = 0.1
    other = net.with_network(with_head(net, key=key))
    assert net.certificate.bound < error(other, *data) <= other.certify(*data).bound


def test_certificates_of_prompts_keep_their_numbers_in_json():
    one = KernelRegression().build(3).certify(*prompt())
    assert af.Certificate.from_json(one.to_json()) == one
    assert set(one.parts) == {"scores", "answers", "rounding"}
    assert "exact average| <=" in str(one)
    assert "on this prompt" in str(one)
    assert any("40 examples and 7 queries" in entry for entry in one.assumptions)


def test_prompts_are_what_the_network_takes():
    net, data = KernelRegression().build(3), prompt()
    asking, told = net.prompt(*data)
    assert (asking.shape, told.shape) == ((7, 3), (40, 5))
    assert np.abs(net.network(asking, told)[:, 0] - net(*data)).max() <= 1e-13
    for tensor, array in zip(net.prompt(*map(torch.tensor, data)), (asking, told), strict=True):
        assert np.abs(tensor.numpy() - array).max() <= 1e-14


def test_a_network_of_one_output_takes_labels_one_by_one():
    net, (x, y, queries) = KernelRegression().build(3), prompt(k=3)
    columns = np.stack([net(x, y[:, j], queries) for j in range(3)], axis=-1)
    assert np.array_equal(net(x, y, queries), columns)
    several = KernelRegression().build(3, outputs=2)
    for call in (several, several.certify, several.prompt, net.certify, net.prompt):
        with pytest.raises(af.DomainError, match=r"built for \d labels an example. Got 3"):
            call(x, y, queries)


def test_data_beyond_the_bound_and_several_prompts_are_refused():
    net, (x, y, queries) = KernelRegression().build(3, data_bound=BOUND), prompt()
    for data in ((2 * x, y, queries), (x, 2 * y, queries), (x, y, 2 * queries)):
        with pytest.raises(af.DomainError, match="data bound 2"):
            net(*data)
    for data in ((np.stack([x, x]), np.stack([y, y]), queries), (x, y, queries[:0])):
        with pytest.raises(af.DomainError, match="one prompt with queries"):
            net.certify(*data)


def test_reduced_products_are_refused():
    net, before = KernelRegression(dtype="float32").build(3), torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        with pytest.raises(af.CertificateError, match="float32"):
            net(*prompt())
    finally:
        torch.set_float32_matmul_precision(before)

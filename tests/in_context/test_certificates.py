"""Certificates of in-context networks: from the weights, for one prompt and for a data box; files; what is absent."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import attnforge as af
from attnforge import in_context
from attnforge.network import Attention, Head, digest, with_heads

D, N, STEPS, BOUND = 3, 40, 12, 2.0

ALGORITHMS = {
    "least_squares": in_context.LeastSquares(steps=STEPS),
    "ridge": in_context.Ridge(steps=STEPS, alpha=0.1),
    "lasso": in_context.Lasso(steps=STEPS, alpha=0.05),
    "elastic_net": in_context.ElasticNet(steps=STEPS, alpha=0.1),
    "huber": in_context.Huber(steps=STEPS, delta=0.5),
    "logistic": in_context.Logistic(steps=STEPS),
    "softmax": in_context.SoftmaxRegression(steps=STEPS, classes=3),
    "poisson": in_context.Poisson(steps=STEPS, learning_rate=0.02),
}


def examples(name, seed=0, n=N):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-BOUND, BOUND, size=(n, D))
    values = {"logistic": (x[:, 0] > 0).astype(float), "softmax": rng.integers(0, 3, n).astype(float)}
    counts = rng.poisson(1.0, n).astype(float)
    return x, values.get(name, counts if name == "poisson" else rng.uniform(-BOUND, BOUND, n))


def drift(net, x, y):
    exact = net.target.weights(x.astype(np.longdouble), y.astype(np.longdouble))
    return float(np.abs(net(x, y) - exact).max())


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_network_is_compiled_and_survives_a_file(name, tmp_path):
    net = ALGORITHMS[name].build(D, data_bound=BOUND)
    assert isinstance(net, af.Compiled)
    net.save(tmp_path / "net.safetensors")
    again = af.load(tmp_path / "net.safetensors")
    x, y = examples(name)
    assert type(again) is type(net)
    assert digest(again.network) == digest(net.network)
    assert np.array_equal(again(x, y), net(x, y))
    assert again.certificate == net.certificate
    assert again.certify(x, y) == net.certify(x, y)
    assert str(again) == str(net)
    assert (tmp_path / "net.safetensors").stat().st_size < 100_000


def test_files_hold_one_block_however_many_steps(tmp_path):
    sizes = []
    for steps in (2, 200):
        in_context.Huber(steps=steps).build(D, data_bound=1.0).save(tmp_path / "net.safetensors")
        sizes.append((tmp_path / "net.safetensors").stat().st_size)
    assert sizes[1] <= sizes[0] + 10_000  # which block comes when is listed


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name != "poisson"])
def test_the_certificate_of_the_box_covers_its_prompts(name, dtype):
    net = replace(ALGORITHMS[name], dtype=dtype).build(D, data_bound=BOUND)
    assert net.certificate.status == "proved"
    assert float(net.domain.upper) == BOUND
    for seed in range(5):
        x, y = examples(name, seed, n=1 + 20 * seed)
        corner = np.sign(x) * BOUND
        for prompt in ((x, y), (corner, y)):
            one = net.certify(*prompt)
            assert drift(net, *prompt) <= one.bound
            assert drift(net, *prompt) <= net.certificate.bound


def test_without_a_bound_of_the_data_there_is_none_and_the_reason_is_told(tmp_path):
    net = in_context.LeastSquares(learning_rate=0.1, steps=3).build(D)
    assert net.certificate is None
    assert "data_bound" in net.reason
    assert "none" in net.report()
    net.save(tmp_path / "net.safetensors")
    assert af.load(tmp_path / "net.safetensors").certificate is None
    assert af.check(tmp_path / "net.safetensors").verdict == "unprovable"
    too_large = in_context.LeastSquares(learning_rate=5.0, steps=3).build(D, data_bound=BOUND)
    assert too_large.certificate is None
    assert "step size" in too_large.reason


@pytest.mark.parametrize("name", ALGORITHMS)
def test_outputs_times_three_halves_are_seen(name):
    """The certificate reads the block: the bound grows with the error, or there is none."""
    net = ALGORITHMS[name].build(D, data_bound=BOUND)
    x, y = examples(name)
    worse = with_heads(net.network, lambda head: replace(head, output=1.5 * head.output))
    try:
        other = net.with_network(worse)
        bound = other.certify(x, y).bound
    except af.AttnforgeError:
        return
    assert drift(other, x, y) <= bound
    assert bound > 1e-3
    assert other.certificate is None or other.certificate.bound > 1e-3


@pytest.mark.parametrize("name", ["least_squares", "logistic"])
def test_one_changed_block_among_many_is_seen(name):
    net = ALGORITHMS[name].build(D, data_bound=BOUND)
    x, y = examples(name)
    length = len(net.block)
    other = with_heads(net.network, lambda head: replace(head, output=1.01 * head.output)).layers[:length]
    layers = net.network.layers
    odd = net.with_network(replace(net.network, layers=(*layers[: 5 * length], *other, *layers[6 * length :])))
    assert net.certify(x, y).bound < 1e-8 < drift(odd, x, y) <= odd.certify(x, y).bound


def test_a_sum_that_reads_another_feature_is_refused_with_the_place():
    net = ALGORITHMS["least_squares"].build(D, data_bound=BOUND)

    def disturb(head: Head) -> Head:
        key = head.key.copy()
        key[net.features.slices["plain"], 0] += 0.1
        return replace(head, key=key)

    with pytest.raises(af.CertificateError, match="plain"):
        net.with_network(with_heads(net.network, disturb))


def test_certificates_of_prompts_keep_their_numbers_in_json():
    net = ALGORITHMS["ridge"].build(D, data_bound=BOUND)
    one = net.certify(*examples("ridge"))
    assert af.Certificate.from_json(one.to_json()) == one
    assert one.contraction < 1
    assert one.bound <= one.minimiser
    assert set(one.step) == set(one.parts)
    assert sum(one.step.values()) <= one.bound
    assert "prompt" in str(one)
    assert any("40 examples" in entry for entry in one.assumptions)


def test_prompts_are_what_the_network_takes():
    net = ALGORITHMS["softmax"].build(D, data_bound=BOUND)
    x, y = examples("softmax")
    tokens = net.prompt(x, y)
    assert tokens.shape == (net.features.ahead + 2 * N, net.features.width)
    after = net.network(tokens)
    weights = after[: net.features.outputs, net.features.slices["w"]].T
    assert np.abs(weights - net(x, y)).max() <= 1e-12
    assert torch.equal(net.prompt(torch.tensor(x), torch.tensor(y)), torch.tensor(tokens))
    maps = net.attention(x, y)
    assert len(maps) == sum(isinstance(layer, Attention) for layer in net.network.layers)
    assert np.abs(maps[0][0].sum(axis=-1) - 1).max() <= 1e-12


def test_data_beyond_the_bound_are_refused():
    net = ALGORITHMS["huber"].build(D, data_bound=BOUND)
    x, y = examples("huber")
    for prompt in ((2 * x, y), (x, 2 * y + 1)):
        with pytest.raises(af.DomainError, match="data bound 2"):
            net(*prompt)


def test_arguments_by_position_follow_the_docs():
    assert in_context.LeastSquares(7, 0.1).build(2, 5, 1.0).target.examples == 5


def test_dtypes_are_names_or_torchs():
    x, y = examples("ridge")
    net = replace(ALGORITHMS["ridge"], dtype=torch.float32).build(D, data_bound=BOUND)
    assert net.dtype == "float32"
    assert net.module(torch.float64).core.dtype == torch.float64
    assert np.array_equal(net(x, y), replace(ALGORITHMS["ridge"], dtype="float32").build(D, data_bound=BOUND)(x, y))
    assert in_context.KernelRegression(dtype=torch.float32).build(D).predict(x, y, x[:2]).shape == (2,)
    assert in_context.function_prompt("x", {"x": (0, 1)}, 0.1, dtype=torch.float32)[1].dtype == "float32"


def test_autocast_and_reduced_products_do_not_change_what_runs():
    net = replace(ALGORITHMS["least_squares"], dtype="float32").build(D, data_bound=BOUND)
    x, y = examples("least_squares")
    plain, path = net(x, y), net.trajectory(x, y)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert np.array_equal(net(x, y), plain)
        assert np.array_equal(net.trajectory(x, y), path)
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        with pytest.raises(af.CertificateError, match="float32"):
            net(x, y)
    finally:
        torch.set_float32_matmul_precision(before)

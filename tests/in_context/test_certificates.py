"""Certificates of in-context networks: from the weights, for one prompt and for a data box; what is absent."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import attnforge as af
from attnforge import in_context
from tests.in_context.runs import drift
from tests.refusals import refused

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


def built(name, **changes):
    return replace(ALGORITHMS[name], **changes).build(D, data_bound=BOUND)


def saved(net, path):
    net.save(path)
    return path


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name != "poisson"])
def test_the_certificate_of_the_box_covers_its_prompts(name, dtype):
    net = built(name, dtype=dtype)
    assert net.certificate.status == "proved"
    assert float(net.domain.upper) == BOUND
    for seed in range(5):
        x, y = examples(name, seed, n=1 + 20 * seed)
        for prompt in ((x, y), (np.sign(x) * BOUND, y)):
            assert drift(net, *prompt) <= min(net.certify(*prompt).bound, net.certificate.bound)


def test_certificates_over_random_problems():
    """Measured <= certified, for the drift and for the distance to the minimiser."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        n, d = int(rng.integers(5, 60)), int(rng.integers(1, 5))
        x, y = rng.normal(size=(n, d)), rng.normal(size=n)
        rate = float(rng.uniform(0.3, 1.2) / (np.linalg.eigvalsh(x.T @ x / n)[-1] + 0.2))
        net = in_context.Ridge(alpha=0.2, steps=40, learning_rate=rate).build(d)
        certificate = net.certify(x, y)
        assert drift(net, x, y) <= certificate.bound
        solution = np.linalg.solve(x.T @ x / n + 0.2 * np.eye(d), x.T @ y / n)
        assert np.linalg.norm(net(x, y) - solution) <= certificate.minimiser


def test_too_large_steps_are_refused_by_the_certificate():
    x, y = examples("least_squares")
    rate = 2.5 / float(np.linalg.eigvalsh(x.T @ x / N)[-1])
    with refused(af.RefusalError):
        in_context.LeastSquares(learning_rate=rate).build(D).certify(x, y)


def test_without_a_bound_of_the_data_there_is_none_and_the_reason_is_told(tmp_path):
    unbounded = in_context.LeastSquares(learning_rate=0.1, steps=3).build(D), in_context.KernelRegression().build(D)
    for net in unbounded:
        path = saved(net, tmp_path / "net.safetensors")
        assert net.certificate is af.load(path).certificate is None
        assert "data_bound" in net.reason
        assert "none" in net.report()
        assert af.check(path).verdict == "unprovable"
    unprovable = (
        in_context.LeastSquares(learning_rate=5.0, steps=3).build(D, data_bound=BOUND),
        in_context.KernelRegression(1e-30, dtype="float32").build(D, data_bound=BOUND),
    )
    assert [net.certificate for net in unprovable] == [None, None]
    assert "step size" in unprovable[0].reason
    assert "float32" in unprovable[1].reason


def test_the_certificate_of_all_prompts_may_be_left_out():
    net = in_context.Ridge(steps=3, learning_rate=0.1).build(features=2, data_bound=1.0, certify=False)
    assert net.certificate is None
    assert net.reason
    assert net.certify([[1.0, 0.0], [0.0, 1.0]], [1.0, 0.5]).status == "proved"


def test_certificates_of_prompts_keep_their_numbers_in_json():
    one = built("ridge").certify(*examples("ridge"))
    assert af.Certificate.from_json(one.to_json()) == one
    assert one.contraction < 1
    assert one.bound <= one.minimiser
    assert set(one.step) == set(one.parts)
    assert sum(one.step.values()) <= one.bound
    assert "prompt" in str(one)
    assert any("40 examples" in entry for entry in one.assumptions)


def test_prompts_are_what_the_network_takes():
    net, (x, y) = built("softmax"), examples("softmax")
    tokens = net.prompt(x, y)
    assert tokens.shape == (net.features.ahead + 2 * N, net.features.width)
    weights = net.network(tokens)[: net.features.outputs, net.features.slices["w"]].T
    assert np.abs(weights - net(x, y)).max() <= 1e-12
    assert torch.equal(net.prompt(torch.tensor(x), torch.tensor(y)), torch.tensor(tokens))


@pytest.mark.parametrize("change", [(2, 1, 0), (1, 2, 1)])
def test_data_beyond_the_bound_are_refused(change):
    (x, y), (wider, larger, more) = examples("huber"), change
    with refused(af.DomainError):
        built("huber")(wider * x, larger * y + more)


SINGLE = {
    "least squares": lambda: built("least_squares", dtype="float32"),
    "kernel regression": lambda: in_context.KernelRegression(dtype="float32").build(D),
}


@pytest.mark.parametrize("name", SINGLE)
def test_autocast_changes_nothing_and_reduced_products_are_refused(name):
    net, (x, y) = SINGLE[name](), examples("least_squares")
    data = (x, y, x[:2]) if isinstance(net, in_context.KernelNetwork) else (x, y)
    plain = net(*data)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert np.array_equal(net(*data), plain)
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        with refused(af.CertificateError):
            net(*data)
    finally:
        torch.set_float32_matmul_precision(before)

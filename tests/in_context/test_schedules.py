"""Step sizes that differ, first weights, and Chebyshev steps."""

import numpy as np
import pytest
import torch

import attnforge as af
from attnforge.in_context import ElasticNet, Huber, Lasso, LeastSquares, Logistic, Poisson, Ridge, SoftmaxRegression
from attnforge.network import moved
from tests.in_context.runs import drift, is_believed
from tests.refusals import refused

D, N, SPECTRUM = 3, 40, (0.02, 1.0)
CHEBYSHEV = {"schedule": "chebyshev", "spectrum": SPECTRUM}


def conditioned(spectrum=SPECTRUM, seed=0, alpha=0.0):
    """Examples whose Hessian X^T X / n + alpha has eigenvalues from m to L, and numbers with some noise."""
    rng = np.random.default_rng(seed)
    q, v = np.linalg.qr(rng.normal(size=(N, D)))[0], np.linalg.qr(rng.normal(size=(D, D)))[0]
    x = q * np.sqrt(N * (np.geomspace(*spectrum, D) - alpha)) @ v.T
    return x, x @ rng.normal(size=D) + 0.1 * rng.normal(size=N)


def verdict(net, folder):
    """Of the checker, about the net's file."""
    net.save(folder / "net.safetensors")
    return af.check(folder / "net.safetensors").verdict


def test_step_sizes_one_a_step():
    x, y = conditioned((0.5, 1.0))
    rates = [0.9, 0.3, 0.6, 0.3]
    net = LeastSquares(steps=4, learning_rate=rates).build(D)
    w = np.zeros(D)
    for i, rate in enumerate(rates):
        w = w - rate * x.T @ (x @ w - y) / N
        assert np.abs(net.trajectory(x, y)[i] - w).max() <= 1e-9
    assert drift(net, x, y) <= net.certify(x, y).bound <= 1e-9
    assert net.network.layers[1] is net.network.layers[3]  # as large a step, the same block


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("made", [LeastSquares, Ridge, Lasso, ElasticNet, Huber, Logistic, Poisson])
def test_sizes_that_differ_and_first_weights_are_certified(made, dtype, tmp_path):
    rng = np.random.default_rng(1)
    x, first = rng.uniform(-1, 1, (N, D)), np.array([0.3, -0.2, 0.1])
    y = (rng.random(N) < 0.5).astype(float)
    net = made(steps=6, learning_rate=(0.1, 0.4, 0.2, 0.4, 0.3, 0.1), initial=first, dtype=dtype).build(D, N, 1.0)
    measured = drift(net, x, y)
    if made is not Poisson or dtype == "float64":
        assert measured <= net.certify(x, y).bound < (1e-6 if dtype == "float64" else 1e-2)
    if made is not Poisson:
        assert measured <= net.certificate.bound
        assert verdict(net, tmp_path) == "confirmed"
    assert np.abs(net.trajectory(x, y)[0] - net.target.at(0).step(x, y[:, None], first[:, None])[:, 0]).max() < 1e-4
    module = net.module()(torch.tensor(x), torch.tensor(y))
    assert np.abs(module.double().numpy() - net(x, y)).max() < 1e-6


def test_a_changed_step_size_in_one_block_is_seen():
    data = conditioned((0.5, 1.0))
    net = LeastSquares(steps=3, learning_rate=(0.9, 0.5, 0.7)).build(D)
    network = net.network
    for head in range(len(network.layers[1].heads)):
        network = moved(network, ("layers", 1, "heads", head, "output"), lambda output: 1.01 * output)
    assert is_believed(net, network, *data)
    assert drift(net.with_network(network), *data) > 1e-4


def test_chebyshev_nodes_and_their_order():
    """The product of all steps is least over the spectrum, and no product of some of them is large on the way."""
    m, most, steps = 0.02, 1.0, 17
    rates = np.array(LeastSquares(steps=steps, schedule="chebyshev", spectrum=(m, most)).build(D).target.rates)
    nodes = (most + m) / 2 + (most - m) / 2 * np.cos((2 * np.arange(1, steps + 1) - 1) * np.pi / (2 * steps))
    assert np.abs(np.sort(1 / rates)[::-1] - nodes).max() < 1e-15
    products = np.cumprod(1 - rates[:, None] * np.linspace(m, most, 2001), axis=0)
    sigma = 1 + 2 / (np.sqrt(most / m) - 1)
    assert abs(np.abs(products[-1]).max() / (2 / (sigma**steps + sigma**-steps)) - 1) < 1e-3
    assert np.abs(products).max() < 50  # in Leja order
    assert np.abs(np.cumprod(1 - np.sort(rates)[::-1, None] * np.linspace(m, most, 2001), axis=0)).max() > 1e4


def test_chebyshev_steps_reach_the_optimum_in_few_blocks():
    x, y = conditioned()
    net = LeastSquares(steps=75, **CHEBYSHEV).build(D)
    best = np.linalg.lstsq(x, y, rcond=None)[0]
    certificate = net.certify(x, y)
    assert np.linalg.norm(net(x, y) - best) <= certificate.minimiser <= 1e-8
    assert drift(net, x, y) <= certificate.bound <= 1e-10
    assert np.linalg.norm(LeastSquares(steps=75, learning_rate=1.0).build(D)(x, y) - best) > 1e-3


def test_with_an_intercept_the_spectrum_is_of_x_and_ones():
    x, y = conditioned((0.3, 1.0))
    ones = np.c_[x, np.ones(N)]
    low, *_, high = np.linalg.eigvalsh(ones.T @ ones / N)
    net = LeastSquares(steps=40, schedule="chebyshev", spectrum=(low, high), fit_intercept=True).build(D)
    assert np.abs(net(x, y) - np.linalg.lstsq(ones, y, rcond=None)[0]).max() < 1e-6
    assert drift(net, x, y) <= net.certify(x, y).bound


def test_the_box_certificate_is_conditional_on_the_spectrum(tmp_path):
    net = LeastSquares(steps=20, schedule="chebyshev", spectrum=(0.1, 1.0)).build(D, N, data_bound=2.0)
    assert net.certificate.status == "conditional"
    assert any("eigenvalues of X^T X / n" in each for each in net.certificate.assumptions)
    assert verdict(net, tmp_path) == "undecided"
    prompts = [conditioned((0.1, 1.0), seed) for seed in range(5)]
    within = [(x, np.clip(y, -2, 2)) for x, y in prompts if np.abs(x).max() <= 2]
    assert within
    for data in within:
        assert drift(net, *data) <= net.certify(*data).bound <= net.certificate.bound


@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_data_outside_the_spectrum_are_refused(factor):
    net = LeastSquares(steps=10, **CHEBYSHEV).build(D)
    data = conditioned((factor * SPECTRUM[0], factor * SPECTRUM[1]))
    for call in (net, net.certify):
        with refused(af.DomainError):
            call(*data)


@pytest.mark.parametrize("made", [Huber, Logistic, SoftmaxRegression, Poisson, Lasso, ElasticNet])
def test_hessians_that_change_and_proximal_maps_are_refused(made):
    with refused(af.RefusalError):
        made(**CHEBYSHEV).build(D)


WRONG = {
    "a schedule alone": {"schedule": "chebyshev"},
    "a spectrum alone": {"spectrum": SPECTRUM},
    "another schedule": {"schedule": "linear", "spectrum": SPECTRUM},
    "a step size, too": {**CHEBYSHEV, "learning_rate": 0.1},
    "by interpolation": {**CHEBYSHEV, "route": "interpolation"},
    "ends the wrong way": {"schedule": "chebyshev", "spectrum": (1.0, 0.5)},
    "an end at zero": {"schedule": "chebyshev", "spectrum": (0.0, 0.5)},
    "one end": {"schedule": "chebyshev", "spectrum": 3.0},
    "too few sizes": {"learning_rate": (0.1, 0.2)},
    "a negative size": {"learning_rate": (0.1,) * 9 + (-0.2,)},
    "no sizes": {"learning_rate": ()},
    "too few first weights": {"learning_rate": 0.1, "initial": [1.0]},
    "a first weight that is none": {"learning_rate": 0.1, "initial": [1.0, np.nan, 0.0]},
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_arguments(what):
    with refused():
        LeastSquares(**{"steps": 10} | WRONG[what]).build(D)


def test_only_steps_of_one_size_can_be_more():
    with refused(af.RefusalError):
        LeastSquares(steps=2, learning_rate=(0.1, 0.2)).build(D).with_steps(3)


@pytest.mark.parametrize("name", ["query", "key", "value", "output"])
@pytest.mark.parametrize("step", [0, 7, 14])
def test_every_array_of_a_chebyshev_block_counts(name, step):
    data, rng = conditioned((0.1, 1.0), alpha=0.05), np.random.default_rng(step)
    net = Ridge(steps=15, schedule="chebyshev", spectrum=(0.1, 1.0), alpha=0.05).build(D)
    head = int(rng.integers(len(net.network.layers[step].heads)))
    for size in (1e-9, 1e-3):

        def disturb(array, size=size):
            return array * (1 + size * rng.choice([-1.0, 1.0], size=array.shape)) + size * (not array.any())

        is_believed(net, moved(net.network, ("layers", step, "heads", head, name), disturb), *data)


def test_steps_for_examples_come_from_their_eigenvalues():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 3)) * [1.0, 2.0, 3.0]
    weights = rng.uniform(0.1, 1.0, 40)
    largest = np.linalg.eigvalsh(x.T @ x / 40)[-1]
    ridge = Ridge(steps=40, alpha=0.5, fit_intercept=True).for_examples(x, weights)
    rows = np.sqrt(weights)[:, None] * np.column_stack([x, np.ones(40)])
    eigenvalues = np.linalg.eigvalsh(rows.T @ rows / 40 + np.diag([0.5, 0.5, 0.5, 0.0]))
    assert ridge.spectrum == pytest.approx((eigenvalues[0], eigenvalues[-1]))
    few = Ridge(steps=3, alpha=1e-3).for_examples(x)
    assert few.spectrum is None
    assert few.learning_rate == pytest.approx(1 / (largest + 1e-3))
    assert Logistic().for_examples(x).learning_rate == pytest.approx(4 / largest)
    assert Ridge(learning_rate=0.1).for_examples(x).learning_rate == 0.1
    assert LeastSquares().for_examples(np.zeros((4, 2))).learning_rate == 1.0
    with refused(af.RefusalError):
        Poisson().for_examples(x)

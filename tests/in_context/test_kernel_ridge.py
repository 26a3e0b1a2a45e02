"""Kernel ridge regression in context: one head a step, against the closed form."""

import numpy as np
import pytest
import torch

import attnforge as af
from attnforge.in_context import KernelRidge
from attnforge.network import moved
from tests.in_context.runs import drift, is_believed, nudged
from tests.refusals import refused

N, H, ALPHA = 30, 0.7, 0.5


def examples(n=N, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, (n, 2))
    return x, np.sin(2 * x[:, 0]) * x[:, 1] + 0.1 * rng.normal(size=n)


@pytest.fixture(scope="module")
def net():
    return KernelRidge(alpha=ALPHA, bandwidth=H, steps=110).build(2, N)


def gram(x):
    return np.exp(-((x[:, None] - x) ** 2).sum(-1) / (2 * H * H))


def closed_form(x, y):
    return np.linalg.solve(gram(x) + ALPHA * np.eye(len(x)), y)


def test_coefficients_are_the_closed_form(net):
    x, y = examples()
    assert np.abs(net(x, y) - closed_form(x, y)).max() <= 1e-11
    certificate = net.certify(x, y)
    assert drift(net, x, y) <= certificate.bound <= 1e-11
    assert np.linalg.norm(net(x, y) - closed_form(x, y)) <= certificate.minimiser <= 1e-9


def test_trajectories_batches_and_torch(net):
    x, y = (np.stack(each) for each in zip(examples(), examples(seed=1), strict=True))
    path = net.trajectory(x, y)
    assert path.shape == (2, 110, N)
    assert np.abs(path[:, -1] - net(x, y)).max() == 0
    assert np.abs(path[:, 0] - net.target.rates[0] * y).max() <= 1e-13
    tensors = torch.tensor(x), torch.tensor(y)
    assert np.abs(net(*tensors).numpy() - net(x, y)).max() <= 1e-14
    assert net.predict(*tensors, tensors[0][:, :4]).shape == (2, 4)
    assert net.attention(x[0], y[0])[0][0].shape == (N, N + 1)


def test_far_away_data_lose_nothing(net):
    x, y = examples()
    assert np.abs(net(np.round(x * 1024) / 1024 + 4096, y) - net(np.round(x * 1024) / 1024, y)).max() <= 1e-13


def test_a_spectrum_of_ones_own():
    x, y = examples()
    most = ALPHA + np.linalg.eigvalsh(gram(x))[-1]
    net = KernelRidge(alpha=ALPHA, bandwidth=H, steps=60, spectrum=(ALPHA, 1.01 * most)).build(2)
    assert np.abs(net(x, y) - closed_form(x, y)).max() <= 1e-10
    assert drift(net, x, y) <= net.certify(x, y).bound
    for call in (net, net.certify):
        with refused(af.DomainError):
            call(np.zeros((N, 2)), y)  # all alike: an eigenvalue n


def test_the_sink_must_be_deep_enough():
    net = KernelRidge(alpha=ALPHA, bandwidth=H, steps=2, spectrum=(ALPHA, ALPHA + N)).build(2)
    way = ("layers", 0, "heads", 0, "query")
    shallow = moved(net.network, way, lambda query: np.where(query > 10, 3.0, query))
    assert (shallow.heads[0].query != net.network.heads[0].query).any()
    with refused(af.RefusalError):
        net.with_network(shallow).certify(*examples())


WRONG = {
    "any number of examples": ({}, {}),
    "no penalty": ({"alpha": 0.0}, {"examples": 3}),
    "a negative bandwidth": ({"bandwidth": -1.0}, {"examples": 3}),
    "a half type": ({"dtype": "bfloat16"}, {"examples": 3}),
    "no steps": ({"steps": 0}, {"examples": 3}),
    "ends the wrong way": ({"spectrum": (2.0, 1.0)}, {}),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_arguments(what):
    arguments, build = WRONG[what]
    with refused():
        KernelRidge(**arguments).build(2, **build)


def test_wrong_examples(net):
    x, y = examples()
    for prompt in ((x[:5], y[:5]), (x, y[:5]), (x[:, :1], y), (x * np.nan, y), (x * 1e200, y)):
        with refused(af.DomainError):
            net(*prompt)


@pytest.mark.parametrize("size", [1e-12, 1e-6, 0.3])
@pytest.mark.parametrize("name", ["query", "key", "value", "output", "memory_keys", "memory_values"])
def test_every_array_of_the_head_counts(name, size):
    data, rng = examples(10), np.random.default_rng(0)
    net = KernelRidge(alpha=1.0, bandwidth=H, steps=8).build(2, 10)
    places = np.arange(getattr(net.network.heads[0], name).size)
    for place in places if len(places) < 6 else rng.choice(places, 6, replace=False):
        for layer in (0, 14):
            way = ("layers", layer, "heads", 0, name)
            is_believed(net, moved(net.network, way, lambda each, place=place: nudged(each, place, size)), *data)


@pytest.mark.parametrize("size", [1e-12, 1e-3])
def test_every_entry_of_the_linear_map_counts(size):
    data, net = examples(10), KernelRidge(alpha=1.0, bandwidth=H, steps=8).build(2, 10)
    way = ("layers", 7, "terms", 0, "map")
    for place in range(net.target.width**2):
        is_believed(net, moved(net.network, way, lambda each, place=place: nudged(each, place, size)), *data)

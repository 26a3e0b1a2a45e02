"""Kernel ridge regression in context: one head a step, against the closed form and scikit-learn."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import attnforge as af
from attnforge.in_context import KernelRidge
from attnforge.network import Linear, Term
from attnforge.targets import KernelSystem

N, H, ALPHA = 30, 0.7, 0.5


def examples(n=N, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, (n, 2))
    return x, np.sin(2 * x[:, 0]) * x[:, 1] + 0.1 * rng.normal(size=n)


def drift(net, x, y):
    """How far the run is from the exact iteration, in extended precision."""
    return float(np.abs(net(x, y) - net.target.coefficients(x.astype(np.longdouble), y.astype(np.longdouble))).max())


@pytest.fixture(scope="module")
def net():
    return KernelRidge(alpha=ALPHA, bandwidth=H, steps=110).build(2, N)


def closed_form(x, y):
    return np.linalg.solve(np.exp(-((x[:, None] - x) ** 2).sum(-1) / (2 * H * H)) + ALPHA * np.eye(len(x)), y)


def test_coefficients_are_the_closed_form(net):
    x, y = examples()
    assert np.abs(net(x, y) - closed_form(x, y)).max() <= 1e-11
    certificate = net.certify(x, y)
    assert drift(net, x, y) <= certificate.bound <= 1e-11
    assert np.linalg.norm(net(x, y) - closed_form(x, y)) <= certificate.minimiser <= 1e-9


def test_it_is_scikit_learns(net):
    judge = pytest.importorskip("sklearn.kernel_ridge").KernelRidge(alpha=ALPHA, kernel="rbf", gamma=1 / (2 * H * H))
    (x, y), (queries, _) = examples(), examples(7, seed=1)
    judge.fit(x, y)
    assert np.abs(net(x, y) - judge.dual_coef_).max() <= 1e-11
    assert np.abs(net.predict(x, y, queries) - judge.predict(queries)).max() <= 1e-10


def test_one_head_a_step_and_linear_maps_alone(net):
    assert len(net.network.heads) == 110
    assert len({id(head) for head in net.network.heads}) == 1
    assert all(isinstance(layer, Linear) for layer in net.network.layers[1::2])


def test_trajectories_batches_and_torch(net):
    x, y = np.stack([examples()[0], examples(seed=1)[0]]), np.stack([examples()[1], examples(seed=1)[1]])
    path = net.trajectory(x, y)
    assert path.shape == (2, 110, N)
    assert np.abs(path[:, -1] - net(x, y)).max() == 0
    first = net.target.rates[0] * y
    assert np.abs(path[:, 0] - first).max() <= 1e-13
    tensors = torch.tensor(x), torch.tensor(y)
    assert np.abs(net(*tensors).numpy() - net(x, y)).max() <= 1e-14
    assert net.predict(*tensors, tensors[0][:, :4]).shape == (2, 4)
    assert net.attention(x[0], y[0])[0][0].shape == (N, N + 1)


def test_far_away_data_lose_nothing(net):
    x, y = examples()
    assert np.abs(net(np.round(x * 1024) / 1024 + 4096, y) - net(np.round(x * 1024) / 1024, y)).max() <= 1e-13


def test_it_survives_a_file(net, tmp_path):
    x, y = examples()
    net.save(tmp_path / "net.safetensors")
    again = af.load(tmp_path / "net.safetensors")
    assert np.array_equal(again(x, y), net(x, y))
    assert again.certify(x, y).bound == net.certify(x, y).bound
    assert again.certificate is None
    assert "certifies one prompt" in again.reason
    assert af.check(tmp_path / "net.safetensors").verdict == "unprovable"


def test_float32_is_certified():
    x, y = examples(12)
    net = KernelRidge(alpha=2.0, bandwidth=H, steps=15, dtype="float32").build(2, 12)
    assert drift(net, x, y) <= net.certify(x, y).bound <= 1e-3


def test_a_spectrum_of_ones_own():
    x, y = examples()
    gram = np.exp(-((x[:, None] - x) ** 2).sum(-1) / (2 * H * H))
    most = ALPHA + np.linalg.eigvalsh(gram)[-1]
    net = KernelRidge(alpha=ALPHA, bandwidth=H, steps=60, spectrum=(ALPHA, 1.01 * most)).build(2)
    assert np.abs(net(x, y) - closed_form(x, y)).max() <= 1e-10
    assert drift(net, x, y) <= net.certify(x, y).bound
    for call in (net, net.certify):
        with pytest.raises(af.DomainError, match="must lie in the spectrum"):
            call(np.zeros((N, 2)), y)  # all alike: an eigenvalue n


def test_the_sink_must_be_deep_enough():
    x, y = examples()
    net = KernelRidge(alpha=ALPHA, bandwidth=H, steps=2, spectrum=(ALPHA, ALPHA + N)).build(2)
    shallow = net.with_network(_changed(net.network, 0, "query", lambda query: np.where(query > 10, 3.0, query)))
    with pytest.raises(af.RefusalError, match="outbid all examples"):
        shallow.certify(x, y)


@pytest.mark.parametrize(
    ("arguments", "build", "text"),
    [
        ({}, {}, "number of examples"),
        ({"alpha": 0.0}, {"examples": 3}, "alpha"),
        ({"bandwidth": -1.0}, {"examples": 3}, "bandwidth"),
        ({"dtype": "bfloat16"}, {"examples": 3}, "float64 or float32"),
        ({"steps": 0}, {"examples": 3}, "steps"),
        ({"spectrum": (2.0, 1.0)}, {}, "0 < m < L"),
    ],
)
def test_wrong_arguments(arguments, build, text):
    with pytest.raises(af.AttnforgeError, match=text):
        KernelRidge(**arguments).build(2, **build)


def test_wrong_examples(net):
    x, y = examples()
    for prompt in ((x[:5], y[:5]), (x, y[:5]), (x[:, :1], y), (x * np.nan, y)):
        with pytest.raises(af.DomainError):
            net(*prompt)


def test_scores_that_overflow_are_refused():
    net = KernelRidge(steps=2).build(1, 2)
    for call in (net, net.certify):
        with pytest.raises(af.AttnforgeError, match=r"overflow|fit float64|finite"):
            call([[0.0], [1e200]], [1.0, 2.0])


@pytest.mark.parametrize("wrong", [{"features": True}, {"examples": 0}, {"alpha": "-0x1p0"}, {"low": "0x0p0"}])
def test_a_stored_target_is_checked(net, wrong):
    data, arrays = net.target.to_data()
    with pytest.raises(af.AttnforgeError):
        KernelSystem.from_data(data | wrong, arrays)


ARRAYS = ("query", "key", "value", "output", "memory_keys", "memory_values")


@pytest.mark.parametrize("size", [1e-12, 1e-6, 0.3])
@pytest.mark.parametrize("name", ARRAYS)
def test_every_array_of_the_head_counts(name, size):
    x, y = examples(10)
    net, rng = KernelRidge(alpha=1.0, bandwidth=H, steps=8).build(2, 10), np.random.default_rng(0)
    places = range(getattr(net.network.heads[0], name).size)
    for place in places if len(places) < 6 else rng.choice(places, 6, replace=False):
        for step in (0, 7):

            def disturb(array, place=place):
                array.flat[place] = array.flat[place] * (1 + size) + (size if not array.flat[place] else 0.0)
                return array

            _believed_only_if_true(net, _changed(net.network, 2 * step, name, disturb), x, y)


@pytest.mark.parametrize("size", [1e-12, 1e-3])
def test_every_entry_of_the_linear_map_counts(size):
    x, y = examples(10)
    net = KernelRidge(alpha=1.0, bandwidth=H, steps=8).build(2, 10)
    for place in range(net.target.width**2):
        layers = list(net.network.layers)
        made = layers[7].terms[0].map.copy()
        made.flat[place] = made.flat[place] * (1 + size) + (size if not made.flat[place] else 0.0)
        layers[7] = Linear((Term(made),))
        _believed_only_if_true(net, replace(net.network, layers=tuple(layers)), x, y)


def _believed_only_if_true(net, network, x, y):
    changed = net.with_network(network)
    try:
        bound = changed.certify(x, y).bound
    except af.AttnforgeError:
        return  # refused: not believed
    assert drift(changed, x, y) <= bound


def _changed(network, place, name, change):
    layer = network.layers[place]
    head = replace(layer.heads[0], **{name: change(np.array(getattr(layer.heads[0], name)))})
    layers = [*network.layers]
    layers[place] = replace(layer, heads=(head,))
    return replace(network, layers=tuple(layers))

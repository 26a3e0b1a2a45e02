"""Step sizes that differ, first weights, and Chebyshev steps."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import attnforge as af
from attnforge.certification.certificate import target_digest
from attnforge.certification.checker.check import check
from attnforge.in_context import ElasticNet, Huber, Lasso, LeastSquares, Logistic, Poisson, Ridge, SoftmaxRegression
from attnforge.network import Attention, Head, digest
from attnforge.targets import Iteration
from attnforge.targets.in_context.schedule import chebyshev, transients

D, N, SPECTRUM = 3, 40, (0.02, 1.0)


def conditioned(spectrum=SPECTRUM, seed=0, n=N, d=D, alpha=0.0):
    """Examples whose Hessian X^T X / n + alpha has eigenvalues from m to L, and numbers with some noise."""
    rng = np.random.default_rng(seed)
    q, v = np.linalg.qr(rng.normal(size=(n, d)))[0], np.linalg.qr(rng.normal(size=(d, d)))[0]
    x = q * np.sqrt(n * (np.geomspace(*spectrum, d) - alpha)) @ v.T
    return x, x @ rng.normal(size=d) + 0.1 * rng.normal(size=n)


def drift(net, x, y):
    """How far the run is from the exact iteration, in extended precision."""
    return float(np.abs(net(x, y) - net.target.weights(x.astype(np.longdouble), y.astype(np.longdouble))).max())


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


def test_one_size_by_either_spelling_is_the_same_network():
    for made in (LeastSquares, Lasso, Logistic):
        one = made(steps=3, learning_rate=0.25).build(D, data_bound=1.0)
        many = made(steps=3, learning_rate=(0.25, 0.25, 0.25)).build(D, data_bound=1.0)
        assert digest(one.network) == digest(many.network)
        assert one.certificate.bound == many.certificate.bound


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("made", [LeastSquares, Ridge, Lasso, ElasticNet, Huber, Logistic, Poisson])
def test_sizes_that_differ_and_first_weights_are_certified(made, dtype):
    rng = np.random.default_rng(1)
    x, first = rng.uniform(-1, 1, (N, D)), np.array([0.3, -0.2, 0.1])
    y = (rng.random(N) < 0.5).astype(float)
    net = made(steps=6, learning_rate=(0.1, 0.4, 0.2, 0.4, 0.3, 0.1), initial=first, dtype=dtype).build(D, N, 1.0)
    measured = drift(net, x, y)
    if made is not Poisson or dtype == "float64":
        assert measured <= net.certify(x, y).bound < (1e-6 if dtype == "float64" else 1e-2)
    if made is not Poisson:
        assert measured <= net.certificate.bound
        assert check(net.network, net.target, net.certificate, dtype).verdict == "confirmed"
    assert np.abs(net.trajectory(x, y)[0] - net.target.at(0).step(x, y[:, None], first[:, None])[:, 0]).max() < 1e-4
    module = net.module()(torch.tensor(x), torch.tensor(y))
    assert np.abs(module.double().numpy() - net(x, y)).max() < 1e-6


def test_first_weights_of_classes_and_intercepts():
    x, first = np.random.default_rng(0).uniform(-1, 1, (N, D)), np.arange(12.0).reshape(4, 3) / 10
    y = np.arange(N) % 3.0
    net = SoftmaxRegression(classes=3, steps=2, learning_rate=0.1, fit_intercept=True, initial=first).build(D)
    assert np.abs(net(x, y) - first).max() < 0.2
    assert drift(net, x, y) <= net.certify(x, y).bound


def test_a_changed_step_size_in_one_block_is_seen():
    x, y = conditioned((0.5, 1.0))
    net = LeastSquares(steps=3, learning_rate=(0.9, 0.5, 0.7)).build(D)
    layers = list(net.network.layers)
    layers[1] = replace(layers[1], heads=tuple(replace(h, output=1.01 * h.output) for h in layers[1].heads))
    changed = net.with_network(replace(net.network, layers=tuple(layers)))
    assert changed.certify(x, y).bound >= drift(changed, x, y) > 1e-4


def test_schedules_survive_a_file(tmp_path):
    x, y = conditioned()
    net = LeastSquares(steps=12, schedule="chebyshev", spectrum=SPECTRUM, initial=[1.0, 2.0, 3.0]).build(D)
    net.save(tmp_path / "net.safetensors")
    again = af.load(tmp_path / "net.safetensors")
    assert np.array_equal(again(x, y), net(x, y))
    assert again.target.rates == net.target.rates
    assert again.target.spectrum == SPECTRUM
    assert again.certify(x, y).bound == net.certify(x, y).bound


@pytest.mark.parametrize(
    "wrong",
    [
        {"rates": np.array([0.1])},
        {"rates": np.array([0.2, np.nan])},
        {"rates": np.array([0.3, 0.1])},
        {"initial": np.ones(D)},
    ],
)
def test_stored_step_sizes_are_checked(wrong):
    data, arrays = LeastSquares(steps=2, learning_rate=(0.2, 0.1)).build(D).target.to_data()
    assert Iteration.from_data(data, arrays).rates == (0.2, 0.1)
    with pytest.raises(af.TargetError):
        Iteration.from_data(data, arrays | wrong)


def test_digests_tell_step_sizes_spectra_and_first_weights_apart():
    made = [
        LeastSquares(steps=2, learning_rate=(0.2, 0.1)),
        LeastSquares(steps=2, learning_rate=(0.2, 0.3)),
        LeastSquares(steps=2, learning_rate=(0.2, 0.1), initial=np.ones(D)),
        LeastSquares(steps=2, schedule="chebyshev", spectrum=(0.1, 1.0)),
        LeastSquares(steps=2, schedule="chebyshev", spectrum=(0.1, 1.1)),
    ]
    assert len({target_digest(each.build(D).target) for each in made}) == len(made)


def test_chebyshev_nodes_and_their_order():
    m, most, steps = 0.02, 1.0, 17
    rates = np.array(chebyshev(steps, (m, most)))
    nodes = (most + m) / 2 + (most - m) / 2 * np.cos((2 * np.arange(1, steps + 1) - 1) * np.pi / (2 * steps))
    assert np.abs(np.sort(1 / rates)[::-1] - nodes).max() < 1e-15
    points = np.linspace(m, most, 2001)
    least = 2 / ((1 + 2 / (np.sqrt(most / m) - 1)) ** steps + (1 + 2 / (np.sqrt(most / m) - 1)) ** -steps)
    reached = np.abs(np.prod(1 - rates[:, None] * points, axis=0)).max()
    assert abs(reached / least - 1) < 1e-3
    assert transients(rates, (m, most)).max() < 50  # in Leja order
    assert transients(sorted(rates), (m, most)).max() < transients(sorted(rates)[::-1], (m, most)).max() > 1e4


def test_chebyshev_steps_reach_the_optimum_in_few_blocks():
    x, y = conditioned()
    net = LeastSquares(steps=75, schedule="chebyshev", spectrum=SPECTRUM).build(D)
    best = np.linalg.lstsq(x, y, rcond=None)[0]
    certificate = net.certify(x, y)
    assert np.linalg.norm(net(x, y) - best) <= certificate.minimiser <= 1e-8
    assert drift(net, x, y) <= certificate.bound <= 1e-10
    plain = LeastSquares(steps=75, learning_rate=1.0).build(D)
    assert np.linalg.norm(plain(x, y) - best) > 1e-3


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_ridge_by_chebyshev_steps(dtype):
    alpha, spectrum = 0.1, (0.3, 1.0)
    x, y = conditioned(spectrum, alpha=alpha)
    net = Ridge(steps=25, schedule="chebyshev", spectrum=spectrum, alpha=alpha, dtype=dtype).build(D)
    best = np.linalg.solve(x.T @ x / N + alpha * np.eye(D), x.T @ y / N)
    assert np.abs(net(x, y) - best).max() < (1e-7 if dtype == "float64" else 1e-4)
    assert drift(net, x, y) <= net.certify(x, y).bound


def test_with_an_intercept_the_spectrum_is_of_x_and_ones():
    x, y = conditioned((0.3, 1.0))
    ones = np.c_[x, np.ones(N)]
    low, *_, high = np.linalg.eigvalsh(ones.T @ ones / N)
    net = LeastSquares(steps=40, schedule="chebyshev", spectrum=(low, high), fit_intercept=True).build(D)
    assert np.abs(net(x, y) - np.linalg.lstsq(ones, y, rcond=None)[0]).max() < 1e-6
    assert drift(net, x, y) <= net.certify(x, y).bound


def test_the_box_certificate_is_conditional_on_the_spectrum():
    net = LeastSquares(steps=20, schedule="chebyshev", spectrum=(0.1, 1.0)).build(D, N, data_bound=2.0)
    assert net.certificate.status == "conditional"
    assert any("eigenvalues of X^T X / n" in each for each in net.certificate.assumptions)
    assert check(net.network, net.target, net.certificate, "float64").verdict == "undecided"
    for seed in range(5):
        x, y = conditioned((0.1, 1.0), seed)
        y = np.clip(y, -2, 2)
        if np.abs(x).max() <= 2:
            assert drift(net, x, y) <= net.certify(x, y).bound <= net.certificate.bound


def test_data_outside_the_spectrum_are_refused():
    net = LeastSquares(steps=10, schedule="chebyshev", spectrum=SPECTRUM).build(D)
    for factor in (0.9, 1.1):
        x, y = conditioned((factor * SPECTRUM[0], factor * SPECTRUM[1]))
        for call in (net, net.certify):
            with pytest.raises(af.DomainError, match="eigenvalues of X\\^T X / n must lie in the spectrum"):
                call(x, y)


@pytest.mark.parametrize("made", [Huber, Logistic, SoftmaxRegression, Poisson])
def test_losses_whose_hessian_changes_are_refused(made):
    with pytest.raises(af.RefusalError, match="Hessian changes"):
        made(schedule="chebyshev", spectrum=SPECTRUM).build(D)


@pytest.mark.parametrize("made", [Lasso, ElasticNet])
def test_proximal_maps_are_refused(made):
    with pytest.raises(af.RefusalError, match="proximal map, which does not commute"):
        made(schedule="chebyshev", spectrum=SPECTRUM).build(D)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"schedule": "chebyshev"}, "belong together"),
        ({"spectrum": SPECTRUM}, "belong together"),
        ({"schedule": "linear", "spectrum": SPECTRUM}, "belong together"),
        ({"schedule": "chebyshev", "spectrum": SPECTRUM, "learning_rate": 0.1}, "sets the step sizes"),
        ({"schedule": "chebyshev", "spectrum": SPECTRUM, "route": "interpolation"}, "small-sharpness route"),
        ({"schedule": "chebyshev", "spectrum": (1.0, 0.5)}, "0 < m < L"),
        ({"schedule": "chebyshev", "spectrum": (0.0, 0.5)}, "0 < m < L"),
        ({"schedule": "chebyshev", "spectrum": 3.0}, "pair"),
        ({"learning_rate": (0.1, 0.2)}, "one step size a step"),
        ({"learning_rate": (0.1,) * 9 + (-0.2,)}, "positive"),
        ({"learning_rate": ()}, "one step size a step"),
        ({"learning_rate": 0.1, "initial": [1.0]}, "finite numbers"),
        ({"learning_rate": 0.1, "initial": [1.0, np.nan, 0.0]}, "finite numbers"),
    ],
)
def test_wrong_arguments(arguments, text):
    with pytest.raises(af.AttnforgeError, match=text):
        LeastSquares(**{"steps": 10} | arguments).build(D)


def test_only_steps_of_one_size_can_be_more():
    with pytest.raises(af.RefusalError, match="one size"):
        LeastSquares(steps=2, learning_rate=(0.1, 0.2)).build(D).with_steps(3)


ARRAYS = ("query", "key", "value", "output")


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("step", [0, 7, 14])
def test_every_array_of_a_chebyshev_block_counts(name, step):
    x, y = conditioned((0.1, 1.0))
    net = Ridge(steps=15, schedule="chebyshev", spectrum=(0.1, 1.0), alpha=0.05).build(D)
    x, y = conditioned((0.1, 1.0), alpha=0.05)
    rng = np.random.default_rng(step)
    for size in (1e-9, 1e-3):
        changed = net.with_network(_disturbed(net.network, step, name, size, rng))
        try:
            bound = changed.certify(x, y).bound
        except af.AttnforgeError:
            continue  # refused: not believed
        assert drift(changed, x, y) <= bound


def _disturbed(network, step, name, size, rng):
    layer = network.layers[step]
    assert isinstance(layer, Attention)
    heads = list(layer.heads)
    which = int(rng.integers(len(heads)))
    array = np.array(getattr(heads[which], name))
    places = np.flatnonzero(array) if array.any() else np.arange(array.size)
    array.flat[places] *= 1 + size * rng.choice([-1.0, 1.0])
    heads[which] = Head(
        **{field: getattr(heads[which], field) for field in heads[which].__dataclass_fields__} | {name: array}
    )
    layers = [*network.layers]
    layers[step] = replace(layer, heads=tuple(heads))
    return replace(network, layers=tuple(layers))


def test_steps_for_examples_come_from_their_eigenvalues() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 3)) * [1.0, 2.0, 3.0]
    weights = rng.uniform(0.1, 1.0, 40)
    ridge = Ridge(steps=40, alpha=0.5, fit_intercept=True).for_examples(x, weights)
    rows = np.sqrt(weights)[:, None] * np.column_stack([x, np.ones(40)])
    eigenvalues = np.linalg.eigvalsh(rows.T @ rows / 40 + np.diag([0.5, 0.5, 0.5, 0.0]))
    assert ridge.spectrum == pytest.approx((eigenvalues[0], eigenvalues[-1]))
    few = Ridge(steps=3, alpha=1e-3).for_examples(x)
    assert few.spectrum is None
    assert few.learning_rate == pytest.approx(1 / (np.linalg.eigvalsh(x.T @ x / 40)[-1] + 1e-3))
    logistic = Logistic().for_examples(x)
    assert logistic.learning_rate == pytest.approx(4 / np.linalg.eigvalsh(x.T @ x / 40)[-1])
    assert Ridge(learning_rate=0.1).for_examples(x).learning_rate == 0.1
    assert LeastSquares().for_examples(np.zeros((4, 2))).learning_rate == 1.0
    with pytest.raises(af.RefusalError, match="no largest curvature"):
        Poisson().for_examples(x)


def test_the_certificate_of_all_prompts_may_be_left_out() -> None:
    net = Ridge(steps=3, learning_rate=0.1).build(features=2, data_bound=1.0, certify=False)
    assert net.certificate is None
    assert "no certificate for all prompts was asked for" in net.reason
    assert net.certify([[1.0, 0.0], [0.0, 1.0]], [1.0, 0.5]).status == "proved"
    assert Ridge(steps=3, learning_rate=0.1).build(features=2, data_bound=1.0).certificate.bound is not None

"""Regressions in context: iterates against exact iteration, solutions against scikit-learn and scipy, and refusals."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy import optimize
from sklearn import linear_model

import attnforge as af
from attnforge import in_context
from attnforge.certification.in_context.reading import read_block
from attnforge.network import check_architecture
from attnforge.runtime import AttentionNetwork, audit

N, D = 300, 10


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(N, D)), rng.normal(size=D) / 2
    values = {
        "real": x @ w + 0.3 * rng.normal(size=N),
        "label": (rng.random(N) < 1 / (1 + np.exp(-x @ w))).astype(float),
        "class": rng.integers(0, 4, N).astype(float),
        "count": rng.poisson(np.exp(x @ w / 2)).astype(float),
    }
    return x, values, 1 / float(np.linalg.eigvalsh(x.T @ x / N)[-1])


CASES = {
    "least_squares": (in_context.LeastSquares(), "real", 1.0),
    "ridge": (in_context.Ridge(alpha=0.1), "real", 0.9),
    "lasso": (in_context.Lasso(alpha=0.1), "real", 1.0),
    "elastic_net": (in_context.ElasticNet(alpha=0.1), "real", 0.9),
    "huber": (in_context.Huber(delta=0.5), "real", 1.0),
    "logistic": (in_context.Logistic(), "label", 4.0),
    "softmax": (in_context.SoftmaxRegression(classes=4), "class", 2.0),
    "poisson": (in_context.Poisson(), "count", 0.1),
}


def exact(net, x, y, steps):
    """The exact iterates after so many steps, (d, K)."""
    labels = net.algorithm.targets(y, net.features.outputs) + net.algorithm.label_shift
    w = np.zeros((net.features.inputs, net.features.outputs))
    for _ in range(steps):
        w = net.algorithm.step(x, labels, w)
    return w


@pytest.mark.parametrize("name", CASES)
def test_two_hundred_steps_stay_with_the_exact_iteration(data, name):
    x, values, rate = data
    algorithm, kind, factor = CASES[name]
    net = replace(algorithm, learning_rate=factor * rate).build(D)
    w = exact(net, x, values[kind], 200)
    found = net(x, values[kind]).reshape(w.shape)
    assert np.abs(found - w).max() <= 1e-9
    drift = np.abs(found - w).max()
    assert drift <= net.certify(x, values[kind]).bound <= 100 * drift


@pytest.mark.parametrize("name", ["least_squares", "logistic"])
def test_two_heads_a_step(name):
    net = replace(CASES[name][0], learning_rate=0.1, steps=3).build(D)
    assert len(net.network.heads) <= 2 * 3


@pytest.mark.parametrize("name", CASES)
def test_they_are_linear_maps_and_softmax_attention(name):
    net = replace(CASES[name][0], learning_rate=0.1, steps=2).build(3)
    check_architecture(net.network)
    tokens = torch.randn(1, 8, net.features.width, dtype=torch.float64)
    audit(AttentionNetwork(net.network, torch.float64), tokens)


def converged(algorithm, x, y, steps, rate):
    return replace(algorithm, steps=steps, learning_rate=rate).build(x.shape[1])(x, y)


def test_ridge_is_scikit_learns(data):
    x, values, rate = data
    found = converged(in_context.Ridge(alpha=0.1), x, values["real"], 400, 0.9 * rate)
    judge = linear_model.Ridge(alpha=0.1 * N, fit_intercept=False).fit(x, values["real"])
    assert np.abs(found - judge.coef_).max() <= 1e-6


def test_lasso_and_elastic_net_are_scikit_learns(data):
    x, values, rate = data
    for ratio in (1.0, 0.5):
        algorithm = in_context.ElasticNet(alpha=0.1, l1_ratio=ratio)
        found = converged(algorithm, x, values["real"], 400, 0.9 * rate)
        judge = linear_model.ElasticNet(alpha=0.1, l1_ratio=ratio, fit_intercept=False, tol=1e-12, max_iter=100_000)
        assert np.abs(found - judge.fit(x, values["real"]).coef_).max() <= 1e-6


def test_logistic_is_scikit_learns(data):
    x, values, rate = data
    found = converged(in_context.Logistic(alpha=0.1), x, values["label"], 600, 3 * rate)
    judge = linear_model.LogisticRegression(C=1 / (0.1 * N), fit_intercept=False, tol=1e-12, max_iter=10_000)
    assert np.abs(found - judge.fit(x, values["label"]).coef_[0]).max() <= 1e-6


def test_softmax_regression_is_scikit_learns(data):
    x, values, rate = data
    found = converged(in_context.SoftmaxRegression(alpha=0.1, classes=4), x, values["class"], 800, 1.5 * rate)
    judge = linear_model.LogisticRegression(C=1 / (0.1 * N), fit_intercept=False, tol=1e-12, max_iter=10_000)
    assert np.abs(found - judge.fit(x, values["class"]).coef_.T).max() <= 1e-6


def test_momentum_and_steps_without_a_curvature_are_refused():
    with pytest.raises(af.RefusalError, match="momentum"):
        in_context.LeastSquares(learning_rate=0.1, momentum=0.9).build(2)
    with pytest.raises(af.RefusalError, match="no largest curvature"):
        in_context.Poisson().build(2, data_bound=1.0)


def test_poisson_is_scikit_learns(data):
    x, values, rate = data
    found = converged(in_context.Poisson(alpha=0.1), x, values["count"], 3000, 0.1 * rate)
    judge = linear_model.PoissonRegressor(alpha=0.1, fit_intercept=False, tol=1e-12, max_iter=10_000)
    assert np.abs(found - judge.fit(x, values["count"]).coef_).max() <= 1e-6


def test_huber_is_scipys_minimum(data):
    x, values, rate = data
    y = values["real"]
    found = converged(in_context.Huber(delta=0.5), x, y, 600, rate)

    def loss(w):
        r = np.abs(x @ w - y)
        return np.where(r <= 0.5, r * r / 2, 0.5 * (r - 0.25)).mean()

    def gradient(w):
        return x.T @ np.clip(x @ w - y, -0.5, 0.5) / N

    judge = optimize.minimize(loss, np.zeros(D), jac=gradient, tol=1e-14)
    assert np.abs(found - judge.x).max() <= 1e-6


def test_an_intercept_is_fitted_and_not_penalised(data):
    x, values, rate = data
    y = values["real"] + 5.0
    algorithm = in_context.Ridge(alpha=0.1, fit_intercept=True)
    found = converged(algorithm, x, y, 600, 0.8 * rate)
    judge = linear_model.Ridge(alpha=0.1 * N).fit(x, y)
    assert np.abs(found - np.append(judge.coef_, judge.intercept_)).max() <= 1e-6


def test_the_same_weights_serve_batches_and_any_number_of_examples(data):
    x, values, rate = data
    net = in_context.LeastSquares(steps=20, learning_rate=rate / 2).build(D)
    y = values["real"]
    both = net(np.stack([x[:100], x[100:200]]), np.stack([y[:100], y[100:200]]))
    assert both.shape == (2, D)
    assert np.abs(both[1] - net(x[100:200], y[100:200])).max() <= 1e-12
    assert net(x[:7], y[:7]).shape == (D,)


def test_trajectories_end_at_the_answer(data):
    x, values, rate = data
    net = in_context.SoftmaxRegression(steps=5, classes=4, learning_rate=rate).build(D)
    path = net.trajectory(x, values["class"])
    assert path.shape == (5, D, 4)
    assert np.array_equal(path[-1], net(x, values["class"]))
    plain = in_context.LeastSquares(steps=5, learning_rate=rate).build(D).trajectory(x[None], values["real"][None])
    assert plain.shape == (1, 5, D)


def test_torch_in_torch_out(data):
    x, values, rate = data
    net = in_context.LeastSquares(steps=5, learning_rate=rate).build(D)
    found = net(torch.tensor(x), torch.tensor(values["real"]))
    assert isinstance(found, torch.Tensor)
    assert found.dtype == torch.float64
    assert np.array_equal(found.numpy(), net(x, values["real"]))
    assert np.abs(net.module()(torch.tensor(x), torch.tensor(values["real"])).numpy() - found.numpy()).max() == 0.0


def test_predictions(data):
    x, values, rate = data
    net = in_context.Logistic(steps=50, learning_rate=rate).build(D)
    probabilities = net.predict(x, values["label"], x[:5])
    w = net(x, values["label"])
    assert np.abs(probabilities - 1 / (1 + np.exp(-x[:5] @ w))).max() <= 1e-14
    many = in_context.SoftmaxRegression(steps=5, classes=4, learning_rate=rate).build(D)
    assert np.abs(many.predict(x, values["class"], x[:5]).sum(axis=-1) - 1).max() <= 1e-14


def test_ten_thousand_examples_cost_a_hundred_times_a_hundred():
    """A state token attends to the examples: no array of n times n is made."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(10_000, D))
    net = in_context.Logistic(steps=2, learning_rate=0.1).build(D)
    y = (x[:, 0] > 0).astype(float)
    w = exact(net, x, y, 2)
    assert np.abs(net(x, y) - w[:, 0]).max() <= 1e-9


@pytest.mark.parametrize(
    ("x", "y", "match"),
    [
        (np.zeros((3, 4)), np.zeros(3), "shapes"),
        (np.zeros((3, 2)), np.zeros(4), "shapes"),
        (np.zeros((0, 2)), np.zeros(0), "n >= 1"),
        (np.full((3, 2), np.nan), np.zeros(3), "finite"),
        (np.zeros((3, 2)), np.array([0.0, 1.0, np.nan]), "finite"),
    ],
)
def test_wrong_data_is_refused(x, y, match):
    with pytest.raises(af.DomainError, match=match):
        in_context.LeastSquares(learning_rate=0.1).build(2)(x, y)


def test_wrong_labels_are_refused():
    x = np.zeros((2, 2))
    for algorithm, y, match in (
        (in_context.Logistic(learning_rate=0.1), [0.0, 2.0], "0 or 1"),
        (in_context.SoftmaxRegression(learning_rate=0.1, classes=3), [0.0, 3.0], "0 to 2"),
        (in_context.Poisson(learning_rate=0.1), [1.0, -1.0], "not negative"),
    ):
        with pytest.raises(af.DomainError, match=match):
            algorithm.build(2)(x, np.array(y))


def test_automatic_step_sizes_come_from_the_data_bound(data):
    with pytest.raises(af.RefusalError, match="data_bound"):
        in_context.LeastSquares().build(D)
    x, values, _ = data
    bound = float(max(np.abs(x).max(), np.abs(values["real"]).max()))
    net = in_context.LeastSquares(steps=30).build(D, data_bound=bound)
    losses = [np.mean((x @ w - values["real"]) ** 2) for w in net.trajectory(x, values["real"])]
    assert all(b <= a for a, b in pairwise(losses))


def test_too_large_steps_are_refused_by_the_certificate(data):
    x, values, rate = data
    net = in_context.LeastSquares(learning_rate=2.5 * rate).build(D)
    with pytest.raises(af.RefusalError, match="step size"):
        net.certify(x, values["real"])


def test_certificates_over_random_problems():
    """Measured <= certified, for the drift and for the distance to the minimiser."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        n, d = int(rng.integers(5, 60)), int(rng.integers(1, 5))
        x, y = rng.normal(size=(n, d)), rng.normal(size=n)
        rate = float(rng.uniform(0.3, 1.2) / (np.linalg.eigvalsh(x.T @ x / n)[-1] + 0.2))
        net = in_context.Ridge(alpha=0.2, steps=40, learning_rate=rate).build(d)
        bound = net.certify(x, y)
        found = net(x, y)
        assert np.abs(found - exact(net, x, y, 40)[:, 0]).max() <= bound.bound
        solution = np.linalg.solve(x.T @ x / n + 0.2 * np.eye(d), x.T @ y / n)
        assert bound.minimiser is not None
        assert np.linalg.norm(found - solution) <= bound.minimiser


def test_a_number_of_examples_is_kept(data):
    x, values, rate = data
    net = in_context.LeastSquares(steps=2, learning_rate=rate).build(D, examples=10)
    assert net(x[:10], values["real"][:10]).shape == (D,)
    with pytest.raises(af.DomainError, match="built for 10 examples"):
        net(x, values["real"])


def test_fewer_examples_than_features_and_constant_features(data):
    """Rank-deficient problems converge too, to the solution of least norm."""
    x, values, _ = data
    small, y = x[:5].copy(), values["real"][:5]
    small[:, 3] = 1.0
    rate = 1 / float(np.linalg.eigvalsh(small.T @ small / 5)[-1])
    found = converged(in_context.LeastSquares(), small, y, 3000, rate)
    assert np.abs(found - np.linalg.pinv(small) @ y).max() <= 1e-6


def test_separable_labels_keep_growing_as_in_the_exact_iteration():
    x = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    y = np.array([0.0, 0.0, 1.0, 1.0])
    net = in_context.Logistic(steps=300, learning_rate=1.0).build(1)
    path = net.trajectory(x, y)[:, 0]
    assert np.all(np.diff(path) > 0)
    assert np.abs(path[-1] - exact(net, x, y, 300)[0, 0]) <= 1e-8


@pytest.mark.parametrize("name", ["least_squares", "lasso", "logistic", "poisson"])
def test_float32_runs_at_its_own_sharpness(data, name):
    x, values, rate = data
    algorithm, kind, factor = CASES[name]
    net = replace(algorithm, learning_rate=factor * rate, dtype="float32").build(D)
    assert read_block(net.block, net.features).heads[0][0] > 1e-3
    w = exact(net, x, values[kind], 200)
    assert np.abs(net(x, values[kind]) - w[:, 0]).max() <= 1e-4


INTERPOLATED = [name for name in CASES if name != "softmax"]
BOUND = 6.0  # of the data's values, forms and residuals


def by_anchors(name, anchors, asked="tuned", **settings):
    return replace(CASES[name][0], route="interpolation", anchors=anchors, sharpness=asked, **settings)


def left_by_anchors(data, name, anchors, asked):
    x, values, rate = data
    _, kind, factor = CASES[name]
    net = by_anchors(name, anchors, asked, learning_rate=factor * rate).build(D, data_bound=BOUND)
    return np.linalg.norm(net(x, values[kind]) - exact(net, x, values[kind], 200)[:, 0])


@pytest.mark.parametrize(
    ("name", "asked", "most"),
    [
        ("least_squares", "hard", 0.1),
        ("least_squares", "tuned", 1e-9),
        ("ridge", "tuned", 1e-9),
        ("lasso", "tuned", 1e-9),
        ("elastic_net", "tuned", 1e-9),
        ("huber", "hard", 0.01),
        ("huber", "tuned", 1e-3),
        ("logistic", "hard", 0.5),
        ("logistic", "tuned", 0.1),
        ("poisson", "hard", 0.1),
        ("poisson", "tuned", 0.02),
    ],
)
def test_two_hundred_interpolated_steps(data, name, asked, most):
    assert left_by_anchors(data, name, 40, asked) <= most


@pytest.mark.parametrize(
    ("name", "asked", "order"),
    [("least_squares", "hard", 0.6), ("huber", "tuned", 0.8), ("logistic", "tuned", 1.8)],
)
def test_more_anchors_are_better_over_two_hundred_steps(data, name, asked, order):
    """Errors of single steps partly cancel, so orders are those of links up to some scatter."""
    sizes = (20, 60, 180)
    errors = [left_by_anchors(data, name, p, asked) for p in sizes]
    assert -np.polyfit(np.log(sizes), np.log(errors), 1)[0] >= order


@pytest.mark.parametrize("asked", ["hard", "tuned"])
@pytest.mark.parametrize("name", INTERPOLATED)
def test_interpolation_certificates_over_random_problems(name, asked):
    """Measured <= certified, over sizes, anchors and dtypes; finite, and so able to fail."""
    kind, slower = CASES[name][1], 0.05 if name == "poisson" else 1.0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        n, d, p = int(rng.integers(5, 60)), int(rng.integers(1, 5)), int(rng.integers(20, 200))
        x = np.clip(rng.normal(size=(n, d)), -2, 2)
        y = {"real": rng.normal(size=n), "label": (x[:, 0] > 0).astype(float), "count": np.ones(n)}[kind]
        rate = slower * float(rng.uniform(0.2, 0.5) / (np.linalg.eigvalsh(x.T @ x / n)[-1] + 0.2))
        dtype = "float32" if seed % 3 == 2 else "float64"
        net = by_anchors(name, p, asked, learning_rate=rate, steps=5, dtype=dtype).build(d, data_bound=BOUND)
        bound = net.certify(x, y)
        assert np.abs(net(x, y) - exact(net, x, y, 5)[:, 0]).max() <= bound.bound < np.inf


def test_forms_beyond_the_range_are_certified_too():
    """Weights grow until forms leave the row: they are clamped (there are no ghosts), and the certificate says so."""
    x = np.array([[1.0], [-1.0], [0.5]])
    net = by_anchors("logistic", 20, "hard", learning_rate=8.0, steps=20).build(1, data_bound=1.0)
    y = np.array([1.0, 0.0, 1.0])
    error = np.abs(net(x, y) - exact(net, x, y, 20)[:, 0]).max()
    assert 0.1 < error <= net.certify(x, y).bound


@pytest.mark.parametrize("name", INTERPOLATED)
def test_interpolating_networks_are_linear_maps_and_softmax_attention(name):
    net = by_anchors(name, 12, learning_rate=0.1, steps=2).build(3, data_bound=BOUND)
    check_architecture(net.network)
    tokens = torch.randn(1, net.features.ahead + 8, net.features.width, dtype=torch.float64)
    audit(AttentionNetwork(net.network, torch.float64), tokens)


def test_interpolating_networks_serve_batches_intercepts_and_torch(data):
    x, values, rate = data
    y = values["real"]
    net = by_anchors("ridge", 30, learning_rate=rate / 2, steps=20, fit_intercept=True).build(D, data_bound=BOUND)
    both = net(np.stack([x[:100], x[100:200]]), np.stack([y[:100], y[100:200]]))
    assert both.shape == (2, D + 1)
    assert np.abs(both[1] - net(x[100:200], y[100:200])).max() <= 1e-12
    assert np.array_equal(net(torch.tensor(x), torch.tensor(y)).numpy(), net(x, y))


def test_routes_are_refused_with_reasons():
    build = {"data_bound": 1.0}
    for algorithm, settings, match in (
        (in_context.SoftmaxRegression(route="interpolation"), build, "functions of one number"),
        (in_context.LeastSquares(route="interpolation", anchors=2), build, "at least 3"),
        (in_context.LeastSquares(route="interpolation", sharpness="soft"), build, "tuned"),
        (in_context.LeastSquares(anchors=20), build, "interpolation"),
        (in_context.LeastSquares(route="straight"), build, "small_sharpness"),
    ):
        with pytest.raises(af.RefusalError, match=match):
            algorithm.build(2, **settings)


def test_anchors_cover_ten_where_no_bound_is_given(data):
    x, values, rate = data
    net = in_context.LeastSquares(route="interpolation", learning_rate=rate, steps=50).build(D)
    w = exact(net, x, values["real"], 50)
    assert np.abs(net(x, values["real"]) - w[:, 0]).max() <= 1e-8

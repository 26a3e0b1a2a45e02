"""Several outputs, weighted examples, and Bayesian linear regression, which is ridge regression of (y, X)."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn import linear_model

import attnforge as af
from attnforge.certification.checker.check import check
from attnforge.in_context import BayesianLinear, Huber, KernelRidge, Lasso, LeastSquares, Logistic, Ridge

N, D, K = 40, 3, 4


def examples(seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (N, D))
    return x, np.clip(x @ rng.normal(size=(D, K)) / 2 + 0.1 * rng.normal(size=(N, K)), -1, 1)


def drift(net, *data):
    return float(np.abs(net(*data) - net.target.weights(*(each.astype(np.longdouble) for each in data))).max())


def ends(x, alpha=0.0):
    low, *_, high = np.linalg.eigvalsh(x.T @ x / len(x))
    return (0.99 * low + alpha, 1.01 * high + alpha)


@pytest.mark.parametrize("chebyshev", [False, True])
@pytest.mark.parametrize("alpha", [0.0, 0.2])
def test_several_outputs_are_several_regressions(alpha, chebyshev):
    x, y = examples()
    how = {"schedule": "chebyshev", "spectrum": ends(x, alpha)} if chebyshev else {"learning_rate": 1.0}
    steps = 25 if chebyshev else 60
    made = Ridge(alpha=alpha, steps=steps, outputs=K, **how) if alpha else LeastSquares(steps=steps, outputs=K, **how)
    net = made.build(D)
    best = np.linalg.solve(x.T @ x / N + alpha * np.eye(D), x.T @ y / N)
    assert net(x, y).shape == (D, K)
    assert np.abs(net(x, y) - best).max() <= 1e-5
    assert net.trajectory(np.stack([x, x]), np.stack([y, y])).shape == (2, steps, D, K)
    assert drift(net, x, y) <= net.certify(x, y).bound <= 1e-9
    assert net.predict(x, y, x[:5]).shape == (5, K)
    assert np.abs(net(torch.tensor(x), torch.tensor(y)).numpy() - net(x, y)).max() <= 1e-14


def test_several_outputs_on_a_box_and_in_a_file(tmp_path):
    net = LeastSquares(steps=5, learning_rate=0.2, outputs=K, initial=np.full((D, K), 0.1)).build(D, N, 1.0)
    for seed in range(3):
        assert drift(net, *examples(seed)) <= net.certificate.bound < 1e-3
    assert check(net.network, net.target, net.certificate, "float64").verdict == "confirmed"
    small = replace(net.certificate, bound=1e-18)
    assert check(net.network, net.target, small, "float64").verdict == "rejected"
    net.save(tmp_path / "net.safetensors")
    assert np.array_equal(af.load(tmp_path / "net.safetensors")(*examples()), net(*examples()))


def test_wrong_outputs():
    x, y = examples()
    net = LeastSquares(steps=2, learning_rate=0.1, outputs=K).build(D)
    for values in (y[:, 0], y[:, :2], y[:3]):
        with pytest.raises(af.DomainError, match=r"\(\.\.\., n, 4\)"):
            net(x, values)
    for wrong in ({"outputs": 0}, {"outputs": 2, "route": "interpolation"}):
        with pytest.raises(af.TargetError, match="outputs"):
            LeastSquares(steps=2, learning_rate=0.1, **wrong).build(D)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_weighted_ridge_is_scikit_learns(fit_intercept):
    x, y = examples()
    weights, alpha = np.random.default_rng(1).uniform(0.1, 3, N), 0.1
    net = Ridge(alpha=alpha, steps=300, learning_rate=0.4, fit_intercept=fit_intercept).build(D)
    judge = linear_model.Ridge(alpha=alpha * N, fit_intercept=fit_intercept).fit(x, y[:, 0], weights)
    found = net(x, y[:, 0], sample_weight=weights)
    assert np.abs(found[:D] - judge.coef_).max() <= 1e-8
    if fit_intercept:
        assert abs(found[D] - judge.intercept_) <= 1e-8
    exact = net.target.weights(*(each.astype(np.longdouble) for each in (x, y[:, 0], weights)))
    certificate = net.certify(x, y[:, 0], weights)
    assert np.abs(found - exact).max() <= certificate.bound <= 1e-10
    assert "roots of their weights" in " ".join(certificate.assumptions)
    assert np.abs(net.predict(x, y[:, 0], x, weights) - judge.predict(x)).max() <= 1e-7


def test_a_weight_of_two_is_an_example_twice():
    x, y = examples()
    twice = LeastSquares(steps=9, learning_rate=0.2).build(D)(np.r_[x, x[:5]], np.r_[y, y[:5]][:, 0])
    weights = np.r_[np.full(5, 2.0), np.ones(N - 5)]
    net = LeastSquares(steps=9, learning_rate=0.2 * N / (N + 5)).build(D)
    assert np.abs(net(x, y[:, 0], weights) - twice).max() <= 1e-11
    assert net.attention(x, y[:, 0], weights)[0][0].shape == (2, 2 * N + 2)
    assert net.prompt(x, y[:, 0], weights)[..., 2, 0] == pytest.approx(np.sqrt(2) * x[0, 0])


@pytest.mark.parametrize("made", [Huber, Logistic])
def test_weights_are_of_squares(made):
    x, y = examples()
    net = made(steps=2, learning_rate=0.1).build(D)
    with pytest.raises(af.RefusalError, match="squares"):
        net(x, (y[:, 0] > 0).astype(float), np.ones(N))
    with pytest.raises(af.RefusalError, match="no weights"):
        KernelRidge(steps=2).build(D, N)(x, y[:, 0], np.ones(N))


def test_wrong_weights():
    x, y = examples()
    net = Lasso(steps=2, learning_rate=0.1).build(D, data_bound=1.0)
    for weights in (np.ones(3), np.zeros(N), np.full(N, np.nan), -np.ones(N)):
        with pytest.raises(af.DomainError, match="Weights are positive"):
            net(x, y[:, 0], weights)
    with pytest.raises(af.DomainError, match="data bound"):
        net(x, y[:, 0], np.full(N, 4.0))
    with pytest.raises(af.DomainError, match="weights up to 1"):
        LeastSquares(steps=2, learning_rate=0.1, fit_intercept=True).build(D, data_bound=1.0)(
            x / 9, y[:, 0] / 9, np.full(N, 4.0)
        )


TAU, NOISE = 2.0, 0.3


def posterior(x, y):
    covariance = np.linalg.inv(x.T @ x / NOISE + TAU * np.eye(D))
    return covariance @ x.T @ y / NOISE, covariance


def test_bayesian_posterior_and_predictions():
    x, y = examples()
    net = BayesianLinear(TAU, NOISE, steps=40, schedule="chebyshev", spectrum=ends(x, TAU * NOISE / N)).build(D, N)
    (mean, covariance), (wanted, exact) = net(x, y[:, 0]), posterior(x, y[:, 0])
    certificate = net.certify(x, y[:, 0])
    assert np.linalg.norm(mean - wanted) <= certificate.minimiser <= 1e-8
    assert np.abs(covariance - exact).max() <= certificate.minimiser / TAU + 1e-15
    assert drift(net.regression, *net.values(x, y[:, 0])) <= certificate.bound
    queries = np.random.default_rng(5).normal(size=(7, D))
    found, variance = net.predict(x, y[:, 0], queries)
    assert np.abs(found - queries @ wanted).max() <= 1e-8
    assert np.abs(variance - NOISE - np.einsum("qi,ij,qj->q", queries, exact, queries)).max() <= 1e-8


def test_bayesian_is_scikit_learns_gaussian_process():
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct

    x, y = examples()
    kernel = ConstantKernel(1 / TAU, "fixed") * DotProduct(0.0, "fixed")
    judge = GaussianProcessRegressor(kernel, alpha=NOISE, optimizer=None).fit(x, y[:, 0])
    net = BayesianLinear(TAU, NOISE, steps=200, learning_rate=1.0).build(D, N)
    mean, variance = net.predict(torch.tensor(x), torch.tensor(y[:, 0]), torch.tensor(x[:6]))
    expected, deviation = judge.predict(x[:6], return_std=True)
    assert np.abs(mean.numpy() - expected).max() <= 1e-9
    assert np.abs(variance.numpy() - NOISE - deviation**2).max() <= 1e-9


def test_wrong_priors():
    for wrong in ({"prior_precision": 0.0}, {"noise": -1.0}):
        with pytest.raises(af.TargetError, match="positive"):
            BayesianLinear(learning_rate=0.1, **wrong).build(D, N)
    with pytest.raises(af.RefusalError, match="number of examples"):
        BayesianLinear(learning_rate=0.1).build(D)


def test_modules_take_whole_numbers():
    """Classes as integers, and examples of them, are cast before the prompt is assembled."""
    x, y = np.random.default_rng(0).integers(-3, 4, size=(20, 3)), np.arange(20) % 4
    net = af.in_context.SoftmaxRegression(steps=3, learning_rate=0.1, classes=4).build(features=3)
    found = net.module()(torch.from_numpy(x), torch.from_numpy(y))
    np.testing.assert_allclose(found.numpy(), net(x.astype(float), y), rtol=1e-12)

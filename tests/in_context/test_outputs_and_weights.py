"""Several outputs, weighted examples, and Bayesian linear regression, which is ridge regression of (y, X)."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn import linear_model
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct

import attnforge as af
from attnforge.in_context import BayesianLinear, Huber, KernelRidge, Lasso, LeastSquares, Logistic, Ridge
from tests.in_context.runs import drift
from tests.refusals import refused

N, D, K = 40, 3, 4
TAU, NOISE = 2.0, 0.3
SMALL = {"steps": 2, "learning_rate": 0.1}


def examples(seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (N, D))
    return x, np.clip(x @ rng.normal(size=(D, K)) / 2 + 0.1 * rng.normal(size=(N, K)), -1, 1)


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
    net.save(tmp_path / "net.safetensors")
    assert af.check(tmp_path / "net.safetensors").verdict == "confirmed"
    lie = replace(net, certificate=replace(net.certificate, bound=1e-18, parts={"all": 1e-18}))
    lie.save(tmp_path / "lie.safetensors")
    assert af.check(tmp_path / "lie.safetensors").verdict == "rejected"


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
    certificate = net.certify(x, y[:, 0], weights)
    assert drift(net, x, y[:, 0], weights) <= certificate.bound <= 1e-10
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


X, Y = examples()
ONES, LABELS = np.ones(N), (Y[:, 0] > 0).astype(float)
BAYES = {"learning_rate": 0.1}
REFUSED = {
    "one output of four": (af.DomainError, lambda: LeastSquares(**SMALL, outputs=K).build(D)(X, Y[:, 0])),
    "two outputs of four": (af.DomainError, lambda: LeastSquares(**SMALL, outputs=K).build(D)(X, Y[:, :2])),
    "fewer examples": (af.DomainError, lambda: LeastSquares(**SMALL, outputs=K).build(D)(X, Y[:3])),
    "no outputs": (af.TargetError, lambda: LeastSquares(**SMALL, outputs=0).build(D)),
    "outputs by anchors": (
        af.TargetError, lambda: LeastSquares(**SMALL, outputs=2, route="interpolation").build(D),
    ),
    "weights of a Huber loss": (af.RefusalError, lambda: Huber(**SMALL).build(D)(X, LABELS, ONES)),
    "weights of a logistic loss": (af.RefusalError, lambda: Logistic(**SMALL).build(D)(X, LABELS, ONES)),
    "weights of a kernel": (af.RefusalError, lambda: KernelRidge(steps=2).build(D, N)(X, Y[:, 0], ONES)),
    **{
        f"weights that are {what}": (
            af.DomainError, lambda weights=weights: Lasso(**SMALL).build(D, data_bound=1.0)(X, Y[:, 0], weights),
        )
        for what, weights in {
            "few": np.ones(3), "zero": 0 * ONES, "no numbers": np.nan * ONES, "negative": -ONES, "large": 4 * ONES,
        }.items()
    },
    "weights of an intercept": (
        af.DomainError,
        lambda: LeastSquares(**SMALL, fit_intercept=True).build(D, data_bound=1.0)(X / 9, Y[:, 0] / 9, 4 * ONES),
    ),
    "no prior": (af.TargetError, lambda: BayesianLinear(prior_precision=0.0, **BAYES).build(D, N)),
    "negative noise": (af.TargetError, lambda: BayesianLinear(noise=-1.0, **BAYES).build(D, N)),
    "a posterior of any number": (af.RefusalError, lambda: BayesianLinear(**BAYES).build(D)),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_does_not_fit_is_refused(what):
    kind, call = REFUSED[what]
    with refused(kind):
        call()


def test_bayesian_posterior_and_predictions():
    x, y = examples()
    net = BayesianLinear(TAU, NOISE, steps=40, schedule="chebyshev", spectrum=ends(x, TAU * NOISE / N)).build(D, N)
    exact = np.linalg.inv(x.T @ x / NOISE + TAU * np.eye(D))
    wanted = exact @ x.T @ y[:, 0] / NOISE
    (mean, covariance), certificate = net(x, y[:, 0]), net.certify(x, y[:, 0])
    assert np.linalg.norm(mean - wanted) <= certificate.minimiser <= 1e-8
    assert np.abs(covariance - exact).max() <= certificate.minimiser / TAU + 1e-15
    assert drift(net.regression, *net.values(x, y[:, 0])) <= certificate.bound
    queries = np.random.default_rng(5).normal(size=(7, D))
    found, variance = net.predict(x, y[:, 0], queries)
    assert np.abs(found - queries @ wanted).max() <= 1e-8
    assert np.abs(variance - NOISE - np.einsum("qi,ij,qj->q", queries, exact, queries)).max() <= 1e-8


def test_bayesian_is_scikit_learns_gaussian_process():
    x, y = examples()
    kernel = ConstantKernel(1 / TAU, "fixed") * DotProduct(0.0, "fixed")
    judge = GaussianProcessRegressor(kernel, alpha=NOISE, optimizer=None).fit(x, y[:, 0])
    net = BayesianLinear(TAU, NOISE, steps=200, learning_rate=1.0).build(D, N)
    mean, variance = net.predict(torch.tensor(x), torch.tensor(y[:, 0]), torch.tensor(x[:6]))
    expected, deviation = judge.predict(x[:6], return_std=True)
    assert np.abs(mean.numpy() - expected).max() <= 1e-9
    assert np.abs(variance.numpy() - NOISE - deviation**2).max() <= 1e-9

"""In-context algorithms as estimators: scikit-learn's own checks, and its own estimators as judges."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.kernel_ridge import KernelRidge as KernelRidgeReference
from sklearn.linear_model import ElasticNet as ElasticNetReference
from sklearn.linear_model import Lasso as LassoReference
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor
from sklearn.linear_model import Ridge as RidgeReference
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import attnforge as af
from attnforge.in_context import (
    ElasticNet,
    Huber,
    KernelRegression,
    KernelRidge,
    Lasso,
    LeastSquares,
    Logistic,
    Poisson,
    Ridge,
    SoftmaxRegression,
)
from attnforge.sklearn import InContextClassifier, InContextRegressor
from tests.refusals import refused

RNG = np.random.default_rng(0)
N = 40
X = RNG.normal(size=(N, 3))
Y = X @ [1.0, -2.0, 0.0] + 3.0 + 0.1 * RNG.normal(size=N)
QUERY = RNG.normal(size=(5, 3))


SHORT = {"steps": 15, "alpha": 1e-2, "fit_intercept": True}  # as the defaults, with fewer steps for the sake of time


@parametrize_with_checks([InContextRegressor(Ridge(**SHORT)), InContextClassifier(Logistic(**SHORT))])
def test_scikit_learn_is_content(estimator, check) -> None:
    check(estimator)


def test_none_is_a_default() -> None:
    assert np.allclose(InContextRegressor().fit(X, Y).predict(X), RidgeReference(1e-3 * N).fit(X, Y).predict(X))
    labels = np.where(Y > 3, "high", "low")
    assert InContextClassifier().fit(X, labels).score(X, labels) >= 0.95


REFERENCES = [
    (LeastSquares(steps=60, fit_intercept=True), LinearRegression()),
    (Ridge(steps=60, alpha=0.5, fit_intercept=True), RidgeReference(alpha=0.5 * N)),
    (Lasso(steps=100, alpha=0.5, fit_intercept=True), LassoReference(alpha=0.5, tol=1e-10)),
    (
        ElasticNet(steps=100, alpha=0.5, l1_ratio=0.3, fit_intercept=True),
        ElasticNetReference(alpha=0.5, l1_ratio=0.3, tol=1e-10),
    ),
    (KernelRidge(steps=100, alpha=0.5, bandwidth=1.5), KernelRidgeReference(alpha=0.5, kernel="rbf", gamma=1 / 4.5)),
]


@pytest.mark.parametrize(("algorithm", "reference"), REFERENCES, ids=lambda each: type(each).__name__)
def test_predictions_are_scikit_learns(algorithm, reference) -> None:
    model = InContextRegressor(algorithm).fit(X, Y)
    assert np.allclose(model.predict(QUERY), reference.fit(X, Y).predict(QUERY), atol=1e-6)


@pytest.mark.parametrize("size", [1e-3, 1e3])
def test_units_of_the_data_do_not_matter(size: float) -> None:
    model = InContextRegressor(Ridge(steps=60, alpha=0.5, fit_intercept=True))
    plain = model.fit(X, Y).predict(QUERY)
    assert np.allclose(model.fit(X, size * Y).predict(QUERY), size * plain, rtol=1e-8)


def test_poisson_takes_a_rate_and_counts() -> None:
    counts = RNG.poisson(np.exp(0.5 * X[:, 0])).astype(float)
    model = InContextRegressor(Poisson(steps=150, learning_rate=0.2, alpha=0.1, fit_intercept=True)).fit(X, counts)
    wanted = PoissonRegressor(alpha=0.1, tol=1e-10, max_iter=1000).fit(X, counts).predict(QUERY)
    assert np.allclose(model.predict(QUERY), wanted, atol=1e-4)
    with refused(af.RefusalError):
        InContextRegressor(Poisson()).fit(X, counts)


def test_huber_and_kernel_regression_are_their_networks() -> None:
    bent = np.where(np.arange(N) == 3, 1000.0, Y)
    model = InContextRegressor(Huber(steps=300, delta=0.5, fit_intercept=True)).fit(X, bent)
    assert np.allclose(model.coef_, [1.0, -2.0, 0.0], atol=0.2)
    average = InContextRegressor(KernelRegression(bandwidth=0.8)).fit(X, Y)
    weights = np.exp(-((QUERY[:, None] - X) ** 2).sum(-1) / (2 * 0.8**2))
    assert np.allclose(average.predict(QUERY), weights @ Y / weights.sum(1))
    assert average.certificate_.bound < 1e-12
    with pytest.raises(AttributeError, match="no weights of features"):
        _ = average.coef_


def test_weights_of_examples_are_repetitions() -> None:
    counts = RNG.integers(0, 4, N)
    for algorithm in (Ridge(steps=30, alpha=0.5, fit_intercept=True), Lasso(steps=50, alpha=0.5)):
        weighted = InContextRegressor(algorithm).fit(X, Y, sample_weight=counts)
        repeated = InContextRegressor(algorithm).fit(np.repeat(X, counts, axis=0), np.repeat(Y, counts))
        assert np.allclose(weighted.predict(QUERY), repeated.predict(QUERY), atol=1e-7)
    with refused(af.RefusalError):
        InContextRegressor(Huber()).fit(X, Y, sample_weight=counts)
    with refused(af.TargetError):
        InContextRegressor().fit(X, Y, sample_weight=-np.ones(N))


def test_several_outputs_are_solved_together() -> None:
    both = np.stack([Y, X[:, 2]], axis=1)
    model = InContextRegressor(Ridge(steps=60, alpha=0.5, fit_intercept=True)).fit(X, both)
    assert model.coef_.shape == (2, 3)
    assert np.allclose(model.predict(QUERY), QUERY @ model.coef_.T + model.intercept_)
    assert np.allclose(model.predict(QUERY), RidgeReference(alpha=0.5 * N).fit(X, both).predict(QUERY), atol=1e-6)
    with pytest.raises(ValueError, match="1d array"):
        InContextRegressor(Lasso()).fit(X, both)


def test_the_certificate_of_the_prompt_is_proved() -> None:
    model = InContextRegressor(Ridge(steps=20, alpha=0.5, fit_intercept=True)).fit(X, Y)
    assert model.certificate_.status == "proved"
    exact = model.net_.target.weights(X, Y)
    assert np.abs(np.append(model.coef_, model.intercept_) - exact).max() <= model.certificate_.bound < 1e-9
    before = model.certificate_
    assert model.fit(X, 2 * Y).certificate_ is not before


def test_classes_are_scikit_learns() -> None:
    x, y = load_iris(return_X_y=True)
    x = StandardScaler().fit_transform(x)[::3]
    y = y[::3]
    model = InContextClassifier(Logistic(steps=120, alpha=1.0, fit_intercept=True)).fit(x, y)
    assert isinstance(model.algorithm_, SoftmaxRegression)
    reference = LogisticRegression(C=1 / len(x), tol=1e-10, max_iter=10_000).fit(x, y)
    assert np.allclose(model.predict_proba(x), reference.predict_proba(x), atol=1e-6)
    two = InContextClassifier(Logistic(steps=120, alpha=1.0, fit_intercept=True)).fit(x[y < 2], y[y < 2] + 5)
    half = LogisticRegression(C=1 / (y < 2).sum(), tol=1e-10).fit(x[y < 2], y[y < 2] + 5)
    assert np.allclose(two.predict_proba(x), half.predict_proba(x), atol=1e-6)
    assert two.classes_.tolist() == [5, 6]
    assert InContextClassifier(SoftmaxRegression(steps=50)).fit(x, y).predict_proba(x).shape == (len(x), 3)


def test_fields_of_the_algorithm_are_searched() -> None:
    model = make_pipeline(StandardScaler(), InContextRegressor())
    search = GridSearchCV(model, {"incontextregressor__algorithm__alpha": [1e-3, 100.0]}, cv=2).fit(X, Y)
    assert search.best_params_ == {"incontextregressor__algorithm__alpha": 1e-3}
    assert search.best_estimator_[-1].algorithm == Ridge(steps=50, alpha=1e-3, fit_intercept=True)
    with refused(af.TargetError):
        InContextRegressor().set_params(algorithm__slope=1)


@pytest.mark.parametrize("wrong", [Ridge, "ridge", Logistic(), 3])
def test_what_is_no_algorithm_is_refused(wrong) -> None:
    with refused(af.TargetError):
        InContextRegressor(wrong).fit(X, Y)
    with refused(af.TargetError):
        InContextClassifier().fit(X, np.ones(N))  # one class

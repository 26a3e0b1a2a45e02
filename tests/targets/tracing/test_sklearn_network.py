"""scikit-learn's networks as targets."""

import warnings

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.neural_network import MLPClassifier, MLPRegressor

import attnforge as af
from attnforge.compiler.targets import as_target
from attnforge.targets import Formulas, ReluNetwork

X = np.random.default_rng(0).uniform(-1, 1, (60, 2))
DOMAIN = [(-1, 1)] * 2
BINARY, MANY, LABELS = X[:, 0] > 0, np.floor(2 * X[:, 0]).astype(int), X > 0


def fitted(kind, y, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a few steps do not converge, and need not
        return kind(hidden_layer_sizes=(5, 4), max_iter=20, random_state=0, **options).fit(X, y)


@pytest.mark.parametrize("activation", ["relu", "identity", "tanh", "logistic"])
@pytest.mark.parametrize("outputs", [1, 2])
def test_regressors(activation, outputs):
    model = fitted(MLPRegressor, X[:, 0] * X[:, 1] if outputs == 1 else X**2, activation=activation)
    target = as_target(model, DOMAIN)
    assert isinstance(target, ReluNetwork if activation in ("relu", "identity") else Formulas)
    assert target.outputs == outputs
    assert np.allclose(target.values(X), model.predict(X).reshape(-1, outputs), rtol=0, atol=1e-12)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_classifiers_give_probabilities(activation):
    two = fitted(MLPClassifier, BINARY, activation=activation)
    target = as_target(two, {"a": (-1, 1), "b": (-1, 1)})
    assert target.names == ("a", "b")
    assert np.allclose(target.values(X)[:, 0], two.predict_proba(X)[:, 1], rtol=0, atol=1e-12)
    for labels in (MANY, LABELS):
        model = fitted(MLPClassifier, labels, activation=activation)
        assert np.allclose(as_target(model, DOMAIN).values(X), model.predict_proba(X), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("model", "match"),
    [
        (MLPRegressor(), "must be fitted"),
        (LinearRegression(), "MLPRegressor and MLPClassifier"),
        (fitted(MLPRegressor, BINARY.astype(float), activation="tanh"), "must have 2 features. Got 3"),
    ],
)
def test_refusals(model, match):
    with pytest.raises(af.TargetError, match=match):
        as_target(model, [(-1, 1)] * 3 if "features" in match else DOMAIN)


def test_weights_that_were_edited_inconsistently_are_noticed():
    model = fitted(MLPRegressor, BINARY.astype(float), activation="tanh")
    model.predict = lambda points: np.zeros(len(points))
    with pytest.raises(af.TargetError, match="where the formula is"):
        as_target(model, DOMAIN)

"""Regressions in context: iterates against exact iteration, solutions against scikit-learn and scipy, and refusals."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy import optimize
from sklearn import linear_model

import attnforge as af
from attnforge import in_context
from tests.in_context.runs import drift
from tests.refusals import refused

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


@pytest.mark.parametrize("name", CASES)
def test_two_hundred_steps_stay_with_the_exact_iteration(data, name):
    x, values, rate = data
    algorithm, kind, factor = CASES[name]
    net = replace(algorithm, learning_rate=factor * rate).build(D)
    found = drift(net, x, values[kind])
    assert found <= min(1e-9, net.certify(x, values[kind]).bound) <= 100 * found


def huber_minimum(x, y):
    def loss(w):
        r = np.abs(x @ w - y)
        return np.where(r <= 0.5, r * r / 2, 0.5 * (r - 0.25)).mean()

    def gradient(w):
        return x.T @ np.clip(x @ w - y, -0.5, 0.5) / N

    return optimize.minimize(loss, np.zeros(D), jac=gradient, tol=1e-14).x


def classifier(x, y):
    judge = linear_model.LogisticRegression(C=1 / (0.1 * N), fit_intercept=False, tol=1e-12, max_iter=10_000)
    return np.squeeze(judge.fit(x, y).coef_.T)


JUDGED = {  # the algorithm, its examples, steps, step size as a multiple of 1/L, and who knows the minimum;
    # least squares, ridge, lasso and elastic net are judged as closely by tests/sklearn
    "logistic": (in_context.Logistic(alpha=0.1), "label", 600, 3.0, classifier),
    "softmax": (in_context.SoftmaxRegression(alpha=0.1, classes=4), "class", 800, 1.5, classifier),
    "poisson": (
        in_context.Poisson(alpha=0.1), "count", 3000, 0.1,
        lambda x, y: linear_model.PoissonRegressor(
            alpha=0.1, fit_intercept=False, tol=1e-12, max_iter=10_000
        ).fit(x, y).coef_,
    ),
    "huber": (in_context.Huber(delta=0.5), "real", 600, 1.0, huber_minimum),
}  # fmt: skip


@pytest.mark.parametrize("name", JUDGED)
def test_the_minimum_is_scikit_learns_or_scipys(data, name):
    x, values, rate = data
    algorithm, kind, steps, factor, judge = JUDGED[name]
    found = replace(algorithm, steps=steps, learning_rate=factor * rate).build(D)(x, values[kind])
    assert np.abs(found - judge(x, values[kind])).max() <= 1e-6


def test_fewer_examples_than_features_and_constant_features(data):
    """Rank-deficient problems converge too, to the solution of least norm."""
    x, values, _ = data
    small, y = x[:5].copy(), values["real"][:5]
    small[:, 3] = 1.0
    rate = 1 / float(np.linalg.eigvalsh(small.T @ small / 5)[-1])
    found = in_context.LeastSquares(steps=3000, learning_rate=rate).build(D)(small, y)
    assert np.abs(found - np.linalg.pinv(small) @ y).max() <= 1e-6


def test_the_same_weights_serve_batches_and_any_number_of_examples(data):
    x, y, rate = data[0], data[1]["real"], data[2]
    net = in_context.LeastSquares(steps=20, learning_rate=rate / 2).build(D)
    both = net(np.stack([x[:100], x[100:200]]), np.stack([y[:100], y[100:200]]))
    assert np.abs(both[1] - net(x[100:200], y[100:200])).max() <= 1e-12
    assert net(x[:7], y[:7]).shape == (D,)


def test_predictions(data):
    x, values, rate = data
    net = in_context.Logistic(steps=50, learning_rate=rate).build(D)
    w = net(x, values["label"])
    assert np.abs(net.predict(x, values["label"], x[:5]) - 1 / (1 + np.exp(-x[:5] @ w))).max() <= 1e-14
    many = in_context.SoftmaxRegression(steps=5, classes=4, learning_rate=rate).build(D)
    assert np.abs(many.predict(x, values["class"], x[:5]).sum(axis=-1) - 1).max() <= 1e-14


ZEROS = np.zeros((3, 2))
WRONG_DATA = {
    "other features": ("LeastSquares", np.zeros((3, 4)), np.zeros(3)),
    "other examples": ("LeastSquares", ZEROS, np.zeros(4)),
    "none": ("LeastSquares", ZEROS[:0], np.zeros(0)),
    "no number": ("LeastSquares", np.full((3, 2), np.nan), np.zeros(3)),
    "no number to fit": ("LeastSquares", ZEROS, np.array([0.0, 1.0, np.nan])),
    "no label": ("Logistic", ZEROS, np.array([0.0, 2.0, 1.0])),
    "no class": ("SoftmaxRegression", ZEROS, np.array([0.0, 3.0, 1.0])),
    "no count": ("Poisson", ZEROS, np.array([1.0, -1.0, 0.0])),
}


@pytest.mark.parametrize("what", WRONG_DATA)
def test_wrong_data_are_refused(what):
    name, x, y = WRONG_DATA[what]
    net = getattr(in_context, name)(learning_rate=0.1, **({"classes": 3} if name[0] == "S" else {})).build(2)
    with refused(af.DomainError):
        net(x, y)


WRONG_ALGORITHMS = {
    "momentum": lambda: in_context.LeastSquares(learning_rate=0.1, momentum=0.9).build(2),
    "no largest curvature": lambda: in_context.Poisson().build(2, data_bound=1.0),
    "a step size from nothing": lambda: in_context.LeastSquares().build(2),
    "a function of several numbers": lambda: in_context.SoftmaxRegression(route="interpolation").build(2, None, 1.0),
    "too few anchors": lambda: in_context.LeastSquares(route="interpolation", anchors=2).build(2, None, 1.0),
    "a strange sharpness": lambda: in_context.LeastSquares(route="interpolation", sharpness="soft").build(2, None, 1.0),
    "anchors without interpolation": lambda: in_context.LeastSquares(anchors=20).build(2, None, 1.0),
    "a strange route": lambda: in_context.LeastSquares(route="straight").build(2, None, 1.0),
}


@pytest.mark.parametrize("what", WRONG_ALGORITHMS)
def test_wrong_algorithms_are_refused(what):
    with refused(af.RefusalError):
        WRONG_ALGORITHMS[what]()


def test_automatic_step_sizes_come_from_the_data_bound(data):
    x, values, _ = data
    bound = float(max(np.abs(x).max(), np.abs(values["real"]).max()))
    net = in_context.LeastSquares(steps=30).build(D, data_bound=bound)
    losses = [np.mean((x @ w - values["real"]) ** 2) for w in net.trajectory(x, values["real"])]
    assert all(b <= a for a, b in pairwise(losses))


INTERPOLATED = [name for name in CASES if name != "softmax"]
BOUND = 6.0  # of the data's values, forms and residuals


def by_anchors(name, anchors, asked="tuned", **settings):
    return replace(CASES[name][0], route="interpolation", anchors=anchors, sharpness=asked, **settings)


@pytest.mark.parametrize(
    ("name", "asked", "most"),
    [
        ("least_squares", "hard", 0.1), ("least_squares", "tuned", 1e-9), ("ridge", "tuned", 1e-9),
        ("lasso", "tuned", 1e-9), ("elastic_net", "tuned", 1e-9), ("huber", "hard", 0.01), ("huber", "tuned", 1e-3),
        ("logistic", "hard", 0.5), ("logistic", "tuned", 0.1), ("poisson", "hard", 0.1), ("poisson", "tuned", 0.02),
    ],
)  # fmt: skip
def test_two_hundred_interpolated_steps(data, name, asked, most):
    x, values, rate = data
    _, kind, factor = CASES[name]
    net = by_anchors(name, 40, asked, learning_rate=factor * rate).build(D, data_bound=BOUND)
    assert np.linalg.norm(net(x, values[kind]) - net.target.weights(x, values[kind])) <= most


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
        assert drift(net, x, y) <= net.certify(x, y).bound < np.inf


def test_forms_beyond_the_range_are_certified_too():
    """Weights grow until forms leave the row: they are clamped (there are no ghosts), and the certificate says so."""
    x, y = np.array([[1.0], [-1.0], [0.5]]), np.array([1.0, 0.0, 1.0])
    net = by_anchors("logistic", 20, "hard", learning_rate=8.0, steps=20).build(1, data_bound=1.0)
    assert 0.1 < drift(net, x, y) <= net.certify(x, y).bound

"""AttentionRegressor: scikit-learn's own checks; noise, weights, constant columns, far points."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import attnforge as af
from attnforge.network import moved
from attnforge.sklearn import AttentionRegressor
from tests.refusals import refused

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (150, 2))
SMOOTH = np.sin(3 * X[:, 0]) * X[:, 1]
NOISY = SMOOTH + 0.1 * RNG.normal(size=150)


@parametrize_with_checks([AttentionRegressor()])
def test_scikit_learn_is_content(estimator, check) -> None:
    check(estimator)


def test_smooth_points_are_learnt() -> None:
    fresh = 0.95 * RNG.uniform(-1, 1, (500, 2))
    model = AttentionRegressor().fit(X, SMOOTH)
    assert np.abs(model.predict(fresh) - np.sin(3 * fresh[:, 0]) * fresh[:, 1]).max() < 1e-3
    assert model.certificate_.estimate.error == pytest.approx(np.abs(model.predict(X) - SMOOTH).max(), rel=1e-9)
    assert model.certificate_.status == "sampled"


def test_noise_is_not_chased() -> None:
    model = AttentionRegressor().fit(X, NOISY)
    assert np.sqrt(np.mean((model.predict(X) - SMOOTH) ** 2)) < 0.06
    assert np.abs(model.predict(X) - NOISY).max() > 0.15
    met = AttentionRegressor(tol=1e-3).fit(X, NOISY)
    assert np.abs(met.predict(X) - NOISY).max() <= 1e-3
    assert met.net_.anchors > 2 * model.net_.anchors


def test_it_is_no_worse_than_common_regressors() -> None:
    for data in (make_friedman1(300, noise=1.0, random_state=0), load_diabetes(return_X_y=True)):
        train, test, y, wanted = train_test_split(*data, random_state=0)
        score = AttentionRegressor().fit(train, y).score(test, wanted)
        assert score > LinearRegression().fit(train, y).score(test, wanted) - 0.02


def test_it_is_a_network_of_one_head_that_can_be_saved(tmp_path) -> None:
    model = AttentionRegressor(anchors=20).fit(X, NOISY)
    assert (model.net_.heads, model.net_.anchors) == (1, 20)
    model.net_.save(tmp_path / "f.safetensors")
    again = af.load(tmp_path / "f.safetensors")
    assert np.array_equal(again(X), model.predict(X))
    assert "20 anchors chosen among 150 points, values by ridge regression" in str(model.net_)


def test_more_ridge_and_sharper_heads_do_what_they_say() -> None:
    mean = AttentionRegressor(alpha=1e12).fit(X, NOISY).predict(X)
    assert np.allclose(mean, NOISY.mean(), atol=1e-6)
    nearest = AttentionRegressor(anchors=150, sharpness=200.0, alpha=1e-10).fit(X, NOISY)
    assert np.allclose(nearest.predict(X), NOISY, atol=1e-6)
    rough = [AttentionRegressor(alpha=a, anchors=60, sharpness=0.3).fit(X, NOISY).predict(X) for a in (1e-6, 1e-2, 1.0)]
    left = [float(np.mean((each - NOISY) ** 2)) for each in rough]
    assert left == sorted(left)


def test_repeated_points_have_their_weighted_mean() -> None:
    x = np.array([[0.0], [0.0], [1.0], [2.0], [3.0], [3.0]])
    y = np.array([0.0, 3.0, 1.0, 2.0, 5.0, 7.0])
    model = AttentionRegressor(tol=1e-6).fit(x, y, sample_weight=[2, 1, 1, 1, 1, 0])
    assert np.allclose(model.predict([[0.0], [3.0]]), [1.0, 5.0], atol=1e-6)
    assert "table of 4 points" in str(model.net_)


def test_weights_pull() -> None:
    twice, labels = np.repeat(X, 2, axis=0), np.tile([0.0, 1.0], 150)
    heavy = AttentionRegressor().fit(twice, labels, sample_weight=np.tile([1.0, 9.0], 150))
    assert np.allclose(heavy.predict(X), 0.9, atol=1e-8)
    left, right = X[:, 0] < 0, (X[:, 0] >= 0).astype(float)
    light = AttentionRegressor(anchors=3, alpha=0.0).fit(X, right, sample_weight=np.where(left, 1.0, 1e-3))
    assert np.abs(light.predict(X[left]) - right[left]).mean() < np.abs(light.predict(X[~left]) - right[~left]).mean()


def test_constant_columns_are_left_out() -> None:
    wide = np.column_stack([X[:, 0], np.full(150, 7.0), X[:, 1]])
    model, plain = AttentionRegressor().fit(wide, NOISY), AttentionRegressor().fit(X, NOISY)
    assert model.columns_.tolist() == [0, 2]
    assert np.array_equal(model.predict(wide), plain.predict(X))
    with refused(af.TargetError):
        AttentionRegressor().fit(np.ones((5, 2)), np.arange(5.0))


def test_points_outside_are_moved_to_the_box() -> None:
    model = AttentionRegressor().fit(X, NOISY)
    far = np.array([[100.0, 0.0], [0.0, -50.0]])
    near = np.array([[X[:, 0].max(), 0.0], [0.0, X[:, 1].min()]])
    assert np.array_equal(model.predict(far), model.predict(near))
    with pytest.raises(af.DomainError):
        model.net_(far)


def test_several_outputs() -> None:
    y = np.stack([SMOOTH, 100 * X[:, 0] + 1000], axis=1)
    model = AttentionRegressor().fit(X, y)
    assert model.predict(X).shape == (150, 2)
    assert model.score(X, y) > 0.999
    assert AttentionRegressor().fit(X, y[:, :1]).predict(X).shape == (150, 1)


def test_frames_name_the_inputs_of_the_network() -> None:
    frame = pd.DataFrame(X, columns=["a", "b"])
    model = AttentionRegressor().fit(frame, SMOOTH)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    assert model.net_.target.names == ("a", "b")
    assert np.allclose(np.asarray(model.net_(frame)), model.predict(frame))
    assert AttentionRegressor(tol=1e-2).fit(frame, SMOOTH).net_.target.names == ("a", "b")
    odd = AttentionRegressor().fit(frame.rename(columns={"b": "b (m)"}), SMOOTH)
    assert odd.net_.target.names is None


def test_pipelines_and_grid_search() -> None:
    pipe = make_pipeline(StandardScaler(), AttentionRegressor())
    assert cross_val_score(pipe, X, NOISY, cv=3).min() > 0.8
    grid = {"attentionregressor__anchors": [4, 30], "attentionregressor__alpha": [1e-4, 1e3]}
    search = GridSearchCV(pipe, grid, cv=3).fit(X, NOISY)
    assert search.best_params_ == {"attentionregressor__anchors": 30, "attentionregressor__alpha": 1e-4}
    assert clone(search.best_estimator_[-1]).get_params()["anchors"] == 30


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_other_dtypes_are_kept_tame(dtype: str) -> None:
    model = AttentionRegressor(dtype=dtype).fit(X, NOISY)
    assert model.net_.dtype == dtype
    assert model.score(X, SMOOTH) > 0.9


WRONG = [
    {"alpha": -1.0}, {"alpha": "big"}, {"sharpness": 0.0}, {"anchors": 1}, {"anchors": 2.5}, {"tol": 0.1, "alpha": 1.0},
    {"tol": -1.0}, {"dtype": "float7"}, {"tol": 1e-6, "anchors": 5},
]  # fmt: skip


@pytest.mark.parametrize("given", WRONG, ids=str)
def test_wrong_parameters_and_too_many_anchors_are_refused(given) -> None:
    with refused():
        AttentionRegressor(**given).fit(X, NOISY)


def test_a_changed_network_is_seen_by_its_certificate() -> None:
    """The certificate is measured on the network's own numbers: another value of one anchor changes it."""
    model = AttentionRegressor(anchors=20).fit(X, NOISY)
    worse = moved(model.net_.network, "layer1.head0.memory_values", lambda values: values + 100.0 * np.eye(20)[:, 7:8])
    assert model.net_.with_network(worse).certificate.estimate.error > 5 * model.certificate_.estimate.error

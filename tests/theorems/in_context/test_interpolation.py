"""Links on a row of anchors: what anchors hold, measured against the bound, orders of convergence, the paper's form."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import special

import attnforge as af
from attnforge.lemmas.link_row import row_error
from attnforge.network import Attention, Network
from attnforge.targets.in_context.algorithm import Algorithm
from attnforge.targets.in_context.features import Features, places, prompt, weights_of
from attnforge.theorems.in_context.block import block
from attnforge.theorems.in_context.interpolation import row_features, row_for, scaled_states
from attnforge.theorems.in_context.sharpness import balanced

REACH = 4.0
LINKS = {
    "identity": lambda s: s,
    "clamp": lambda s: np.clip(s, -0.5, 0.5),
    "logistic": lambda s: special.expit(s) - 0.5,
    "exponential": np.exp,
}


def algorithm_of(link):
    return Algorithm(link, 0.1, delta=0.5)


def interpolated(link, anchors, asked, forms):
    """What the layers write at the examples and at their mirror images, where w.x is ``forms``, less their y."""
    row = row_for(algorithm_of(link), REACH, anchors, asked, "float64")
    features = row_features(row, 2)
    sharpness = replace(balanced("float64", REACH, REACH, True), row=row)
    y = np.full((len(forms), 1), 0.25 if link in ("identity", "clamp") else 0.0)
    x = np.stack([(forms + y[:, 0]) / 2, np.ones(len(forms))], axis=1)
    tokens = prompt(features, x, y, np.array([[2.0], [0.0]]))
    found = Network(block(algorithm_of(link), features, sharpness)[:3], features.width)(tokens)
    written = found[features.ahead + np.stack(places(len(forms))), features.residual.start]
    return row, written - np.stack([y[:, 0], -y[:, 0]])


def worst(link, anchors, asked):
    forms = np.linspace(-REACH, REACH, 4001)
    _, (found, _) = interpolated(link, anchors, asked, forms)
    return np.abs(found - LINKS[link](forms)).max()


def test_three_hard_anchors_by_hand():
    """Anchors -4, 0, 4: forms go to the nearest."""
    row, (found, mirrored) = interpolated("identity", 3, "hard", np.array([-3.0, 1.5, 2.0, 2.5, 9.0]))
    assert row.levels.tolist() == [-4.0, 0.0, 4.0]
    assert np.abs(found - [-4.0, 0.0, 2.0, 4.0, 4.0]).max() <= 1e-3
    assert np.abs(found + mirrored).max() <= 1e-12


def test_anchor_tokens_hold_their_constants():
    features = Features(2, 1, levels=(-2.0, 0.0, 2.0), answers=(5.0, 6.0, 7.0))
    held = features.constants()
    assert held.shape == (5, features.width)
    assert held[:, features.state].tolist() == [[1.0]] * 5
    assert held[:, features.unit.start].tolist() == [1.0, -1.0, 0.0, 0.0, 0.0]
    assert np.tanh(held[2:, features.tilt.start]).tolist() == pytest.approx([-0.5, 0.0, 0.5])
    assert held[2:, features.level.start].tolist() == [-2.0, 0.0, 2.0]
    assert held[2:, features.square.start].tolist() == [4.0, 0.0, 4.0]
    assert held[2:, features.answer.start].tolist() == [5.0, 6.0, 7.0]


def test_tokens_without_anchors_are_what_they_were():
    assert Features(3, 1).ahead == 2
    assert Features(3, 4).constants()[:, Features(3, 4).unit].tolist() == np.eye(4).tolist()


def test_anchors_take_up_the_state_times_their_level():
    row = row_for(algorithm_of("identity"), REACH, 21, "hard", "float64")
    features, w = row_features(row, 3), np.array([[1e3], [-1e-3], [0.7]])
    tokens = prompt(features, np.zeros((1, 3)), np.zeros((1, 1)), w)
    found = Network((Attention((scaled_states(features),), residual=True),), features.width)(tokens)
    held = found[features.states : features.ahead, features.scaled]
    assert np.abs(held / w.T - row.levels[:, None]).max() <= 1e-14
    assert np.array_equal(weights_of(features, found), w)


@pytest.mark.parametrize("asked", ["hard", "tuned"])
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("anchors", [3, 10, 33, 80])
def test_measured_is_within_the_bound_inside_and_beyond_the_range(link, asked, anchors):
    for reach in (1.0, REACH, 1.03 * REACH, 3 * REACH):
        forms = np.linspace(-reach, reach, 1001)
        row, (found, _) = interpolated(link, anchors, asked, forms)
        rounding = 1e-10 * np.abs(row.answers).max()
        assert np.abs(found - LINKS[link](forms)).max() <= row_error(row, reach, 0.0) + rounding


@pytest.mark.parametrize(("link", "asked"), [("identity", "hard"), ("clamp", "tuned"), ("logistic", "tuned")])
def test_the_bound_is_near_what_is_measured_and_fails_for_fewer_anchors(link, asked):
    row = row_for(algorithm_of(link), REACH, 40, asked, "float64")
    bound = row_error(row, REACH, 0.0)
    assert worst(link, 40, asked) >= 0.3 * bound
    assert worst(link, 10, asked) > bound


@pytest.mark.parametrize("asked", ["hard", "tuned"])
@pytest.mark.parametrize("link", LINKS)
def test_mirror_images_get_the_negative(link, asked):
    _, (found, mirrored) = interpolated(link, 20, asked, np.linspace(-3.0, 3.0, 301))
    assert np.abs(found + mirrored).max() <= 1e-10


@pytest.mark.parametrize(
    ("link", "asked", "least", "most"),
    [
        ("identity", "hard", 0.9, 1.1),
        ("clamp", "hard", 0.9, 1.1),
        ("clamp", "tuned", 0.9, 1.1),
        ("logistic", "hard", 0.9, 1.1),
        ("exponential", "hard", 0.8, 1.1),
        ("logistic", "tuned", 1.8, 2.3),
        ("exponential", "tuned", 1.6, 2.3),
    ],
)
def test_orders_of_convergence(link, asked, least, most):
    sizes = np.array([20, 40, 80, 160])
    errors = [worst(link, int(p), asked) for p in sizes]
    assert least <= -np.polyfit(np.log(sizes), np.log(errors), 1)[0] <= most


def test_tuned_least_squares_gains_digits_in_proportion_to_the_anchors():
    errors = [worst("identity", p, "tuned") for p in (8, 12, 16, 24)]
    assert errors[0] <= 1e-3
    assert errors[1] <= 1e-6
    assert errors[2] <= 1e-8
    assert errors[3] <= 1e-12


@pytest.mark.parametrize("link", ["identity", "logistic"])
def test_disturbed_scores_are_within_the_bound(link):
    row = row_for(algorithm_of(link), REACH, 20, "tuned", "float64")
    rng = np.random.default_rng(0)
    forms = np.linspace(-REACH, REACH, 2001)
    for d in (0.1, 1.0):
        scores = row.beta * (2 * forms[:, None] * row.levels - row.levels**2)
        found = special.softmax(scores + rng.choice([-d, d], scores.shape), axis=1) @ row.answers
        error = np.abs(found - LINKS[link](forms)).max()
        assert row_error(row, REACH, 0.0) < error <= row_error(row, REACH, d)
    assert row_error(row, REACH, 1e9) <= 2 * np.abs(row.answers).max() * (1 + 1e-8)


@pytest.mark.parametrize("asked", ["hard", "tuned"])
@pytest.mark.parametrize("link", ["identity", "clamp", "logistic"])
def test_the_papers_keys_of_anchors_and_tokens_give_the_same_step(link, asked):
    """Q_i = (x_i, y_i, 1, e_i), keys (2b L_k w, -2b L_k, -b L_k^2, M e_i'), values r(L_k) x_i': p n keys, averaged."""
    rng = np.random.default_rng(1)
    n, d, algorithm = 6, 3, algorithm_of(link)
    row = row_for(algorithm, REACH, 15, asked, "float64")
    x, w = rng.normal(size=(n, d)), rng.normal(size=(d, 1))
    y = rng.normal(size=(n, 1)) if link != "logistic" else np.zeros((n, 1))
    levels, unit = np.repeat(row.levels, n)[:, None], np.tile(np.eye(n), (row.count, 1))
    queries = np.concatenate([x, y, np.ones((n, 1)), np.eye(n)], axis=1)
    columns = (2 * row.beta * levels * w.T, -2 * row.beta * levels, -row.beta * levels**2, 1e6 * unit)
    values = np.repeat(row.answers, n)[:, None] * np.tile(x, (row.count, 1))
    paper = special.softmax(queries @ np.concatenate(columns, axis=1).T, axis=1) @ values
    features = row_features(row, d)
    sharpness = replace(balanced("float64", REACH, REACH, True), row=row)
    ours = Network(block(algorithm, features, sharpness), features.width)(prompt(features, x, y, w))
    assert np.abs(weights_of(features, ours)[:, 0] - (w[:, 0] - 0.1 * paper.mean(axis=0))).max() <= 1e-9


def test_wrong_rows_are_refused():
    good = algorithm_of("identity")
    with pytest.raises(af.RefusalError, match="functions of one number"):
        row_for(Algorithm("softmax", 0.1), 1.0, 10, "tuned", "float64")
    with pytest.raises(af.RefusalError, match="at least 3"):
        row_for(good, 1.0, 2, "tuned", "float64")
    with pytest.raises(af.RefusalError, match="tuned"):
        row_for(good, 1.0, 10, "soft", "float64")
    for reach in (0.0, float("inf"), float("nan")):
        with pytest.raises(af.RefusalError, match="positive and finite"):
            row_for(good, reach, 10, "tuned", "float64")

"""Iterates as pictures: coordinates, distances, paths."""

import numpy as np
import pytest
import torch

import attnforge as af
from attnforge.plot import trajectory
from attnforge.plot.style import COLUMN, WIDTH

STEPS = np.arange(1, 9)
PATH = np.stack([0.5**STEPS, 0.8**STEPS], axis=-1)


def test_coordinates_against_the_step():
    figure = trajectory(PATH, names=["a", "$b$"])
    axes = figure.axes[0]
    assert figure.get_figwidth() == COLUMN
    assert np.array_equal(axes.get_lines()[1].get_ydata(), PATH[:, 1])
    assert axes.get_lines()[0].get_xdata()[0] == 1
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a", "$b$"]
    assert not axes.get_legend().get_texts()[1].get_parse_math()


def test_names_that_begin_with_a_line_are_listed():
    texts = trajectory(PATH, names=["_a", "b"]).axes[0].get_legend().get_texts()
    assert [text.get_text() for text in texts] == ["_a", "b"]


def test_only_the_first_coordinates_of_many():
    axes = trajectory(np.ones((4, 9))).axes[0]
    assert len(axes.get_lines()) == 6
    assert axes.get_ylabel() == "coordinate (first 6 of 9)"


def test_distance_to_a_point():
    coordinates, distance = trajectory(PATH, reference=[0.0, 0.0]).axes
    assert np.allclose(distance.get_lines()[0].get_ydata(), np.hypot(0.5**STEPS, 0.8**STEPS))
    assert distance.get_yscale() == "log"
    assert len(coordinates.get_lines()) == 4  # and two dotted lines


def test_distance_to_iterates_that_agree_is_drawn_at_the_foot():
    distance = trajectory(PATH, reference=PATH).axes[1]
    assert (distance.get_lines()[0].get_ydata() > 0).all()


def test_several_trajectories_and_a_reference_each():
    runs, goals = np.stack([PATH, 2 * PATH, 3 * PATH]), np.zeros((3, 2))
    figure = trajectory(runs, goals)
    assert figure.axes[0].get_title() == "the first of 3 trajectories"
    median = figure.axes[1].get_lines()[-1].get_ydata()
    assert np.allclose(median, 2 * np.hypot(0.5**STEPS, 0.8**STEPS))


def test_a_path_over_the_contours():
    figure = trajectory(PATH, [0.0, 0.0], ["$u", "v"], loss=lambda w: (w**2).sum(axis=1))
    assert figure.get_figwidth() == WIDTH
    path = figure.axes[-1]
    assert (path.get_xlabel(), path.get_ylabel()) == ("$u", "v")
    assert np.array_equal(path.get_lines()[0].get_xydata(), PATH)
    figure.draw_without_rendering()


def test_a_network_that_runs_gradient_descent():
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(40, 2)), np.array([0.7, -0.4])
    net = af.in_context.LeastSquares(steps=12, learning_rate=0.5).build(features=2, examples=40)
    figure = trajectory(net.trajectory(x, x @ w), w)
    distance = figure.axes[1].get_lines()[0].get_ydata()
    assert distance[-1] < 0.1 * distance[0]
    figure.draw_without_rendering()


def test_weights_of_several_classes():
    """(steps, d, K) is one trajectory of d K coordinates if said so, and d trajectories else."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 2))
    net = af.in_context.SoftmaxRegression(classes=3, steps=4, learning_rate=0.5).build(features=2, examples=12)
    found = net.trajectory(x, np.arange(12) % 3)
    assert found.shape == (4, 2, 3)
    coordinates, distance = trajectory(found, found[-1], weights=2).axes
    assert coordinates.get_title() == ""
    assert [line.get_label() for line in coordinates.get_lines()[::2]] == [
        f"w{i},{j}" for i in (0, 1) for j in range(3)
    ]
    assert np.array_equal(coordinates.get_lines()[2].get_ydata(), found[:, 0, 1])
    wanted = np.sqrt(np.square(found - found[-1]).sum(axis=(1, 2)))
    assert np.allclose(distance.get_lines()[0].get_ydata(), wanted, atol=1e-12)
    batch = np.stack([found, 2 * found])
    assert trajectory(batch, batch[:, -1], weights=2).axes[0].get_title() == "the first of 2 trajectories"


def test_tensors_that_require_gradients():
    path = torch.tensor(PATH, requires_grad=True)
    figure = trajectory(path, path[-1], loss=lambda w: torch.tensor(w, requires_grad=True).square().sum(dim=1))
    assert np.array_equal(figure.axes[0].get_lines()[0].get_ydata(), PATH[:, 0])


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda: trajectory(np.ones(3)), "Iterates have shape"),
        (lambda: trajectory(np.ones((0, 2))), "Iterates have shape"),
        (lambda: trajectory([[np.inf, 0.0]]), "must be finite"),
        (lambda: trajectory(PATH, np.zeros(3)), "The reference of iterates"),
        (lambda: trajectory(PATH[None, None], np.zeros((7, 2))), "The reference of iterates"),
        (lambda: trajectory(PATH, weights=2), r"\(..., steps, d, K\)"),
        (lambda: trajectory(PATH, weights=0), "`weights` is the number of axes"),
        (lambda: trajectory(PATH, names=["a"]), "a name for each of the 2"),
        (lambda: trajectory(np.ones((4, 3)), loss=lambda w: w[:, 0]), "two coordinates"),
    ],
)
def test_what_does_not_fit_is_refused(call, complaint):
    with pytest.raises(af.DomainError, match=complaint):
        call()

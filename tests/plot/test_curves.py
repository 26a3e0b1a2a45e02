"""Figures of numbers: rates, trajectories of iterates, and runs of programs."""

from io import BytesIO

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

import attnforge as af
from attnforge.plot import Curve, program, rate_curves, trajectory
from tests.refusals import refused

STEPS = np.arange(1, 9)
PATH = np.stack([0.5**STEPS, 0.8**STEPS], axis=-1)
HYPOT = np.hypot(0.5**STEPS, 0.8**STEPS)


def rates(*curves, **options):
    return rate_curves(curves, x_label="p", y_label="error", **options)


def said(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_curves_differ_in_colour_marker_and_name():
    lines = rates(*(Curve(f"c{i}", [1, 2, 4], [1 / (i + 1), 0.5, 0.2]) for i in range(6))).axes[0].lines
    assert len({line.get_label() for line in lines}) == 6
    assert len({line.get_color() for line in lines}) == len({line.get_marker() for line in lines}) == 6


def test_a_slope_is_drawn_as_a_line_of_that_slope_with_its_name():
    axes = rates(Curve("c", [10, 100, 1000], [1, 0.1, 0.02]), slopes=[-1.5]).axes[0]
    x, y = axes.lines[-1].get_data()
    assert np.log(y[1] / y[0]) / np.log(x[1] / x[0]) == pytest.approx(-1.5)
    assert "slope -1.5" in [text.get_text() for text in axes.texts]
    assert len(rates(Curve("c", [10, 20], [0.5, np.nan]), slopes=[-1]).axes[0].lines) == 1  # one good point has none


def test_names_are_drawn_as_they_are_and_nameless_curves_stay_out_of_the_legend():
    names = ["$\\frac{$", "_a", "_child0", "plain", "\x1b[31m", "", "_"]
    figure = rates(*(Curve(name, [1, 2], [1, 2]) for name in names))
    texts = figure.legends[0].get_texts()
    assert [text.get_text() for text in texts] == ["$\\frac{$", "_a", "_child0", "plain", "\\x1b[31m"]
    assert not any(text.get_parse_math() for text in texts)
    figure.savefig(BytesIO(), dpi=40)
    assert not rates(Curve("", [1, 2], [1, 2])).legends


def test_no_curves_are_refused():
    with refused(af.TargetError):
        rates(slopes=[-1])


def test_coordinates_against_the_step_and_their_distance_to_a_point():
    figure = trajectory(PATH, reference=[0.0, 0.0], names=["_a", "$b$"])
    coordinates, distance = figure.axes
    assert np.array_equal(trajectory(PATH).axes[0].get_lines()[1].get_ydata(), PATH[:, 1])
    assert coordinates.get_lines()[0].get_xdata()[0] == 1
    assert said(coordinates)[:2] == ["_a", "$b$"]
    assert not coordinates.get_legend().get_texts()[1].get_parse_math()
    assert np.allclose(distance.get_lines()[0].get_ydata(), HYPOT)
    assert distance.get_yscale() == "log"
    assert (trajectory(PATH, reference=PATH).axes[1].get_lines()[0].get_ydata() > 0).all()  # at the foot
    assert len(trajectory(np.ones((4, 9))).axes[0].get_lines()) == 6  # the first of many


def test_a_path_over_the_contours_also_of_tensors_that_require_gradients():
    path = torch.tensor(PATH, requires_grad=True)
    for given, loss in ((PATH, lambda w: (w**2).sum(axis=1)), (path, lambda w: torch.tensor(w).square().sum(dim=1))):
        figure = trajectory(given, [0.0, 0.0], ["$u", "v"], loss=loss)
        axes = figure.axes[-1]
        assert (axes.get_xlabel(), axes.get_ylabel()) == ("$u", "v")
        assert np.array_equal(axes.get_lines()[0].get_xydata(), PATH)
        figure.draw_without_rendering()


def test_networks_that_run_gradient_descent():
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(40, 2)), np.array([0.7, -0.4])
    net = af.in_context.LeastSquares(steps=12, learning_rate=0.5).build(features=2, examples=40)
    distance = trajectory(net.trajectory(x, x @ w), w).axes[1].get_lines()[0].get_ydata()
    assert distance[-1] < 0.1 * distance[0]


def test_weights_of_several_classes():
    """(steps, d, K) is one trajectory of d K coordinates if said so, and d trajectories else."""
    found = np.random.default_rng(0).normal(size=(4, 2, 3))
    coordinates, distance = trajectory(found, found[-1], weights=2).axes
    labels = [line.get_label() for line in coordinates.get_lines()[::2]]
    assert labels == [f"w{i},{j}" for i in (0, 1) for j in range(3)]
    assert np.array_equal(coordinates.get_lines()[2].get_ydata(), found[:, 0, 1])
    wanted = np.sqrt(np.square(found - found[-1]).sum(axis=(1, 2)))
    assert np.allclose(distance.get_lines()[0].get_ydata(), wanted, atol=1e-12)
    median = trajectory(np.stack([PATH, 2 * PATH, 3 * PATH]), np.zeros((3, 2))).axes[1].get_lines()[-1].get_ydata()
    assert np.allclose(median, 2 * HYPOT)
    assert "2 trajectories" in trajectory(np.stack([found, 2 * found]), weights=2).axes[0].get_title()


ODD = {
    "one axis": lambda: trajectory(np.ones(3)),
    "no steps": lambda: trajectory(np.ones((0, 2))),
    "infinite": lambda: trajectory([[np.inf, 0.0]]),
    "another reference": lambda: trajectory(PATH, np.zeros(3)),
    "other references": lambda: trajectory(PATH[None, None], np.zeros((7, 2))),
    "no matrices": lambda: trajectory(PATH, weights=2),
    "no weights": lambda: trajectory(PATH, weights=0),
    "few names": lambda: trajectory(PATH, names=["a"]),
    "contours of three": lambda: trajectory(np.ones((4, 3)), loss=lambda w: w[:, 0]),
}


@pytest.mark.parametrize("call", ODD.values(), ids=ODD)
def test_what_does_not_fit_is_refused(call):
    with refused(af.DomainError):
        call()


@pytest.fixture(scope="module")
def induction():
    return af.programs.compile(af.programs.library["induction"], max_length=12)


def test_a_program_has_a_map_a_head_and_a_line_a_register(induction):
    *maps, trace = program(induction, list("abca")).axes
    assert [axes.get_title() for axes in maps] == ["1: previous", "2: next"]
    assert [label.get_text() for label in maps[0].get_xticklabels()] == ["·", "a", "b", "c", "a"]
    assert np.argmax(maps[0].images[0].get_array(), axis=1).tolist() == [0, 1, 2, 3]
    names = [label.get_text() for label in trace.get_yticklabels()]
    assert names[-1].endswith("result")
    assert len(names) == len(induction.trace(list("abca")).registers)


def test_words_of_a_program_are_drawn_as_they_are_and_others_refused(induction):
    figure = Figure(figsize=(9, 5))
    net = af.programs.compile(af.programs.tokens, ["$x$", "<b>"], 4)
    axes = program(net, ["$x$", "<b>"], ax=figure)
    figure.draw_without_rendering()
    assert "$x$" in [text.get_text() for text in np.ravel(axes)[-1].texts]
    for wrong in (lambda: program(induction, ["a"] * 25), lambda: program(3, ["a"])):
        with refused(af.TargetError):
            wrong()

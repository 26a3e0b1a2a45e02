"""Figures along a line: anchors, gaps, axes and words."""

from functools import cache

import numpy as np
import pytest

import attnforge as af
from attnforge.plot.keys import Row
from attnforge.plot.line import has_uneven_gaps, line
from tests.plot.test_wiring import sum_of_terms


@cache
def kinked():
    return af.compile(lambda x: np.clip(2 * x, -1, 1), {"x": (-1, 1)}, tol=1e-4)


def said(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def row(positions, weights=(1.0,), offset=0.0):
    return Row(np.array(weights), offset, np.array(positions), None, "anchors")


def test_a_kink_shows_its_anchors_gaps_and_error():
    net = kinked()
    top, gaps, bottom = line(net).axes
    at = np.sort(net.network.heads[0].claims.positions[:, 0])
    inside = at[(at >= -1) & (at <= 1)]
    assert said(top)[2:] == [f"anchors ({len(inside)})", "their values"]
    assert gaps.get_yscale() == "log"
    assert gaps.get_ylim()[0] < np.diff(inside).min()
    assert bottom.get_yscale() == "log"
    assert said(bottom)[1].startswith("largest error seen ")
    assert said(bottom)[1].endswith("(not a bound)")
    along = bottom.get_lines()[0].get_xdata()
    assert np.diff(along).min() < np.diff(inside).min()  # sampled between the closest anchors
    assert np.all(np.diff(along) > 0)
    assert bottom.get_xlabel() == "x"


def test_the_dashed_line_is_the_largest_error_seen():
    net = kinked()
    bottom = line(net).axes[-1]
    error, seen = (entry.get_ydata() for entry in bottom.get_lines())
    assert error.max() <= seen[0]
    assert seen[0] >= net.certificate.estimate.error
    assert seen[0] == pytest.approx(net.certificate.estimate.error, rel=0.05)
    assert error.min() >= 0.99 * bottom.get_ylim()[0]  # errors of zero are drawn at the foot of the axis


def test_values_far_from_the_target_are_not_drawn():
    net = af.compile("x^3 - x", {"x": (-2, 2)}, tol=1e-13, construction="polynomial")
    top, bottom = line(net).axes
    *others, drawn = said(top)
    assert others == ["target", "attention output"]
    assert 0 < int(drawn.removeprefix("anchors (").removesuffix(")")) < net.anchors
    assert top.get_ylim()[1] < 8
    assert bottom.get_lines()[0].get_ydata().max() < 1e-13


def test_a_proved_bound_is_drawn_from_zero():
    net = af.constructions.max_affine(lambda x: np.sin(3 * x[..., 0]), af.Box(0, 1, shape=(1,)), cells=12, lipschitz=3)
    top, bottom = line(net).axes
    assert said(top)[2:] == ["cells (12)", "their values"]
    assert bottom.get_yscale() == "linear"
    assert said(bottom)[1] == f"conditional bound {net.certificate.bound:.3g}"


def test_one_form_of_several_inputs_is_followed_through_all_its_values():
    net = af.compile("cos(x - 2*y)", {"x": (-1, 1), "y": (0, 1)}, tol=1e-4)
    figure = line(net)
    target = figure.axes[0].get_lines()[0].get_ydata()
    assert target.max() == pytest.approx(1.0, abs=1e-4)
    assert target.min() == pytest.approx(np.cos(3))  # at the corner (-1, 1)
    assert figure.axes[-1].get_xlabel().startswith("linear form")
    assert "1 head" in figure.get_suptitle()


def test_sums_are_drawn_on_the_diagonal_with_their_size():
    net = sum_of_terms()
    figure = line(net)
    assert figure.axes[-1].get_xlabel() == "position on the diagonal of the domain"
    assert f"{net.heads} heads, {net.anchors} anchors" in figure.get_suptitle()


def test_a_slow_function_is_sampled_less(clock):
    net = af.compile(lambda x: np.sin(3 * x), {"x": (0, 1)}, tol=1e-3)
    clock.tick = 100.0
    assert len(line(net).axes[0].get_lines()[0].get_xdata()) == 65


def test_uneven_gaps():
    assert not has_uneven_gaps(row([0.0, 1.0, 2.0, 6.0]))
    assert has_uneven_gaps(row([0.0, 1.0, 2.0, 6.1]))
    assert not has_uneven_gaps(row([0.0]))
    assert not has_uneven_gaps(row([]))


@pytest.mark.parametrize("text", ["$\\frac{1}{0}$ and $x_", "a\nb\tc", "x" * 500, "sin(x) + " * 60])
def test_text_is_not_markup(text, monkeypatch):
    net = kinked()
    monkeypatch.setattr(net.target, "describe", lambda: text)
    figure = line(net)
    figure.draw_without_rendering()
    assert text.split()[0][:40] in figure.get_suptitle()
    assert len(figure.get_suptitle()) < 190
    assert figure.get_suptitle().count("\n") <= 1

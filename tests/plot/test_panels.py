"""Where figures are drawn: the same words for every one of them, in new figures and in the caller's."""

import inspect
from functools import cache

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import attnforge as af
from attnforge import programs
from attnforge.plot.notebook_figure import NotebookFigure
from attnforge.plot.panels import panels

CURVES = [af.plot.Curve("hard", [10, 20, 40], [0.1, 0.05, 0.025])]
STEPS = np.stack([0.5 ** np.arange(1, 9), 0.8 ** np.arange(1, 9)], axis=-1)
NETS = {
    "truncated": lambda: af.constructions.truncated_linear([1.0], 0.1, -1, 1, anchors=5),
    "fitted": lambda: af.compile("sin(3*x)", {"x": (-1, 1)}, tol=1e-2),
    "graded": lambda: af.compile("abs(x)", {"x": (-1, 1)}, tol=1e-2, construction="tensor_grid"),
    "sum": lambda: af.compile("sin(5*x) + abs(y - 1)", {"x": (-1, 1), "y": (0, 2)}, tol=1e-1, construction="additive"),
    "heads": lambda: af.constructions.multihead_truncated_linear([1.0], 0.1, -1, 1, tokens=10, heads=2),
    "cells": lambda: af.constructions.max_affine("x*y", {"x": (0, 1), "y": (0, 1)}, cells=3),
    "intervals": lambda: af.constructions.max_affine("x^2", {"x": (0, 1)}, cells=4),
    "table": lambda: af.compile(([0.0, 0.5, 1.0], [0.0, 0.25, 1.0])),
    "program": lambda: programs.compile(programs.library["reverse"], max_length=8),
}
DRAWN = {  # what is drawn, and in how many panels
    "overview": (lambda **at: af.plot.overview(built("truncated"), **at), 3),
    "overview, fitted": (lambda **at: af.plot.overview(built("fitted"), **at), 3),
    "section": (lambda **at: af.plot.section(built("fitted"), **at), 2),
    "section, graded": (lambda **at: af.plot.section(built("graded"), **at), 3),
    "section, plane": (lambda **at: af.plot.section(built("cells"), **at), 3),
    "section, table": (lambda **at: af.plot.section(built("table"), **at), 2),
    "attention_map": (lambda **at: af.plot.attention_map(built("fitted"), **at), 1),
    "anchors": (lambda **at: af.plot.anchors(built("fitted"), **at), 1),
    "anchors, graded": (lambda **at: af.plot.anchors(built("graded"), **at), 2),
    "anchors, heads": (lambda **at: af.plot.anchors(built("heads"), **at), 1),
    "anchors, sum": (lambda **at: af.plot.anchors(built("sum"), **at), 2),
    "partition": (lambda **at: af.plot.partition(built("cells"), **at), 1),
    "partition, intervals": (lambda **at: af.plot.partition(built("intervals"), **at), 2),
    "error_map": (lambda **at: af.plot.error_map(built("fitted"), **at), 1),
    "error_map, plane": (lambda **at: af.plot.error_map(built("cells"), **at), 1),
    "graph": (lambda **at: af.plot.graph(built("sum"), **at), 1),
    "program": (lambda **at: af.plot.program(built("program"), list("abcd"), **at), 3),
    "rate_curves": (lambda **at: af.plot.rate_curves(CURVES, x_label="p", y_label="error", **at), 1),
    "trajectory": (lambda **at: af.plot.trajectory(STEPS, **at), 1),
    "trajectory, reference": (lambda **at: af.plot.trajectory(STEPS, [0.0, 0.0], **at), 2),
    "weighted_sum": (lambda **at: af.plot.weighted_sum(built("fitted"), **at), 3),
    "net.plot": (lambda **at: built("truncated").plot(**at), 3),
    "optimality": (lambda **at: af.optimality(built("fitted")).plot(**at), 1),
}


@cache
def built(kind):
    return NETS[kind]()


@pytest.fixture(autouse=True)
def coarse(monkeypatch):
    monkeypatch.setattr("attnforge.plot.plane.COUNTS", (9,))


def test_every_function_of_the_package_takes_both_and_is_tried_here():
    functions = [name for name in af.plot.__all__ if inspect.isfunction(getattr(af.plot, name))]
    for name in functions:
        parameters = inspect.signature(getattr(af.plot, name)).parameters
        for each in ("ax", "figsize"):
            assert parameters[each].kind is inspect.Parameter.KEYWORD_ONLY
            assert parameters[each].default is None
    assert set(functions) <= {name.partition(",")[0] for name in DRAWN}


@pytest.mark.parametrize("name", DRAWN)
def test_panels_of_the_callers_are_drawn_into_and_returned(name):
    draw, count = DRAWN[name]
    figure = Figure(figsize=(4 * count, 4), layout="constrained")
    axes = figure.subplots(1, count)
    found = draw(ax=axes)
    assert found is axes if count == 1 else all(a is b for a, b in zip(found, axes, strict=True))
    assert all(each.has_data() or each.texts for each in figure.axes[:count])
    assert figure.get_suptitle() == ""  # that is the caller's
    assert not figure.legends
    figure.draw_without_rendering()


@pytest.mark.parametrize("name", DRAWN)
def test_a_part_of_the_callers_figure_gets_the_panels_it_needs(name):
    draw, count = DRAWN[name]
    whole = Figure(figsize=(12, 5), layout="constrained")
    left, right = whole.subfigures(1, 2)
    found = draw(ax=right)
    assert isinstance(found, Axes) if count == 1 else len(found) == count
    assert len(right.axes) >= count
    assert not left.axes
    whole.draw_without_rendering()


@pytest.mark.parametrize("name", [name for name, (_, count) in DRAWN.items() if count > 1])
def test_too_few_panels_are_refused_with_their_number(name):
    draw, count = DRAWN[name]
    complaint = f"has {count} panels, and `ax` must be as many Axes. Got 1. Pass {count} Axes, or a Figure or SubFigure"
    with pytest.raises(af.TargetError, match=complaint):
        draw(ax=Figure().subplots())


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"ax": "left"}, "`ax` is made of matplotlib's Axes.* Got str"),
        ({"ax": [1.0]}, "Got float. Pass an Axes"),
        ({"ax": []}, "Got none"),
        ({"ax": Figure().add_subplot(projection="polar")}, "straight axes. Got projection polar"),
        ({"ax": Figure().subplots(1, 2)}, "This figure has 1 panel, .* Got 2"),
        ({"ax": Figure().subplots(), "figsize": (3, 2)}, "`figsize` is the size of a new figure.* Leave one out"),
        ({"figsize": (3, 0)}, r"`figsize` is a width and a height in inches.* Got \(3, 0\)"),
        ({"figsize": 3}, "Got 3"),
        ({"figsize": (3, np.nan)}, "nan"),
        ({"figsize": (720, 340)}, "at most 300"),
        ({"figsize": ("a", "b")}, "'a', 'b'"),
    ],
)
def test_what_cannot_be_drawn_into_is_refused(settings, complaint):
    with pytest.raises(af.TargetError, match=complaint):
        af.plot.rate_curves(CURVES, x_label="p", y_label="error", **settings)


def test_a_given_panel_says_what_it_shows_and_keeps_its_legend_inside():
    axes = Figure().subplots()
    af.plot.error_map(built("fitted"), ax=axes)
    assert axes.get_title() == "tensor_grid:  sin(3*x)"
    assert axes.get_legend().get_bbox_to_anchor().bounds == axes.bbox.bounds
    plane = Figure().subplots()
    af.plot.error_map(built("cells"), ax=plane)
    assert plane.get_title().split("\n")[-1].startswith("error; proved bound")


def test_legends_of_narrow_figures_have_fewer_columns():
    wide, narrow = (af.plot.section(built("fitted"), figsize=(width, 5)).axes[0].get_legend() for width in (7, 3))
    assert narrow._ncols < wide._ncols == 3


@pytest.mark.parametrize("name", DRAWN)
def test_a_new_figure_is_as_large_as_asked_for_and_no_text_leaves_it(name):
    draw, count = DRAWN[name]
    size = (3.4, 1.6 + 1.4 * count)
    figure = draw(figsize=size)
    assert isinstance(figure, NotebookFigure)
    assert figure.get_size_inches().tolist() == pytest.approx(size)
    figure.draw_without_rendering()
    renderer = FigureCanvasAgg(figure).get_renderer()
    texts = [text for text in figure.findobj(lambda artist: hasattr(artist, "get_text")) if text.get_text().strip()]
    for text in texts:
        if text.get_visible() and not text.get_clip_on():
            extent = text.get_window_extent(renderer)
            assert extent.x0 >= -1, text
            assert extent.x1 <= figure.bbox.width + 1, text


def test_panels_are_new_given_or_made_in_a_figure():
    assert panels(None, None, (2, 2)).given == ""
    assert panels(Figure(), None, (2, 2)).given == "figure"
    assert panels(Figure().subplots(), None, (2, 2)).given == "axes"

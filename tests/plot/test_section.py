"""Every kind of target has a figure: which one, and what it says."""

import numpy as np
import pytest
from matplotlib.figure import Figure

import attnforge as af
from attnforge.plot import section

LINE = af.Box(0, 1, shape=(1,))
SQUARE = {"x": (-1, 1), "y": (0, 2)}


def ring(x):
    return np.sin(x * np.roll(x, -1, axis=-1)).sum(axis=-1)


LINES = {
    "formula": lambda: af.compile("sin(3*x) + x", {"x": (0, 1)}, tol=0.1),
    "cells": lambda: af.constructions.max_affine(lambda x: np.sin(3 * x[..., 0]), LINE, cells=12, lipschitz=3),
    "outputs": lambda: af.compile(lambda x: np.stack([np.sin(x), x**2], axis=-1), LINE, tol=1e-3),
    "tokens": lambda: af.constructions.two_layer(
        lambda x: np.sort(x, axis=-2), af.Box(0, 1, shape=(2, 1)), grid=4, lipschitz=1
    ),
    "ridge": lambda: af.compile("cos(x + y + 2*z)", dict.fromkeys("xyz", (-1, 1)), tol=1e-4),
    "sum": lambda: af.compile(ring, af.Box(-1, 1, shape=(4,)), tol=1e-2),
}
MAPS = {
    "grid": lambda: af.compile("exp(-x^2)*cos(3*y)", SQUARE, tol=1e-3),
    "ridge": lambda: af.compile("abs(x - 2*y)", SQUARE, tol=1e-3, construction="ridge"),
    "sum": lambda: af.compile("sin(5*x) + abs(y - 1)", SQUARE, tol=1e-3),
    "sampled": lambda: af.constructions.max_affine(lambda x: x[..., 0] * x[..., 1], af.Box(0, 1, shape=(2,)), cells=4),
    "clamp": lambda: af.constructions.max_affine("clamp(2*x - y, -1, 1)", SQUARE, cells=3, sharpness="hard"),
    "pairs": lambda: af.constructions.cross_attention(
        lambda x, y: x[..., 0] * y[..., 0], LINE, LINE, grid=2, lipschitz=2
    ),
}


def check_drawn(figure):
    assert isinstance(figure, Figure)
    figure.draw_without_rendering()  # laid out and typeset


@pytest.fixture
def coarse(monkeypatch):
    monkeypatch.setattr("attnforge.plot.plane.COUNTS", (9, 33))


def said(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


@pytest.mark.parametrize("name", LINES)
def test_lines_show_value_and_error(name):
    net = LINES[name]()
    figure = net.plot()
    top, bottom = figure.axes[0], next(axes for axes in figure.axes if axes.get_ylabel() == "error")
    assert said(top)[:2] == ["target", "attention output"]
    assert len(said(bottom)) == 2
    error = bottom.get_lines()[0].get_ydata()
    assert 0 < error.max() <= (net.certificate.bound or np.inf)
    check_drawn(figure)


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.usefixtures("coarse")
def test_maps_show_target_output_and_error(name):
    net = MAPS[name]()
    figure = net.plot()
    left, middle, right = figure.axes[:3]
    wanted, found = (axes.images[0].get_array() for axes in (left, middle))
    assert wanted.shape == (33, 33)
    logs = right.images[0].get_array()
    assert (left.get_xlabel(), left.get_ylabel()) == (
        ("X", "Y") if name == "pairs" else net.target.names or ("x0", "x1")
    )
    shown = np.log10(np.maximum(np.abs(wanted - found), 10.0 ** logs.min()))
    assert np.allclose(shown, logs, atol=1e-3)
    check_drawn(figure)


def test_a_domain_without_width_is_drawn_along_what_varies():
    net = af.compile("exp(-x^2)*cos(3*y)", {"x": (-1, 1), "y": (1, 1)}, tol=1e-2)
    figure = section(net)
    assert figure.axes[0].get_lines()[0].get_ydata().min() == pytest.approx(np.cos(3))  # at x = 0
    check_drawn(figure)


def test_a_constant_is_drawn():
    net = af.compile(lambda x: np.full(x.shape[:-1], 3.0), af.Box(-1, 1, shape=(3,)), tol=1e-2)
    figure = section(net)
    assert figure.axes[-1].get_xlabel() == "position on the diagonal of the domain"
    check_drawn(figure)

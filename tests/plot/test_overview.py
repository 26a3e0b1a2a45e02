"""The overview figure: three panels, what they say, and text that must not be taken for markup."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from matplotlib.figure import Figure

import attnforge as af
from attnforge.plot import overview
from attnforge.targets import Formula

NETS = {
    "anchors": lambda: af.constructions.truncated_linear([1.0, -0.5], 0.1, -1, 1, anchors=9),
    "open": lambda: af.constructions.truncated_linear([1.0], 0.1, -1, 1, anchors=9, grid="open", layout="literal"),
    "tokens": lambda: af.constructions.truncated_linear([[1.0], [2.0]], 0.1, -1, 1, anchors=9),
    "heads": lambda: af.constructions.multihead_truncated_linear([1.0], 0.1, -1, 1, tokens=10, heads=3),
    "gate": lambda: af.constructions.gate([1.0], 0.1, -1, 1, sharpness=20.0),
    "outputs": lambda: af.constructions.gate([1.0], 0.1, -1, 1, outputs=3, output=2),
    "formula": lambda: af.compile("relu(2*x + y)", {"x": (-1, 1), "y": (-1, 1)}, 1e-3),
    "bfloat16": lambda: af.constructions.truncated_linear([1.0], 0.0, -1, 1, anchors=8, dtype="bfloat16"),
}


@cache
def built(kind):
    return NETS[kind]()


def legend(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


@pytest.mark.parametrize("kind", NETS)
def test_every_kind_is_drawn(kind):
    net = built(kind)
    figure = net.plot()
    assert isinstance(figure, Figure)
    top, middle, bottom = figure.axes[:3]
    assert legend(top)[:2] == ["target", "attention output"]
    assert legend(middle) == ["|output − target|", f"proved bound {net.certificate.bound:.3g}"]
    assert (top.get_ylabel(), middle.get_ylabel()) == ("value", "error")
    assert bottom.get_ylabel().startswith("key")
    assert "w · x + t" in bottom.get_xlabel()
    figure.draw_without_rendering()


def test_a_figure_is_saved(tmp_path):
    built("gate").plot().savefig(tmp_path / "figure.png", dpi=40)
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_curves_are_the_numbers():
    net = built("anchors")
    top, middle, _ = overview(net).axes[:3]
    target, output = (line.get_ydata() for line in top.get_lines()[:2])
    error, bound = middle.get_lines()[0].get_ydata(), middle.get_lines()[1].get_ydata()
    assert np.allclose(np.abs(output - target), error, atol=1e-12)
    assert error.max() <= bound[0] == net.certificate.bound
    assert target.min() == -1
    assert target.max() == 1


def test_anchors_are_counted_in_the_legend():
    assert "anchors (9)" in legend(built("anchors").plot().axes[0])
    texts = legend(built("heads").plot().axes[0])
    assert "anchors (18)" in texts
    assert any(text.startswith("ghosts") for text in texts)
    assert legend(built("gate").plot().axes[0])[2:] == ["low key", "high key"]


def test_the_map_shows_every_key():
    assert built("heads").plot().axes[2].images[0].get_array().shape[0] == 30
    gate = built("gate").plot().axes[2]
    assert [t.get_text() for t in gate.get_yticklabels()] == ["low -1", "high 1", "self"]


def test_fitted_heads_show_their_attention_too():
    net = af.compile("sin(3*x)", {"x": (-1, 1)}, tol=1e-2)
    figure = net.plot()
    assert [axes.get_ylabel() for axes in figure.axes] == ["value", "error", "key", "attention weight"]
    shown = figure.axes[2].images[0].get_array()
    assert shown.shape[0] == net.anchors
    assert np.allclose(shown.sum(axis=0), 1)
    figure.draw_without_rendering()


def test_networks_of_several_layers_show_none():
    net = af.constructions.two_layer("x^2", {"x": (0, 1)}, grid=4)
    assert [axes.get_ylabel() for axes in net.plot().axes] == ["value", "error"]


@pytest.mark.parametrize("text", ["$\\frac{1}{0}$ and $x_", "<b>bold</b> & [red]markup[/red] \\alpha_{", "x" * 500])
def test_text_is_not_markup(text):
    net = af.compile("clamp(x, -1, 1)", {"x": (-2, 2)}, 0.1, construction="truncated_linear")

    class Hostile(Formula):
        def describe(self):
            return text

    net = replace(net, target=Hostile("clamp(x, -1, 1)", net.domain, ("x",)))
    figure = net.plot()
    figure.draw_without_rendering()
    title = figure.get_suptitle()
    assert text[:50] in title
    assert len(title) < 120


def test_a_form_that_does_not_vary_is_drawn():
    net = af.constructions.gate([0.0], 0.25, -1, 1)
    net.plot().draw_without_rendering()

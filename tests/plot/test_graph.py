"""The picture of the graph: every text in its box, and nothing on top of anything."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

import attnforge as af
from attnforge.plot import graph
from tests.plot.test_wiring import relu, sum_of_terms

NETS = {
    "sum": sum_of_terms,
    "heads": lambda: af.constructions.multihead_truncated_linear([1.0] * 9, 0.1, -1, 1, tokens=10, heads=10),
    "relu": lambda: relu(2, 4, 12, 12),
    "deep": lambda: relu(2, *([3] * 12), 1),
    "in context": lambda: af.in_context.Ridge(steps=2, learning_rate=0.5).build(features=2, examples=9),
    "bare": lambda: af.constructions.gate([1.0, 2.0], 0.0, -1, 1).network,
    "tokens": lambda: af.constructions.two_layer(
        lambda x: np.sort(x, axis=-2), af.Box(0, 1, shape=(2, 1)), grid=4, lipschitz=1
    ),
}


def boxes(figure):
    """Extents of all texts in pixels."""
    renderer = FigureCanvasAgg(figure).get_renderer()
    texts = [text for text in figure.axes[0].texts if text.get_text()]
    return [(text.get_text(), text.get_window_extent(renderer)) for text in texts]


@pytest.mark.parametrize("kind", NETS)
def test_no_text_touches_another_or_leaves_the_figure(kind):
    figure = graph(NETS[kind]())
    found = boxes(figure)
    for (first, a), (second, b) in itertools.combinations(found, 2):
        assert not a.overlaps(b), (first, second)
    width, height = figure.get_size_inches() * figure.dpi
    assert all(box.x0 >= 0 and box.x1 <= width and box.y0 >= 0 and box.y1 <= height for _, box in found)
    assert all(text.get_fontsize() >= 7 for text in figure.axes[0].texts if text.get_text())


def test_networks_say_their_target_or_their_shape():
    assert graph(NETS["bare"]()).get_suptitle() == "gate:  any number of tokens of 2 features"
    assert graph(NETS["in context"]()).get_suptitle().startswith("in_context:  least squares")


@pytest.mark.parametrize("text", ["$\\frac{1}{0}$", "W" * 200, "\x00\x1b[31m", "a\nb"])
def test_names_are_cut_and_are_not_markup(text, tmp_path):
    net = sum_of_terms()
    encode, attention = net.network.layers
    heads = tuple(replace(head, claims=replace(head.claims, construction=text)) for head in attention.heads)
    network = replace(net.network, layers=(encode, replace(attention, heads=heads)))
    net = af.Compiled(network, net.target, net.certificate, text, net.dtype)
    figure = graph(net)
    figure.savefig(tmp_path / "figure.png", dpi=40)
    for (_, a), (_, b) in itertools.combinations(boxes(figure), 2):
        assert not a.overlaps(b)

"""The picture of the graph: who feeds whom by the weights, every text in its box, and nothing on top of anything."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.patches import FancyBboxPatch
from torch import nn

import attnforge as af
from attnforge import in_context
from attnforge.plot import graph
from tests.catalogue import network
from tests.refusals import refused

LINE = af.Box(0, 1, shape=(1,))


def relu(*widths):
    torch.manual_seed(0)
    layers = [each for a, b in itertools.pairwise(widths) for each in (nn.Linear(a, b), nn.ReLU())]
    return af.constructions.relu_network(nn.Sequential(*layers[:-1]), af.Box(-1, 1))


def sum_of_terms():
    """Found by probing: a proof for three inputs would take longer than all these tests."""
    domain = {"x": (-1, 1), "y": (0, 2), "z": (0, 1)}
    return af.compile(lambda p: np.sin(2 * p[..., 0]) + p[..., 1] ** 2 + p[..., 0] * p[..., 2], domain, tol=0.1)


def steps(**options):
    return in_context.LeastSquares(steps=40, learning_rate=0.1).build(2, **options)


NETS = {
    "sum": sum_of_terms,
    "heads": lambda: af.constructions.multihead_truncated_linear([1.0] * 9, 0.1, -1, 1, tokens=10, heads=10),
    "folded": lambda: relu(2, 4, 64, 1),
    "deep": lambda: relu(2, *([3] * 12), 1),
    "bare": lambda: af.constructions.gate([1.0, 2.0], 0.0, -1, 1).network,
    "one input read": lambda: af.constructions.gate([1.0, 0.0], 0.5, -1, 1),
    "pair": lambda: af.constructions.cross_attention(lambda x, y: x[..., 0] * y[..., 0], LINE, LINE, grid=3),
    "tokens": lambda: network("two layers, tokens"),
    "softmax": lambda: network("softmax tail"),
    "steps": steps,
    "other steps": lambda: in_context.KernelRidge(steps=40).build(2, examples=5),
}


@pytest.fixture(scope="module")
def drawn():
    return {kind: graph(make()) for kind, make in NETS.items()}


def named(figure):
    """Every box with the lines of text inside."""
    axes = figure.axes[0]
    found = {}
    for patch in (each for each in axes.patches if isinstance(each, FancyBboxPatch)):
        x, y, width, height = patch.get_x(), patch.get_y(), patch.get_width(), patch.get_height()
        inside = [t for t in axes.texts if t.get_text() and x < t.get_position()[0] < x + width]
        inside = [t for t in inside if y < t.get_position()[1] < y + height]
        found[x + width / 2, y, y + height] = [t.get_text() for t in sorted(inside, key=lambda t: -t.get_position()[1])]
    return found


def edges(figure):
    """From the lines of one box to those of another, by the ends of the arrows."""
    boxes = named(figure)
    below, above = ({(x, (low, high)[end]): text for (x, low, high), text in boxes.items()} for end in (0, 1))
    arrows = [text for text in figure.axes[0].texts if not text.get_text()]
    return [(tuple(below[each.xyann]), tuple(above[each.xy])) for each in arrows]


def readers(figure, line):
    """What feeds the box with this line."""
    return {source[0] for source, goal in edges(figure) if line in goal}


@pytest.mark.parametrize("kind", NETS)
def test_no_text_touches_another_or_leaves_the_figure(drawn, kind):
    figure = drawn[kind]
    renderer = FigureCanvasAgg(figure).get_renderer()
    texts = [text for text in figure.axes[0].texts if text.get_text()]
    found = [(text.get_text(), text.get_window_extent(renderer)) for text in texts]
    for (first, a), (second, b) in itertools.combinations(found, 2):
        assert not a.overlaps(b), (first, second)
    width, height = figure.get_size_inches() * figure.dpi
    assert all(box.x0 >= 0 and box.x1 <= width and box.y0 >= 0 and box.y1 <= height for _, box in found)
    assert all(text.get_fontsize() >= 7 for text in texts)


def test_terms_of_a_sum_read_their_own_inputs(drawn):
    figure = drawn["sum"]
    assert [readers(figure, line) for line in ("term in x", "term in y", "term in x, z")] == [{"x"}, {"y"}, {"x", "z"}]
    assert sum(goal == ("output",) for _, goal in edges(figure)) == 3
    assert readers(drawn["one input read"], "gate") == {"x0"}  # a constant is nobody's edge
    assert readers(drawn["pair"], "cross_attention") == {"X", "Y"}


def test_networks_say_their_target_or_their_shape(drawn):
    assert drawn["bare"].get_suptitle() == "gate:  any number of tokens of 2 features"
    assert drawn["steps"].get_suptitle().startswith("in_context:  least squares")


def test_wide_and_deep_networks_are_folded(drawn):
    texts = [line for lines in named(drawn["folded"]).values() for line in lines]
    assert {f"unit {i}" for i in range(4)} | {"64 heads: gate", "units 0 to 63", "2 keys each"} <= set(texts)
    assert "softmax" in {lines[0] for lines in named(drawn["softmax"]).values()}
    deep = named(drawn["deep"])
    assert len(deep) < 20 < NETS["deep"]().heads
    (fold,) = [lines for lines in deep.values() if "layers" in lines[0]]
    assert {tuple(fold)} <= {source for source, _ in edges(drawn["deep"])} & {goal for _, goal in edges(drawn["deep"])}


@pytest.mark.parametrize(("kind", "words"), [("steps", "same weights"), ("other steps", "weights differ")])
def test_steps_are_one_block_that_says_how_often(drawn, kind, words):
    (fold,) = [lines for lines in named(drawn[kind]).values() if lines[0] == "repeated 40 times"]
    assert words in " ".join(fold)


def test_a_block_wired_otherwise_is_not_taken_for_another():
    net, other = steps(), in_context.Ridge(steps=40, learning_rate=0.1).build(2)
    layers = (*net.network.layers[:20], other.network.layers[0], *net.network.layers[21:])
    texts = [text.get_text() for text in graph(replace(net.network, layers=layers)).axes[0].texts]
    assert not any("repeated" in text for text in texts)


@pytest.mark.parametrize("text", ["$\\frac{1}{0}$", "W" * 200, "\x00\x1b[31m", "a\nb"])
def test_names_are_cut_and_are_not_markup(text, tmp_path):
    net = network("additive")
    encode, attention = net.network.layers
    heads = tuple(replace(head, claims=replace(head.claims, construction=text)) for head in attention.heads)
    named = replace(
        net, network=replace(net.network, layers=(encode, replace(attention, heads=heads))), construction=text
    )
    figure = graph(named)
    figure.savefig(tmp_path / "figure.png", dpi=40)
    test_no_text_touches_another_or_leaves_the_figure({text: figure}, text)


def test_what_is_no_network_is_refused():
    for other in ("sin(x)", None, in_context.function_prompt("x", {"x": (0, 1)}, tol=0.1)[1]):
        with refused(af.TargetError):
            graph(other)

"""Attention maps: the numbers they show, names of keys, inputs of the caller's, and what is refused."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

import attnforge as af
from attnforge.plot import attention_map
from attnforge.plot.attention import COLUMNS, draw_attention
from attnforge.targets import Formula

LINE = af.Box(0, 1, shape=(1,))
NETS = {
    "anchors": lambda: af.constructions.truncated_linear([1.0, -0.5], 0.1, -1, 1, anchors=9),
    "heads": lambda: af.constructions.multihead_truncated_linear([1.0], 0.1, -1, 1, tokens=10, heads=3),
    "fitted": lambda: af.compile("sin(8*x) + abs(x)", {"x": (-1, 1)}, tol=1e-2),
    "sum": lambda: af.compile("sin(5*x) + abs(y - 1)", {"x": (-1, 1), "y": (0, 2)}, tol=1e-2),
    "tokens": lambda: af.constructions.two_layer(
        lambda x: np.sort(x, axis=-2), af.Box(0, 1, shape=(2, 1)), grid=4, lipschitz=1
    ),
    "pairs": lambda: af.constructions.cross_attention(lambda x, y: x[..., 0] * y[..., 0], LINE, LINE, grid=3),
    "literal": lambda: af.constructions.truncated_linear([1.0], 0.1, -1, 1, anchors=5, layout="literal"),
    "table": lambda: af.compile(([0.0, 0.5, 1.0], [0.0, 0.25, 1.0])),
}


@cache
def built(kind):
    return NETS[kind]()


def shown(figure):
    return np.asarray(figure.axes[0].images[0].get_array()).T  # (inputs, keys)


@pytest.mark.parametrize("kind", NETS)
def test_every_kind_is_drawn(kind):
    figure = attention_map(built(kind))
    figure.draw_without_rendering()
    assert shown(figure).shape[0] == COLUMNS
    assert figure.axes[1].get_ylabel() == "attention weight"


def test_the_map_is_the_attention_and_the_dots_its_largest():
    net = built("anchors")
    figure = attention_map(net)
    axes = figure.axes[0]
    x = axes.collections[0].get_offsets()
    table = shown(figure)
    assert np.allclose(table.sum(axis=1), 1)
    along = np.linspace(-1.7, 1.7, COLUMNS)
    for place, key in x:
        assert table[np.abs(along - place).argmin()].argmax() == key
    assert axes.get_yticklabels()[0].get_text() == "anchor -1"


def test_one_head_of_several():
    net = built("heads")
    whole, second = shown(attention_map(net)), shown(attention_map(net, head=1))
    assert np.array_equal(whole[:, 10:20], second)
    assert "head 2" in attention_map(net, head=1).get_suptitle()
    assert "3 heads" in attention_map(net).get_suptitle()


def test_a_later_layer():
    assert shown(attention_map(built("tokens"), layer=1)).shape == (COLUMNS, 16)


def test_inputs_of_the_callers():
    net = built("fitted")
    figure = attention_map(net, np.array([-1.0, 0.0, 0.5]))
    assert np.allclose(shown(figure), net.attention(np.array([-1.0, 0.0, 0.5]))[0][0][:, 0])
    tokens = attention_map(built("anchors"), np.zeros((4, 2)))  # one sequence: a column a token
    assert shown(tokens).shape == (4, 9)
    assert tokens.axes[0].get_xlabel() == "input"
    pair = attention_map(built("pairs"), (np.full((2, 1), 0.5), np.array([[0.1], [0.9]])))
    assert shown(pair).shape[0] == 2


def test_weights_alone():
    weights = np.array([[1.0, 0.0], [0.25, 0.75], [0.5, 0.5]])
    assert np.array_equal(shown(attention_map(weights)), weights)
    heads = attention_map(np.stack([weights, weights[:, ::-1]]))
    assert np.array_equal(shown(heads)[:, 2:], weights[:, ::-1])
    assert heads.axes[0].get_ylabel() == "key (2 heads)"


def test_many_keys_are_drawn_in_blocks_by_their_largest_weight():
    weights = np.zeros((3, 1025))
    weights[1, 1024] = 1.0
    figure = attention_map(weights)
    assert shown(figure).shape == (3, 342)
    assert shown(figure)[1, -1] == 1.0
    assert "blocks of 3" in figure.axes[0].get_ylabel()
    assert figure.axes[0].get_ylim() == (-0.5, 1024.5)


def test_faint_attention_has_a_scale_of_its_own():
    assert attention_map(np.full((2, 10), 0.1)).axes[0].images[0].get_clim() == (0.0, 0.1)
    assert attention_map(np.eye(2)).axes[0].images[0].get_clim() == (0.0, 1.0)


def test_small_multiples():
    from matplotlib.figure import Figure

    figure = Figure()
    for axes in figure.subplots(1, 3):
        draw_attention(axes, np.eye(4), labels=["$\\frac{"] * 4, marks=False)
        assert not axes.collections
    figure.draw_without_rendering()


def test_tensors_that_require_gradients():
    weights = torch.tensor([[1.0, 0.0], [0.25, 0.75]], requires_grad=True)
    assert shown(attention_map(weights)).tolist() == [[1.0, 0.0], [0.25, 0.75]]
    x = torch.tensor([-1.0, 0.5], dtype=torch.float64, requires_grad=True)
    net = built("fitted")
    assert np.allclose(shown(attention_map(net, x)), net.attention(x.detach().numpy())[0][0][:, 0])


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"layer": 1}, "`layer` must be at least 0 and below 1, .* Got 1. Count from 0: the last one is 0"),
        ({"layer": -1}, "`layer`"),
        ({"head": 3}, "`head` must be at least 0 and below 3, .* the last one is 2"),
        ({"query": 1}, "`query` must be at least 0 and below 1, the number of query tokens"),
    ],
)
def test_what_is_not_there_is_refused(settings, complaint):
    with pytest.raises(af.DomainError, match=complaint):
        attention_map(built("heads"), **settings)


@pytest.mark.parametrize("weights", [np.ones(3), np.ones((2, 0)), [[np.nan]], np.ones((1, 1, 1, 1))])
def test_arrays_that_are_no_weights_are_refused(weights):
    with pytest.raises(af.DomainError, match="Attention weights are finite") as caught:
        attention_map(weights)
    assert caught.value.remedy


def test_text_is_not_markup():
    net = af.compile("clamp(x, -1, 1)", {"x": (-2, 2)}, 0.1, construction="truncated_linear")

    class Hostile(Formula):
        def describe(self):
            return "$\\frac{1}{0}$ \x1b[31m \ud800"

    net = replace(net, target=Hostile("clamp(x, -1, 1)", net.domain, ("x",)))
    figure = attention_map(net)
    figure.draw_without_rendering()
    assert "$\\frac{1}{0}$ \\x1b[31m \\ud800" in figure.get_suptitle()

"""What keys add: it sums up to what networks compute, for every kind of layer, and says so in one place only."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import attnforge as af
from attnforge.network import Attention
from attnforge.plot.summands import summands

LINE = {"x": (-1, 1)}
NETS = {
    "gate": lambda: af.constructions.gate([1.0], 0.1, -1, 1, sharpness=5.0),
    "anchors": lambda: af.constructions.truncated_linear([1.0], 0.1, -1, 1, anchors=7),
    "literal": lambda: af.constructions.truncated_linear([1.0], 0.1, -1, 1, anchors=5, layout="literal"),
    "tokens": lambda: af.constructions.truncated_linear([[1.0], [2.0]], 0.1, -1, 1, anchors=5),
    "heads": lambda: af.constructions.multihead_truncated_linear([1.0], 0.1, -1, 1, tokens=10, heads=3),
    "cells": lambda: af.constructions.max_affine("sin(3*x)", LINE, cells=6),
    "fitted": lambda: af.compile("sin(3*x) + abs(x)", LINE, tol=1e-3),
    "graph": lambda: af.compile("exp(sin(3*x))", LINE, tol=1e-3, construction="graph"),
    "sum": lambda: af.compile("sin(5*x) + abs(y - 1)", {"x": (-1, 1), "y": (0, 2)}, tol=1e-2),
    "two layers": lambda: af.constructions.two_layer("x^2", LINE, grid=4),
    "softmax": lambda: af.constructions.softmax_tail("x^2", LINE, grid=4),
    "relu": lambda: af.compile("relu(relu(x) - 0.3) + relu(-x)", LINE, tol=1e-6, construction="relu_network"),
    "outputs": lambda: af.constructions.gate([1.0], 0.1, -1, 1, outputs=3, output=2),
}


@cache
def built(kind):
    return NETS[kind]()


def inputs(net):
    box = net.domain if net.target.layout == "function" else net.domain.fixed((net.network.tokens or 1, 1))
    points = np.random.default_rng(0).uniform(box.lower, box.upper, size=(40, *box.shape))
    return points, points[:, None] if net.target.layout == "function" else points


@pytest.mark.parametrize("kind", NETS)
def test_all_of_it_is_what_the_network_computes(kind):
    net = built(kind)
    output = 2 if kind == "outputs" else 0
    points, tokens = inputs(net)
    found = summands(net.network, tokens, None, output)
    assert found.is_output
    assert np.allclose(found.total, net.network(tokens)[:, 0, output], rtol=0, atol=1e-9)
    assert np.allclose(found.total, np.asarray(net(points)).reshape(40, -1)[:, output], rtol=0, atol=1e-7)
    for keys in found.heads:
        assert np.allclose(keys.weights.sum(axis=1), 1)
        assert len(keys.roles) == keys.weights.shape[1] == keys.added.shape[1]


def test_a_key_whose_value_changes_adds_something_else():
    network = built("cells").network
    tokens = inputs(built("cells"))[1]
    i = next(i for i, layer in enumerate(network.layers) if isinstance(layer, Attention))
    head = network.layers[i].heads[0]
    values = head.memory_values.copy()
    values[5] += 1.0
    changed = replace(network.layers[i], heads=(replace(head, memory_values=values),))
    before = summands(network, tokens, None, 0)
    after = summands(replace(network, layers=(*network.layers[:i], changed, *network.layers[i + 1 :])), tokens, None, 0)
    moved = np.abs(after.heads[0].added - before.heads[0].added)
    assert np.allclose(moved[:, 5], before.heads[0].weights[:, 5])
    assert not np.delete(moved, 5, axis=1).any()


def test_an_earlier_layer_adds_up_to_what_its_linear_maps_write():
    net = built("two layers")
    tokens = inputs(net)[1]
    found = summands(net.network, tokens, 0, 1)
    state = tokens
    from attnforge.network import Linear, apply_layer

    places = [i for i, layer in enumerate(net.network.layers) if not isinstance(layer, Linear)]
    for layer in net.network.layers[: places[1]]:
        state = apply_layer(layer, state)
    assert not found.is_output
    assert np.allclose(found.total, state[:, 0, 1])
    assert 0 < len(found.heads) < len(net.network.layers[places[0]].heads)  # those that write elsewhere are left out


def test_a_residual_is_what_comes_by_no_key():
    net = built("sum")
    found = summands(net.network, inputs(net)[1], None, 0)
    constant = found.total - sum(keys.added.sum(axis=1) for keys in found.heads)
    assert np.allclose(found.rest, constant)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ((2, 0), "`layer` must be at least 0 and below 2, the number of layers with a softmax. Got 2"),
        ((-1, 0), "`layer`"),
        ((None, 1), "`output` must be at least 0 and below 1"),
    ],
)
def test_what_is_not_there_is_refused(settings, complaint):
    net = built("two layers")
    with pytest.raises(af.DomainError, match=complaint):
        summands(net.network, inputs(net)[1], *settings)

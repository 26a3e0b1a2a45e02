"""What feeds what: nodes and edges from weights and claims."""

import dataclasses
import itertools
from functools import cache

import numpy as np
import pytest
import torch
from torch import nn

import attnforge as af
from attnforge import in_context
from attnforge.network import Attention, Head, Linear, Network, Term
from attnforge.plot.wiring import FIRST, LAST, wiring
from attnforge.targets import Formula


def named(found):
    return [[found.nodes[i].name for i in stage.nodes] for stage in found.stages if stage.nodes]


def edges(found):
    return {(found.nodes[a].name, found.nodes[b].name) for a, b in found.edges}


def relu(*widths):
    torch.manual_seed(0)
    layers = [each for a, b in itertools.pairwise(widths) for each in (nn.Linear(a, b), nn.ReLU())]
    return af.constructions.relu_network(nn.Sequential(*layers[:-1]), af.Box(-1, 1))


@cache
def sum_of_terms():
    """Found by probing: a proof for three inputs would take longer than all these tests."""
    domain = {"x": (-1, 1), "y": (0, 2), "z": (0, 1)}
    return af.compile(lambda p: np.sin(2 * p[..., 0]) + p[..., 1] ** 2 + p[..., 0] * p[..., 2], domain, tol=0.1)


def test_terms_of_a_sum_read_their_own_inputs():
    found = wiring(sum_of_terms())
    first, second, third = found.stages[2].nodes
    assert [found.nodes[i].lines[0] for i in (first, second, third)] == ["term in x", "term in y", "term in x, z"]
    assert {a for a, b in found.edges if b == third} == {0, 2}
    assert {a for a, b in found.edges if b == second} == {1}
    assert len([edge for edge in found.edges if edge[1] == found.stages[-1].nodes[0]]) == 3


def test_terms_of_many_inputs_are_told_by_name_or_counted():
    names = [f"x{i}" for i in range(1, 7)]
    net = af.compile("abs(x2) + sin(x1 + x2 + x3 + x4 + x5 + x6)", dict.fromkeys(names, (-1, 1)), tol=0.3)
    found = wiring(net)
    assert {found.nodes[i].lines[0] for i in found.stages[2].nodes} == {"term in x2", "term in 6 inputs"}


def test_a_network_without_a_target():
    net = af.constructions.gate([1.0, 2.0], 0.0, -1, 1)
    assert named(wiring(net.network)) == [["x0", "x1"], ["gate"], ["output"]]
    assert edges(wiring(net.network)) == edges(wiring(net))
    algorithm = af.in_context.LeastSquares(steps=2, learning_rate=0.5).build(features=1, examples=4)
    found = wiring(algorithm)
    assert [stage.name for stage in found.stages[1:-1]] == [f"{len(algorithm.block[0].heads)} heads + residual"] * 2


def test_units_of_a_network_and_folded_layers():
    found = wiring(relu(2, 4, 64, 1))
    assert named(found) == [["x0", "x1"], ["gate"] * 4, ["64 heads: gate"], ["output"]]
    assert [found.nodes[i].lines[0] for i in found.stages[2].nodes] == [f"unit {i}" for i in range(4)]
    assert found.nodes[found.stages[4].nodes[0]].lines == ("units 0 to 63", "2 keys each")


def test_a_constant_feature_is_nobodys_edge():
    found = wiring(af.constructions.gate([1.0, 0.0], 0.5, -1, 1))
    assert edges(found) == {("x0", "gate"), ("gate", "output")}


def test_the_second_input():
    box = af.Box(0, 1, shape=(1,))
    found = wiring(af.constructions.cross_attention(lambda x, y: x[..., 0] * y[..., 0], box, box, grid=3))
    assert edges(found) == {("Y", "cross_attention"), ("X", "cross_attention"), ("cross_attention", "output")}


def test_softmax_over_features_is_a_node():
    box = af.Box(0, 1, shape=(2, 1))
    found = wiring(af.constructions.softmax_tail(lambda x: np.sort(x, axis=-2), box, grid=4, lipschitz=1))
    assert named(found) == [["sequence"], ["16 heads: gate"], ["softmax"], ["output"]]


def test_residuals_keep_what_was_there():
    """One head writes feature 1 from feature 0; with a residual the output is fed by the input and the head."""

    class Net:
        target = Formula("x + y", af.Box(0, 1, shape=(2,)), ("x", "y"))
        head = Head(
            np.array([[1.0], [0.0]]), np.array([[0.0, 1.0]]), memory_keys=np.ones((2, 1)), memory_values=np.ones((2, 1))
        )
        network = Network((Linear((Term(),)), Attention((head,), residual=True)), 2, 1)

    found = wiring(Net())
    assert edges(found) == {("x", "head"), ("x", "output 0"), ("y", "output 1"), ("head", "output 1")}


def test_deep_networks_are_folded_in_the_middle():
    found = wiring(relu(2, *([3] * 12), 1))
    assert len(found.stages) == FIRST + 1 + LAST
    fold = found.stages[FIRST].nodes[0]
    assert found.nodes[fold].kind == "fold"
    assert any(b == fold for _, b in found.edges)
    assert any(a == fold for a, _ in found.edges)
    shown = {i for stage in found.stages for i in stage.nodes}
    assert {i for edge in found.edges for i in edge} <= shown


@pytest.mark.parametrize(
    ("made", "build", "layers", "words"),
    [
        (in_context.LeastSquares(steps=40, learning_rate=0.1), {}, 1, "same weights"),
        (in_context.Huber(steps=40, learning_rate=0.1), {}, 4, "same weights"),
        (in_context.Ridge(steps=40, schedule="chebyshev", spectrum=(0.1, 1.0)), {}, 1, "wired alike, weights differ"),
        (in_context.KernelRidge(steps=40), {"examples": 5}, 2, "wired alike, weights differ"),
    ],
)
def test_steps_are_one_block_that_says_how_often(made, build, layers, words):
    found = wiring(made.build(2, **build))
    (node,) = [node for node in found.nodes if node.kind == "fold"]
    assert node.name == "repeated 40 times"
    assert node.lines == (f"{layers} layer{'s' * (layers > 1)} a block", words)
    assert len(found.stages) == layers + 3  # inputs, the block, the rest of the blocks, outputs
    last = found.nodes.index(node)
    assert any(source == last for source, _ in found.edges)
    assert any(goal == last for _, goal in found.edges)


def test_a_block_wired_otherwise_is_not_taken_for_another():
    net = in_context.LeastSquares(steps=40, learning_rate=0.1).build(2)
    other = in_context.Ridge(steps=40, learning_rate=0.1).build(2)
    layers = (*net.network.layers[:20], other.network.layers[0], *net.network.layers[21:])
    found = wiring(dataclasses.replace(net.network, layers=layers))
    assert not any("repeated" in node.name for node in found.nodes)

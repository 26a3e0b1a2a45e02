"""What a figure is handed: every figure refuses what has no target in three parts, and reads tensors."""

import numpy as np
import pytest
import torch

import attnforge as af
from attnforge import plot
from attnforge.arrays import float64
from attnforge.plot.given import network_of

FIGURES = [plot.overview, plot.section, plot.anchors, plot.partition, plot.error_map, plot.attention_map]
GATE = af.constructions.gate([1.0], 0.0, -1, 1)
OTHERS = {
    "bare": lambda: GATE.network,
    "in context": lambda: af.in_context.Ridge(steps=2, learning_rate=0.5).build(features=2, examples=5),
    "kernel": lambda: af.in_context.KernelRegression().build(features=1),
    "prompt": lambda: af.in_context.function_prompt("x", {"x": (0, 1)}, tol=0.1)[1],
    "text": lambda: "sin(x)",
    "nothing": lambda: None,
}


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.__name__)
def test_what_is_no_compiled_target_is_refused_in_three_parts(figure, kind):
    with pytest.raises((af.TargetError, af.DomainError), match=r"attention_map|compiled target|Attention") as caught:
        figure(OTHERS[kind]())
    assert caught.value.got
    assert caught.value.remedy


@pytest.mark.parametrize(("kind", "remedy"), [("prompt", "Pass its .compiled"), ("text", "Pass a network")])
def test_the_graph_needs_a_network(kind, remedy):
    with pytest.raises(af.TargetError, match="draws a network") as caught:
        plot.graph(OTHERS[kind]())
    assert caught.value.remedy.startswith(remedy)


def test_networks_are_found():
    assert network_of(GATE) is network_of(GATE.network) is GATE.network


@pytest.mark.parametrize("kind", [torch.float64, torch.float32, torch.bfloat16])
def test_tensors_lose_their_gradients(kind):
    given = torch.tensor([[0.25, 0.75]], dtype=kind, requires_grad=True)
    assert float64(given).tolist() == [[0.25, 0.75]]
    assert float64([1, 2]).dtype == np.float64

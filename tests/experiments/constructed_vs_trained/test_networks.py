"""Constructed heads against the softmax written out and against each other; trained weights read back."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from attnforge.certification.certify import certify
from attnforge.experiments.constructed_vs_trained.networks import build
from attnforge.experiments.constructed_vs_trained.task import KEYS, STARTS, Task
from attnforge.network.flatten import digest
from attnforge.theorems.multihead_truncated_linear import HeadsPlan, MultiheadTruncatedLinear
from tests.experiments.constructed_vs_trained.small_head import TARGET, as_module, small_head
from tests.experiments.constructed_vs_trained.softmax import softmax_over_anchors

TASK = Task(0)


def test_one_head_against_the_softmax_written_out() -> None:
    network, target = build("mean", 1, TASK.w, TASK.t)
    x, _ = TASK.data(9, 20)
    wanted = softmax_over_anchors((x * TASK.w).sum(axis=-1) + TASK.t)
    assert np.allclose(network(x)[..., 0], wanted, atol=1e-9)
    assert certify(network, target).bound == pytest.approx(0.173, abs=1e-3)


@pytest.mark.parametrize("kind", STARTS)
def test_heads_hold_p_keys_each_and_four_are_better_than_one(kind: str) -> None:
    bounds = []
    for heads in (1, 4):
        network, target = build(kind, heads, TASK.w, TASK.t)
        assert [head.memory_size for head in network.heads] == [KEYS] * heads
        bounds.append(certify(network, target).bound or 0.0)
    assert bounds[1] < bounds[0] / 3


def test_an_untrained_module_gives_the_network_back() -> None:
    for network in (small_head(), MultiheadTruncatedLinear().build(TARGET, HeadsPlan(8, 3, 10.0))):
        assert digest(as_module(network).network()) == digest(network)


def test_a_trained_module_and_its_network_agree() -> None:
    network = MultiheadTruncatedLinear().build(TARGET, HeadsPlan(8, 3, 10.0))
    module = as_module(network)
    with torch.no_grad():
        for i, weight in enumerate(module.parameters()):
            weight += 0.01 * (i + 1)
    x = np.random.default_rng(0).uniform(-1, 1, (5, 3, 2))
    found = module.network()(x)[..., 0]
    assert np.allclose(found, module(torch.tensor(x)).detach().numpy(), atol=1e-12)
    assert not np.allclose(found, network(x)[..., 0], atol=1e-3)

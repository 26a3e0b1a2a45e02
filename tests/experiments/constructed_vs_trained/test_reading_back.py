"""Trained weights read back are the module's."""

from __future__ import annotations

import numpy as np
import torch

from attnforge.experiments.constructed_vs_trained.reading_back import trained_network
from attnforge.network.flatten import digest
from attnforge.theorems.multihead_truncated_linear import HeadsPlan, MultiheadTruncatedLinear
from tests.experiments.constructed_vs_trained.moved_weights import TARGET, as_module, small_head


def test_an_untrained_module_gives_the_network_back() -> None:
    for network in (small_head(), MultiheadTruncatedLinear().build(TARGET, HeadsPlan(8, 3, 10.0))):
        assert digest(trained_network(as_module(network), network)) == digest(network)


def test_a_trained_module_and_its_network_agree() -> None:
    network = MultiheadTruncatedLinear().build(TARGET, HeadsPlan(8, 3, 10.0))
    module = as_module(network)
    with torch.no_grad():
        for i, weight in enumerate(module.parameters()):
            weight += 0.01 * (i + 1)
    x = np.random.default_rng(0).uniform(-1, 1, (5, 3, 2))
    found = trained_network(module, network)(x)[..., 0]
    assert np.allclose(found, module(torch.tensor(x)).detach().numpy(), atol=1e-12)
    assert not np.allclose(found, network(x)[..., 0], atol=1e-3)

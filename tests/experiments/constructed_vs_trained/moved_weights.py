"""A small head, and its weights moved as training would move them."""

from __future__ import annotations

import numpy as np
import torch

import attnforge as af
from attnforge.experiments.constructed_vs_trained.networks import trained_network
from attnforge.network import Network
from attnforge.runtime import AttentionNetwork, TargetModule
from attnforge.targets import TruncatedLinear
from attnforge.theorems.truncated_linear import AnchorPlan, TruncatedLinearHead

W, T = np.array([[1.0, -2.0], [0.5, 1.0], [2.0, 0.1]]), np.array([0.3, -0.2, 0.0])
TARGET = TruncatedLinear(W, T, -2, 2, af.Box(-1, 1))


def small_head(c: float = 1.4, anchors: int = 12) -> Network:
    return TruncatedLinearHead().build(TARGET, AnchorPlan(anchors, c / (4 / (anchors - 1)) ** 2))


def as_module(network: Network) -> TargetModule:
    return TargetModule(AttentionNetwork(network, torch.float64, True), "tokens", False)


def moved(network: Network, size: float, seed: int) -> Network:
    """The network with noise on every weight, by way of a module as training would do it."""
    module, generator = as_module(network), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in module.parameters():
            weight += size * torch.randn(weight.shape, generator=generator, dtype=torch.float64)
    return trained_network(module, network)

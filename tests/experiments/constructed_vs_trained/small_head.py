"""A small head, and it as a module that can be trained."""

from __future__ import annotations

import numpy as np
import torch

import attnforge as af
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

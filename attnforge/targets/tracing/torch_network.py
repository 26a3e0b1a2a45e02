"""torch modules as targets: ReLU networks where they are, and otherwise formulas, traced through the module itself."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import numpy as np

from attnforge.errors import TargetError
from attnforge.targets.comparing import compared
from attnforge.targets.domain import Box
from attnforge.targets.formula import Formula
from attnforge.targets.formulas import Formulas
from attnforge.targets.relu_network import ReluNetwork, is_relu_network
from attnforge.targets.tracing.network import input_names, network_target
from attnforge.targets.tracing.symbol import Symbol
from attnforge.targets.tracing.traced import trace


def from_torch(module: Any, domain: Box, names: tuple[str, ...] | None = None) -> ReluNetwork | Formula | Formulas:
    """A module of (N, d) inputs: its weights are copied, and meant exactly.

    A ``Sequential`` of Linear and piecewise linear layers is a ReluNetwork. Of every other module, a batch of one point
    of symbols goes through its own ``forward``; what that does is compared with the module at random points. Softplus
    means that function, without torch's threshold.
    """
    if is_relu_network(module):
        return ReluNetwork.from_torch(module, domain)
    if len(domain.shape) > 1:
        got = f"a domain of shape {domain.shape}"
        raise TargetError("A network that is not piecewise linear is a function of a vector", got, "Give a box (d,)")
    double = copy.deepcopy(module).double()
    named = input_names(domain, names, _features(double))
    nodes = trace(double, Symbol(Symbol.variables(named).nodes[None]))
    return compared(network_target(nodes, domain, named), partial(_values, double))


def _features(module: Any) -> int | None:
    """Inputs of the first layer that says how many it has."""
    return next((int(part.in_features) for part in module.modules() if hasattr(part, "in_features")), None)


def _values(module: Any, points: Any) -> Any:
    import torch

    with torch.no_grad():
        return module(torch.as_tensor(points, dtype=torch.float64)).numpy().astype(np.float64)

"""One small model of every kind a file can hold."""

import numpy as np
import torch

import attnforge as af
from attnforge.model_file import StoredModel

X = np.linspace(0.0, 1.0, 9)


def relu() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.LeakyReLU(0.25), torch.nn.Linear(3, 2)).double()


def pairs(keys: np.ndarray, query: np.ndarray) -> np.ndarray:
    return np.sin(keys[..., 0] * query[..., 0])


KINDS = {
    "formula": lambda: af.compile("sin(3*x)", {"x": (-1, 1)}, 1e-2),
    "formula of two inputs": lambda: af.constructions.tensor_grid("x*y", {"y": (-1, 2), "x": (-1, 1)}, tol=5e-2),
    "graph": lambda: af.compile("x*y", {"y": (-1, 2), "x": (-1, 1)}, 5e-2),
    "truncated linear": lambda: af.constructions.truncated_linear([[1.0], [0.5]], [0.1, 0.2], -1, 2, anchors=9),
    "literal": lambda: af.constructions.gate([[1.0, 0.5]], 0.1, -1, 2, layout="literal"),
    "relu": lambda: af.constructions.relu_network(relu(), af.Box([-1, 0], [1, 2])),
    "callable": lambda: af.compile(lambda x: np.sin(3 * x), {"t": (-1, 1)}, 0.1, lipschitz=3),
    "joint callable": lambda: af.constructions.cross_attention(
        pairs, af.Box(0, 1, shape=(1,)), af.Box(0, 2, shape=(1,)), grid=3, lipschitz=3
    ),
    "table": lambda: af.compile((X, X**2)),
    "float32": lambda: af.compile("clamp(x, 0, 1)", {"x": (-1, 2)}, 1e-2, dtype="float32"),
}


def stored(net: af.Compiled) -> StoredModel:
    """What a file of it holds."""
    return StoredModel(net.network, net.target, net.certificate, net.construction, net.dtype, net.reason)

"""One network of every kind that runs differently, with inputs for its module."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import attnforge as af

MAKE = af.constructions


def _perceptron() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1)).double()


def _pairs(keys: Any, query: Any) -> Any:
    return np.sin(keys[..., 0] * query[..., 0])


def _same(tokens: Any) -> Any:
    return tokens


KINDS: dict[str, tuple[Callable[[], Any], Callable[..., tuple[Tensor, ...]]]] = {
    "gate": (lambda: MAKE.gate([1.0, -0.5], 0.25, -1, 2), lambda n, r: (r(n, 1, 2),)),
    "row": (lambda: af.compile("sin(3*x)", {"x": (-1, 1)}, 1e-4), lambda n, r: (r(n),)),
    "grid": (
        lambda: af.compile("sin(3*x)*cos(2*y)", {"x": (-2, 2), "y": (-2, 2)}, 1e-9, construction="tensor_grid"),
        lambda n, r: (r(n, 2),),
    ),
    "window": (
        lambda: MAKE.truncated_linear([1.0], 0.25, -1, 2, anchors=3000, domain=af.Box(-2, 3, shape=(1,))),
        lambda n, r: (r(n, 1, 1),),
    ),
    "graph": (
        lambda: MAKE.graph("x*y*exp(-z^2)", dict.fromkeys("xyz", (-1, 1)), 1e-2),
        lambda n, r: (r(n, 3),),
    ),
    "relu": (lambda: MAKE.relu_network(_perceptron(), af.Box(-1, 1, shape=(3,))), lambda n, r: (r(n, 3),)),
    "sequence": (
        lambda: MAKE.max_affine(_same, af.Box(0, 1, shape=(2, 1)), cells=3, lipschitz=1.0),
        lambda n, r: (r(n, 2, 1),),
    ),
    "cross": (
        lambda: MAKE.cross_attention(_pairs, af.Box(0, 1, shape=(1,)), af.Box(0, 2, shape=(1,)), grid=3, lipschitz=3),
        lambda n, r: (r(n, 1), r(n, 1)),
    ),
    "regression": (
        lambda: af.in_context.LeastSquares(steps=5, learning_rate=0.1).build(features=2, examples=8),
        lambda n, r: (0.5 * r(n, 8, 2), r(n, 8)),
    ),
    "prompt": (
        lambda: af.compile("tokens.mean(x*y)*q", dict.fromkeys("xyq", (0, 1)), 1e-4, query=["q"]),
        lambda n, r: (r(n, 6, 2), r(n, 1)),
    ),
    "kernel": (
        lambda: af.in_context.KernelRegression().build(features=1),
        lambda n, r: (r(n, 3, 1), r(n, 6, 3)),
    ),
}


@cache
def kind(name: str) -> Any:
    """The network, made once."""
    return KINDS[name][0]()


def given(name: str, count: int, seed: int = 0) -> tuple[Tensor, ...]:
    """So many inputs of its module, all in its domain."""
    source = torch.Generator().manual_seed(seed)
    return KINDS[name][1](count, lambda *shape: torch.rand(*shape, generator=source, dtype=torch.float64))

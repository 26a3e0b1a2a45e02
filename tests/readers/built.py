"""One small network of every construction, and how far a run of it is from its target: what mutations start from.

A construction, or a family of networks that becomes one, is added here by one line; the suite does the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import numpy.typing as npt
import torch

import attnforge as af
from attnforge.compiler import Compiled
from attnforge.targets import Table
from attnforge.targets.joint import JointFunction

Array = npt.NDArray[np.float64]

MAKE, LINE = af.constructions, {"x": (-1.0, 1.0)}
SQUARE = af.Box(0.0, 1.0, shape=(2,))
X = np.linspace(0.0, 1.0, 9)
SLACK = 2.0**-50  # a few roundings of the target's own values


def _module(activation: torch.nn.Module) -> torch.nn.Module:
    layers = (torch.nn.Linear(2, 2), activation, torch.nn.Linear(2, 1))
    with torch.no_grad():
        for layer in (layers[0], layers[2]):
            layer.weight.copy_(torch.linspace(-0.5, 1.0, layer.weight.numel()).reshape(layer.weight.shape))
            layer.bias.fill_(0.125)
    return torch.nn.Sequential(*layers).double()


def _relu(activation: torch.nn.Module, **options: str) -> Compiled:
    return MAKE.relu_network(_module(activation), af.Box(-1.0, 1.0, shape=(2,)), **options)


def _pairs(keys: Array, query: Array) -> Array:
    return np.asarray(np.sin(keys[..., 0] * query[..., 0]))


def _wave(x: Array) -> Array:
    return np.asarray(np.sin(3 * x[..., 0]) * x[..., 1])


def _emulated(dtype: str) -> Compiled:
    rng = np.random.default_rng(0)
    matrices = (rng.normal(size=(2, width)) for width in (2, 2, 1))
    return af.in_context.attention_prompt(*matrices, tokens=3, dtype=dtype)[1].compiled


def _bare() -> Compiled:
    net = MAKE.truncated_linear([1.0], 0.0, -1, 1, anchors=4, domain=af.Box(-1.5, 1.5))
    network = replace(net.network, construction="", tokens=1)
    formula = af.compile("clamp(x, -1, 1)", {"x": (-1.5, 1.5)}, 0.1, construction="truncated_linear").target
    return Compiled(network, formula, af.certify(network, formula), "network", "float64")


BUILT: dict[str, Callable[[], Compiled]] = {
    "truncated_linear": lambda: MAKE.truncated_linear([1.0, -0.5], 0.25, -1, 2, anchors=5),
    "truncated_linear, tokens": lambda: MAKE.truncated_linear([[1.0], [0.5]], [0.1, 0.2], -1, 2, anchors=4),
    "truncated_linear, literal": lambda: MAKE.truncated_linear([1.0], 0.25, -1, 2, anchors=4, layout="literal"),
    "truncated_linear, float32": lambda: MAKE.truncated_linear([1.0], 0.25, -1, 2, anchors=5, dtype="float32"),
    "multihead": lambda: MAKE.multihead_truncated_linear([1.0], 0.25, -1, 2, tokens=6, heads=2),
    "multihead, literal": lambda: MAKE.multihead_truncated_linear(
        [1.0], 0.25, -1, 2, tokens=6, heads=2, layout="literal"
    ),
    "gate": lambda: MAKE.gate([1.0, -0.5], 0.25, -1, 2),
    "gate, tokens": lambda: MAKE.gate([[1.0], [0.5]], [0.1, 0.2], -1, 2),
    "gate, literal": lambda: MAKE.gate([[1.0, 0.5]], 0.1, -1, 2, layout="literal"),
    "gate, float16": lambda: MAKE.gate([1.0], 0.25, -1, 2, domain=af.Box(-3, 3), dtype="float16"),
    "relu": lambda: _relu(torch.nn.ReLU()),
    "leaky relu": lambda: _relu(torch.nn.LeakyReLU(0.125)),
    "hardtanh": lambda: _relu(torch.nn.Hardtanh(-0.25, 0.5)),
    "two_layer": lambda: MAKE.two_layer(_wave, SQUARE, grid=3, lipschitz=3.2),
    "two_layer, tokens": lambda: MAKE.two_layer(lambda x: x, af.Box(0, 1, shape=(2, 1)), grid=2, lipschitz=1.0),
    "softmax_tail": lambda: MAKE.softmax_tail(_wave, SQUARE, grid=3, lipschitz=3.2),
    "max_affine": lambda: MAKE.max_affine("x^2", af.Box(-1.0, 1.0), cells=4),
    "max_affine, hard": lambda: MAKE.max_affine("x^2", af.Box(-1.0, 1.0), cells=4, sharpness="hard"),
    "max_affine, callable": lambda: MAKE.max_affine(_wave, SQUARE, cells=3, lipschitz=3.2),
    "max_affine, tokens": lambda: MAKE.max_affine(lambda x: x, af.Box(0, 1, shape=(2, 1)), cells=3, lipschitz=1.0),
    "cross_attention": lambda: MAKE.cross_attention(
        _pairs, af.Box(0, 1, shape=(1,)), af.Box(0, 2, shape=(1,)), grid=3, lipschitz=3
    ),
    "tensor_grid": lambda: af.compile("sin(3*x)", LINE, 1e-2),
    "tensor_grid, float32": lambda: af.compile("exp(-x^2)", LINE, 1e-2, dtype="float32"),
    "two inputs": lambda: MAKE.tensor_grid("sin(x)*y", {"x": (0, 2), "y": (0, 1)}, tol=5e-2),
    "ridge": lambda: af.compile("sin(x + 2*y)", {"x": (0, 1), "y": (0, 1)}, 1e-2, construction="ridge"),
    "additive": lambda: af.compile("sin(x) + y^2", {"x": (0, 1), "y": (0, 1)}, 1e-2, construction="additive"),
    "sparse_grid": lambda: MAKE.sparse_grid("exp(-(a + b + c + d + g)/3)", dict.fromkeys("abcdg", (0, 1)), tol=5e-2),
    "sparse_grid, callable": lambda: MAKE.sparse_grid(
        lambda x: np.exp(-x.sum(axis=-1) / 3), af.Box(0.0, 1.0, shape=(5,)), tol=5e-2
    ),
    "polynomial": lambda: af.compile("x^3 - x", LINE, 1e-2, construction="polynomial"),
    "graph": lambda: MAKE.graph("x*y*exp(-z^2)", dict.fromkeys("xyz", (-1, 1)), 1e-2),
    "multiplier": lambda: MAKE.multiplier(keys=3),
    "exponential": lambda: MAKE.exponential([(0, 1), (-1, 0)]),
    "logistic": lambda: MAKE.logistic([1.0, -2.0], 0.5, domain=af.Box(-1.0, 1.0)),
    "table": lambda: af.compile((X, X**2)),
    "head_emulation": lambda: _emulated("float64"),
    "head_emulation, float32": lambda: _emulated("float32"),
    "bare network": _bare,
}


@cache
def built(name: str) -> Compiled:
    """The network, made once."""
    return BUILT[name]()


def points_of(net: Compiled, count: int = 1500) -> list[Array]:
    """Points of the domain: along its diagonals, at and near its corners, random.

    A network on any number of tokens is looked at on several numbers of them, where its target is.
    """
    if isinstance(net.target, Table):
        return [net.target.points]
    box = net.target.domain
    if net.target.layout != "tokens" or isinstance(net.target, JointFunction):
        return [_spread(box, count)]
    tokens = getattr(net.target, "rows", 1)
    free = net.network.tokens is None and tokens == 1
    numbers = (1, 2, 3) if free else (net.network.tokens or tokens,)
    return [_spread(box.fixed((n, net.network.features)), count) for n in numbers]


def _spread(box: af.Box, count: int) -> Array:
    rng = np.random.default_rng(0)
    share = rng.uniform(size=(count, *box.shape))
    corners, along = count // 6, np.linspace(0.0, 1.0, count // 3)
    share[:corners] = rng.integers(0, 2, size=share[:corners].shape)
    share[corners : 2 * corners] = np.abs(share[:corners] - 1e-3 * share[corners : 2 * corners])
    at = slice(2 * corners, 2 * corners + len(along))
    share[at] = along.reshape(-1, *(1 for _ in box.shape))
    return np.clip(box.lower + share * (box.upper - box.lower), box.lower, box.upper)


def error_of(net: Compiled) -> float:
    """The largest error of its run at these points, in excess of what float64 knows of the target; NaN is infinite."""
    worst = 0.0
    for points in points_of(net):
        with np.errstate(all="ignore"):
            wanted = np.asarray(net.target.values(points), dtype=np.float64)
            found = np.asarray(net.at_points(points), dtype=np.float64)
            if found.shape != wanted.shape:
                return np.inf  # another number of rows or outputs
            worst = max(worst, float(np.nan_to_num(np.abs(found - wanted) - SLACK * np.abs(wanted), nan=np.inf).max()))
    return worst

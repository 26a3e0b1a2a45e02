"""One network of every kind that runs differently, with inputs for its module, and what its hook points see."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn

import attnforge as af
from tests.catalogue import network

ICL = af.in_context

KINDS: dict[str, tuple[Callable[[], Any], Callable[..., tuple[Tensor, ...]]]] = {
    "gate": (partial(network, "gate"), lambda n, r: (r(n, 1, 2),)),
    "row": (partial(network, "sine"), lambda n, r: (r(n),)),
    "grid": (
        lambda: af.compile("sin(3*x)*cos(2*y)", {"x": (-2, 2), "y": (-2, 2)}, 1e-9, construction="tensor_grid"),
        lambda n, r: (r(n, 2),),
    ),
    "window": (partial(network, "truncated, window"), lambda n, r: (r(n, 1, 1),)),
    "graph": (partial(network, "graph"), lambda n, r: (r(n, 3),)),
    "relu": (partial(network, "relu, eight neurons"), lambda n, r: (r(n, 3),)),
    "sequence": (partial(network, "partition, sequence"), lambda n, r: (r(n, 2, 1),)),
    "cross": (partial(network, "cross-attention"), lambda n, r: (r(n, 1), r(n, 1))),
    "regression": (
        lambda: ICL.LeastSquares(steps=5, learning_rate=0.1).build(features=2, examples=8),
        lambda n, r: (0.5 * r(n, 8, 2), r(n, 8)),
    ),
    "prompt": (partial(network, "mean of a prompt"), lambda n, r: (r(n, 6, 2), r(n, 1))),
    "kernel": (lambda: ICL.KernelRegression().build(features=1), lambda n, r: (r(n, 3, 1), r(n, 6, 3))),
}


@cache
def kind(name: str) -> Any:
    """The network, made once."""
    return KINDS[name][0]()


def given(name: str, count: int, seed: int = 0) -> tuple[Tensor, ...]:
    """So many inputs of its module, all in its domain."""
    source = torch.Generator().manual_seed(seed)
    return KINDS[name][1](count, lambda *shape: torch.rand(*shape, generator=source, dtype=torch.float64))


def module_of(network: af.Network, kernel: str = "auto", **options: Any) -> nn.Module:
    """A module of any network on tokens that writes one feature, in the place of one of ours; no certificate is its."""
    made = af.constructions.truncated_linear([1.0] * network.features, 0.0, -1, 1, anchors=3)
    return replace(made, network=network, certificate=None).module(kernel=kernel, **options)


def points(module: nn.Module) -> dict[str, nn.Module]:
    """The hook points by name."""
    return {name: each for name, each in module.named_modules() if name.rsplit(".")[-1].startswith("hook_")}


def seen(module: nn.Module, *inputs: Tensor) -> dict[str, Tensor]:
    """What all points see, by hooks that are taken away afterwards."""
    found: dict[str, Tensor] = {}

    def keep(name: str) -> Callable[..., None]:
        return lambda _module, _given, value: found.__setitem__(name, value)

    handles = [point.register_forward_hook(keep(name)) for name, point in points(module).items()]
    found["output"] = module(*inputs)
    for handle in handles:
        handle.remove()
    return found

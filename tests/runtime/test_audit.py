"""The audit accepts what we build, and names what does not belong."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import attnforge as af
from attnforge.runtime import AttentionNetwork, audit, operations
from tests.catalogue import ENTRIES, network
from tests.network.examples import NETWORKS, inputs
from tests.refusals import refused
from tests.runtime.kinds import KINDS, given, kind, points

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NETWORKS)
def test_layers_of_every_kind_are_accepted(name, dtype):
    data = (torch.tensor(x).to(dtype) for x in inputs(NETWORKS[name], 2))
    seen = audit(AttentionNetwork(NETWORKS[name], dtype), *data)
    softmaxes = {operation for operation in seen if "softmax" in operation or "attention" in operation}
    assert bool(softmaxes) == bool(NETWORKS[name].heads or name == "softmax")


@pytest.mark.parametrize("trainable", [False, True])
@pytest.mark.parametrize("name", KINDS)
def test_modules_of_every_kind_are_accepted(name, trainable):
    """Those of prompts write the prompt into tokens first: what runs on them is audited."""
    net, data = kind(name), given(name, 3)
    module = net.module(trainable=trainable)
    if name in ("regression", "prompt"):
        audit(module.core, module.tokens(*data) if name == "regression" else torch.zeros(2, 6, 3, dtype=torch.float64))
    else:
        audit(module, *data)


LEARNERS = [name for name, entry in ENTRIES.items() if entry.kind == "in-context"]


@pytest.mark.parametrize("name", LEARNERS)
def test_every_algorithm_in_context_is_accepted(name):
    """Its steps run on tokens, whatever these hold."""
    net = network(name)
    core = getattr(net.module(), "core", net.module())
    audit(core, torch.randn(1, net.network.tokens or 100, net.network.features).to(core.dtype))


KERNELS = {"factorised": ("grid", "mul in a head"), "window": ("window", "window"), "sharded": ("window", "sharded")}


@pytest.mark.filterwarnings("ignore:the certificate covers")
@pytest.mark.parametrize("kernel", KERNELS)
def test_kernels_are_accepted(kernel):
    name, told = KERNELS[kernel]
    assert told in audit(kind(name).module(kernel=kernel, shards=3 if kernel == "sharded" else 1), *given(name, 3))


def test_heads_that_are_written_out_for_hooks_are_accepted():
    module, (tokens,) = kind("gate").module(), given("gate", 3)
    for point in points(module).values():
        point.register_forward_hook(lambda *_: None)
    audit(module, tokens)
    points(module)["blocks.0.hook_resid"].register_forward_hook(lambda _module, _given, value: value.relu())
    with refused(af.TargetError):
        audit(module, tokens)


def test_long_attention_runs_by_a_fused_kernel():
    """Which never holds queries by keys."""
    net = af.in_context.KernelRegression().build(features=10)
    data = (torch.rand(*size).double() for size in ((5000, 10), (5000,), (200, 10)))
    seen = operations(net.module(), *net.prompt(*data))
    assert any("scaled_dot_product_flash" in each for each in seen)
    assert not seen & {"_softmax", "_scaled_dot_product_attention_math"}


FOREIGN = {
    "relu": nn.ReLU(), "sin": torch.sin, "gelu": nn.GELU(), "exp": torch.exp, "tanh": nn.Tanh(), "abs": torch.abs,
    "clamp": lambda x: x.clamp(-1, 1), "sigmoid": nn.Sigmoid(), "max": lambda x: torch.maximum(x, -x),
    "division": lambda x: x / (1 + x), "square": lambda x: x * x, "layer norm": nn.LayerNorm(3, dtype=torch.float64),
}  # fmt: skip


class Followed(nn.Module):
    """A module of ours with something put behind or before it."""

    def __init__(self, extra, first: bool) -> None:
        super().__init__()
        self.core = AttentionNetwork(NETWORKS["residual"], torch.float64)
        self.extra, self.first = extra, first

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.core(self.extra(x)) if self.first else self.extra(self.core(x))


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("extra", FOREIGN)
def test_anything_else_is_rejected_by_name(extra, first):
    module, data = Followed(FOREIGN[extra], first), torch.tensor(inputs(NETWORKS["residual"], 2)[0])
    with refused(af.TargetError) as caught:
        audit(module, data)
    if extra in ("relu", "sin", "gelu"):
        assert extra in caught.value.got
        assert extra in operations(module, data)

"""The audit accepts what we build, and names what does not belong."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from attnforge.errors import TargetError
from attnforge.runtime import AttentionNetwork, TargetModule, audit, operations
from tests.network.examples import NETWORKS, inputs


def given(name: str, dtype: torch.dtype = torch.float64) -> list[torch.Tensor]:
    return [torch.tensor(x).to(dtype) for x in inputs(NETWORKS[name], 2)]


class Followed(nn.Module):
    """A module of ours with something put behind or before it."""

    def __init__(self, core: nn.Module, extra, first: bool = False) -> None:
        super().__init__()
        self.core, self.extra, self.first = core, extra, first

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.core(self.extra(x)) if self.first else self.extra(self.core(x))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", NETWORKS)
def test_our_modules_are_accepted(name, dtype):
    seen = audit(AttentionNetwork(NETWORKS[name], dtype), *given(name))
    softmaxes = {operation for operation in seen if "softmax" in operation or "attention" in operation}
    assert bool(softmaxes) == bool(NETWORKS[name].heads or name == "softmax")


def test_trainable_and_target_shaped_modules_are_accepted():
    audit(AttentionNetwork(NETWORKS["deep"], torch.float32, trainable=True), *given("deep"))
    core = AttentionNetwork(NETWORKS["memory"], torch.float64)
    audit(TargetModule(core, "tokens", keep_features=False), *given("memory"))


FOREIGN = {
    "relu": nn.ReLU(),
    "sin": torch.sin,
    "gelu": nn.GELU(),
    "exp": torch.exp,
    "tanh": nn.Tanh(),
    "abs": torch.abs,
    "clamp": lambda x: x.clamp(-1, 1),
    "sigmoid": nn.Sigmoid(),
    "max": lambda x: torch.maximum(x, -x),
    "division": lambda x: x / (1 + x),
    "square": lambda x: x * x,
    "layer norm": nn.LayerNorm(3, dtype=torch.float64),
}


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("extra", FOREIGN)
def test_anything_else_is_rejected_by_name(extra, first):
    module = Followed(AttentionNetwork(NETWORKS["residual"], torch.float64), FOREIGN[extra], first)
    with pytest.raises(TargetError, match=r"linear maps and softmax attention only\. Got .*\. Remove these operations"):
        audit(module, *given("residual"))


@pytest.mark.parametrize("name", ["relu", "sin", "gelu"])
def test_the_message_names_the_operation(name):
    module = Followed(AttentionNetwork(NETWORKS["residual"], torch.float64), FOREIGN[name])
    with pytest.raises(TargetError, match=rf"Got {name}\."):
        audit(module, *given("residual"))
    assert name in operations(module, *given("residual"))

"""The module that reads its function from a prompt: shapes, batches of prompts, what is refused."""

from __future__ import annotations

import pytest
import torch

from attnforge.errors import DomainError
from attnforge.runtime import AttentionNetwork
from attnforge.runtime.prompted import PromptedModule
from attnforge.theorems.in_context.function_prompt import PromptShape, frozen_network


def module(inputs: int = 1, outputs: int = 1, keep: bool = False) -> PromptedModule:
    network = frozen_network(PromptShape(inputs, outputs))
    return PromptedModule(AttentionNetwork(network, torch.float64), keep)


def prompt(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize(("given", "wanted"), [((), ()), ((4,), (4,)), ((4, 1), (4,)), ((2, 4, 1), (2, 4))])
def test_one_input(given, wanted):
    assert module()(torch.zeros(given), prompt(5, 3)).shape == wanted
    assert module(keep=True)(torch.zeros(given), prompt(5, 3)).shape == (*wanted, 1)


@pytest.mark.parametrize(
    ("x", "told", "wanted"),
    [((4, 2), (5, 6), (4, 2)), ((3, 4, 2), (3, 1, 5, 6), (3, 4, 2)), ((2,), (7, 5, 6), (7, 2))],
)
def test_leading_axes_broadcast(x, told, wanted):
    points, tokens = prompt(*x), prompt(*told)
    found = module(2, 2, keep=True)(points, tokens)
    assert found.shape == wanted
    last = points.expand(*wanted[:-1], 2)[(-1,) * len(wanted[:-1])]
    of_last = tokens.expand(*wanted[:-1], *told[-2:])[(-1,) * len(wanted[:-1])]
    torch.testing.assert_close(found[(-1,) * len(wanted[:-1])], module(2, 2, keep=True)(last, of_last))


def test_other_shapes_are_refused():
    with pytest.raises(DomainError, match=r"\(\.\.\., 2\)"):
        module(2)(torch.zeros(4, 3), prompt(5, 5))
    with pytest.raises(DomainError, match=r"\(\.\.\., n, 5\)"):
        module(2)(torch.zeros(4, 2), prompt(5, 6))

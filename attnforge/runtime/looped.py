"""A block of layers applied again and again to a prompt made from examples, as an ``nn.Module``."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from attnforge.runtime.module import AttentionNetwork


class LoopedModule(nn.Module):
    """(X, y) to what ``read`` finds in the tokens after ``steps`` times the block; ``assemble`` makes the tokens.

    All steps share the weights of one block. Nothing is checked.
    """

    def __init__(
        self,
        block: AttentionNetwork,
        steps: int,
        assemble: Callable[[Tensor, Tensor], Tensor],
        read: Callable[[Tensor], Tensor],
    ) -> None:
        super().__init__()
        self.block, self.steps, self.assemble, self.read = block, steps, assemble, read

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """What is read after the last step."""
        tokens = self.assemble(x.to(self.block.dtype), y.to(self.block.dtype))
        for _ in range(self.steps):
            tokens = self.block(tokens)
        return self.read(tokens)

    def trajectory(self, x: Tensor, y: Tensor) -> Tensor:
        """What is read after every step, along a new axis in front."""
        tokens, found = self.assemble(x.to(self.block.dtype), y.to(self.block.dtype)), []
        for _ in range(self.steps):
            tokens = self.block(tokens)
            found.append(self.read(tokens))
        return torch.stack(found)

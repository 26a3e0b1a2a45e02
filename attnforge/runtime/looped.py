"""Blocks of layers on a prompt made from examples, as an ``nn.Module``."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from attnforge.runtime.arithmetic import as_written
from attnforge.runtime.module import AttentionNetwork


class LoopedModule(nn.Module):
    """(X, y) to what ``read`` finds in the tokens after all blocks of ``period`` layers; ``assemble`` makes the tokens.

    It takes weights of the examples, too, where there are some.
    Blocks that share their layers share their weights. Nothing is checked.
    """

    def __init__(
        self,
        core: AttentionNetwork,
        period: int,
        assemble: Callable[..., Tensor],
        read: Callable[[Tensor], Tensor],
    ) -> None:
        super().__init__()
        self.core, self.period, self.assemble, self.read = core, period, assemble, read

    def forward(self, x: Tensor, y: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        """What is read after the last block."""
        with as_written(x.device):
            return self.read(self.core(self.tokens(x, y, sample_weight)))

    def trajectory(self, x: Tensor, y: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        """What is read after every block, along a new axis in front."""
        with as_written(x.device):
            return torch.stack(
                [self.read(state) for state in self.core.states(self.tokens(x, y, sample_weight), self.period)]
            )

    def tokens(self, x: Tensor, y: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        """The prompt, assembled in the precision of the examples, then cast."""
        more = () if sample_weight is None else (sample_weight,)
        return self.assemble(x, y, *more).to(self.core.dtype)

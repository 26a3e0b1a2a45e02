"""Blocks of layers on a prompt made from examples, as an ``nn.Module``."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from attnforge.arrays import check_dense
from attnforge.runtime.arithmetic import as_written
from attnforge.runtime.module import AttentionNetwork, Shaped


class LoopedModule(Shaped):
    """(X, y) to what ``read`` finds in the tokens after all blocks of ``period`` layers; ``assemble`` makes the tokens.

    It takes weights of the examples, too, where there are some.
    Blocks that share their layers share their weights, and have hook points of their own. Nothing is checked.
    """

    def __init__(
        self,
        core: AttentionNetwork,
        period: int,
        assemble: Callable[..., Tensor],
        read: Callable[[Tensor], Tensor],
    ) -> None:
        super().__init__(core)
        self.period, self.assemble, self.read = period, assemble, read

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
        """The prompt, assembled in the precision of the examples, if that is more than the network's, then cast."""
        given = [each for each in (x, y, sample_weight) if each is not None]
        for each in given:
            check_dense(each)
        kind = torch.promote_types(x.dtype, self.core.dtype)
        return self.assemble(*(each.to(kind) for each in given)).to(self.core.dtype)

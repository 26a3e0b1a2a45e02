"""Modules that read their function from a prompt: queries from x, keys and values from the prompt's tokens."""

from __future__ import annotations

import math

from torch import Tensor

from attnforge.arrays import check_dense
from attnforge.runtime.joint import as_tokens, common_batch
from attnforge.runtime.module import AttentionNetwork, Shaped


class PromptedModule(Shaped):
    """A network of x (..., d) and a prompt (..., p, m), whose leading axes broadcast.

    With one input x may be a number or an (N,) tensor. Values are (...), or (..., k) with ``keep_features``. One prompt
    for many points is the cheap case. Gradients reach the prompt. Nothing is checked but shapes: NaN and points outside
    the domain of a prompt pass through.
    """

    def __init__(self, core: AttentionNetwork, keep_features: bool) -> None:
        super().__init__(core)
        self.keep_features = keep_features

    def forward(self, x: Tensor, prompt: Tensor) -> Tensor:
        """The values of the prompt's function."""
        asking = as_tokens("x", x, (self.core.features,))
        check_dense(prompt)
        batch = common_batch(prompt, asking)
        told = prompt if math.prod(prompt.shape[:-2]) == 1 else prompt.expand(*batch, *prompt.shape[-2:])
        out: Tensor = self.core(asking.expand(*batch, *asking.shape[-2:]), told)[..., 0, :]
        return out if self.keep_features else out[..., 0]

"""Modules with the shapes of the target: functions of d inputs, or functions of every token."""

from __future__ import annotations

from torch import Tensor

from attnforge.arrays import check_dense
from attnforge.errors import DomainError
from attnforge.runtime.module import AttentionNetwork, Shaped


class TargetModule(Shaped):
    """A network behind the shapes of its target.

    Functions take (..., d) and return (...), or (..., k) with k outputs; with one input also a number or an (N,)
    tensor, same shape back. Token targets take (..., n, d) and return (..., n), or (..., n, k) where they write k
    features. Nothing is checked: NaN and points outside the certified domain pass through.
    """

    def __init__(self, core: AttentionNetwork, layout: str, keep_features: bool) -> None:
        super().__init__(core)
        self.layout, self.keep_features = layout, keep_features

    def forward(self, x: Tensor) -> Tensor:
        """The network's values."""
        tokens, alone = self._tokens(x)
        out: Tensor = self.core(tokens)
        out = out if self.keep_features else out[..., 0]
        if self.layout == "tokens":
            return out
        out = out[..., 0, :] if self.keep_features else out[..., 0]
        return out.reshape((*x.shape, *out.shape[1:])) if alone else out

    def attention(self, x: Tensor) -> list[list[Tensor]]:
        """Softmax weights of every head: layers, heads, (..., query, key)."""
        return self.core.attention(self._tokens(x)[0])

    def _tokens(self, x: Tensor) -> tuple[Tensor, bool]:
        """(..., n, d) tokens, and whether x was plain numbers for a function of one input."""
        check_dense(x)
        if self.layout == "tokens":
            return x, False
        d = self.core.features
        if d == 1 and x.dim() <= 1:
            return x.reshape(-1, 1, 1), True
        if x.dim() == 0 or x.shape[-1] != d:
            wanted = f"(..., {d})" + (", a number or (N,)" if d == 1 else "")
            raise DomainError(f"The function takes tensors of shape {wanted}", f"shape {tuple(x.shape)}")
        return x.unsqueeze(-2), False

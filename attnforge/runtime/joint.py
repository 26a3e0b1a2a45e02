"""Modules of two inputs: keys and values come from X, queries from Y."""

from __future__ import annotations

import torch
from torch import Tensor

from attnforge.arrays import check_dense
from attnforge.errors import DomainError
from attnforge.runtime.module import AttentionNetwork, Shaped


class JointModule(Shaped):
    """A network of two inputs behind the shapes of its target f(X, Y).

    X is (..., d) or (..., n, d) by ``keys``, Y likewise by ``query``; with one input also a number or an (N,) tensor.
    Leading axes broadcast; one X for many Y is the cheap case, its keys are made once. Values are (...) or (..., k),
    and where Y is a sequence one for each of its tokens, (..., n) or (..., n, k). Nothing is checked: NaN and points
    outside the certified domain pass through.
    """

    def __init__(
        self, core: AttentionNetwork, keys: tuple[int, ...], query: tuple[int, ...], keep_features: bool
    ) -> None:
        super().__init__(core)
        self.keys, self.query, self.keep_features = keys, query, keep_features

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """The network's values."""
        told, asking = self._tokens(x, y)
        out: Tensor = self.core(asking, told)
        out = out if len(self.query) == 2 else out[..., 0, :]
        return out if self.keep_features else out[..., 0]

    def attention(self, x: Tensor, y: Tensor) -> list[list[Tensor]]:
        """Softmax weights of every head: layers, heads, (..., query, key)."""
        told, asking = self._tokens(x, y)
        return self.core.attention(asking, told)

    def _tokens(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """(..., n, d) tokens of both inputs; those of Y with all leading axes."""
        told, asking = as_tokens("X", x, self.keys), as_tokens("Y", y, self.query)
        return told, asking.expand(*common_batch(told, asking), *asking.shape[-2:])


def common_batch(told: Tensor, asking: Tensor) -> torch.Size:
    """The leading axes of two (..., n, d) tensors, broadcast."""
    return torch.Size(torch.broadcast_shapes(told.shape[:-2], asking.shape[:-2]))  # type: ignore[no-untyped-call]


def as_tokens(name: str, given: Tensor, shape: tuple[int, ...]) -> Tensor:
    """An input whose points have the given shape, (d,) or (n, d), as (..., n, d) tokens.

    >>> as_tokens("Y", torch.zeros(7, 3), (3,)).shape, as_tokens("Y", torch.zeros(7), (1,)).shape
    (torch.Size([7, 1, 3]), torch.Size([7, 1, 1]))
    """
    check_dense(given)
    if shape == (1,) and given.dim() <= 1:
        return given[..., None, None]
    if given.dim() < len(shape) or tuple(given.shape[-len(shape) :]) != shape:
        wanted = f"(..., {', '.join(map(str, shape))})" + (", a number or (N,)" if shape == (1,) else "")
        raise DomainError(f"{name} must have shape {wanted}", f"shape {tuple(given.shape)}", "Reshape the input")
    return given if len(shape) == 2 else given.unsqueeze(-2)

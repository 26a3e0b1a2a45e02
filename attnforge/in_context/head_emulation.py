"""An attention head as a prompt: one frozen network runs every head whose matrices stand in its prompt."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from attnforge.balls import DType, add_up, dtype_name
from attnforge.errors import DomainError, TargetError
from attnforge.in_context.function_prompt import as_tensor
from attnforge.network import Network, digest
from attnforge.theorems.in_context.head_emulation import (
    HeadMatrices,
    HeadShape,
    best_sharpness,
    emulation_bound,
    frozen_head,
    head_tokens,
)

if TYPE_CHECKING:
    from attnforge.runtime import AttentionNetwork

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class HeadPrompt:
    """The matrices of a head as tokens for the frozen network, for inputs with entries up to ``data_bound``.

    ``sharpness`` is the beta of the heads that multiply data by data, chosen from ``data_bound`` and ``dtype``.
    """

    matrices: HeadMatrices
    data_bound: float
    sharpness: float
    dtype: str

    def __repr__(self) -> str:
        return f"<HeadPrompt {self.matrices.shape}, |x| <= {self.data_bound:g}, {self.dtype}>"

    @cached_property
    def tokens(self) -> Array:
        """The tokens (2 d, d + 2 r + v): each row of the matrices with its key, then the mirror images."""
        found = head_tokens(self.matrices, self.sharpness, self.dtype)
        found.flags.writeable = False
        return found

    def parts(self, tokens: int) -> dict[str, float]:
        """Named parts of :meth:`bound`: what is left of the sharpness, and rounding."""
        return emulation_bound(self.matrices, self.data_bound, self.sharpness, self.dtype, tokens)

    def bound(self, tokens: int) -> float:
        """A bound of |network(X, prompt) - head(X)|, entry by entry, for every X of so many tokens within the bound.

        A worst case: it assumes entries and projections as large as ``data_bound`` and the matrices allow, with signs
        as bad as can be, in every score.
        """
        if tokens < 1:
            raise TargetError("`tokens` must be at least 1", str(tokens), "Give the length of X")
        return add_up(*self.parts(tokens).values())

    def bound_on(self, x: Any) -> float:
        """A bound of |network(X, prompt) - head(X)| for this X (..., n, d): smaller, because it knows the scores."""
        given = as_tensor(x).detach().cpu().double().numpy()
        self.check(given)
        parts = emulation_bound(self.matrices, self.data_bound, self.sharpness, self.dtype, given.shape[-2], given)
        return add_up(*parts.values())

    def check(self, x: Array) -> None:
        """Raise unless X is (..., n, d) with entries up to the bound."""
        features = self.matrices.shape.features
        if x.ndim < 2 or x.shape[-1] != features or x.size == 0:
            raise DomainError(f"X must have shape (..., n, {features})", f"shape {x.shape}", "Reshape it")
        if not np.all(np.abs(x) <= self.data_bound):
            got = f"{np.abs(x).max():g}"
            raise DomainError(f"Entries must be finite and at most {self.data_bound:g}", got, "Raise `data_bound`")

    def exact(self, x: Any) -> Array:
        """The head itself on X (..., n, d), in float64 NumPy: softmax(X W_Q W_K^T X^T) X W_V."""
        return self.matrices.exact(np.asarray(x, dtype=np.float64))


@dataclass(frozen=True)
class HeadNetwork:
    """The frozen network: ``net(X, prompt)`` runs the head in the prompt on X (..., n, d), any n, to (..., n, v).

    It depends on ``features`` d, ``width`` r of queries and keys and ``outputs`` v, and nothing else. Two layers of
    linear maps and softmax attention. NumPy in, NumPy out; torch alike.
    """

    features: int
    width: int
    outputs: int

    @property
    def shape(self) -> HeadShape:
        """The three numbers."""
        return HeadShape(self.features, self.width, self.outputs)

    @cached_property
    def network(self) -> Network:
        """The weights."""
        return frozen_head(self.shape)

    @property
    def digest(self) -> str:
        """SHA-256 of the weights: the same for every head of this shape."""
        return digest(self.network)

    def module(self, dtype: DType = "float64", device: Any = None) -> AttentionNetwork:
        """A ``torch.nn.Module`` called as ``module(X, tokens)``; it does **not** check its inputs' numbers."""
        import torch

        from attnforge.runtime import AttentionNetwork

        found = AttentionNetwork(self.network, getattr(torch, dtype_name(dtype)))
        return found if device is None else found.to(device)

    def __call__(self, x: Any, prompt: HeadPrompt) -> Any:
        """The emulated head's output on X."""
        import torch

        tensor = as_tensor(x)
        self._check(tensor.detach().cpu().double().numpy(), prompt)
        module = self.module(prompt.dtype, tensor.device)
        tokens = torch.from_numpy(prompt.tokens.copy()).to(tensor.device)
        if isinstance(x, torch.Tensor):
            return module(tensor, tokens).to(x.dtype if x.is_floating_point() else torch.float64)
        with torch.no_grad():
            found = module(tensor, tokens).to(torch.float64).numpy()
        return found.astype(np.float32) if np.asarray(x).dtype == np.float32 else found

    def _check(self, x: Array, prompt: HeadPrompt) -> None:
        if prompt.matrices.shape != self.shape:
            raise DomainError(f"This network emulates heads of {self.shape}", str(prompt.matrices.shape))
        prompt.check(x)


def attention_prompt(
    w_q: Any, w_k: Any, w_v: Any, *, data_bound: float = 1.0, dtype: DType = "float64"
) -> tuple[HeadNetwork, HeadPrompt]:
    r"""A frozen network, and a prompt that makes it run the head $\mathrm{softmax}(X W_Q W_K^\top X^\top) X W_V$.

    The matrices are data: 2 d tokens, from which two barely sharp heads make $X W_Q$, $X W_K$ and $X W_V$ before a
    third one attends (:mod:`attnforge.theorems.in_context.head_emulation`, with the error by formula). Swapping the
    prompt swaps the head. A scale such as $1/\sqrt r$ goes into ``w_q``.

    Args:
        w_q, w_k: (d, r).
        w_v: (d, v).
        data_bound: the largest |entry| of X; the sharpness is chosen for it, and larger entries are refused.
        dtype: ``"float64"`` or ``"float32"``.

    >>> rng = np.random.default_rng(0)
    >>> net, prompt = attention_prompt(*rng.normal(size=(3, 4, 4)))
    >>> x = rng.uniform(-1, 1, size=(10, 4))
    >>> bool(np.abs(net(x, prompt) - prompt.exact(x)).max() <= 1e-11)
    True
    """
    matrices = HeadMatrices(*(_matrix(name, given) for name, given in (("w_q", w_q), ("w_k", w_k), ("w_v", w_v))))
    beta, name = best_sharpness(matrices.shape.features, data_bound, dtype_name(dtype)), dtype_name(dtype)
    shape = matrices.shape
    network = HeadNetwork(shape.features, shape.width_of_scores, shape.outputs)
    return network, HeadPrompt(matrices, float(data_bound), beta, name)


def _matrix(name: str, given: Any) -> Array:
    try:
        return np.array(as_tensor(given).detach().cpu().double().numpy())
    except DomainError as error:
        raise TargetError(f"`{name}` must be a matrix of real numbers", error.got, "Pass an array") from None

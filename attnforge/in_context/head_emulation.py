"""An attention head as a prompt: one frozen network runs every head whose matrices stand in its prompt."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from attnforge.arrays import float64, kind_of, numbers, returned, tensor
from attnforge.certification import Certificate
from attnforge.certification.certify import certify as prove
from attnforge.certification.in_context.head import bound_head_on
from attnforge.compiler.certifying import certified
from attnforge.compiler.compiled import Compiled
from attnforge.compiler.report import card as report_card
from attnforge.display import Card, Displayed
from attnforge.errors import DomainError, TargetError
from attnforge.network import Network, digest
from attnforge.outward import DType, add_up, dtype_name, round_to
from attnforge.targets import AttentionHead, Box
from attnforge.targets.in_context import HeadShape
from attnforge.theorems.in_context.head_emulation import NAME, best_sharpness, frozen_head, head_tokens, prompted

if TYPE_CHECKING:
    from attnforge.runtime import AttentionNetwork

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class HeadPrompt(Displayed):
    """Tokens that make the frozen network run an attention head, and the proof of how closely.

    ``target`` is the head, on tokens with entries up to ``data_bound``. ``tokens`` (2 d, d + 2 r + v), as the dtype
    holds them and not to be written to, are each row of its matrices with its key, then the mirror images.
    """

    target: AttentionHead
    tokens: Array
    dtype: str

    def __repr__(self) -> str:
        return f"<HeadPrompt {self.target.shape}, |x| <= {self.data_bound:g}, {self.dtype}>"

    def _card(self) -> Card:
        return replace(report_card(self.compiled), title=f"HeadPrompt of {len(self.tokens):,} tokens")

    @property
    def data_bound(self) -> float:
        """The largest |entry| of X."""
        return float(np.maximum(np.abs(self.target.domain.lower), np.abs(self.target.domain.upper)).max())

    @cached_property
    def network(self) -> Network:
        """The frozen network, given the prompt: it has the tokens as constant keys and values."""
        return prompted(frozen_head(self.target.shape), self.tokens)

    @cached_property
    def compiled(self) -> Compiled:
        """That network with its certificate, and the largest error a quick search finds; made when it is asked for."""
        return certified(self.network, self.target, NAME, self.dtype)

    @property
    def certificate(self) -> Certificate:
        """What is known of |network(X, prompt) - head(X)|, for every X of up to ``target.tokens`` tokens."""
        return self.compiled.certificate

    def describe(self) -> str:
        """Head, domain, size and certificate, as text."""
        return self.compiled.report()

    def parts(self, tokens: int) -> dict[str, float]:
        """Named parts of :meth:`bound`: what the tokens lack in exact arithmetic, and rounding."""
        return dict(prove(self.network, replace(self.target, tokens=tokens), dtype=self.dtype).parts)

    def bound(self, tokens: int) -> float:
        """A bound of |network(X, prompt) - head(X)|, entry by entry, for every X of so many tokens within the bound.

        A worst case: it assumes entries and projections as large as ``data_bound`` and the matrices allow, with signs
        as bad as can be, in every score. That of ``certificate`` is the one for ``target.tokens``.
        """
        return add_up(*self.parts(tokens).values())

    def bound_on(self, x: Any) -> float:
        """A bound of |network(X, prompt) - head(X)| for this X (..., n, d): smaller, because it knows the scores."""
        given = float64(x)
        self.check(given)
        return bound_head_on(self.network, self.target, self.dtype, given)

    def with_tokens(self, tokens: Any) -> HeadPrompt:
        """The same head with other tokens, and a certificate of what these compute; refused where there is none."""
        given = float64(tokens)
        found = HeadPrompt(self.target, _held(given, self.target.shape, self.dtype), self.dtype)
        prove(found.network, found.target, dtype=found.dtype)
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write tokens, head and certificate to one safetensors file; read it by ``load_prompt``."""
        self.compiled.save(path)

    def check(self, x: Array) -> None:
        """Raise unless X is (..., n, d) with entries up to the bound."""
        features, box = self.target.shape.features, self.target.domain
        if x.ndim < 2 or x.shape[-1] != features or x.size == 0:
            raise DomainError(f"X must have shape (..., n, {features})", f"shape {x.shape}", "Reshape it")
        if not np.all((x >= box.lower) & (x <= box.upper)):
            got = f"{np.abs(x).max():g}"
            raise DomainError(f"Entries must be finite and at most {self.data_bound:g}", got, "Raise `data_bound`")

    def exact(self, x: Any) -> Array:
        """The head itself on X (..., n, d), in float64 NumPy: softmax(X W_Q W_K^T X^T) X W_V."""
        return np.asarray(self.target.values(float64(x)))


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

        read = numbers(x)
        self._check(float64(read), prompt)
        points, kind = tensor(read), kind_of(read)
        module = self.module(prompt.dtype, points.device)
        tokens = torch.from_numpy(prompt.tokens.copy()).to(points.device)
        with torch.set_grad_enabled(torch.is_grad_enabled() and isinstance(kind, torch.dtype)):
            return returned(module(points, tokens), kind)

    def _check(self, x: Array, prompt: HeadPrompt) -> None:
        if prompt.target.shape != self.shape:
            raise DomainError(f"This network emulates heads of {self.shape}", str(prompt.target.shape))
        prompt.check(x)


def attention_prompt(
    w_q: Any, w_k: Any, w_v: Any, *, data_bound: float = 1.0, tokens: int = 1024, dtype: DType = "float64"
) -> tuple[HeadNetwork, HeadPrompt]:
    r"""A frozen network, and a prompt that makes it run the head $\mathrm{softmax}(X W_Q W_K^\top X^\top) X W_V$.

    The matrices are data: 2 d tokens, from which two barely sharp heads make $X W_Q$, $X W_K$ and $X W_V$ before a
    third one attends (:mod:`attnforge.theorems.in_context.head_emulation`). Swapping the prompt swaps the head. A scale
    such as $1/\sqrt r$ goes into ``w_q``. ``prompt.certificate`` bounds
    $|\mathrm{network}(X, \mathrm{prompt}) - \mathrm{head}(X)|$ from the tokens themselves, rounding included.

    Args:
        w_q, w_k: (d, r).
        w_v: (d, v).
        data_bound: the largest |entry| of X; the sharpness is chosen for it, and larger entries are refused.
        tokens: the longest X that ``prompt.certificate`` covers; longer ones run, and ``prompt.bound(n)`` is theirs.
        dtype: ``"float64"`` or ``"float32"``.

    >>> rng = np.random.default_rng(0)
    >>> net, prompt = attention_prompt(*rng.normal(size=(3, 4, 4)))
    >>> x = rng.uniform(-1, 1, size=(10, 4))
    >>> bool(np.abs(net(x, prompt) - prompt.exact(x)).max() <= 1e-11), prompt.certificate.bound <= 1e-6
    (True, True)
    """
    query, key, value = (_matrix(name, given) for name, given in (("w_q", w_q), ("w_k", w_k), ("w_v", w_v)))
    name, features = dtype_name(dtype), query.shape[0] if query.ndim else 0
    beta = best_sharpness(features, data_bound, name)
    target = AttentionHead(query, key, value, Box(-data_bound, data_bound), tokens)
    shape = target.shape
    network = HeadNetwork(shape.features, shape.width_of_scores, shape.outputs)
    return network, HeadPrompt(target, _held(head_tokens(target, beta, name), shape, name), name)


def head_prompt_of(compiled: Compiled) -> HeadPrompt | None:
    """The prompt that a network has as its constant keys and values; None where it is no frozen network given one."""
    heads, target = compiled.network.heads, compiled.target
    if not isinstance(target, AttentionHead) or heads[0].memory_keys is None or heads[0].memory_values is None:
        return None
    tokens = np.hstack([heads[0].memory_keys, heads[0].memory_values])
    if tokens.shape[1] != target.shape.width:
        return None
    prompt = HeadPrompt(target, _held(tokens, target.shape, compiled.dtype), compiled.dtype)
    if digest(prompt.network) != digest(compiled.network):
        return None
    vars(prompt)["compiled"] = compiled  # as stored: it need not be certified again
    return prompt


def _held(tokens: Array, shape: HeadShape, dtype: str) -> Array:
    """The tokens as the dtype holds them, read-only."""
    if tokens.ndim != 2 or tokens.shape[1] != shape.width or not np.all(np.isfinite(tokens)):
        got = f"shape {tokens.shape}"
        raise TargetError("Tokens are a matrix of finite numbers", got, f"Give (2 d, d + 2 r + v), width {shape.width}")
    found = np.array(round_to(tokens, dtype))
    found.flags.writeable = False
    return found


def _matrix(name: str, given: Any) -> Array:
    try:
        return np.array(float64(given))
    except DomainError as error:
        raise TargetError(f"`{name}` must be a matrix of real numbers", error.got, "Pass an array") from None

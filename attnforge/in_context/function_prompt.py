r"""A function as a prompt: one frozen network, and for every function tokens that make the network compute it."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from attnforge.arrays import float64, is_tensor, kind_of, numbers, returned, tensor
from attnforge.certification import Certificate
from attnforge.compiler.attempt import attempt
from attnforge.compiler.certifying import certified
from attnforge.compiler.choice import candidates
from attnforge.compiler.compiled import Compiled
from attnforge.compiler.report import card as report_card
from attnforge.compiler.targets import as_target
from attnforge.display import Card, Displayed
from attnforge.errors import DomainError, RefusalError, TargetError, ToleranceError
from attnforge.network import Network, digest
from attnforge.outward import DType, dtype_name, round_to
from attnforge.targets import Box, Target
from attnforge.theorems.in_context.function_prompt import (
    AsPrompt,
    PromptShape,
    frozen_network,
    memory_network,
    prompt_shape,
)
from attnforge.theorems.registry import construction

if TYPE_CHECKING:
    from torch import Tensor

    from attnforge.runtime.prompted import PromptedModule

Array = npt.NDArray[np.float64]

CONSTRUCTIONS = ("ridge", "polynomial", "tensor_grid", "max_affine")
"""Those of one head over constant keys, in the order in which they are tried."""

MOST_TOKENS = 200_000


@dataclass(frozen=True, eq=False)
class FunctionPrompt(Displayed):
    """Tokens that make the frozen network compute a function, and the proof of how closely.

    ``compiled`` is the network that has the tokens as its constant keys and values: the frozen one, given the prompt.
    """

    compiled: Compiled

    def __repr__(self) -> str:
        return f"<FunctionPrompt {self.target.describe()}: {len(self.tokens)} tokens, {self.certificate}>"

    def _card(self) -> Card:
        return replace(report_card(self.compiled), title=f"FunctionPrompt of {len(self.tokens):,} tokens")

    @cached_property
    def tokens(self) -> Array:
        """The tokens (p, 2 d + k): slopes, offsets and values, as the dtype holds them. Not to be written to."""
        head = self.compiled.network.heads[0]
        tokens = np.hstack([np.asarray(head.memory_keys), np.asarray(head.memory_values)])
        found = round_to(tokens, self.dtype)
        found.flags.writeable = False
        return found

    @property
    def shape(self) -> PromptShape:
        """Numbers of inputs and outputs, which the frozen network must have too."""
        return prompt_shape(self.target)

    @property
    def certificate(self) -> Certificate:
        """What is known of |network(x, prompt) - f(x)| on the domain."""
        return self.compiled.certificate

    @property
    def target(self) -> Target:
        """The function."""
        return self.compiled.target

    @property
    def domain(self) -> Box:
        """Where the certificate holds and calls are accepted."""
        return self.compiled.domain

    @property
    def dtype(self) -> str:
        """What the network runs in, given this prompt."""
        return self.compiled.dtype

    def describe(self) -> str:
        """Function, domain, tokens and certificate, as text."""
        return self.compiled.report()

    def certify(self) -> Certificate:
        """Prove the bound again, from the tokens and the function alone."""
        return self.with_tokens(self.tokens).certificate

    def with_tokens(self, tokens: Any) -> FunctionPrompt:
        """The same function with other tokens, and a certificate of what these compute."""
        given = float64(tokens).copy()
        if given.ndim != 2 or not np.all(np.isfinite(given)):
            raise TargetError("Tokens are a matrix of finite numbers", f"shape {given.shape}", "Give (p, 2 d + k)")
        before, name = self.compiled.network, self.compiled.construction
        claims = before.heads[0].claims if len(given) == before.heads[0].memory_size else None
        network = memory_network(self.shape, given, before.construction, claims)
        return FunctionPrompt(certified(network, self.target, name, self.dtype))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write tokens, function, domain and certificate to one safetensors file; read it by ``load_prompt``."""
        self.compiled.save(path)


@dataclass(frozen=True)
class FunctionNetwork:
    """The frozen network: ``net(x, prompt)``. It depends on the numbers of inputs and outputs, and nothing else.

    x is (..., d), with one input also a number or an (N,) array; values are (...), or (..., k) for functions that
    return vectors (``outputs``). The prompt is a :class:`FunctionPrompt`, then x is checked against its domain, or bare
    tokens (..., p, 2 d + k), whose leading axes broadcast with those of x. NumPy in, NumPy out; torch alike.

    >>> FunctionNetwork(1).digest == FunctionNetwork(1).digest != FunctionNetwork(2).digest
    True
    """

    inputs: int
    outputs: int | None = None

    @cached_property
    def network(self) -> Network:
        """The weights: zeros and ones."""
        return frozen_network(self.shape)

    @property
    def shape(self) -> PromptShape:
        """The columns of a prompt."""
        return PromptShape(self.inputs, self.outputs or 1)

    @property
    def digest(self) -> str:
        """SHA-256 of the weights: the same for every function, domain, tolerance and dtype."""
        return digest(self.network)

    def module(self, dtype: DType = "float64", device: Any = None) -> PromptedModule:
        """A ``torch.nn.Module`` called as ``module(x, tokens)``; it does **not** check its inputs."""
        import torch

        from attnforge.runtime import AttentionNetwork
        from attnforge.runtime.prompted import PromptedModule

        found = PromptedModule(
            AttentionNetwork(self.network, getattr(torch, dtype_name(dtype))), self.outputs is not None
        )
        return found if device is None else found.to(device)

    def __call__(self, x: Any, prompt: Any) -> Any:
        """The values at x of the function that the prompt spells out."""
        import torch

        points, tokens, dtype, kind = self._inputs(x, prompt)
        module = self.module(dtype, points.device)
        with torch.set_grad_enabled(torch.is_grad_enabled() and isinstance(kind, torch.dtype)):
            return returned(module(points, tokens), kind)

    def _inputs(self, x: Any, prompt: Any) -> tuple[Tensor, Tensor, str, Any]:
        """Points and tokens as tensors on one device, checked, the dtype to run in and that of the answer."""
        import torch

        given = prompt if isinstance(prompt, FunctionPrompt) else None
        read = numbers(x, given.target.names if given else None)
        points, tokens = tensor(read), tensor(given.tokens if given else prompt)
        device = next((each.device for each in (x, prompt) if is_tensor(each)), points.device)
        kind = kind_of(points if is_tensor(x) or is_tensor(prompt) else read)
        self._check_points(tuple(points.shape))
        if given:
            self._check_prompt(given)
            given.domain.check(_flat(points, self.inputs))
            return points.to(device), tokens.to(device), given.dtype, kind
        self.shape.check(tuple(tokens.shape))
        if not (torch.isfinite(points).all() and torch.isfinite(tokens).all()):
            raise DomainError("Inputs and prompts must be finite", "NaN or infinity", "Remove them")
        wide = tokens.dtype if tokens.is_floating_point() else torch.float64
        return points.to(device), tokens.to(device), str(wide).removeprefix("torch."), kind

    def _check_points(self, shape: tuple[int, ...]) -> None:
        plain = self.inputs == 1 and len(shape) <= 1
        if not plain and (not shape or shape[-1] != self.inputs):
            wanted = f"(..., {self.inputs})" + (", a number or (N,)" if self.inputs == 1 else "")
            raise DomainError(f"Inputs must have shape {wanted}", f"shape {shape}", "Reshape the input")

    def _check_prompt(self, prompt: FunctionPrompt) -> None:
        if prompt.shape != self.shape or prompt.target.outputs != self.outputs:
            got = f"a prompt for {prompt.shape.inputs} inputs and {prompt.target.outputs or 'no vector of'} outputs"
            wanted = f"This network reads {self.inputs} inputs and writes {self.outputs or 'no vector of'} outputs"
            raise DomainError(wanted, got, "Use the network that came with the prompt")


def function_prompt(
    f: Any, domain: Any, tol: float = 1e-3, *, dtype: DType = "float64"
) -> tuple[FunctionNetwork, FunctionPrompt]:
    r"""A frozen attention network, and a prompt that makes it compute f on the domain up to ``tol``.

    The network is one head of cross-attention whose weights are zeros and ones: the same bytes for every f, domain and
    tol. It answers $\sum_k \mathrm{softmax}_k(a_k \cdot x + b_k)\,v_k$ with slopes $a_k$, offsets $b_k$ and values
    $v_k$ from the prompt's tokens, so that anchors, sharpness and values are all in the prompt
    (:mod:`attnforge.theorems.in_context.function_prompt`). ``prompt.certificate`` bounds
    $|\mathrm{network}(x, \mathrm{prompt}) - f(x)|$ on the whole domain, rounding included, from the tokens themselves;
    for a callable it is ``sampled``.

    Args:
        f: text, a sympy expression or a callable, as for :func:`attnforge.compile`; one of one input receives (N,)
            arrays.
        domain: ``{"x": (-1, 1), ...}``, ``[(-1, 1), ...]`` or an ``af.Box`` of shape (d,).
        tol: the largest error asked for.
        dtype: what the network runs in when it reads this prompt.

    >>> net, sine = function_prompt("sin(3*x)", {"x": (-1, 1)}, tol=1e-4)
    >>> same, square = function_prompt("x^2", {"x": (0, 2)}, tol=1e-4)
    >>> same.digest == net.digest, sine.certificate.bound <= 1e-4
    (True, True)
    >>> bool(abs(net(1.5, square) - 2.25) <= 1e-4)
    True
    """
    if not _is_positive(tol):
        raise ToleranceError("`tol` must be a positive number", repr(tol)[:80], "Ask for 1e-3, say")
    target = as_target(f, domain)
    if target.layout != "function":
        raise TargetError("A prompt spells out a function of d inputs", target.describe(), "Use a box of shape (d,)")
    prompt = FunctionPrompt(_compiled(target, tol, dtype_name(dtype)))
    return FunctionNetwork(target.domain.lower.size, target.outputs), prompt


def function_prompt_of(compiled: Compiled) -> FunctionPrompt | None:
    """The prompt that a network has as its constant keys and values; None where it is no frozen network given one."""
    if compiled.target.layout != "function":
        return None
    shape, heads = prompt_shape(compiled.target), compiled.network.heads
    keys, values = (heads[0].memory_keys, heads[0].memory_values) if len(heads) == 1 else (None, None)
    if keys is None or values is None or keys.shape[1] != shape.scores:
        return None
    again = memory_network(shape, np.hstack([keys, values]), compiled.network.construction, heads[0].claims)
    return FunctionPrompt(compiled) if digest(again) == digest(compiled.network) else None


def _is_positive(tol: Any) -> bool:
    try:
        return math.isfinite(tol) and tol > 0
    except TypeError:
        return False


def _compiled(target: Target, tol: float, dtype: str) -> Compiled:
    """The first construction whose head, as a prompt, keeps the tolerance."""
    refusals: dict[str, str] = {}
    smallest: list[float] = []
    for name in CONSTRUCTIONS:
        as_prompt = AsPrompt(construction(name))
        for candidate, plan in candidates(target, tol, dtype, refusals, as_prompt):
            try:
                return attempt(candidate, plan, target, tol, dtype, max_anchors=MOST_TOKENS)
            except (RefusalError, ToleranceError) as error:
                refusals[name] = str(error)
                smallest += [] if error.smallest_tol is None else [error.smallest_tol]
    lines = "".join(f"\n  {name}: {reason}" for name, reason in refusals.items())
    text = f"No prompt reached tol={tol:g} in {dtype} for {target.describe()}: one head over constant keys is needed"
    raise RefusalError(f"{text}. Reasons:{lines}\n", smallest_tol=min(smallest, default=None))


def _flat(points: Tensor, inputs: int) -> Array:
    """Points (N, d) in float64, for a look at the domain."""
    return float64(points).reshape(-1, inputs)

"""A compiled function of a whole prompt: called as net(prompt, query), one network for prompts of any length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from attnforge.arrays import float64, is_tensor, kind_of, numbers, returned
from attnforge.certification import Certificate
from attnforge.certification.certificate import Estimate
from attnforge.certification.in_context.prompt_formula import certify_prompt_formula
from attnforge.compiler.budget import Budget
from attnforge.compiler.cost import afford
from attnforge.compiler.finest import rounded_up
from attnforge.compiler.in_context import PromptNetwork
from attnforge.compiler.registers import Traced
from attnforge.errors import CertificateError, DomainError, TargetError, ToleranceError
from attnforge.expression.parse import MEAN
from attnforge.outward import DType
from attnforge.targets import PromptFormula, as_box
from attnforge.targets.in_context.prompt_formula import FIRST, MOST
from attnforge.theorems.prompt_formula import NAME, PART, prompt_network
from attnforge.theorems.registers import counted

if TYPE_CHECKING:
    from attnforge.runtime.looped import LoopedModule

Array = npt.NDArray[np.float64]

LENGTHS, PROMPTS = (1, 2, 3, 10, 100), 200  # tokens of prompts on which a network is tried, and how many of each
FINER = 4  # times that the graphs are made ten times finer before a tolerance is given up


class PromptFunction(PromptNetwork):
    """Frozen softmax attention that computes a function of a whole prompt and of a query.

    ``prompt`` is (..., n, t), a column a feature of a token, ``query`` (..., k), or (...) where k = 1; their leading
    axes broadcast. Values are (...). NumPy in, NumPy out; torch in, torch out. The same weights serve every n up to
    ``target.tokens``. Prompts outside the box, or that do not meet the conditions, raise DomainError.
    """

    target: PromptFormula
    certificate: Certificate
    prove = staticmethod(certify_prompt_formula)

    def __call__(self, prompt: Any, query: Any = None) -> Any:
        """The value, or values, in the caller's dtype."""
        import torch

        read = numbers(prompt, self.target.features)
        tokens = torch.from_numpy(self.prompt(read, query))
        device = read.device if is_tensor(read) else tokens.device
        module = self._running(device)
        with torch.no_grad():
            return returned(module.read(module.core(tokens.to(device))), kind_of(read))

    def prompt(self, prompt: Any, query: Any = None) -> Array:
        """The tokens (..., n, t + k) that ``network`` takes, the query beside every one, after checking them."""
        if query is None and self.target.query:
            asked = ", ".join(self.target.query)
            raise DomainError(f"This function is of a prompt and of {asked}", "no query", "Call net(prompt, query)")
        rows = float64(prompt, self.target.features)
        asked_for = float64(() if query is None else query, self.target.query)
        if rows.ndim == 1 and len(self.target.features) == 1:
            rows = rows[:, None]
        if len(self.target.query) == 1 and asked_for.ndim in (0, rows.ndim - 2):
            asked_for = asked_for[..., None]
        return np.asarray(self.target.assembled(rows, asked_for))

    def certify(self, tokens: int) -> Certificate:
        """The certificate for prompts of at most so many tokens: rounding is less, and the bound, for fewer."""
        if type(tokens) is not int or not 1 <= tokens <= self.target.tokens:
            got, wanted = repr(tokens)[:40], f"A number of tokens from 1 to {self.target.tokens:,} is certified"
            raise TargetError(wanted, got, "Compile with a larger `tokens`")
        return certify_prompt_formula(self.network, self.target, self.dtype, tokens=tokens)

    def module(  # type: ignore[override]
        self, dtype: DType | None = None, device: Any = None, trainable: bool = False, kernel: str = "auto"
    ) -> LoopedModule:
        """A ``torch.nn.Module`` called as ``module(prompt, query)``, (..., n, t) and (..., k). It does not check."""
        from attnforge.runtime.looped import LoopedModule

        core = self._core(dtype, trainable, kernel)
        module = LoopedModule(core, len(self.network.layers), _beside, _first)
        return module if device is None else module.to(device)

    def trace(self, *inputs: Any, **named: Any) -> list[Traced]:
        """Refused: registers are those of two graphs, at every token and at the first."""
        raise TargetError("Graphs of one token are traced", "a function of a prompt", "Look at net.attention(prompt)")

    def attention(self, prompt: Any, query: Any = None) -> list[list[Any]]:
        """Softmax weights: over layers of attention, over heads, (..., query, key)."""
        import torch

        with torch.no_grad():
            core = self._running(torch.device("cpu")).core
            found = core.attention(torch.from_numpy(self.prompt(prompt, query)))
        return [[weights.double().numpy() for weights in layer] for layer in found]


def is_prompt_formula(target: Any) -> bool:
    """Whether a target is text with a mean over tokens."""
    return isinstance(target, str) and MEAN in target


def compile_prompt(
    text: str,
    domain: Any,
    tol: float,
    dtype: str,
    budget: Budget,
    *,
    given: Any = None,
    query: Sequence[str] | None = None,
    tokens: int | None = None,
    max_anchors: int | None = None,
) -> PromptFunction:
    """The network for a formula of means; made finer until its bound is within tol."""
    if domain is None:
        raise DomainError("A target needs a domain", "none", 'Write {"x": (-1, 1), "q": (0, 1)}')
    if not isinstance(given, Mapping | None):
        wanted = "`given` maps expressions of means to their ends"
        raise TargetError(wanted, type(given).__name__, 'Write {"tokens.mean(x^2)": (0.1, None)}')
    box, names = as_box(domain)
    target = PromptFormula(text, box, names, query, given, MOST if tokens is None else tokens)
    target.check_defined()
    best = None
    for finer in range(FINER):
        budget.watch.say("fitting both graphs")
        network = prompt_network(target, tol, dtype, PART / 10**finer)
        afford(counted(network), NAME, max_anchors, budget.max_bytes)
        budget.watch.say("proving both graphs")
        certificate = certify_prompt_formula(network, target, dtype, budget.effort)
        best = min([certificate, *([best] if best else [])], key=lambda each: each.bound or np.inf)
        if certificate.bound is not None and certificate.bound <= tol:
            reason = f"a graph at every token, {len(target.means)} means, a graph at the first token"
            bare = PromptFunction(network, target, certificate, NAME, dtype, reason)
            return replace(bare, certificate=with_estimate(bare))
        if certificate.parts["rounding"] > tol:
            break
    assert best is not None
    assert best.bound is not None
    got = f"{best.bound:.2g}, of which rounding takes {best.parts['rounding']:.2g}"
    remedy = "Raise tol, ask for fewer `tokens`, or narrow the box or the conditions"
    raise ToleranceError(
        f"A bound of {tol:g} for {target.tokens:,} tokens", got, remedy, smallest_tol=rounded_up(best.bound)
    )


def with_estimate(net: PromptFunction, seed: int = 0) -> Certificate:
    """The certificate with the largest error over random prompts; raises if that is above the bound."""
    rng, target, worst = np.random.default_rng(seed), net.target, 0.0
    core = net._running("cpu")
    import torch

    for count in LENGTHS:
        tokens = rng.uniform(target.box.lower, target.box.upper, (PROMPTS, count, len(target.names)))
        tokens[..., len(target.features) :] = tokens[:, :1, len(target.features) :]
        tokens = tokens[target.meets(tokens)]
        if len(tokens):
            found = core.read(core.core(torch.from_numpy(tokens))).double().numpy()
            worst = max(worst, float(np.abs(found - target.values(tokens.astype(np.longdouble))).max()))
    if not worst <= (net.certificate.bound or np.inf):
        defect = "No measured error may exceed the certified bound (this is a defect of attnforge; please report it)"
        raise CertificateError(defect, f"error {worst} above bound {net.certificate.bound}")
    return replace(net.certificate, estimate=Estimate(worst, ()))


def _beside(prompt: Any, query: Any) -> Any:
    """The query beside every token."""
    import torch

    batch = torch.broadcast_shapes(prompt.shape[:-2], query.shape[:-1])  # type: ignore[no-untyped-call]
    wide = query.unsqueeze(-2).expand(*batch, prompt.shape[-2], query.shape[-1])
    return torch.cat([prompt.expand(*batch, *prompt.shape[-2:]), wide], dim=-1)


def _first(tokens: Any) -> Any:
    """What the first token holds."""
    return tokens[..., FIRST, 0]

"""``compile``: choose, size, build, certify. A table of contents; the mathematics is elsewhere."""

from __future__ import annotations

import math
from typing import Any

from attnforge.balls import machine
from attnforge.certification import Certificate
from attnforge.compiler.certifying import certified
from attnforge.compiler.compiled import Compiled
from attnforge.compiler.cost import afford
from attnforge.compiler.targets import as_target
from attnforge.errors import AttnforgeError, RefusalError, ToleranceError
from attnforge.targets import Target
from attnforge.theorems.construction import Construction
from attnforge.theorems.registry import CONSTRUCTIONS
from attnforge.theorems.registry import construction as by_name

ROUNDS = 4  # sizing again with less tolerance, to leave room for rounding


def compile(
    target: Any,
    domain: Any = None,
    tol: float = 1e-3,
    *,
    construction: str = "auto",
    norm: str = "sup",
    dtype: str = "float64",
    lipschitz: Any = None,
    max_anchors: int | None = None,
    max_bytes: int | None = None,
    progress: bool = False,
) -> Compiled:
    """Compile a function into softmax-attention weights with a proved bound of at most ``tol``.

    Args:
        target: text such as ``"clamp(2*x + 0.3*y - 1, -1, 1)"``, a sympy expression, a torch ``nn.Sequential`` of
            Linear and ReLU-like layers, or a callable, vectorised over leading axes ((N,) arrays for one input).
        domain: ``{"x": (-1, 1), ...}``, ``[(-1, 1), ...]`` or an ``af.Box``; of shape (n, d) for sequence maps.
        tol: the largest error asked for, rounding in ``dtype`` included.
        construction: ``"auto"`` (the cheapest that reaches tol) or a name from ``af.constructions``.
        norm: ``"sup"``.
        dtype: ``"float64"``, ``"float32"``, ``"bfloat16"`` or ``"float16"``: what it runs in.
        lipschitz: of a callable, a number (sup norm) or ``af.Lipschitz``; without it nothing is proved, and the
            certificate is ``sampled``.
        max_anchors, max_bytes: refuse rather than build something larger.
        progress: print what is being tried.

    >>> net = compile("clamp(2*x - 0.5, -1, 1)", {"x": (-1, 1)}, tol=1e-9)
    >>> net.certificate.bound <= 1e-9, float(net(0.5))
    (True, 0.5)
    """
    _check_request(tol, norm, dtype)
    wanted = as_target(target, domain, lipschitz)
    candidates = CONSTRUCTIONS if construction == "auto" else (by_name(construction),)
    refusals: dict[str, str] = {}
    for candidate in _cheapest_first(candidates, wanted, tol, dtype, refusals):
        if progress:
            print(f"trying {candidate.name} ...")
        try:
            return _attempt(candidate, wanted, tol, dtype, max_anchors, max_bytes)
        except (RefusalError, ToleranceError) as error:
            if construction != "auto":
                raise
            refusals[candidate.name] = str(error)
    raise _refused(wanted, tol, dtype, refusals)


def _check_request(tol: float, norm: str, dtype: str) -> None:
    try:
        positive = math.isfinite(tol) and tol > 0
    except TypeError:
        positive = False
    if not positive:
        raise ToleranceError("`tol` must be a positive number", repr(tol), "Ask for 1e-3, say")
    if norm != "sup":
        raise ToleranceError("`norm` must be 'sup' for these constructions", repr(norm), "Leave it out")
    machine(dtype)


def _cheapest_first(
    candidates: tuple[Construction[Any], ...], target: Target, tol: float, dtype: str, refusals: dict[str, str]
) -> list[Construction[Any]]:
    """The constructions that accept the target, fewest bytes first; the others' reasons are noted."""
    accepted = []
    for candidate in candidates:
        reason = candidate.accepts(target)
        if reason is not None:
            refusals[candidate.name] = reason
            continue
        try:
            accepted.append((candidate.cost(target, candidate.size(target, tol, dtype)).bytes, candidate))
        except (RefusalError, ToleranceError) as error:
            refusals[candidate.name] = str(error)
    return [candidate for _, candidate in sorted(accepted, key=lambda pair: pair[0])]


def _attempt(
    candidate: Construction[Any], target: Target, tol: float, dtype: str, max_anchors: int | None, max_bytes: int | None
) -> Compiled:
    """Size, build and certify; where rounding spends part of the tolerance, size again for what is left."""
    left, compiled = tol, None
    for _ in range(ROUNDS):
        plan = candidate.size(target, left, dtype)
        afford(candidate.cost(target, plan), candidate.name, max_anchors, max_bytes)
        compiled = certified(candidate.build(target, plan), target, candidate.name, dtype)
        certificate = compiled.certificate
        seen = certificate.estimate.error if certificate.estimate is not None else math.inf
        if (seen if certificate.bound is None else certificate.bound) <= tol:
            return compiled
        left = left / 2 if certificate.bound is None else tol - 1.1 * certificate.parts["rounding"]
        if left <= tol / 10:
            break
    raise _too_fine(candidate.name, tol, dtype, compiled.certificate if compiled else None)


def _too_fine(name: str, tol: float, dtype: str, certificate: Certificate | None) -> ToleranceError:
    bound = math.inf if certificate is None or certificate.bound is None else certificate.bound
    rounding = 0.0 if certificate is None else certificate.parts.get("rounding", 0.0)
    finer = "" if dtype == "float64" else ', or compile with dtype="float64"'
    return ToleranceError(
        f"`{name}` must reach tol={tol:g} in {dtype}",
        f"a bound of {bound:.3g}, of which rounding alone is {rounding:.3g}",
        f"Ask for tol >= {max(bound, 2 * rounding):.2g}{finer}",
    )


def _refused(target: Target, tol: float, dtype: str, refusals: dict[str, str]) -> AttnforgeError:
    by_reason: dict[str, list[str]] = {}
    for name, reason in refusals.items():
        by_reason.setdefault(reason, []).append(name)
    if len(by_reason) == 1:
        return RefusalError(f"No construction takes {target.describe()}: {next(iter(by_reason))}")
    lines = "".join(f"\n  {', '.join(names)}: {reason}" for reason, names in by_reason.items())
    return RefusalError(f"No construction reached tol={tol:g} in {dtype} for {target.describe()}:{lines}\n")

"""From a network and a target to a certificate, by the rules of the prover."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from attnforge.certification.certificate import Certificate, arithmetic, target_digest
from attnforge.certification.in_context.certify import certify_box
from attnforge.certification.in_context.kernel import certify_average_box
from attnforge.certification.in_context.kernel_ridge import refuse_box
from attnforge.certification.in_context.prompt_formula import certify_prompt_formula
from attnforge.certification.rules import prove
from attnforge.certification.statement import Proof, Report, Statement
from attnforge.certification.window import window_rounding
from attnforge.effort import NORMAL, TIME, Effort
from attnforge.errors import CertificateError, OutOfTimeError, RefusalError
from attnforge.lemmas.product import factors_of
from attnforge.lemmas.shards import ASSUMED, check_shards
from attnforge.network import Head, Network, digest, output_shape, rounded
from attnforge.outward import Machine, add_up, machine
from attnforge.targets import Box, Formula, Iteration, KernelAverage, KernelSystem, PromptFormula, Target
from attnforge.targets.joint import JointFunction

OWN = "Certify it against its own target"
ALONE = ("dense", "batched", "factorised", "sharded")  # kernels that round no more than every proof charges
LIMITED = "the proof ended at {limit}: the bound may be larger than it need be"


def certify(
    network: Network,
    target: Target,
    domain: Box | None = None,
    dtype: str = "float64",
    progress: Report | None = None,
    effort: Effort = NORMAL,
    kernel: str | None = None,
) -> Certificate:
    """A bound of |network(x) - target(x)| for every x of the domain, as run in ``dtype``.

    The bound is computed from the network's numbers (:mod:`.rules`); nothing here knows how the network was built, or
    what it is called. ``progress`` is told the fraction done. At the limits of ``effort``, or when time is up, the
    bound is the one proved so far, and the assumptions name the limit; where there is none so far the certificate is
    ``sampled``. ``kernel`` is the one that runs; None covers all that may be chosen for the network's numbers.
    """
    if isinstance(target, Iteration):
        return certify_box(network, target if domain is None else target.on(domain), dtype)
    if isinstance(target, PromptFormula):
        return certify_prompt_formula(network, target if domain is None else target.on(domain), dtype, effort, progress)
    if isinstance(target, KernelAverage):
        return certify_average_box(network, target if domain is None else target.on(domain), dtype)
    if isinstance(target, KernelSystem):
        refuse_box(network, target, dtype)
    _check_shapes(network, target)
    _check_served(network, kernel)
    model, box = machine(dtype), domain or target.domain
    run = rounded(network, dtype)
    _check_sums(run, model)
    if kernel == "sharded":  # what is proved of a dense run is true of it
        _check_shards(run, model)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # an infinite bound, which is refused
        added = None if kernel in ALONE else window_rounding(run, box, model, kernel == "window")
        try:
            proof = _by_window(prove(Statement(run, target, box, model, effort, progress, kernel)), added)
        except OutOfTimeError:
            proof = Proof({}, "sampled", (f"nothing is proved: the proof ended at {TIME}",))
    if kernel == "sharded":
        proof = replace(proof, assumptions=(*proof.assumptions, ASSUMED))
    kernels = (kernel,) if kernel is not None else _kernels(network, added)
    return replace(_certificate(proof, network, target, box, dtype), kernels=kernels)


def _by_window(proof: Proof, added: float | None) -> Proof:
    """With what a run by windows adds: a lemma's rounding may hold departures of the network, which stay."""
    if added is None or not math.isfinite(proof.bound):
        return proof
    return replace(proof, parts={**proof.parts, "rounding": add_up(added, proof.parts.get("rounding", 0.0))})


def _check_sums(run: Network, model: Machine) -> None:
    """Refuse values whose sums may overflow: kernels add up p values times weights up to 1, and divide afterwards."""
    largest = model.largest if model.accumulation == model.roundoff else machine("float32").largest
    for head in run.heads:
        reach = (
            0.0 if head.memory_values is None else head.memory_size * float(np.abs(head.memory_values).max(initial=0.0))
        )
        if not reach <= largest:
            requirement = f"Sums over the keys of a head must stay below {largest:.2g}"
            got = f"{head.memory_size:,} keys with values up to {reach / head.memory_size:.2g}"
            raise RefusalError(requirement, got, "Scale the target, or use a wider dtype")


def _check_shards(run: Network, model: Machine) -> None:
    heads = [head for head in run.heads if not head.is_small]
    smallest = float(np.finfo(np.float64 if model.bytes == 8 else np.float32).tiny)
    check_shards([None if head.key_rows is not None else head.memory_values for head in heads], smallest=smallest)


def _check_shapes(network: Network, target: Target) -> None:
    """Raise unless the network takes the target's inputs and writes its outputs, row for row.

    Functions are given one token; token-wise targets as many as their domain has, or any number; two inputs are left to
    the proof of cross-attention.
    """
    (rows, width), outputs = output_shape(network), target.outputs or 1
    if width != outputs:
        raise CertificateError(f"The network must write the target's {outputs} outputs", f"{width} features", OWN)
    if isinstance(target, JointFunction) or (isinstance(target, Formula) and network.context is not None):
        if network.context is None:
            raise CertificateError("Functions of two inputs are computed from two inputs", "a network of one", OWN)
        return
    shape = target.domain.shape
    tokens = (1,) if target.layout == "function" else shape[:-1]
    takes = network.context is None and (network.features,) == shape[-1:]
    if not takes or rows != network.tokens or (tokens and network.tokens not in (None, *tokens)):
        got = f"{(network.tokens, network.features)} to {(rows, width)}, second input {network.context}"
        raise CertificateError(f"The network must take the target's inputs of shape {shape}, row for row", got, OWN)
    listed = [rows.indices for head in network.heads for rows in (head.query_rows, head.key_rows) if rows is not None]
    most = max((int(each.max()) for each in listed if each is not None and len(each)), default=-1)
    if tokens and most >= tokens[0]:
        got = f"token {most} of {tokens[0]}"
        raise CertificateError("Heads ask and read tokens that the target has", got, OWN)


def _certificate(proof: Proof, network: Network, target: Target, box: Box, dtype: str) -> Certificate:
    sampled = proof.status == "sampled"
    limits = () if sampled or proof.limit is None else (LIMITED.format(limit=proof.limit),)
    assumptions = proof.assumptions if sampled else (*_given(proof), arithmetic(dtype), *_own(proof), *limits)
    return Certificate(
        status=proof.status,
        bound=None if sampled else proof.bound,
        norm="sup",
        parts=dict(proof.parts),
        assumptions=(*assumptions, *([target.extension] if target.extension else [])),
        dtype=dtype,
        domain=tuple(zip(box.lower.ravel().tolist(), box.upper.ravel().tolist(), strict=True)),
        digest=digest(network),
        target=target_digest(target),
        registers=() if sampled else proof.registers,
    )


def _kernels(network: Network, windows: float | None) -> tuple[str, ...]:
    """Those that may be chosen."""
    batched, factorised = any(head.is_small for head in network.heads), any(map(_is_product, network.heads))
    chosen = {"dense": True, "batched": batched, "factorised": factorised, "window": windows is not None}
    return tuple(name for name, is_chosen in chosen.items() if is_chosen)


def _is_product(head: Head) -> bool:
    constant = head.key_rows is None and head.memory_keys is not None
    return constant and factors_of(np.asarray(head.memory_keys)) is not None


def _check_served(network: Network, kernel: str | None) -> None:
    """Refuse a kernel by which no module runs; windows are refused where they are bounded."""
    large = [head for head in network.heads if not head.is_small]
    if (kernel == "batched" and large) or (kernel == "factorised" and not (large and all(map(_is_product, large)))):
        wanted = "few keys, their own token and constants" if kernel == "batched" else "products of constant keys"
        raise RefusalError(f"The {kernel} kernel needs heads over {wanted}", "other heads", "Use another kernel")


def _given(proof: Proof) -> tuple[str, ...]:
    """What the user assumed comes first."""
    return proof.assumptions if proof.status == "conditional" else ()


def _own(proof: Proof) -> tuple[str, ...]:
    return () if proof.status == "conditional" else proof.assumptions

"""From a network and a target to a certificate, by the method that fits what the heads claim to be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attnforge.balls import Machine, add_up, machine
from attnforge.certification.anchored import Problem, bound_anchored
from attnforge.certification.cells import bound_cells, looks_at
from attnforge.certification.certificate import Certificate, Status, arithmetic, target_digest
from attnforge.certification.composition import bound_relu_network
from attnforge.certification.enclosure.fitted import may_be_enclosed, prove_fitted
from attnforge.certification.in_context.certify import certify_box
from attnforge.certification.in_context.head import bound_head
from attnforge.certification.in_context.kernel import certify_average_box
from attnforge.certification.retrieval import bound_softmax_tail, bound_two_layer
from attnforge.certification.stack import bound_stack
from attnforge.certification.three_keys import bound_gate
from attnforge.effort import NORMAL, TIME, Effort
from attnforge.errors import CertificateError, OutOfTimeError, RefusalError
from attnforge.network import Attention, Head, Linear, Network, digest, output_shape, rounded
from attnforge.targets import Box, Formula, Iteration, KernelAverage, Target
from attnforge.targets.joint import JointFunction

Array = npt.NDArray[np.float64]
Proof = tuple[Status, dict[str, float], list[str]]

PROVED: Status = "proved"


@dataclass(frozen=True)
class Method:
    """A proof: from the rounded network, the target, the box and the dtype to named parts of a bound.

    ``needs_lipschitz`` marks proofs that rest on the target's Lipschitz constant; without one there is no bound, except
    for targets that the proof looks at itself (``looks_at``).
    """

    bound: Callable[[Network, Target, Box, Machine, Effort], dict[str, float]]
    needs_lipschitz: bool = False
    looks_at: Callable[[Network, Target], bool] = lambda network, target: False


def _truncated(bound: Callable[[Problem], dict[str, float]]) -> Method:
    """A proof about one truncated linear function, on the problem the network poses."""
    return Method(lambda network, target, box, dtype, effort: bound(_problem(network, target, box, dtype)))


def _rectified(target: Target) -> Target:
    """A piecewise affine formula as the ReLU network that it is."""
    return target.rectified() if isinstance(target, Formula) else target


def _plainly(
    bound: Callable[[Network, Target, Box, Machine], dict[str, float]],
) -> Callable[[Network, Target, Box, Machine, Effort], dict[str, float]]:
    """A proof that does not search, and so asks for no effort."""
    return lambda network, target, box, dtype, effort: bound(network, target, box, dtype)


FITTED = ("tensor_grid", "ridge", "additive", "sparse_grid", "polynomial", "table")
"""Constructions without a theorem's bound: proved by enclosure where there is one, else the largest error seen."""

METHODS = {
    "truncated_linear": _truncated(bound_anchored),
    "multihead_truncated_linear": _truncated(bound_anchored),
    "gate": _truncated(bound_gate),
    "relu_network": Method(lambda run, target, box, dtype, _: bound_relu_network(run, _rectified(target), box, dtype)),
    "softmax_tail": Method(_plainly(bound_softmax_tail), needs_lipschitz=True),
    "two_layer": Method(_plainly(bound_two_layer), needs_lipschitz=True),
    "cross_attention": Method(bound_cells, needs_lipschitz=True, looks_at=looks_at),
    "head_emulation": Method(_plainly(bound_head)),
    "max_affine": Method(bound_cells, needs_lipschitz=True, looks_at=looks_at),
}

UNPROVED = "fitted values: the error between the points looked at is not bounded"

UNENCLOSED = "the formula is not enclosed everywhere: the error between the points looked at is not bounded"

ENCLOSED = "the proof's own exp, sinh and cosh in float64 are within 4 units in the last place"

LIMITED = "the proof ended at {limit}: the bound may be larger than it need be"

OWN = "Certify it against its own target"

Report = Callable[[float], None]


def certify(
    network: Network,
    target: Target,
    domain: Box | None = None,
    dtype: str = "float64",
    progress: Report | None = None,
    effort: Effort = NORMAL,
) -> Certificate:
    """A bound of |network(x) - target(x)| for every x of the domain, as run in ``dtype``.

    The bound is computed from the network's numbers: claims on its heads say what to look for, and every departure from
    them enlarges the bound or, where the proof no longer applies, raises. Nothing here knows how the network was built.
    A network that claims nothing is enclosed directly, whatever its layers. ``progress`` is told the fraction done.
    At the limits of ``effort``, or when time is up, the bound is the one proved so far, and the assumptions name the
    limit; where there is none so far the certificate is ``sampled``.
    """
    if isinstance(target, Iteration):
        return certify_box(network, target if domain is None else target.on(domain), dtype)
    if isinstance(target, KernelAverage):
        return certify_average_box(network, target if domain is None else target.on(domain), dtype)
    _check_shapes(network, target)
    run = rounded(network, dtype)
    _check_sums(run, machine(dtype))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # an infinite bound, which is refused
        prove = _fitted if network.construction in FITTED else _by_method
        try:
            status, parts, assumptions = prove(run, target, domain or target.domain, dtype, progress, effort)
        except OutOfTimeError:
            status, parts, assumptions = "sampled", {}, [f"nothing is proved: the proof ended at {TIME}"]
    return _certificate(status, parts, assumptions, network, target, domain or target.domain, dtype)


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


def _check_shapes(network: Network, target: Target) -> None:
    """Raise unless the network takes the target's inputs and writes its outputs, row for row.

    Functions are given one token; token-wise targets as many as their domain has, or any number; two inputs are left to
    the proof of cross-attention.
    """
    (rows, width), outputs = output_shape(network), target.outputs or 1
    if width != outputs:
        raise CertificateError(f"The network must write the target's {outputs} outputs", f"{width} features", OWN)
    if isinstance(target, JointFunction) or (isinstance(target, Formula) and network.construction == "cross_attention"):
        if network.context is None or network.construction != "cross_attention":
            got = f"{network.construction!r}, second input {network.context}"
            raise CertificateError("Functions of two inputs are certified as cross_attention", got, OWN)
        return
    shape = target.domain.shape
    tokens = (1,) if target.layout == "function" else shape[:-1]
    takes = network.context is None and (network.features,) == shape[-1:]
    if not takes or rows != network.tokens or (tokens and network.tokens not in (None, *tokens)):
        got = f"{(network.tokens, network.features)} to {(rows, width)}, second input {network.context}"
        raise CertificateError(f"The network must take the target's inputs of shape {shape}, row for row", got, OWN)


def _fitted(run: Network, target: Target, box: Box, dtype: str, progress: Report | None, effort: Effort) -> Proof:
    """Fitted values: proved by enclosure, or else nothing but what was seen."""
    if not may_be_enclosed(target):
        return "sampled", {}, [UNPROVED]
    found = prove_fitted(run, target, box, machine(dtype), progress, effort)
    if not np.isfinite(add_up(*found.parts.values())):
        return "sampled", {}, [UNPROVED] if found.limit is None else [f"{UNPROVED}; the proof ended at {found.limit}"]
    said = [arithmetic(dtype)] if box.lower.size == 1 else [arithmetic(dtype), ENCLOSED]
    return "proved", found.parts, said if found.limit is None else [*said, LIMITED.format(limit=found.limit)]


def _by_method(run: Network, target: Target, box: Box, dtype: str, progress: Report | None, effort: Effort) -> Proof:
    """By the theorem the network claims, re-evaluated from its numbers, or cell by cell where it claims none."""
    if run.construction and run.construction not in METHODS:
        known = ", ".join((*METHODS, *FITTED))
        raise CertificateError(f"A network is certified by the construction it claims ({known})", run.construction)
    if not run.construction:
        return "proved", bound_stack(run, target, box, dtype, effort), [arithmetic(dtype)]
    method, status, assumptions = METHODS[run.construction], PROVED, [arithmetic(dtype)]
    looked = method.looks_at(run, target)
    if looked:
        assumptions = [*assumptions, ENCLOSED]
    elif method.needs_lipschitz:
        status, said = _regularity(target)
        assumptions = [*said, *assumptions]
    parts = {} if status == "sampled" else method.bound(run, target, box, machine(dtype), effort)
    if looked and not np.isfinite(add_up(*parts.values())):
        return "sampled", {}, [UNENCLOSED]
    return status, parts, assumptions


def _certificate(
    status: Status,
    parts: dict[str, float],
    assumptions: list[str],
    network: Network,
    target: Target,
    box: Box,
    dtype: str,
) -> Certificate:
    bound = add_up(*parts.values())
    if not np.isfinite(bound):
        raise RefusalError("The bound of this network must be finite", "infinity", "Raise the sharpness or precision")
    return Certificate(
        status=status,
        bound=None if status == "sampled" else bound,
        norm="sup",
        parts=parts,
        assumptions=tuple(assumptions),
        dtype=dtype,
        domain=tuple(zip(box.lower.ravel().tolist(), box.upper.ravel().tolist(), strict=True)),
        digest=digest(network),
        target=target_digest(target),
    )


def _regularity(target: Target) -> tuple[Status, list[str]]:
    """What the target's smoothness lets one say."""
    known = target.lipschitz()
    if known is None:
        return "sampled", ["nothing is known of the target's smoothness"]
    if known.proved:
        return "proved", []
    return "conditional", [
        f"the target is Lipschitz with constant {known.constant:g} in the {known.norm} norm, as given"
    ]


def _problem(network: Network, target: Target, domain: Box, model: Machine) -> Problem:
    """Split the network into encoding, one layer of attention and a plain read-out of its first tokens."""
    kinds = [type(layer) for layer in network.layers]
    at = kinds.index(Attention) if Attention in kinds else -1
    attention = network.layers[at]
    before, after = network.layers[:at], network.layers[at + 1 :]
    encode = tuple(layer for layer in before if isinstance(layer, Linear))
    if not isinstance(attention, Attention) or attention.residual or len(encode) != len(before):
        raise CertificateError("This proof covers linear maps, one layer of attention, and a read-out", str(kinds))
    form = target.truncated_form()
    tokens = network.tokens or 1
    _check_read_out(after, tokens)
    for head in attention.heads:
        _check_asking(head, network.tokens)
    box = domain.fixed((tokens, network.features))
    outputs = getattr(target, "outputs", None)
    output = getattr(target, "output", 0) if outputs is not None else 0
    width = attention.heads[0].output.shape[1]
    if width != (outputs or 1) or form.weights.shape[1] != network.features or len(form.offsets.mid) not in (1, tokens):
        got = f"{network.features} features, {tokens} tokens, {width} outputs"
        raise CertificateError("Network and target must have the same shape", got, OWN)
    return Problem(encode, attention.heads, form, box.lower, box.upper, output, model)


def _check_asking(head: Head, tokens: int | None) -> None:
    """Raise unless every token that is read asks; one of any number of tokens reads none but itself."""
    asked, told = head.query_rows.indices, head.key_rows
    if asked is not None and (tokens is None or not np.array_equal(asked, np.arange(tokens))):
        raise CertificateError("Every token asks the head, in order", f"tokens {asked.tolist()}"[:80], OWN)
    if tokens is None and told is not None and told.kind != "own":
        raise CertificateError("One of any number of tokens reads none but itself", f"{told.kind} tokens", OWN)


def _check_read_out(after: tuple[object, ...], tokens: int) -> None:
    for layer in after:
        plain = isinstance(layer, Linear) and len(layer.terms) == 1 and layer.constant is None
        mix = layer.terms[0].mix if plain and isinstance(layer, Linear) and layer.terms[0].map is None else None
        if mix is None or not np.array_equal(mix, np.eye(tokens, mix.shape[1])):
            raise CertificateError("After attention, only the first tokens are read", "another layer")

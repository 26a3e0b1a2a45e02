"""From a network and a target to a certificate, by the method that fits what the heads claim to be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attnforge.balls import Machine, add_up, machine
from attnforge.certification.anchored import Problem, bound_anchored
from attnforge.certification.certificate import Certificate, Status
from attnforge.certification.composition import bound_relu_network
from attnforge.certification.cross import bound_cross
from attnforge.certification.enclosure.fitted import bound_fitted, is_enclosed
from attnforge.certification.max_affine import bound_max_affine
from attnforge.certification.retrieval import bound_softmax_tail, bound_two_layer
from attnforge.certification.three_keys import bound_gate
from attnforge.errors import CertificateError, RefusalError
from attnforge.network import Attention, Linear, Network, check_architecture, digest, flatten, rounded
from attnforge.targets import Box, Target

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Method:
    """A proof: from the rounded network, the target, the box and the dtype to named parts of a bound.

    ``needs_lipschitz`` marks proofs that rest on the target's Lipschitz constant; without one there is no bound.
    """

    bound: Callable[[Network, Target, Box, Machine], dict[str, float]]
    needs_lipschitz: bool = False


def _truncated(bound: Callable[[Problem], dict[str, float]]) -> Method:
    """A proof about one truncated linear function, on the problem the network poses."""
    return Method(lambda network, target, box, dtype: bound(_problem(network, target, box, dtype)))


FITTED = ("tensor_grid", "ridge", "additive", "sparse_grid", "polynomial", "table")
"""Constructions without a theorem's bound: proved by enclosure where there is one, else the largest error seen."""

METHODS = {
    "truncated_linear": _truncated(bound_anchored),
    "multihead_truncated_linear": _truncated(bound_anchored),
    "gate": _truncated(bound_gate),
    "relu_network": Method(bound_relu_network),
    "softmax_tail": Method(bound_softmax_tail, needs_lipschitz=True),
    "two_layer": Method(bound_two_layer, needs_lipschitz=True),
    "cross_attention": Method(bound_cross, needs_lipschitz=True),
    "max_affine": Method(bound_max_affine, needs_lipschitz=True),
}

UNPROVED = "fitted values: the error between the points looked at is not bounded"

ENCLOSED = "the proof's own exp, sinh and cosh in float64 are within 4 units in the last place"

ARITHMETIC = (
    "IEEE rounding in {dtype}; attention scores, exponentials and sums accumulated in {accumulation} or better, "
    "as PyTorch's kernels do"
)


def certify(network: Network, target: Target, domain: Box | None = None, dtype: str = "float64") -> Certificate:
    """A bound of |network(x) - target(x)| for every x of the domain, as run in ``dtype``.

    The bound is computed from the network's numbers: claims on its heads say what to look for, and every departure from
    them enlarges the bound or, where the proof no longer applies, raises. Nothing here knows how the network was built.
    """
    with np.errstate(
        over="ignore", invalid="ignore"
    ):  # overflow becomes an infinite or undefined bound, and is refused
        return _certify(network, target, domain, dtype)


def _certify(network: Network, target: Target, domain: Box | None, dtype: str) -> Certificate:
    check_architecture(network)
    run = rounded(network, dtype)
    _representable(run, dtype)
    box = domain or target.domain
    if network.construction in FITTED and not is_enclosed(target):
        return _certificate("sampled", {}, [UNPROVED], network, box, dtype)
    if network.construction not in (*METHODS, *FITTED):
        known = ", ".join((*METHODS, *FITTED))
        raise CertificateError(f"A network is certified by the construction it claims ({known})", network.construction)
    method = METHODS.get(network.construction, Method(bound_fitted))
    accumulation = "float32" if machine(dtype).accumulation != machine(dtype).roundoff else dtype
    assumptions = [ARITHMETIC.format(dtype=dtype, accumulation=accumulation)]
    status: Status = "proved"
    if network.construction in FITTED and box.lower.size > 1:
        assumptions = [*assumptions, ENCLOSED]
    if method.needs_lipschitz:
        status, said = _regularity(target)
        assumptions = [*said, *assumptions]
    parts = {} if status == "sampled" else method.bound(run, target, box, machine(dtype))
    if network.construction in FITTED and not np.isfinite(add_up(*parts.values())):
        return _certificate("sampled", {}, [UNPROVED], network, box, dtype)  # the enclosure came to no end
    return _certificate(status, parts, assumptions, network, box, dtype)


def _certificate(
    status: Status, parts: dict[str, float], assumptions: list[str], network: Network, box: Box, dtype: str
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
    box = domain.fixed((tokens, network.features))
    outputs = getattr(target, "outputs", None)
    output = getattr(target, "output", 0) if outputs is not None else 0
    width = attention.heads[0].output.shape[1]
    if width != (outputs or 1) or form.weights.shape[1] != network.features or len(form.offsets.mid) not in (1, tokens):
        got = f"{network.features} features, {tokens} tokens, {width} outputs"
        raise CertificateError("Network and target must have the same shape", got, "Certify it against its own target")
    return Problem(encode, attention.heads, form, box.lower, box.upper, output, model)


def _check_read_out(after: tuple[object, ...], tokens: int) -> None:
    for layer in after:
        plain = isinstance(layer, Linear) and len(layer.terms) == 1 and layer.constant is None
        mix = layer.terms[0].mix if plain and isinstance(layer, Linear) and layer.terms[0].map is None else None
        if mix is None or not np.array_equal(mix, np.eye(tokens, mix.shape[1])):
            raise CertificateError("After attention, only the first tokens are read", "another layer")


def _representable(run: Network, dtype: str) -> None:
    for name, array in flatten(run)[1].items():
        if not np.all(np.isfinite(array)):
            largest = machine(dtype).largest
            got = f"an entry of {name} beyond the largest {dtype} number, {largest:g}"
            raise RefusalError(f"Every weight must fit {dtype}", got, "Scale the target, or use a wider dtype")

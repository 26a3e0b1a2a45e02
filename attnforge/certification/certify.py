"""From a network and a target to a certificate, by the method that fits what the heads claim to be."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from attnforge.balls import add_up, machine
from attnforge.certification.anchored import Problem, bound_anchored
from attnforge.certification.certificate import Certificate
from attnforge.certification.composition import bound_relu_network
from attnforge.certification.three_keys import bound_gate
from attnforge.errors import CertificateError, RefusalError
from attnforge.network import Attention, Linear, Network, check_architecture, digest, flatten, rounded
from attnforge.targets import Box, ReluNetwork, Target

Array = npt.NDArray[np.float64]

METHODS: dict[str, Callable[[Problem], dict[str, float]]] = {
    "truncated_linear": bound_anchored,
    "multihead_truncated_linear": bound_anchored,
    "gate": bound_gate,
}

ARITHMETIC = (
    "IEEE rounding in {dtype}; attention scores, exponentials and sums accumulated in {accumulation} or better, "
    "as PyTorch's kernels do"
)


def certify(network: Network, target: Target, domain: Box | None = None, dtype: str = "float64") -> Certificate:
    """A bound of |network(x) - target(x)| for every x of the domain, as run in ``dtype``.

    The bound is computed from the network's numbers: claims on its heads say what to look for, and every departure from
    them enlarges the bound or, where the proof no longer applies, raises. Nothing here knows how the network was built.
    """
    check_architecture(network)
    run = rounded(network, dtype)
    _representable(run, dtype)
    box = domain or target.domain
    if isinstance(target, ReluNetwork):
        parts = bound_relu_network(run, target, box, machine(dtype))
    else:
        parts = METHODS[_claimed(network)](_problem(run, target, box, dtype))
    bound = add_up(*parts.values())
    if not np.isfinite(bound):
        raise RefusalError("The bound of this network must be finite", "infinity", "Raise the sharpness or precision")
    accumulation = "float32" if machine(dtype).accumulation != machine(dtype).roundoff else dtype
    return Certificate(
        status="proved",
        bound=bound,
        norm="sup",
        parts=parts,
        assumptions=(ARITHMETIC.format(dtype=dtype, accumulation=accumulation),),
        dtype=dtype,
        domain=tuple(zip(box.lower.ravel().tolist(), box.upper.ravel().tolist(), strict=True)),
        digest=digest(network),
    )


def _claimed(network: Network) -> str:
    names = {None if head.claims is None else head.claims.construction for head in network.heads}
    name = next(iter(names), None)
    if len(names) != 1 or name not in METHODS:
        known = ", ".join(METHODS)
        raise CertificateError(f"A network is certified by the construction its heads claim ({known})", str(names))
    return str(name)


def _problem(network: Network, target: Target, domain: Box, dtype: str) -> Problem:
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
    return Problem(encode, attention.heads, form, box.lower, box.upper, output, machine(dtype))


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

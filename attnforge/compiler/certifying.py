"""The public ``certify``: a network or a compiled target, with what was seen added to what was proved."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from attnforge.certification import Certificate
from attnforge.certification import certify as prove
from attnforge.certification.certificate import Estimate
from attnforge.compiler.compiled import Compiled
from attnforge.compiler.measuring import measure
from attnforge.compiler.targets import as_target, named_domain
from attnforge.errors import CertificateError
from attnforge.network import Network
from attnforge.targets import Target

QUICK_POINTS = 4_000  # for the estimate that goes with a certificate; `measure` looks harder


def certify(network: Network | Compiled, target: Any = None, domain: Any = None) -> Certificate:
    """Prove a bound of |network - target| on the domain, from network and target alone.

    Args:
        network: a Network (run in float64), or a Compiled, which brings its own target, domain and dtype.
        target: what it is compared with, as for :func:`compile`; needed for a bare Network.
        domain: where; defaults to the target's own.
    """
    if isinstance(network, Compiled):
        against = as_target(network.target if target is None else target, domain or named_domain(network.target))
        return certified(network.network, against, network.construction, network.dtype).certificate
    if target is None:
        raise CertificateError("A bare network is certified against a target", "none", "Pass target= and domain=")
    return certified(network, as_target(target, domain), "network", "float64").certificate


def certified(network: Network, target: Target, construction: str, dtype: str) -> Compiled:
    """The network with its certificate: the bound, and the largest error a quick search finds."""
    compiled = Compiled(network, target, prove(network, target, dtype=dtype), construction, dtype)
    found = measure(compiled, points=QUICK_POINTS)
    if compiled.certificate.bound is not None and not found.sup <= compiled.certificate.bound:
        raise CertificateError(
            "No measured error may exceed the certified bound (this is a defect of attnforge; please report it)",
            f"error {found.sup} above bound {compiled.certificate.bound}",
        )
    at = tuple(float(value) for value in found.at.ravel())
    compiled.certificate = replace(compiled.certificate, estimate=Estimate(found.sup, at))
    return compiled

"""Whether a certificate is about what is stored beside it."""

from __future__ import annotations

from attnforge.certification.certificate import Certificate, target_digest
from attnforge.network import Network, digest
from attnforge.targets import Target


def disagreements(network: Network, target: Target, certificate: Certificate | None, dtype: str) -> list[str]:
    """What the certificate is not about: of network, domain, target and dtype."""
    if certificate is None:
        return []
    box = tuple(zip(target.domain.lower.ravel().tolist(), target.domain.upper.ravel().tolist(), strict=True))
    agreement = {
        "network": certificate.digest == digest(network),
        "domain": certificate.domain == box,
        "target": certificate.target == target_digest(target),
        "dtype": certificate.dtype == dtype,
    }
    return [what for what, agrees in agreement.items() if not agrees]

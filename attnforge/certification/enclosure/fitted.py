"""The proof for heads with fitted values: the error in exact arithmetic by enclosure, and what rounding adds."""

from __future__ import annotations

import numpy as np

from attnforge.balls import Machine, precision
from attnforge.certification.enclosure.affine_heads import affine_head, read_heads
from attnforge.certification.enclosure.one_input import BITS, supremum
from attnforge.certification.enclosure.run import rounding
from attnforge.errors import CertificateError
from attnforge.network import Network
from attnforge.targets import Box, Formula, Target


def is_enclosed(target: Target) -> bool:
    """Whether there is an enclosure for this kind of target: formulas of one input."""
    return isinstance(target, Formula) and target.domain.shape == (1,)


def bound_fitted(network: Network, target: Target, domain: Box, machine: Machine) -> dict[str, float]:
    """``fit``: the supremum of |heads - formula| in exact arithmetic; ``rounding``: what the run adds."""
    if not isinstance(target, Formula) or domain.shape != (1,):
        raise CertificateError("This proof covers formulas of one input", target.describe(), "Measure it instead")
    encode, heads = read_heads(network)
    with precision(BITS):
        exact = tuple(affine_head(encode, head, 1) for head in heads)
    found = supremum(exact, target.tree, target.names[0], float(domain.lower[0]), float(domain.upper[0]))
    lower, upper = (np.array([[getattr(cell, end)] for cell in found.cells]) for end in ("lower", "upper"))
    sizes = np.array([cell.size for cell in found.cells])
    return {"fit": found.bound, "rounding": rounding(encode, heads, lower, upper, sizes, machine)}

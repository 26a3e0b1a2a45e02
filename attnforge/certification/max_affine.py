"""Heads over cells: a product grid by its theorem, any other cells by branch and bound."""

from __future__ import annotations

from attnforge.balls import Machine
from attnforge.certification.cells import bound_cells, one_head, without_read_out
from attnforge.certification.selection import bound_selection
from attnforge.network import Network
from attnforge.targets import Box, Target


def bound_max_affine(network: Network, target: Target, domain: Box, machine: Machine) -> dict[str, float]:
    """Named parts. The head's claims choose the proof; either proof reads the numbers."""
    claims = one_head(without_read_out(network), padded=True)[1].claims
    free = claims is not None and "centre" in claims.roles
    return (bound_selection if free else bound_cells)(network, target, domain, machine)

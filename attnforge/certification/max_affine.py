"""Heads over cells: a product grid by its theorem, any other cells by branch and bound, a formula by what is better.

The theorem knows a formula only by its Lipschitz constant. Where there are few inputs the formula itself can be looked
at: hard cells by branch and bound (:mod:`.selection`), soft ones by enclosure (:mod:`.soft_cells`). All proofs read the
numbers; the head's claims only choose among them, and the smaller bound is stated.
"""

from __future__ import annotations

import math

from attnforge.balls import Machine, add_up
from attnforge.certification.cells import bound_cells, one_head, without_read_out
from attnforge.certification.selection import bound_selection
from attnforge.certification.soft_cells import bound_soft_cells, is_soft_provable
from attnforge.effort import NORMAL, Effort
from attnforge.errors import CertificateError
from attnforge.network import Claims, Network
from attnforge.targets import Box, Formula, Target

MOST_INPUTS = 4
MOST_KEYS = 2**15  # of hard cells: more are not looked at one by one
SOFT = 3.0  # sharpness below which a head blends its cells rather than choosing among them


def is_looked_at(network: Network, target: Target) -> bool:
    """Whether the target is a formula that is looked at cell by cell, so that no Lipschitz constant is needed."""
    if not isinstance(target, Formula) or len(target.names) > MOST_INPUTS or len(network.heads) != 1:
        return False
    head = network.heads[0]
    own = head.key_rows is None and network.tokens == 1 and head.memory_values is not None
    if not own or head.claims is None or head.output.shape[1] != 1:
        return False
    return is_soft_provable(network, len(target.names)) if _is_soft(head.claims) else head.memory_size <= MOST_KEYS


def bound_max_affine(
    network: Network, target: Target, domain: Box, machine: Machine, effort: Effort = NORMAL
) -> dict[str, float]:
    """Named parts of the smaller bound: ``spacing``, ``leakage`` and ``rounding``, or ``fit`` and ``rounding``."""
    claims = one_head(without_read_out(network), padded=True)[1].claims
    if claims is None or "centre" in claims.roles:
        return bound_selection(network, target, domain, machine, effort=effort)
    known = None if target.lipschitz() is None else bound_cells(network, target, domain, machine)
    if isinstance(target, Formula) and is_looked_at(network, target):
        ceiling = math.inf if known is None else add_up(*known.values())
        known = smaller(look_at_cells(network, target, domain, machine, ceiling, effort), known)
    if known is None:
        raise CertificateError("This bound rests on a Lipschitz constant", "none", "Pass lipschitz=")
    return known


def look_at_cells(
    network: Network,
    target: Formula,
    domain: Box,
    machine: Machine,
    ceiling: float = math.inf,
    effort: Effort = NORMAL,
) -> dict[str, float]:
    """The proof that looks at the formula itself; without end where it cannot fall below the ceiling."""
    claims = network.heads[0].claims
    if claims is not None and _is_soft(claims):
        return bound_soft_cells(network, target, domain, machine, effort)
    return bound_selection(network, target, domain, machine, ceiling, effort)


def smaller(found: dict[str, float], known: dict[str, float] | None) -> dict[str, float]:
    """The parts that add up to less."""
    return found if known is None or add_up(*found.values()) < add_up(*known.values()) else known


def _is_soft(claims: Claims) -> bool:
    return "centre" not in claims.roles and not claims.sharpness > SOFT

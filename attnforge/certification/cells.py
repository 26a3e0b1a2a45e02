"""Heads over cells: a product grid by its lemma, any other cells by branch and bound, a formula by what is better.

The lemma knows a target only by its Lipschitz constant. Where there are few inputs a formula itself can be looked at:
hard cells by branch and bound (:mod:`.selection`), soft ones by enclosure (:mod:`.soft_cells`). All proofs read the
scores (:mod:`.affine_scores`), whose numbers choose among them; the smaller bound is stated.
"""

from __future__ import annotations

import math

from attnforge.certification.affine_scores import Scores, one_head, read_scores
from attnforge.certification.lipschitz_cells import bound_lipschitz_cells
from attnforge.certification.product_grid import Cells, recognised
from attnforge.certification.selection import bound_selection
from attnforge.certification.soft_cells import bound_soft_cells, is_enclosable, is_soft
from attnforge.effort import NORMAL, Effort
from attnforge.errors import CertificateError, RefusalError
from attnforge.network import Network
from attnforge.outward import Machine, add_up
from attnforge.outward import machine as machine_of
from attnforge.targets import Box, Formula, JointFunction, Target

SAME_SHAPE, OWN = "Network and target must have the same shape", "Certify it against its own target"
MOST_INPUTS = 4
MOST_KEYS = 2**15  # of hard cells: more are not looked at one by one


def bound_cells(
    network: Network, target: Target, domain: Box, machine: Machine, effort: Effort = NORMAL
) -> dict[str, float]:
    """Named parts of the smaller bound: ``spacing``, ``leakage`` and ``rounding``, or ``fit`` and ``rounding``."""
    if (domain.lower < target.domain.lower).any() or (domain.upper > target.domain.upper).any():
        requirement = "Cells are certified on the domain they divide, where the target lives"
        raise CertificateError(requirement, "a larger domain", "Build a new network")
    scores = _read(network, target, domain, machine)
    cells = _recognised(scores, target)
    looked = not cells or (isinstance(target, Formula) and _is_looked_at(scores, cells, target))
    if looked and not (cells and is_soft(cells[0])):  # what comes to an end is close to an error: no lemma is closer
        found, ended = bound_selection(scores, target, domain, effort=effort)
        if ended or not cells:
            return found
    known = _by_lemma(scores, cells, target, machine)
    if looked and isinstance(target, Formula) and is_soft(cells[0]):
        found = bound_soft_cells(one_head(network), scores[0], cells[0], target, domain, machine, effort)
    elif not looked and math.isfinite(add_up(*known.values())):
        return known
    elif not looked:
        found, _ = bound_selection(scores, target, domain, add_up(*known.values()), effort)
    return min(known, found, key=lambda parts: add_up(*parts.values()))


def looks_at(network: Network, target: Target) -> bool:
    """Whether the target is a formula that is looked at itself, so that no Lipschitz constant is needed."""
    if not isinstance(target, Formula):
        return False
    try:
        scores = _read(network, target, target.domain, machine_of("float64"))
    except (CertificateError, RefusalError):
        return False
    return _is_looked_at(scores, _recognised(scores, target), target)


def are_cells(network: Network, target: Target) -> bool:
    """Whether the keys of a network stand on a product grid of the target's domain."""
    try:
        return bool(_recognised(_read(network, target, target.domain, machine_of("float64")), target))
    except (CertificateError, RefusalError):
        return False


def _is_looked_at(scores: list[Scores], cells: list[Cells], target: Formula) -> bool:
    """Whether a formula of so many inputs may be looked at on such cells, one query token's."""
    if len(scores) > 1 or len(target.names) > MOST_INPUTS:
        return False
    return is_enclosable(cells[0]) if cells and is_soft(cells[0]) else len(scores[0].values) <= MOST_KEYS


def _by_lemma(scores: list[Scores], cells: list[Cells], target: Target, machine: Machine) -> dict[str, float]:
    """What the Lipschitz constant proves, if there is one and it proves anything."""
    try:
        return bound_lipschitz_cells(scores, cells, target, machine)
    except (CertificateError, RefusalError):
        return {"spacing": math.inf, "leakage": 0.0, "rounding": 0.0}


def _recognised(scores: list[Scores], target: Target) -> list[Cells]:
    """The product grid that each query token sees; none where they are no grids."""
    lower, upper = target.domain.lower.ravel(), target.domain.upper.ravel()
    try:
        return [recognised(each.slope.mid, each.constant.mid, lower, upper) for each in scores]
    except CertificateError:
        return []


def _read(network: Network, target: Target, domain: Box, machine: Machine) -> list[Scores]:
    """The scores of every query token, of a network of the target's shape."""
    scores = read_scores(network, domain, machine)
    got = (network.context, (network.tokens or 1, network.features), scores[0].values.shape[1])
    if got != _shapes(network, target):
        raise CertificateError(SAME_SHAPE, f"{got} for {_shapes(network, target)}", OWN)
    return scores


def _shapes(network: Network, target: Target) -> tuple[tuple[int, int] | None, tuple[int, int], int]:
    """Rows and features of the target's second input, if it has one, and of its first; outputs of a row.

    A formula may be one of two rows, X then Y, where the network takes two.
    """
    outputs, shape = target.outputs or 1, target.domain.shape
    if isinstance(target, JointFunction):
        return _rows(target.keys.shape), _rows(target.query.shape), outputs
    first = 0 if network.context is None else network.context[1]
    return (1, first) if first else None, (_rows(shape)[0], shape[-1] - first), outputs


def _rows(shape: tuple[int, ...]) -> tuple[int, int]:
    """Rows (1 for a single one) and features."""
    return (shape[0], shape[1]) if len(shape) == 2 else (1, shape[0])

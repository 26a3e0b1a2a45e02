"""The public ``certify``: a network or a compiled target, with what was seen added to what was proved."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from attnforge.anchors.scattered import judge, spread
from attnforge.balls import machine
from attnforge.certification import Certificate
from attnforge.certification.certificate import Estimate
from attnforge.certification.certify import FITTED
from attnforge.certification.certify import certify as prove
from attnforge.certification.enclosure.cost import Cost, cost
from attnforge.compiler.budget import UNLIMITED, Budget, budget
from attnforge.compiler.compiled import Compiled
from attnforge.compiler.measuring import largest_error
from attnforge.compiler.targets import as_target, compared_with
from attnforge.effort import Effort, as_effort
from attnforge.errors import AttnforgeError, CertificateError, TargetError
from attnforge.measurement import Measurement
from attnforge.network import Head, Network
from attnforge.progress import Progress
from attnforge.targets import Target
from attnforge.targets.table import Table

JUDGED = 4_000  # listed points on which a fit to four fifths of them is judged
UNEVEN = (
    10.0  # neighbouring gaps between data of one input that differ by a larger factor are those of scattered points
)
SHOWN = 6  # coordinates of a point in an error message


def certify(
    network: Network | Compiled,
    target: Any = None,
    domain: Any = None,
    *,
    effort: str | Effort | None = None,
    timeout: float | None = None,
    workers: int = 1,
    require: str | None = None,
    progress: Progress = False,
) -> Certificate:
    """Prove a bound of |network - target| on the domain, from network and target alone.

    Args:
        network: a Network (run in float64), or a Compiled, which brings its own target, domain and dtype.
        target: what it is compared with, as for :func:`compile`; needed for a bare Network.
        domain: where; defaults to the target's own.
        effort: ``"low"``, ``"normal"``, ``"high"`` or an ``af.Effort``: how hard to prove.
        timeout: seconds after which the bound proved so far is stated, or none: then it is ``sampled``.
        workers: processes that share a long proof; -1 for all cores.
        require: ``"proved"`` or ``"conditional"``: refuse a certificate that says less.
        progress: True shows how far the proof is; a callable is told (fraction, text).
    """
    against, construction, dtype = _asked(network, target, domain)
    judged = network.network if isinstance(network, Compiled) else network
    with budget(effort, timeout, workers, require, progress) as given:
        found = certified(judged, against, construction, dtype, given).certificate
    given.accepted(found, construction)
    return found


def _asked(network: Network | Compiled, target: Any, domain: Any) -> tuple[Target, str, str]:
    """What it is compared with, what it is called, and what it runs in."""
    if isinstance(network, Compiled):
        return compared_with(network.target, target, domain), network.construction, network.dtype
    if target is None:
        raise CertificateError("A bare network is certified against a target", "none", "Pass target= and domain=")
    return as_target(target, domain), "network", "float64"


def proof_cost(compiled: Compiled, effort: str | Effort | None = None) -> Cost | None:
    """About how long proving its bound again will take; None where that is not known beforehand."""
    if compiled.network.construction not in FITTED:
        return None
    return cost(compiled.network, compiled.target, compiled.target.domain, machine(compiled.dtype), as_effort(effort))


def certified(
    network: Network,
    target: Target,
    construction: str,
    dtype: str,
    budget: Budget = UNLIMITED,
) -> Compiled:
    """The network with its certificate: the bound, and the largest error a quick search finds."""
    effort, told = budget.effort, budget.watch.step(f"proving {construction}")
    proved = prove(network, target, dtype=dtype, progress=told, effort=effort)
    compiled = Compiled(network, target, proved, construction, dtype)
    budget.watch.say(f"measuring {construction}")
    found = largest_error(compiled, target, effort.beside(compiled.anchors), seconds=effort.seconds, brief=True)
    if compiled.certificate.bound is not None and not found.sup <= compiled.certificate.bound:
        raise _refuted(compiled.certificate, target, found)
    at = tuple(float(value) for value in found.at.ravel())
    compiled.certificate = replace(compiled.certificate, estimate=Estimate(found.sup, at))
    if isinstance(target, Table):
        compiled.certificate = replace(compiled.certificate, assumptions=_about_table(compiled, target))
    return compiled


def _refuted(certificate: Certificate, target: Target, found: Measurement) -> AttnforgeError:
    """What an error above the bound means: the constant it rests on is false; or, of a proved bound, we are wrong."""
    known, got = target.lipschitz(), f"error {found.sup} above bound {certificate.bound}"
    if certificate.status == "conditional" and known is not None:
        at = ", ".join(f"{value:.6g}" for value in found.at.ravel()[:SHOWN]) + (", .." if found.at.size > SHOWN else "")
        requirement = (
            f"The target must be Lipschitz with constant {known.constant:g} in the {known.norm} norm, as given"
        )
        return TargetError(
            requirement, f"{got} at ({at}): it is not", "State a larger constant, or none: lipschitz=None"
        )
    defect = "No measured error may exceed the certified bound (this is a defect of attnforge; please report it)"
    return CertificateError(defect, got)


def _about_table(compiled: Compiled, table: Table) -> tuple[str, ...]:
    """What a certificate about a table says of its reach: the listed points, and how well it does without some."""
    reach = f"a statement about the {len(table.points):,} listed points only: a table says nothing between them"
    if compiled.network.construction != "table" or not _is_scattered(compiled.network.heads[0], table):
        return (reach,)
    rows = spread(len(table.points), JUDGED)
    weights = compiled.attention(table.points[rows])[0][0].reshape(len(rows), -1)
    found = judge(weights, table.table_values[rows].reshape(len(rows), -1))
    if not found:
        return (reach,)
    missed = min(found, key=lambda entry: entry.held_rms).held_out
    return (reach, f"values fitted anew to four fifths of them miss the others by up to {missed:.2g}")


def _is_scattered(head: Head, table: Table) -> bool:
    """Whether points and anchors are no product of evenly spaced axes, so that a fit to some of them means something.

    Leaving points out of a grid tells nothing of how it does between them: the holes are larger than the gaps.
    """
    if table.grid is None or head.claims is None:
        return True
    if len(table.grid.axes) > 1:
        return math.prod(len(np.unique(column)) for column in head.claims.positions.T) != len(head.claims.positions)
    gaps = np.log(np.diff(table.grid.axes[0]))
    return bool(np.abs(np.diff(gaps)).max(initial=0.0) > math.log(UNEVEN))

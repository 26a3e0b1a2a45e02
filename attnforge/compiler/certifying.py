"""The public ``certify``: a network or a compiled target, with what was seen added to what was proved."""

from __future__ import annotations

import math
from collections.abc import Callable
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
from attnforge.compiler.compiled import Compiled
from attnforge.compiler.measuring import measure
from attnforge.compiler.targets import as_target, compared_with
from attnforge.errors import CertificateError
from attnforge.network import Head, Network
from attnforge.targets import Target
from attnforge.targets.table import Table

JUDGED = 4_000  # listed points on which a fit to four fifths of them is judged
UNEVEN = (
    10.0  # neighbouring gaps between data of one input that differ by a larger factor are those of scattered points
)
QUICK_SECONDS = 5.0  # for evaluating an expensive target: then fewer points are looked at
QUICK_POINTS = 4_000  # for the estimate that goes with a certificate; `measure` looks harder


def certify(
    network: Network | Compiled,
    target: Any = None,
    domain: Any = None,
    *,
    progress: Callable[[float], None] | None = None,
) -> Certificate:
    """Prove a bound of |network - target| on the domain, from network and target alone.

    Args:
        network: a Network (run in float64), or a Compiled, which brings its own target, domain and dtype.
        target: what it is compared with, as for :func:`compile`; needed for a bare Network.
        domain: where; defaults to the target's own.
        progress: told the fraction of the proof that is done.
    """
    if isinstance(network, Compiled):
        against = compared_with(network.target, target, domain)
        return certified(network.network, against, network.construction, network.dtype, progress).certificate
    if target is None:
        raise CertificateError("A bare network is certified against a target", "none", "Pass target= and domain=")
    return certified(network, as_target(target, domain), "network", "float64", progress).certificate


def proof_cost(compiled: Compiled) -> Cost | None:
    """About how long proving its bound again will take; None where that is not known beforehand."""
    if compiled.network.construction not in FITTED:
        return None
    return cost(compiled.network, compiled.target, compiled.target.domain, machine(compiled.dtype))


def certified(
    network: Network,
    target: Target,
    construction: str,
    dtype: str,
    progress: Callable[[float], None] | None = None,
) -> Compiled:
    """The network with its certificate: the bound, and the largest error a quick search finds."""
    compiled = Compiled(network, target, prove(network, target, dtype=dtype, progress=progress), construction, dtype)
    found = measure(compiled, points=QUICK_POINTS, seconds=QUICK_SECONDS, brief=True)
    if compiled.certificate.bound is not None and not found.sup <= compiled.certificate.bound:
        raise CertificateError(
            "No measured error may exceed the certified bound (this is a defect of attnforge; please report it)",
            f"error {found.sup} above bound {compiled.certificate.bound}",
        )
    at = tuple(float(value) for value in found.at.ravel())
    compiled.certificate = replace(compiled.certificate, estimate=Estimate(found.sup, at))
    if isinstance(target, Table):
        compiled.certificate = replace(compiled.certificate, assumptions=_about_table(compiled, target))
    return compiled


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

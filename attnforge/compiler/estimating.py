"""What was seen beside what was proved: a quick search for the largest error, in every certificate."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from attnforge.anchors.scattered import judge, spread
from attnforge.certification import Certificate
from attnforge.certification.certificate import Estimate
from attnforge.compiler.measuring import largest_error
from attnforge.compiler.runnable import Runnable
from attnforge.effort import NORMAL, Effort, check_time
from attnforge.errors import AttnforgeError, CertificateError, OutOfTimeError, TargetError
from attnforge.measurement import Measurement
from attnforge.network import Head
from attnforge.targets import Target
from attnforge.targets.table import Table

JUDGED = 4_000  # listed points on which a fit to four fifths of them is judged
UNEVEN = (
    10.0  # neighbouring gaps between data of one input that differ by a larger factor are those of scattered points
)
SHOWN = 6  # coordinates of a point in an error message


def with_estimate(certificate: Certificate, net: Runnable, effort: Effort = NORMAL) -> Certificate:
    """The certificate, with the largest error that a quick search finds; raises if that is NaN or above the bound."""
    target = net.target
    measured = largest_error(net, target, effort.beside(net.anchors), seconds=effort.seconds, brief=True)
    if not measured.sup <= (math.inf if certificate.bound is None else certificate.bound):
        raise _refuted(certificate, target, measured)
    at = tuple(float(value) for value in measured.at.ravel())
    certificate = replace(certificate, estimate=Estimate(measured.sup, at))
    if isinstance(target, Table):
        certificate = replace(certificate, assumptions=_about_table(net, target))
    return certificate


def _refuted(certificate: Certificate, target: Target, measured: Measurement) -> AttnforgeError:
    """What an error above the bound means: there is no value; the constant it rests on is false; or we are wrong."""
    known, got = target.lipschitz(), f"error {measured.sup} above bound {certificate.bound}"
    at = ", ".join(f"{value:.6g}" for value in measured.at.ravel()[:SHOWN]) + (
        ", .." if measured.at.size > SHOWN else ""
    )
    if not np.isfinite(target.values(measured.at[None])).all():
        return TargetError("The formula must be finite on its domain", f"no finite value at ({at})", "Shrink it")
    if certificate.status == "conditional" and known is not None:
        requirement = (
            f"The target must be Lipschitz with constant {known.constant:g} in the {known.norm} norm, as given"
        )
        return TargetError(
            requirement, f"{got} at ({at}): it is not", "State a larger constant, or none: lipschitz=None"
        )
    if math.isnan(measured.sup):
        return CertificateError("A network must compute numbers on its domain", f"NaN at ({at})", "Shrink its weights")
    defect = "No measured error may exceed the certified bound (this is a defect of attnforge; please report it)"
    return CertificateError(defect, got)


def _about_table(net: Runnable, table: Table) -> tuple[str, ...]:
    """What a certificate about a table says of its reach: the listed points, and how well it does without some."""
    reach = f"a statement about the {len(table.points):,} listed points only: a table says nothing between them"
    if net.network.construction != "table" or not _is_scattered(net.network.heads[0], table):
        return (reach,)
    rows = spread(len(table.points), JUDGED)
    try:
        check_time("judging a fit")
        weights = net.attention(table.points[rows])[0][0].reshape(len(rows), -1)
        measured = judge(weights, table.table_values[rows].reshape(len(rows), -1))
    except OutOfTimeError:
        measured = []
    if not measured:
        return (reach,)
    missed = min(measured, key=lambda entry: entry.held_rms).held_out
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

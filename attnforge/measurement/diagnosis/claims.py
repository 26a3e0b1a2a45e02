r"""What a head claims against what its keys are: number, places and sharpness.

Claims say where the builder wanted keys, and how sharp. The scores say where they are
(:mod:`attnforge.labels.rows`). A key more than a hundredth of a step off, a key that is not there, or a sharpness more
than a twentieth off is a contradiction; which of the two is wrong cannot be told from here, so it is a warning. Softer
than claimed where a staircase was claimed ($c \ge 8$: a neighbour weighs less than $e^{-8}$), or the reverse, is
*interpolation drift*.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from attnforge.labels.places import OFF, off_in_steps
from attnforge.labels.rows import KeyAxis
from attnforge.measurement.diagnosis.findings import Finding
from attnforge.measurement.diagnosis.precision import place
from attnforge.measurement.diagnosis.view import HeadView
from attnforge.network import Claims

Array = npt.NDArray[np.float64]

HARD = 8.0
SOFTER = 0.05
PER_LENGTH = ("truncated_linear", "multihead_truncated_linear")  # claim beta; the others claim c = beta h^2
LISTED = 10_000  # keys of which places are compared one by one


def claimed_sharpness(claims: Claims | None) -> float | None:
    """The c that a head claims; None where it claims none or zero, or is no row of anchors."""
    if claims is None or claims.construction == "gate" or len(claims.positions) < 2 or not claims.sharpness:
        return None
    if claims.construction not in PER_LENGTH:
        return claims.sharpness
    steps = np.diff(np.unique(claims.positions))
    return float(claims.sharpness * np.median(steps) ** 2) if len(steps) else None


def claim_findings(view: HeadView, axes: tuple[KeyAxis, ...]) -> list[Finding]:
    """Ghosts or other keys that are claimed and absent, keys elsewhere, another sharpness."""
    claims = view.claims
    if claims is None or claims.construction == "gate":
        return []
    return [*_missing(view, claims), *_elsewhere(view, claims, axes), *_other_sharpness(view, claims, axes)]


def _missing(view: HeadView, claims: Claims) -> list[Finding]:
    claimed = len(claims.roles)
    if claimed in (0, view.count):
        return []
    ghosts = claims.roles.count("ghost")
    evidence = {"keys claimed": float(claimed), "keys found": float(view.count), "ghosts claimed": float(ghosts)}
    if ghosts and view.count == claimed - ghosts:
        cause = f"As many keys are missing as ghosts are claimed: the {ghosts} ghost keys beyond the ends are gone"
        remedy = f"Put the {ghosts} ghost keys back: without them the ends lean inwards"
        return [Finding("boundary artefact", "warning", place(view), evidence, cause, remedy)]
    cause = "The head does not hold the keys that it claims"
    remedy = "Build the network anew, or correct its claims"
    return [Finding("contradicted claims", "warning", place(view), evidence, cause, remedy)]


def _elsewhere(view: HeadView, claims: Claims, axes: tuple[KeyAxis, ...]) -> list[Finding]:
    """Keys whose place, seen from the scores, is not the claimed one; the two coordinates differ by an affine map."""
    if len(axes) != 1 or len(claims.positions) != view.count or not 3 <= view.count <= LISTED:
        return []
    axis, claimed = axes[0], claims.positions.reshape(view.count, -1)
    seen = axis.positions[axis.place]
    if claimed.shape[1] != 1 or not np.isfinite(claimed).all():
        return []
    off = off_in_steps(claimed[:, 0], seen)
    wrong = np.flatnonzero(np.abs(off) > OFF)
    if not len(wrong) or len(wrong) > view.count // 2:
        return []
    worst = int(wrong[np.abs(off[wrong]).argmax()])
    evidence = {"largest displacement in steps": float(off[worst]), "of key": float(worst)}
    cause = "Keys do not score from where they are claimed to stand: " + ", ".join(
        f"key {k} ({claims.roles[k]})" for k in wrong[:4].tolist()
    )
    remedy = f"Move key {worst} by {-off[worst]:.3g} steps, or correct the claims"
    return [Finding("contradicted claims", "warning", place(view, tuple(wrong.tolist())), evidence, cause, remedy)]


def _other_sharpness(view: HeadView, claims: Claims, axes: tuple[KeyAxis, ...]) -> list[Finding]:
    wanted = claimed_sharpness(claims)
    if wanted is None or not axes or not axes[0].regular:
        return []
    seen = axes[0].sharpness
    if abs(seen / wanted - 1) <= SOFTER:
        return []
    evidence = {"c seen": seen, "c claimed": wanted}
    remedy = f"Multiply the query map by {wanted / seen:.3g}"
    if min(seen, wanted) < HARD <= max(seen, wanted):
        smooth = seen < wanted
        cause = "A staircase is claimed, and transitions are smooth" if smooth else "The row snaps to its anchors"
        cause += f": scores are {'softer' if smooth else 'sharper'} than claimed"
        return [Finding("interpolation drift", "warning", place(view), evidence, cause, remedy)]
    if seen < wanted:
        cause = "The sharpness is too low: attention is more diffuse than the head claims"
        return [Finding("uniform attention", "warning", place(view), evidence, cause, remedy)]
    cause = "The scores are sharper than claimed: between anchors the output is a staircase rather than smooth"
    return [Finding("interpolation drift", "warning", place(view), evidence, cause, remedy)]

r"""Errors at the ends of the domain: ghosts that are missing, or too few.

A soft row needs keys beyond the ends of the domain, or the ends lean inwards: without keys farther than g steps out, a
share of about $e^{-c(g + 1/2)^2}$ of the weight is missing there. The signature is an error near an end (within two
steps) ten times that in the middle; the cause is missing ghosts if the row ends at the domain's end, so that c and the
number of keys beyond do not reach the error in the middle:
$$ e^{-c(g+1/2)^2} > \mathrm{error}_{\mathrm{middle}} / \mathrm{range}, \qquad
   g_{\mathrm{needed}} = \Big\lceil \sqrt{\ln(\mathrm{range}/\mathrm{error}_{\mathrm{middle}})/c} \Big\rceil . $$
Where all of the domain is so near an end that there is no middle, the ghosts are tried out (:mod:`.ghost_trial`).
A row that ends well inside the domain stands for a function that is constant beyond (a clamp); there ghosts are of no
use. Rows softer than c = 0.2 are first of all too soft: no construction uses them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attnforge.labels.rows import KeyAxis
from attnforge.measurement.diagnosis.findings import Finding, Place
from attnforge.measurement.diagnosis.ghost_trial import error_with_ghosts
from attnforge.measurement.diagnosis.subject import Subject
from attnforge.targets import Box

Array = npt.NDArray[np.float64]

FACTOR = 10.0  # by which the error at an end exceeds that in the middle
SOFTEST = 0.2
BAND = 2.0  # steps from the end
SHARE = 1e-3  # of the weight: farther from an end, the row counts as complete
PROBES = 128  # points at each end, and in the middle
NEGLIGIBLE = 1e-12  # of the target's range: rounding


@dataclass(frozen=True, eq=False)
class _End:
    """One end of an axis of a head, at which the row stops: a place where ghosts may be missing."""

    head: int
    number: int
    axis: KeyAxis
    upper: bool
    alone: bool

    @property
    def ghosts(self) -> int:
        return self.axis.beyond[self.upper]

    @property
    def step(self) -> float:
        return self.axis.end_steps[self.upper]

    @property
    def is_open(self) -> bool:
        """Whether the row stops where the domain does, with a sharpness at which that matters."""
        axis = self.axis
        inside = axis.upper - axis.positions[-1] if self.upper else axis.positions[0] - axis.lower
        missing = math.exp(-axis.sharpness * (self.ghosts + 0.5) ** 2)
        return axis.sharpness >= SOFTEST and inside <= self.step and missing >= NEGLIGIBLE

    @property
    def has_middle(self) -> bool:
        """Whether the domain has a part that neither end of the row reaches."""
        reach = BAND + math.sqrt(math.log(1 / SHARE) / self.axis.sharpness)
        return self.axis.upper - self.axis.lower > 2 * reach * self.step


def edge_findings(subject: Subject, axes: Mapping[int, tuple[KeyAxis, ...]], seed: int) -> list[Finding]:
    """Missing ghosts of the heads of the first layer of attention, one finding a head, axis and end."""
    box = subject.box
    if box is None or len(box.shape) != 1:
        return []
    rng = np.random.default_rng(seed)
    ends = [
        _End(head, number, axis, upper, len(rows) == 1)
        for head, rows in axes.items()
        for number, axis in enumerate(rows)
        for upper in (False, True)
    ]
    ends = [end for end in ends if end.is_open]
    long = [finding for end in ends if end.has_middle and (finding := _against_middle(subject, box, end, rng))]
    short = [end for end in ends if not end.has_middle and not end.ghosts]
    return long + (_by_trial(subject, box, axes, short, seed) if short else [])


def _against_middle(subject: Subject, box: Box, end: _End, rng: np.random.Generator) -> Finding | None:
    length = end.axis.upper - end.axis.lower
    near, _ = _largest(subject, _points(box, end.axis, end.upper, 0.0, BAND * end.step, rng))
    middle, size = _largest(subject, _points(box, end.axis, end.upper, length / 3, 2 * length / 3, rng))
    floor = max(middle, NEGLIGIBLE * size)
    missing = math.exp(-end.axis.sharpness * (end.ghosts + 0.5) ** 2)
    if not near > FACTOR * floor or missing * size <= floor:
        return None
    evidence = {f"error within {BAND:g} steps of the end": near, "error in the middle": middle}
    return _finding(end, evidence, floor / size)


def _by_trial(
    subject: Subject, box: Box, axes: Mapping[int, tuple[KeyAxis, ...]], short: list[_End], seed: int
) -> list[Finding]:
    """Rows without a middle: their error now, and after adding ghosts and fitting the values anew."""
    rng = np.random.default_rng(seed)
    now, size = _largest(subject, rng.uniform(box.lower, box.upper, size=(4 * PROBES, len(box.lower))))
    if now <= FACTOR * NEGLIGIBLE * size:
        return []
    where = {(end.head, end.number) for end in short}
    lacking = {
        key: (
            any((e.head, e.number, e.upper) == (*key, False) for e in short),
            any((e.head, e.number, e.upper) == (*key, True) for e in short),
        )
        for key in where
    }
    then = error_with_ghosts(subject, axes, lacking, seed)
    if then is None or now <= FACTOR * max(then, NEGLIGIBLE * size):
        return []
    evidence = {"error": now, "error with ghosts, values fitted anew": then}
    return [_finding(end, evidence, max(then, NEGLIGIBLE * size) / size) for end in short]


def _finding(end: _End, seen: Mapping[str, float | str], share: float) -> Finding:
    c, ghosts = end.axis.sharpness, end.ghosts
    needed = max(ghosts + 1, math.ceil(math.sqrt(math.log(1 / min(share, 0.5)) / c)))
    side = "upper" if end.upper else "lower"
    along = "" if end.alone else f" of input {int(np.abs(end.axis.direction).argmax())}"
    keys = np.flatnonzero(end.axis.place == (len(end.axis.positions) - 1 if end.upper else 0))
    evidence: dict[str, float | str] = {"end": f"{side}{along}", **seen, "keys beyond": float(ghosts)}
    evidence |= {"keys needed": float(needed), "c": c}
    have = "no ghost keys" if not ghosts else f"only {ghosts} ghost keys"
    cause = f"Missing ghosts: {have} beyond the {side} end{along}, where c = {c:.3g} needs about {needed}"
    remedy = f"Add ghost keys up to {needed} steps beyond the {side} end{along}, with values from the fit or reflected"
    return Finding("boundary artefact", "fault", Place(0, end.head, tuple(keys.tolist())), evidence, cause, remedy)


def _points(box: Box, axis: KeyAxis, upper_end: bool, start: float, stop: float, rng: np.random.Generator) -> Array:
    """Points whose coordinate along the axis lies between two distances from one end, the end itself among them.

    Other inputs stay in the middle half of the box, so that only this end can be at fault.
    """
    weights = axis.direction
    quarter = (box.upper - box.lower) / 4
    points = rng.uniform(box.lower + quarter, box.upper - quarter, size=(PROBES, len(box.lower)))
    corner = np.where((weights > 0) == upper_end, box.upper, box.lower)
    distance = rng.uniform(start, stop, size=PROBES)
    distance[0] = start
    moving = weights != 0
    share = distance[:, None] / (axis.upper - axis.lower)
    other = box.lower + box.upper - corner
    points[:, moving] = (corner + share * (other - corner))[:, moving]
    return np.clip(points, box.lower, box.upper)


def _largest(subject: Subject, points: Array) -> tuple[float, float]:
    """The largest error at the points, and the size of the target there."""
    wanted = subject.wanted(points)
    errors = subject.errors(points, wanted)
    size = max(float(np.abs(wanted).max(initial=0.0)), np.finfo(np.float64).tiny)
    return float(np.nan_to_num(errors, nan=np.inf).max()), size

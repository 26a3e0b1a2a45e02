r"""Signatures of a dtype: scores that overflow, gaps that rounding absorbs, winners that change, numbers that vanish.

A score is a sum of products $q_i k_i$; in a dtype of unit roundoff u it is off by about $u \sum_i |q_i k_i|$, on a row
of n steps about $u\,c\,n^2$ (recentred, a quarter of it). Nothing is lost while that is small against the gap between
the two best scores, c at an anchor. Both sides are measured: the exact scores of the weights as they were meant, and
the softmax weights that the runtime computes in the dtype.
"""

from __future__ import annotations

import math

import numpy as np

from attnforge.measurement.diagnosis.findings import Finding, Place, Severity
from attnforge.measurement.diagnosis.statistics import HeadStatistics
from attnforge.measurement.diagnosis.view import HeadView
from attnforge.outward import machine, round_to

SMALLEST_NORMAL = {"float64": 2.0**-1022, "float32": 2.0**-126, "bfloat16": 2.0**-126, "float16": 2.0**-14}
FEW = 0.01  # of the queries: lost on fewer is a warning, on more a fault
LEAST_NOISE = 0.5  # in the logarithm of a weight
FEWEST = 16  # keys: it makes no sense to advise fewer
ULPS = 8  # that a gap should have at least
SHARE = 0.05  # of the range of scores: what numbers below the normal ones must make up to matter


def precision_findings(view: HeadView, found: HeadStatistics) -> list[Finding]:
    """What the dtype does to this head; at most one of overflow, lost argmax and absorbed gaps, the worst."""
    for look in (_overflow, _lost, _absorbed):
        finding = look(view, found)
        if finding:
            return [finding]
    below = _underflow(view, found)
    return [below] if below else []


def _overflow(view: HeadView, found: HeadStatistics) -> Finding | None:
    largest = machine(view.dtype).largest
    reached = max(_largest(view.queries), _largest(view.keys))
    scores_fit = (
        found.largest_score < machine("float32" if view.dtype in ("float16", "bfloat16") else view.dtype).largest
    )
    if found.finite and reached <= largest and scores_fit:
        return None
    evidence = {
        "largest score": found.largest_score,
        "largest query or key entry": reached,
        f"largest {view.dtype}": largest,
        "weights": "finite" if found.finite else "not finite",
    }
    cause = f"Queries, keys or scores exceed the largest {view.dtype}: the softmax sees infinities"
    remedy = f"{_wider(view.dtype).capitalize()}, or recentre the keys on the domain so that scores stay small"
    fits = int(found.keys * math.sqrt(largest / reached)) if math.isfinite(reached) and reached > 0 else 0
    if view.constant and FEWEST <= fits < found.keys:  # entries of a row of p keys grow like p^2
        cause = f"{found.keys:,} keys are too many for {view.dtype}: {cause[0].lower()}{cause[1:]}"
        remedy += (
            f"; or use at most about {fits:,} keys a head, or for a truncated linear function the gate: three keys"
        )
    return Finding("score overflow", "fault", place(view), evidence, cause, remedy)


def _lost(view: HeadView, found: HeadStatistics) -> Finding | None:
    if found.lost == 0:
        return None
    same = _coinciding(view)
    evidence: dict[str, float | str] = {
        "queries that another key wins": f"{found.lost:.1%}",
        "gap of the two best scores": found.gap,
        "gap in ulps of the largest score": found.gap_in_ulps,
        "largest score": found.largest_score,
    }
    if same:
        evidence[f"keys that coincide in {view.dtype}"] = float(same)
    cause = f"{found.keys:,} keys are too many for {view.dtype}: rounding of the scores exceeds the gaps between them"
    severity: Severity = "fault" if found.lost >= FEW else "warning"
    return Finding("lost argmax", severity, place(view), evidence, cause, _fewer(view, found))


def _absorbed(view: HeadView, found: HeadStatistics) -> Finding | None:
    if not found.noise > max(found.gap, LEAST_NOISE):
        return None
    evidence = {
        "noise of the log-weights": found.noise,
        "gap of the two best scores": found.gap,
        "gap in ulps of the largest score": found.gap_in_ulps,
    }
    cause = f"Rounding of the scores in {view.dtype} is as large as the gaps between them"
    return Finding("absorbed gaps", "warning", place(view), evidence, cause, _fewer(view, found))


def _underflow(view: HeadView, found: HeadStatistics) -> Finding | None:
    """Components of queries or keys that the dtype holds as subnormal numbers, or not at all, and that carry scores."""
    smallest = SMALLEST_NORMAL[view.dtype]
    queries, keys = np.abs(view.queries), np.abs(view.keys.reshape(-1, view.keys.shape[-1]))
    largest_query, largest_key = queries.max(axis=0, initial=0.0), keys.max(axis=0, initial=0.0)
    tiny = ((largest_query < smallest) | (largest_key < smallest)) & (largest_query > 0) & (largest_key > 0)
    carried = float((largest_query * largest_key)[tiny].sum())
    if not tiny.any() or carried < SHARE * max(found.score_range, np.finfo(np.float64).tiny):
        return None
    least = np.minimum(largest_query, largest_key)[tiny].max()
    gone = bool(round_to(np.array([least]), view.dtype)[0] == 0)
    evidence = {
        "largest entry of the component": float(least),
        f"smallest normal {view.dtype}": smallest,
        "share of the range of scores": carried / found.score_range if found.score_range else 1.0,
    }
    cause = f"Queries or keys are below the normal numbers of {view.dtype}" + (", and become zero" if gone else "")
    remedy = (
        "Move a power of two from the keys into the query map (or the reverse) so that both are near 1, or "
        + _wider(view.dtype)
    )
    return Finding("underflow", "fault" if gone else "warning", place(view), evidence, cause, remedy)


def _fewer(view: HeadView, found: HeadStatistics) -> str:
    """Recentre if that helps; a wider dtype; as many keys as the dtype can tell apart; the gate."""
    ways = []
    if view.constant and view.keys.ndim == 2 and _is_off_centre(view):
        ways.append("recentre the keys on the middle of the domain (scores shrink fourfold)")
    fits = int(found.keys * math.sqrt(max(found.gap_in_ulps, 1e-300) / ULPS))
    few = view.constant and FEWEST <= fits < found.keys
    ways += [_wider(view.dtype), f"use at most about {fits:,} keys a head" if few else "use fewer keys a head"]
    text = ", ".join(ways) + ", or for a truncated linear function use the gate: three keys"
    return text[0].upper() + text[1:]


def _is_off_centre(view: HeadView) -> bool:
    """Whether every component of the keys lies on one side of zero."""
    return not bool(((view.keys.min(axis=0) < 0) & (view.keys.max(axis=0) > 0)).any())


def _coinciding(view: HeadView) -> int:
    """How many constant keys differ, but not in the dtype."""
    if not view.constant or view.keys.ndim != 2:
        return 0
    return len(np.unique(view.keys, axis=0)) - len(np.unique(round_to(view.keys, view.dtype), axis=0))


def _wider(dtype: str) -> str:
    return "use float64" if dtype != "float64" else "use smaller scores (float64 is the widest dtype there is here)"


def _largest(values: object) -> float:
    found = np.abs(np.asarray(values, dtype=np.float64))
    return float(found.max(initial=0.0)) if np.isfinite(found).all() else math.inf


def place(view: HeadView, keys: tuple[int, ...] = ()) -> Place:
    """Where the head is."""
    return Place(view.layer, view.head, keys, view.name)

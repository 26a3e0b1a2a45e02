"""In which order constructions are tried, and why the one taken was taken."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from attnforge.compiler.compiled import Compiled
from attnforge.errors import RefusalError, ToleranceError
from attnforge.targets import Function, Target
from attnforge.theorems.construction import Construction
from attnforge.theorems.registry import STAGES
from attnforge.theorems.tensor_heads import FittedPlan

FITTED = 2  # a closed form is preferred to a fit unless it is more than so many times as large
UNPROVED_CELLS = 200_000  # hard cells are worth no more where nothing is proved by them
PROBES = 512  # pairs of points that estimate the slope of what was built


def candidates(
    target: Target, tol: float, dtype: str, refusals: dict[str, str], named: Construction[Any] | None = None
) -> Iterator[tuple[Construction[Any], Any]]:
    """The named construction, or all that apply, with a plan each: stage by stage, and in each the fewest bytes first.

    Stages go from exact gadgets over fitted heads to hard cells; a later one is sized only if all earlier ones were
    refused. Where the user states a Lipschitz constant, a proof is wanted that only hard cells give: they go first.
    """
    stages = STAGES[::-1] if _proof_asked_for(target) else STAGES
    for stage in stages if named is None else ((named,),):
        yield from _cheapest_first(stage, target, tol, dtype, refusals)


def why(compiled: Compiled, construction: Construction[Any], plan: Any, tol: float) -> str:
    """The reason for a construction; for fitted heads, what was found and what hard selection would have cost."""
    if not isinstance(plan, FittedPlan):
        return f"{construction.function_class}: {construction.rate}"
    box = compiled.domain
    rng = np.random.default_rng(0)
    lengths = box.upper - box.lower
    points = rng.uniform(box.lower, box.upper, size=(PROBES, *box.shape))
    near = np.clip(points + rng.choice([-1.0, 1.0], size=points.shape) * 1e-3 * lengths, box.lower, box.upper)
    rise = np.abs(compiled.at_points(near) - compiled.at_points(points)).reshape(PROBES, -1).max(axis=1)
    slope = float((rise / np.maximum(np.abs(near - points).max(axis=-1), np.finfo(np.float64).tiny)).max())
    hard = math.prod(max(1.0, float(length) * slope / (2 * tol)) for length in lengths)
    dropped = (
        "; the stated Lipschitz constant proves nothing of fitted heads" if _proof_asked_for(compiled.target) else ""
    )
    return f"{plan.reason}; hard selection would need about {hard:.1g} anchors{dropped}"


def _proof_asked_for(target: Target) -> bool:
    """Whether the user stated a Lipschitz constant, rather than its being derived from a formula."""
    return isinstance(target, Function) and target.lipschitz() is not None


def _cheapest_first(
    stage: tuple[Construction[Any], ...], target: Target, tol: float, dtype: str, refusals: dict[str, str]
) -> list[tuple[Construction[Any], Any]]:
    """The constructions of a stage that accept the target, with their plans; the others' reasons are noted."""
    accepted = []
    for candidate in stage:
        reason = candidate.accepts(target)
        if reason is not None:
            refusals[candidate.name] = reason
            continue
        try:
            plan = candidate.size(target, tol, dtype)
        except (RefusalError, ToleranceError) as error:
            refusals[candidate.name] = str(error)
            continue
        cost, handicap = candidate.cost(target, plan), FITTED if candidate.fitted else 1
        if stage is STAGES[-1] and target.lipschitz() is None and cost.anchors > UNPROVED_CELLS:
            refusals[candidate.name] = f"{cost.anchors:,} cells, and nothing known of the target that they could prove"
            continue
        accepted.append((handicap * cost.bytes, candidate, plan))
    return [(candidate, plan) for _, candidate, plan in sorted(accepted, key=lambda entry: entry[0])]

"""In which order constructions are tried, and why the one taken was taken."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from attnforge.anchors.panels import chebyshev_coefficients, lobatto
from attnforge.compiler.compiled import Compiled
from attnforge.effort import check_time
from attnforge.errors import OutOfTimeError, RefusalError, ToleranceError
from attnforge.outward import machine
from attnforge.progress import SILENT, Watch
from attnforge.targets import Function, Target
from attnforge.theorems import registry
from attnforge.theorems.construction import Construction
from attnforge.theorems.graph.construction import GraphPlan
from attnforge.theorems.tensor_heads import FittedPlan

FITTED = 2  # a closed form is preferred to a fit unless it is more than so many times as large
UNPROVED_CELLS = 200_000  # hard cells are worth no more where nothing is proved by them
SEPARABLE = (
    64.0  # n cells along an axis are told apart up to about n^2 roundoff of this; rounding outweighs the rest beyond
)
PROVED_GRID = 2  # inputs up to which heads over grids are proved as a rule
MILLIONS = 1e7  # counts above are written as powers of ten
LINES, DEGREES = 8, tuple(2**k for k in range(3, 9))  # lines along an axis, and degrees tried on them
LEAST = 6  # keys along an axis, even of a straight line: ghosts
PROBES, STEP = 512, 1e-3  # points, and part of the box, that estimate slope and curvature of what was built


def candidates(
    target: Target,
    tol: float,
    dtype: str,
    refusals: dict[str, str],
    named: Construction[Any] | None = None,
    watch: Watch = SILENT,
) -> Iterator[tuple[Construction[Any], Any]]:
    """The named construction, or all that apply, with a plan each: stage by stage, and in each the fewest bytes first.

    Stages go from exact gadgets over graphs and fitted heads to hard cells; a later one is sized only if all earlier
    ones were refused. A graph of two inputs that would take more keys than one head over a grid waits for the end; in
    more inputs such heads are seldom proved. Where the user states a Lipschitz constant, a proof is wanted that only
    hard cells give: they go first.
    """
    waiting = list[tuple[Construction[Any], Any]]()
    stages = registry.STAGES[::-1] if _proof_asked_for(target) else registry.STAGES
    for stage in stages if named is None else ((named,),):
        willing = [(entry, entry.accepts(target) if entry is named else entry.offers(target)) for entry in stage]
        refusals |= {entry.name: reason for entry, reason in willing if reason is not None}
        accepting = [entry for entry, reason in willing if reason is None]
        for entry, plan in _cheapest_first(
            accepting, target, tol, dtype, refusals, watch, stage is registry.STAGES[-1]
        ):
            if named is None and isinstance(plan, GraphPlan) and _is_large(plan, target, tol):
                waiting.append((entry, plan))
            else:
                yield entry, plan
    yield from waiting


def why(compiled: Compiled, construction: Construction[Any], plan: Any, tol: float) -> str:
    """The reason for a construction; for fitted heads, what was found and what sampled values would have cost."""
    if isinstance(plan, GraphPlan):
        try:
            keys = _about(_grid_count(compiled.target, tol))
        except OutOfTimeError:  # what is built does not wait for what would have been
            return plan.reason
        return f"{plan.reason}; one head over a grid would need about {keys} keys"
    if not isinstance(plan, FittedPlan):
        return f"{construction.function_class}: {construction.rate}"
    hard, tuned = _sampled_counts(compiled, tol)
    others = f"sampled values would need about {hard:.1g} anchors hard" + (
        "" if plan.is_graded else f", {tuned:.1g} tuned"
    )
    stated = (
        "; the stated Lipschitz constant proves nothing of fitted heads" if _proof_asked_for(compiled.target) else ""
    )
    return f"{plan.reason}; {others}{stated}"


def _about(count: float) -> str:
    """One digit, in words that read well."""
    return f"{float(f'{count:.1g}'):,.0f}" if count < MILLIONS else f"{count:.0e}"


def _is_large(plan: GraphPlan, target: Target, tol: float) -> bool:
    """Whether one head over a grid of two inputs would take fewer keys."""
    return target.domain.lower.size <= PROVED_GRID and plan.anchors > _grid_count(target, tol)


def _grid_count(target: Target, tol: float) -> float:
    """Keys of one head over a product grid, about: along an axis as many as Chebyshev coefficients above tol.

    The coefficients are those along lines through random points.
    """
    box, rng = target.domain, np.random.default_rng(0)
    through, counts = rng.uniform(box.lower, box.upper, size=(LINES, *box.shape)), 1.0
    for axis, (low, high) in enumerate(zip(box.lower.tolist(), box.upper.tolist(), strict=True)):
        for degree in DEGREES:
            check_time("counting keys of a grid")
            points = np.repeat(through[None], degree + 1, axis=0)
            points[..., axis] = lobatto(low, high, degree)[:, None]
            values = np.asarray(target.values(points.reshape(-1, *box.shape)), dtype=np.float64)
            sizes = np.abs(chebyshev_coefficients(values.reshape(degree + 1, -1))).max(axis=1)
            if sizes[-2:].max() <= tol:
                break
        counts *= max(LEAST, int(np.flatnonzero(sizes > tol).max(initial=0)) + 1)
    return counts


def _sampled_counts(compiled: Compiled, tol: float) -> tuple[float, float]:
    """Anchors of cubes of side h with sampled values: hard errs by L h / 2, tuned by C h^2 / 4 at c = 1.

    L and C are the steepest slope and the largest curvature seen, of what was built, along diagonals.
    """
    box, rng = compiled.domain, np.random.default_rng(0)
    lengths = box.upper - box.lower
    step = STEP * lengths * rng.choice([-1.0, 1.0], size=(PROBES, *box.shape))
    middle = rng.uniform(box.lower + STEP * lengths, box.upper - STEP * lengths, size=step.shape)
    low, at, high = (compiled.at_points(middle + shift).reshape(PROBES, -1) for shift in (-step, 0 * step, step))
    reach = max(np.float64(STEP * lengths.max()), np.finfo(np.float64).tiny)
    with np.errstate(all="ignore"):  # on tiny domains both are infinite, and so are the counts; on huge ones zero
        slope, curvature = np.abs(high - low).max() / (2 * reach), np.abs(high - 2 * at + low).max() / reach**2
    sides = 2 * tol / slope if slope else math.inf, math.sqrt(4 * tol / curvature) if curvature else math.inf
    hard, tuned = (
        math.prod(max(1.0, float(length) / side) if side > 0 else math.inf for length in lengths) for side in sides
    )
    return hard, tuned


def _proof_asked_for(target: Target) -> bool:
    """Whether the user stated a Lipschitz constant, rather than its being derived from a formula."""
    return isinstance(target, Function) and target.lipschitz() is not None


def _cheapest_first(
    accepting: list[Construction[Any]],
    target: Target,
    tol: float,
    dtype: str,
    refusals: dict[str, str],
    watch: Watch,
    are_cells: bool,
) -> list[tuple[Construction[Any], Any]]:
    """Those that can be sized, with their plans; the others' reasons are noted."""
    accepted = []
    for candidate in accepting:
        watch.say(f"trying {candidate.name}")
        try:
            check_time("sizing")
            plan = candidate.size(target, tol, dtype)
        except (RefusalError, ToleranceError) as error:
            refusals[candidate.name] = str(error)
            continue
        cost, handicap = candidate.cost(target, plan), FITTED if candidate.fitted else 1
        if are_cells and target.lipschitz() is None and cost.anchors > UNPROVED_CELLS:
            refusals[candidate.name] = f"{cost.anchors:,} cells, and nothing known of the target that they could prove"
            continue
        if are_cells and machine(dtype).roundoff * _along(target, cost.anchors) ** 2 > SEPARABLE:
            refusals[candidate.name] = f"{cost.anchors:,} cells, more than {dtype} can tell apart"
            continue
        accepted.append((handicap * cost.bytes, candidate, plan))
    return [(candidate, plan) for _, candidate, plan in sorted(accepted, key=lambda entry: entry[0])]


def _along(target: Target, anchors: int) -> float:
    """How many cells lie along an axis, about."""
    return math.exp(math.log(anchors) / target.domain.lower.size)

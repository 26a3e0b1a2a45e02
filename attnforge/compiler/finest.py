r"""The smallest tolerance a construction can keep in a dtype: the fit against what rounding adds.

A finer fit needs more keys or wilder values, so rounding does not shrink with it: $e(s) + r(s)$, error of the fit and
rounding, has a least value over s, what the fit is asked for. It is looked for by decades: from the middle of what the
dtype can tell apart downwards until two in a row gain nothing, upwards while s is below the best, then half a decade
either side.
No step depends on the tolerance that was asked for, so whoever asks for what was found gets it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Context, Decimal
from typing import Any

import numpy as np

from attnforge.certification import Certificate
from attnforge.certification.certify import certify as prove
from attnforge.compiler.budget import UNLIMITED, Budget
from attnforge.compiler.certifying import certified
from attnforge.compiler.cost import afford
from attnforge.effort import check_time
from attnforge.errors import RefusalError, TargetError, ToleranceError
from attnforge.network import Network
from attnforge.outward import machine
from attnforge.targets import Function, Target
from attnforge.targets.table import Table
from attnforge.theorems import registry
from attnforge.theorems.construction import Construction
from attnforge.theorems.tensor_heads import FittedPlan

MISSES = 2  # decades in a row that gain nothing
MORE = 8  # a plan with so many times the keys of the best is not looked at: they round more, and proofs take longer
GAIN = 0.9  # a decade gains where it brings the tolerance below so many times the best
FLOOR = 32.0  # roundoffs of the target's size: finer fits are searched for long, in vain
HALF_A_DECADE = math.sqrt(10.0)
FORMULA_INPUTS, CALLABLE_INPUTS = 4, 2  # more are not searched: their fits take too long to be repeated
WIDER = "float32"  # in which fits for half precision are planned where it refuses them: what rounds is only values
HARDER = 1.5  # times the error that a quick search saw: what a harder one is not expected to find
PROBES = 256  # points that tell how large a target is


@dataclass(frozen=True, eq=False)
class Finest:
    """A plan, its network, what is known of it, and the smallest tolerance it keeps."""

    plan: Any
    network: Network
    certificate: Certificate
    anchors: int
    tol: float


def finest(
    candidate: Construction[Any],
    target: Target,
    dtype: str,
    *,
    max_anchors: int | None = None,
    budget: Budget = UNLIMITED,
) -> Finest | None:
    """The plan that keeps the smallest tolerance found; None if none was found, or looking would take too long.

    Plans of more keys than the effort names are not looked at: a refusal must not take longer than what it refuses.
    """
    if not _is_searched(candidate, target):
        return None

    def tried(share: float, best: Finest | None) -> Finest | None:
        if share < floor:
            return None
        try:
            check_time("looking for the smallest tol")
            plan = _planned(candidate, target, share, dtype)
            cost = candidate.cost(target, plan)
            afford(cost, candidate.name, max_anchors, budget.max_bytes)
            too_many = cost.anchors > (most if best is None else min(most, MORE * best.anchors))
            return None if too_many else _judged(candidate, target, plan, cost.anchors, dtype, budget)
        except (RefusalError, TargetError, ToleranceError):
            return None

    size, most = _size(target), budget.effort.keys
    floor = FLOOR * size * min(machine(dtype).roundoff, machine(WIDER).roundoff)
    by_share = _by_decades(tried, size * math.sqrt(machine(dtype).roundoff), size)
    best = _least(by_share.values())
    if len({entry.tol for entry in by_share.values()}) > 1:
        share = next(share for share, entry in by_share.items() if entry is best)
        beside = (tried(share / HALF_A_DECADE, best), tried(share * HALF_A_DECADE, best))
        best = _least([*by_share.values(), *(entry for entry in beside if entry is not None)])
    return best


def rounded_up(tol: float) -> float:
    """The smallest number of two digits that is at least tol: what is said, read again, is still kept.

    >>> rounded_up(1.2001e-5), rounded_up(0.25)
    (1.3e-05, 0.25)
    """
    return float(Context(prec=2, rounding=ROUND_CEILING).plus(Decimal(tol)))


def kept(certificate: Certificate) -> float:
    """The smallest tolerance that is met: by the bound; else, and near the roundoff of float64, by what was seen.

    No proof of fitted heads reaches down to the roundoff of float64, since it must assume the worst rounding
    everywhere; around kinks of several inputs an enclosure is loose. A harder search finds a little more than was seen.
    """
    seen = certificate.estimate.error if certificate.estimate is not None else math.inf
    if certificate.bound is None:
        return HARDER * seen
    near = certificate.parts.get("rounding", 0.0) >= seen / 2 or certificate.bound > 2 * seen
    may_be_measured = certificate.dtype == "float64" and "fit" in certificate.parts
    return min(HARDER * seen, certificate.bound) if may_be_measured and near else certificate.bound


def _by_decades(
    tried: Callable[[float, Finest | None], Finest | None], middle: float, size: float
) -> dict[float, Finest]:
    """What was found for shares of the tolerance: down from the middle while it gains, up while it could."""
    by_share: dict[float, Finest] = {}
    share, misses = middle, 0
    while misses < MISSES:
        best = _least(by_share.values())
        entry = tried(share, best)
        misses = 0 if entry is not None and (best is None or entry.tol < GAIN * best.tol) else misses + 1
        by_share |= {} if entry is None else {share: entry}
        share /= 10
    share = 10 * middle
    while share <= min([size, *(entry.tol for entry in by_share.values())]):
        entry = tried(share, _least(by_share.values()))
        by_share |= {} if entry is None else {share: entry}
        share *= 10
    return by_share


def _least(entries: Iterable[Finest]) -> Finest | None:
    return min(entries, key=lambda entry: entry.tol, default=None)


def _planned(candidate: Construction[Any], target: Target, share: float, dtype: str) -> Any:
    """The plan for that share of the tolerance; where half precision refuses a fit, it is planned in a wider dtype."""
    try:
        return candidate.size(target, share, dtype)
    except (RefusalError, ToleranceError):
        if machine(dtype).roundoff <= machine(WIDER).roundoff:
            raise
    plan = candidate.size(target, share, WIDER)
    if not isinstance(plan, FittedPlan):
        raise RefusalError(f"`{candidate.name}` must be planned in {dtype}", WIDER)
    return replace(plan, dtype=dtype)


def _judged(
    candidate: Construction[Any], target: Target, plan: Any, anchors: int, dtype: str, budget: Budget
) -> Finest:
    """Built and proved; measured only where a measurement counts."""
    network = candidate.build(target, plan)
    certificate = None if dtype == "float64" else prove(network, target, dtype=dtype, effort=budget.effort)
    if certificate is None or certificate.bound is None:
        certificate = certified(network, target, candidate.name, dtype, budget).certificate
    return Finest(plan, network, certificate, anchors, kept(certificate))


def _is_searched(candidate: Construction[Any], target: Target) -> bool:
    """Gadgets always are; fits of few inputs; hard cells and tables never."""
    gadgets, hard = (tuple(type(entry) for entry in stage) for stage in (registry.STAGES[0], registry.STAGES[-1]))
    if isinstance(candidate, gadgets):
        return True
    if isinstance(target, Table) or isinstance(candidate, hard):
        return False
    return math.prod(target.domain.shape) <= (CALLABLE_INPUTS if isinstance(target, Function) else FORMULA_INPUTS)


def _size(target: Target) -> float:
    """The largest value at a few points; 1 of a target that vanishes there."""
    box, rng = target.domain, np.random.default_rng(0)
    values = np.abs(np.asarray(target.values(rng.uniform(box.lower, box.upper, size=(PROBES, *box.shape)))))
    return float(values.max(initial=0.0)) or 1.0

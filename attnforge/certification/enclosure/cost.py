r"""How long a proof by enclosure will take, before it starts: from a few cells of every size, and a clock.

Halving along all axes s times makes $2^{sD}$ cells. A few of them tell which part $p_s$ is not yet close to the error
at random points, and so how many are looked at: $N_{s+1} = 2^D p_s N_s$. One block of the smallest of them is timed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attnforge.certification.enclosure.fitted import MOST_INPUTS, as_line, boxes_allowed, may_be_enclosed
from attnforge.certification.enclosure.one_input import CLOSE, ErrorOnIntervals
from attnforge.certification.enclosure.several_inputs import CLOSE as CLOSE_BOX
from attnforge.certification.enclosure.several_inputs import error_on_box
from attnforge.certification.enclosure.terms import terms_of
from attnforge.effort import NORMAL, Effort
from attnforge.expression.evaluate import evaluate
from attnforge.network import Network, apply
from attnforge.outward import MACHINES, Machine
from attnforge.targets import Box, Formula, Target

Array = npt.NDArray[np.float64]
Look = Callable[[Array, Array], tuple[Array, Array]]

FLOAT64 = MACHINES["float64"]
SAMPLE = 6  # cells of every size
BATCH = 48  # boxes timed at once
POINTS = 2000  # at which the error is measured
SIZES = 40


@dataclass(frozen=True)
class Cost:
    """About how many cells and seconds a proof takes, and how many it takes at most."""

    cells: int
    seconds: float
    most_cells: int
    most_seconds: float


def cost(
    network: Network, target: Target, domain: Box, machine: Machine = FLOAT64, effort: Effort = NORMAL
) -> Cost | None:
    """The estimate for :func:`.fitted.prove_fitted` on this machine; None where there is nothing to enclose."""
    if not isinstance(target, Formula) or not may_be_enclosed(target):
        return None
    error = _measured(network, target, domain)
    line = as_line(network, target, domain, machine)
    if line is not None:
        on = ErrorOnIntervals(line.heads, line.tree, line.forms)

        def along(lower: Array, upper: Array) -> tuple[Array, Array]:
            cells = on.look(lower, upper, None)
            return cells.bound, cells.seen

        ends = np.array([line.lower]), np.array([line.upper])
        return _estimate(along, *ends, error, CLOSE, effort.intervals, SAMPLE)
    terms = terms_of(network, target, domain)
    if terms is not None:
        parts = [cost(term.network, term.target, term.domain, machine, effort) for term in terms]
        return _together([part for part in parts if part is not None]) if None not in parts else None
    if domain.lower.size > MOST_INPUTS:
        return None
    boxes, low, high = error_on_box(network, target.tree, target.names, domain.lower.ravel(), domain.upper.ravel())

    def inside(lower: Array, upper: Array) -> tuple[Array, Array]:
        cells = boxes.on(lower, upper)
        return cells.bound, cells.seen

    return _estimate(inside, low, high, error, CLOSE_BOX, boxes_allowed(network, effort), BATCH)


def _together(parts: list[Cost]) -> Cost:
    return Cost(
        sum(part.cells for part in parts),
        sum(part.seconds for part in parts),
        sum(part.most_cells for part in parts),
        sum(part.most_seconds for part in parts),
    )


def _measured(network: Network, target: Formula, domain: Box) -> float:
    """The largest error at random points."""
    lower, upper = domain.lower.ravel(), domain.upper.ravel()
    points = lower + (upper - lower) * np.random.default_rng(0).random((POINTS, lower.size))
    values = evaluate(target.tree, dict(zip(target.names, points.T, strict=True)))
    return float(np.nanmax(np.abs(apply(network, points[:, None])[:, 0, 0] - values), initial=0.0))


def _estimate(look: Look, low: Array, high: Array, error: float, close: float, most: int, batch: int) -> Cost:
    """From cells of every size: how many there will be, and how long one takes."""
    rng = np.random.default_rng(0)
    count, looked, size, seen = 1.0, 0.0, 0, error
    while count >= 0.5 and looked < 2 * most and size < SIZES:
        lower, upper = _some(low, high, size, SAMPLE, rng)
        bound, found = look(lower, upper)
        seen = max(seen, float(found.max()))
        open_ = float(np.mean(bound > close * seen))
        looked += count
        count *= open_ * 2.0 ** len(low)
        size += 1
    cells = int(min(looked, most))
    lower, upper = _some(low, high, size, batch, rng)
    start = time.perf_counter()
    look(lower, upper)
    each = (time.perf_counter() - start) / batch
    return Cost(cells, cells * each, most, 2 * most * each)


def _some(low: Array, high: Array, size: int, count: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Some of the cells that halving ``size`` times along every axis makes."""
    width = (high - low) * math.ldexp(1.0, -size)
    lower = low + width * np.floor(rng.random((count, len(low))) * 2.0**size)
    return lower, np.minimum(lower + width, high)

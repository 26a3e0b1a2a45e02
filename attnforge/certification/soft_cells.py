r"""A soft head over the cells of a product grid against a formula: its error by enclosure, and what rounding adds.

Scores $c\sum_a (2 u_a\kappa_a - \kappa_a^2)$ are sums over the axes, so weights are products, and models on boxes
(:mod:`.enclosure.several_inputs`) are cheap, if the keys show it: their offsets mix all axes. So the head is compared
with one that has, for every axis, a slope and an offset of its own at every rung, means over the keys there. Scores
that differ by at most d, up to a common term, move every weight by a factor in $[e^{-2d}, e^{2d}]$ and the output by at
most $e^{2d} - 1$ times the spread of the values; for heads over grids d is a few roundings.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from attnforge.certification.affine_scores import OneHead, Scores, dot
from attnforge.certification.enclosure.run import MemoryRun, evenly, rounding
from attnforge.certification.enclosure.several_inputs import supremum_box
from attnforge.certification.product_grid import Cells
from attnforge.effort import NORMAL, Effort
from attnforge.lemmas.softmax import ratio_excess
from attnforge.network import Attention, Head, Linear, Network, Term
from attnforge.outward import Balls, Machine, Up, add_up, product_up
from attnforge.parallel import Processes
from attnforge.targets import Box, Formula

Array = npt.NDArray[np.float64]

SOFT = 3.0  # sharpness up to which a head blends its cells rather than choosing among them
SHARE = {1: 1.0, 2: 1.0, 3: 0.8, 4: 0.25}  # of the boxes of a proof, by inputs: up to three quarters of a minute
MOST_KEYS = {1: 2000, 2: 4000, 3: 6000, 4: 7000}  # more are cells that so many boxes cannot tell apart


def is_soft(cells: Cells) -> bool:
    """Whether the head blends its cells."""
    return cells.sharpness <= SOFT


def is_enclosable(cells: Cells) -> bool:
    """Whether the grid is small enough for its bumps to be looked at."""
    return len(cells.place) == len(cells.own) <= MOST_KEYS.get(len(cells.grid.counts), 0)


def bound_soft_cells(
    plain: OneHead,
    scores: Scores,
    cells: Cells,
    target: Formula,
    domain: Box,
    machine: Machine,
    effort: Effort = NORMAL,
) -> dict[str, float]:
    """``fit``: the supremum of |head - formula| in exact arithmetic; ``rounding``: what the run adds."""
    network, apart = separated(scores, cells)
    boxes = math.ceil(SHARE[domain.lower.size] * effort.boxes)
    found = supremum_box(
        network,
        target.tree,
        target.names,
        domain.lower,
        domain.upper,
        cells=boxes,
        processes=Processes(effort.workers, effort.cluster),
    )
    fit = add_up(found.bound, product_up(ratio_excess(apart), scores.spread), scores.blur)
    run = _own_rounding if plain.remembers else _rounding
    return {"fit": fit, "rounding": run(plain, scores, domain, machine, 0.01 * fit)}


def separated(scores: Scores, cells: Cells) -> tuple[Network, float]:
    """A head of one factor an axis over the same cells, and how far its scores are from these."""
    inputs, rungs = len(cells.grid.counts), [n + 2 * cells.grid.ghosts for n in cells.grid.counts]
    rung = np.unravel_index(cells.place, rungs)
    slopes = np.column_stack([_means(scores.slope.mid[:, a], rung[a])[rung[a]] for a in range(inputs)])
    bends = [_means(scores.constant.mid, each) for each in rung]
    offsets = np.column_stack([(bend - bend.mean() * (a > 0))[rung[a]] for a, bend in enumerate(bends)])
    away = dot(Up.of(scores.slope - Balls.exact(slopes)), Up.of(scores.box))
    beside = Up.of(scores.constant - Balls.exact(offsets) @ Balls.exact(np.ones(inputs)))
    # scores sum_a slope_a z_a + offset_a: queries (z ; 1), the 1 once an axis
    query = np.zeros((inputs + 1, 2 * inputs))
    query[np.arange(inputs), np.arange(inputs)] = query[inputs, inputs:] = 1.0
    head = Head(query, np.eye(1), memory_keys=np.hstack([slopes, offsets]), memory_values=scores.values)
    encode = Linear((Term(np.eye(inputs, inputs + 1)),), np.eye(inputs + 1)[inputs:])
    return Network((encode, Attention((head,))), inputs, 1), float((away + beside).most().values)


def _means(numbers: Array, rung: npt.NDArray[np.int64]) -> Array:
    """The mean of the numbers on every rung; those of one value are that value."""
    lowest = np.full(rung.max() + 1, np.inf)
    np.minimum.at(lowest, rung, numbers)
    return np.asarray(lowest + np.bincount(rung, numbers - lowest[rung]) / np.bincount(rung))


def _rounding(plain: OneHead, scores: Scores, domain: Box, machine: Machine, enough: float) -> float:
    """How far the run may be from exact arithmetic: disturbed scores move the output by a part of the spread."""
    keys = scores.lever.mid
    reach = Up.of(Balls.exact(keys.max(axis=0)) - Balls.exact(keys.min(axis=0))) * 0.5
    disturbance = float(((reach * scores.error).sum() + scores.noise.most()).values)
    return add_up(product_up(ratio_excess(disturbance), scores.spread), scores.written)


def _own_rounding(plain: OneHead, scores: Scores, domain: Box, machine: Machine, enough: float) -> float:
    """The same for a head over its memory, from equal boxes of the domain, not more closely than ``enough``."""
    run = MemoryRun(plain.encode, (plain.head,), machine)
    return rounding(run, *evenly(domain.lower.ravel(), domain.upper.ravel()), enough)

r"""A product grid of cells: how far the softmax's choice of a centre is from x, on average.

Centres stand at integer steps along every axis (steps $h_j$), scores are $-c\sum_j (k_j - u_j)^2$, x anywhere within
half a step of a centre along every axis. The weights factorise over the axes. Along one axis let
$\theta \in [0, \frac12]$ be the distance to the nearest centre, in steps; the next one, if it is there, weighs
$\sigma(-c(1 - 2\theta))$ of the two, and one i steps further on either side at most $e^{-c(i^2 \mp 2i\theta)}$ of the
nearest. So
$$ X(c) = \sup_x E(|k - u| - \tfrac12)^+ \le \max_\theta\; (\tfrac12 - \theta)\,\sigma(-c(1 - 2\theta))
   + (\tfrac12 + \theta) e^{-c(1 + 2\theta)}
   + \sum_{i \ge 2} (i - \tfrac12 - \theta) e^{-c(i^2 - 2i\theta)} + (i - \tfrac12 + \theta) e^{-c(i^2 + 2i\theta)} $$
and, since $\max_j |\delta_j| \le t + \sum_j (|\delta_j| - t)^+$ with $t = \max_j h_j/2$,
$$ E \max_j |v_j - x_j| \le \max_j h_j/2 + \sum_j h_j X(c) . $$
In the hard limit X = 0: half a cell. Ghost centres beyond the edges carry odd reflections
$2f(e) - f(2e - v)$, axis by axis: a combination of values of f at points no further from x than v, whose coefficients
add up to 3 per reflected axis in absolute value, so they count threefold per reflected axis; their mass along an axis
is at most one half.
"""

from __future__ import annotations

import math
from functools import lru_cache

from flint import arb

from attnforge.lemmas.leakage import SOFTEST
from attnforge.lemmas.spacing import sigmoid
from attnforge.outward import add_up, ball, precision, product_up, supremum, upper


@lru_cache(maxsize=1024)
def cell_excess(c: float) -> float:
    """X(c), rounded up; infinity for c below 0.01.

    >>> cell_excess(40.0) < 0.004 and 0.1 < cell_excess(1.0) < 0.5
    True
    """
    if c < SOFTEST:
        return math.inf
    with precision():
        sharpness, count = ball(c), math.ceil(math.sqrt(45.0 / c)) + 2
        found = supremum(lambda theta: _excess(theta, sharpness, count), 0.0, 0.5)
        return add_up(found, _further(sharpness, count))


def expected_distance(c: float, steps: list[float], ghosts: bool = False) -> tuple[float, float]:
    """Bounds of E max_j |v_j - x_j|: the part of half a cell, and the part of further centres.

    With ``ghosts``, of the expectation weighted threefold for every axis along which the centre is a ghost.
    """
    excess, axes = cell_excess(c), len(steps)
    near = max(steps) / 2
    far = add_up(*(product_up(step, excess) for step in steps))
    if not ghosts:
        return near, far
    return near, add_up(product_up(2.0**axes - 1, near), product_up(3.0, 2.0 ** (axes - 1), far))


def _excess(theta: arb, c: arb, count: int) -> arb:
    half = arb(1) / 2
    total = (half - theta) * sigmoid(-c * (1 - 2 * theta)) + (half + theta) * (-c * (1 + 2 * theta)).exp()
    for i in range(2, count):
        total += (i - half - theta) * (-c * (i * i - 2 * i * theta)).exp()
        total += (i - half + theta) * (-c * (i * i + 2 * i * theta)).exp()
    return total


def _further(c: arb, first: int) -> float:
    """Terms i >= first: i^2 - 2 i theta >= (i - 1)^2, so at most 2 (j + 2) exp(-c j^2) with j = i - 1: geometric."""
    j = first - 1
    ratio = 2 * (-c * (2 * j + 1)).exp()
    return upper(2 * (j + 2) * (-c * j * j).exp() / (1 - ratio)) if ratio < arb(1) else math.inf

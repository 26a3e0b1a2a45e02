r"""A whole row of anchors: what the anchors beyond the bracketing pair add.

Anchors at all integers or any interval of them that holds the bracket, values non-decreasing with steps of at most
one, score $-c(y-k)^2 + \delta_k$, $|\delta_k| \le d$. Let y lie at fraction $\theta$ of its bracket, let B be the
mass on the bracket. Relative to the bracket's mass, the anchor i steps beyond the right end weighs at most
$$ \rho_i(\theta) = e^{2d}\, \frac{e^{-c(i^2 + 2i(1-\theta))}}{1 + e^{-c(2\theta-1)}} , $$
so the output minus y is $B\,[\,s(\theta) + r - l\,]$ where $s$ is the two-anchor error of :mod:`.spacing`,
$r \le \lambda(\theta) = \sum_{i\ge1} (i + 1 - \theta)\rho_i(\theta)$ comes from the right and $l \ge 0$ from the left.
Left and right pull apart, so with the mirror image
$$ |out - y| \le E(c, d) = \max_{\theta\in[0,1]} \; \sigma(c(2\theta - 1) + 2d) - \theta + \lambda(\theta) . $$
Beyond an end of the row the output differs from the end value by at most the value of the same expression at
$\theta = 0$, since every relative score falls as y moves away; hence the bound holds for the clamp and every real y.
The grid whose last anchor is one step short of the end of the interval (the papers' open grid) adds
$O(c, d) = \max_\theta \theta + \sum_i i\, e^{2d} e^{-c(i^2 + 2i\theta)}$, attained beyond that anchor.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from flint import arb

from attnforge.lemmas.spacing import spacing
from attnforge.outward import add_up, ball, precision, product_up, supremum, upper

SOFTEST = 1e-2  # below this a head spreads over more than 10 anchors a side: the bound is left at infinity
GRID = np.linspace(0.0, 1.0, 801)


@lru_cache(maxsize=4096)
def interpolation(c: float, disturbance: float = 0.0) -> float:
    """E(c, d), rounded up, within 1 % of the expression's maximum; infinity for c below 0.01.

    >>> 0.43 < interpolation(40.0) < 0.44 and interpolation(2.7) < 0.064
    True
    """
    return _supremum(_between_anchors, c, disturbance)


@lru_cache(maxsize=4096)
def open_end(c: float, disturbance: float = 0.0) -> float:
    """O(c, d), rounded up: the error on the last step of an open grid. At least one.

    >>> 1.0 <= open_end(40.0) < 1.001
    True
    """
    return _supremum(_beyond_last, c, disturbance)


def row_error(c: float, h: float, count: int, *, open_grid: bool = False, disturbance: float = 0.0) -> dict[str, float]:
    """The error of ``count`` anchors h apart: ``spacing``, h S(c, d), and ``leakage``, the rest of h E(c, d).

    No softmax, however soft, leaves the range of its values: the whole is at most the length of the interval.
    """
    pair, row, length = spacing(c, disturbance), interpolation(c, disturbance), float(count - 1)
    if open_grid:
        pair, row, length = 1.0, max(row, open_end(c, disturbance)), float(count)
    row = min(row, length)
    pair = min(pair, row)
    return {"spacing": product_up(h, pair), "leakage": product_up(h, add_up(row, -pair))}


def interpolation_estimate(c: float, disturbance: float = 0.0) -> float:
    """E(c, d) in plain floating point on a grid: for searching a good c, not for proving."""
    return float(np.max(_between_anchors(GRID, c, math.exp(min(2 * disturbance, 700.0)), 2 * disturbance, np.exp)))


@lru_cache(maxsize=4096)
def moment_beyond(c: float, power: int) -> float:
    """Upper bound of the sum over i >= 1 of (i + 1)^power exp(-c i^2), power <= 2: far anchors' part of a moment."""
    if c < SOFTEST:
        return math.inf
    with precision():
        count = _terms(c) + 1
        total = sum(((i + 1) ** power * (-ball(c) * i * i).exp() for i in range(1, count)), arb(0))
        return upper(total + _remainder(ball(c), count))


@lru_cache(maxsize=4096)
def mass_beyond(c: float, first: int) -> float:
    """Upper bound of the sum over i >= first of exp(-c i^2): mass of a Gaussian row beyond ``first`` steps."""
    if c < SOFTEST:
        return math.inf
    with precision():
        count = _terms(c)
        total = sum(((-ball(c) * i * i).exp() for i in range(first, first + count)), arb(0))
        return upper(total + _remainder(ball(c), first + count))


def _supremum(expression: Callable[..., Any], c: float, disturbance: float) -> float:
    if c < SOFTEST or disturbance > 300:
        return math.inf
    with precision():
        sharpness, shift = ball(c), 2 * ball(disturbance)
        factor = shift.exp()
        rest = factor * 2 * _remainder(sharpness, _terms(c) + 1)
        return supremum(lambda theta: expression(theta, sharpness, factor, shift, arb.exp) + rest, 0.0, 1.0)


def _between_anchors(theta: Any, c: Any, factor: Any, shift: Any, exp: Callable[[Any], Any]) -> Any:
    """sigma(c(2 theta - 1) + 2d) - theta + lambda(theta), on balls or NumPy arrays."""
    right = 1 / (1 + exp(-c * (2 * theta - 1) - shift))
    behind = 1 + exp(-c * (2 * theta - 1))
    beyond = sum((i + 1 - theta) * exp(-c * (i * i + 2 * i * (1 - theta))) for i in range(1, _terms(c) + 1))
    return right - theta + factor * beyond / behind


def _beyond_last(theta: Any, c: Any, factor: Any, _shift: Any, exp: Callable[[Any], Any]) -> Any:
    return theta + factor * sum(i * exp(-c * (i * i + 2 * i * theta)) for i in range(1, _terms(c) + 1))


def _terms(c: Any) -> int:
    """Terms of a Gaussian sum to keep: the first dropped one is below e^-45."""
    return math.ceil(math.sqrt(45.0 / float(c))) + 1


def _remainder(c: arb, first: int) -> arb:
    """Bound of the sum over i >= first of (i + 1)^2 exp(-c i^2): geometric, with ratio 4 exp(-c (2 first + 1))."""
    ratio = 4 * (-c * (2 * first + 1)).exp()
    if not ratio < arb(1):
        return arb("inf")
    return (first + 1) ** 2 * (-c * first * first).exp() / (1 - ratio)

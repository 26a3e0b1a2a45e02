r"""Softmax over a product grid whose scores are sums of bumps: how far the chosen centres lie from x.

One coordinate in units of the grid's step: centres at $g + \frac12$, g = 0..G-1, the point u in cell m,
$u = m + \theta$. The bump $\psi(t) = \mathrm{clamp}(\frac32 - |t|, 0, 1)$ is 1 on a centre's own cell and falls to 0
over the next one, so with scores $\beta\psi(u - g - \frac12)$ and the weight of cell m taken as 1
$$ w_m = 1,\quad w_{m-1} = e^{-\beta\theta},\quad w_{m+1} = e^{-\beta(1-\theta)},\quad
   w_g = e^{-\beta} \text{ elsewhere.} $$
Scores of a product grid are sums over coordinates, so its softmax is the product of these, coordinate by coordinate.

The nearest centre is at most half a step away. What the others add to the distance $\delta$ is
$$ A(\beta, G) = \max_u E_w(|\delta| - \tfrac12)^+ . $$
The centre j cells to the right exceeds one half by $j - \theta$, to the left by $j - 1 + \theta$. For a fixed $\theta$
the far sum is convex in m, hence largest at an end of its range, and cell m at $\theta$ mirrors cell G-1-m at
$1-\theta$. So two functions of $\theta$ are enough, the cell next to the last and the first cell:
$$ \frac{\theta e^{-\beta\theta} + (1-\theta)e^{-\beta(1-\theta)} + e^{-\beta}\sum_{j=2}^{G-2}(j-1+\theta)}
        {1 + e^{-\beta\theta} + e^{-\beta(1-\theta)} + (G-3)e^{-\beta}}, \qquad
   \frac{(1-\theta)e^{-\beta(1-\theta)} + e^{-\beta}\sum_{j=2}^{G-1}(j-\theta)}
        {1 + e^{-\beta(1-\theta)} + (G-2)e^{-\beta}} . $$

In several coordinates with steps $h_r$, for $t = \max_r h_r/2$,
$$ E \max_r h_r|\delta_r| \le t + \sum_r E(h_r|\delta_r| - t)^+ \le \max_r h_r/2 + \sum_r h_r A(\beta, G_r) , $$
and the error of a function with Lipschitz constant L in the sup norm is at most L times that. Scores disturbed by at
most d multiply every weight by at most $e^{2d}$ (:mod:`.softmax`), which touches the second term only: no disturbance
moves the nearest centre.

With a Lipschitz constant alone nothing better than half a step can be said, for any $\beta$: the target may be
$L|x - x_0|$. For affine targets left and right neighbours cancel; the error is then at most L times
$\max_u |E_w \delta|$, :func:`mean_offset_estimate`, which a moderate $\beta$ makes smaller.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from flint import arb

from attnforge.outward import add_up, ball, precision, product_up, supremum

Array = npt.NDArray[np.float64]
THETAS = np.linspace(0.0, 1.0, 401)


@lru_cache(maxsize=4096)
def beyond_nearest(beta: float, grid: int) -> float:
    """A(beta, G), rounded up, within 1 % of the maximum: what all but the nearest centre add, in steps.

    >>> 0.013 < beyond_nearest(20.0, 8) < 0.015 and beyond_nearest(20.0, 1) == 0.0
    True
    """
    if grid == 1:
        return 0.0
    with precision():
        sharpness = ball(beta)
        found = supremum(lambda theta: _first_cell(theta, sharpness, grid, arb.exp), 0.0, 1.0)
        if grid > 2:
            found = max(found, supremum(lambda theta: _inner_cell(theta, sharpness, grid, arb.exp), 0.0, 1.0))
    return min(found, grid - 1.0)


def product_grid(beta: float, steps: Array, grids: tuple[int, ...]) -> tuple[float, float]:
    """The two terms of E max_r h_r |delta_r|, rounded up: half the largest step, and the sum of h_r A(beta, G_r).

    Together they never exceed the largest distance there is, h_r (G_r - 1/2).

    >>> half, rest = product_grid(1e6, np.array([0.1, 0.2]), (4, 4))
    >>> half, rest < 1e-6
    (0.1, True)
    """
    pairs = list(zip(steps.tolist(), grids, strict=True))
    half = max(step for step, _ in pairs) / 2
    rest = add_up(*(product_up(step, beyond_nearest(beta, grid)) for step, grid in pairs))
    return half, min(rest, furthest(steps, grids))


def furthest(steps: Array, grids: tuple[int, ...]) -> float:
    """How much further than half the largest step a centre can be, rounded up."""
    reach = max(product_up(step, grid - 0.5) for step, grid in zip(steps.tolist(), grids, strict=True))
    return max(0.0, add_up(reach, -max(steps.tolist()) / 2))


def beyond_nearest_estimate(beta: float, grid: int) -> float:
    """A(beta, G) in plain floating point: for searching a good beta, not for proving."""
    if grid == 1:
        return 0.0
    found = float(np.max(_first_cell(THETAS, beta, grid, np.exp)))
    return found if grid == 2 else max(found, float(np.max(_inner_cell(THETAS, beta, grid, np.exp))))


def mean_offset_estimate(beta: float, grid: int, margin: float) -> float:
    """The largest |E delta| for u in [margin, G - margin]: the error, in steps, for affine targets. Not for proving.

    The first two cells hold the maximum: further inside the far centres pull less.
    """
    u = np.concatenate([THETAS, 1 + THETAS])
    u = np.unique(np.clip(u, margin, grid - margin))[:, None]
    offsets = np.arange(grid) + 0.5 - u
    weights = np.exp(beta * (np.clip(1.5 - np.abs(offsets), 0.0, 1.0) - 1.0))
    return float(np.max(np.abs((weights * offsets).sum(axis=1) / weights.sum(axis=1))))


def _inner_cell(theta: Any, beta: Any, grid: int, exp: Callable[[Any], Any]) -> Any:
    """E(|delta| - 1/2)^+ in the cell next to the last, on balls or NumPy arrays; at least three centres."""
    left, right, away = exp(-beta * theta), exp(-beta * (1 - theta)), exp(-beta)
    far = _sum_from_two(grid - 2) - (grid - 3) * (1 - theta)
    return (theta * left + (1 - theta) * right + away * far) / (1 + left + right + (grid - 3) * away)


def _first_cell(theta: Any, beta: Any, grid: int, exp: Callable[[Any], Any]) -> Any:
    """E(|delta| - 1/2)^+ in the first cell; at least two centres."""
    right, away = exp(-beta * (1 - theta)), exp(-beta)
    far = _sum_from_two(grid - 1) - (grid - 2) * theta
    return ((1 - theta) * right + away * far) / (1 + right + (grid - 2) * away)


def _sum_from_two(last: int) -> int:
    """The sum of 2..last, 0 where that is empty."""
    return max(last * (last + 1) // 2 - 1, 0)

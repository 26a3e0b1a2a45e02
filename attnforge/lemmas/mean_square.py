r"""How far from y a row of anchors looks on average, squared: what a curved function loses to its smoothing.

For weights $w_k \propto e^{-c(z-k)^2}$ and a function r with $|r''| \le B$, Taylor's formula around z leaves
$\frac12 B \sum_k w_k (z - k)^2$ beside what the mean of k does to the linear part; where $|r''|$ grows like $e^{g u}$,
the factor $e^{g|z-k|}$ belongs under the sum.
"""

from __future__ import annotations

import math
from functools import lru_cache

from flint import arb

from attnforge.outward import ball, precision, supremum


@lru_cache(maxsize=1024)
def mean_square(c: float, growth: float = 0.0) -> float:
    r"""The largest mean of $u^2 e^{g u}$, $u = |z - k|$, over weights $\propto e^{-c(z-k)^2}$ on all integers k.

    Of a row that ends, too, if the anchors left out are all so far that $u^2$ exceeds this: leaving out what lies above
    a mean lowers it.

    >>> round(mean_square(1.0), 1), round(mean_square(40.0), 2)
    (0.5, 0.25)
    """
    last = math.ceil(growth / c + math.sqrt(45.0 / c)) + 2
    with precision():
        sharp, grow = ball(c), ball(growth)
        # an anchor i > last steps beyond the bracketing pair weighs at most exp(-c i^2) of it and is within i + 1
        ratio = 4 * (grow - sharp * (2 * last + 1)).exp()
        if not ratio < arb(1):
            return math.inf
        rest = 2 * (last + 1) ** 2 * (grow * (last + 1) - sharp * last**2).exp() / (1 - ratio)

        def mean(theta: arb) -> arb:
            total, mass = arb(0), arb(0)
            for k in range(-last, last + 2):
                distance, weight = k - theta if k > 0 else theta - k, -sharp * (k * k - 2 * k * theta)
                total, mass = total + distance**2 * (grow * distance + weight).exp(), mass + weight.exp()
            return total / mass + rest

        return supremum(mean, 0.0, 1.0)

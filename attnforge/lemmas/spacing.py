r"""Two neighbouring anchors alone: how far the softmax between them is from the identity.

Let y lie at fraction $\theta \in [0, 1]$ between two anchors one step apart, with scores
$-c\theta^2 + \delta_0$ and $-c(1-\theta)^2 + \delta_1$, $|\delta_i| \le d$. The right anchor weighs
$\sigma(c(2\theta - 1) + \delta_1 - \delta_0)$, so the output is off by at most
$$ S(c, d) = \max_\theta \; \sigma(c(2\theta - 1) + 2d) - \theta . $$
The other sign gives the same number after $\theta \to 1 - \theta$. The derivative vanishes where
$\sigma(1-\sigma) = 1/(2c)$, that is $\sigma = \tfrac12(1 + \sqrt{1 - 2/c})$ for $c \ge 2$; elsewhere the maximum is at
$\theta = 0$. As $c \to \infty$, $S \to 1/2$: the papers' staircase.
"""

from __future__ import annotations

from functools import lru_cache

from flint import arb

from attnforge.outward import ball, precision, upper


@lru_cache(maxsize=4096)
def spacing(c: float, disturbance: float = 0.0) -> float:
    """S(c, d), rounded up.

    >>> round(spacing(2.0), 4), round(spacing(1e6), 3)
    (0.1192, 0.5)
    """
    with precision():
        sharpness, shift = ball(c), 2 * ball(disturbance)
        at_anchor = sigmoid(shift - sharpness)
        between = _between(sharpness, shift) if c > 2 else at_anchor
        return min(max(upper(at_anchor), upper(between)), 1.0)


def _between(c: arb, shift: arb) -> arb:
    """The value at the critical point, if it lies in [0, 1]; else at most the value at 0."""
    root = (1 - 2 / c).sqrt()
    weight = (1 + root) / 2
    theta = (1 + ((1 + root) / (1 - root)).log() / c - shift / c) / 2
    return weight - theta if theta >= 0 else sigmoid(shift - c)


def sigmoid(x: arb) -> arb:
    """The logistic function of a ball, 1 / (1 + exp(-x)), without overflow."""
    return 1 / (1 + (-x).exp()) if x > 0 else x.exp() / (1 + x.exp())

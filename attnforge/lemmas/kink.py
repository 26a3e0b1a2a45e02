r"""A softmax between two lines: how far it is from their maximum or minimum.

Two keys whose scores differ by $\beta z + \delta$, $|\delta| \le d$, and whose values differ by z: the loser's weight
is $\sigma(-\beta z + \delta)$ for $z \ge 0$, and it pulls the output by at most
$$ \max_{z \ge 0} z\,\sigma(-\beta z + d) \le (W(1/e) + d)/\beta, \qquad W(1/e) = 0.2784\ldots $$
because $z\,\sigma(-\beta(z - d/\beta)) \le (z - d/\beta)^+\sigma(-\beta(z - d/\beta)) + d/\beta$, and $x\,\sigma(-x)$
is largest where $x = 1 + e^{-x}$, with value $x - 1 = W(1/e)$ (Lambert's W).
"""

from __future__ import annotations

from flint import arb

from attnforge.outward import ball, precision, upper


def kink(sharpness: float, disturbance: float = 0.0) -> float:
    """(W(1/e) + d) / beta, rounded up.

    >>> round(kink(1.0), 4)
    0.2785
    """
    with precision():
        return upper((arb(-1).exp().lambertw() + ball(disturbance)) / ball(sharpness))


def far_key(sharpness: float, gap: float, disturbance: float = 0.0) -> float:
    """A bound, gap exp(2d - beta gap), of what a key whose score lies beta gap lower pulls, its value gap away."""
    with precision():
        return upper(ball(gap) * (2 * ball(disturbance) - ball(sharpness) * ball(gap)).exp())

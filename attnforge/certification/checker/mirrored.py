r"""Heads over numbers and their mirror images, next to the linear map that they are at small sharpness.

A head of sharpness $\beta$ over $\pm\rho_i$, $|\rho_i| \le R$, writes $\beta g(\beta)$ times a gain,
$g(\beta) = \sum \frac{\sinh\beta\rho_i}{\beta} x_i / \sum\cosh\beta\rho_i$, even in $\beta$. Let the root of the mean
square of $\rho$ be at most $\kappa R$. On $|\beta| = \theta/R$ the mean of $|\sinh(\beta\rho)/\beta|$ is at most
$R(\kappa + \kappa^2(\sinh\theta/\theta - 1))$, and that of cosh is at least $1 - \kappa^2(\cosh\theta - 1)$ in
modulus, and at least $\cos\theta$ for $\theta < \pi/2$. With R S their quotient, coefficients of g are at most
$R S (R/\theta)^{2j}$ times the largest $|x_i|$ (Cauchy), and heads of gains c depart from $\sum c\,g(0)$ by at most
$$ R S \sum_{j \ge 1} \Big|\sum_h c_h \beta_h^{2j}\Big| (R/\theta)^{2j} . $$
"""

from __future__ import annotations

from collections.abc import Sequence

from flint import arb

from attnforge.outward import upper

CIRCLES = [*(i / 20 for i in range(10, 31)), *(2.0 ** (i / 4) for i in range(3, 15))]  # theta: one of them best
ORDERS = 40  # terms of the series that are added one by one
STEEPEST = 300.0  # exponents above are not told apart


class Mirrored:
    """Heads (sharpness, gain) that write in the same direction."""

    def __init__(self, heads: Sequence[tuple[arb, arb]]) -> None:
        self.heads = heads
        self.moments = [abs(sum((c * beta ** (2 * j) for beta, c in heads), arb(0))) for j in range(1, ORDERS)]

    def departure(self, reach: arb, kappa: arb) -> arb:
        """Of all heads together from their gain times the linear map, in units of R times the largest x."""
        found = [sum((abs(c) * bend(abs(beta) * reach) for beta, c in self.heads), arb(0))]
        for theta in map(arb, CIRCLES):
            below = (1 - kappa**2 * (theta.cosh() - 1)).max(theta.cos() if theta < 1.5 else arb(0))
            ratios = [(beta * reach / theta) ** 2 for beta, _ in self.heads]
            if below > 0 and all(ratio < arb(0.9) for ratio in ratios):
                square, series = (reach / theta) ** 2, arb(0)
                for moment in reversed(self.moments):
                    series = (series + moment) * square
                for (_, c), ratio in zip(self.heads, ratios, strict=True):
                    series += abs(c) * ratio**ORDERS / (1 - ratio)
                found.append((kappa + kappa**2 * (theta.sinh() / theta - 1)) / below * series)
        return arb(min(map(upper, found)))


def bend(z: arb) -> arb:
    """Of one head: (sinh z / z - 1) + (sinh z / z)(1 - 1 / cosh z), or infinity."""
    if not z > 0 or upper(z) > STEEPEST:
        return arb(0) if z == 0 else arb("inf")
    ratio = z.sinh() / z
    return ratio - 1 + ratio * (1 - 1 / z.cosh())

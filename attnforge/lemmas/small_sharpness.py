r"""A barely sharp softmax over keys and their mirror images: how far its slope is from a mean of products.

Keys $\pm\rho_i$ with values $\pm x_i$ and the query $\beta$ give
$\mathrm{out} = \sum \sinh(\beta\rho_i)x_i / \sum\cosh(\beta\rho_i)$.
Let $|\rho_i| \le R$, $|x_i| \le B$ in any norm, $z = \beta R$. Then $\sinh(\beta\rho)/\beta$ is within
$R(\sinh z/z - 1)$ of $\rho$ and the mean of cosh lies between 1 and $\cosh z$, so that
$$ \Big|\frac{\mathrm{out}}{\beta} - \frac1n\sum\rho_i x_i\Big|
   \le B R\,\Big[\Big(\frac{\sinh z}{z} - 1\Big) + \frac{\sinh z}{z}\Big(1 - \frac1{\cosh z}\Big)\Big]
   \approx \tfrac23 B R z^2 . $$

**Extrapolated.** $g(\beta) = \mathrm{out}/\beta$ is even and analytic where the mean of cosh has no zero. On
$|\beta| = \theta/R$ that mean is at least $2 - \cosh\theta$ in modulus, so $|g| \le B R S$,
$S = (\sinh\theta/\theta)/(2 - \cosh\theta)$, and by Cauchy its coefficients are at most $B R S (R/\theta)^{2j}$. In
$\frac43 g(\beta) - \frac13 g(2\beta)$ the coefficient of $\beta^{2j}$ is multiplied by $(4 - 4^j)/3$, which is zero for
j = 1. With $t = (z/\theta)^2 < 1/4$
$$ |\mathrm{error}| \le B R S \sum_{j \ge 2} \frac{4^j - 4}{3} t^j
   = \frac{BRS}{3}\Big[\frac{16 t^2}{1 - 4t} - \frac{4 t^2}{1 - t}\Big] . $$

**One pair.** Keys $\pm s$ with values $\pm1$: $\tanh(\beta s)/\beta$ is within $\beta^2|s|^3/3$ of s.
"""

from __future__ import annotations

import math

from attnforge.balls import up

THETA = 1.0
STRETCH = math.sinh(THETA) / THETA / (2.0 - math.cosh(THETA))
SLACK = 1 + 2.0**-30  # of the evaluation in float64


def aggregation_error(z: float) -> float:
    """The error of one head, in units of B R.

    >>> 0.66 < aggregation_error(1e-3) / 1e-6 < 0.67
    True
    """
    if not z > 0:
        return 0.0
    if z > 300:
        return math.inf
    ratio = z * z / 6 * math.cosh(z)  # sinh z / z - 1 <= z^2 cosh(z) / 6
    return up((ratio + (1 + ratio) * z * z / 2) * SLACK)  # 1 - 1 / cosh z <= z^2 / 2


def extrapolated_error(z: float) -> float:
    """The error of two heads at z and 2 z, extrapolated, in units of B R.

    >>> extrapolated_error(1e-3) < 1.1e-11
    True
    """
    t = (z / THETA) ** 2
    if not t < 0.2:
        return math.inf
    return up(STRETCH * (16 * t * t / (1 - 4 * t) - 4 * t * t / (1 - t)) / 3 * SLACK)


def pair_error(beta: float, reach: float) -> float:
    """The error of tanh(beta s) / beta for |s| up to ``reach``."""
    return up(beta * beta * reach**3 / 3 * SLACK)

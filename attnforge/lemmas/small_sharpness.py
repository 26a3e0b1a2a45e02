r"""A barely sharp softmax over keys and their mirror images: how far its slope is from a mean of products.

Keys $\pm\rho_i$ with values $\pm x_i$ and the query $\beta$ give
$\mathrm{out} = \sum \sinh(\beta\rho_i)x_i / \sum\cosh(\beta\rho_i)$.
Let $|\rho_i| \le R$, $|x_i| \le B$ in any norm, $z = \beta R$. Then $\sinh(\beta\rho)/\beta$ is within
$R(\sinh z/z - 1)$ of $\rho$ and the mean of cosh lies between 1 and $\cosh z$, so that
$$ \Big|\frac{\mathrm{out}}{\beta} - \frac1n\sum\rho_i x_i\Big|
   \le B R\,\Big[\Big(\frac{\sinh z}{z} - 1\Big) + \frac{\sinh z}{z}\Big(1 - \frac1{\cosh z}\Big)\Big]
   \approx \tfrac23 B R z^2 . $$

**Any heads.** $g(\beta) = \mathrm{out}/\beta$ is even and analytic where the mean of cosh has no zero. Let the mean of
$\rho_i^2$ be at most $(\kappa R)^2$, $\kappa \le 1$. Then the means of $|\rho|^k$ are at most $\kappa^2 R^k$ for
$k \ge 2$, so that on $|\beta| = \theta/R$ the mean of cosh is at least $1 - \kappa^2(\cosh\theta - 1)$ in modulus and
$|g| \le B R S$, $S = (\kappa + \kappa^2(\sinh\theta/\theta - 1))/(1 - \kappa^2(\cosh\theta - 1))$, for any $\theta$
that leaves the denominator positive. By Cauchy the coefficients of g are at most $B R S (R/\theta)^{2j}$, and
$\sum_h c_h g(\beta_h)$ is within
$$ B R S \sum_{j \ge 1} \Big|\sum_h c_h \beta_h^{2j}\Big| (R/\theta)^{2j} $$
of $\sum_h c_h\, g(0)$: extrapolation, $\frac43 g(\beta) - \frac13 g(2\beta)$, shows in the numbers, it need not be
assumed.

**Nothing known of the mean square.** For $\kappa = 1$ all of this, and the bound of one head, holds with the mean of
$|\rho_i||x_i|$ in place of $B R$: $|\sinh(\beta\rho_i)/\beta| \le |\rho_i|\sinh\theta/\theta$. For $\theta < \pi/2$ the
mean of cosh is then at least $\cos\theta \ge 2 - \cosh\theta$ in modulus, as
$\mathrm{Re}\cosh(a + ib) = \cosh a\cos b$: $S = \sinh\theta/(\theta\cos\theta)$.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from attnforge.outward import up

ORDERS = 40  # terms of the series that are added up one by one
CIRCLES = tuple(2.0 ** (i / 4) for i in range(-2, 15))  # theta from 0.7 to 11
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


def combined_error(heads: Sequence[tuple[float, float]], reach: float, mean: float | None = None) -> float:
    """The error of heads (beta, c) that add c out / beta, in units of B, for residuals up to ``reach``.

    ``mean`` bounds the square root of their mean square, where more is known of it.

    >>> alone, both = combined_error([(1e-3, 1.0)], 1.0), combined_error([(1e-3, 4 / 3), (2e-3, -1 / 3)], 1.0)
    >>> 6e-7 < alone < 7e-7, both < 1.1e-11, combined_error([(1e-3, 4 / 3), (2e-3, -1 / 3)], 10.0, 1.0) < 1e-8
    (True, True, True)
    """
    if not reach > 0:
        return 0.0
    single = sum(abs(c) * aggregation_error(abs(beta) * reach) for beta, c in heads)
    stretch = _widest if mean is None else partial(_stretch, min(mean / reach, 1.0))
    found = [stretch(theta) * _series(heads, reach / theta) for theta in CIRCLES]
    return up(reach * min(single, *found) * SLACK)


def _stretch(kappa: float, theta: float) -> float:
    """The S of the docstring above, or infinity."""
    room = 1.0 - kappa**2 * (math.cosh(theta) - 1.0) * SLACK
    return (kappa + kappa**2 * (math.sinh(theta) / theta - 1.0)) / room if room > 0 else math.inf


def _widest(theta: float) -> float:
    """The S where nothing is known of the mean square, or infinity."""
    return math.sinh(theta) / theta / math.cos(theta) if theta < 1.5 else math.inf


def _series(heads: Sequence[tuple[float, float]], ratio: float) -> float:
    """The sum over j >= 1 of |sum of c beta^2j| ratio^2j."""
    t = [(beta * ratio) * (beta * ratio) for beta, _ in heads]
    if not max(t) < 0.9:
        return math.inf
    terms = [abs(sum(c * each**j for (_, c), each in zip(heads, t, strict=True))) for j in range(1, ORDERS)]
    tail = sum(abs(c) * each**ORDERS / (1 - each) for (_, c), each in zip(heads, t, strict=True))
    return sum(terms) + tail + 2.0**-50 * sum(abs(c) * each for (_, c), each in zip(heads, t, strict=True))

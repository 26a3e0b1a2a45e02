r"""1/y on [2, 4] as a sum of exponentials with positive weights, one of them constant: a Gauss-Radau rule.

Let $y = 2(1 + t/\alpha)$, so that t runs through $[0, \alpha]$. Then
$$ \frac1y = \frac\alpha2\,\frac1{t+\alpha} = \frac\alpha2 \int_0^1 x^t\, x^{\alpha-1}\,dx
   \approx \frac\alpha2\, Q(t), \quad Q(t) = \sum_{i<k} g_i x_i^t , $$
where $1 = x_0, x_1, \dots, x_{k-1}$ and g are the Gauss-Radau rule of the weight $x^{\alpha-1}$ with a node at 1: the
inner nodes are the zeros of the Jacobi polynomial $p = {}_2F_1(1-k, k+\alpha; \alpha; x)$, orthogonal for
$(1-x)x^{\alpha-1}$ (monic below). They lie in (0, 1), all weights are positive, and the rule is exact for
$t = 0, \dots, 2k-2$.

**Error.** Let n = 2k - 1 and f(x) = x^t. Interpolating f once at 1 and twice at each inner node leaves
$f - H = f[1, x_1, x_1, \dots, x](x-1)p(x)^2$, and H is integrated exactly. Divided differences are means over a simplex
of $f^{(n)}/n! = \binom tn \xi^{t-n}$ (Hermite and Genocchi), with mixtures $\xi$ of the nodes and x, in (0, 1). So
$$ Q(t) - \frac1{t+\alpha} = \int_0^1 f[1, x_1, x_1, \dots, x](1-x)p(x)^2 x^{\alpha-1}dx = \binom tn L(t), \quad
   L(t) = \int \xi^{t-n}\,d\mu(\xi), $$
with a positive measure $\mu$ that does not depend on t. L is positive, decreasing and log-convex: on [j, j + 1] it lies
below $L(j)^{j+1-t}L(j+1)^{t-j}$, and beyond n below L(n). At whole t the numbers L follow from the rule, since
$\binom tn$ vanishes simply at t = 0, ..., n - 1 and is 1 at n. The relative error of the rule is $(t+\alpha)\binom tn
L(t)$: of alternating sign, largest next to t = 0 or at $t = \alpha$. A larger $\alpha$ lowers the first and raises the
second; :func:`reciprocal_rule` takes the one at which they are equal, between 2k - 2 and 2k. With each node the error
falls by a factor above 50.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from flint import acb_poly, arb, arb_mat

from attnforge.errors import RefusalError
from attnforge.outward import lower, precision, supremum, upper

BITS = 320  # 16 digits of errors of 1e-17 remain after the cancellations of ten nodes, with many to spare
FEWEST, MOST = 2, 10  # nodes; with ten the error lies below the roundoff of float64
SAMPLES = 32  # points of the first lobe at which its peak is looked for: within 1% of it
GRID = 1024  # alpha is a multiple of 1/GRID, so that the search may end anywhere near and the rule is the same


@dataclass(frozen=True, eq=False)
class ReciprocalRule:
    """The rule: nodes x with x[0] = 1, weights g, and alpha. Balls of :data:`BITS` bits."""

    alpha: float
    nodes: tuple[arb, ...]
    weights: tuple[arb, ...]

    def excess(self, t: arb) -> arb:
        """Q(t) - 1/(t + alpha)."""
        return sum((g * x**t for x, g in zip(self.nodes, self.weights, strict=True)), -1 / (t + self.alpha))

    def relative(self, t: arb) -> arb:
        """The relative error of the rule."""
        return (t + self.alpha) * self.excess(t)


@lru_cache(maxsize=16)
def reciprocal_rule(nodes: int) -> ReciprocalRule:
    """The rule of that many nodes with the smallest error.

    >>> [round(float(x), 3) for x in reciprocal_rule(3).nodes]
    [1.0, 0.816, 0.461]
    """
    if not FEWEST <= nodes <= MOST:
        requirement = f"A reciprocal has {FEWEST} to {MOST} nodes (with {MOST} its error is below float64's roundoff)"
        raise RefusalError(requirement, str(nodes), "Choose a number between them")
    from scipy.optimize import minimize_scalar

    with precision(BITS):
        found = minimize_scalar(
            lambda alpha: _peak(radau(nodes, alpha)), bounds=(2 * nodes - 2, 2 * nodes), method="bounded",
            options={"xatol": 0.1 / GRID},
        )  # fmt: skip
        return radau(nodes, round(found.x * GRID) / GRID)


@lru_cache(maxsize=16)
def reciprocal_error(nodes: int) -> float:
    """A proved bound of the relative error of :func:`reciprocal_rule` on [2, 4], in exact arithmetic.

    >>> [f"{reciprocal_error(nodes):.1e}" for nodes in (5, 7, 9)]
    ['2.0e-08', '6.8e-12', '2.4e-15']
    """
    rule, n = reciprocal_rule(nodes), 2 * nodes - 1
    with precision(BITS):
        scales = [*(_derivative(rule, j) / _binomial(arb(j), n, without=j) for j in range(n)), rule.excess(arb(n))]
    with precision():  # nothing cancels from here on
        return supremum(lambda t: (t + rule.alpha) * abs(_binomial(t, n)) * _scale(scales, t), 0.0, rule.alpha)


def _scale(scales: Sequence[arb], t: arb) -> arb:
    """A bound of L: log-convex between whole numbers, decreasing across them and beyond the last."""
    j = min(max(math.floor(lower(t)), 0), len(scales) - 1)
    if j + 1 < len(scales) and upper(t) <= j + 1:
        return scales[j] ** (j + 1 - t) * scales[j + 1] ** (t - j)
    return scales[j]


def _derivative(rule: ReciprocalRule, j: int) -> arb:
    """Of Q(t) - 1/(t + alpha), at t = j."""
    terms = [g * x.log() * x**j for x, g in zip(rule.nodes, rule.weights, strict=True)]
    return sum(terms, 1 / (j + arb(rule.alpha)) ** 2)


def _binomial(t: arb, n: int, without: int | None = None) -> arb:
    """The binomial t (t - 1) .. (t - n + 1) / n!; without the factor t - j it is its derivative at j."""
    return math.prod((t - i for i in range(n) if i != without), start=1 / arb(math.factorial(n)))


def _peak(rule: ReciprocalRule) -> float:
    """The larger of the error's first peak and its value at the end."""
    first = [arb(i) / SAMPLES for i in range(1, SAMPLES)]
    return max(float(abs(rule.relative(t))) for t in [*first, arb(rule.alpha)])


def radau(nodes: int, alpha: float) -> ReciprocalRule:
    """The Gauss-Radau rule of the weight x^(alpha - 1) on [0, 1], with a node at 1."""
    n, a = nodes - 1, arb(alpha)
    coefficients = [arb(1)]
    for j in range(n):
        coefficients.append(coefficients[-1] * (j - n) * (a + (n + 1 + j)) / ((a + j) * (j + 1)))
    inner = sorted((root.real for root in acb_poly(coefficients).roots(tol=2.0 ** (64 - BITS))), key=lambda x: -x.mid())
    x = (arb(1), *inner)
    powers = arb_mat(nodes, nodes, [each**j for j in range(nodes) for each in x])
    moments = arb_mat(nodes, 1, [1 / (a + j) for j in range(nodes)])
    return ReciprocalRule(alpha, x, tuple(powers.solve(moments).entries()))

r"""Inverse heat values reproduce polynomials: the exact error of an infinite row, and what its ends cost.

Anchors at the integers (lengths are in units of the spacing h), weights $w_k(z) \propto e^{-c(z-k)^2}$, variance
$s^2 = 1/(2c)$. For a polynomial p let $v = e^{-(s^2/2)\,\partial^2} p$, its inverse heat polynomial, so that
$p(z) = \sqrt{c/\pi}\int v(t)\, e^{-c(t-z)^2} dt$ for every complex z. With $q = e^{-\pi^2/c}$:

**Identity.** An infinite row with values $v(k)$ outputs p, averaged over points shifted into the complex plane:
$$ \sum_k w_k(z)\, v(k) = \frac{1}{\theta(z)} \sum_{j\in\mathbb Z} q^{j^2} e^{2\pi i j z}\, p(z + i\pi j/c), \qquad
   \theta(z) = \sum_{j\in\mathbb Z} q^{j^2} e^{2\pi i j z} . $$
Proof: Poisson turns $\sum_k v(k) e^{-c(k-z)^2}$ into $\sum_j \int v(t) e^{-c(t-z)^2 + 2\pi i j t} dt$, and
$-c(t-z)^2 + 2\pi i j t = -c(t-z-i\pi j/c)^2 + 2\pi i j z - \pi^2 j^2/c$. What is left is the integral for p at the
shifted point. The denominator is the case p = v = 1, and $\sqrt{\pi/c}$ cancels.

**Saturation.** Expand p at z: with $a_l = p^{(l)}(z)/l!$ (that is $h^l |f^{(l)}(x)|/l!$ for f of x = h z),
$$ \Big|\sum_k w_k v(k) - p(z)\Big| \le \sum_{l \ge 1} |a_l|\, S_l(c), \qquad
   S_l(c) = \frac{2 (\pi/c)^l}{\theta(1/2)} \sum_{j\ge1} j^l q^{j^2} , $$
since by Jacobi's triple product $\theta(z) = \prod_n (1-q^{2n})(1 + 2q^{2n-1}\cos 2\pi z + q^{4n-2})$ is smallest at
1/2, where Poisson's other side gives $\theta(1/2) = \sqrt{c/\pi} \sum_k e^{-c(k+1/2)^2} > 0$. To leading order
$S_1 = (2\pi/c)\, e^{-\pi^2/c}$.

**Truncation.** Keep the anchors that reach $g \ge 0$ steps (not necessarily a whole number) beyond both ends of the
domain: the dropped ones are g+1, g+2, ... steps beyond. With $H_l = e^{-(s^2/2)\partial^2} t^l$, v(k) equals
$\sum_l a_l H_l(k-z)$. Let A be the mass kept, E the output of the infinite row. Then the finite row outputs
$E + \frac1A \sum_{\text{dropped}} e^{-c(k-z)^2} (E - v(k))$, so it differs from the infinite one by at most
$\sum_{l\ge1} |a_l|\, T_l$,
$$ T_l = \frac{1}{A} \sum_{\text{dropped}} e^{-c u_k^2}\,\big(\bar H_l(u_k) + S_l\big), \quad u_k = |k - z|, \quad
   \bar H_l(u) = \sum_{i\le l/2} \frac{l!}{i!\,(l-2i)!} \Big(\frac{1}{4c}\Big)^i u^{l-2i} \ge |H_l(\pm u)| . $$
Every term falls with u once $2c u^2 \ge l$, so for $2c(g+1)^2 \ge l$ the nearer side counts as if z were its end and
the farther side as if z were the middle of the domain; the same estimate of the dropped mass, taken from
$\sqrt{\pi/c}\,\theta(1/2)$, bounds A from below.

Saturation after Maz'ya and Schmidt, Approximate Approximations (2007); the constants are ours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from flint import arb

from attnforge.outward import add_up, ball, precision, product_up, upper

SOFTEST, HARDEST = 1e-2, 100.0  # outside, the bounds are left at infinity: too many terms, or nothing to say
NEGLIGIBLE = 60.0  # series stop at terms e^-60 below the first; the rest is bounded by a geometric series


@lru_cache(maxsize=4096)
def saturation(c: float, degree: int) -> float:
    r"""$S_l(c)$ for l = ``degree``, rounded up: the error of the infinite row on $(t - z)^l$ at t = z, in steps.

    >>> 3.2e-4 < saturation(1.0, 1) < 3.3e-4 and 3.3e-8 < saturation(0.5, 1) < 3.4e-8
    True
    >>> saturation(1.0, 0)
    0.0
    """
    if degree == 0:
        return 0.0
    if not SOFTEST <= c <= HARDEST:
        return math.inf
    with precision():
        return upper(_saturation(ball(c), degree))


@lru_cache(maxsize=4096)
def truncation(c: float, ghosts: float, degree: int, count: int) -> float:
    r"""$T_l$ for l = ``degree``, rounded up: what dropping all but ``count`` anchors adds to the infinite row's error.

    The row reaches ``ghosts`` steps beyond each end of the domain. Infinity if it is too short for the estimate.

    >>> truncation(0.5, 6.0, 1, 21) < 1e-9 < truncation(0.5, 4.0, 1, 21)
    True
    """
    if degree == 0:
        return 0.0
    if not (SOFTEST <= c <= HARDEST and 0 <= ghosts <= (count - 1) / 2):
        return math.inf
    with precision():
        sharpness, first, middle = ball(c), ball(ghosts) + 1, arb(count + 1) / 2
        if not 2 * sharpness * first**2 >= degree:
            return math.inf
        growth = _absolute_hermite(sharpness, degree)
        growth[0] += _saturation(sharpness, degree)
        dropped, mass = (
            _beyond(sharpness, first, each) + _beyond(sharpness, middle, each) for each in (growth, [arb(1)])
        )
        kept = (arb.pi() / sharpness).sqrt() * _least_theta(sharpness) - mass
        return upper(dropped / kept) if kept > 0 else math.inf


def reproduction(c: float, ghosts: float, count: int, taylor: Sequence[float]) -> dict[str, float]:
    r"""Bounds, by name, of the error of a finite row with inverse heat values, in exact arithmetic.

    ``taylor[l]`` bounds $h^l |f^{(l)}(x)|/l!$ on the domain. The row has ``count`` anchors and reaches ``ghosts`` steps
    beyond both ends of the domain.

    >>> bound = reproduction(0.25, 11.0, 29, [1.0, 1.0, 1.0])
    >>> sorted(bound), sum(bound.values()) < 1e-13
    (['saturation', 'truncation'], True)
    """
    sizes = list(enumerate(taylor))
    return {
        "saturation": add_up(*(product_up(size, saturation(c, degree)) for degree, size in sizes)),
        "truncation": add_up(*(product_up(size, truncation(c, ghosts, degree, count)) for degree, size in sizes)),
    }


def _saturation(c: arb, degree: int) -> arb:
    q = (-(arb.pi() ** 2) / c).exp()
    last = math.ceil(math.sqrt((NEGLIGIBLE + 4 * degree) * float(c)) / math.pi) + 1
    total = sum((arb(j) ** degree * q ** (j * j) for j in range(1, last)), arb(0))
    ratio = (1 + 1 / arb(last)) ** degree * q ** (2 * last + 1)
    rest = _geometric(arb(last) ** degree * q ** (last * last), ratio)
    return 2 * (arb.pi() / c) ** degree * (total + rest) / _least_theta(c)


def _least_theta(c: arb) -> arb:
    """theta(1/2) from below: finitely many of its positive terms."""
    count = math.ceil(math.sqrt(NEGLIGIBLE / float(c))) + 1
    return 2 * (c / arb.pi()).sqrt() * sum(((-c * (k + arb(0.5)) ** 2).exp() for k in range(count)), arb(0))


def _absolute_hermite(c: arb, degree: int) -> list[arb]:
    """The coefficients of H-bar, lowest power first."""
    coefficients = [arb(0)] * (degree + 1)
    for i in range(degree // 2 + 1):
        ways = math.factorial(degree) // (math.factorial(i) * math.factorial(degree - 2 * i))
        coefficients[degree - 2 * i] = ways / (4 * c) ** i
    return coefficients


def _beyond(c: arb, first: arb, coefficients: Sequence[arb]) -> arb:
    """The sum over u = first, first + 1, ... of exp(-c u^2) times a polynomial with non-negative coefficients."""
    count = math.ceil(math.sqrt(float(first) ** 2 + NEGLIGIBLE / float(c)) - float(first)) + 1
    total = sum((_term(c, first + i, coefficients) for i in range(count)), arb(0))
    last = first + count
    ratio = (1 + 1 / last) ** (len(coefficients) - 1) * (-c * (2 * last + 1)).exp()
    return total + _geometric(_term(c, last, coefficients), ratio)


def _term(c: arb, u: arb, coefficients: Sequence[arb]) -> arb:
    value = arb(0)
    for coefficient in reversed(coefficients):
        value = value * u + coefficient
    return value * (-c * u * u).exp()


def _geometric(first: arb, ratio: arb) -> arb:
    """Bound of a series whose ratios are at most ``ratio``."""
    return first / (1 - ratio) if ratio < 1 else arb("inf")

r"""Binomial anchors: a row whose softmax weights are Bernstein polynomials, so that rows of every length are nested.

A row of $l + 1$ anchors with scores $s_k(t) = k t + \ln\binom{l}{k}$ has the softmax weights
$$ w_k = \frac{\binom{l}{k} e^{k t}}{(1 + e^t)^l} = \binom{l}{k} \sigma^k (1 - \sigma)^{l - k}, \qquad
   \sigma = \frac{1}{1 + e^{-t}} : $$
Bernstein's basis of the polynomials of degree l in $\sigma$. The outputs of a row are exactly these polynomials, those
of shorter rows are among those of longer ones, and constants among all. Uniform rows have neither property.

With $t = \alpha\,\hat x$, $\hat x \in [-1, 1]$ the place in the interval and $\alpha$ the *steepness*,
$z = \tanh(t/2) / \tanh(\alpha/2)$ runs through [-1, 1] and is affine in $\sigma$: rows output polynomials in z. A small
steepness makes z nearly $\hat x$, at the price of values that are large and cancel. Exactly: the map from z to $\hat x$
has its singularities at $z = \pm 1/\tanh(\alpha/2)$, so polynomials in z converge to entire functions of x at the rate
$\rho^{-l}$, and the outer values of the row that outputs Chebyshev's polynomial are $(\rho^l + \rho^{-l})/2$, with the
same
$$ \tfrac12 (\rho + \rho^{-1}) = 1/\tanh(\alpha/2) . $$
The rounding of values is what limits $\rho$.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attnforge.anchors.axis import Axis

Array = npt.NDArray[np.float64]

DEGREE = 8  # total degree at which the rounding of values may be of the size of the tolerance
LEAST, MOST = 2.5, 7.0  # rates: below, convergence is slow; above, it hardly gains, and values are large


@dataclass(frozen=True)
class Binomial:
    """Rows of binomial anchors of one steepness."""

    steepness: float

    @classmethod
    def of_rate(cls, rate: float) -> Binomial:
        r"""The row with $\rho$ = ``rate``.

        >>> round(Binomial.of_rate(8.0).steepness, 3)
        0.503
        """
        return cls(2 * math.atanh(2 / (rate + 1 / rate)))

    @classmethod
    def for_tolerance(cls, tol: float, roundoff: float) -> Binomial:
        r"""The largest rate at which $\rho^8$ roundoffs are within the tolerance.

        >>> round(Binomial.for_tolerance(1e-3, 2.0**-24).steepness, 2)
        1.22
        """
        return cls.of_rate(min(max((tol / roundoff) ** (1 / DEGREE), LEAST), MOST))

    def to_z(self, place: Array) -> Array:
        """From places in [-1, 1] to z."""
        return np.asarray(np.tanh(self.steepness / 2 * place) / math.tanh(self.steepness / 2))

    def to_place(self, z: Array) -> Array:
        """The inverse of :meth:`to_z`; the ends stay the ends.

        >>> Binomial(1.0).to_place(np.array([-1.0, 0.0, 1.0])).tolist()
        [-1.0, 0.0, 1.0]
        """
        inner = np.arctanh(np.clip(z, -1, 1) * math.tanh(self.steepness / 2)) / (self.steepness / 2)
        return np.where(np.abs(z) >= 1, np.sign(z), np.clip(inner, -1, 1))

    def axis(self, lower: float, upper: float, degree: int) -> Axis:
        r"""The row of ``degree`` + 1 anchors on an interval.

        Anchor k is said to sit where its weight does: at the mean of t under the density $w_k\,d\sigma$, which is
        $H_k - H_{l-k}$ with the harmonic numbers H.

        >>> Binomial(1.0).axis(-1.0, 1.0, 2).weights(np.array([0.0])).round(12).tolist()
        [[0.25, 0.5, 0.25]]
        """
        harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1.0, degree + 1))])
        middle, half = lower / 2 + upper / 2, upper / 2 - lower / 2
        counts = np.array([math.lgamma(k + 1) + math.lgamma(degree - k + 1) for k in range(degree + 1)])
        return Axis(
            positions=middle + half * (harmonic - harmonic[::-1]) / self.steepness,
            keys=np.arange(degree + 1.0) - degree / 2,
            offsets=counts - counts.min(),
            linear=self.steepness,
            square=1.0,
            origin=middle,
            scale=1 / half if half else 0.0,
            lower=lower,
            upper=upper,
            sharpness=2 / max(degree, 1),
        )

    def values(self, degree: int, points: Array) -> Array:
        r"""Values (degree + 1, degree + 1) of the row whose output is Newton's polynomial $N_m$, in column m.

        A factor $z - z_j$ is linear in $\sigma$, with the values $\mp 1/\tanh(\alpha/2) - z_j$ at $\sigma = 0, 1$; in
        the basis $\sigma^k (1-\sigma)^{l-k}$ products are convolutions, and raising the degree is multiplication by
        $\sigma + (1 - \sigma)$.

        >>> Binomial(2 * math.atanh(0.5)).values(1, np.array([0.0, 1.0])).round(12).tolist()
        [[1.0, -2.0], [1.0, 2.0]]
        """
        reach = 1 / math.tanh(self.steepness / 2)
        found = np.empty((degree + 1, degree + 1))
        for m in range(degree + 1):
            scaled = np.ones(1)
            for j in range(m):
                scaled = np.convolve(
                    scaled, np.array([-reach - points[j], reach - points[j]]) / (points[m] - points[j])
                )
            for _ in range(degree - m):
                scaled = np.convolve(scaled, np.ones(2))
            found[:, m] = scaled / [math.comb(degree, k) for k in range(degree + 1)]
        return found

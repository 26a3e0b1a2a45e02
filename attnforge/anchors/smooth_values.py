r"""Values of many anchors, fitted as a polynomial: what a head of more anchors than f has coefficients needs.

**Statement.** A uniform row of any spacing h and sharpness c maps the values $q(c_k)$ of a polynomial q of degree n to
a polynomial of degree n with the same leading coefficient, up to saturation $e^{-\pi^2/c}$ and the ghosts that are
missing (:mod:`attnforge.lemmas.saturation`). So the map is a bijection of the polynomials of degree n, and where f is
one to its tolerance, values of that kind reproduce it as well as any.

Least squares then has the n + 1 coefficients of q for unknowns instead of the p values, and its time and memory do not
grow with the cube of the anchors but with their number. Polynomials are written in Chebyshev's, on all anchors, ghosts
included, so that values beyond the domain are no larger than their coefficients.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numpy.polynomial.chebyshev import chebvander

from attnforge.anchors.axis import Axis
from attnforge.anchors.fitting import Samples
from attnforge.anchors.reproducible import Decomposition, product
from attnforge.effort import check_time

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SmoothFit:
    """As :class:`attnforge.anchors.fitting.Fit`: from M nodes to coefficients, and from these to p anchors.

    ``polynomials`` (p, m) are those at the anchors, ``factors`` those of the head's outputs for them.
    """

    axis: Axis
    residual: float
    condition: float
    rank: int
    basis: Array
    factors: Decomposition
    polynomials: Array

    def values(self, at_nodes: Array) -> Array:
        """Values (p, ...) of the anchors from values (M, ...) of f at the nodes."""
        projected = product(self.factors.projected(self.basis), at_nodes.reshape(len(at_nodes), -1))
        coefficients = self.factors.values(self.factors.solved(projected), self.rank)
        return product(self.polynomials, coefficients).reshape(-1, *at_nodes.shape[1:])


def smooth_fits(samples: Samples, axis: Axis, cuts: Array) -> Iterator[SmoothFit]:
    """One fit a cut, by polynomials of as many coefficients as there are nodes.

    >>> from attnforge.anchors.panels import Panels
    >>> panels, at = Panels.whole(-1.0, 1.0, 20), np.linspace(-1, 1, 101)
    >>> basis = panels.interpolation(at)
    >>> samples = Samples(at, at, basis, basis, np.sin(3 * panels.nodes)[:, None])
    >>> fit, = smooth_fits(samples, Axis.uniform(-1.0, 1.0, 1000, 11, 0.25), np.array([1e-14]))
    >>> fit.residual < 1e-13, fit.values(samples.columns).shape
    (True, (1000, 1))
    """
    check_time("fitting values")
    first, last = axis.positions[0], axis.positions[-1]
    polynomials = chebvander((2 * axis.positions - (first + last)) / (last - first), samples.basis.shape[1] - 1)
    factors = Decomposition.of(product(axis.weights(samples.fit_at), polynomials))
    check, s = product(axis.weights(samples.check_at), polynomials), factors.sizes
    solved = factors.solved(factors.projected(samples.wanted))
    for cut in cuts:
        rank = int((s >= cut * s[0]).sum())
        residual = float(np.abs(product(check, factors.values(solved, rank)) - samples.wanted_at_checks).max())
        yield SmoothFit(axis, residual, float(s[0] / s[rank - 1]), rank, samples.basis, factors, polynomials)

r"""Values fitted instead of sampled: the head's output as close to f as its span allows.

The outputs of a head with given keys form the linear space $\{W v\}$, W the softmax weights. Sampled values
$v_k = f(c_k)$ use little of it; least squares $\min_v |W v - f|$ over many points is spectrally accurate for smooth f
until saturation (approximate approximations, Maz'ya and Schmidt). W is ill-conditioned, since ghosts hardly act on the
domain: singular values below ``cut`` times the largest are dropped, which keeps the values tame. Coarse
cuts are preferred.

Rounding of W v is proportional to the values, and rounding of W turns the spaces that singular values belong to, by
about u times the condition. Where one of the two is not far below the residual, by :data:`NOISY`, another order of
additions would change it, and with it what is chosen: there the fit is made once more, in arithmetic that is the same
on every processor (:mod:`attnforge.anchors.reproducible`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from attnforge.anchors.axis import Axis
from attnforge.anchors.reproducible import Decomposition, product
from attnforge.effort import check_time

Array = npt.NDArray[np.float64]

FASTEST = 2.5e-11  # seconds an operation of a decomposition takes, at least
TINY = float(np.finfo(np.float64).tiny)  # a singular value may be zero; no cut keeps it
NOISY = 2.0**-39  # 2^14 roundoffs: residuals that are no further above rounding are known to less than four digits
ILL = 2.0**20  # the condition from which values have at most 33 bits in common; QLP and singular values agree there
HELPS = 0.9  # times the residual of a coarser cut: a finer one that leaves more of it is of no use
FINEST_CUT = 4e-16  # below the rounding of the weights, singular values are noise


@dataclass(frozen=True, eq=False)
class Samples:
    """Points where fits are made and points where they are checked, and what is wanted there.

    ``basis`` (S, M) and ``check_basis`` map the values of f at M nodes to its values at these points; ``columns``
    (M, q) are the functions to be fitted, given at the nodes.
    """

    fit_at: Array
    check_at: Array
    basis: Array
    check_basis: Array
    columns: Array

    def fits(self, axis: Axis, cuts: Array) -> list[Fit]:
        """One least-squares fit a cut, unless a coarser one drops as many singular values."""
        rows, anchors = len(self.fit_at), len(axis)
        check_time("fitting values", FASTEST * anchors**2 * (4 * rows + 8 * anchors))
        weights = axis.weights(self.fit_at)
        fits = _useful(self._by(Spectrum.of(weights), axis, weights, cuts))
        if not any(fit.is_noisy for fit in fits):
            return fits
        return _useful(self._by(Decomposition.of(weights), axis, weights, cuts))

    def _by(self, factors: Factors, axis: Axis, weights: Array, cuts: Array) -> list[Fit]:
        """The fits by a decomposition of the weights."""
        check_time("fitting values")
        s = factors.sizes
        ranks = dict(sorted({int((s >= cut * s[0]).sum()): float(cut) for cut in cuts[::-1]}.items()))
        solved = factors.solved(factors.projected(self.wanted))
        values = np.stack([factors.values(solved, rank) for rank in ranks], axis=1).reshape(len(s), -1)
        found = factors.multiplied(axis.weights(self.check_at), values)
        missed = np.abs(found.reshape(len(found), len(ranks), -1) - self.wanted_at_checks[:, None])
        residuals = missed.max(axis=(0, 2)).tolist()
        sums = factors.multiplied(weights, np.abs(values)).reshape(len(weights), len(ranks), -1)
        sizes = sums.max(axis=(0, 2)).tolist()
        return [
            Fit(self, axis, residual, cut, float(s[0] / s[rank - 1]), size, rank)
            for residual, size, (rank, cut) in zip(residuals, sizes, ranks.items(), strict=True)
        ]

    @cached_property
    def wanted(self) -> Array:
        """The columns at the points of the fit."""
        return product(self.basis, self.columns)

    @cached_property
    def wanted_at_checks(self) -> Array:
        """The columns at the points where it is checked."""
        return product(self.check_basis, self.columns)


@dataclass(frozen=True, eq=False)
class Spectrum:
    """The singular value decomposition of W, read as :class:`.reproducible.Decomposition` is."""

    u: Array
    sizes: Array
    vt: Array

    @classmethod
    def of(cls, w: Array) -> Spectrum:
        """By LAPACK."""
        return cls(*np.linalg.svd(w, full_matrices=False))

    def multiplied(self, a: Array, b: Array) -> Array:
        """The matrix product."""
        return np.asarray(a @ b)

    def projected(self, wanted: Array) -> Array:
        """Coordinates (p, q) of right-hand sides (n, q)."""
        return np.asarray(self.u.T @ wanted)

    def solved(self, projected: Array) -> Array:
        """Coordinates (p, q) of solutions."""
        return projected / np.maximum(self.sizes, TINY)[:, None]

    def values(self, solved: Array, rank: int) -> Array:
        """The solution (p, q) of that rank."""
        return np.asarray(self.vt[:rank].T @ solved[:rank])


Factors = Spectrum | Decomposition


@dataclass(frozen=True, eq=False)
class Fit:
    """Fitted anchors: the largest ``residual`` at the check points, and how well posed it was.

    ``condition`` is the ratio of the largest to the smallest singular value kept: a relative error of the samples grows
    by at most that much in the values, and not at all in the output. ``size`` is the largest sum of weights times
    absolute values: rounding in a run is about that much times the roundoff. ``rank`` counts the singular values
    kept.
    """

    samples: Samples
    axis: Axis
    residual: float
    cut: float
    condition: float
    size: float
    rank: int

    @property
    def is_noisy(self) -> bool:
        """Whether another order of additions would change the residual by more than a part in 10^4."""
        return self.residual < NOISY * self.size or NOISY * self.condition > 1

    def values(self, at_nodes: Array) -> Array:
        """Values (p, ...) of the anchors from values (M, ...) of f at the nodes.

        In two steps: rounding of the projection is then divided by the small singular values and multiplied by them
        again in the output, whereas a matrix from nodes to anchors would carry rounding of the size of its entries.
        """
        factors = (Decomposition if self.condition > ILL else Spectrum).of(self.axis.weights(self.samples.fit_at))
        flat = at_nodes.reshape(len(at_nodes), -1)
        projected = factors.multiplied(factors.projected(self.samples.basis), flat)
        return factors.values(factors.solved(projected), self.rank).reshape(-1, *at_nodes.shape[1:])


def _useful(fits: Sequence[Fit]) -> list[Fit]:
    """From coarse cuts to fine ones, those that leave clearly less than all before."""
    useful = list[Fit]()
    for fit in fits:
        if not useful or fit.residual < HELPS * useful[-1].residual:
            useful.append(fit)
    return useful


def cuts_between(coarsest: float, finest: float) -> Array:
    """Cuts from coarse to fine, by factors of about 30.

    >>> cuts_between(1e-3, 1e-6).tolist()
    [0.001, 3.1622776601683795e-05, 1e-06]
    """
    return np.geomspace(coarsest, finest, 1 + max(1, round(np.log(coarsest / finest) / np.log(30))))

r"""Values fitted instead of sampled: the head's output as close to f as its span allows.

The outputs of a head with given keys form the linear space $\{W v\}$, W the softmax weights. Sampled values
$v_k = f(c_k)$ use little of it; least squares $\min_v |W v - f|$ over many points is spectrally accurate for smooth f
until saturation (approximate approximations, Maz'ya and Schmidt). W is ill-conditioned, since ghosts hardly act on the
domain: singular values below ``cut`` times the largest are dropped, which keeps the values tame. Coarse
cuts are preferred.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from attnforge.anchors.axis import Axis
from attnforge.effort import check_time

Array = npt.NDArray[np.float64]

FASTEST = 2.5e-11  # seconds an operation of a decomposition takes, at least
TINY = float(np.finfo(np.float64).tiny)  # a singular value may be zero; no cut keeps it
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
        u, s, vt = np.linalg.svd(weights, full_matrices=False)
        check_time("fitting values")
        ranks = dict(sorted({int((s >= cut * s[0]).sum()): float(cut) for cut in cuts[::-1]}.items()))
        inner = (u.T @ self.wanted) / np.maximum(s, TINY)[:, None]
        values = np.stack([vt[:rank].T @ inner[:rank] for rank in ranks], axis=1)
        found = axis.weights(self.check_at) @ values.reshape(len(vt), -1)
        missed = np.abs(found.reshape(len(found), len(ranks), -1) - self.wanted_at_checks[:, None])
        residuals = missed.max(axis=(0, 2)).tolist()
        sizes = (weights @ np.abs(values.reshape(len(vt), -1))).reshape(len(weights), len(ranks), -1).max(axis=(0, 2))
        return [
            Fit(self, axis, residual, cut, float(s[0] / s[rank - 1]), size)
            for residual, size, (rank, cut) in zip(residuals, sizes.tolist(), ranks.items(), strict=True)
        ]

    @cached_property
    def wanted(self) -> Array:
        """The columns at the points of the fit."""
        return self.basis @ self.columns

    @cached_property
    def wanted_at_checks(self) -> Array:
        """The columns at the points where it is checked."""
        return self.check_basis @ self.columns


@dataclass(frozen=True, eq=False)
class Fit:
    """Fitted anchors: the largest ``residual`` at the check points, and how well posed it was.

    ``condition`` is the ratio of the largest to the smallest singular value kept: a relative error of the samples grows
    by at most that much in the values, and not at all in the output. ``size`` is the largest sum of weights times
    absolute values: rounding in a run is about that much times the roundoff.
    """

    samples: Samples
    axis: Axis
    residual: float
    cut: float
    condition: float
    size: float

    def values(self, at_nodes: Array) -> Array:
        """Values (p, ...) of the anchors from values (M, ...) of f at the nodes.

        In two steps: rounding of the projection is then divided by the small singular values and multiplied by them
        again in the output, whereas a matrix from nodes to anchors would carry rounding of the size of its entries.
        """
        u, s, vt = np.linalg.svd(self.axis.weights(self.samples.fit_at), full_matrices=False)
        rank = int((s >= self.cut * s[0]).sum())
        projected = np.tensordot(u[:, :rank].T @ self.samples.basis, at_nodes, axes=1)
        return np.tensordot(vt[:rank].T / s[:rank], projected, axes=1)


def cuts_between(coarsest: float, finest: float) -> Array:
    """Cuts from coarse to fine, by factors of about 30.

    >>> cuts_between(1e-3, 1e-6).tolist()
    [0.001, 3.1622776601683795e-05, 1e-06]
    """
    return np.geomspace(coarsest, finest, 1 + max(1, round(np.log(coarsest / finest) / np.log(30))))

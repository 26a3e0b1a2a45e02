"""A bound for weights that were trained after they were constructed, by dividing cells along the target's linear form.

The theorem's own proof reads a head as a row of anchors and charges every departure from it at its worst; weights that
training has moved a little are soon beyond it. Here output and target are enclosed on cells instead.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from attnforge.errors import CertificateError
from attnforge.experiments.constructed_vs_trained.along_form import AlongForm
from attnforge.network import Network
from attnforge.targets import TruncatedLinear

Array = npt.NDArray[np.float64]

CLOSE = 1.02  # cells are divided until the bound is within this factor of the error at a middle of one
WORST = 0.8  # of the largest bound of a cell: from there on, cells are divided


def bound_along_form(network: Network, target: TruncatedLinear, *, cells: int = 200_000) -> float:
    """A bound of |network - target| on the target's domain, for a linear map and one head over constant keys.

    Every token is looked at on its own; see ``along_form`` for why it holds. The worst cells are divided until the
    bound is hardly above the error in the middle of one, or there are ``cells`` of them: more cells, a smaller bound.
    """
    problem = AlongForm.of(network, target)
    if not (np.all(np.isfinite(problem.magnitude)) and np.all(np.isfinite(problem.values))):
        raise CertificateError("Weights must be finite", "NaN or infinity", "Train with smaller steps")
    pool = problem.first_cells()
    upper, seen, along = problem.enclose(pool)
    largest = float(seen.max())
    while len(pool) < cells and upper.max() > CLOSE * largest:
        worst = upper >= max(CLOSE * largest, WORST * float(upper.max()))
        parts = _divided(pool[worst], along[worst])
        found, seen, axes = problem.enclose(parts)
        largest = max(largest, float(seen.max()))
        pool, upper = np.concatenate([pool[~worst], parts]), np.concatenate([upper[~worst], found])
        along = np.concatenate([along[~worst], axes])
    return float(upper.max())


def _divided(cells: Array, along: Array) -> Array:
    """Every cell in two, along y (from column 1 on) or the remainder (from column 3 on)."""
    rows = np.arange(len(cells))
    middle = (cells[rows, along] + cells[rows, along + 1]) / 2
    left, right = cells.copy(), cells.copy()
    left[rows, along + 1], right[rows, along] = middle, middle
    return np.concatenate([left, right])

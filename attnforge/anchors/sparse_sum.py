"""A sum of Newton terms on a box that grows towards f, watched at fresh points."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from attnforge.anchors.binomial import Binomial
from attnforge.anchors.fresh_points import fresh
from attnforge.anchors.leja import leja, newton
from attnforge.anchors.surplus import DEGREES, Flags, Surpluses, evaluate

Array = npt.NDArray[np.float64]

FRESH = 1000  # points at which the sum is watched
PORTIONS = 50  # in which blocks are taken, until they suffice


class SparseSum:
    """The terms, the largest ``error`` of their sum at fresh points, and ``best``: the least, and with how many blocks.

    Args:
        f: maps (N, D) points of the box to (N, k) values.
        lower, upper: (D,) ends of the box.
        rows: their z is the variable of Newton's polynomials.
    """

    def __init__(self, f: Callable[[Array], Array], lower: Array, upper: Array, rows: Binomial, seed: int) -> None:
        self.lower, self.upper, self.rows = lower, upper, rows
        middle, half = lower / 2 + upper / 2, upper / 2 - lower / 2

        def on_cube(z: Array) -> Array:
            return f(np.clip(middle + half * rows.to_place(z), lower, upper))

        points = fresh(lower, upper, FRESH, seed)
        places = (points - middle) / np.where(half > 0, half, 1.0)
        self._wanted = f(points)
        self._basis = np.stack([newton(leja(DEGREES), rows.to_z(column)).T for column in places.T])
        self.terms = Surpluses(on_cube, half > 0)
        self._found = evaluate(self.terms.levels, self.terms.surpluses, self._basis)
        self.error = float(np.abs(self._found - self._wanted).max())
        self.best = (self.error, 1)

    def grow(self, most: int) -> bool:
        """More terms, where they promise most; False if ``most`` of them leave no room, or all degrees were tried."""
        start = len(self.terms)
        grown = self.terms.grow(most)
        self._found += evaluate(self.terms.levels[start:], self.terms.surpluses[start:], self._basis)
        self.error = float(np.abs(self._found - self._wanted).max())
        self.best = min(self.best, (self.error, len(self.terms.blocks)))
        return grown

    def needed(self, goal: float) -> tuple[Flags, float]:
        """The blocks (B,) of the largest surpluses, so many that the error is below the goal; and that error."""
        total, keep = np.zeros_like(self._found), np.zeros(len(self.terms.blocks), dtype=bool)
        error = float("inf")
        for part in np.array_split(np.argsort(-self.terms.sizes, kind="stable"), PORTIONS):
            keep[part] = True
            members = np.isin(self.terms.owner, part)
            total += evaluate(self.terms.levels[members], self.terms.surpluses[members], self._basis)
            error = float(np.abs(total - self._wanted).max())
            if error <= goal:
                break
        return keep, error

r"""The fewest anchors along one axis that reach a tolerance.

Uniform anchors are searched over their number p with a few sharpnesses and ghosts around the closed formulas of
:mod:`attnforge.anchors.saturation`; graded ones over the density of the mesh with a few rates of growth. Every trial is
an honest fit, checked between its samples. What is searched is only how many and how sharp: nothing is trained.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from attnforge.anchors.axis import Axis
from attnforge.anchors.edges import Edge
from attnforge.anchors.fitting import Fit, Samples, cuts_between
from attnforge.anchors.mesh import Spacing
from attnforge.anchors.panels import Panels
from attnforge.anchors.saturation import ghosts_for, sharpness_for
from attnforge.anchors.smooth_values import SmoothFit, smooth_fits
from attnforge.effort import in_force
from attnforge.errors import RefusalError

Array = npt.NDArray[np.float64]

MOST = 1024  # anchors along one axis
SHARPNESSES = (1.0, 0.7, 1.4, 2.0, 0.5, 3.0)  # times the closed formula
GHOSTS = (1.0, 0.7, 0.5, 0.3, 0.85, 0.6, 0.4, 0.15, 0.0)  # times the closed formula
FEW, MANY = 40, 160  # anchors: all these are tried, the first few, or only the closed formulas, to stay within seconds
GROWTHS = (0.4, 0.3, 0.5)
TEMPERATURES = (0.18, 0.25, 0.36)  # c of graded anchors
APART = 8.0  # gaps between neighbouring numbers that anchors must be apart, to stand where they should
SCALES = np.geomspace(8.0, 1 / 8, 97)  # of the mesh, coarse to fine


class AxisSearch:
    """Fits of the columns (M, q), given at the nodes of the panels, by anchors along the axis.

    ``finest`` is the finest cut tried: coarser ones keep the values tamer and need more anchors. ``most`` limits the
    anchors, beyond MOST as well: a fit costs the cube of them.
    """

    def __init__(
        self, panels: Panels, edges: Sequence[Edge], columns: Array, tol: float, finest: float, most: int = MOST
    ) -> None:
        self.panels, self.edges, self.columns, self.most = (
            panels,
            tuple(edges),
            columns,
            min(most, MOST, in_force().anchors),
        )
        self.tol = tol
        size = float(np.abs(columns).max())
        self.relative = min(0.5, tol / size) if size else 0.5
        self._cuts = cuts_between(min(1e-2, max(0.1 * self.relative, 30 * finest)), finest)
        self._uniform: dict[int, list[Fit]] = {}
        self._least, self._noisy = math.inf, False

    def smallest(self, tol: float) -> Fit:
        """The fit with the fewest anchors whose residual is at most tol."""
        found = [fit for fit in (self._smallest_uniform(tol), self._smallest_graded(tol)) if fit is not None]
        if not found:
            requirement = f"One axis must reach {tol:.2g} with at most {self.most:,} anchors"
            got = f"{self._least:.2g}" if math.isfinite(self._least) else "no mesh of so few"
            raise RefusalError(requirement, got, "Raise tol")
        return min(found, key=lambda fit: len(fit.axis))

    def uniform(self, count: int, tol: float = 0.0) -> Fit:
        """The fit by ``count`` uniform anchors in all: the tamest within tol, else the one of least residual."""
        if count not in self._uniform:
            samples = self._samples(count)
            self._uniform[count] = [fit for axis in self._uniform_axes(count) for fit in samples.fits(axis, self._cuts)]
        return self._noted(_tamest(self._uniform[count], tol))

    def inside(self, count: int) -> Fit | SmoothFit:
        """The best fit found with ``count`` anchors on the domain, ghosts on top."""
        if not self.is_graded and self.panels.degrees[0] < count:
            samples = self._samples(1)
            found = (fit for axis in self._axes_inside(count) for fit in smooth_fits(samples, axis, self._cuts))
            return min(found, key=lambda fit: fit.residual)
        samples, every = self._samples(2 * count if count <= MANY else count), 1 if count <= MANY else 6
        axes = itertools.islice(self._axes_inside(count), 0, None, every)
        fits = [fit for axis in axes for fit in samples.fits(axis, self._cuts)]
        for growth, c in itertools.islice(itertools.product(GROWTHS, TEMPERATURES), 0, None, every):
            fits += self._mesh_inside(count, growth, c) if self.is_graded else []
        return min(fits, key=lambda fit: fit.residual)

    @property
    def is_graded(self) -> bool:
        """Whether one polynomial does not resolve the axis."""
        return len(self.panels.degrees) > 1

    def _smallest_uniform(self, tol: float) -> Fit | None:
        """Doubling until it fits, then bisection: more anchors are nearly always better."""
        low, high = 0, max(1, self.panels.degrees[0] // 2)
        if self.edges or (self.is_graded and sum(self.panels.degrees) > MANY):
            return None
        while self.uniform(high, tol).residual > tol:
            low, high = high, math.ceil(high * (1.6 if high < MANY else 1.25))
            if high > self.most or (self.is_graded and high > MANY):
                return None
        while high - low > max(1, high // MANY):
            middle = (low + high) // 2
            low, high = (low, middle) if self.uniform(middle, tol).residual <= tol else (middle, high)
        return self.uniform(high, tol)

    def _smallest_graded(self, tol: float) -> Fit | None:
        """The coarsest mesh that fits, by bisection over its scale, for each rate of growth and temperature."""
        if not self.is_graded:
            return None
        found: list[Fit] = []
        for growth in GROWTHS:
            for c in TEMPERATURES:
                most = min(len(fit.axis) for fit in found) if found else self.most
                found += self._coarsest(growth, c, tol, most)
                if not found and self._noisy:
                    return None
        return min(found, key=lambda fit: len(fit.axis)) if found else None

    def _coarsest(self, growth: float, c: float, tol: float, most: int) -> list[Fit]:
        low, high, coarser = 0, len(SCALES), math.inf
        best: list[Fit] = []
        while low < high:
            middle = (low + high) // 2
            fit = self._graded(float(SCALES[middle]), growth, c, tol, most)
            if fit is None or fit.residual <= tol:
                high = middle
                best = [fit] if fit is not None else best
            elif fit.residual > 2 * coarser:  # a finer mesh is worse: what is left is rounding of the scores
                self._noisy = True
                return best
            else:
                low, coarser = middle + 1, fit.residual
        return best

    def _graded(self, scale: float, growth: float, c: float, tol: float, most: int) -> Fit | None:
        """A fit on the mesh of that scale; None if it has too many anchors to be of interest, or float64 to hold."""
        ghosts = math.ceil(0.5 * ghosts_for(self.relative, c))
        positions = self._spacing.anchors(scale, growth, ghosts)
        if len(positions) >= most or np.any(np.diff(positions) < APART * np.spacing(np.abs(positions).max())):
            return None
        axis = Axis.graded(positions, *self._ends, c, self._spacing.finest)
        return self._noted(_tamest(self._samples_between(positions).fits(axis, self._cuts), tol))

    def _noted(self, fit: Fit) -> Fit:
        """The fit; its residual is remembered if it is the least so far, to be told where nothing reaches tol."""
        self._least = min(self._least, fit.residual)
        return fit

    def _axes_inside(self, count: int) -> Iterator[Axis]:
        """Uniform anchors from end to end, sharp and ghosts by the closed formulas for tolerances of all sizes."""
        for tol in np.geomspace(1e-2, 1e-14, 13).tolist():
            for c in (sharpness_for(tol), 0.7 * sharpness_for(tol)):
                ghosts = ghosts_for(tol, c)
                yield Axis.uniform(*self._ends, count + 2 * ghosts, ghosts, c)

    def _mesh_inside(self, count: int, growth: float, c: float) -> list[Fit]:
        """The fits on the coarsest mesh of a scale that has ``count`` anchors on the domain; none if none has."""
        for scale in SCALES.tolist():
            if len(self._spacing.anchors(scale, growth, 0)) == count:
                fit = self._graded(scale, growth, c, 0.0, self.most)
                return [] if fit is None else [fit]
        return []

    def _uniform_axes(self, count: int) -> Iterator[Axis]:
        lower, upper = self._ends
        sharpness, most = sharpness_for(self.relative), max(0, count - 2) / 2
        tried = (6, 9) if count < FEW else (3, 4) if count < MANY else (2, 1)
        for factor in SHARPNESSES[: tried[0]]:
            reach = ghosts_for(self.relative, factor * sharpness)
            for ghosts in sorted({min(round(2 * part * reach) / 2, most) for part in GHOSTS[: tried[1]]}):
                yield Axis.uniform(lower, upper, count, ghosts, factor * sharpness)

    @property
    def _ends(self) -> tuple[float, float]:
        return float(self.panels.edges[0]), float(self.panels.edges[-1])

    @cached_property
    def _spacing(self) -> Spacing:
        return Spacing.wanted(self.panels, self.edges, self.tol, self.columns)

    def _samples(self, count: int) -> Samples:
        """Points in every panel, at least three an anchor; checks between them."""
        per_degree = max(3.0, 3.0 * count / sum(self.panels.degrees))
        return self._at(self.panels.samples(per_degree), self.panels.samples(2.3 * per_degree))

    def _samples_between(self, positions: Array) -> Samples:
        """Points between neighbouring anchors and within panels: six a gap to fit, more to check."""
        lower, upper = self._ends
        ends = np.unique(np.clip(np.concatenate([positions, self.panels.edges]), lower, upper))
        return self._at(_between(ends, 6), _between(ends, 17))

    def _at(self, fit_at: Array, check_at: Array) -> Samples:
        at_samples, at_checks = (self.panels.interpolation(x) for x in (fit_at, check_at))
        return Samples(fit_at, check_at, at_samples, at_checks, self.columns)


def _tamest(fits: Sequence[Fit], tol: float) -> Fit:
    """The best conditioned fit within tol; where there is none, the one of least residual."""
    good = [fit for fit in fits if fit.residual <= tol]
    return min(good, key=lambda fit: fit.condition) if good else min(fits, key=lambda fit: fit.residual)


def _between(ends: Array, count: int) -> Array:
    """Chebyshev points between neighbouring ends, and the ends."""
    inner = 0.5 - 0.5 * np.cos(np.pi * (np.arange(count) + 0.5) / count)
    return np.unique(np.concatenate([(ends[:-1, None] + np.diff(ends)[:, None] * inner).ravel(), ends]))

r"""Two families of rows of anchors, each of any number of anchors and with two more parameters: its places.

Uniform rows differ by their sharpness and how far their ghosts reach; graded ones, whose gaps follow what f needs
locally, by their temperature and how fast gaps grow. A place is a pair of whole numbers, steps from the middle of what
is sensible; rows of neighbouring places, and of p and p + 1 anchors, are much alike.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from attnforge.anchors.axis import Axis
from attnforge.anchors.fitting import Samples
from attnforge.anchors.mesh import Spacing, degree_within
from attnforge.anchors.panels import Panels
from attnforge.anchors.reproducible import cosines
from attnforge.anchors.saturation import ghosts_for, sharpness_for
from attnforge.effort import check_time

Array = npt.NDArray[np.float64]
Place = tuple[int, int]

SOFTEST = 6  # half octaves of sharpness on either side of the closed formula
GROWTH, TEMPERATURE = 0.5, 0.18  # of graded anchors, in the middle
FASTEST, COLDEST = 4, 2  # quarter octaves of growth, half octaves of temperature, on either side
SCALES = np.geomspace(32.0, 1 / 8, 17)  # of graded meshes, coarse to fine
FEW, SHARP = 20, 1  # anchors that have a second valley: half an octave above the formula
APART = 8.0  # gaps between neighbouring numbers that anchors must be apart, to stand where they should
PART = 0.75  # of the degree of a polynomial: about as many uniform anchors will do
SAMPLED, CHECKED = 2.0, 2.3  # samples a degree or an anchor, and points of a check a sample
BESIDE = 2.0**-44  # of the domain: more than the rounding of an anchor's place, and no distance
BETWEEN, BETWEEN_CHECKED = 4, 11  # samples and points of a check between graded anchors


class Rows(ABC):
    """Rows for the columns (M, q), given at the nodes of the panels; ``relative`` is the tolerance against their size.

    ``first`` is the number of anchors to begin with, ``start`` the place, ``steps`` lead to neighbouring places. A
    residual of ``far`` times what is wanted will not be brought there by other places. The number of anchors is found
    to one, or to the ``resolution``-th part of it; where it does not help ``patience`` times, what is left is rounding.
    """

    first: int
    fewest = 1
    start: Place
    steps: tuple[Place, ...]
    far, resolution, patience = 1e3, 160, 2

    def __init__(self, panels: Panels, columns: Array, relative: float) -> None:
        self.panels, self.columns, self.relative = panels, columns, relative
        self.size = float(np.abs(columns).max())
        self.ends = float(panels.edges[0]), float(panels.edges[-1])

    @abstractmethod
    def axis(self, count: int, place: Place) -> Axis | None:
        """The row of so many anchors, ghosts counted; None where there is none."""

    def moved(self, place: Place, count: int, to: int) -> Place:
        """The place that does for another number of anchors what this one does for ``count``."""
        return place

    def starts(self, count: int) -> list[Place]:
        """Places in other valleys."""
        return []

    @abstractmethod
    def inside(self, count: int) -> Iterator[Axis]:
        """Rows of so many anchors on the domain, ghosts on top, for tolerances of all sizes."""

    @abstractmethod
    def samples(self, axis: Axis) -> Samples:
        """Where to fit and to check."""

    def _at(self, fit_at: Array, check_at: Array) -> Samples:
        check_time("sampling rows")
        at_samples, at_checks = (self.panels.interpolation(x) for x in (fit_at, check_at))
        return Samples(fit_at, check_at, at_samples, at_checks, self.columns)


class UniformRows(Rows):
    r"""Places count half octaves of sharpness from the closed formula, and half ghosts.

    The closed formulas put $\ln(1/tol)/\pi$ ghosts beyond an end; fitted values do with half of them. A polynomial of
    degree n has n + 1 coefficients; rows, which follow poles beside the domain better, do with fewer anchors.
    """

    steps = ((-1, 0), (0, 2), (-1, 2), (1, 0), (0, -2), (1, -2), (0, 1), (0, -1))

    def __init__(self, panels: Panels, columns: Array, relative: float, tol: float) -> None:
        super().__init__(panels, columns, relative)
        reach, degree = (
            math.log(1 / relative) / math.pi,
            sum(degree_within(c, tol) for c in panels.coefficients(columns)),
        )
        self.first, self.start = math.ceil(max(PART * degree, 2 + reach)) if degree else 1, (-1, round(reach))
        self._sharpness, self._by_density = sharpness_for(relative), dict[int, Samples]()

    def axis(self, count: int, place: Place) -> Axis | None:
        """Equal gaps."""
        if abs(place[0]) > SOFTEST or not 0 <= place[1] <= max(0, count - 2):
            return None
        return Axis.uniform(*self.ends, count, place[1] / 2, self._sharpness * 2 ** (place[0] / 2))

    def moved(self, place: Place, count: int, to: int) -> Place:
        """As large a part of them ghosts."""
        return place[0], min(round(place[1] * to / count), max(0, to - 2))

    def starts(self, count: int) -> list[Place]:
        """The first one; of few, sharp ones of which nearly all are ghosts."""
        first = self.start[0], min(self.start[1], max(0, count - 2))
        return [first, (SHARP, count - 2)] if 2 <= count < FEW else [first]

    def inside(self, count: int) -> Iterator[Axis]:
        """From end to end, sharp and ghosts by the closed formulas."""
        for tol in np.geomspace(1e-2, 1e-14, 13).tolist():
            for c in (sharpness_for(tol), 0.7 * sharpness_for(tol)):
                ghosts = ghosts_for(tol, c)
                yield Axis.uniform(*self.ends, count + 2 * ghosts, ghosts, c)

    def samples(self, axis: Axis) -> Samples:
        """Points in every panel."""
        return self.sampled(len(axis))

    def sampled(self, anchors: int) -> Samples:
        """Points in every panel, at least three an anchor: the same for numbers of anchors within a quarter."""
        octaves = max(0, math.ceil(3 * math.log2(anchors / sum(self.panels.degrees))))
        if octaves not in self._by_density:
            dense = SAMPLED * 2 ** (octaves / 3)
            self._by_density[octaves] = self._at(self.panels.samples(dense), self.panels.samples(CHECKED * dense))
        return self._by_density[octaves]


class GradedRows(Rows):
    """Places count half octaves of temperature and quarter octaves of growth; the mesh is as fine as so many allow."""

    start, steps = (0, 0), ((-1, 0), (1, 0), (0, 1), (0, -1))
    far, resolution, patience = 10.0, 50, 1

    def __init__(self, panels: Panels, columns: Array, relative: float, spacing: Spacing) -> None:
        super().__init__(panels, columns, relative)
        self.spacing, self._counts = spacing, dict[float, Array]()
        beyond = 1 + 2 * self._ghosts(TEMPERATURE)
        self.fewest, self.first = beyond + 2, beyond + max(2, math.ceil(spacing.count(1.0, GROWTH)))

    def axis(self, count: int, place: Place) -> Axis | None:
        """Gaps that grow away from kinks; None where float64 cannot hold them."""
        if abs(place[0]) > COLDEST or abs(place[1]) > FASTEST:
            return None
        c, growth = _temperature(place[0]), GROWTH * 2 ** (place[1] / 4)
        gaps, counts = count - 1 - 2 * self._ghosts(c), self._counted(growth)
        if gaps < 2:
            return None
        scale = math.exp(np.interp(math.log(gaps), np.log(counts), np.log(SCALES)))
        positions = self.spacing.anchors(scale, growth, self._ghosts(c), gaps)
        if np.any(np.diff(positions) < APART * np.spacing(np.abs(positions).max())):
            return None
        return Axis.graded(positions, *self.ends, c, self.spacing.finest)

    def inside(self, count: int) -> Iterator[Axis]:
        """Around the middle of temperatures and growths."""
        for i, j in itertools.product((-1, 0, 1), (-2, 0, 1)):
            axis = self.axis(count + 2 * self._ghosts(_temperature(i)), (i, j))
            if axis is not None:
                yield axis

    def samples(self, axis: Axis) -> Samples:
        """Points between neighbouring anchors and within panels."""
        ends = _with_pairs(np.clip(axis.positions, *self.ends), self.panels.edges)
        return self._at(_between(ends, BETWEEN), _between(ends, BETWEEN_CHECKED))

    def _ghosts(self, c: float) -> int:
        return math.ceil(0.5 * ghosts_for(self.relative, c))

    def _counted(self, growth: float) -> Array:
        """Gaps of the meshes of all scales."""
        if growth not in self._counts:
            self._counts[growth] = np.array([self.spacing.count(scale, growth) for scale in SCALES.tolist()])
        return self._counts[growth]


def _temperature(halves: int) -> float:
    return float(TEMPERATURE * 2 ** (halves / 2))


def _with_pairs(positions: Array, edges: Array) -> Array:
    """Both, increasing. An anchor on a kink is put a little beside it, however it was rounded: samples crowd there.

    >>> edges, rounded = np.array([-1.0, 0.0, 1.0]), [-1e-17, 0.0, 1e-17]
    >>> len({tuple(_with_pairs(np.array([-1.0, zero, 1.0]), edges).tolist()) for zero in rounded})
    1
    """
    beside = BESIDE * (edges[-1] - edges[0])
    nearest = edges[np.abs(positions[:, None] - edges).argmin(axis=1)]
    is_on = np.abs(positions - nearest) < beside
    moved = np.where((nearest > edges[0]) & (nearest < edges[-1]), nearest + beside, nearest)
    return np.unique(np.concatenate([edges, np.where(is_on, moved, positions)]))


def _between(ends: Array, count: int) -> Array:
    """Chebyshev points between neighbouring ends, and the ends."""
    inner = 0.5 - 0.5 * cosines(count, 0.5)[:-1]
    return np.unique(np.concatenate([(ends[:-1, None] + np.diff(ends)[:, None] * inner).ravel(), ends]))

r"""The fewest anchors along one axis that reach a tolerance.

The residual of a fit is a smooth function of the place of a row in its family (:mod:`attnforge.anchors.rows`), with few
valleys, and is followed downhill; the valley moves little from p to p + 1 anchors, where the next search begins. In p
it falls geometrically, as Chebyshev coefficients do: their decay says where to begin, the residuals met say where to
look next. Every trial is an honest fit, checked between its samples. What is searched is only how many and how sharp:
nothing is trained.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from attnforge.anchors.edges import Edge
from attnforge.anchors.fitting import Fit, cuts_between
from attnforge.anchors.mesh import Spacing
from attnforge.anchors.panels import Panels
from attnforge.anchors.rows import GradedRows, Place, Rows, UniformRows
from attnforge.anchors.smooth_values import SmoothFit, smooth_fits
from attnforge.anchors.ties import CLEARLY, first_of_least
from attnforge.effort import in_force
from attnforge.errors import RefusalError

Array = npt.NDArray[np.float64]

MOST = 1024  # anchors along one axis
MANY = 160  # uniform anchors that are tried where one polynomial is not enough
TAME, ROUNDED = 2.0, 1 / 16  # times f, values that are tame in any case; the part of tol that rounding may take
STEEP = 16.0  # times tamer are values of graded rows, whose scores are large
FASTEST = 1.5  # by which their number grows at most, from one that is too few to the next
SURELY, STALLED = 1.2, 0.7  # times the anchors that leave so much of the residual: they did not help

TIED, RESOLVED = 1.5, 2.0**-46  # times the least residual, and of f: residuals that another BLAS may put in any order

AnyFit = TypeVar("AnyFit", Fit, SmoothFit)


class RowSearch:
    """Fits by rows of one family.

    ``tame`` limits the size of their values, as does ``rounding``, of a score of one and values of size one, as a part
    of what is allowed; ``most`` limits the anchors.
    """

    def __init__(self, rows: Rows, cuts: Array, tame: float, rounding: float, most: int) -> None:
        self.rows, self.cuts, self.tame, self.rounding, self.most = rows, cuts, tame, rounding, most
        self.least = math.inf
        self._tried: dict[int, dict[Place, list[Fit]]] = {}
        self._steps = deque(rows.steps)  # the one that helped last is the first to be tried
        self._best, self._count = (rows.start, rows.first), rows.first

    def fit(self, count: int, tol: float = 0.0, thorough: bool = False) -> Fit | None:
        """The fit by ``count`` anchors in all: the tamest within tol, else the one of least residual; None without any.

        Downhill from place to neighbouring place, as far as tol, or until all neighbours are worse; from other valleys
        as well if that came near, or to be thorough, as the first search is.
        """
        far = self.rows.far * tol if self._tried and tol and not thorough else math.inf
        tried = self._tried.setdefault(count, {})
        for start in [self.rows.moved(*self._best, count), *self.rows.starts(count)]:
            here = self._downhill(count, start, tol, far)
            if not tol < _least(tried[here]) <= far:
                break
        here = list(tried)[first_of_least([_least(fits) for fits in tried.values()])]
        self._best = here, count
        found = [fit for fits in tried.values() for fit in fits]
        return tamest(found, tol) if found else None

    def _downhill(self, count: int, here: Place, tol: float, far: float) -> Place:
        tried, steps, left = self._tried[count], self._steps, len(self._steps)
        self._try(count, here)
        while left and tol < _least(tried[here]) <= far:
            there, left = (here[0] + steps[0][0], here[1] + steps[0][1]), left - 1
            self._try(count, there)
            if _least(tried[there]) < CLEARLY * _least(tried[here]):
                here, left = there, len(steps)
            else:
                steps.rotate(-1)
        return here

    def smallest(self, tol: float, most: int) -> Fit | None:
        """The fit of fewest anchors, at most so many, within tol: foreseen from the residuals, and bracketed."""
        low, high = self.rows.fewest - 1, most + 1
        count, stalls, residuals = max(low + 1, min(self._count, most)), 0, {low: self.rows.size}
        while high - low > max(1, high // self.rows.resolution) and stalls < self.rows.patience:
            hopes, hoped = high > most and count > SURELY * low, max(tol, STALLED * residuals[low])
            residuals[count] = self._residual(count, tol)
            if hopes and self.rows.patience > 1 and not residuals[count] < hoped:
                residuals[count] = self._residual(count, tol, True)
            stalls += hopes and not residuals[count] < hoped
            low, high = (low, count) if residuals[count] <= tol else (count, high)
            count = _foreseen(residuals, low, high, tol, self.rows.resolution)
        if high > most:
            return None
        self._count = high
        return self.fit(high, tol)

    def _residual(self, count: int, tol: float, thorough: bool = False) -> float:
        fit = self.fit(count, tol, thorough)
        self.least = min(self.least, math.inf if fit is None else fit.residual)
        return math.inf if fit is None else fit.residual

    def inside(self, count: int) -> Iterator[Fit]:
        """Fits with ``count`` anchors on the domain, by all rows that the family would try; of many by some of them."""
        for axis in itertools.islice(self.rows.inside(count), 0, None, 1 if count <= MANY else 6):
            yield from self.rows.samples(axis).fits(axis, self.cuts)

    def _try(self, count: int, place: Place) -> None:
        """Fits of that row; those of wild values count as no fits."""
        if place in self._tried[count]:
            return
        axis = self.rows.axis(count, place)
        fits = [] if axis is None else self.rows.samples(axis).fits(axis, self.cuts)
        rounding = 0.0 if axis is None else self.rounding * axis.steepest
        tame = min(self.tame, max(TAME * self.rows.size, 1 / rounding if rounding else math.inf))
        self._tried[count][place] = [fit for fit in fits if fit.size <= tame]


class AxisSearch:
    """Fits of the columns (M, q), given at the nodes of the panels, by anchors along the axis.

    ``finest`` is the finest cut tried, ``tame`` the largest size of values: tamer ones need more anchors. Graded rows
    have large scores; their values are no larger either than a ``roundoff`` of these leaves of the tolerance. ``most``
    limits the anchors, beyond MOST as well: a fit costs the cube of them.
    """

    def __init__(
        self,
        panels: Panels,
        edges: Sequence[Edge],
        columns: Array,
        tol: float,
        finest: float,
        most: int = MOST,
        tame: float = math.inf,
        roundoff: float = 0.0,
    ) -> None:
        self.most, self.is_graded = min(most, MOST, in_force().anchors), len(panels.degrees) > 1
        self._size = size = float(np.abs(columns).max())
        relative = min(0.5, tol / size) if size else 0.5
        cuts = cuts_between(min(1e-2, max(0.1 * relative, 30 * finest)), finest)
        self._uniform = UniformRows(panels, columns, relative, tol)
        few = min(self.most, MANY) if self.is_graded else self.most
        self._searches = [RowSearch(self._uniform, cuts, tame, 0.0, few)]
        self._is_uniform = not edges and not (self.is_graded and sum(panels.degrees) > MANY)
        spacing = Spacing.wanted(panels, edges, tol, columns) if self.is_graded else None
        if spacing is None or not spacing.is_possible:
            self._is_uniform = True
        else:  # one polynomial does not resolve the axis
            graded = GradedRows(panels, columns, relative, spacing)
            self._searches.append(RowSearch(graded, cuts, tame / STEEP, roundoff / (ROUNDED * tol), self.most))

    def smallest(self, tol: float) -> Fit:
        """The fit with the fewest anchors whose residual is at most tol."""
        best, searches = None, self._searches if self._is_uniform else self._searches[1:]
        for search in searches:
            best = search.smallest(tol, search.most if best is None else min(search.most, len(best.axis) - 1)) or best
        if best is None:
            requirement = f"One axis must reach {tol:.2g} with at most {self.most:,} anchors"
            least = min(search.least for search in searches)
            raise RefusalError(
                requirement, f"{least:.2g}" if math.isfinite(least) else "no mesh of so few", "Raise tol"
            )
        return best

    def uniform(self, count: int, tol: float = 0.0) -> Fit | None:
        """The fit by ``count`` uniform anchors in all: the tamest within tol, else the one of least residual."""
        return self._searches[0].fit(count, tol)

    def inside(self, count: int) -> Fit | SmoothFit:
        """The best fit found with ``count`` anchors on the domain, ghosts on top."""
        if not self.is_graded and self._uniform.panels.degrees[0] < count:
            samples, cuts = self._uniform.sampled(1), self._searches[0].cuts
            found = [fit for axis in self._uniform.inside(count) for fit in smooth_fits(samples, axis, cuts)]
            return self._shortest(found)
        return self._shortest([fit for search in self._searches for fit in search.inside(count)])

    def _shortest(self, fits: Sequence[AnyFit]) -> AnyFit:
        """The fewest anchors among the best fits: which of these has the least residual is a matter of last bits."""
        least = min(fit.residual for fit in fits)
        best = [fit for fit in fits if fit.residual <= max(TIED * least, RESOLVED * self._size)]
        return min(best, key=lambda fit: (len(fit.axis), fit.residual > TIED * least))


def tamest(fits: Sequence[Fit], tol: float) -> Fit:
    """The best conditioned fit within tol; where there is none, the one of least residual."""
    good = [fit for fit in fits if fit.residual <= tol]
    if good:
        return good[first_of_least([fit.condition for fit in good])]
    return fits[first_of_least([fit.residual for fit in fits])]


def _least(fits: Sequence[Fit]) -> float:
    return min((fit.residual for fit in fits), default=math.inf)


def _foreseen(residuals: Mapping[int, float], low: int, high: int, tol: float, resolution: int) -> int:
    """A number of anchors between one that is too few and one that will do: where the residual should reach tol.

    Its logarithm is prolonged from the two largest numbers known to be too few, or, where none is, from the one known
    to do; steps down double.
    """
    logs = {count: math.log(min(max(residual / tol, 1e-300), 1e300)) for count, residual in residuals.items()}
    too_few = sorted(count for count in logs if count <= low)[-2:]
    if len(too_few) < 2:
        spare = -logs[high] / max(logs[low] - logs[high], 1e-300)
        least = max(1, high // resolution) << (len(logs) - 2)
        return max(low + 1, high - max(math.floor(spare * (high - low)), least))
    first, last = too_few
    rate = (logs[first] - logs[last]) / (last - first)
    wanted = low + (math.ceil(logs[last] / rate) if rate > 0 else high)
    return max(low + 1, min(wanted, (low + high) // 2 if high in logs else min(high - 1, math.ceil(FASTEST * low))))

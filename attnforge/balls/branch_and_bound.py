r"""Branch and bound: the supremum of a function on a box, from bounds on cells that are cut where they are largest.

Who searches says what is known on cells: an upper bound of the function on each, and a value it attains there. Cells
whose bound exceeds both ``close`` times the largest value attained and what is ``negligible`` are halved, the worst
first, until there are none, or a limit is reached; cells on which cutting is no use are left as they are. The largest
bound of a cell that was not cut holds on the whole box in any case.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.effort import TIME, time_is_up
from attnforge.errors import OutOfTimeError

Array = npt.NDArray[np.float64]
Report = Callable[[float], None]

STEP = 1e-3  # a caller is not told of less progress


@dataclass(frozen=True, eq=False)
class Found:
    """What is known on C cells: upper bounds, values attained, the axes to cut across (C,).

    ``settled`` cells are not cut, ``again`` are looked at once more as they are (the look has become sharper since).
    ``data`` is whatever the look wants back for the halves: anything that indices can be taken of.
    """

    bound: Array
    seen: Array
    axis: npt.NDArray[np.int64]
    settled: npt.NDArray[np.bool_]
    again: npt.NDArray[np.bool_]
    data: Any = None

    @classmethod
    def of(
        cls,
        bound: Array,
        seen: Array,
        axis: npt.ArrayLike = 0,
        settled: npt.ArrayLike = False,
        again: npt.ArrayLike = False,
        data: Any = None,
    ) -> Found:
        """Where nothing is known, the bound is infinite and nothing is seen; one axis or answer may stand for all."""
        above = np.where(np.isnan(bound), np.inf, bound)
        below = np.where(np.isfinite(seen), seen, -np.inf)
        axes = np.array(np.broadcast_to(axis, bound.shape), dtype=np.int64)
        stays, once_more = (np.array(np.broadcast_to(each, bound.shape), dtype=np.bool_) for each in (settled, again))
        return cls(above, below, axes, stays, once_more, data)

    def take(self, index: npt.NDArray[np.generic]) -> Found:
        """Some of the cells."""
        kept = None if self.data is None else self.data[index]
        parts: list[Any] = [getattr(self, each.name)[index] for each in fields(self) if each.name != "data"]
        return Found(*parts, data=kept)


Look = Callable[[Array, Array, Any], Found]
"""From the ends (C, D) of cells, and the data kept of those they are halves of, to what is known on them."""


@dataclass(frozen=True, eq=False)
class Supremum:
    """The bound, the largest value attained, how many cells were looked at; those that cover the box, with their bounds.

    ``limit`` says what ended the search before the bound was close to the value attained, if anything did.
    """

    bound: float
    seen: float
    cells: int
    lower: Array
    upper: Array
    bounds: Array
    limit: str | None


@dataclass(frozen=True)
class Rules:
    """When cells are cut, and when no longer.

    Those are whose bound exceeds ``close`` times the largest value attained, and ``negligible``: the worst ``batch`` of
    them at once, or all. The search ends at ``cells``, when time is up, or when the goal exceeds ``ceiling``: then there
    is no use in looking on.
    """

    close: float
    cells: int
    batch: int | None = None
    negligible: float = 0.0
    ceiling: float = math.inf
    blind: str = "what the proof's own numbers can tell"

    def goal(self, seen: float) -> float:
        """Bounds up to here are close enough."""
        return max(seen + (self.close - 1) * abs(seen) if math.isfinite(seen) else seen, self.negligible)


def branch_and_bound(
    look: Look, lower: Array, upper: Array, rules: Rules, progress: Report | None = None, data: Any = None
) -> Supremum:
    """Cut cells (C, D) until the bound is close; the rules say how close and how far.

    >>> def parabola(lower, upper, _):
    ...     middle = (lower + upper)[:, 0] / 2
    ...     radius = (upper - lower)[:, 0] / 2
    ...     return Found.of(middle * (1 - middle) + radius, middle * (1 - middle))
    >>> found = branch_and_bound(parabola, np.zeros((1, 1)), np.ones((1, 1)), Rules(1.01, 10_000))
    >>> 0.25 <= found.bound <= 0.2525, found.limit
    (True, None)
    """
    way, found = Progress(progress), look(lower, upper, data)
    seen, count, ended = float(found.seen.max()), len(lower), None
    done: list[tuple[Array, Array, Array]] = []
    while True:
        goal = rules.goal(seen)
        open_ = (found.bound > goal) & (found.again | (~found.settled & _divisible(lower, upper, found.axis)))
        done.append((lower[~open_], upper[~open_], found.bound[~open_]))
        lower, upper, found = lower[open_], upper[open_], found.take(open_)
        if not len(lower) or goal >= rules.ceiling:
            break
        if count >= rules.cells or time_is_up():
            ended = f"{rules.cells} cells" if count >= rules.cells else TIME
            break
        worst = _worst(found.bound, rules.batch)
        low, high, parents = _parts(lower[worst], upper[worst], found.take(worst))
        try:
            more = look(low, high, None if found.data is None else found.data[worst[parents]])
        except OutOfTimeError:  # the cells so far still cover the box
            ended = TIME
            break
        rest = np.ones(len(lower), dtype=np.bool_)
        rest[worst] = False
        lower, upper = np.concatenate([lower[rest], low]), np.concatenate([upper[rest], high])
        found = _joined(found.take(rest), more)
        seen, count = max(seen, float(more.seen.max())), count + len(low)
        way.tell(float(found.bound.max()), goal)
    done.append((lower, upper, found.bound))
    lows, highs, bounds = (np.concatenate(parts) for parts in zip(*done, strict=True))
    bound = float(bounds.max())
    if ended is None and bound > rules.goal(seen) and not len(lower):
        ended = rules.blind
    return Supremum(bound, seen if math.isfinite(seen) else 0.0, count, lows, highs, bounds, ended)


def _worst(bound: Array, batch: int | None) -> npt.NDArray[np.int64]:
    if batch is None or len(bound) <= batch:
        return np.arange(len(bound))
    return np.argsort(-bound, kind="stable")[:batch]


def _joined(one: Found, two: Found) -> Found:
    """Both sets of cells; data is kept where all cells are cut at once, and so are the last looked at."""
    if not len(one.bound):
        return two
    names = [each.name for each in fields(Found) if each.name != "data"]
    return Found(*(np.concatenate([getattr(one, name), getattr(two, name)]) for name in names))


def _middle(lower: Array, upper: Array, axis: npt.NDArray[np.int64]) -> tuple[Array, Array, Array]:
    low, high = (np.take_along_axis(ends, axis[:, None], axis=1)[:, 0] for ends in (lower, upper))
    return low, low / 2 + high / 2, high


def _divisible(lower: Array, upper: Array, axis: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Whether a float lies between the ends of a cell."""
    low, middle, high = _middle(lower, upper, axis)
    return np.asarray((low < middle) & (middle < high))


def _parts(lower: Array, upper: Array, found: Found) -> tuple[Array, Array, npt.NDArray[np.int64]]:
    """The halves of cells, and those to be looked at again, with the places of the cells they come from."""
    place, cut = np.arange(len(lower)), np.flatnonzero(~found.again)
    first, second = upper.copy(), lower.copy()
    middle = _middle(lower, upper, found.axis)[1]
    first[cut, found.axis[cut]] = second[cut, found.axis[cut]] = middle[cut]
    return np.concatenate([lower, second[cut]]), np.concatenate([first, upper[cut]]), np.concatenate([place, cut])


class Progress:
    """Tells a caller the fraction of the way from the first bound to the goal, on a logarithmic scale.

    The fraction never falls, although the goal may move.

    >>> said = []
    >>> progress = Progress(said.append)
    >>> for bound in (float("inf"), 1.0, 1e-2, 1e-1, 1e-4):
    ...     progress.tell(bound, 1e-4)
    >>> said
    [0.0, 0.5, 1.0]
    """

    def __init__(self, report: Report | None) -> None:
        self._report, self._first, self._told = report, math.inf, -1.0
        self.done = 0.0

    def tell(self, bound: float, goal: float) -> None:
        """The bound is now ``bound`` and the search ends at ``goal``."""
        if not (math.isfinite(bound) and goal > 0):
            return
        self._first = bound if math.isinf(self._first) else max(self._first, bound)
        way = math.log(self._first / goal) if self._first > goal else 0.0
        done = math.log(self._first / bound) / way if way and bound > goal else float(bound <= goal)
        self.done = max(self.done, done)
        if self._report is not None and (done > self._told + STEP or done == 1.0 > self._told):
            self._told = done
            self._report(done)

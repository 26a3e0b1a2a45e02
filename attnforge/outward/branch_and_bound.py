r"""Branch and bound: the supremum of a function on a box, from bounds on cells that are cut where they are largest.

Who searches says what is known on cells: an upper bound of the function on each, and a value it attains there. Cells
whose bound exceeds both ``close`` times the largest value attained and what is ``negligible`` are halved, the worst
first, until there are none, or a limit is reached; cells on which cutting is no use are left as they are. The largest
bound of a cell that was not cut holds on the whole box in any case.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from attnforge.effort import TIME, seconds_left, time_is_up
from attnforge.errors import OutOfTimeError

Array = npt.NDArray[np.float64]
Report = Callable[[float], None]

STEP = 1e-3  # a caller is not told of less progress
SHORTEST = 1e-9  # seconds that a look at a cell may take


@dataclass(frozen=True, eq=False)
class Found:
    """What is known on C cells: upper bounds, values attained, the axes to cut across (C,).

    ``settled`` cells are not cut, ``again`` are looked at once more as they are (the look has become sharper since).
    ``parts`` (C, m) are what bounds consist of, to be handed over at the end; ``data`` is whatever the look wants back
    for the halves: anything that indices can be taken of.
    """

    bound: Array
    seen: Array
    axis: npt.NDArray[np.int64]
    settled: npt.NDArray[np.bool_]
    again: npt.NDArray[np.bool_]
    parts: Array | None = None
    data: Any = None

    @classmethod
    def of(
        cls,
        bound: Array,
        seen: Array,
        axis: npt.ArrayLike = 0,
        settled: npt.ArrayLike = False,
        again: npt.ArrayLike = False,
        parts: Array | None = None,
        data: Any = None,
    ) -> Found:
        """Where nothing is known, the bound is infinite and nothing is seen; one axis or answer may stand for all."""
        above = np.where(np.isnan(bound), np.inf, bound)
        below = np.where(np.isfinite(seen), seen, -np.inf)
        axes = np.array(np.broadcast_to(axis, bound.shape), dtype=np.int64)
        stays, repeated = (np.array(np.broadcast_to(each, bound.shape), dtype=np.bool_) for each in (settled, again))
        return cls(above, below, axes, stays, repeated, parts, data)

    def take(self, index: npt.NDArray[np.generic]) -> Found:
        """Some of the cells."""
        known = {each.name: getattr(self, each.name) for each in fields(self)}
        return replace(self, **{name: part[index] for name, part in known.items() if part is not None})


class Look(Protocol):
    """Bounds on cells from ``lower`` to ``upper`` (C, D); ``data`` is what was kept of the cells they are halves of."""

    def __call__(self, lower: Array, upper: Array, data: Any, /) -> Found:
        """What is known on them."""
        ...


@dataclass(frozen=True, eq=False)
class Supremum:
    """The bound, the largest value attained, how many cells were looked at, and those that cover the box at the end.

    ``bounds`` (C,) are those of these cells; ``parts`` (C, m) what they consist of, where the look says.
    ``limit`` says what ended the search before the bound was close to the value attained, if anything did.
    """

    bound: float
    seen: float
    cells: int
    lower: Array
    upper: Array
    bounds: Array
    limit: str | None
    parts: Array | None = None


@dataclass(frozen=True)
class Rules:
    """When cells are cut, and when no longer.

    Those are whose bound exceeds ``close`` times the largest value attained, ``negligible``, and all bounds of cells
    that are not cut any more: the worst ``batch`` of them at once, or as many as the limit leaves room for. The search
    ends at ``cells``, when time is up, or when the goal exceeds ``ceiling``: then there is no use in looking on.
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
    done: list[tuple[Array, Array, Array, Array | None]] = []
    left, pace = -math.inf, SHORTEST  # the latter: seconds a cell took
    while True:
        goal = max(rules.goal(seen), left)
        open_ = (found.bound > goal) & (found.again | (~found.settled & _divisible(lower, upper, found.axis)))
        done.append(_covering(lower[~open_], upper[~open_], found.take(~open_)))
        left = max(left, float(found.bound[~open_].max(initial=-math.inf)))
        lower, upper, found = lower[open_], upper[open_], found.take(open_)
        if not len(lower) or goal >= rules.ceiling:
            break
        if count >= rules.cells or time_is_up():
            ended = f"{rules.cells} cells" if count >= rules.cells else TIME
            break
        batch = rules.batch or max(1, (rules.cells - count + 1) // 2)
        in_time = int(min(seconds_left() / (2 * pace), len(lower)))
        if in_time < min(batch, len(lower)) and (found.data is not None or in_time < 1):
            ended = TIME
            break
        worst = _worst(found.bound, min(batch, in_time))
        low, high, parents = _parts(lower[worst], upper[worst], found.take(worst))
        started = time.monotonic()
        try:
            more = look(low, high, None if found.data is None else found.data[worst[parents]])
        except OutOfTimeError:  # the cells so far still cover the box
            ended = TIME
            break
        pace = max((time.monotonic() - started) / len(low), SHORTEST)
        rest = np.ones(len(lower), dtype=np.bool_)
        rest[worst] = False
        lower, upper = np.concatenate([lower[rest], low]), np.concatenate([upper[rest], high])
        found = _joined(found.take(rest), more)
        seen, count = max(seen, float(more.seen.max())), count + len(low)
        way.tell(max(left, float(found.bound.max())), rules.goal(seen))
    done.append(_covering(lower, upper, found))
    lows, highs, bounds = (np.concatenate([each[i] for each in done]) for i in range(3))
    parts = None if found.parts is None else np.concatenate([each[3] for each in done])
    bound = float(bounds.max())
    if ended is None and bound > rules.goal(seen) and not len(lower):
        ended = rules.blind
    return Supremum(bound, seen if math.isfinite(seen) else 0.0, count, lows, highs, bounds, ended, parts)


def _covering(lower: Array, upper: Array, found: Found) -> tuple[Array, Array, Array, Array | None]:
    return lower, upper, found.bound, found.parts


def _worst(bound: Array, batch: int) -> npt.NDArray[np.int64]:
    if len(bound) <= batch:
        return np.arange(len(bound))
    return np.argsort(-bound, kind="stable")[:batch]


def _joined(one: Found, two: Found) -> Found:
    """Both sets of cells; data is kept where all cells are cut at once, and so are the last looked at."""
    if not len(one.bound):
        return two
    names = [each.name for each in fields(Found) if each.name != "data" and getattr(two, each.name) is not None]
    both = {name: np.concatenate([getattr(one, name), getattr(two, name)]) for name in names}
    return replace(two, **both, data=None)


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

"""How hard to search, prove and check, and until when.

An :class:`Effort` holds numbers, not times: the same effort gives the same result on any machine. It is handed on, or,
to fits deep inside a construction, put in force by ``working(effort)``. The clock is apart from it. ``until(seconds)``
sets a time at which whatever runs inside should end; loops that have something to show look at :func:`time_is_up` and
stop with what they have, others call :func:`check_time` and give up with an :class:`OutOfTimeError`. Without ``until``
there is no end.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

from attnforge.errors import OutOfTimeError, RefusalError, is_number, is_whole

__all__ = [
    "EFFORTS",
    "NORMAL",
    "Effort",
    "as_effort",
    "at_least",
    "check_time",
    "in_force",
    "seconds_left",
    "time_is_up",
    "until",
    "working",
]

TIME = "the time allowed"  # what ended a search or a proof, in its report
RUN = 100.0  # points and keys run in about the time in which one box and key is enclosed
FEWEST = 200  # points that a search beside a proof looks at, however large the network
UNFINISHED = "unfinished when time was up"


@dataclass(frozen=True)
class Effort:
    """Limits of every search, proof and check. ``"low"``, ``"normal"`` (this) and ``"high"`` have names.

    Attributes:
        points: random points looked at beside a proof, half as many more near anchors; ``measure`` takes 25 times them.
        climbers, rounds, tries: of the climb from the worst points found.
        seconds: that the values of a slow target may take in such a search.
        sizings: attempts to leave room for rounding by a finer fit.
        keys: of the largest plan that is built while looking for the smallest tolerance that can be kept.
        intervals: a proof along one linear form may look at.
        boxes: a proof of several inputs may look at, of hard cells 20 times as many.
        pairs: of a box and a key, that such a proof may look at; of a point and a key a hundred times as many, that the
            search beside a proof may run.
        cells: the independent checker may look at.
        anchors: a fit may try, along one axis or of one set of scattered points; its time grows with their cube.
        exchanges: rounds of a polish.
        workers: processes, where work can be shared; -1 is one a processor.
        cluster: the address of a Dask scheduler, whose workers share it instead.
    """

    points: int = 4_000
    climbers: int = 16
    rounds: int = 24
    tries: int = 24
    seconds: float = 5.0
    sizings: int = 4
    keys: int = 1024
    intervals: int = 40_000
    boxes: int = 20_000
    pairs: float = 2.5e7
    cells: int = 100_000
    anchors: int = 4_000
    exchanges: int = 8
    workers: int = 1
    cluster: str | None = None

    def __post_init__(self) -> None:
        for name in ("points", "climbers", "sizings", "keys", "intervals", "boxes", "cells", "anchors", "exchanges"):
            if not getattr(self, name) >= 1:
                raise RefusalError(f"`{name}` of an Effort must be at least 1", repr(getattr(self, name)), "Raise it")
        if not (self.seconds > 0 and self.pairs > 0 and min(self.rounds, self.tries) >= 0):
            got = f"seconds={self.seconds}, pairs={self.pairs}, rounds={self.rounds}, tries={self.tries}"
            raise RefusalError("The limits of an Effort must be positive", got, "Use 'low', 'normal' or 'high'")
        if not is_whole(self.workers) or (self.workers != -1 and not self.workers >= 1):
            requirement = "`workers` must be a whole number, at least 1, or -1 for all processors"
            raise RefusalError(requirement, repr(self.workers), "Use 1")

    @property
    def processes(self) -> int:
        """The number of workers, with -1 counted out."""
        return self.workers if self.workers > 0 else os.cpu_count() or 1

    @property
    def climb(self) -> int:
        """Evaluations of the climb."""
        return self.climbers * self.rounds * self.tries

    @property
    def evaluations(self) -> int:
        """Evaluations of a search in all, near anchors or along a line included."""
        return self.points + self.points // 2 + self.climb

    def beside(self, keys: int) -> Effort:
        """The effort of the search beside a proof of a network of so many keys: fewer points where each takes long.

        A number of points and not of seconds, so that the same call finds the same point.

        >>> NORMAL.beside(1000) == NORMAL, NORMAL.beside(5_000_000).evaluations
        (True, 445)
        """
        return self.within(max(FEWEST, int(RUN * self.pairs / max(keys, 1))))

    def within(self, evaluations: int) -> Effort:
        """An effort whose search takes at most so many evaluations, and at least one.

        Half of them are for looking and half for the climb, which loses climbers, rounds and tries alike.

        >>> Effort(4000).within(1000).evaluations
        985
        >>> Effort(4000).within(100_000) == Effort(4000)
        True
        >>> Effort(4000).within(0).evaluations
        1
        """
        if evaluations >= self.evaluations:
            return self
        look = max(evaluations // 2, evaluations - self.climb)
        points = max(1, min(self.points, 2 * look // 3))
        shrink = min(1.0, max(0, evaluations - points - points // 2) / max(self.climb, 1)) ** (1 / 3)
        climbers, rounds, tries = (int(shrink * size) for size in (self.climbers, self.rounds, self.tries))
        if not climbers * rounds * tries:
            climbers, rounds, tries = 1, 0, 0
        return replace(self, points=points, climbers=climbers, rounds=rounds, tries=tries)


NORMAL = Effort()
EFFORTS = {
    "low": Effort(1_000, 8, 12, 12, 1.0, 2, 256, 4_000, 2_000, 2.5e6, 10_000, 256, 2),
    "normal": NORMAL,
    "high": Effort(40_000, 64, 32, 32, 60.0, 8, 4096, 400_000, 200_000, 2.5e8, 1_000_000, 4_000, 32),
}


def as_effort(effort: str | Effort | None, workers: int = 1, cluster: str | None = None) -> Effort:
    """An effort by its name, or as it is; ``workers`` other than 1, and a ``cluster``, are put into it.

    >>> as_effort("low").boxes, as_effort(None) == NORMAL, as_effort(Effort(workers=3), workers=2).workers
    (2000, True, 2)
    """
    found = NORMAL if effort is None else EFFORTS.get(effort) if isinstance(effort, str) else effort
    if not isinstance(found, Effort):
        names = ", ".join(map(repr, EFFORTS))
        raise RefusalError(f"`effort` must be one of {names}, or an Effort", repr(effort)[:80], "Leave it out")
    found = found if workers == 1 else replace(found, workers=workers)
    return found if cluster is None else replace(found, cluster=cluster)


_FORCE: ContextVar[Effort] = ContextVar("effort", default=NORMAL)


@contextmanager
def working(effort: Effort) -> Iterator[None]:
    """Fits inside obey this effort."""
    token = _FORCE.set(effort)
    try:
        yield
    finally:
        _FORCE.reset(token)


def in_force() -> Effort:
    """The effort that fits obey.

    >>> with working(EFFORTS["low"]):
    ...     in_force().anchors
    256
    >>> in_force() == NORMAL
    True
    """
    return _FORCE.get()


_END: ContextVar[float] = ContextVar("end", default=math.inf)


@contextmanager
def until(seconds: float | None) -> Iterator[None]:
    """What runs inside should end after so many seconds, or when what is around it should; None changes nothing."""
    if seconds is not None and not (is_number(seconds) and seconds > 0):
        raise RefusalError("`timeout` must be a positive number of seconds", repr(seconds), "Leave it out for no limit")
    with _ending(_END.get() if seconds is None else min(_END.get(), time.monotonic() + seconds)):
        yield


@contextmanager
def at_least(seconds: float) -> Iterator[None]:
    """What runs inside has so many seconds, whatever is left: it chose by the clock how much to do.

    >>> with until(1), at_least(60):
    ...     seconds_left() > 59
    True
    """
    with _ending(max(_END.get(), time.monotonic() + seconds)):
        yield


@contextmanager
def _ending(end: float) -> Iterator[None]:
    token = _END.set(end)
    try:
        yield
    finally:
        _END.reset(token)


def seconds_left() -> float:
    """Until the end; infinity where there is none, negative after it."""
    return _END.get() - time.monotonic()


def time_is_up() -> bool:
    """Whether the end has passed.

    >>> with until(60):
    ...     time_is_up(), seconds_left() > 59
    (False, True)
    """
    return seconds_left() <= 0


def check_time(what: str, seconds: float = 0.0) -> None:
    """Give up after the end, or before a step that would pass it by; ``what`` is being done.

    ``seconds`` are those that the step takes at least, where it cannot be taken in parts.
    """
    if seconds_left() <= seconds:
        raise OutOfTimeError("The work must end within its timeout", f"{what} {UNFINISHED}", "Raise timeout, or tol")

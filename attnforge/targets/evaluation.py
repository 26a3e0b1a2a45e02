"""Careful evaluation of a callable that may be expensive: every value once, in batches, on all cores, resumable."""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.effort import check_time, seconds_left
from attnforge.errors import FileFormatError, TargetError
from attnforge.parallel import Pool, Processes
from attnforge.targets.domain import Box
from attnforge.targets.sample_cache import ANOTHER, FilePath, append_samples, read_samples

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Raw = Callable[[Array], Array]

ALL_AT_ONCE = 2**18  # rows in one call: 2 MB a number
FIRST_BATCH, GROWTH = 16, 4  # rows of the first batch, and how much larger than any before a batch may be
SHARE = 8  # a batch is to take at most an eighth of the time that is left, where there is an end
SECONDS = 1.0  # a batch is to take: progress is seen, little is lost in a crash, and calls cost nothing beside it
WORTH_SENDING = 0.05  # seconds; a batch that is done sooner tells too little, and another one is cheap
BATCHES_A_WORKER = 4  # in one round, so that workers with cheap rows do not wait long for the others
MOST_ROWS = 2**21  # remembered; one takes about 130 bytes beside its numbers, so some 300 MB in all
MOST_NUMBERS = 2**26  # remembered in rows and values together, 500 MB: reached earlier where rows are long
CHECKED, AGREE = 5, 1e-12  # stored points evaluated again, and how well they must agree, relatively
EVALUATING = "evaluating the function"
EXTRA_CALLS = 64  # spent on finding the point at which a batch fails


class Evaluation:
    """How one function is evaluated, and the values it was seen to take.

    Every value is computed once: rows are remembered by their bytes (-0.0 as 0.0). A function that is expensive pays
    for the memory many times over; for a cheap one, asked for millions of random points, memory is spent for nothing,
    so that after 2**21 rows (a few hundred MB) no more are remembered, nor written to the cache.

    An Evaluation belongs to the first function it meets: values of another one must not be mixed in.

    Args:
        workers: processes that share the work; -1 for all cores. The values are the same. They are only started once a
            batch is seen to take long enough to be worth sending.
        cluster: the address of a Dask scheduler, whose workers share it instead.
        cache: a file in which values are kept as they are computed, and found again by a later run. A few of its
            points are evaluated again, to see that it belongs to this function.
        batch: rows in one call of the function. None: all at once where there are no workers, cache, progress or end,
            and at most 2**18 rows; otherwise 16 at first, growing until a batch takes a second, or an eighth of the
            time that is left. Between batches the time is looked at.
        progress: called with the rows done and the rows in all of the present request, after each batch.

    >>> evaluation = Evaluation()
    >>> evaluation.values(lambda rows: rows[:, 0] ** 2, np.array([[1.0], [3.0], [1.0]]))
    array([1., 9., 1.])
    >>> evaluation.remembered
    2
    """

    def __init__(
        self,
        workers: int = 1,
        cache: FilePath | None = None,
        batch: int | None = None,
        progress: Callable[[int, int], None] | None = None,
        cluster: str | None = None,
    ) -> None:
        if not _is_whole(workers) or (workers < 1 and workers != -1):
            raise TargetError("`workers` must be at least 1, or -1 for all cores", repr(workers), "Leave it out: 1")
        if batch is not None and (not _is_whole(batch) or batch < 1):
            raise TargetError("`batch` must be at least 1 row", repr(batch), "Leave it out: it is then chosen by time")
        self.processes, self.cache, self.batch, self.progress = Processes(workers, cluster), cache, batch, progress
        self._owner: Raw | None = None
        self._opened = cache is None
        self._shape: tuple[int, ...] | None = None  # of one value
        self._memory = _Memory()
        self._clock = _Clock()

    @property
    def remembered(self) -> int:
        """How many values are known."""
        return self._memory.used

    def values(self, function: Raw, rows: Array, domain: Box | None = None) -> Array:
        """Values (N, ...) of the function, (N, d) -> (N, ...), at the rows (N, d).

        ``domain`` says which points of a cache may be evaluated again; None: all. A function that raises is asked
        again in parts, to name a point at which it does.
        """
        self._claim(function)
        rows = _plain_zeros(rows)
        self._open(function, rows.shape[1], domain)
        keys = _keys(rows)
        places = self._memory.places(keys)
        absent = np.flatnonzero(places < 0)
        first, which = _distinct(keys, absent)
        fresh = self._compute(function, rows[first], [keys[i] for i in first.tolist()], len(rows))
        if len(absent) == len(rows):
            return fresh[which]
        found = self._memory.values[places]
        found[absent] = fresh[which]
        return found

    def remember(self, function: Raw, rows: Array, values: Array, seconds: float, domain: Box | None = None) -> None:
        """Take in values (N, ...) at rows (N, d) computed elsewhere, in so many seconds."""
        self._claim(function)
        rows = _plain_zeros(rows)
        self._clock.saw(len(rows), seconds)
        self._open(function, rows.shape[1], domain, values.shape[1:])
        keys = _keys(rows)
        absent = np.flatnonzero(self._memory.places(keys) < 0)
        first, _ = _distinct(keys, absent)
        self._store(rows[first], [keys[i] for i in first.tolist()], values[first])

    def _claim(self, function: Raw) -> None:
        if self._owner is not None and self._owner != function:
            got = "an Evaluation that was used for another one"
            raise TargetError("An Evaluation remembers the values of one function", got, "Make one for each function")
        self._owner = function

    def _open(self, function: Raw, inputs: int, domain: Box | None, shape: tuple[int, ...] | None = None) -> None:
        """Read the cache, the first time; what it says is believed once a few of its points agree."""
        if self._opened or self.cache is None:
            return
        stored = read_samples(self.cache, inputs, shape, MOST_ROWS)
        if stored is not None:
            rows, values = _plain_zeros(stored[0]), stored[1]
            if self._belongs(function, rows, values, domain):
                self._shape = values.shape[1:]
                self._memory.add(_keys(rows), values, inputs)
        self._opened = True

    def _belongs(self, function: Raw, rows: Array, values: Array, domain: Box | None) -> bool:
        """Whether stored points inside the domain agree with the function. Without any, nothing can be said: False.

        The function is never evaluated outside its domain, and points outside it are not going to be asked for.
        """
        usable = np.arange(len(rows)) if domain is None else np.flatnonzero(_inside(rows, domain))
        if not len(usable):
            return False
        chosen = usable[np.unique(np.linspace(0, len(usable) - 1, CHECKED).round().astype(np.int64))]
        found, stored = _timed(function, rows[chosen], self._clock), values[chosen]
        if found.shape != stored.shape:
            got = f"values of shape {stored.shape[1:]} at {self.cache}"
            raise FileFormatError(f"The cache must hold values of shape {found.shape[1:]}", got, ANOTHER)
        gap = np.abs(found - stored).reshape(len(chosen), -1).max(axis=1)
        size = np.maximum(np.abs(found), np.abs(stored)).reshape(len(chosen), -1).max(axis=1)
        wrong = ~(gap <= AGREE * size)
        if wrong.any():
            worst = int(wrong.argmax())
            got = f"{_text(stored[worst])} stored and {_text(found[worst])} computed at {_text(rows[chosen[worst]])}"
            remedy = "The cache belongs to another function: give another cache path"
            raise TargetError(f"The cache {self.cache} must hold values of this function", got, remedy)
        return True

    def _compute(self, function: Raw, rows: Array, keys: list[bytes], total: int) -> Array:
        """Values at rows that are distinct and not known, stored batch by batch."""
        found = np.empty((len(rows), *(self._shape or ())))
        done = 0
        for start, part in self._batches(function, rows):
            stop = start + len(part)
            self._store(rows[start:stop], keys[start:stop], part)
            if not done:
                found = np.empty((len(rows), *part.shape[1:]))
            found[start:stop] = part
            done += len(part)
            if self.progress:
                self.progress(total - len(rows) + done, total)
        if self.progress and not len(rows) and total:
            self.progress(total, total)
        return found

    def _store(self, rows: Array, keys: list[bytes], values: Array) -> None:
        self._shape = self._shape if self._shape is not None else values.shape[1:]
        if values.shape[1:] != self._shape:
            got = f"shape {values.shape[1:]} after {self._shape}"
            raise TargetError("All values of a function have the same shape", got, "Vectorise it over leading axes")
        kept = self._memory.add(keys, values, rows.shape[1])
        if self.cache is not None and kept:
            append_samples(self.cache, rows[:kept], values[:kept])

    def _batches(self, function: Raw, rows: Array) -> Iterator[tuple[int, Array]]:
        """Where each batch starts, and its values: in order without workers, as they come with them."""
        done = 0
        while done < len(rows):
            check_time(EVALUATING)
            left = rows[done:]
            if not self.processes.one and self._clock.worth_sending(len(left)):
                yield from ((done + start, part) for start, part in self._parallel(function, left))
                return
            size = self._rows(len(left))
            yield done, _timed(function, left[:size], self._clock)
            done += size

    def _rows(self, left: int) -> int:
        """How many rows to evaluate next."""
        if self.batch is not None:
            return min(self.batch, left)
        remaining = seconds_left()
        hurried = remaining < math.inf and not self._clock.is_quick(left, remaining)
        undisturbed = self.processes.one and self.cache is None and self.progress is None
        if undisturbed and not hurried and left <= ALL_AT_ONCE:
            return left
        return min(self._clock.rows(remaining), left)

    def _parallel(self, function: Raw, rows: Array) -> Iterator[tuple[int, Array]]:
        """Rounds of a few batches a worker. A failure is told when its round is over: the others' work is kept."""
        done, settings = 0, np.geterr()
        with self.processes.sharing() as pool:
            while done < len(rows):
                check_time(EVALUATING)
                size = min(self._rows(len(rows)), math.ceil((len(rows) - done) / pool.size))
                starts = range(done, min(done + size * pool.size * BATCHES_A_WORKER, len(rows)), size)
                tasks = [(function, i, rows[i : i + size], settings) for i in starts]
                failures = []
                for outcome in _outcomes(pool, tasks, rows[done]):
                    if isinstance(outcome, _Failure):
                        failures.append(outcome)
                    else:
                        self._clock.saw(len(outcome.found), outcome.seconds)
                        yield outcome.start, outcome.found
                if failures:
                    first = min(failures, key=lambda failure: failure.start)
                    raise first.error from RuntimeError(f"In a worker:\n{first.trace}")
                done = starts[-1] + size


@dataclass(frozen=True, eq=False)
class _Success:
    """Values of a batch, sent back by a worker."""

    start: int
    found: Array
    seconds: float


@dataclass(frozen=True, eq=False)
class _Failure:
    """Why a batch has no values; the trace is text, since the function's own exception may not travel."""

    start: int
    error: TargetError
    trace: str


class _Clock:
    """How long rows take, and so how many make a batch of about a second, or less where time is short."""

    def __init__(self) -> None:
        self._seconds = self._pace = 0.0
        self._last = self._largest = 0

    def saw(self, rows: int, seconds: float) -> None:
        """Take note of a batch."""
        self._last, self._seconds, self._pace = rows, seconds, seconds / max(rows, 1)
        self._largest = max(self._largest, rows)

    def is_quick(self, rows: int, left: float) -> bool:
        """Whether so many rows are known to take a batch's share of the time left at most."""
        return self._largest > 0 and rows * self._pace <= min(SECONDS, left / SHARE)

    def rows(self, left: float = math.inf) -> int:
        """Rows of the next batch: a second's worth, or a share of the time left; not much more than has been tried.

        A function may take long for a call and not for a row. So where there is an end, a batch is twice the last one
        if twice its time would be less than half of what is left.
        """
        most, seconds = min(max(FIRST_BATCH, GROWTH * self._largest), ALL_AT_ONCE), min(SECONDS, left / SHARE)
        size = most if self._pace * most <= seconds else max(1, int(seconds / self._pace))
        return max(size, min(2 * self._last, most)) if 4 * self._seconds <= left < math.inf else size

    def worth_sending(self, rows: int) -> bool:
        """Whether so many rows take long enough for other processes; unknown before anything was timed: yes."""
        known = self._largest > 0
        return not known or (self._seconds >= WORTH_SENDING and rows * self._pace >= WORTH_SENDING)


class _Memory:
    """Values by the bytes of their rows: a dict of places in one array, which doubles as it fills."""

    def __init__(self) -> None:
        self.index: dict[bytes, int] = {}
        self.values: Array = np.empty(0)
        self.used = 0

    def places(self, keys: list[bytes]) -> Integers:
        """Where each row's value is; -1 where it is not known."""
        return np.fromiter(map(self.index.get, keys, repeat(-1)), dtype=np.int64, count=len(keys))

    def add(self, keys: list[bytes], values: Array, inputs: int) -> int:
        """Remember as many of the values as there is room for, from the first on; returns how many."""
        used, shape = self.used, values.shape[1:]
        room = min(MOST_ROWS, MOST_NUMBERS // max(1, inputs + math.prod(shape))) - used
        kept = max(0, min(len(keys), room))
        if used + kept > len(self.values) or not used:
            larger = np.empty((max(used + kept, 2 * used), *shape))
            larger[:used] = self.values[:used] if used else 0.0
            self.values = larger
        self.values[used : used + kept] = values[:kept]
        self.index.update(zip(keys[:kept], range(used, used + kept), strict=True))
        self.used = used + kept
        return kept


def _is_whole(number: Any) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)


def _plain_zeros(rows: Array) -> Array:
    """A float64 copy without -0.0, whose bytes differ from those of the equal 0.0."""
    return np.ascontiguousarray(rows, dtype=np.float64) + 0.0


def _keys(rows: Array) -> list[bytes]:
    """The bytes of each row."""
    if not rows.shape[1]:
        return [b""] * len(rows)
    return list(rows.view(f"V{8 * rows.shape[1]}").ravel().tolist())


def _distinct(keys: list[bytes], absent: Integers) -> tuple[Integers, Integers]:
    """First occurrences (M,) of the rows that are absent, and which of these each absent row equals."""
    if len({keys[i] for i in absent.tolist()}) == len(absent):
        return absent, np.arange(len(absent))
    numbers: dict[bytes, int] = {}
    which = np.fromiter(
        (numbers.setdefault(keys[i], len(numbers)) for i in absent.tolist()), dtype=np.int64, count=len(absent)
    )
    return absent[np.unique(which, return_index=True)[1]], which


def _inside(rows: Array, domain: Box) -> npt.NDArray[np.bool_]:
    return np.asarray(((rows >= domain.lower.ravel()) & (rows <= domain.upper.ravel())).all(axis=1))


def _text(numbers: Array) -> str:
    return np.array2string(numbers, precision=17, threshold=8, separator=", ")


def _timed(function: Raw, rows: Array, clock: _Clock) -> Array:
    started = time.perf_counter()
    found = _called(function, rows)
    clock.saw(len(rows), time.perf_counter() - started)
    return found


def _called(function: Raw, rows: Array) -> Array:
    """The function's values; where it raises, an error that names a point."""
    try:
        found = function(rows)
    except TargetError:
        raise
    except Exception as error:
        raise _failure(function, rows, error) from error
    if found.shape[:1] != (len(rows),):
        got = f"shape {found.shape} for {len(rows)} points"
        raise TargetError("The function must return one value a point", got, "Vectorise it over leading axes")
    return found


def reason_of(error: Exception) -> str:
    r"""An exception on one line, cut where it is long.

    >>> reason_of(ValueError("no\nvalue"))
    'ValueError: no value'
    """
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]


def _failure(function: Raw, rows: Array, error: Exception) -> TargetError:
    reason, row = reason_of(error), failing_row(function, rows)
    if row is not None:
        remedy = "Shrink the domain, or let the function return a finite number there"
        return TargetError("The callable must run at every point of its domain", f"{reason} at {_text(row)}", remedy)
    got = f"{reason} on {len(rows)} points from {_text(rows[0])} on, but on none of those tried alone"
    return TargetError("The callable must run on arrays of points", got, "Vectorise it, or use Evaluation(batch=1)")


def failing_row(function: Raw, rows: Array) -> Array | None:
    """A row (d,) at which the function raises when it is called on that row alone; None where none was found.

    Halving finds it in log2(N) calls, if the function fails on a batch because it fails at a point of it. Should it
    not, the calls that are left, 64 in all, try one row after another.

    >>> failing_row(lambda rows: [1 // int(x) for x in rows[:, 0]], np.arange(-40.0, 60.0)[:, None])
    array([0.])
    """
    low, high, calls = 0, len(rows), 0
    while high - low > 1:
        middle, calls = (low + high) // 2, calls + 1
        low, high = (low, middle) if _raises(function, rows[low:middle]) else (middle, high)
    if _raises(function, rows[low:high]):
        return np.array(rows[low])
    tried = range(min(len(rows), EXTRA_CALLS - calls - 1))
    return next((np.array(rows[i]) for i in tried if _raises(function, rows[i : i + 1])), None)


def _raises(function: Raw, rows: Array) -> bool:
    try:
        function(rows)
    except Exception:
        return True
    return False


def _send(function: Raw, start: int, rows: Array, settings: dict[str, Any]) -> _Success | _Failure:
    """In a worker: a batch, under the caller's settings for floating-point warnings."""
    started = time.perf_counter()
    try:
        with np.errstate(**settings):
            found = _called(function, rows)
    except TargetError as error:
        return _Failure(start, error, traceback.format_exc())
    return _Success(start, found, time.perf_counter() - started)


def _outcomes(pool: Pool, tasks: list[Any], point: Array) -> Iterator[_Success | _Failure]:
    """Results as they come; what goes wrong outside the function is said in the user's words."""
    try:
        yield from pool.each(_send, tasks)
    except BrokenExecutor as error:
        got = f"{reason_of(error)} in the round from {_text(point)} on"
        remedy = "Use fewer workers if memory was short, or workers=1 to see the function fail"
        raise TargetError("The function must not end the process it runs in", got, remedy) from error
    except Exception as error:
        remedy = "Use workers=1, or open files, locks and connections inside the function"
        wanted = "With workers, the function must be able to travel to them"
        raise TargetError(wanted, reason_of(error), remedy) from error

"""The adversary: tries to beat a bound by finding a point where the error is larger.

It searches as :mod:`.search` does, then climbs the error from many starts, generation after generation, until its
budget is spent. Where proved bounds of the error on boxes are known, parts of the domain in which they do not exceed
the largest error found are left out, and the starts go where something larger may still be.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from attnforge.display import Card, Displayed
from attnforge.effort import NORMAL, Effort, at_least, seconds_left
from attnforge.errors import TargetError, is_number
from attnforge.measurement.gaps import Run, gaps, point_box
from attnforge.measurement.generations import CANDIDATES, CLIMBERS, PART, Generations
from attnforge.measurement.judge import Judge
from attnforge.measurement.pace import TINY, affordable, pace
from attnforge.measurement.pruning import Bounds
from attnforge.measurement.search import LATE, SHORTEST, place, search_within
from attnforge.network import Network
from attnforge.targets import Target

Array = npt.NDArray[np.float64]

SECONDS = 20.0
FEWEST = 100  # evaluations with which an attack is worth the name
MORE = 5  # times the points of an effort, in the search at the beginning, which gets a quarter of the budget


@dataclass(frozen=True, eq=False, repr=False)
class Attack(Displayed):
    """The largest error an attack found, and how hard it tried. Never an upper bound.

    Attributes:
        error: the largest |run - target| found, as it runs, in batches (alone, a point may round differently);
            infinity where the run is not a number.
        at: where.
        evaluations: of the run, gradients counted as one each, and of the target for differences.
        starts: points from which it climbed.
        boxes: parts of the domain for which a bound of the error was proved; 0 where no such bounds are known.
        pruned: the share of the domain proved to hold no error above ``error``; None where no bounds are known.
        largest_left: no error on the domain exceeds this, by the bounds of the boxes that are left; None where no
            bounds are known, infinity where they say nothing.
    """

    error: float
    at: Array
    evaluations: int
    starts: int
    boxes: int = 0
    pruned: float | None = None
    largest_left: float | None = None

    def __str__(self) -> str:
        effort = f"{self.evaluations:,} evaluations, {self.starts:,} starts"
        return f"largest error found {self.error:.6g} at {place(self.at)}; {effort}; {self.coverage}"

    def __repr__(self) -> str:
        return f"<Attack {self}>"

    def _card(self) -> Card:
        tried = f"{self.evaluations:,}, from {self.starts:,} starts"
        facts = {"at": place(self.at), "evaluations": tried, "coverage": self.coverage}
        return Card("Attack", "not a bound", f"largest error found {self.error:.6g}", facts)

    @property
    def coverage(self) -> str:
        """What was proved about the rest of the domain, in words."""
        if self.pruned is None or self.largest_left is None:
            return "no part of the domain could be left out: no bounds on boxes are known"
        share = f"{math.floor(1000 * self.pruned) / 10:.1f}%"  # rounded down: all but a little is not all
        known = math.isfinite(self.largest_left)
        rest = f"at most {self.largest_left:.6g} on the rest" if known else "nothing is known of the rest"
        return f"{share} of the domain proved to hold no larger error, {rest}"


def attack(
    run: Run,
    target: Target,
    network: Network,
    *,
    dtype: str = "float64",
    bounds: Bounds | None = None,
    seconds: float | None = SECONDS,
    evaluations: int | None = None,
    effort: Effort = NORMAL,
    seed: int = 0,
    progress: Callable[[float], None] | None = None,
) -> Attack:
    """The largest |run(x) - target(x)| found by a search, gradient ascent from many starts and interval pruning.

    With a limit of evaluations and none of seconds, the same seed finds the same point.

    Args:
        run: what is judged, at points of the domain, in the dtype that counts.
        target: what it is compared with.
        network: what runs: gradients are taken through its weights, and its heads' claims say where to look.
        dtype: in which it runs.
        bounds: from C boxes, (C, D) lower and upper ends, to proved upper bounds (C,) of the error on them.
        seconds: about how long; None: no limit.
        evaluations: at most so many; None: no limit.
        effort: of the search at the beginning.
        seed: of all that is random.
        progress: told the fraction of the budget spent.
    """
    check_end(seconds, evaluations)
    if seconds_left() < math.inf:
        seconds = max(min(math.inf if seconds is None else seconds, seconds_left()), SHORTEST)
    with at_least(LATE * (math.inf if seconds is None else seconds)):  # it keeps to its own clock
        box, tokens = point_box(target, network)
        judge, told = Judge(run, target, box, evaluations, seconds), progress or (lambda _: None)
        effort, climbers = _sizes(judge, tokens, effort)
        first = search_within(run, target, network, effort, seed=seed, progress=lambda _: told(judge.fraction))
        judge.spend(first.points)
        judge.remember(first.sup, first.at)
        hunt = Generations(judge, network, tokens, dtype, bounds, np.random.default_rng([seed, 1]))
        while hunt.worthwhile:
            told(judge.fraction)
            hunt.next(climbers)
        hunt.finish(CANDIDATES * climbers)
        told(1.0)
        boxes = hunt.boxes
        if boxes is None:
            return Attack(judge.error, judge.at, judge.count, hunt.starts)
        pruned, largest = boxes.pruned(judge.error), max(judge.error, float(boxes.bound.max()))
        return Attack(judge.error, judge.at, judge.count, hunt.starts, len(boxes), pruned, largest)


def _sizes(judge: Judge, tokens: int | None, effort: Effort) -> tuple[Effort, int]:
    """The effort of the search at the beginning, and the climbers of a generation, by what the budget allows."""
    effort = replace(effort, points=MORE * effort.points).within(judge.limit // 4)
    if judge.seconds is None:
        return effort, CLIMBERS

    def evaluate(points: npt.NDArray[np.longdouble]) -> Array:
        return gaps(judge.run, judge.target, points.astype(np.float64))

    seconds = judge.seconds
    judge(judge.at[None])  # the first call of a run also prepares it, and tells nothing of its pace
    taken = pace(evaluate, judge.box, tokens, seconds)
    climbers = PART * seconds / (CANDIDATES * max(taken, TINY))
    return affordable(effort, evaluate, judge.box, tokens, seconds / 4), int(np.clip(climbers, 1, CLIMBERS))


def check_end(seconds: float | None, evaluations: int | None) -> None:
    """Raise unless an attack has an end, and time or evaluations enough to be one."""
    if seconds is None and evaluations is None:
        raise TargetError("An attack needs an end", "neither seconds nor evaluations", "Give one of them")
    if seconds is not None and not (is_number(seconds) and seconds > 0):
        raise TargetError(
            "`seconds` must be positive", repr(seconds), "Use None and `evaluations` for no limit of time"
        )
    if evaluations is not None and not (is_number(evaluations) and evaluations >= FEWEST):
        raise TargetError(f"`evaluations` must be at least {FEWEST}", repr(evaluations), "Ask for more")

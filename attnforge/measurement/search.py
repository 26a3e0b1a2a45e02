"""The search itself: evaluate everywhere asked, then climb from the worst points found."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.display import Card, Displayed
from attnforge.effort import NORMAL, Effort, at_least, seconds_left
from attnforge.errors import TargetError, is_whole
from attnforge.measurement.gaps import CHUNK, Run, gaps, point_box
from attnforge.measurement.near_anchors import near_anchors
from attnforge.measurement.pace import affordable
from attnforge.measurement.points import line_points, random_points, risky_places
from attnforge.network import Network
from attnforge.targets import Box, Target

Array = npt.NDArray[np.float64]

HALVINGS = (3.0, 26.0)  # of the sides of the box, from the first to the last steps of the climb
SHORTEST = 0.1  # seconds: what is built and late is looked at for so long, or it could not be handed over
LATE = 4  # times what a search is to take, after which it gives up: it was paced by a few evaluations
LARGE = 2.0**-31  # of the values: a thousand times what those of a formula in float64 may be wrong by
ROUNDINGS = 64 * 2.0**-53  # of the values: errors of this size are a few roundings, which have no slope to climb
PATIENCE, GAIN = 4, 1.001  # rounds that together gain no more than this end the climb
FEWEST = 200  # sequences that a brief search evaluates
DECADES = 9.0  # over which steps near anchors spread: around a kink these lie 1e-6 apart, and the head errs in between


@dataclass(frozen=True, eq=False, repr=False)
class Measurement(Displayed):
    """The largest error found, where, and the root mean square error over random points. Never an upper bound."""

    sup: float
    at: Array
    rms: float
    points: int

    def __str__(self) -> str:
        return f"largest error found {self.sup:.6g} at {place(self.at)}; rms {self.rms:.6g}; {self.points:,} points"

    def __repr__(self) -> str:
        return f"<Measurement {self}>"

    def _card(self) -> Card:
        facts = {"at": place(self.at), "root mean square": f"{self.rms:.6g}", "points": f"{self.points:,}"}
        return Card("Measurement", "not a bound", f"largest error found {self.sup:.6g}", facts)


def place(point: Array) -> str:
    """A point in a few words."""
    return np.array2string(point, precision=6, threshold=8, separator=", ")


def search(
    run: Run,
    target: Target,
    network: Network,
    *,
    points: int = 100_000,
    effort: Effort = NORMAL,
    seed: int = 0,
    progress: Callable[[float], None] | None = None,
    seconds: float = math.inf,
    brief: bool = False,
) -> Measurement:
    """The largest |run(x) - target(x)| over random points, risky places and a climb from the worst of them.

    The target is evaluated in extended precision, so that its own rounding does not count as error. Risky places are
    the kinks of a truncated form and, for functions, the gaps between the anchors that heads claim. The root mean
    square is one over the random points alone.

    Args:
        run: what is judged, at points of the domain.
        target: what it is compared with.
        network: whose heads' claims say where to look.
        points: random ones; half as many more are drawn near anchors.
        effort: says how long to climb.
        seed: of the random points.
        progress: told the fraction done.
        seconds: that evaluating the target may take, about; fewer points are looked at where it is slow, at least one.
            It never takes more than is left of the time allowed. ``Measurement.points`` says how many were looked at.
        brief: of sequences, evaluate about as many tokens as points of a function, and so fewer sequences.
    """
    if not is_whole(points) or points < 1:
        raise TargetError("`points` must be a whole number, at least 1", repr(points), "Ask for more points")
    if not seconds > 0:
        raise TargetError("`seconds` must be positive", str(seconds), "Leave it out for no limit")
    effort, (box, tokens) = replace(effort, points=points), point_box(target, network)
    if brief and tokens:
        effort = effort.within(max(effort.evaluations // tokens, FEWEST))
    left = max(seconds_left(), SHORTEST)
    with at_least(LATE * left):
        if seconds < left:
            effort = affordable(effort, target.accurate, box, tokens, seconds)
        if left < math.inf:
            effort = affordable(effort, _both(run, target, box), box, tokens, left)
        return search_within(run, target, network, effort, seed=seed, progress=progress)


def _both(run: Run, target: Target, box: Box) -> Callable[[npt.NDArray[Any]], Array]:
    """Run and target at points: what one evaluation of a search costs."""
    run(box.middle[None])  # the first call of a run also prepares it, and tells nothing of its pace
    return lambda points: gaps(run, target, points.astype(np.float64))


def search_within(
    run: Run,
    target: Target,
    network: Network,
    effort: Effort,
    *,
    seed: int = 0,
    progress: Callable[[float], None] | None = None,
) -> Measurement:
    """The same search with a given effort."""
    rng, told = np.random.default_rng(seed), progress or (lambda _: None)
    box, tokens = point_box(target, network)
    random = random_points(box, tokens, effort.points, rng)
    near = np.empty((0, *box.shape)) if tokens else near_anchors(network, box, effort.points // 2, rng)
    places = _places(target, network, effort.points)
    line = line_points(target, box, tokens, max(effort.points // (4 * (tokens or 1)), 2), places)
    risky = np.concatenate([line, near])
    size = float(np.abs(run(random[:FEWEST])).max())
    judge = partial(_errors, run, target, rough=_is_large(run, target, random[:FEWEST], size))
    errors = judge(random, lambda done: told(0.6 * done))
    sets = [(random, errors)]
    if len(risky):
        sets.append((risky, judge(risky, lambda done: told(0.6 + 0.3 * done))))
    starts, worst = _worst(sets, effort.climbers)
    fine = len(near) > 0
    if not worst.max(initial=0.0) > ROUNDINGS * size:
        effort = replace(effort, rounds=0)
    ends = _climb(judge, box, starts, worst, _steps(box, len(starts), effort, fine, rng), PATIENCE if fine else 0)
    told(1.0)
    count, found = sum(e.size for _, e in sets) + len(starts) * effort.rounds * effort.tries, _errors(run, target, ends)
    top = int(found.argmax())
    return Measurement(float(found[top]), ends[top], root_mean_square(errors), count)


def _is_large(run: Run, target: Target, points: Array, size: float) -> bool:
    """Whether the error is so large against the values that values in float64 tell it to a thousandth."""
    return bool(np.abs(gaps(run, target, points)).max() > LARGE * size)


def root_mean_square(errors: Array) -> float:
    """Of errors of any size: their squares need not be numbers.

    >>> round(root_mean_square(np.array([3e200, 4e200])) / 1e200, 6)
    3.535534
    """
    largest = float(errors.max(initial=0.0))
    return largest * float(np.sqrt(np.mean(np.square(errors / largest)))) if 0 < largest < np.inf else largest


def _places(target: Target, network: Network, points: int) -> Array:
    """Risky values of the form, from what the heads claim, thinned to the number of points asked for."""
    try:
        form = target.truncated_form()
    except TargetError:
        return np.empty(0)
    found = [head.claims for head in network.heads if head.claims is not None]
    claimed = [claims.positions for claims in found if claims.positions.ndim == 1]
    positions = np.concatenate(claimed) if claimed else np.empty(0)
    places = risky_places(positions, (float(form.lower.mid), float(form.upper.mid)))
    return places[:: max(1, len(places) // points)]


def _errors(
    run: Run,
    target: Target,
    points: Array,
    progress: Callable[[float], object] = lambda _: None,
    rough: bool = False,
) -> Array:
    """The largest error over the outputs, at each point: (N,)."""
    step = max(1, CHUNK // max(1, int(np.prod(points.shape[1:-1]))))
    parts = []
    for i in range(0, len(points), step):
        chunk = points[i : i + step]
        parts.append(np.abs(gaps(run, target, chunk, rough)).max(axis=1))
        progress(min(1.0, (i + step) / len(points)))
    return np.concatenate(parts)


def _worst(sets: list[tuple[Array, Array]], count: int) -> tuple[Array, Array]:
    points, errors = np.concatenate([p for p, _ in sets]), np.concatenate([e for _, e in sets])
    order = np.argsort(errors)[::-1][:count]
    return points[order], errors[order]


def _steps(box: Box, climbers: int, effort: Effort, fine: bool, rng: np.random.Generator) -> Iterator[Array]:
    """Steps (climbers, tries, ...) of each round: normal ones, smaller in every round.

    With ``fine`` every second one has a random scale of its own along every input, down to the gaps of a graded row,
    and leaves some of several inputs where they are.
    """
    shape, sides = (climbers, effort.tries, *box.shape), box.upper - box.lower
    signs = [-1.0, 1.0] if sides.size == 1 else [-1.0, 0.0, 1.0]
    for halvings in np.linspace(*HALVINGS, effort.rounds):
        steps = rng.normal(size=shape) * (sides * 2.0**-halvings)
        if fine:
            scales = rng.choice(signs, size=shape) * 10.0 ** -rng.uniform(0.0, DECADES, size=shape)
            steps[:, 1::2] = (sides * scales)[:, 1::2]
        yield steps


def _climb(
    judge: Callable[[Array], Array], box: Box, starts: Array, worst: Array, steps: Iterable[Array], patience: int
) -> Array:
    """Take each round's steps (climbers, tries, ...) around each start, keeping what is worse, while that gains.

    Without ``patience`` to the end: steps that get smaller gain late.
    """
    tops = [float(worst.max(initial=0.0))]
    for step in steps:
        tries = np.clip(starts[:, None] + step, box.lower, box.upper)
        errors = judge(tries.reshape(-1, *starts.shape[1:])).reshape(step.shape[:2])
        best = errors.argmax(axis=1)
        found = errors[np.arange(len(starts)), best]
        better = found > worst
        starts = np.where(better.reshape(-1, *(1,) * (starts.ndim - 1)), tries[np.arange(len(starts)), best], starts)
        worst = np.maximum(worst, found)
        tops.append(float(worst.max()))
        if 0 < patience < len(tops) and tops[-1] <= GAIN * tops[-1 - patience]:
            break
    return starts

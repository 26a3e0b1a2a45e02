"""The search itself: evaluate everywhere asked, then climb from the worst points found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.errors import TargetError
from attnforge.measurement.points import line_points, random_points, risky_places
from attnforge.network import Network
from attnforge.targets import Box, Target

Array = npt.NDArray[np.float64]
AnyArray = npt.NDArray[Any]

CHUNK = 20_000  # points evaluated at a time
CLIMBERS = 16
ROUNDS = 24
TRIES = 24


@dataclass(frozen=True, eq=False)
class Measurement:
    """The largest error found, where, and the root mean square error over random points. Never an upper bound."""

    sup: float
    at: Array
    rms: float
    points: int

    def __str__(self) -> str:
        where = np.array2string(self.at, precision=6, threshold=8, separator=", ")
        return f"largest error found {self.sup:.6g} at {where}; rms {self.rms:.6g}; {self.points:,} points"


def search(
    run: Callable[[Array], AnyArray],
    target: Target,
    network: Network,
    *,
    points: int = 100_000,
    seed: int = 0,
    progress: Callable[[float], None] | None = None,
) -> Measurement:
    """The largest |run(x) - target(x)| over random points, risky places and a climb from the worst of them.

    The target is evaluated in extended precision, so that its own rounding does not count as error. ``progress`` is
    told the fraction done.
    """
    if points < 1:
        raise TargetError("`points` must be at least 1", str(points), "Ask for more points")
    rng = np.random.default_rng(seed)
    box, tokens = _shapes(target, network)
    random = random_points(box, tokens, points, rng)
    risky = line_points(target, box, tokens, max(points // (4 * (tokens or 1)), 2), _places(target, network, points))
    errors = _errors(run, target, random, lambda done: progress and progress(0.6 * done))
    sets = [(random, errors)]
    if len(risky):
        sets.append((risky, _errors(run, target, risky, lambda done: progress and progress(0.6 + 0.3 * done))))
    starts, worst = _worst(sets)
    at, sup = _climb(run, target, box, starts, worst, rng)
    if progress:
        progress(1.0)
    count = sum(e.size for _, e in sets) + CLIMBERS * ROUNDS * TRIES
    rms = float(np.sqrt(np.mean(np.square(errors))))
    return Measurement(sup, at, rms, count)


def _shapes(target: Target, network: Network) -> tuple[Box, int | None]:
    """The box a single point lives in, and the number of tokens (None for functions)."""
    if target.layout == "function":
        return target.domain, None
    tokens = network.tokens or 1
    return target.domain.fixed((tokens, network.features)), tokens


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
    run: Callable[[Array], AnyArray],
    target: Target,
    points: Array,
    progress: Callable[[float], object] = lambda _: None,
) -> Array:
    """The largest error over the outputs, at each point: (N,)."""
    step = max(1, CHUNK // max(1, int(np.prod(points.shape[1:-1]))))
    parts = []
    for i in range(0, len(points), step):
        chunk = points[i : i + step]
        gap = np.abs(run(chunk) - target.values(chunk.astype(np.longdouble)))
        parts.append(gap.reshape(len(chunk), -1).max(axis=1).astype(np.float64))
        progress(min(1.0, (i + step) / len(points)))
    return np.concatenate(parts)


def _worst(sets: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    points, errors = np.concatenate([p for p, _ in sets]), np.concatenate([e for _, e in sets])
    order = np.argsort(errors)[::-1][:CLIMBERS]
    return points[order], errors[order]


def _climb(
    run: Callable[[Array], AnyArray], target: Target, box: Box, starts: Array, worst: Array, rng: np.random.Generator
) -> tuple[Array, float]:
    """Random steps of shrinking size around each start, keeping what is worse."""
    size = (box.upper - box.lower) / 8
    for _ in range(ROUNDS):
        steps = rng.normal(size=(len(starts), TRIES, *starts.shape[1:])) * size
        tries = np.clip(starts[:, None] + steps, box.lower, box.upper)
        errors = _errors(run, target, tries.reshape(-1, *starts.shape[1:])).reshape(len(starts), TRIES)
        best = errors.argmax(axis=1)
        found = errors[np.arange(len(starts)), best]
        better = found > worst
        starts = np.where(better.reshape(-1, *(1,) * (starts.ndim - 1)), tries[np.arange(len(starts)), best], starts)
        worst = np.maximum(worst, found)
        size = size / 2
    top = int(worst.argmax())
    return starts[top], float(worst[top])

r"""Climbing the error from many starts at once: projected gradient steps with backtracking, and random ones.

Every climber goes up $\sigma_i e_{j_i}$, $e = \mathrm{net} - f$, where $j_i$ is the output that errs most at its place
and $\sigma_i$ the sign of that error. Lengths are in sides of the box; a component that points out of the box is
dropped at its border. Only errors of the actual run are believed: a step that looked good to the gradient but is not
worse in the dtype that runs is not taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.measurement.judge import Judge, Judged
from attnforge.measurement.slopes import Gradient
from attnforge.targets import Box

Array = npt.NDArray[np.float64]

LENGTHS = (4.0, 1.0, 0.25, 1 / 16)  # of the climber's step, tried at once: longer, the same, and backtracking twice
RANDOM = 4  # tries beside them, for kinks and for errors as small as rounding
TRIES = len(LENGTHS) + RANDOM
SHRINK = 1 / 64  # of the step where no length was worse
FIRST, SHORTEST = (-4.0, -1.5), 2.0**-50  # powers of ten a step starts between, and where it starts anew
DECADES = 9.0  # over which random tries spread: anchors around a kink lie 1e-6 apart


@dataclass(frozen=True, eq=False)
class Climbers:
    """Places with their errors, and each climber's step (N,), as a part of the box's sides."""

    here: Judged
    step: Array

    def worst(self, count: int) -> Climbers:
        """Those who are highest."""
        order = np.argsort(-self.here.error, kind="stable")[:count]
        return Climbers(self.here.take(order), self.step[order])


@dataclass(frozen=True, eq=False)
class Slope:
    """Gradients of network and target, and the values of the target that one of the latter costs."""

    network: Gradient
    target: Gradient
    cost: int

    @property
    def round(self) -> int:
        """Evaluations that one climber makes in one round."""
        return TRIES + 1 + self.cost

    def uphill(self, here: Judged, box: Box, rng: np.random.Generator) -> Array:
        """Directions (N, ...) in which the error grows, longest component 1, in sides of the box.

        Where there is no slope, or only one out of the box, a random one.
        """
        raw = self.network(here.at, here.which) - self.target(here.at, here.which)
        sides = box.upper - box.lower
        scaled = np.where(np.isfinite(raw), raw, 0.0) * _per_point(here.sign, raw) * sides
        outward = ((here.at <= box.lower) & (scaled < 0)) | ((here.at >= box.upper) & (scaled > 0))
        scaled = np.where(outward | (sides == 0), 0.0, scaled)
        longest = np.abs(scaled).reshape(len(here), -1).max(axis=1)
        instead = rng.uniform(-1.0, 1.0, size=scaled.shape)
        length = _per_point(np.where(longest > 0, longest, 1.0), scaled)
        return np.where(_per_point(longest, scaled) > 0, scaled / length, instead)


def starting(here: Judged, rng: np.random.Generator) -> Climbers:
    """Climbers at these places, with first steps of many lengths."""
    return Climbers(here, 10.0 ** rng.uniform(*FIRST, size=len(here)))


def climb(climbers: Climbers, judge: Judge, slope: Slope, rng: np.random.Generator) -> Climbers:
    """One round for all climbers: try every length and the random steps, move where that is worse."""
    here, box, count = climbers.here, judge.box, len(climbers.here)
    sides = box.upper - box.lower
    direction = slope.uphill(here, box, rng)
    judge.spend(count * (1 + slope.cost))
    along = [_per_point(climbers.step * length, direction) * direction for length in LENGTHS]
    steps = np.stack([*along, *(_random_steps(direction.shape, rng) for _ in range(RANDOM))], axis=1) * sides
    tries = np.clip(here.at[:, None] + steps, box.lower, box.upper)
    found = judge(tries.reshape(-1, *here.at.shape[1:]))
    best = found.error.reshape(count, TRIES).argmax(axis=1)
    chosen = found.take(np.arange(count) * TRIES + best)
    worse = chosen.error > here.error
    return Climbers(_where(worse, chosen, here), _next_steps(climbers.step, worse, best, rng))


def _next_steps(
    step: Array, worse: npt.NDArray[np.bool_], best: npt.NDArray[np.intp], rng: np.random.Generator
) -> Array:
    """The length that was best; less where none was, and anew where there is no less."""
    lengths = np.array([*LENGTHS, *[1.0] * RANDOM])
    step = np.clip(np.where(worse, step * lengths[best], step * SHRINK), 0.0, 1.0)
    return np.where(step < SHORTEST, 10.0 ** rng.uniform(*FIRST, size=len(step)), step)


def _random_steps(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Steps with a scale of their own along every input; of several inputs, some stay where they are."""
    signs = [-1.0, 1.0] if int(np.prod(shape[1:])) == 1 else [-1.0, 0.0, 1.0]
    return np.asarray(rng.choice(signs, size=shape) * 10.0 ** -rng.uniform(0.0, DECADES, size=shape))


def _where(condition: npt.NDArray[np.bool_], one: Judged, other: Judged) -> Judged:
    return Judged(
        np.where(_per_point(condition, one.at), one.at, other.at),
        np.where(condition, one.error, other.error),
        np.where(condition, one.which, other.which),
        np.where(condition, one.sign, other.sign),
    )


def _per_point(values: npt.NDArray[Any], like: Array) -> npt.NDArray[Any]:
    """Values (N,) as (N, 1, .., 1), to go with points (N, ...)."""
    return values.reshape(-1, *(1,) * (like.ndim - 1))

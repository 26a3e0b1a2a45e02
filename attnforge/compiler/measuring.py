"""The public ``measure``: the largest error that can be found, by running the compiled network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.compiler.compiled import Compiled
from attnforge.compiler.targets import compared_with
from attnforge.errors import DomainError
from attnforge.measurement import Measurement, search
from attnforge.targets.table import Table

CHUNK = 20_000  # listed points evaluated at a time


def measure(
    compiled: Compiled,
    target: Any = None,
    points: int = 100_000,
    *,
    seed: int = 0,
    seconds: float | None = None,
    progress: Callable[[float], None] | None = None,
) -> Measurement:
    """The largest |net(x) - f(x)| found on random points, risky places and by climbing: a lower bound of the error.

    A table is compared at all its listed points, and nowhere else: there the error is the largest there is.

    Args:
        compiled: what to run, in its own dtype.
        target: what to compare with; its own target by default.
        points: how many random points; tables have their own.
        seed: of the random points.
        seconds: about how long the target may be evaluated; fewer points are looked at where it is slow.
        progress: called with the fraction done.
    """
    against = compared_with(compiled.target, target)
    if isinstance(against, Table):
        return _at_listed_points(compiled, against, progress)

    def run(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return compiled.at_points(x)

    return search(run, against, compiled.network, points=points, seed=seed, progress=progress, seconds=seconds)


def _at_listed_points(compiled: Compiled, table: Table, progress: Callable[[float], None] | None) -> Measurement:
    """The error at every listed point: the largest over the outputs, where it is, and the root mean square."""
    if table.domain.shape != compiled.domain.shape:
        got = f"points of shape {table.domain.shape}"
        raise DomainError(f"The network takes points of shape {compiled.domain.shape}", got, "Choose a fitting table")
    errors = np.empty(len(table.points))
    for i in range(0, len(errors), CHUNK):
        wanted = table.table_values[i : i + CHUNK]
        missed = np.abs(compiled.at_points(table.points[i : i + CHUNK]).reshape(wanted.shape) - wanted)
        errors[i : i + CHUNK] = missed.reshape(len(wanted), -1).max(axis=1)
        if progress:
            progress(min(1.0, (i + CHUNK) / len(errors)))
    worst = int(errors.argmax())
    return Measurement(float(errors[worst]), table.points[worst], float(np.sqrt((errors**2).mean())), len(errors))

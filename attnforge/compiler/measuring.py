"""The public ``measure``: the largest error that can be found, by running the compiled network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.compiler.compiled import Compiled
from attnforge.compiler.targets import as_target, named_domain
from attnforge.measurement import Measurement, search


def measure(
    compiled: Compiled,
    target: Any = None,
    points: int = 100_000,
    *,
    seed: int = 0,
    progress: Callable[[float], None] | None = None,
) -> Measurement:
    """The largest |net(x) - f(x)| found on random points, risky places and by climbing: a lower bound of the error.

    Args:
        compiled: what to run, in its own dtype.
        target: what to compare with; its own target by default.
        points: how many random points.
        seed: of the random points.
        progress: called with the fraction done.
    """
    against = as_target(compiled.target if target is None else target, named_domain(compiled.target))

    def run(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return compiled.at_points(x)

    return search(run, against, compiled.network, points=points, seed=seed, progress=progress)

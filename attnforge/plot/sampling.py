"""Values of target and network for a figure: as many as a few seconds allow, from coarse to fine."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from attnforge.certification import Certificate
from attnforge.network import Network
from attnforge.targets import Target

Array = npt.NDArray[np.float64]

SECONDS = 5.0  # a figure may take, about, where the target or the network is slow


class Sectionable(Protocol):
    """What a figure needs of a compiled target."""

    network: Network
    target: Target
    certificate: Certificate
    construction: str

    def at_points(self, points: Array) -> Array:
        """Values at points of the domain."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Points (N, ...), and at each of them target and output (N, k) and the largest error over the k outputs (N,)."""

    points: Array
    wanted: Array
    found: Array
    error: Array


def sampled(compiled: Sectionable, points: Array) -> Sample:
    """Both at the points; the target in extended precision, so that its own rounding does not count as error."""
    exact = np.asarray(compiled.target.values(points.astype(np.longdouble))).reshape(len(points), -1)
    return compared(compiled, points, exact)


def compared(compiled: Sectionable, points: Array, exact: npt.NDArray[Any]) -> Sample:
    """The network at points where the target's values (N, k) are known."""
    found = np.asarray(compiled.at_points(points)).reshape(len(points), -1)
    error = np.abs(found - exact).max(axis=1)
    return Sample(points, exact.astype(np.float64), found.astype(np.float64), error.astype(np.float64))


def finest(compiled: Sectionable, grids: Sequence[Array], seconds: float = SECONDS) -> Sample:
    """Samples at the last of several sets of points, coarse ones first, that the time allows.

    A callable remembers its values, so that on nested grids nothing is evaluated twice.
    """
    sample, taken = _timed(compiled, grids[0])
    for points in grids[1:]:
        if taken * len(points) / len(sample.points) > seconds:
            break
        sample, taken = _timed(compiled, points)
    return sample


def _timed(compiled: Sectionable, points: Array) -> tuple[Sample, float]:
    started = time.perf_counter()
    return sampled(compiled, points), time.perf_counter() - started

"""Values of target and network for a figure: as many as a few seconds allow, from coarse to fine."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from attnforge.certification import Certificate
from attnforge.errors import AttnforgeError
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


def known_values(target: Target, points: Array) -> Array | None:
    """The target's values, unless its code was not stored."""
    try:
        return np.asarray(target.values(points), dtype=np.float64)
    except AttnforgeError:
        return None


def first_token(target: Target, values: Any, output: int | None = None) -> Array:
    """The value (N,) at every point; of sequences that of the first token; of several outputs one, or the target's."""
    array = np.asarray(values, dtype=np.float64)
    if target.layout == "tokens":
        array = array[:, 0]
    if getattr(target, "outputs", None) is None:
        return array
    return array[..., getattr(target, "output", 0) if output is None else output]


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

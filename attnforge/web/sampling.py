"""Networks at many points, a few at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.plot.sampling import Sample, sampled

Array = npt.NDArray[np.float64]

BATCH = 2**17  # points times keys: larger batches start loops that every fresh process would first have to compile


class Piecewise:
    """A network that is run on batches below that size."""

    def __init__(self, net: Any) -> None:
        self.network, self.target, self.certificate = net.network, net.target, net.certificate
        self.construction, self._run = net.construction, net.at_points
        self._step = max(16, BATCH // max(1, net.anchors))

    def at_points(self, points: Array) -> Array:
        """Values at points of the domain."""
        starts = range(0, len(points), self._step)
        return np.concatenate([self._run(points[i : i + self._step]) for i in starts])


def sample_at(net: Any, points: Array) -> Sample:
    """Target and output at the points."""
    return sampled(Piecewise(net), points)

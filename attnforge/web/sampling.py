"""Networks at many points, a few at a time."""

from __future__ import annotations

from collections.abc import Callable
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
        self.construction, self._net = net.construction, net

    def at_points(self, points: Array) -> Array:
        """Values at points of the domain."""
        return in_batches(self._net, self._net.at_points, points)


def in_batches(net: Any, run: Callable[[Array], Array], points: Array) -> Array:
    """What a function of the network's keys makes of points, batch by batch."""
    step = max(16, BATCH // max(1, net.anchors))
    return np.concatenate([run(points[i : i + step]) for i in range(0, len(points), step)])


def sample_at(net: Any, points: Array) -> Sample:
    """Target and output at the points."""
    return sampled(Piecewise(net), points)

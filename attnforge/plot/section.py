"""A section through any compiled target: along the diagonal of its domain, value and error against the bound."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from attnforge.certification import Certificate
from attnforge.network import Network
from attnforge.plot.style import BLUE, GREY, ORANGE, draw_error, title
from attnforge.targets import Target

Array = npt.NDArray[np.float64]

SAMPLES = 1001


class Sectionable(Protocol):
    """What the figure needs of a compiled target."""

    network: Network
    target: Target
    certificate: Certificate
    construction: str

    def at_points(self, points: Array) -> Array:
        """Values at points of the domain."""


def section(compiled: Sectionable) -> Any:
    """Two panels on the line from the lower to the upper corner of the domain, which is all of it for one input.

    Above, the target and the network's output (the first entry of several); below, the largest error over the outputs
    against the certified bound. Cells of one input are marked at their centres.
    """
    from matplotlib.figure import Figure

    lower, upper = compiled.target.domain.lower, compiled.target.domain.upper
    s = np.linspace(0.0, 1.0, SAMPLES)
    points = lower + s.reshape(-1, *(1,) * lower.ndim) * (upper - lower)
    wanted = np.asarray(compiled.target.values(points), dtype=np.float64).reshape(SAMPLES, -1)
    found = compiled.at_points(points).reshape(SAMPLES, -1)
    alone = lower.size == 1
    along = points.ravel() if alone else s

    figure = Figure(figsize=(7.2, 5.4), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1.6))
    top.plot(along, wanted[:, 0], color=GREY, lw=3.5, alpha=0.5, label="target")
    top.plot(along, found[:, 0], color=BLUE, lw=1.3, label="attention output")
    if alone:
        _centres(top, compiled)
    top.set_ylabel("value" if wanted.shape[1] == 1 else f"value (first of {wanted.shape[1]})")
    top.legend(loc="best", frameon=False, fontsize=9)
    title(top, compiled.construction, compiled.target.describe())
    draw_error(bottom, along, np.abs(found - wanted).max(axis=1), compiled.certificate)
    names = compiled.target.names
    bottom.set_xlabel((names or ("x",))[0] if alone else "position on the diagonal of the domain")
    figure.align_ylabels([top, bottom])
    return figure


def _centres(axes: Any, compiled: Sectionable) -> None:
    """The keys' centres with their values, where keys are cells of one input."""
    head = compiled.network.heads[-1]
    if head.claims is None or head.claims.positions.ndim != 2 or head.memory_values is None:
        return
    at, roles = head.claims.positions[:, 0], np.array(head.claims.roles)
    inside = roles != "ghost"
    size, label = 14 if inside.sum() <= 80 else 3, f"cells ({inside.sum()})"
    axes.scatter(at[inside], head.memory_values[inside, 0], s=size, color=ORANGE, zorder=3, label=label)

"""How far from optimal: the error of a head, and that of the best values for its keys, which alternates."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.certification.optimality import Levelled
from attnforge.plot.panels import Size, panels
from attnforge.plot.style import BLUE, GREY, ORANGE, WIDTH

Array = npt.NDArray[np.float64]


def optimality(
    best: Levelled, errors: Array, construction: str, text: str, ax: Any = None, figsize: Size | None = None
) -> Any:
    """A figure of a network's errors, of the best values' ones, and of the level below which no values stay."""
    drawn = panels(ax, figsize, (WIDTH, 3.2))
    axes = drawn.axes[0]
    axes.axhspan(-best.lower, best.lower, color=GREY, alpha=0.15, lw=0, label="no values stay within")
    axes.plot(best.grid, errors, color=ORANGE, lw=1, label="this network")
    axes.plot(best.grid, best.errors, color=BLUE, lw=1, label="the best values found")
    axes.plot(best.points, np.interp(best.points, best.grid, best.errors), "o", ms=3, color=BLUE)
    axes.set(xlabel="x", ylabel="target - output")
    axes.margins(x=0.01)
    drawn.legend(axes)
    drawn.head(construction, text)
    return drawn.finished()

"""How far from optimal: the error of a head, and that of the best values for its keys, which alternates."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.certification.optimality import Levelled
from attnforge.plot.style import BLUE, GREY, ORANGE, WIDTH, figure_title, legend_above

Array = npt.NDArray[np.float64]


def optimality(best: Levelled, errors: Array, construction: str, text: str) -> Any:
    """A figure of a network's errors, of the best values' ones, and of the level below which no values stay."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, 3.2), layout="constrained")
    axes = figure.subplots()
    axes.axhspan(-best.lower, best.lower, color=GREY, alpha=0.15, lw=0, label="no values stay within")
    axes.plot(best.grid, errors, color=ORANGE, lw=1, label="this network")
    axes.plot(best.grid, best.errors, color=BLUE, lw=1, label="the best values found")
    axes.plot(best.points, np.interp(best.points, best.grid, best.errors), "o", ms=3, color=BLUE)
    axes.set(xlabel="x", ylabel="target - output")
    axes.margins(x=0.01)
    figure_title(figure, construction, text)
    legend_above(axes)
    return figure

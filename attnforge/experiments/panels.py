"""Figures of panels: curves through columns of a table, repeated runs as bands, one legend below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attnforge.experiments.table import Table
from attnforge.plot.rates import Curve, draw_rates, hide_unused, legend_below, page_wide, ticks_at

Look = tuple[str, str, str]  # colour, marker, dash


@dataclass(frozen=True)
class Panel:
    """What a panel shows: its curves, labels, the slopes to compare with, and numbers at which alone x has ticks."""

    curves: Sequence[Curve]
    x_label: str = ""
    y_label: str = ""
    title: str = ""
    slopes: Sequence[float] = ()
    logarithmic: tuple[bool, bool] = (True, True)
    ticks: Sequence[int] = ()

    def draw(self, axes: Any) -> None:
        """Draw it."""
        labels = {"x_label": self.x_label, "y_label": self.y_label, "title": self.title}
        draw_rates(axes, self.curves, **labels, slopes=self.slopes, logarithmic=self.logarithmic)
        if self.ticks:
            ticks_at(axes, self.ticks)


def page(
    panels: Sequence[Panel],
    height: float,
    *,
    columns: int = 0,
    legend: int = 3,
    sharex: Any = False,
    sharey: Any = False,
) -> Any:
    """A figure as wide as a page, so many panels a row, by default all of them.

    The legend of the first panel stands below, in so many columns; none for 0. An axis that panels share is labelled
    once: x where no panel is below, y in the first column.
    """
    columns = columns or max(1, len(panels))
    figure = page_wide(height)
    rows = max(1, -(-len(panels) // columns))
    axes = figure.subplots(rows, columns, squeeze=False, sharex=sharex, sharey=sharey).ravel()
    for i, (each, panel) in enumerate(zip(axes, panels, strict=False)):
        above, right = sharex and i < len(panels) - columns, sharey and i % columns
        x_label, y_label = "" if above else panel.x_label, "" if right else panel.y_label
        replace(panel, x_label=x_label, y_label=y_label).draw(each)
        if sharex and not above:
            each.tick_params(labelbottom=True)
    hide_unused(axes, len(panels))
    if legend:
        legend_below(figure, axes[0], legend)
    return figure


def curve(name: str, rows: Table, x: str, y: str, look: Look | None = None, *, floor: float | None = None) -> Curve:
    """One column against another; what is below the floor is drawn there, as logarithmic axes have no zero."""
    across, along = rows.points(x, y)
    return Curve(name, across, along if floor is None else np.maximum(along, floor), look=look)


def band(name: str, rows: Table, x: str, y: str, look: Look | None = None, *, middle: Any = np.median) -> Curve:
    """Repeated runs: the median of a column for every value of another one, in the band of all of them."""
    found = rows.grouped(x, y)
    at, low, high = ([float(of(each)) for each in found.values()] for of in (middle, np.min, np.max))
    return Curve(name, list(found), at, low, high, look)


def curves(rows: Table, by: str, x: str, y: str, name: str = "{}", **options: Any) -> list[Curve]:
    """A curve for every value of a column, in the order in which they appear; its name has the value in it."""
    return [curve(name.format(value), each, x, y, **options) for value, each in rows.by(by).items()]

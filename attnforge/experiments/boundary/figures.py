"""Errors near the end, transitions moved to it, and borders between heads, drawn."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.experiments.boundary.cells import CELLS, FITTED, as_function, cell_networks
from attnforge.experiments.boundary.findings import shapes
from attnforge.experiments.boundary.heads import KINDS, LOWER, PLACES, UPPER, borders, placed, shared_row, step
from attnforge.experiments.boundary.settings import MIDDLE, BoundarySettings
from attnforge.experiments.boundary.targets import smooth_target, title
from attnforge.experiments.table import Table
from attnforge.plot.rates import SERIES, Curve, draw_rates, hide_unused, legend_below, page_wide, plain, ticks_at

Array = npt.NDArray[np.float64]

FLOOR = 1e-8  # below which errors are drawn as this


def smooth_figure(table: Table, settings: BoundarySettings) -> Any:
    """Errors under e^x near the end, and how they fall with the number of cells."""
    figure = page_wide(3.2)
    left, right = figure.subplots(1, 2)
    f, cells = smooth_target("exp"), settings.cells
    away = np.linspace(0, 12, 1201)
    x = 1 - away / cells
    for (method, run), (colour, _, dash) in zip(cell_networks(f, cells).items(), SERIES, strict=False):
        left.semilogy(
            away, _largest_around(np.abs(run(x) - f(x[:, None])), 50), color=colour, ls=dash, lw=1.1, label=method
        )
    plain(left, "steps from the end", "largest error within half a step", f"e^x, {cells} cells")
    curves = []
    for i, method in enumerate(CELLS):
        rows, (colour, marker, _) = table.where(part="smooth", target="exp", method=method), SERIES[i]
        curves.append(Curve(f"{method}: near the end", *rows.points("cells", "end"), look=(colour, marker, "-")))
        curves.append(Curve("_", *rows.points("cells", "inside"), look=(colour, "", ":")))
    draw_rates(right, curves, x_label="cells", y_label="largest error", title="e^x, near the end; dotted: inside")
    ticks_at(right, settings.sizes)
    legend_below(figure, left, 3)
    return figure


def transition_figure(table: Table) -> Any:
    """A panel a transition: errors against its distance from the end."""
    shown = shapes(table)
    columns = 3 if len(shown) > 4 else 2
    lines = math.ceil(len(shown) / columns)
    figure = page_wide(0.5 + 2.1 * lines)
    panels = figure.subplots(lines, columns, squeeze=False, sharex=True, sharey=True)
    for i, (axes, (name, width)) in enumerate(zip(panels.ravel(), shown, strict=False)):
        below, first = i + columns >= len(shown), i % columns == 0
        draw_rates(
            axes,
            [_moved(table, name, width, method) for method in (*CELLS, FITTED)],
            x_label="steps from the end to the transition" if below else "",
            y_label="largest error" if first else "",
            title=title(name, width),
        )
        axes.set_xscale("symlog", linthresh=1.0)
        axes.set_xticks([0, 1, 2, 4, 8, 32], ["0", "1", "2", "4", "8", "inside"])
        axes.minorticks_off()
        axes.tick_params(labelbottom=below)
    hide_unused(panels.ravel(), len(shown))
    legend_below(figure, panels[0][0], 4)
    return figure


def heads_figure(settings: BoundarySettings) -> Any:
    """The error in a row of heads, with its sentinels correct, shifted and missing."""
    figure = page_wide(3.0)
    panels = figure.subplots(1, 2, sharey=True)
    y = np.linspace(LOWER, UPPER, 8001)
    half = int(step(settings.heads, settings.keys) / (y[1] - y[0]) / 2)
    for axes, kind in zip(panels, KINDS, strict=True):
        network = shared_row(kind, settings.heads, settings.keys)
        for place, (colour, _, dash) in zip(PLACES, (SERIES[0], SERIES[3], SERIES[6]), strict=True):
            error = np.abs(as_function(placed(network, place))(y) - y)
            axes.semilogy(y, _largest_around(error, half), color=colour, ls=dash, lw=1.1, label=f"sentinels {place}")
        for border in borders(settings.heads, settings.keys):
            axes.axvline(border, color="#bbbbbb", lw=0.6, zorder=0)
        plain(
            axes,
            "y; grey: borders between heads",
            "largest error within half a step" if kind == "hard" else "",
            f"{settings.heads} {kind} heads",
        )
    legend_below(figure, panels[0], 3)
    return figure


def _moved(table: Table, name: str, width: float, method: str) -> Curve:
    """Errors against distance, those in the interior as one point, the worst of them; tiny ones at FLOOR."""
    rows = table.where(part="near", target=name, width=width, method=method).ordered("distance")
    distance, error = rows.numbers("distance"), np.maximum(rows.numbers("error"), FLOOR)
    near = distance < MIDDLE
    inside = error[~near].max(initial=0.0) or np.nan
    return Curve(method, [*distance[near], 32.0], [*error[near], inside])


def _largest_around(error: Array, half: int) -> Array:
    """The largest error among so many neighbours on both sides: an envelope, without the zeros in between."""
    padded = np.pad(error, half, mode="edge")
    return np.asarray(np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1).max(axis=1))

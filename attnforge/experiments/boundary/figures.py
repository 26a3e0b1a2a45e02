"""Errors near the end, transitions moved to it, and borders between heads, drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from attnforge.experiments.boundary import networks
from attnforge.experiments.boundary.findings import shapes
from attnforge.experiments.boundary.networks import CELLS, ENDS, FITTED, KINDS, MIDDLE, PLACES, as_function, title
from attnforge.experiments.panels import Look, Panel, curve, page
from attnforge.experiments.table import Array, Table
from attnforge.plot.rates import SERIES, Curve, legend_below, page_wide, plain

FLOOR = 1e-8  # below which errors are drawn as this
AWAY = "steps from the end to the transition"
ENVELOPE = "largest error within half a step"


def smooth_figure(table: Table, cells: int, sizes: Sequence[int]) -> Any:
    """Errors under e^x near the end, and how they fall with the number of cells."""
    figure = page_wide(3.2)
    left, right = figure.subplots(1, 2)
    f, away = networks.smooth_target("exp"), np.linspace(0, 12, 1201)
    x = 1 - away / cells
    for (method, run), look in zip(networks.cell_networks(f, cells).items(), SERIES, strict=False):
        _draw_envelope(left, away, np.abs(run(x) - f(x[:, None])), 50, method, look)
    plain(left, "steps from the end", ENVELOPE, f"e^x, {cells} cells")
    curves = []
    for method, (colour, marker, _) in zip(CELLS, SERIES, strict=False):
        rows = table.where(part="smooth", target="exp", method=method)
        curves.append(curve(f"{method}: near the end", rows, "cells", "end", (colour, marker, "-")))
        curves.append(curve("_", rows, "cells", "inside", (colour, "", ":")))
    Panel(curves, "cells", "largest error", "e^x, near the end; dotted: inside", ticks=sizes).draw(right)
    legend_below(figure, left, 3)
    return figure


def transition_figure(table: Table) -> Any:
    """A panel a transition: errors against its distance from the end."""
    shown = shapes(table)
    columns = 3 if len(shown) > 4 else 2
    moved = {shape: [_moved(table, *shape, method) for method in (*CELLS, FITTED)] for shape in shown}
    panels = [Panel(each, AWAY, "largest error", title(*shape)) for shape, each in moved.items()]
    height = 0.5 + 2.1 * -(-len(shown) // columns)
    figure = page(panels, height, columns=columns, legend=4, sharex=True, sharey=True)
    for axes in figure.axes[: len(shown)]:
        axes.set_xscale("symlog", linthresh=1.0)
        axes.set_xticks([0, 1, 2, 4, 8, 32], ["0", "1", "2", "4", "8", "inside"])
        axes.minorticks_off()
    return figure


def heads_figure(heads: int, keys: int) -> Any:
    """The error in a row of heads, with its sentinels correct, shifted and missing."""
    figure = page_wide(3.0)
    panels = figure.subplots(1, 2, sharey=True)
    y = np.linspace(*ENDS, 8001)
    borders, h = networks.borders(heads, keys)
    half = int(h / (y[1] - y[0]) / 2)
    for axes, kind in zip(panels, KINDS, strict=True):
        network = networks.shared_row(kind, heads, keys)
        for place, look in zip(PLACES, (SERIES[0], SERIES[3], SERIES[6]), strict=True):
            error = np.abs(as_function(networks.placed(network, place))(y) - y)
            _draw_envelope(axes, y, error, half, f"sentinels {place}", look)
        for border in borders:
            axes.axvline(border, color="#bbbbbb", lw=0.6, zorder=0)
        label = ENVELOPE if kind == "hard" else ""
        plain(axes, "y; grey: borders between heads", label, f"{heads} {kind} heads")
    legend_below(figure, panels[0], 3)
    return figure


def _draw_envelope(axes: Any, x: Array, error: Array, half: int, name: str, look: Look) -> None:
    """The largest error among so many neighbours on both sides: without the zeros in between."""
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(error, half, mode="edge"), 2 * half + 1)
    axes.semilogy(x, windows.max(axis=1), color=look[0], ls=look[2], lw=1.1, label=name)


def _moved(table: Table, name: str, width: float, method: str) -> Curve:
    """Errors against distance, those in the interior as one point, the worst of them; tiny ones at FLOOR."""
    rows = table.where(part="near", target=name, width=width, method=method).ordered("distance")
    distance, error = rows.numbers("distance"), np.maximum(rows.numbers("error"), FLOOR)
    near = distance < MIDDLE
    inside = error[~near].max(initial=0.0) or np.nan
    return Curve(method, [*distance[near], 32.0], [*error[near], inside])

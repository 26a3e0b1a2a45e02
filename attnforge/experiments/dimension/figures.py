"""Keys against the number of inputs, drawn by target and by tolerance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attnforge.experiments.dimension.findings import shown_tolerance
from attnforge.experiments.dimension.networks import ALL
from attnforge.experiments.dimension.targets import TARGETS
from attnforge.experiments.table import Table
from attnforge.plot.rates import SERIES, Curve, draw_rates, legend_below, page_wide, ticks_at
from attnforge.plot.style import ORANGE

LOOKS = dict(zip(ALL, SERIES, strict=False)) | {"two layers": (ORANGE, "s", "--")}  # hard cells lie right below them


def targets_figure(table: Table) -> Any:
    """A panel a target, for one tolerance."""
    tol = shown_tolerance(table)
    figure = page_wide(5.2)
    panels = figure.subplots(2, 2, sharey=True)
    for axes, name in zip(panels.flat, TARGETS, strict=True):
        curves = []
        for construction, look in LOOKS.items():
            rows = table.where(target=name, construction=construction, tol=tol).having("keys").ordered("d")
            curves.append(Curve(construction, *rows.points("d", "keys"), look=look))
        draw_rates(axes, curves, x_label="inputs d", y_label="keys", title=f"{name}, tol {tol:g}")
        _hollow(axes, table.where(target=name, tol=tol))
        _ticks(axes, table.where(target=name).distinct("d"))
        axes.set_ylim(1, 1e12)
    panels[0, 0].plot([], [], "o", mfc="white", mec="black", ms=3.5, label="counted, not built")
    legend_below(figure, panels[0, 0], 4)
    return figure


def tolerances_figure(table: Table) -> Any:
    """A curve a tolerance, for some constructions and targets."""
    drawn = (
        ("tensor grid", "gaussian"),
        ("sparse grid", "gaussian"),
        ("sparse grid", "decaying"),
        ("additive", "additive"),
    )
    figure = page_wide(2.7)
    panels = figure.subplots(1, len(drawn))
    for axes, (construction, name) in zip(panels, drawn, strict=True):
        rows = table.where(target=name, construction=construction, built=True).ordered("d")
        curves = [Curve(f"tol {tol:g}", *rows.where(tol=tol).points("d", "keys")) for tol in table.distinct("tol")]
        y_label = "keys" if axes is panels[0] else ""
        draw_rates(axes, curves, x_label="inputs d", y_label=y_label, title=f"{construction},\n{name} target")
        _ticks(axes, rows.distinct("d"))
    legend_below(figure, panels[0], 4)
    return figure


def _hollow(axes: Any, table: Table) -> None:
    """White hearts for what was only counted."""
    for construction, (colour, marker, _) in LOOKS.items():
        rows = table.where(construction=construction, built=False).having("keys")
        axes.plot(*rows.points("d", "keys"), ls="", marker=marker, ms=3.5, mfc="white", mec=colour, zorder=4)


def _ticks(axes: Any, inputs: Sequence[int]) -> None:
    ticks_at(axes, [d for d in (1, 2, 3, 5, 7, 10, 20, 50) if min(inputs) <= d <= max(inputs)])

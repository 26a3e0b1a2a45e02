"""Errors against sharpness, lost winners and fitted values, drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attnforge.experiments.table import Table
from attnforge.experiments.temperature import fit
from attnforge.experiments.temperature.findings import curve
from attnforge.experiments.temperature.heads import DTYPES, HEADS, ROW_SHARPNESS, step
from attnforge.experiments.temperature.settings import TemperatureSettings
from attnforge.plot.rates import Curve, draw_rates, legend_below, page_wide


def error_figure(table: Table, settings: TemperatureSettings) -> Any:
    """Largest and mean square errors of both heads against c."""
    figure = page_wide(5.2)
    panels = figure.subplots(2, 2, sharex=True, sharey="row")
    titles = {"authors": "p = 60 on [-25, 25]", "fine": "p = 256 on [-1, 1]"}
    for column, (head, (reach, p)) in enumerate(HEADS.items()):
        for line, (name, label) in enumerate({"error": "largest error / h", "mse": "mean square error / h^2"}.items()):
            axes = panels[line][column]
            rows = {dtype: curve(table, head, dtype) for dtype in DTYPES}
            curves = [Curve(dtype, *at.points("c", name)) for dtype, at in rows.items()]
            title = titles[head] if not line else ""
            draw_rates(axes, curves, x_label="", y_label="" if column else label, title=title)
            h = step(reach, p)
            _mark_named(axes, [beta for beta in settings.named if beta * h * h > settings.lowest], h)
            axes.set_xlabel("sharpness c = beta h^2" if line else "", fontsize=8)
            axes.lines[0].set(markersize=6, fillstyle="none")  # float32 lies upon float64
            axes.set_xlim(settings.lowest / 2, settings.highest * 2)
    legend_below(figure, panels[0][0], 4)
    return figure


def limits_figure(table: Table) -> Any:
    """Queries that lose their key to many anchors; values fitted and sampled."""
    figure = page_wide(3.0)
    left, right = figure.subplots(1, 2)
    rows = {dtype: table.where(part="row", dtype=dtype).ordered("p") for dtype in DTYPES}
    curves = [Curve(dtype, at.numbers("p"), 100 * at.numbers("lost")) for dtype, at in rows.items()]
    draw_rates(
        left,
        curves,
        x_label="anchors p",
        y_label="queries that select another key, %",
        title=f"hard selection, c = {ROW_SHARPNESS:g}",
        logarithmic=(True, False),
    )
    left.legend(fontsize=7, frameon=False, loc="upper left")
    fitted = table.where(part="fitted").ordered("c")
    draw_rates(
        right,
        [
            Curve("values fitted", *fitted.points("c", "error")),
            Curve("values sampled", *fitted.points("c", "sampled_error")),
        ],
        x_label="sharpness c = beta h^2",
        y_label="largest error",
        title=f"sin(8x), {fit.ANCHORS} anchors, {fit.GHOSTS} ghosts a side",
    )
    right.legend(fontsize=7, frameon=False, loc="lower right")
    return figure


def _mark_named(axes: Any, named: Sequence[float], h: float) -> None:
    """Where values of beta lie, in a panel whose axis is c."""
    for beta in named:
        c = beta * h * h
        axes.axvline(c, color="#000000", lw=0.6, ls=(0, (1, 2)), zorder=1)
        place = {"xycoords": ("data", "axes fraction"), "rotation": 90, "ha": "left", "va": "bottom"}
        axes.annotate(f"beta {beta:g}", (c, 0.03), fontsize=7, color="#333333", **place)

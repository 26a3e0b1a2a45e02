"""Errors against anchors in all, and costs against tokens, drawn."""

from __future__ import annotations

from typing import Any

from attnforge.experiments.length.costs import FLOOR, LAYOUTS
from attnforge.experiments.table import Table
from attnforge.plot.rates import SERIES, Curve, draw_rates, legend_below, page_wide, rate_curves


def error_figure(table: Table) -> Any:
    """All on one line: one head, the same for all n and d, and several heads, which differ in the number of keys."""
    single, several = table.where(kind="anchors"), table.where(kind="heads")
    errors = single.grouped("p", "error")
    low, high = [float(e.min()) for e in errors.values()], [float(e.max()) for e in errors.values()]
    guarded = several.where(sentinels=max(several.distinct("sentinels")))
    heads = [
        Curve(f"n = {n:,} keys a head", *rows.points("p", "error"))
        for n in guarded.distinct("n")
        if (rows := guarded.where(n=n).ordered("H"))
    ]
    curves = [Curve("one head, every n and d", list(errors), high, low, high), *heads]
    return rate_curves(curves, x_label="anchors in all heads", y_label="largest error", slopes=[-1])


def cost_figure(table: Table) -> Any:
    """Time and peak memory, a curve a layout and width."""
    figure = page_wide(3.2)
    panels = figure.subplots(1, 2)
    rows = table.where(kind="cost")
    widths = sorted(rows.distinct("d"))
    for axes, column, scale, label in (
        (panels[0], "seconds", 1e3, "milliseconds"),
        (panels[1], "peak", 1e-6, "peak MB"),
    ):
        curves = []
        for number, (layout, d) in enumerate((layout, d) for layout in LAYOUTS for d in widths):
            of = rows.where(layout=layout, d=d).ordered("n")
            values = scale * of.numbers(column)
            shown = values > (scale * FLOOR if column == "peak" else 0)
            name = f"{layout}, d = {d}"
            curves.append(Curve(name, of.numbers("n")[shown], values[shown], look=SERIES[number % len(SERIES)]))
        draw_rates(axes, curves, x_label="tokens n", y_label=label)
    legend_below(figure, panels[0])
    return figure

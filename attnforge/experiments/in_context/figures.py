"""Distance to the minimiser, drift below its bound, and what routes and sizes cost."""

from __future__ import annotations

from typing import Any

from attnforge.experiments.in_context import prompts, routes
from attnforge.experiments.in_context.drift import FLOOR, size_curves, stack
from attnforge.experiments.panels import Look, Panel, page
from attnforge.experiments.table import Table
from attnforge.plot.rates import legend_below, page_wide, plain
from attnforge.plot.style import BLUE, GREEN, ORANGE, SKY

Drawn = tuple[str, str, str, Look, float, float]  # dtype, column, name; width of the line and size of markers

THICK, THIN = (4.0, 0.0), (0.9, 2.2)


def convergence_figure(table: Table) -> Any:
    """Distance to the minimiser against steps, a panel a regression."""
    return _small_multiples(
        table,
        "|w − w*| / |w*|",
        ("float64", "exact_distance", "exact iteration", (SKY, "", "-"), *THICK),
        ("float64", "distance", "attention, float64", (BLUE, "o", "-"), *THIN),
        ("float32", "distance", "attention, float32", (ORANGE, "s", "-"), *THIN),
    )


def drift_figure(table: Table) -> Any:
    """Distance to exact iteration and its bound against steps, a panel a regression."""
    return _small_multiples(
        table,
        "distance to exact iteration",
        ("float64", "bound", "certified, float64", (GREEN, "^", "--"), *THIN),
        ("float64", "drift", "measured, float64", (BLUE, "o", "-"), *THIN),
        ("float32", "drift", "measured, float32", (ORANGE, "s", "-"), *THIN),
    )


def _small_multiples(table: Table, y_label: str, *drawn: Drawn) -> Any:
    """Two rows of panels, one a regression."""
    kinds = table.where(part="steps").distinct("kind")
    figure = page_wide(4.2)
    panels = figure.subplots(2, (len(kinds) + 1) // 2, sharex=True, sharey=True, squeeze=False)
    for i, (kind, axes) in enumerate(zip(kinds, panels.flat, strict=False)):
        plain(axes, "steps" if i >= len(kinds) // 2 else "", y_label if i % panels.shape[1] == 0 else "", kind)
        axes.set(xscale="log", yscale="log")
        for dtype, column, name, (colour, marker, dash), width, size in drawn:
            steps, values = stack(table, kind, dtype).points("step", column)
            look = {"color": colour, "marker": marker, "ls": dash, "lw": width, "ms": size}
            axes.plot(steps, values.clip(FLOOR), label=name, **look)
    legend_below(figure, panels.flat[0])
    return figure


def routes_figure(table: Table) -> Any:
    """Errors against sharpness, anchors, sizes and tolerances."""
    anchors = table.where(part="interpolation").distinct("p")
    one_step, exact = "relative error of one step", "distance to exact iteration"
    panels = (
        Panel(routes.sharpness_curves(table), "sharpness beta of the sum", one_step, "small-sharpness route"),
        Panel(routes.anchor_curves(table), "anchors p", "error", "interpolation route", ticks=anchors),
        Panel(size_curves(table), "examples n, or inputs d", exact, "size of the prompt"),
        Panel(prompts.curves(table), "tolerance asked for", "error", "functions as prompts"),
    )
    figure = page(panels, 5.4, columns=2, legend=0)
    by_sharpness, by_anchors, by_size, by_tolerance = figure.axes
    for axes in figure.axes:
        place = {"loc": "center right", "bbox_to_anchor": (1.0, 0.36)} if axes is by_anchors else {}
        axes.legend(fontsize=7, frameon=False, handlelength=2.0, labelspacing=0.25, **place)
    chosen = table.where(part="sharpness", chosen=True)  # by formula: ringed
    by_sharpness.plot(*chosen.points("beta", "error"), "o", mfc="none", mec="black", ms=7, mew=0.9, zorder=4)
    by_tolerance.invert_xaxis()
    by_tolerance.minorticks_off()
    by_size.set_ylim(top=by_size.get_ylim()[1] * 100)  # room for the legend
    return figure

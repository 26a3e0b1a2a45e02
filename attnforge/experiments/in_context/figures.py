"""Distance to the minimiser, drift below its bound, and what routes and sizes cost."""

from __future__ import annotations

from typing import Any

from attnforge.experiments.in_context import interpolation, prompts, sharpness, sizes
from attnforge.experiments.in_context.curves import seen
from attnforge.experiments.in_context.drift import stack
from attnforge.experiments.in_context.problems import DTYPES
from attnforge.experiments.table import Table


def convergence_figure(table: Table) -> Any:
    """Distance to the minimiser against steps, a panel a regression."""
    from attnforge.plot.rates import legend_below
    from attnforge.plot.style import BLUE, ORANGE, SKY

    figure, panels = _small_multiples(table, "|w − w*| / |w*|")
    for kind, axes in panels:
        double, single = (stack(table, kind, dtype) for dtype in DTYPES)
        axes.plot(double.numbers("step"), seen(double, "exact_distance"), color=SKY, lw=4, label="exact iteration")
        _draw(axes, double, "distance", "attention, float64", (BLUE, "o", "-"))
        _draw(axes, single, "distance", "attention, float32", (ORANGE, "s", "-"))
    legend_below(figure, panels[0][1])
    return figure


def drift_figure(table: Table) -> Any:
    """Distance to exact iteration and its bound against steps, a panel a regression."""
    from attnforge.plot.rates import legend_below
    from attnforge.plot.style import BLUE, GREEN, ORANGE

    figure, panels = _small_multiples(table, "distance to exact iteration")
    for kind, axes in panels:
        double, single = (stack(table, kind, dtype) for dtype in DTYPES)
        _draw(axes, double, "bound", "certified, float64", (GREEN, "^", "--"))
        _draw(axes, double, "drift", "measured, float64", (BLUE, "o", "-"))
        _draw(axes, single, "drift", "measured, float32", (ORANGE, "s", "-"))
    legend_below(figure, panels[0][1])
    return figure


def _small_multiples(table: Table, y_label: str) -> tuple[Any, list[tuple[str, Any]]]:
    """Two rows of panels, one a regression."""
    from attnforge.plot.rates import page_wide, plain

    kinds = table.where(part="steps").distinct("kind")
    figure = page_wide(4.2)
    panels = figure.subplots(2, (len(kinds) + 1) // 2, sharex=True, sharey=True, squeeze=False)
    for i, (kind, axes) in enumerate(zip(kinds, panels.flat, strict=False)):
        plain(axes, "steps" if i >= len(kinds) // 2 else "", y_label if i % panels.shape[1] == 0 else "", kind)
        axes.set(xscale="log", yscale="log")
    return figure, list(zip(kinds, panels.flat, strict=False))


def _draw(axes: Any, rows: Table, column: str, label: str, look: tuple[str, str, str]) -> None:
    colour, marker, dash = look
    axes.plot(
        rows.numbers("step"), seen(rows, column), color=colour, marker=marker, ls=dash, ms=2.2, lw=0.9, label=label
    )


def routes_figure(table: Table) -> Any:
    """Errors against sharpness, anchors, sizes and tolerances."""
    from attnforge.plot.rates import draw_rates, page_wide, ticks_at

    figure = page_wide(5.4)
    panels = figure.subplots(2, 2)
    by_sharpness, by_anchors, by_size, by_tolerance = panels.flat
    exact = "distance to exact iteration"
    drawn = (
        (sharpness.curves(table), "sharpness beta of the sum", "relative error of one step", "small-sharpness route"),
        (interpolation.curves(table), "anchors p", "error", "interpolation route"),
        (sizes.curves(table), "examples n, or inputs d", exact, "size of the prompt"),
        (prompts.curves(table), "tolerance asked for", "error", "functions as prompts"),
    )
    for axes, (curves, x_label, y_label, title) in zip(panels.flat, drawn, strict=True):
        draw_rates(axes, curves, x_label=x_label, y_label=y_label, title=title)
        place = {"loc": "center right", "bbox_to_anchor": (1.0, 0.36)} if axes is by_anchors else {}
        axes.legend(fontsize=7, frameon=False, handlelength=2.0, labelspacing=0.25, **place)
    _ring_choices(by_sharpness, table)
    ticks_at(by_anchors, table.where(part="interpolation").distinct("p"))
    by_tolerance.invert_xaxis()
    by_tolerance.minorticks_off()
    by_size.set_ylim(top=by_size.get_ylim()[1] * 100)  # room for the legend
    return figure


def _ring_choices(axes: Any, table: Table) -> None:
    """The sharpness chosen by formula, ringed."""
    rows = table.where(part="sharpness", chosen=True)
    axes.plot(*rows.points("beta", "error"), "o", mfc="none", mec="black", ms=7, mew=0.9, zorder=4)

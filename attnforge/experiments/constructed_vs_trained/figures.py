"""Mean square error against H, against the time it took, and against epochs from the construction."""

from __future__ import annotations

from typing import Any

from attnforge.experiments.constructed_vs_trained.continuing import PARTS, STARTS
from attnforge.experiments.constructed_vs_trained.summaries import journeys, middle
from attnforge.experiments.table import Table

SHORT = {"hard": "constructed, hard", "tuned": "constructed, tuned", "mean": "constructed, c = 1.4"}
GROUPS = (
    ("trained", "trained", "seconds"),
    *((name, kind, "seconds") for kind, name in SHORT.items()),
    ("c = 1.4, w and t estimated", "estimated", "seconds"),
    ("c = 1.4, with its proof", "mean", "proved_seconds"),
)
MEASURED = {"mse": "mean square error", "error": "largest error", "bound": "bound"}


def heads_figure(table: Table) -> Any:
    """Mean square error against H: medians, and for trained models the range of the tasks."""
    from attnforge.plot.rates import Curve, rate_curves, ticks_at

    trained = middle(table, "trained", "mse")
    tasks = table.where(kind="trained").grouped("heads", "mse").values()
    low, high = [float(each.min()) for each in tasks], [float(each.max()) for each in tasks]
    curves = [Curve("trained", list(trained), list(trained.values()), low, high)]
    for kind in STARTS:
        found = middle(table, kind, "mse")
        curves.append(Curve(SHORT[kind], list(found), list(found.values())))
    figure = rate_curves(curves, x_label="heads H, 60 keys each", y_label="mean square error", width=3.4, height=3.1)
    ticks_at(figure.axes[0], list(trained))
    return figure


def time_figure(table: Table) -> Any:
    """Mean square error against the time it took, a point a task and H."""
    from matplotlib.figure import Figure

    from attnforge.plot.rates import SERIES, legend_below, plain

    figure = Figure(figsize=(3.4, 3.3), layout="constrained")
    axes = figure.subplots()
    for (name, kind, column), (colour, marker, _) in zip(GROUPS, SERIES, strict=False):
        rows = table.where(kind=kind)
        axes.plot(
            rows.numbers(column), rows.numbers("mse"), ls="", marker=marker, color=colour, ms=4, mew=0, label=name
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    plain(axes, "seconds of one core to obtain the weights", "mean square error")
    legend_below(figure, axes, 2)
    return figure


def continued_figure(table: Table) -> Any:
    """Errors and bounds against epochs: a column of panels a start, a row a measure."""
    from matplotlib.ticker import NullFormatter

    from attnforge.plot.rates import draw_rates, legend_below, page_wide

    figure = page_wide(6.2)
    panels = figure.subplots(3, len(STARTS), sharex=True, sharey="row")
    for across, start in enumerate(STARTS):
        for down, (column, label) in enumerate(MEASURED.items()):
            draw_rates(
                panels[down][across],
                _curves(table, start, column),
                x_label="epochs" if down == 2 else "",
                y_label=label if across == 0 else "",
                title=f"from {SHORT[start].removeprefix('constructed, ')}" if down == 0 else "",
                logarithmic=(False, True),
            )
    for axes in panels.flat:
        axes.yaxis.set_minor_formatter(NullFormatter())  # less than a decade would be labelled between its ends too
    legend_below(figure, panels[0][0], 3)
    return figure


def _curves(table: Table, start: str, column: str) -> list[Any]:
    """One a training: a colour a step size, dotted where only values are trained."""
    from attnforge.plot.rates import SERIES, Curve

    rates = table.where(kind="continued").distinct("rate")
    curves = []
    for way in journeys(table, start):
        rows, part, rate = way.having(column), way.texts("part")[0], way.distinct("rate")[0]
        colour, marker, _ = SERIES[rates.index(rate)]
        look = (colour, marker, "-" if part == "all" else ":")
        name = f"{PARTS[part]}, step size {rate:g}"
        curves.append(Curve(name, *rows.points("epoch", column), look=look))
    return curves

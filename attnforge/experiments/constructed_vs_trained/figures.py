"""Mean square error against H, against the time it took, and against epochs from the construction."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from attnforge.experiments.constructed_vs_trained.findings import journeys
from attnforge.experiments.constructed_vs_trained.task import PARTS, STARTS
from attnforge.experiments.panels import Panel, band, curve, page
from attnforge.experiments.table import Table
from attnforge.plot.rates import SERIES, Curve, legend_below, plain, rate_curves, ticks_at

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
    curves = [band("trained", table.where(kind="trained"), "heads", "mse")]
    medians = {kind: table.where(kind=kind).medians("heads", "mse") for kind in STARTS}
    curves += [Curve(SHORT[kind], list(found), list(found.values())) for kind, found in medians.items()]
    figure = rate_curves(curves, x_label="heads H, 60 keys each", y_label="mean square error", figsize=(3.4, 3.1))
    ticks_at(figure.axes[0], sorted(table.where(kind="trained").distinct("heads")))
    return figure


def time_figure(table: Table) -> Any:
    """Mean square error against the time it took, a point a task and H."""
    figure = Figure(figsize=(3.4, 3.3), layout="constrained")
    axes = figure.subplots()
    for (name, kind, column), (colour, marker, _) in zip(GROUPS, SERIES, strict=False):
        points = table.where(kind=kind).points(column, "mse")
        axes.plot(*points, ls="", marker=marker, color=colour, ms=4, mew=0, label=name)
    axes.set(xscale="log", yscale="log")
    plain(axes, "seconds of one core to obtain the weights", "mean square error")
    legend_below(figure, axes, 2)
    return figure


def continued_figure(table: Table) -> Any:
    """Errors and bounds against epochs: a column of panels a start, a row a measure."""
    titles = {start: f"from {SHORT[start].removeprefix('constructed, ')}" for start in STARTS}
    panels = [
        Panel(_curves(table, start, column), "epochs", label, title * (column == "mse"), logarithmic=(False, True))
        for column, label in MEASURED.items()
        for start, title in titles.items()
    ]
    figure = page(panels, 6.2, columns=len(STARTS), sharex=True, sharey="row")
    for axes in figure.axes:
        axes.yaxis.set_minor_formatter(NullFormatter())  # less than a decade would be labelled between its ends too
    return figure


def _curves(table: Table, start: str, column: str) -> list[Curve]:
    """One a training: a colour a step size, dotted where only values are trained."""
    rates = table.where(kind="continued").distinct("rate")
    curves = []
    for way in journeys(table, start):
        part, rate = way.texts("part")[0], way.distinct("rate")[0]
        colour, marker, _ = SERIES[rates.index(rate)]
        look = (colour, marker, "-" if part == "all" else ":")
        curves.append(curve(f"{PARTS[part]}, step size {rate:g}", way.having(column), "epoch", column, look))
    return curves

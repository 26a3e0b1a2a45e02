"""The question, its settings and cases, and figures of errors, lost winners and fitted values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnforge.experiments.clamp import step
from attnforge.experiments.experiment import Case, Experiment, Finding, Row, crossed
from attnforge.experiments.panels import Panel, curve, curves, page
from attnforge.experiments.settings import Settings, setting
from attnforge.experiments.table import Table, markdown
from attnforge.experiments.temperature import findings, heads
from attnforge.experiments.temperature.heads import DTYPES, HEADS
from attnforge.plot.rates import legend_below

SHARPNESS = "sharpness c = beta h^2"
FINE = (1.2, 1.4, 1.6, 2.0, 2.4, 2.7, 3.0)  # values of c around the optima


@dataclass(frozen=True)
class TemperatureSettings(Settings):
    """Which sharpness and how many queries."""

    named: tuple[float, ...] = setting(
        (10.0, 50.0, 100.0, 1000.0), explain="Values of beta that the papers' summary names."
    )
    lowest: float = setting(0.01, explain="The least c = beta h^2 of the curves.")
    highest: float = setting(1e5, explain="The largest c of the curves.")
    points: int = setting(
        33, 13, explain="Values of c from the least to the largest; some more lie around the optimum."
    )
    queries: int = setting(20_001, 2001, explain="Queries, equally spaced for the largest error, drawn for the mean.")
    anchors: tuple[int, ...] = setting(
        (16, 64, 256, 1024, 4096, 16384), (16, 64, 256, 1024, 4096), explain="Numbers p for which winners are compared."
    )
    fitted: tuple[float, ...] = setting(
        (0.01, 0.02, 0.04, 0.07, 0.1, 0.14, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0, 1.4, 2.0, 2.7, 4.0, 7.0, 12.0, 20.0, 40.0),
        (0.02, 0.1, 0.3, 0.7, 2.0, 7.0, 40.0),
        explain="Values of c at which values are fitted anew.",
    )


class Temperature(Experiment[TemperatureSettings]):
    """How sharp attention should be, and how sharp a dtype lets it be."""

    name = "temperature"
    summary = "error against sharpness in every dtype, and where it breaks"
    question = (
        "How does the error depend on the sharpness beta, in every dtype? Where is the optimum, and where do weights "
        "underflow, scores overflow, or another key win than in exact arithmetic? One head computes clamp(y, a, b): "
        "p = 60 on [-25, 25], the authors' setting, and p = 256 on [-1, 1]; a second one fits sin(8x)."
    )
    settings = TemperatureSettings

    def cases(self, settings: TemperatureSettings) -> Sequence[Case]:
        """Curves and named values for both heads and all dtypes; rows of more and more anchors; fitted values."""
        across = {float(f"{c:.4g}") for c in np.geomspace(settings.lowest, settings.highest, settings.points)}
        sharpness = sorted(across | {c for c in FINE if settings.lowest <= c <= settings.highest})
        drawn = {"queries": settings.queries, "seed": settings.seed}
        return [
            *crossed(part="curve", head=HEADS, dtype=DTYPES, c=sharpness, **drawn),
            *crossed(part="named", head=HEADS, dtype=DTYPES, beta=settings.named, **drawn),
            *crossed(part="row", dtype=DTYPES, p=settings.anchors, seed=settings.seed),
            *crossed(part="fitted", c=settings.fitted),
        ]

    def measure(self, case: Case) -> Sequence[Row]:
        """Errors in steps h and in squares of them, and what went wrong."""
        if case["part"] == "fitted":
            return [heads.fitted(case["c"])]
        if case["part"] == "row":
            return [heads.winners(case["dtype"], case["p"], case["seed"])]
        reach, p = HEADS[case["head"]]
        c = case["beta"] * step(p, -reach, reach) ** 2 if case["part"] == "named" else case["c"]
        return [{"sharpness": c, **heads.errors(reach, p, c, case["dtype"], case["queries"], case["seed"])}]

    def findings(self, table: Table, settings: TemperatureSettings) -> Sequence[Finding]:
        """Optimum, named values, underflow, overflow, lost winners, fitted values."""
        return [
            findings.largest_error_optimum(table),
            findings.mean_square_optimum(table),
            findings.sharper_is_better(table),
            findings.underflow(table),
            findings.overflow(table),
            findings.argmax_and_sharpness(table),
            findings.argmax_and_anchors(table),
            findings.powers_of_two(table),
            findings.softer_fits(table),
        ]

    def notes(self, table: Table, settings: TemperatureSettings) -> Sequence[str]:
        """The named values."""
        rows = [
            [head, f"{beta:g}", f"{at.value('sharpness'):.3g}", *(_cell(at.where(dtype=dtype)) for dtype in DTYPES)]
            for head in HEADS
            for beta in settings.named
            for at in [table.where(part="named", head=head, beta=beta)]
        ]
        text = (
            "Largest errors, in steps h, and mean square errors, in h^2, at the values of beta that the papers' "
            "summary names; beta multiplies 2 y L - L^2. (In the paper's layout of padded sequences beta multiplies "
            "that divided by h, and c = beta h.) What counts is c: the same beta is hard for one row of anchors and "
            "blurs another."
        )
        return [text, markdown(["head", "beta", "c = beta h^2", *DTYPES], rows)]

    def figures(self, table: Table, settings: TemperatureSettings) -> Mapping[str, Any]:
        """Errors against c; lost winners and fitted values."""
        return {"temperature": _error_figure(table, settings), "temperature-limits": _limits_figure(table)}


def _cell(rows: Table) -> str:
    """Largest and mean square error of one row."""
    return f"{rows.value('error'):.3g}, {rows.value('mse'):.2g}".replace("nan", "overflow")


def _error_figure(table: Table, settings: TemperatureSettings) -> Any:
    """Largest and mean square errors of both heads against c."""
    titles = {"authors": "p = 60 on [-25, 25]", "fine": "p = 256 on [-1, 1]"}
    labels = {"error": "largest error / h", "mse": "mean square error / h^2"}
    rows = table.where(part="curve").ordered("c")
    panels = [
        Panel(curves(rows.where(head=head), "dtype", "c", column), SHARPNESS, label, title * (column == "error"))
        for column, label in labels.items()
        for head, title in titles.items()
    ]
    figure = page(panels, 5.2, columns=2, legend=0, sharex=True, sharey="row")
    for axes, (reach, p) in zip(figure.axes, [*HEADS.values()] * 2, strict=True):
        _mark_named(axes, settings, step(p, -reach, reach))
        axes.lines[0].set(markersize=6, fillstyle="none")  # float32 lies upon float64
        axes.set_xlim(settings.lowest / 2, settings.highest * 2)
    legend_below(figure, figure.axes[0], 4)
    return figure


def _mark_named(axes: Any, settings: TemperatureSettings, h: float) -> None:
    """Where the named values of beta lie, in a panel whose axis is c."""
    for beta in settings.named:
        c = beta * h * h
        if c > settings.lowest:
            axes.axvline(c, color="#000000", lw=0.6, ls=(0, (1, 2)), zorder=1)
            place = {"xycoords": ("data", "axes fraction"), "rotation": 90, "ha": "left", "va": "bottom"}
            axes.annotate(f"beta {beta:g}", (c, 0.03), fontsize=7, color="#333333", **place)


def _limits_figure(table: Table) -> Any:
    """Queries that lose their key to many anchors; values fitted and sampled."""
    rows = Table.of({**row, "percent": 100 * row["lost"]} for row in table.where(part="row").ordered("p").rows)
    lost = curves(rows, "dtype", "p", "percent")
    by_values = table.where(part="fitted").ordered("c")
    columns = {"values fitted": "error", "values sampled": "sampled_error"}
    values = [curve(name, by_values, "c", column) for name, column in columns.items()]
    label, hard = "queries that select another key, %", f"hard selection, c = {heads.ROW_SHARPNESS:g}"
    fitted = f"sin(8x), {heads.FITTED} anchors, {heads.GHOSTS} ghosts a side"
    panels = (
        Panel(lost, "anchors p", label, hard, logarithmic=(True, False)),
        Panel(values, SHARPNESS, "largest error", fitted),
    )
    figure = page(panels, 3.0, legend=0)
    for axes, corner in zip(figure.axes, ("upper left", "lower right"), strict=True):
        axes.legend(fontsize=7, frameon=False, loc=corner)
    return figure

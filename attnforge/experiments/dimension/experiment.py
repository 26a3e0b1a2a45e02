"""The question, its settings and cases, and figures of keys against the number of inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attnforge.experiments.claims import within_bounds
from attnforge.experiments.dimension import findings
from attnforge.experiments.dimension.findings import shown_tolerance
from attnforge.experiments.dimension.networks import ALL, STRUCTURED, TARGETS, inputs, measured, short
from attnforge.experiments.experiment import Case, Experiment, Finding, Row, crossed
from attnforge.experiments.panels import Panel, curve, page
from attnforge.experiments.settings import Settings, setting
from attnforge.experiments.table import Table, markdown
from attnforge.plot.rates import SERIES, legend_below
from attnforge.plot.style import ORANGE

LOOKS = dict(zip(ALL, SERIES, strict=False)) | {"two layers": (ORANGE, "s", "--")}  # hard cells lie right below them
BY_TOLERANCE = (
    ("tensor grid", "gaussian"),
    ("sparse grid", "gaussian"),
    ("sparse grid", "decaying"),
    ("additive", "additive"),
)  # what is drawn for every tolerance


@dataclass(frozen=True)
class DimensionSettings(Settings):
    """Which inputs and tolerances, and how large networks may be."""

    inputs: tuple[int, ...] = setting(
        (1, 2, 3, 4, 5, 6, 7, 8, 9, 10), (1, 2, 3, 5, 6, 7), explain="Numbers d of inputs."
    )
    many: tuple[int, ...] = setting(
        (15, 20, 30, 50), (10, 20), explain="Further numbers of inputs, for constructions that use structure."
    )
    tolerances: tuple[float, ...] = setting((1e-1, 1e-2, 1e-3, 1e-4), (1e-1, 1e-2), explain="Asked for.")
    cells: int = setting(4000, 1000, explain="Keys up to which hard cells and two layers are built, not just counted.")
    points: int = setting(10_000, 2000, explain="Fresh random points that errors are measured on.")


class Dimension(Experiment[DimensionSettings]):
    """What Hu et al. 2025 leave open: polynomial instead of exponential parameters, for some classes of functions."""

    name = "dimension"
    summary = "keys against the number of inputs: grids, sparse grids, structure"
    question = (
        "How many keys does a tolerance cost in d inputs, and for which functions is it a polynomial in d instead of "
        "an exponential? Targets on [0, 1]^d: " + "; ".join(f"{name}, {text}" for name, text in TARGETS.items()) + "."
    )
    settings = DimensionSettings

    def cases(self, settings: DimensionSettings) -> Sequence[Case]:
        """Every construction for the targets it is made for, in as many inputs as make sense."""
        limits = {"seed": settings.seed, "cells": settings.cells, "points": settings.points}
        return [
            case
            for target in TARGETS
            for construction in ALL
            if construction not in STRUCTURED or construction == target
            for d in inputs(construction, target, settings.inputs, settings.many)
            for case in crossed(target=target, construction=construction, d=d, tol=settings.tolerances, **limits)
        ]

    def measure(self, case: Case) -> Sequence[Row]:
        """Keys, weights, seconds of processor time to build, and the largest error at fresh points."""
        return [measured(case)]

    def findings(self, table: Table, settings: DimensionSettings) -> Sequence[Finding]:
        """How keys grow with d, by construction and target."""
        grids, sparse = ("gaussian", "ridge"), ("decaying", "gaussian", "ridge", "additive")
        return [
            findings.cells_grow_exponentially(table),
            *(findings.product_grid_grows_exponentially(table, target) for target in grids),
            findings.sums_grow_linearly(table),
            findings.one_form_does_not_grow(table),
            *(findings.sparse_grid_grows_polynomially(table, target) for target in sparse),
            findings.tolerances_kept(table),
            within_bounds(table),
        ]

    def notes(self, table: Table, settings: DimensionSettings) -> Sequence[str]:
        """Keys of one tolerance, and what was not built."""
        tol = shown_tolerance(table)
        counts = [d for d in (2, 5, 8, 10, 20, 50) if len(table.where(d=d))]
        rows = [
            [target, construction, *(_cell(of.where(d=d)) for d in counts)]
            for target in TARGETS
            for construction in ALL
            if len(of := table.where(target=target, construction=construction, tol=tol))
        ]
        said = (
            f"Keys for tol = {tol:g}. In brackets: not built, counted by the theorem's formula, "
            "G = L / (2 tol) cells an axis for the Lipschitz constant L; *refused*: too many values of f."
        )
        return [said, markdown(["target", "construction", *(f"d = {d}" for d in counts)], rows)]

    def figures(self, table: Table, settings: DimensionSettings) -> Mapping[str, Any]:
        """Keys against d by target, and by tolerance."""
        return {"dimension": _targets_figure(table), "dimension-tolerances": _tolerances_figure(table)}


def _cell(rows: Table) -> str:
    """The keys of a row, if there is one; in brackets where they were only counted."""
    if not len(rows):
        return ""
    if not len(rows.having("keys")):
        return "*refused*"
    count = short(int(rows.value("keys")))
    return count if rows.rows[0]["built"] else f"({count})"


def _targets_figure(table: Table) -> Any:
    """A panel a target, for one tolerance; white hearts for what was only counted."""
    tol = shown_tolerance(table)
    rows = {name: table.where(target=name, tol=tol).having("keys").ordered("d") for name in TARGETS}
    panels = []
    for name, of in rows.items():
        drawn = [curve(each, of.where(construction=each), "d", "keys", look) for each, look in LOOKS.items()]
        panels.append(Panel(drawn, "inputs d", "keys", f"{name}, tol {tol:g}", ticks=_ticks(table.where(target=name))))
    figure = page(panels, 5.2, columns=2, legend=0, sharey=True)
    for axes, of in zip(figure.axes, rows.values(), strict=True):
        for construction, (colour, marker, _) in LOOKS.items():
            counted = of.where(construction=construction, built=False)
            axes.plot(*counted.points("d", "keys"), ls="", marker=marker, ms=3.5, mfc="white", mec=colour, zorder=4)
        axes.set(ylim=(1, 1e12), ylabel="keys")  # in both columns
    figure.axes[0].plot([], [], "o", mfc="white", mec="black", ms=3.5, label="counted, not built")
    legend_below(figure, figure.axes[0], 4)
    return figure


def _tolerances_figure(table: Table) -> Any:
    """A curve a tolerance, for some constructions and targets."""
    panels: list[Panel] = []
    for construction, name in BY_TOLERANCE:
        rows = table.where(target=name, construction=construction, built=True).ordered("d")
        drawn = [curve(f"tol {tol:g}", rows.where(tol=tol), "d", "keys") for tol in table.distinct("tol")]
        title = f"{construction},\n{name} target"
        panels.append(Panel(drawn, "inputs d", "" if panels else "keys", title, ticks=_ticks(rows)))
    return page(panels, 2.7, legend=4)


def _ticks(rows: Table) -> list[int]:
    inputs = rows.distinct("d")
    return [d for d in (1, 2, 3, 5, 7, 10, 20, 50) if min(inputs) <= d <= max(inputs)]

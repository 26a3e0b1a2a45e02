"""The question, its cases, and where they are measured, judged and drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from attnforge.experiments.claims import within_bounds
from attnforge.experiments.dimension.findings import (
    cells_grow_exponentially,
    one_form_does_not_grow,
    product_grid_grows_exponentially,
    shown_tolerance,
    sparse_grid_grows_polynomially,
    sums_grow_linearly,
    tolerances_kept,
)
from attnforge.experiments.dimension.networks import ALL, STRUCTURED, inputs, measured, short
from attnforge.experiments.dimension.settings import DimensionSettings
from attnforge.experiments.dimension.targets import TARGETS
from attnforge.experiments.experiment import Case, Experiment, Finding, Row
from attnforge.experiments.table import Table, markdown


class Dimension(Experiment[DimensionSettings]):
    """What Hu et al. 2025 leave open: polynomial instead of exponential parameters, for some classes of functions."""

    name: ClassVar[str] = "dimension"
    summary: ClassVar[str] = "keys against the number of inputs: grids, sparse grids, structure"
    question: ClassVar[str] = (
        "How many keys does a tolerance cost in d inputs, and for which functions is it a polynomial in d instead of "
        "an exponential? Targets on [0, 1]^d: " + "; ".join(f"{name}, {text}" for name, text in TARGETS.items()) + "."
    )
    settings = DimensionSettings

    def cases(self, settings: DimensionSettings) -> Sequence[Case]:
        """Every construction for the targets it is made for, in as many inputs as make sense."""
        return [
            {"target": target, "construction": construction, "d": d, "tol": tol, "seed": settings.seed}
            | {"cells": settings.cells, "points": settings.points}
            for target in TARGETS
            for construction in ALL
            if construction not in STRUCTURED or construction == target
            for d in inputs(construction, target, settings)
            for tol in settings.tolerances
        ]

    def measure(self, case: Case) -> Sequence[Row]:
        """Keys, weights, seconds of processor time to build, and the largest error at fresh points."""
        return [measured(case)]

    def findings(self, table: Table, settings: DimensionSettings) -> Sequence[Finding]:
        """How keys grow with d, by construction and target."""
        return [
            cells_grow_exponentially(table),
            *(product_grid_grows_exponentially(table, target) for target in ("gaussian", "ridge")),
            sums_grow_linearly(table),
            one_form_does_not_grow(table),
            *(
                sparse_grid_grows_polynomially(table, target)
                for target in ("decaying", "gaussian", "ridge", "additive")
            ),
            tolerances_kept(table),
            within_bounds(table),
        ]

    def notes(self, table: Table, settings: DimensionSettings) -> Sequence[str]:
        """Keys of one tolerance, and what was not built."""
        tol = shown_tolerance(table)
        counts = [d for d in (2, 5, 8, 10, 20, 50) if len(table.where(d=d))]
        rows = [
            [
                target,
                construction,
                *(_cell(table.where(target=target, construction=construction, d=d, tol=tol)) for d in counts),
            ]
            for target in TARGETS
            for construction in ALL
            if len(table.where(target=target, construction=construction, tol=tol))
        ]
        said = (
            f"Keys for tol = {tol:g}. In brackets: not built, counted by the theorem's formula, "
            "G = L / (2 tol) cells an axis for the Lipschitz constant L; *refused*: too many values of f."
        )
        return [said, markdown(["target", "construction", *(f"d = {d}" for d in counts)], rows)]

    def figures(self, table: Table, settings: DimensionSettings) -> Mapping[str, Any]:
        """Keys against d by target, and by tolerance."""
        from attnforge.experiments.dimension.figures import targets_figure, tolerances_figure

        return {"dimension": targets_figure(table), "dimension-tolerances": tolerances_figure(table)}


def _cell(rows: Table) -> str:
    """The keys of a row, if there is one; in brackets where they were only counted."""
    if not len(rows):
        return ""
    row = rows.rows[0]
    if row.get("keys") is None:
        return "*refused*"
    count = short(int(rows.numbers("keys")[0]))
    return count if row["built"] else f"({count})"

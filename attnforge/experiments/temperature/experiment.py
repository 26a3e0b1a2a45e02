"""The question, its cases, and where they are measured, judged and drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from attnforge.experiments.experiment import Case, Experiment, Finding, Row
from attnforge.experiments.table import Table, markdown
from attnforge.experiments.temperature.findings import (
    argmax_and_anchors,
    argmax_and_sharpness,
    first,
    largest_error_optimum,
    mean_square_optimum,
    overflow,
    powers_of_two,
    sharper_is_better,
    softer_fits,
    underflow,
)
from attnforge.experiments.temperature.fit import fitted
from attnforge.experiments.temperature.heads import DTYPES, HEADS, errors, step, winners
from attnforge.experiments.temperature.settings import TemperatureSettings

FINE = (1.2, 1.4, 1.6, 2.0, 2.4, 2.7, 3.0)  # values of c around the optima


class Temperature(Experiment[TemperatureSettings]):
    """How sharp attention should be, and how sharp a dtype lets it be."""

    name: ClassVar[str] = "temperature"
    summary: ClassVar[str] = "error against sharpness in every dtype, and where it breaks"
    question: ClassVar[str] = (
        "How does the error depend on the sharpness beta, in every dtype? Where is the optimum, and where do weights "
        "underflow, scores overflow, or another key win than in exact arithmetic? One head computes clamp(y, a, b): "
        "p = 60 on [-25, 25], the authors' setting, and p = 256 on [-1, 1]; a second one fits sin(8x)."
    )
    settings = TemperatureSettings

    def cases(self, settings: TemperatureSettings) -> Sequence[Case]:
        """Curves and named values for both heads and all dtypes; rows of more and more anchors; fitted values."""
        across = {float(f"{c:.4g}") for c in np.geomspace(settings.lowest, settings.highest, settings.points)}
        curve = sorted(across | {c for c in FINE if settings.lowest <= c <= settings.highest})
        drawn = {"queries": settings.queries, "seed": settings.seed}
        heads = [{"head": head, "dtype": dtype} for head in HEADS for dtype in DTYPES]
        return [
            *({"part": "curve", **each, "c": c, **drawn} for each in heads for c in curve),
            *({"part": "named", **each, "beta": beta, **drawn} for each in heads for beta in settings.named),
            *(
                {"part": "row", "dtype": dtype, "p": p, "seed": settings.seed}
                for dtype in DTYPES
                for p in settings.anchors
            ),
            *({"part": "fitted", "c": c} for c in settings.fitted),
        ]

    def measure(self, case: Case) -> Sequence[Row]:
        """Errors in steps h and in squares of them, and what went wrong."""
        if case["part"] == "fitted":
            return [fitted(case["c"])]
        if case["part"] == "row":
            return [winners(case["dtype"], case["p"], case["seed"])]
        reach, p = HEADS[case["head"]]
        c = case["beta"] * step(reach, p) ** 2 if case["part"] == "named" else case["c"]
        return [{"sharpness": c, **errors(reach, p, c, case["dtype"], case["queries"], case["seed"])}]

    def findings(self, table: Table, settings: TemperatureSettings) -> Sequence[Finding]:
        """Optimum, named values, underflow, overflow, lost winners, fitted values."""
        return [
            largest_error_optimum(table),
            mean_square_optimum(table),
            sharper_is_better(table),
            underflow(table),
            overflow(table),
            argmax_and_sharpness(table),
            argmax_and_anchors(table),
            powers_of_two(table),
            softer_fits(table),
        ]

    def notes(self, table: Table, settings: TemperatureSettings) -> Sequence[str]:
        """The named values."""
        rows = [
            [
                head,
                f"{beta:g}",
                f"{first(at, 'sharpness'):.3g}",
                *(_cell(at.where(dtype=dtype)) for dtype in DTYPES),
            ]
            for head in HEADS
            for beta in settings.named
            for at in [table.where(part="named", head=head, beta=beta)]
        ]
        header = ["head", "beta", "c = beta h^2", *DTYPES]
        text = (
            "Largest errors, in steps h, and mean square errors, in h^2, at the values of beta that the papers' "
            "summary names; beta multiplies 2 y L - L^2. (In the paper's layout of padded sequences beta multiplies "
            "that divided by h, and c = beta h.) What counts is c: the same beta is hard for one row of anchors and "
            "blurs another."
        )
        return [text, markdown(header, rows)]

    def figures(self, table: Table, settings: TemperatureSettings) -> Mapping[str, Any]:
        """Errors against c; lost winners and fitted values."""
        from attnforge.experiments.temperature.figures import error_figure, limits_figure

        return {"temperature": error_figure(table, settings), "temperature-limits": limits_figure(table)}


def _cell(rows: Table) -> str:
    """Largest and mean square error of one row."""
    error, mse = first(rows, "error"), first(rows, "mse")
    return f"{error:.3g}, {mse:.2g}".replace("nan", "overflow")

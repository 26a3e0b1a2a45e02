"""The question, its cases, and where they are measured, judged and drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from attnforge.experiments.claims import within_bounds
from attnforge.experiments.experiment import Case, Experiment, Finding, Row
from attnforge.experiments.length.costs import FLOOR, LAYOUTS, cost_apart
from attnforge.experiments.length.errors import largest_error
from attnforge.experiments.length.findings import anchor_rate, feasible, growth, head_rate, length_and_width
from attnforge.experiments.length.settings import LengthSettings
from attnforge.experiments.table import Table, markdown


class Length(Experiment[LengthSettings]):
    """The third next check of the summary of Hu et al. 2025."""

    name: ClassVar[str] = "length"
    summary: ClassVar[str] = "long sequences: error, time and memory against n and d"
    question: ClassVar[str] = (
        "Do the rates O(1/p) and O(1/(nH)) hold for sequences of 1,000 and 10,000 tokens and for up to 100 features, "
        "and what do such sequences cost in time and memory? Token i is mapped to clamp(w_i . x_i + t_i, -25, 25), "
        "with w_i and t_i of its own."
    )
    settings = LengthSettings

    def cases(self, settings: LengthSettings) -> Sequence[Case]:
        """Errors of one head and of several, then costs."""
        seed = settings.seed
        rates: list[Case] = [
            {"kind": "anchors", "n": n, "d": d, "p": p, "seed": seed}
            for n in settings.tokens
            for d in settings.features
            for p in settings.anchors
        ]
        heads = [
            {"kind": "heads", "n": n, "d": min(settings.features), "H": h, "sentinels": sentinels, "seed": seed}
            for n in settings.tokens
            for sentinels in settings.sentinels
            for h in settings.heads
        ]
        costs = [
            {"kind": "cost", "layout": layout, "n": n, "d": d, "p": settings.memory if layout == "memory" else n}
            for layout in LAYOUTS
            for d in settings.widths
            for n in settings.timed
            if layout == "memory" or settings.memory <= n <= settings.longest
        ]
        return [*rates, *heads, *costs]

    def measure(self, case: Case) -> Sequence[Row]:
        """The largest error of many tokens; or seconds and bytes, in a process of its own."""
        return [cost_apart(case) if case["kind"] == "cost" else largest_error(case)]

    def alone(self, case: Case) -> bool:
        """Costs are."""
        return bool(case["kind"] == "cost")

    def findings(self, table: Table, settings: LengthSettings) -> Sequence[Finding]:
        """Rates at every length, whether length or width matter, and how costs grow."""
        return [
            *(anchor_rate(table, n) for n in settings.tokens),
            *(head_rate(table, n, r) for r in settings.sentinels for n in settings.tokens),
            length_and_width(table),
            replace(within_bounds(table), claim="no error above the theorem's bound, in exact arithmetic"),
            *growth(table),
            feasible(table),
        ]

    def notes(self, table: Table, settings: LengthSettings) -> Sequence[str]:
        """Costs, and errors of several heads."""
        costs = [_cost_texts(row) for row in table.where(kind="cost").known]
        heads = [_head_texts(row) for row in table.where(kind="heads").known]
        header = ["layout", "tokens n", "features d", "keys p", "microseconds a token", "peak MB", "MB of weights"]
        of_heads = ["tokens n", "sentinels a side", "heads H", "anchors in all", "error", "bound"]
        return [markdown(header, costs), markdown(of_heads, heads)]

    def figures(self, table: Table, settings: LengthSettings) -> Mapping[str, Any]:
        """Errors against anchors in all, and costs against tokens."""
        from attnforge.experiments.length.figures import cost_figure, error_figure

        return {"length-error": error_figure(table), "length-cost": cost_figure(table)}


def _cost_texts(row: Mapping[str, Any]) -> list[str]:
    sizes = [row["layout"], f"{row['n']:,}", str(row["d"]), f"{row['p']:,}"]
    peak = "< 4" if row["peak"] < FLOOR else f"{row['peak'] / 1e6:.0f}"
    return [*sizes, f"{1e6 * row['seconds'] / row['n']:.2f}", peak, f"{row['weights'] / 1e6:.2f}"]


def _head_texts(row: Mapping[str, Any]) -> list[str]:
    sizes = [f"{row['n']:,}", str(row["sentinels"]), str(row["H"]), f"{row['p']:,}"]
    return [*sizes, f"{row['error']:.3g}", f"{row['bound']:.3g}"]

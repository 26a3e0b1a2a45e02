"""The question, its settings and cases, and figures of errors and costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from attnforge.experiments.claims import within_bounds
from attnforge.experiments.experiment import Case, Experiment, Finding, Row, crossed
from attnforge.experiments.length.costs import FLOOR, LAYOUTS, cost_apart
from attnforge.experiments.length.findings import anchor_rate, feasible, growth, head_rate, length_and_width
from attnforge.experiments.length.networks import largest_error
from attnforge.experiments.panels import Panel, band, curve, page
from attnforge.experiments.settings import Settings, setting
from attnforge.experiments.table import Table
from attnforge.plot.rates import SERIES, Curve, rate_curves

COSTS: dict[str, Any] = {
    "layout": "{layout}",
    "tokens n": "{n:,}",
    "features d": "{d}",
    "keys p": "{p:,}",
    "microseconds a token": lambda row: f"{1e6 * row['seconds'] / row['n']:.2f}",
    "peak MB": lambda row: "< 4" if row["peak"] < FLOOR else f"{row['peak'] / 1e6:.0f}",
    "MB of weights": lambda row: f"{row['weights'] / 1e6:.2f}",
}


@dataclass(frozen=True)
class LengthSettings(Settings):
    """How long sequences are, how wide, and how many anchors and heads there are."""

    tokens: tuple[int, ...] = setting((50, 1000, 10_000), (50, 1000, 10_000), explain="Numbers n of tokens.")
    features: tuple[int, ...] = setting((10, 30, 100), (10, 100), explain="Numbers d of features.")
    anchors: tuple[int, ...] = setting((64, 128, 256, 512, 1024), (64, 128, 256), explain="Numbers p of anchors.")
    heads: tuple[int, ...] = setting((1, 2, 4, 8), (1, 2, 4), explain="Numbers H of heads, n keys each.")
    sentinels: tuple[int, ...] = setting((2, 4), (4,), explain="Sentinels a side of the heads.")
    timed: tuple[int, ...] = setting(
        (50, 250, 500, 1000, 2000, 4000, 10_000), (500, 1000, 2000, 10_000), explain="Tokens of timed runs."
    )
    widths: tuple[int, ...] = setting((10, 30, 100), (10,), explain="Features of timed runs.")
    longest: int = setting(4000, 2000, explain="Tokens up to which the paper's padded sequence is timed.")
    memory: int = setting(256, explain="Anchors of timed memory heads; the padded sequence has at least n.")


class Length(Experiment[LengthSettings]):
    """The third next check of the summary of Hu et al. 2025."""

    name = "length"
    summary = "long sequences: error, time and memory against n and d"
    question = (
        "Do the rates O(1/p) and O(1/(nH)) hold for sequences of 1,000 and 10,000 tokens and for up to 100 features, "
        "and what do such sequences cost in time and memory? Token i is mapped to clamp(w_i . x_i + t_i, -25, 25), "
        "with w_i and t_i of its own."
    )
    settings = LengthSettings

    def cases(self, settings: LengthSettings) -> Sequence[Case]:
        """Errors of one head and of several, then costs."""
        n, d, seed = settings.tokens, settings.features, settings.seed
        several = [
            {"kind": "heads", "n": tokens, "d": min(d), "H": h, "sentinels": sentinels, "seed": seed}
            for tokens in n
            for sentinels in settings.sentinels
            for h in settings.heads
        ]
        costs = [
            {"kind": "cost", "layout": layout, "n": tokens, "d": width, "p": keys}
            for layout in LAYOUTS
            for width in settings.widths
            for tokens in settings.timed
            for keys in [settings.memory if layout == "memory" else tokens]
            if layout == "memory" or settings.memory <= tokens <= settings.longest
        ]
        return [*crossed(kind="anchors", n=n, d=d, p=settings.anchors, seed=seed), *several, *costs]

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
        heads = {"tokens n": "{n:,}", "sentinels a side": "{sentinels}", "heads H": "{H}", "anchors in all": "{p:,}"}
        errors = {"error": "{error:.3g}", "bound": "{bound:.3g}"}
        return [table.where(kind="cost").to_markdown(COSTS), table.where(kind="heads").to_markdown(heads | errors)]

    def figures(self, table: Table, settings: LengthSettings) -> Mapping[str, Any]:
        """Errors against anchors in all, and costs against tokens."""
        return {"length-error": _error_figure(table), "length-cost": _cost_figure(table.where(kind="cost"))}


def _error_figure(table: Table) -> Any:
    """All on one line: one head, the same for all n and d, and several heads, which differ in the number of keys."""
    several = table.where(kind="heads").ordered("H")
    guarded = several.where(sentinels=max(several.distinct("sentinels")))
    single = band("one head, every n and d", table.where(kind="anchors"), "p", "error", middle=max)
    heads = [
        curve(f"n = {n:,} keys a head", guarded.where(n=n), "p", "error")
        for n in table.where(kind="heads").distinct("n")
    ]
    return rate_curves([single, *heads], x_label="anchors in all heads", y_label="largest error", slopes=[-1])


def _cost_figure(rows: Table) -> Any:
    """Time and peak memory, a curve a layout and width."""
    shown = {"milliseconds": ("seconds", 1e3, 0.0), "peak MB": ("peak", 1e-6, FLOOR)}
    return page([Panel(_cost_curves(rows, *of), "tokens n", label) for label, of in shown.items()], 3.2)


def _cost_curves(rows: Table, column: str, scale: float, floor: float) -> list[Curve]:
    curves = []
    for number, (layout, d) in enumerate((layout, d) for layout in LAYOUTS for d in sorted(rows.distinct("d"))):
        n, values = rows.where(layout=layout, d=d).ordered("n").points("n", column)
        seen, look = values > floor, SERIES[number % len(SERIES)]
        curves.append(Curve(f"{layout}, d = {d}", n[seen], scale * values[seen], look=look))
    return curves

"""Error against the number of anchors of one head: constructed and trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attnforge.experiments.claims import falls_as, within_bounds
from attnforge.experiments.clamp import judged, one_head, trained
from attnforge.experiments.experiment import Case, Experiment, Finding, Row, crossed
from attnforge.experiments.panels import Panel, band, curve, page
from attnforge.experiments.settings import Settings, setting
from attnforge.experiments.table import Table

CONSTRUCTED = ("hard", "tuned")
FRESH = 100_000  # points that errors are measured on: random ones and a search from the worst, or evenly spaced ones


@dataclass(frozen=True)
class RateAnchorsSettings(Settings):
    """How many anchors, and how long the trained heads are trained."""

    anchors: tuple[int, ...] = setting(
        (8, 16, 32, 64, 128, 256, 512, 1024), (8, 32, 128, 512), explain="Numbers p of anchors of constructed heads."
    )
    trained: tuple[int, ...] = setting(
        (8, 16, 32, 64, 128), (8, 32, 128), explain="Numbers p of keys of trained heads."
    )
    repeats: int = setting(5, 2, explain="Trained heads a number, from different starts.")
    epochs: int = setting(400, 40, explain="Of training.")


class RateAnchors(Experiment[RateAnchorsSettings]):
    """The first experiment that the summary of Hu et al. 2025 asks for."""

    name = "rate-anchors"
    summary = "error against anchors p, constructed and trained"
    question = (
        "Does the error of one head fall as O(1/p) in the number p of its interpolation points, when the weights are "
        "constructed and when they are trained? The target is clamp(y, -1, 1) for y in [-2, 2]."
    )
    settings = RateAnchorsSettings

    def cases(self, settings: RateAnchorsSettings) -> Sequence[Case]:
        """Hard and tuned heads for every p; trained ones for some, from several starts."""
        training = {"start": range(settings.repeats), "epochs": settings.epochs, "seed": settings.seed}
        return [
            *crossed(kind=CONSTRUCTED, p=settings.anchors),
            *crossed(kind="trained", p=settings.trained, **training),
        ]

    def measure(self, case: Case) -> Sequence[Row]:
        """Mean square and largest error; the bound, where there is one."""
        if case["kind"] == "trained":
            return [trained(case["p"], 1, case["epochs"], 1000 * case["seed"] + case["start"], FRESH)]
        return [judged(one_head(case["p"], sharpness=case["kind"]), FRESH)]

    def findings(self, table: Table, settings: RateAnchorsSettings) -> Sequence[Finding]:
        """Slopes against the rate of the theorem."""
        largest = max(set(settings.trained) & set(settings.anchors), default=max(settings.trained))
        middle = table.where(kind="trained").medians("p", "error")[largest]
        factor = middle / table.where(kind="hard", p=largest).value("error")
        compared = f"at p = {largest} the median trained head errs {factor:.2g} times as much as hard selection"
        errors = {kind: table.where(kind=kind).points("p", "error") for kind in (*CONSTRUCTED, "trained")}
        return [
            *(falls_as(f"{kind} heads: error O(1/p)", *errors[kind], -1, slack=0.02) for kind in CONSTRUCTED),
            within_bounds(table),
            falls_as("trained heads: error O(1/p)", *errors["trained"], -1, more=compared),
        ]

    def figures(self, table: Table, settings: RateAnchorsSettings) -> Mapping[str, Any]:
        """Sup error and mean square error against p."""
        shown = (("error", "largest error", -1), ("mse", "mean square error", -2))
        panels = [Panel(_curves(table, column), "anchors p", label, slopes=[rate]) for column, label, rate in shown]
        return {"rate-anchors": page(panels, 3.2)}


def _curves(table: Table, column: str) -> list[Any]:
    constructed = [curve(f"constructed, {kind}", table.where(kind=kind), "p", column) for kind in CONSTRUCTED]
    return [*constructed, band("trained: median and range", table.where(kind="trained"), "p", column)]

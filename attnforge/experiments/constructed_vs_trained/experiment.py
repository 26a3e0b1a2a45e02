"""Constructed against trained weights: settings, cases, and where their answers are found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attnforge.experiments.claims import within_bounds
from attnforge.experiments.constructed_vs_trained import findings, tables
from attnforge.experiments.constructed_vs_trained.task import CONSTRUCTED, PARTS, STARTS, Task
from attnforge.experiments.experiment import Case, Experiment, Finding, Row, crossed
from attnforge.experiments.settings import Settings, setting
from attnforge.experiments.table import Table


@dataclass(frozen=True)
class ConstructedVsTrainedSettings(Settings):
    """Heads, repetitions and lengths of training."""

    heads: tuple[int, ...] = setting((1, 2, 4, 8, 16), (1, 4), explain="Numbers H of heads, divisors of 32.")
    repeats: int = setting(5, 1, explain="Tasks (w, t, data and first weights) that everything is repeated on.")
    epochs: int = setting(50, 5, explain="Of training from random weights.")
    rates: tuple[float, ...] = setting(
        (1e-3, 1e-4, 1e-5), (1e-4,), explain="Step sizes of training that starts from the construction."
    )
    further: int = setting(50, 5, explain="Epochs of training that starts from the construction.")
    cells: int = setting(40_000, 4_000, explain="Boxes that a proof may look at: more of them, a smaller bound.")


class ConstructedVsTrained(Experiment[ConstructedVsTrainedSettings]):
    """Is it better to construct the weights than to train them, and do trained ones stay where they were built?"""

    name = "constructed-vs-trained"
    summary = "the authors' training task: error, time, training further"
    question = (
        "On the task that Hu et al. 2025 train on (10 features, 50 tokens, 60 keys a head, 1 to 16 heads, 50 epochs of "
        "Adam), how much better are constructed weights and how much sooner are they there? And where does training go "
        "when it starts from them? Mean square errors are those of the one output feature with a target; times are "
        "seconds of one core."
    )
    settings = ConstructedVsTrainedSettings

    def cases(self, settings: ConstructedVsTrainedSettings) -> Sequence[Case]:
        """Trained and constructed for every H and task; training from the construction on the first task."""
        seed, tasks, epochs = settings.seed, range(settings.repeats), settings.epochs
        further = {"epochs": settings.further, "cells": settings.cells, "seed": seed, "task": 0}
        return [
            *crossed(kind="trained", epochs=epochs, heads=settings.heads, seed=seed, task=tasks),
            *crossed(kind=CONSTRUCTED, heads=settings.heads, seed=seed, task=tasks),
            *crossed(kind="continued", start=STARTS, part=PARTS, rate=settings.rates, **further),
        ]

    def alone(self, case: Case) -> bool:
        """What is timed."""
        return bool(case["kind"] != "continued")

    def measure(self, case: Case) -> Sequence[Row]:
        """Errors on fresh data and times; for training from the construction, a row for some of the epochs."""
        from attnforge.experiments.constructed_vs_trained.continuing import continued
        from attnforge.experiments.constructed_vs_trained.timing import constructed, trained

        task = Task(1000 * case["seed"] + case["task"])
        if case["kind"] == "trained":
            return [trained(task, case["heads"], case["epochs"])]
        if case["kind"] == "continued":
            return continued(task, case["start"], case["part"], case["rate"], case["epochs"], case["cells"])
        return [constructed(task, case["kind"], case["heads"], library=case["task"] == 0)]

    def findings(self, table: Table, settings: ConstructedVsTrainedSettings) -> Sequence[Finding]:
        """The two ratios for every variant, the bounds, and what became of training from the construction."""
        return [
            *(findings.lower(table, kind) for kind in CONSTRUCTED),
            *(findings.sooner(table, kind, column, what, settings.epochs) for kind, column, what in findings.TIMES),
            within_bounds(table),
            *findings.falls_with_heads(table),
            findings.printed(table),
            findings.stays(table),
            *(findings.went(table, start) for start in STARTS),
            findings.bounded_again(table),
        ]

    def notes(self, table: Table, settings: ConstructedVsTrainedSettings) -> Sequence[str]:
        """The comparison, and training from the construction, in tables."""
        return [
            "How many times less the mean square error is, and how many times sooner the weights are there:",
            tables.ratio_table(table),
            "Constructed against trained, medians over the tasks; in brackets how many times less than trained:",
            tables.comparison(table),
            "Times in seconds; in brackets how many times sooner than trained:",
            tables.times(table),
            "Trained from the construction (one head, float64, Adam, constant step size), first task:",
            tables.journey(table),
            tables.WHY,
        ]

    def figures(self, table: Table, settings: ConstructedVsTrainedSettings) -> Mapping[str, Any]:
        """Mean square error against H; against the time it took; and against epochs from the construction."""
        from attnforge.experiments.constructed_vs_trained.figures import continued_figure, heads_figure, time_figure

        return {
            f"{self.name}-heads": heads_figure(table),
            f"{self.name}-time": time_figure(table),
            f"{self.name}-continued": continued_figure(table),
        }

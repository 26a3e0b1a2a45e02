"""A small experiment for tests of what surrounds experiments; importable, so that other processes can measure it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from attnforge.errors import RefusalError
from attnforge.experiments.claims import within_bounds
from attnforge.experiments.experiment import Case, Experiment, Finding, Row
from attnforge.experiments.settings import Settings, setting
from attnforge.experiments.table import Table
from tests.meeting import arrive

REFUSED = 1000  # a count that is too much for a toy


@dataclass(frozen=True)
class ToySettings(Settings):
    counts: tuple[int, ...] = setting((1, 2, 4), (1, 2), explain="Sizes.")
    scale: float = setting(1.0, explain="Of the error.")
    meeting: int = setting(0, explain="The port at which whoever measures a case waits to be let on.", least=0)
    trace: str = setting("", explain="A file that gets a line whenever a case is measured.")
    broken: int = setting(0, explain="A count whose case raises an error.", least=0)
    slow: bool = setting(False, explain="Whether cases must be alone.")


class Toy(Experiment[ToySettings]):
    """The error of a toy is one over its size."""

    name: ClassVar[str] = "toy"
    summary: ClassVar[str] = "one over the size"
    question: ClassVar[str] = "Does one over p fall as 1/p?"
    settings = ToySettings

    def cases(self, settings: ToySettings) -> Sequence[Case]:
        names = ("scale", "meeting", "trace", "broken", "slow")
        return [{"p": p, **{name: getattr(settings, name) for name in names}} for p in settings.counts]

    def measure(self, case: Case) -> Sequence[Row]:
        if case["p"] == case["broken"]:
            raise ValueError("this one is broken")
        if case["p"] == REFUSED:
            raise RefusalError("A toy must be small", str(case["p"]), "Take another")
        if case["trace"]:
            with Path(case["trace"]).open("a") as file:
                file.write(f"{case['p']} {os.getpid()}\n")
        if case["meeting"]:
            arrive(case["meeting"])
        return [{"error": case["scale"] / case["p"], "bound": 1 / case["p"]}]

    def findings(self, table: Table, settings: ToySettings) -> Sequence[Finding]:
        return [Finding("rows", "measured", f"{len(table)}"), within_bounds(table)]

    def figures(self, table: Table, settings: ToySettings) -> Mapping[str, Any]:
        from attnforge.plot.rates import Curve, rate_curves

        return {
            "toy": rate_curves([Curve("toy", table.numbers("p"), table.numbers("error"))], x_label="p", y_label="e")
        }

    def alone(self, case: Case) -> bool:
        return bool(case["slow"])

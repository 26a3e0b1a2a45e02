"""Results of constructed against trained as they might be."""

from __future__ import annotations

from attnforge.experiments.constructed_vs_trained import ConstructedVsTrained, ConstructedVsTrainedSettings
from attnforge.experiments.constructed_vs_trained.task import ENCLOSURE
from attnforge.experiments.table import Cell, Table

EXPERIMENT = ConstructedVsTrained()


def made_up(*, ratio: float = 1000.0, gain: float = 0.5, proved: bool = True) -> Table:
    """A table in which the construction is so many times better and sooner, and training from it gains so much."""
    rows: list[dict[str, Cell]] = []
    for case in EXPERIMENT.cases(ConstructedVsTrainedSettings()):
        row: dict[str, Cell] = dict(case)
        if case["kind"] == "trained":
            row |= {"mse": 4.0 / case["heads"], "error": 14.0, "printed": 0.125 / case["heads"], "seconds": 10.0}
        elif case["kind"] == "continued":
            for epoch in (0, 50):
                after = {"mse": 1e-3 * gain ** (epoch / 50), "error": 0.1, "moved": 0.1, "undecided": 0.5}
                bound, proof = (0.2, ENCLOSURE) if proved or not epoch else (None, "the time allowed")
                rows.append({**case, **after, "epoch": epoch, "bound": bound, "proof": proof})
            continue
        else:
            row |= {"mse": 4.0 / case["heads"] / ratio, "error": 0.1, "bound": 0.2, "seconds": 10.0 / ratio}
            row |= {"proved_seconds": 10.0 / ratio, "library_seconds": 10.0 / ratio}
        rows.append(row)
    return Table.of(rows)

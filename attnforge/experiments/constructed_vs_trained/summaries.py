"""What findings, tables and figures read off the results: medians, ratios, and trainings from their start."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attnforge.experiments.constructed_vs_trained.continuing import PARTS, STARTS
from attnforge.experiments.table import Table

TIMES = (
    ("mean", "seconds", "the weights, given w and t"),
    ("mean", "proved_seconds", "the weights and their proof, given w and t"),
    ("estimated", "seconds", "w, t and the weights, from the training data"),
    ("estimated", "proved_seconds", "w, t, the weights and their proof, from the training data"),
    ("mean", "library_seconds", "the library's call, which also searches for the worst point"),
)


def middle(table: Table, kind: str, column: str) -> dict[int, float]:
    """The median over the tasks for every H; only of rows that have the column."""
    found = table.where(kind=kind).having(column).grouped("heads", column)
    return {int(heads): float(np.median(values)) for heads, values in found.items()}


def ratios(table: Table, kind: str, column: str) -> dict[int, float]:
    """How many times less than trained: median trained over median constructed, for every H."""
    base = "mse" if column == "mse" else "seconds"
    trained, built = middle(table, "trained", base), middle(table, kind, column)
    return {h: trained[h] / built[h] for h in built if h in trained}


def journeys(table: Table, *starts: str) -> list[Table]:
    """The rows of every training from these starts (by default all), each in order of epochs."""
    return [
        rows.where(part=part, rate=rate).ordered("epoch")
        for start in starts or STARTS
        for rows in [table.where(kind="continued", start=start)]
        for part in PARTS
        for rate in rows.where(part=part).distinct("rate")
    ]


def plain(value: float) -> str:
    """Two digits, with commas rather than powers of ten up to a billion.

    >>> plain(156_400.0), plain(77.3), plain(0.0123)
    ('160,000', '77', '0.012')
    """
    if not 10 <= abs(value) < 1e9:
        return f"{value:.2g}"
    digits = len(str(int(abs(value)))) - 2
    return f"{round(value, -digits):,.0f}"


def span(values: Sequence[float]) -> str:
    """The least and the largest.

    >>> span([3.0, 1.0, 2.0])
    '1 to 3'
    """
    return f"{min(values):.2g} to {max(values):.2g}"


def change(way: Table, column: str) -> str:
    """The first and the last.

    >>> change(Table.of([{"mse": 3.0}, {"mse": 1.0}]), "mse")
    '3 to 1'
    """
    values = way.numbers(column)
    return f"{values[0]:.3g} to {values[-1]:.3g}"

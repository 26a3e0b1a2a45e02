"""Columns of the results as curves on logarithmic axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from attnforge.experiments.in_context.problems import Array
from attnforge.experiments.table import Table

FLOOR = 1e-17  # zeros are drawn here


def seen(rows: Table, column: str) -> Array:
    """A column for a logarithmic axis, which has no zero.

    >>> seen(Table.of([{"error": 0.0}, {"error": 0.5}]), "error").tolist()
    [1e-17, 0.5]
    """
    return np.asarray(np.maximum(rows.numbers(column), FLOOR))


def curve(name: str, rows: Table, x: str, y: str) -> Any:
    """One column against another."""
    from attnforge.plot.rates import Curve

    return Curve(name, rows.numbers(x), seen(rows, y))

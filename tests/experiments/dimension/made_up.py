"""Numbers of keys as they would be if all claims held."""

from __future__ import annotations

from typing import Any

from attnforge.experiments.dimension.networks import TARGETS
from attnforge.experiments.table import Table

GROWTH: dict[str, Any] = {
    "hard cells": lambda d: 50**d,
    "two layers": lambda d: 50**d + 100 * d,
    "tensor grid": lambda d: 3**d,
    "sparse grid": lambda d: d**3,
    "additive": lambda d: 6 * d,
    "ridge": lambda d: 8,
}


def rows(growth: dict[str, Any]) -> Table:
    """Keys by construction as functions of d, for all targets; errors half of what is allowed."""
    found = []
    for name in TARGETS:
        for construction, keys in growth.items():
            if construction in ("additive", "ridge") and construction != name:
                continue
            for d in range(5 if construction == "sparse grid" else 2, 11):
                cells = {"keys": keys(d), "parameters": d * keys(d), "built": True, "error": 5e-3, "bound": 1e-2}
                found.append({"target": name, "construction": construction, "d": d, "tol": 1e-2} | cells)
    return Table.of(found)

"""The small-sharpness route: how the error of one step depends on the sharpness of the aggregation head."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from attnforge.experiments.claims import falls_as
from attnforge.experiments.experiment import Case, Finding, Row
from attnforge.experiments.in_context.curves import curve
from attnforge.experiments.in_context.drift import norm
from attnforge.experiments.in_context.problems import DTYPES, Problem
from attnforge.experiments.in_context.settings import InContextSettings
from attnforge.experiments.table import Table

ORDERS = {1: 2, 2: 4}  # of the error in the sharpness, by the number of heads


def cases(settings: InContextSettings) -> list[Case]:
    """One head and two, in both precisions."""
    return [
        {"part": "sharpness", "dtype": t, "heads": heads, "count": settings.sharpnesses, "seed": settings.seed}
        for t in DTYPES
        for heads in ORDERS
    ]


def by_sharpness(task: Problem, dtype: str, heads: int, count: int) -> list[Row]:
    """Relative error of one step from zero by the sharpness of the aggregation head, and at the one chosen."""
    from attnforge.compiler.in_context import stacked
    from attnforge.theorems.in_context.block import block
    from attnforge.theorems.in_context.sharpness import TYPICAL, balanced

    built = task.network(1, dtype)
    reach = float(max(np.abs(task.x).max(), np.abs(task.y).max()))
    chosen = balanced(dtype, TYPICAL * reach, reach, heads == 2)
    exact = task.step(task.start)

    def error(beta: float) -> float:
        sharpness = replace(chosen, aggregation=beta)
        net = built.with_network(stacked(block(built.algorithm, built.features, sharpness), built.target))
        return norm(task.attention(net)[0] - exact) / norm(exact)

    betas = [*np.geomspace(1e-7, 1.0, count).tolist(), chosen.aggregation]
    return [{"beta": beta, "error": error(beta), "chosen": i == count} for i, beta in enumerate(betas)]


def findings(table: Table) -> list[Finding]:
    """The order of truncation, where it is above rounding and below saturation."""
    return [_order(table, heads, order) for heads, order in ORDERS.items()]


def _order(table: Table, heads: int, order: int) -> Finding:
    rows = table.where(part="sharpness", dtype="float64", heads=heads)
    beta, error = (rows.where(chosen=False).numbers(column) for column in ("beta", "error"))
    best = int(error.argmin())
    kept = (beta > 3 * beta[best]) & (beta < 0.1)
    chosen = float(rows.where(chosen=True).numbers("error")[0])
    more = f"least {error[best]:.1e} at beta {beta[best]:.1e}; {chosen:.1e} at the one chosen by formula"
    claim = f"small-sharpness route, {_counted(heads)}: error O(beta^{order})"
    return falls_as(claim, beta[kept], error[kept], order, slack=0.05, more=more)


def _counted(heads: int) -> str:
    return f"{heads} head{'s' * (heads > 1)}"


def curves(table: Table) -> list[Any]:
    """The error against the sharpness, of one head and two in both precisions."""
    return [
        curve(
            f"{dtype}, {_counted(heads)}",
            table.where(part="sharpness", dtype=dtype, heads=heads, chosen=False),
            "beta",
            "error",
        )
        for dtype in DTYPES
        for heads in ORDERS
    ]

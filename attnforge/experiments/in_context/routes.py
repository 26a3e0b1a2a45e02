"""The two routes of a step: sums at a small sharpness, and derivatives of the loss interpolated from anchors.

The error of the first depends on the sharpness of the aggregation head. The second takes the derivative of the loss
from p anchors, by hard selection as in the paper or by tuned.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from attnforge.experiments.claims import falls_as
from attnforge.experiments.experiment import Finding, Row
from attnforge.experiments.in_context.drift import FLOOR, norm
from attnforge.experiments.in_context.problems import DELTA, DTYPES, REACH, Problem, problem
from attnforge.experiments.panels import curve
from attnforge.experiments.slope import fit_slope
from attnforge.experiments.table import Table
from attnforge.theorems.in_context.block import block
from attnforge.theorems.in_context.sharpness import TYPICAL, balanced

ORDERS = {1: 2, 2: 4}  # of the error in the sharpness, by the number of heads
INTERPOLATED = ("least squares", "Huber", "logistic")
BETWEEN = 21  # residuals between two anchors at which a link is looked at
DRAWN = (
    ("least squares", "hard", "error"),
    ("Huber", "hard", "error"),
    ("Huber", "tuned", "error"),
    ("logistic", "hard", "drift"),
    ("logistic", "tuned", "drift"),
    ("least squares", "tuned", "error"),
)


def by_sharpness(task: Problem, dtype: str, heads: int, count: int) -> list[Row]:
    """Relative error of one step from zero by the sharpness of the aggregation head, and at the one chosen."""
    from attnforge.compiler.in_context import stacked

    built = task.network(1, dtype)
    reach = float(max(np.abs(task.x).max(), np.abs(task.y).max()))
    chosen = balanced(dtype, TYPICAL * reach, reach, heads == 2)
    exact = task.step(task.start)

    def error(beta: float) -> float:
        sharpness = replace(chosen, aggregation=beta)
        net = built.with_network(stacked([block(built.algorithm, built.features, sharpness)], built.target))
        return norm(task.attention(net)[0] - exact) / norm(exact)

    betas = [*np.geomspace(1e-7, 1.0, count).tolist(), chosen.aggregation]
    return [{"beta": beta, "error": error(beta), "chosen": i == count} for i, beta in enumerate(betas)]


def interpolated(kind: str, asked: str, p: int, steps: int, seed: int) -> Row:
    """The interpolation route: drift after all steps, and the largest error of the link.

    A prompt of the single example (1, y) moves the weight from 0 by -rate r(-y): what the network makes of r is read
    off its answer, with the error of the sum on top. Labels of logistic regression are 0 or 1, so there is nothing to
    be read off.
    """
    task = problem(kind, seed=seed)
    options: dict[str, Any] = {"route": "interpolation", "anchors": p, "sharpness": asked}
    drift = norm(task.attention(task.network(steps, **options))[-1] - task.iterates(steps)[-1])
    if task.kind.link == "logistic":
        return {"drift": drift}
    reach = 2 * DELTA if task.kind.link == "clamp" else REACH
    y = np.linspace(-reach, reach, BETWEEN * (p - 1) + 1)
    single = Problem(task.kind, np.ones((1, 1)), np.zeros(1))
    answers = single.network(1, **options)(np.ones((len(y), 1, 1)), y[:, None])
    wanted = np.clip(-y, -DELTA, DELTA) if task.kind.link == "clamp" else -y
    return {"drift": drift, "error": float(np.abs(answers[:, 0] / -single.rate - wanted).max())}


def findings(table: Table) -> list[Finding]:
    """The order of truncation; the paper's hard selection, and what tuning it gives."""
    largest = int(table.where(part="interpolation").numbers("p").max())
    tuned = {kind: _by_anchors(table, kind, "tuned") for kind in INTERPOLATED}
    at = "; ".join(f"{kind} {each.numbers('drift')[-1]:.1e}" for kind, each in tuned.items())
    slope = fit_slope(*tuned["logistic"].points("p", "drift"))
    evidence = f"drift at p = {largest}: {at}; logistic falls with slope {slope}"
    return [
        *(_order(table, heads, order) for heads, order in ORDERS.items()),
        *(_hard(table, kind, largest) for kind in ("least squares", "Huber")),
        Finding("interpolation route, tuned", "measured", evidence),
    ]


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


def _hard(table: Table, kind: str, largest: int) -> Finding:
    rows = _by_anchors(table, kind, "hard")
    claim = f"interpolation route, hard, {kind}: error of the link O(1/p)"
    more = f"weights after all steps are off by {rows.numbers('drift')[-1]:.1e} at p = {largest}"
    return falls_as(claim, rows.numbers("p") - 1, rows.numbers("error"), -1, slack=0.02, more=more)


def _by_anchors(table: Table, kind: str, asked: str) -> Table:
    return table.where(part="interpolation", kind=kind, asked=asked).ordered("p")


def sharpness_curves(table: Table) -> list[Any]:
    """The error against the sharpness, of one head and two in both precisions."""
    rows = table.where(part="sharpness", chosen=False)
    return [
        curve(f"{t}, {_counted(heads)}", rows.where(dtype=t, heads=heads), "beta", "error", floor=FLOOR)
        for t in DTYPES
        for heads in ORDERS
    ]


def anchor_curves(table: Table) -> list[Any]:
    """Errors of links, or of weights where a link has none, against the number of anchors."""
    named = {"error": "link", "drift": "weights"}
    return [
        curve(f"{kind}, {asked}, {named[column]}", _by_anchors(table, kind, asked), "p", column, floor=FLOOR)
        for kind, asked, column in DRAWN
    ]

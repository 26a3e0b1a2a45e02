"""The interpolation route: the derivative of the loss from p anchors, hard as in the paper and tuned."""

from __future__ import annotations

from typing import Any

import numpy as np

from attnforge.experiments.claims import falls_as
from attnforge.experiments.experiment import Case, Finding, Row
from attnforge.experiments.in_context.curves import curve
from attnforge.experiments.in_context.drift import norm
from attnforge.experiments.in_context.problems import DELTA, REACH, Problem, problem
from attnforge.experiments.in_context.settings import InContextSettings
from attnforge.experiments.slope import fit_slope
from attnforge.experiments.table import Table

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


def cases(settings: InContextSettings) -> list[Case]:
    """Hard and tuned selection among every number of anchors."""
    steps, seed = settings.fewer_steps, settings.seed
    return [
        {"part": "interpolation", "kind": k, "asked": asked, "p": p, "steps": steps, "seed": seed}
        for k in INTERPOLATED
        for asked in ("hard", "tuned")
        for p in settings.anchors
    ]


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
    """The paper's hard selection, and what tuning it gives."""
    largest = int(table.where(part="interpolation").numbers("p").max())
    tuned = {kind: _by_anchors(table, kind, "tuned") for kind in INTERPOLATED}
    at = "; ".join(f"{kind} {each.numbers('drift')[-1]:.1e}" for kind, each in tuned.items())
    slope = fit_slope(*tuned["logistic"].points("p", "drift"))
    evidence = f"drift at p = {largest}: {at}; logistic falls with slope {slope}"
    return [
        *(_hard(table, kind, largest) for kind in ("least squares", "Huber")),
        Finding("interpolation route, tuned", "measured", evidence),
    ]


def _hard(table: Table, kind: str, largest: int) -> Finding:
    rows = _by_anchors(table, kind, "hard")
    claim = f"interpolation route, hard, {kind}: error of the link O(1/p)"
    more = f"weights after all steps are off by {rows.numbers('drift')[-1]:.1e} at p = {largest}"
    return falls_as(claim, rows.numbers("p") - 1, rows.numbers("error"), -1, slack=0.02, more=more)


def _by_anchors(table: Table, kind: str, asked: str) -> Table:
    return table.where(part="interpolation", kind=kind, asked=asked).ordered("p")


def curves(table: Table) -> list[Any]:
    """Errors of links, or of weights where a link has none, against the number of anchors."""
    named = {"error": "link", "drift": "weights"}
    return [
        curve(f"{kind}, {asked}, {named[column]}", _by_anchors(table, kind, asked), "p", column)
        for kind, asked, column in DRAWN
    ]

"""Kernel regression: one head, whose answer has a closed form."""

from __future__ import annotations

from typing import Any

import numpy as np

import attnforge as af
from attnforge.experiments.experiment import Finding, Row
from attnforge.experiments.in_context.problems import DTYPES, FEATURES, problem
from attnforge.experiments.table import Table

QUERIES = 50  # points at which kernel regression predicts
KERNELS = ("gaussian", "softmax")
DIGITS = 1e-13  # in float64, relative to the largest label


def averaged(kernel: Any, dtype: str, draws: int, seed: int) -> Row:
    """Kernel regression against the closed form: the largest difference, relative to the largest label."""
    net = af.in_context.KernelRegression(bandwidth=1.0, kernel=kernel, dtype=dtype).build(FEATURES)
    worst = 0.0
    for draw in range(draws):
        task = problem("least squares", seed=1000 * seed + draw)
        queries = np.random.default_rng([seed, draw]).normal(size=(QUERIES, FEATURES))
        scores = queries @ task.x.T
        if kernel == "gaussian":
            scores = -((queries[:, None] - task.x) ** 2).sum(axis=-1) / 2
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        exact = weights @ task.y / weights.sum(axis=1)
        found = net.predict(task.x, task.y, queries)
        worst = max(worst, float(np.abs(found - exact).max() / np.abs(task.y).max()))
    return {"error": worst}


def finding(table: Table) -> Finding:
    """Whether the differences are those of rounding."""
    rows = table.where(part="kernel")
    double, single = (float(rows.where(dtype=dtype).numbers("error").max()) for dtype in DTYPES)
    claim = f"kernel regression equals its closed form to rounding ({DIGITS:g} in float64)"
    evidence = f"largest difference {double:.1e} in float64, {single:.1e} in float32"
    return Finding.judged(claim, double <= DIGITS, evidence)

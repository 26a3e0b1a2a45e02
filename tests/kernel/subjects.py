"""Small statements of several kinds, with errors of their runs at points: no bound may be below these."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch

import attnforge as af
from attnforge.expression import evaluate, parse
from attnforge.kernel.theorem import Domain, Formulas, Output, Run, Statement
from attnforge.proving.statements import statement_of
from attnforge.runtime import AttentionNetwork

NAMES = ("fit", "kink", "row", "product", "gate", "two outputs")
POINTS = 400
ROUNDED = 1e-14  # of formulas evaluated in float64


@cache
def statement(name: str) -> Statement:
    x, xy, square = {"x": (-1, 1)}, {"x": (-1, 1), "y": (-1, 1)}, af.Box(-2, 2, shape=(2,))
    match name:
        case "fit":
            net = af.compile("sin(3*x)", x, 1e-4, construction="tensor_grid")
        case "kink":
            net = af.compile("abs(x - 0.3)", x, 1e-2, construction="tensor_grid")
        case "row":
            net = af.constructions.truncated_linear([1.0, -2.0], 0.3, -1.0, 1.0, anchors=6, domain=square)
        case "product":
            net = af.compile("exp(-x^2)*cos(2*y)", xy, 1e-2, construction="tensor_grid")
        case "gate":
            net = af.constructions.gate([1.0, -2.0], 0.3, -1.0, 1.0, domain=square, dtype="bfloat16")
        case "two outputs":  # the second is off by up to 1/4
            one = statement("fit")
            more = Output(0, 0, parse("sin(3*x) + x/4"), {"x": 0})
            return Statement(one.run, Formulas((*one.target.outputs, more)), one.domain)
    return statement_of(net.network, net.certificate.dtype, net.target, net.domain)


def points_of(domain: Domain, count: int = POINTS, seed: int = 0) -> np.ndarray:
    """Corners, the middle, and random points (count, tokens, features)."""
    rng, (low, high) = np.random.default_rng(seed), (domain.lower, domain.upper)
    share = rng.uniform(size=(count, *domain.shape))
    share[: count // 4] = rng.integers(0, 2, size=share[: count // 4].shape)
    share[0] = 0.5
    return np.clip(low + share * (high - low), low, high)


def computed(run: Run, points: np.ndarray) -> np.ndarray:
    """By one execution in the dtype."""
    if run.dtype == "float64":
        return run.network(points)
    dtype = getattr(torch, run.dtype)
    with torch.no_grad():
        return AttentionNetwork(run.network, dtype)(torch.tensor(points).to(dtype)).double().numpy()


def largest_error(stated: Statement, points: np.ndarray | None = None) -> float:
    """The largest error of one execution at points."""
    points = points_of(stated.domain) if points is None else points
    outputs, flat = computed(stated.run, points), points.reshape(len(points), -1)
    errors = []
    for each in stated.target.outputs:
        wanted = evaluate(each.tree, {name: flat[:, i] for name, i in each.inputs.items()})
        errors.append(np.abs(outputs[:, each.row, each.feature] - wanted).max())
    return float(np.max(errors)) - ROUNDED

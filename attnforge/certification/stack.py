r"""Any stack of linear maps and softmax heads against a formula: the whole network enclosed on cells.

No theorem is looked for. Taylor coefficients of the composed network and of the formula are taken cell by cell, with
what the run may add, as the checker does (:mod:`attnforge.certification.checker`). The error at sample points says
which bound to try; the first that every cell confirms is stated.
"""

from __future__ import annotations

import math

import numpy as np

from attnforge.certification.checker.questions import questions
from attnforge.certification.checker.search import answer
from attnforge.effort import NORMAL, Effort, check_time
from attnforge.errors import CertificateError
from attnforge.network import Network
from attnforge.targets import Box, Formula, Target, TruncatedLinear

FACTORS = (1.1, 1.5, 3.0, 10.0, 100.0)  # of the error seen: the bounds tried
SAMPLES = 2000
SHARE = 0.15  # of the boxes of a proof, for each of them


def bound_stack(network: Network, target: Target, domain: Box, dtype: str, effort: Effort = NORMAL) -> dict[str, float]:
    """``enclosure``: the smallest of a few multiples of the error seen that holds on every cell."""
    if not isinstance(target, Formula | TruncatedLinear):
        raise CertificateError(
            "A network that claims no construction is certified against a formula", target.describe(), "Measure it"
        )
    target = target.on(domain)
    points = np.random.default_rng(0).uniform(domain.lower, domain.upper, size=(SAMPLES, *domain.shape))
    tokens = points if target.layout == "tokens" and points.ndim == 3 else points[:, None]
    seen = float(np.abs(network(tokens).reshape(SAMPLES, -1) - target.values(points).reshape(SAMPLES, -1)).max())
    for factor in FACTORS:
        bound = max(factor * seen, FACTORS[0] * 1e-15)
        cells = math.ceil(SHARE * effort.boxes)
        found = [answer(question, cells, effort.processes) for question in questions(network, target, bound, dtype)]
        check_time("proving a stack of layers")
        if all(each.verdict == "confirmed" for each in found):
            return {"enclosure": max(each.reached for each in found)}
    got = f"none up to {FACTORS[-1]:g} times the error {seen:.3g} seen"
    raise CertificateError("Some bound must hold on every cell", got, "Measure it instead, or use a wider dtype")

"""One head on registers: what graphs of formulas are made of."""

from __future__ import annotations

import attnforge as af
from attnforge.zoo.citations import OURS
from attnforge.zoo.entry import UNHURRIED, Entry

KIND = "register"

ENTRIES = (
    Entry(
        "multiplier",
        KIND,
        "x y",
        "x, y in [-1, 1]",
        "one head of five keys: its own token with value y, and four sinks whose scores are affine in x such that the "
        "sum of exponentials is a Gauss-Radau rule for 1/(3 + x); what is too much, 3 y, is linear and taken off",
        OURS,
        lambda: af.constructions.multiplier(5, effort=UNHURRIED),
    ),
    Entry(
        "exponential",
        KIND,
        "v exp(l)",
        "v in [0, 1], l in [-1, 0]",
        "one head of two keys: its own token with score l and value v, and a sink of score M >> l: their softmax is "
        "exp(l - M), to rounding, and the value holds the factor exp(M)",
        OURS,
        lambda: af.constructions.exponential({"v": (0, 1), "l": (-1, 0)}, effort=UNHURRIED),
    ),
    Entry(
        "logistic",
        KIND,
        "1/(1 + exp(-(x0 - 2 x1 + 1/2)))",
        "x0, x1 in [-1, 1]",
        "one head of two constant keys with scores w . x + t and 0 and values 1 and 0: the softmax of two scores is "
        "the logistic function of their difference",
        "the softmax of two scores",
        lambda: af.constructions.logistic([1.0, -2.0], 0.5, domain=af.Box(-1, 1), effort=UNHURRIED),
    ),
)

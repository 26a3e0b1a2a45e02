"""Truncated linear functions, token by token: one head, several heads, three keys."""

from __future__ import annotations

import numpy as np

import attnforge as af
from attnforge.zoo.citations import HU
from attnforge.zoo.entry import UNHURRIED, Entry

KIND = "ramp"

ENTRIES = (
    Entry(
        "ramp",
        KIND,
        "clamp(x, -1, 1) of every token",
        "tokens (n, 1) in [-3, 3]",
        "one head; 21 anchors L_k on [-1, 1], scores beta (2 x L_k - L_k^2), values L_k: a Gaussian average of the "
        "anchors near x, which saturates at both ends",
        HU,
        lambda: af.constructions.truncated_linear(
            [1.0], 0.0, -1, 1, anchors=21, domain=af.Box(-3, 3), effort=UNHURRIED
        ),
    ),
    Entry(
        "ramp_padded",
        KIND,
        "clamp(x0 - 2 x1 + 1/2, -1, 1) of every token, in the paper's own layout",
        "3 tokens (3, 2) in [-2, 2]",
        "the sequence is padded by anchors as tokens, one-hot positions make their keys; the hard limit: each token "
        "looks at its nearest anchor alone",
        HU,
        lambda: af.constructions.truncated_linear(
            [1.0, -2.0],
            0.5,
            -1,
            1,
            anchors=12,
            sharpness="hard",
            grid="open",
            layout="literal",
            domain=af.Box(-2, 2, shape=(3, 2)),
            effort=UNHURRIED,
        ),
    ),
    Entry(
        "ramp_four_heads",
        KIND,
        "clamp(x0 + x1/2, -1, 1) of every token, by four heads that share the interval",
        "tokens (n, 2) in [-2, 2]",
        "each head holds a quarter of the anchors and sentinels of value 0 on its neighbours': outside of its quarter "
        "it looks at a sentinel and adds nothing",
        HU,
        lambda: af.constructions.multihead_truncated_linear(
            [1.0, 0.5], 0.0, -1, 1, tokens=12, heads=4, domain=af.Box(-2, 2), effort=UNHURRIED
        ),
    ),
    Entry(
        "ramp_of_each_token",
        KIND,
        "clamp(w_i . x_i + t_i, -1, 1), another ramp for each of eight tokens",
        "8 tokens (8, 2) in [-1, 1]",
        "the paper's [X, I_n]: three heads over the eight tokens, whose one-hot positions say which form is theirs and "
        "which anchor they stand for",
        HU,
        lambda: af.constructions.multihead_truncated_linear(
            np.linspace(-1, 1, 16).reshape(8, 2),
            np.linspace(0, 1, 8),
            -1,
            1,
            tokens=8,
            heads=3,
            layout="literal",
            domain=af.Box(-1, 1),
            effort=UNHURRIED,
        ),
    ),
    Entry(
        "gate",
        KIND,
        "clamp(x0 + 2 x1 + 1/2, -1, 1) of every token, to rounding",
        "tokens (n, 2) in [-2, 2]",
        "three keys, low, self and high, with scores -beta (y + 1), 0, beta (y - 1) and values -1, y, 1: no anchors, "
        "the token's own value is passed on between the ends",
        f"attnforge, after {HU}; a SiLU head by Huben and Morris 2023, arXiv:2309.08593",
        lambda: af.constructions.gate([1.0, 2.0], 0.5, -1, 1, domain=af.Box(-2, 2), effort=UNHURRIED),
    ),
)

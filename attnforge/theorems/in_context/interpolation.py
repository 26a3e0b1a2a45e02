r"""The interpolation route (after Hu et al. 2025, section 4): a token's residual is read off a row of anchors.

An example with query $\beta(2x_i, -2y_i, -1)$ meets keys $(L_k w, L_k, L_k^2)$: scores $\beta(2 s L_k - L_k^2)$,
$s = w \cdot x_i - y_i$, differ from $-\beta(s - L_k)^2$ by a constant, so values $r(L_k)$ are averaged around s. For
logistic and Poisson regression y stays outside the link and $s = w \cdot x_i$.

**Keys that hold the state.** p anchor tokens follow the state tokens. At every step they receive $L_k w$: their query
$t_k$ meets the state tokens w and -w with scores $\pm t_k$, so the head returns $\tanh(t_k)\,w$, and
$\tanh t_k = L_k / (2 L_{\max})$: exact, whatever w is.

**The sum** over examples is the aggregation of :mod:`.small_sharpness`. In the paper values are $r(L_k)\,x_{i'}$ with
keys for every pair (k, i'), a score $M e_i \cdot e_{i'}$ singles out i' = i, and the output is averaged: p n keys a
token for the same numbers.

**Error** (:mod:`attnforge.lemmas.link_row`). *Hard*: E = 0.43, order 1/p. *Tuned*, Huber: the row is
$[-\delta, \delta]$, the truncated linear function of the paper's one-head theorem, E = 0.063. *Tuned*, smooth links: c
below 3 and g ghost anchors beyond each end make E the saturation $(2\pi/c)e^{-\pi^2/c}$, so that least squares (B = 0)
gains digits in proportion to p and the others have order $1/p^2$ up to a logarithm.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import numpy.typing as npt

from attnforge.anchors import hard, tuned
from attnforge.errors import RefusalError
from attnforge.lemmas.leakage import interpolation
from attnforge.lemmas.link_row import Row, derivatives, reproduced
from attnforge.network import Head, Rows
from attnforge.targets.in_context.algorithm import Algorithm
from attnforge.targets.in_context.features import Features
from attnforge.theorems.in_context.small_sharpness import SILENCE, state_rows
from attnforge.theorems.truncated_linear import score_disturbance

Array = npt.NDArray[np.float64]
Asked = Literal["tuned", "hard"]

SHARPNESSES = tuple(0.25 * 12 ** (i / 15) for i in range(16))  # 0.25 to 3: softer needs more ghosts than it gains
MOST_GHOSTS = 14


def row_for(algorithm: Algorithm, reach: float, anchors: int, asked: Asked, dtype: str) -> Row:
    """The row of so many anchors for forms up to ``reach``; tuned, the one of smallest bound.

    >>> row_for(Algorithm("identity", 0.1), 1.0, 11, "hard", "float64").spacing
    0.2
    """
    link = algorithm.link
    if link == "softmax":
        got = "softmax regression: its link has one input an output"
        raise RefusalError("Interpolation is of functions of one number", got, 'Use route="small_sharpness"')
    if not (math.isfinite(reach) and reach > 0):
        raise RefusalError("`data_bound` must be positive and finite", repr(reach), "Bound |x|, |y| and |x.w|")
    if anchors < 3:
        raise RefusalError("`anchors` must be at least 3", str(anchors), "Ask for more anchors")
    if asked not in ("tuned", "hard"):
        raise RefusalError('`sharpness` must be "tuned" or "hard"', repr(asked), 'Use "tuned"')
    if link == "clamp":
        c = tuned(score_disturbance(anchors, dtype)) if asked == "tuned" else hard(dtype)
        return Row(link, algorithm.delta, anchors, 0, c)
    if asked == "hard":
        return Row(link, reach, anchors, 0, hard(dtype))
    rows = [Row(link, reach, anchors, 0, tuned(score_disturbance(anchors, dtype)))]
    for ghosts in range(1, min(MOST_GHOSTS, (anchors - 2) // 2) + 1):
        rows += [Row(link, reach, anchors, ghosts, c) for c in SHARPNESSES]
    disturbance = score_disturbance(anchors, dtype)
    return min(rows, key=lambda row: _estimate(row, disturbance * row.sharpness))


def _estimate(row: Row, disturbance: float) -> float:
    """The bound at the end of the range, its mean square from the integral: for choosing, not for proving."""
    slope, bend = derivatives(row.link, row.reach)
    mean = reproduced(row) if row.ghosts else interpolation(row.sharpness, disturbance)
    variance = 0.5 / row.sharpness
    return row.spacing * (slope * (mean + 2 * disturbance * math.sqrt(variance)) + bend / 2 * row.spacing * variance)


def row_features(row: Row, inputs: int) -> Features:
    """Tokens among which the row's anchors are."""
    return Features(inputs, 1, tuple(row.levels.tolist()), tuple(row.answers.tolist()))


def scaled_states(features: Features) -> Head:
    """Writes L_k w into anchor token k: tanh(t_k) w from the two state tokens, times 2 L_max."""
    largest = max(features.levels)
    query, key, value = features.matrix(("tilt", 1.0)), features.matrix(("unit", 1.0)), features.matrix(("w", 1.0))
    return Head(query, features.writing("scaled", 2 * largest), _anchors(features), key, value, state_rows(features))


def interpolated_links(features: Features, row: Row) -> tuple[Head, ...]:
    """Writes the row's answer at every example, and its negative at the mirror image."""
    if row.link == "exponential":
        return _one_sided(features, row.beta, 1.0), _one_sided(features, row.beta, -1.0)
    query, key = _query(features, row.beta, "x", -2 * row.beta if row.link != "logistic" else 0.0), _key(features)
    output = features.writing("residual", 1.0)
    return (Head(query, output, Rows(), key, features.matrix(("answer", 1.0)), _anchors(features)),)


def _one_sided(features: Features, beta: float, sign: float) -> Head:
    """Answers that are not odd: sign 1 serves the examples, -1 the mirror images; a constant key silences the rest."""
    on, off = ("first", "mirrored") if sign > 0 else ("mirrored", "first")
    silence = SILENCE * max(1.0, beta * max(features.levels) ** 2)
    last = features.matrix((on, -silence), (off, silence), into=1)
    query = np.concatenate([_query(features, beta, "plain", 0.0), last], axis=1)
    key = np.concatenate([_key(features), np.zeros((features.width, 1))], axis=1)
    keys = np.zeros((1, key.shape[1]))
    keys[0, -1] = 1.0
    value, output = features.matrix(("answer", 1.0)), features.writing("residual", sign)
    return Head(query, output, Rows(), key, value, _anchors(features), keys, np.zeros((1, 1)))


def _query(features: Features, beta: float, inputs: str, of_y: float) -> Array:
    one = features.matrix(("first", -beta), ("mirrored", -beta), into=1)
    return np.concatenate([features.matrix((inputs, 2 * beta), ("y", of_y)), one], axis=1)


def _key(features: Features) -> Array:
    return features.matrix(("scaled", 1.0), ("level", 1.0), ("square", 1.0))


def _anchors(features: Features) -> Rows:
    return Rows.some(range(features.states, features.ahead))

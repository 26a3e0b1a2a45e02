r"""Sums $\sum_k e^{s_k} v_k$ over many constant keys whose scores are affine on a cell, by products of matrices.

With $s_k(m + t) = a_k + d_k \cdot t$ relative to some key's, the coefficients at $m + t$ are
$$ \sum_k e^{a_k + d_k \cdot t} v_k \frac{d_k^\alpha}{\alpha!} . $$
The function differs from the polynomial of those at m by at most $\sum_k e^{a_k} |v_k| e^\sigma \sigma^{K+1}/(K+1)!$,
$\sigma = \sum_i |d_{ki}| r_i$.
A common slope of all scores is a common factor of all such sums: it is taken off, and what is left of $d_k$ is as small
as can be. $a_k$, a difference of large numbers, and $e^{a_k}$ are balls of many bits; what remains are sums of
products in float64, whose roundings are counted: u for each operation, $\gamma_n$ for a sum over n keys. Sums over few
keys are products of matrices of balls.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import factorial

import numpy as np
import numpy.typing as npt
from flint import arb, arb_mat

from attnforge.certification.checker.rounding import SLACK
from attnforge.certification.checker.taylor import ONE, ZERO, Cell, Coefficients, Model, Terms
from attnforge.certification.checker.values import Place, Value
from attnforge.outward import gamma, upper

Array = npt.NDArray[np.float64]

UNIT, TINY = 2.0**-53, 2.0**-1070  # a rounding, relative or where numbers underflow


def few(cell: Cell, scores: Sequence[Model], values: Sequence[Sequence[arb]]) -> list[Model]:
    """The sums for every column of ``values`` (n, c), in balls; scores are affine."""
    table, swings = cell.terms, [cell.monomials[k] for k in cell.terms.axes]
    rough = np.exp(np.minimum([float(score.at[0].mid()) for score in scores], 0.0))
    slopes = np.array([[float(score.at[k].mid()) for k in table.axes] for score in scores])
    mean = [arb(m) if np.isfinite(m) else ZERO for m in (rough / rough.sum() @ slopes).tolist()]
    tilts = [[score.at[k] - m for k, m in zip(table.axes, mean, strict=True)] for score in scores]
    swing = [sum((d * r for d, r in zip(tilt, swings, strict=True)), start=ZERO) for tilt in tilts]
    weights = [score.at[0].exp() for score in scores]
    spread = [(score.at[0] + each).exp() for score, each in zip(scores, swing, strict=True)]
    powers = [_monomials(table, tilt) for tilt in tilts]
    columns = [list(column) for column in zip(*values, strict=True)]
    at, over = (
        (arb_mat(columns) * arb_mat([[w * x for x in row] for w, row in zip(side, powers, strict=True)])).tolist()
        for side in (weights, spread)
    )
    beyond = [w * abs(x).upper() ** (table.order + 1) for w, x in zip(spread, swing, strict=True)]
    rest = [sum((abs(v) * b for v, b in zip(column, beyond, strict=True)), start=ZERO) for column in columns]
    last = factorial(table.order + 1)
    return [Model(a, o, upper(r / last)) for a, o, r in zip(at, over, rest, strict=True)]


def _monomials(table: Terms, tilt: Sequence[arb]) -> Coefficients:
    r"""$d^\alpha/\alpha!$."""
    found = [ONE]
    for axis, power, before in table.steps:
        found.append(found[before] * tilt[axis] / power)
    return found


def sums(place: Place, query: Sequence[Value], keys: Array, key: Array, values: Array) -> list[Model]:
    """The sums for every column of ``values`` (n, c), each of them off by at most a rounding; scores less ``key``'s."""
    with np.errstate(all="ignore"):
        return _sums(place, query, keys, key, values)


def _sums(place: Place, query: Sequence[Value], keys: Array, key: Array, values: Array) -> list[Model]:
    table, sizes = place.cell.terms, np.abs(values)
    weights, doubt = _at_the_middle(query, keys, key)
    tilts, wrong = _slopes(place, query, keys, key)
    mean = weights @ tilts / weights.sum()
    wrong = (wrong + 2 * UNIT * (np.abs(tilts) + np.abs(mean))) * SLACK
    tilts = tilts - mean
    swing = ((np.abs(tilts) + wrong) @ np.array([upper(r) for r in place.cell.radius])) * SLACK
    high, low = (weights + doubt) * np.exp(swing) * SLACK, (weights - doubt) * np.exp(-swing) / SLACK
    half = (high - low) / 2 * SLACK
    powers = _powers(table, tilts, wrong)
    at, over = _summed(*powers, weights, doubt, values), _summed(*powers, high - half, half, values)
    beyond = high * swing ** (table.order + 1) / factorial(table.order + 1)
    rest = (beyond @ sizes + TINY * (1 + sizes.sum(axis=0))) * SLACK
    return [Model(_balls(*at, j), _balls(*over, j), float(rest[j])) for j in range(values.shape[1])]


def _summed(powers: Array, most: Array, off: Array, weights: Array, doubt: Array, values: Array) -> tuple[Array, Array]:
    """Powers times weights times values added up (terms, c), and how far these floats may be off."""
    count, sizes, high = len(weights), np.abs(values), (weights + doubt) * SLACK
    rounded = gamma(count + 8) * ((most * high) @ sizes) + (off * high) @ sizes + TINY * count * (1 + sizes.sum(axis=0))
    return (powers * weights) @ values, ((most * doubt) @ sizes + rounded) * SLACK


def _at_the_middle(query: Sequence[Value], keys: Array, key: Array) -> tuple[Array, Array]:
    """The weights at the middle, and how far these floats may be off."""
    middle = [q.model.at[0] for q in query]
    doubts = np.abs(keys - key) @ np.array([upper(m.rad()) for m in middle]) * SLACK
    rows = [[arb(x) for x in row] for row in (*keys.tolist(), key.tolist())]
    *scores, own = (arb_mat(rows) * arb_mat([[m.mid()] for m in middle])).entries()
    found = [(score - own).exp() for score in scores]
    weights = np.array([float(e.mid()) for e in found])
    off = np.array([float(e.rad()) for e in found]) + weights * (np.expm1(doubts) + 2 * UNIT)
    return weights, (off * SLACK + TINY)


def _slopes(place: Place, query: Sequence[Value], keys: Array, key: Array) -> tuple[Array, Array]:
    """The slopes of the scores (n, variables), and how far these floats may be off."""
    balls = [[q.model.at[k] for k in place.cell.terms.axes] for q in query]
    slopes = np.array([[float(x.mid()) for x in row] for row in balls])
    loose = np.array([[upper(x.rad()) for x in row] for row in balls]) + UNIT * np.abs(slopes)
    both = np.abs(keys) + np.abs(key)
    return (keys - key) @ slopes, (gamma(len(query) + 4) * (both @ np.abs(slopes)) + both @ loose + TINY) * SLACK


def _powers(table: Terms, tilts: Array, wrong: Array) -> tuple[Array, Array, Array]:
    r"""$d_k^\alpha/\alpha!$ (terms, n), a bound of their absolute values, and how far they may be off."""
    found, most = [np.ones(len(tilts))], [np.ones(len(tilts))]
    for axis, power, before in table.steps:
        found.append(found[before] * tilts[:, axis] / power)
        most.append(most[before] * (np.abs(tilts[:, axis]) + wrong[:, axis]) / power)
    each = 4 * UNIT * np.array(table.degree)[:, None]
    powers, bounds = np.array(found), np.array(most) * (1 + each)
    largest = np.maximum(1.0, (np.abs(tilts) + wrong).max())
    small = TINY * table.order * largest**table.order  # where they underflow
    return powers, bounds + small, bounds - np.abs(powers) * (1 - each) + small


def _balls(middle: Array, radius: Array, column: int) -> Coefficients:
    pairs = zip(middle[:, column].tolist(), radius[:, column].tolist(), strict=True)
    return [arb(m, r) for m, r in pairs]

r"""Jets of heads over constant keys: quotients of sums of exponentials.

With the keys a product of factors (:mod:`attnforge.certification.enclosure.factors`) and one value a key,
$$ \mathrm{head}(x) = \frac{\sum_k V_k \prod_a e^{(a)}_{k_a}(x)}{\prod_a \sum_k e^{(a)}_k(x)},
   \qquad e^{(a)}_k(m + t) = e^{s_k(m) - \max}\,e^{(\sigma_k - \bar\sigma) \cdot t} . $$
A common factor $e^{\bar\sigma \cdot t}$ cancels, so $\bar\sigma$ is free: the weighted mean of the slopes at m keeps
the exponents small. Taylor coefficients of $e_k$ are $e_k \prod_i d_{ki}^{\alpha_i}/\alpha_i!$, those of the numerator
contractions of V with them.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from attnforge.balls import Balls, gamma
from attnforge.balls.arrays import UNIT
from attnforge.certification.enclosure.factors import Factor, FactorHead
from attnforge.certification.enclosure.jets import Degrees, Jets, degrees, exponential, reciprocal

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]


def head_jets(head: FactorHead, middle: Array, radius: Array, degree: int) -> tuple[Jets, Jets]:
    """The head's jets at the middles (C, D) of cells, and over the cells."""
    table = degrees(middle.shape[1], degree)
    with np.errstate(all="ignore"):  # what overflows is unknown
        parts = [_weights(factor, middle, radius, degree) for factor in head.factors]
        return _quotient(head, [part[0] for part in parts], table), _quotient(head, [part[1] for part in parts], table)


def _quotient(head: FactorHead, weights: list[Balls], table: Degrees) -> Jets:
    """The numerator, divided by the sum of every factor's weights."""
    result = _numerator(head, weights, table)
    for factor, weight in zip(head.factors, weights, strict=True):
        result = result * reciprocal(_embedded(_summed(weight), factor.reads, table))
    return result


def _weights(factor: Factor, middle: Array, radius: Array, degree: int) -> tuple[Balls, Balls]:
    """Taylor coefficients (C, multi-indices, p) of the relative weights at the middles, and over the cells."""
    scores = Balls.exact(middle) @ factor.slopes + factor.offsets
    scores = scores - Balls.exact(scores.mid.max(axis=1, keepdims=True))
    at = exponential(scores)
    reads = list(factor.reads)
    mean = (at.mid / at.mid.sum(axis=1, keepdims=True)) @ factor.slopes.mid.T
    tilts = factor.slopes[None, reads] - Balls.exact(mean[:, reads, None])
    swing = np.einsum("cip,ci->cp", tilts.magnitude(), radius[:, reads]) * (1 + 2.0**-40)
    over = at * exponential(Balls(np.zeros_like(swing), swing))
    powers = _powers(tilts, degrees(len(reads), degree)) if reads else Balls.exact(np.ones((len(middle), 1, 1)))
    return at[:, None] * powers, over[:, None] * powers


def _powers(tilts: Balls, table: Degrees) -> Balls:
    r"""$\prod_i d_i^{\alpha_i}/\alpha_i!$ from tilts (C, reads, p): (C, multi-indices, p)."""
    cells, _, keys = tilts.shape
    mid, rad = np.zeros((2, cells, len(table), keys))
    mid[:, 0] = 1.0
    for row, exponent in enumerate(table.exponents[1:], start=1):
        i = int(np.flatnonzero(exponent)[0])
        less = exponent.copy()
        less[i] -= 1
        before, power = table.place[tuple(map(int, less))], int(exponent[i])
        share = Balls(np.asarray(1.0 / power), np.asarray(UNIT / power if power > 1 else 0.0))
        found = Balls(mid[:, before], rad[:, before]) * tilts[:, i] * share
        mid[:, row], rad[:, row] = found.mid, found.rad
    return Balls(mid, rad)


def _summed(weight: Balls) -> Balls:
    """Sums over the keys, (multi-indices, C)."""
    growth = gamma(weight.shape[-1] + 2)
    rad = (weight.rad.sum(axis=-1) + growth * np.abs(weight.mid).sum(axis=-1)) * (1 + 2 * growth + 2.0**-40)
    return Balls(weight.mid.sum(axis=-1).T, rad.T)


def _embedded(sums: Balls, reads: tuple[int, ...], table: Degrees) -> Jets:
    """A series in some of the variables, as a jet in all of them."""
    local = degrees(len(reads), table.degree)
    exponents = np.zeros((len(local), table.inputs), dtype=np.int64)
    exponents[:, list(reads)] = local.exponents
    rows = [table.place[tuple(map(int, exponent))] for exponent in exponents]
    mid, rad = np.zeros((2, len(table), sums.shape[1]))
    mid[rows], rad[rows] = sums.mid, sums.rad
    return Jets(table, mid, rad)


def _numerator(head: FactorHead, weights: list[Balls], table: Degrees) -> Jets:
    """The values contracted with every factor's coefficients, last factor first, and sorted by multi-index."""
    found = _contracted(head.values, weights)
    chosen, targets = _choices(head, table)
    part = found[(slice(None), *chosen.T)]
    mid, rad = np.zeros((2, len(table), found.shape[0]))
    mid[targets], rad[targets] = part.mid.T, part.rad.T
    return Jets(table, mid, rad)


def _contracted(values: Balls, weights: list[Balls]) -> Balls:
    """(C, multi-indices of factor 1, .., of factor r)."""
    cells, shape = weights[0].shape[0], values.shape
    last = weights[-1]
    flat = Balls(values.mid.reshape(-1, shape[-1]).T, values.rad.reshape(-1, shape[-1]).T)
    found, done = last @ flat, [last.shape[1]]
    for a in range(len(shape) - 2, -1, -1):
        weight = weights[a]
        rows = found.mid.size // (cells * shape[a])
        moved = Balls(np.swapaxes(weight.mid, 1, 2), np.swapaxes(weight.rad, 1, 2))
        found = Balls(found.mid.reshape(cells, rows, shape[a]), found.rad.reshape(cells, rows, shape[a])) @ moved
        # Found so far, then the axes still to come, then this factor's coefficients: put these in front.
        split = (cells, math.prod(done), -1, weight.shape[1])
        found = Balls(*(np.moveaxis(each.reshape(split), 3, 1) for each in (found.mid, found.rad)))
        done = [weight.shape[1], *done]
    return Balls(found.mid.reshape(cells, *done), found.rad.reshape(cells, *done))


def _choices(head: FactorHead, table: Degrees) -> tuple[Indices, Indices]:
    """Choices of one multi-index a factor, and where their sum stands; no two meet, as factors share no input."""
    chosen, totals = np.zeros((1, 0), dtype=np.int64), np.zeros((1, table.inputs), dtype=np.int64)
    for factor in head.factors:
        local = degrees(len(factor.reads), table.degree).exponents
        spread = np.zeros((len(local), table.inputs), dtype=np.int64)
        spread[:, list(factor.reads)] = local
        totals = (totals[:, None] + spread).reshape(-1, table.inputs)
        rows = np.tile(np.arange(len(local)), len(chosen))
        chosen = np.column_stack([np.repeat(chosen, len(local), axis=0), rows])
        within = totals.sum(axis=1) <= table.degree
        chosen, totals = chosen[within], totals[within]
    return chosen, np.array([table.place[tuple(map(int, total))] for total in totals])

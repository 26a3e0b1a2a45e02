r"""Taylor models of heads over constant keys, in exact arithmetic: quotients of sums of exponentials.

With the keys a product of factors (:mod:`attnforge.certification.enclosure.factors`) and one value a key,
$$ \mathrm{head}(x) = \frac{\sum_k V_k \prod_a e^{(a)}_{k_a}(x)}{\prod_a \sum_k e^{(a)}_k(x)},
   \qquad e^{(a)}_k(x) = e^{s_k(x) - \ell(x)} . $$
A common factor $e^{\ell}$ cancels, so $\ell$ is free: the mean of the scores by the weights at the middle keeps the
exponents small. The numerator contracts V with the weights of one factor after another.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.certification.enclosure.factors import Factor, FactorHead
from attnforge.kernel.degrees import degrees
from attnforge.kernel.heads import centred, least_sum
from attnforge.kernel.models import Models
from attnforge.outward import Up, gamma

Array = npt.NDArray[np.float64]

VANISHING = 2.0**-900  # times a roundoff, it exceeds all products of a contraction that underflow


def head_models(head: FactorHead, inputs: Models) -> Models:
    """The head (C,) of inputs (C, D), which lies among its values; where these are unsure, it is by no more."""
    values = head.values.mid
    reads = {factor.reads for factor in head.factors if len(factor.reads) == 1}
    if inputs.table.inputs > 1 and len(reads) == len(head.factors) and not inputs.rest.values.any():
        found = _contracted(head, inputs)
    else:
        found = _mixed(head, inputs)
    lowest, highest = (np.full(found.shape, end) for end in (values.min(), values.max()))
    found = found.between(lowest, highest, found.rest)
    return found.wider(np.full(found.shape, head.values.rad.max()))


def _mixed(head: FactorHead, inputs: Models) -> Models:
    """By models of all inputs."""
    scores = [_scores(factor, inputs) for factor in head.factors]
    weights = [each.exp() for each in scores]
    values = head.values.mid
    found = weights[-1].through(values.reshape(-1, values.shape[-1]).T)
    for weight in reversed(weights[:-1]):
        found = (found.shaped(len(found.rest.values), -1, weight.shape[1]) * weight[:, None]).sum()
    found = found[:, 0]
    for score, weight in zip(scores, weights, strict=True):
        total = weight.sum()
        found = found.over(total, least_sum(score, total))
    return found


def _contracted(head: FactorHead, inputs: Models) -> Models:
    r"""By the softmax weights of each axis, models of one variable, which many cells share.

    With $w^{(a)}_k = p_k + r_k$, $|p_k| \le P_k$ and $|r_k| \le R_k$, the contraction $\sum_k V_k \prod_a p_{k_a}$ is
    off by at most $\sum_k |V_k| (\prod_a (P + R)_{k_a} - \prod_a P_{k_a})$, which is summed axis by axis,
    $e' = e (P + R) + s R$ beside $s' = s P$; it is rounded by $\gamma$ of $\sum_k |V_k| \prod_a P_{k_a}$. Coefficients
    beyond the total degree go to the rest.
    """
    table, values = inputs.table, head.values.mid
    found, count, off = values[None, None], 1, Up.zeros(1, *values.shape)
    sizes = Up.of(values[None]) + VANISHING  # for what underflows: weights add up to 1 at least
    for factor in reversed(head.factors):
        weights, back = _axis(factor, inputs)
        terms, told, unsure = np.moveaxis(weights.c, 0, -1)[:, None], Up.of(weights.c).sum(0), weights.rest
        every: Any = slice(None)
        if len(found) == 1:  # the same values on all intervals
            every, back = back, every
        terms, told, unsure = terms[back], told[back][..., None], unsure[back][..., None]
        found = np.moveaxis(_flat(found, 2) @ terms, -1, 1).reshape(-1, count * terms.shape[-1], *found.shape[2:-1])
        found, count = found[every], found.shape[1]
        flat = [Up(_flat(each.values, 1)) for each in (off, sizes)]
        off, sizes = (
            Up(each.values.reshape(-1, *sizes.shape[1:-1])[every])
            for each in (flat[0] @ (told + unsure) + flat[1] @ unsure, flat[1] @ told)
        )
    exponents = np.array(list(product(range(table.degree + 1), repeat=len(head.factors))))
    kept = exponents.sum(axis=1) <= table.degree
    whole = np.zeros((len(exponents), table.inputs), dtype=np.int64)
    whole[:, [factor.reads[0] for factor in head.factors]] = exponents
    c = np.zeros((len(table), len(found)))
    c[[table.place[tuple(map(int, each))] for each in whole[kept]]] = found[:, kept].T
    made = sizes * gamma(sum(values.shape) + 2 * values.ndim)
    return Models(table, c, off + made + Up.of(found[:, ~kept]).sum())


def _flat(array: Array, kept: int) -> Array:
    """The axes between the first ``kept`` and the last as one."""
    return array.reshape(*array.shape[:kept], -1, array.shape[-1])


def _axis(factor: Factor, inputs: Models) -> tuple[Models, npt.NDArray[np.int64]]:
    """The softmax weights (U, p) on the different intervals of the input that is read, and which of them cells have."""
    (i,), table = factor.reads, degrees(1, inputs.table.degree)
    slope = inputs.table.place[tuple(int(i == k) for k in range(inputs.table.inputs))]
    ends, back = np.unique(inputs.c[[0, slope], :, i], axis=1, return_inverse=True)
    variable = Models.constant(table, ends[0][:, None])
    variable.c[1] = ends[1][:, None]
    scores = _scores(replace(factor, slopes=factor.slopes[[i]]), variable)
    weights = scores.exp()
    total = weights.sum()
    return weights.over(total[..., None], least_sum(scores, total)[:, None]), back.ravel()


def _scores(factor: Factor, inputs: Models) -> Models:
    """The scores (C, p) of one factor, less a polynomial that all share."""
    unsure = inputs.size() @ Up.of(factor.slopes.rad) + Up.of(factor.offsets.rad)
    return centred(inputs.through(factor.slopes.mid).less(-factor.offsets.mid).wider(unsure))

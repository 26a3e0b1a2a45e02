r"""What rounding adds to heads over constant keys: scores, exponentials, sums, for any order of summation.

On a cell with winner w let $e_k$ be the exact weights relative to w's. The run's are $e_k e^{\eta_k}$ with $\eta_w = 0$
and $|\eta_k|$ at most what rounding does to two scores on this cell: each is a sum of products $q_f K_{kf}$, off by
$\gamma \sum_f |q_f||K_{kf}|$, and the query's own error counts with $|K_{kf} - K_{wf}|$. Then
$$ |\mathrm{out}' - \mathrm{out}|
   = \Big|\frac{\sum_k e_k (e^{\eta_k} - 1)(v_k - \mathrm{out})}{\sum_k e_k e^{\eta_k}}\Big|
   \le \frac{\sum_k e_k (e^{|\eta_k|} - 1)\,(|v_k| + |\mathrm{out}|)}{\sum_k e_k e^{-|\eta_k|}} : $$
far keys' rounding counts with their weight. Adding up the weighted values costs a relative $\gamma$ of
$\sum_k w_k |v_k|$, adding up heads one of their sum.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from attnforge.balls import Machine, add_up, gamma, product_up
from attnforge.certification.row_of_anchors import softmax_roundings
from attnforge.certification.tokens import Tokens, input_tokens, linear, project
from attnforge.network import Head, Linear

Array = npt.NDArray[np.float64]

BLOCK = 2**21  # pairs of a cell and a key held at once
SLACK = 1 + 2.0**-40  # for the roundings of an expression of positive terms, sums over the keys included


def rounding(
    encode: tuple[Linear, ...], heads: tuple[Head, ...], lower: Array, upper: Array, sizes: Array, machine: Machine
) -> float:
    """The largest difference between the run and exact arithmetic on cells (C, D) from ``lower`` to ``upper``.

    ``sizes`` (C,) bound the exact output of the heads on the cells; the bound is over all outputs.
    """
    tokens = input_tokens(lower, upper, machine)
    for layer in encode:
        tokens = linear(layer, tokens, machine)
    found = [_head(head, project(tokens, head.query, machine), sizes, machine) for head in heads]
    off, mass = (sum(part[i] for part in found) for i in (0, 1))
    added = gamma(len(heads) + 2, machine.roundoff) * mass if len(heads) > 1 else 0.0
    return float(np.max(off + added)) * SLACK


def _head(head: Head, query: Tokens, sizes: Array, machine: Machine) -> tuple[Array, Array]:
    """On every cell, the rounding of one head, and the sum of its weights times absolute values."""
    count = len(query.source)
    step = max(1, BLOCK // head.memory_size)
    blocks = [slice(i, i + step) for i in range(0, count, step)]
    found = [_cells(head, query.rows(block), sizes[block], machine) for block in blocks]
    return np.concatenate([off for off, _ in found]), np.concatenate([mass for _, mass in found])


def _cells(head: Head, query: Tokens, sizes: Array, machine: Machine) -> tuple[Array, Array]:
    keys, values = np.asarray(head.memory_keys), np.abs(np.asarray(head.memory_values)).max(axis=1)
    count, middle = len(values), query.box.mid
    at = np.einsum("cd,cdf->cf", middle, query.slope.mid) + query.constant.mid
    winner = (at @ keys.T).argmax(axis=1)
    apart = keys[None] - keys[winner][:, None]
    size = query.magnitude()
    scores = size @ np.abs(keys).T
    both = scores + np.take_along_axis(scores, winner[:, None], axis=1)
    uncertain = np.einsum("cd,cdf->cf", query.box.magnitude(), query.slope.rad) + query.constant.rad
    known = gamma(keys.shape[1] + 8) * both + np.einsum("cpf,cf->cp", np.abs(apart), uncertain)
    swing = np.einsum("cpd,cd->cp", np.abs(np.einsum("cpf,cdf->cpd", apart, query.slope.mid)), query.box.rad)
    swing = (swing * (1 + 2.0**-30) + known) * SLACK
    at_keys = np.einsum("cpf,cf->cp", apart, at)
    eta = gamma(keys.shape[1] + 4, machine.accumulation) * both + np.einsum("cpf,cf->cp", np.abs(apart), query.error)
    eta = (eta + 2 * (softmax_roundings(count, machine) + keys.shape[1] * machine.underflow)) * SLACK
    eta[np.arange(len(winner)), winner] = 0.0
    high = np.exp(np.minimum(at_keys + swing, 700.0)) * SLACK
    low = np.exp(at_keys - swing - eta) / SLACK
    total = np.maximum(low.sum(axis=1), 1.0) / SLACK
    spread = values + np.minimum(sizes, values.max())[:, None]
    disturbed = (high * np.expm1(np.minimum(eta, 700.0)) * spread).sum(axis=1) / total
    mass = (high * np.exp(np.minimum(eta, 700.0)) * values).sum(axis=1) / total
    half = machine.roundoff > machine.accumulation
    relative = add_up(gamma(count + 4, machine.accumulation), gamma(3 if half else 2, machine.roundoff), 2.0**-50)
    lost = product_up(count, machine.underflow, float(values.max()) + 1.0)
    return (disturbed + relative * mass + lost) * SLACK, mass * SLACK

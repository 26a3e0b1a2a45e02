r"""Emulating an attention head: frozen layers that run the head whose matrices stand in their prompt.

Wanted is $\mathrm{softmax}(X W_Q W_K^\top X^\top)\,X W_V$ for tokens X (n, d), with $W_Q, W_K, W_V$ as data: a prompt
of 2 d tokens, for every feature j of X a token and its mirror image,
$$ \pm\bigl(\beta e_j \;;\; \tfrac{d}{\beta}\,(W_{Q,j}, W_{K,j}, W_{V,j})\bigr) . $$
**First layer.** Token x meets the keys $\pm\beta e_j$ by its features as they are. For every column w of the matrices
$$ \mathrm{out}(x) = \frac d\beta\,\frac{\sum_j \sinh(\beta x_j)\,w_j}{\sum_j \cosh(\beta x_j)} = N(\beta)
   = x \cdot w + c_1\beta^2 + c_2\beta^4 + \dots $$
A second head asks with 2x and answers $2N(2\beta)$; $\frac43 N(\beta) - \frac13 N(2\beta)$ has no term in $\beta^2$. So
two heads write $x W_Q$, $x W_K$ and $x W_V$ beside x: products of data with data, by softmax alone.
**Second layer.** An ordinary head with these as queries, keys and values. All weights of the network are constants like
1, 2, 4/3: they depend on the numbers of features only, and n is free.

**Error.** Let $|x_j| \le R$ and $t = \beta R < \frac12$. For complex $|\beta| \le 1/R$ numerator and denominator obey
$|\sinh(\beta x_j)/\beta| \le |x_j|\sinh 1$ and $\mathrm{Re}\cosh(\beta x_j) \ge \cos 1$, so Cauchy's estimate gives
$|c_m| \le M R^{2m} \sum_j |x_j w_j|$, $M = \sinh 1/\cos 1 < 2.18$, and
$$ \Bigl|\tfrac43 N(\beta) - \tfrac13 N(2\beta) - x \cdot w\Bigr|
   \le M \sum_{m \ge 2} \frac{4^m - 4}{3}\,t^{2m}\;R\sum_j|w_j| \approx 4 M t^4\;R\sum_j|w_j| . $$
Rounding adds $O(d\,u/t)$ times the same, u the roundoff; the power of two $\beta$ that makes the sum smallest is taken,
t of about $u^{1/5}$. What this makes of a head's output is computed from the tokens and weights themselves
(:mod:`attnforge.certification.in_context.head`).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from attnforge.errors import RefusalError, TargetError
from attnforge.kernel.softmax import SoftmaxArithmetic
from attnforge.network import Attention, Head, Linear, Network, Rows, Term, with_heads
from attnforge.outward import Machine, gamma, machine, round_to
from attnforge.targets.in_context import AttentionHead, HeadShape

Array = npt.NDArray[np.float64]

NAME = "head_emulation"
CAUCHY = 2.18  # above sinh 1 / cos 1 = 2.1751
FINEST = 60  # the smallest t that is looked at is 2^-60


def frozen_head(shape: HeadShape) -> Network:
    """The frozen network: tokens (n, d) and a prompt to (n, v)."""
    d, r, width = shape.features, shape.width_of_scores, shape.width
    read, beside = np.eye(width), np.eye(d, width)

    def product(doubled: float, factor: float) -> Head:
        query, output = doubled * read[:, :d], factor * read[d:]
        return Head(query, output, key=read[:, :d], value=read[:, d:], key_rows=Rows(source="context"))

    # The second head answers 2 N(2 beta): -1/6 of it is -1/3 N(2 beta).
    project = Attention((product(1.0, 4.0 / 3.0), product(2.0, -1.0 / 6.0)), residual=True)
    queries, keys, values = read[:, d : d + r], read[:, d + r : d + 2 * r], read[:, d + 2 * r :]
    attend = Attention((Head(queries, np.eye(shape.outputs), key=keys, value=values, key_rows=Rows()),))
    return Network((Linear((Term(beside),)), project, attend), d, None, (None, width), NAME)


def prompted(network: Network, tokens: Array) -> Network:
    """The network that has these tokens of its second input as constant keys and values: the same numbers."""

    def given(head: Head) -> Head:
        if head.key is None or head.value is None or head.key_rows is None or head.key_rows.source != "context":
            return head
        keys, values = tokens @ head.key, tokens @ head.value
        return replace(head, key=None, value=None, key_rows=None, memory_keys=keys, memory_values=values)

    return replace(with_heads(network, given), context=None)


def head_tokens(head: AttentionHead, beta: float, dtype: str) -> Array:
    """The prompt (2 d, d + 2 r + v): every row of the matrices with its key, and their mirror images."""
    d = head.shape.features
    rows = np.hstack([head.query, head.key, head.value])
    tokens = round_to(np.hstack([beta * np.eye(d), rows * (d / beta)]), dtype)
    if not np.all(np.isfinite(tokens)):
        raise RefusalError(f"Every token must fit {dtype}", "an entry beyond it", "Scale the matrices down")
    return np.vstack([tokens, -tokens])


def best_sharpness(features: int, data_bound: float, dtype: str) -> float:
    """The power of two beta for which the bound of a projection is smallest, for |x| <= data_bound.

    >>> best_sharpness(4, 1.0, "float64"), best_sharpness(4, 1.0, "float32")
    (0.0009765625, 0.0625)
    """
    model = machine(dtype)
    if SoftmaxArithmetic(model, 1).is_half:
        remedy = "Use float64 or float32"
        raise RefusalError("Small sharpness needs a dtype that keeps small differences", dtype, remedy)
    if not (math.isfinite(data_bound) and data_bound > 0):
        raise TargetError("`data_bound` must be a positive number", repr(data_bound)[:80], "Give the largest |x|")
    largest = math.floor(math.log2(1 / data_bound)) - 2  # t at most 1/4
    tried = [2.0**exponent for exponent in range(largest, largest - FINEST, -1)]
    return min(tried, key=lambda beta: sum(_relative(features, data_bound, beta, model)))


def _relative(features: int, data_bound: float, beta: float, model: Machine) -> tuple[float, float]:
    """Errors of a projection, divided by R sum_j |w_j|: of the finite sharpness, and of rounding.

    A head rounds exponentials, two sums of 2 d terms, their products and the division, each relative to the sum of
    |weight value|, at most exp(4 t) / beta sum_j |w_j|; the heads count 4/3 and 1/6.
    """
    t = beta * data_bound
    truncation = CAUCHY / 3 * (16 * t**4 / (1 - 4 * t * t) - 4 * t**4 / (1 - t * t))
    run = SoftmaxArithmetic(model, 2 * features)
    rounding = run.mean(after=24) + 2 * (run.exponentials() + gamma(run.blocks, run.unit))
    return truncation, 1.5 * float(rounding) * math.exp(4 * t) / t

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
t of about $u^{1/5}$. Errors $\delta_q, \delta_k$ of the projections move a score by at most
$\delta_s = \sum (Q\delta_k + K\delta_q + \delta_q\delta_k)$, Q and K bounds of the projections, and the output by at
most $\delta_v + (e^{2\delta_s} - 1) V$.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attnforge.balls import Machine, gamma, machine, round_to
from attnforge.errors import RefusalError, TargetError
from attnforge.network import Attention, Head, Linear, Network, Rows, Term

Array = npt.NDArray[np.float64]

NAME = "head_emulation"
EXPONENTIAL = {"float64": 8, "float32": 40}  # roundings charged to one: 4 units in the last place, 20 in float32
KEYS = 64  # keys a flash kernel takes at a time, at least; each further block rescales what is summed so far
CAUCHY = 2.18  # above sinh 1 / cos 1 = 2.1751
FINEST = 60  # the smallest t that is looked at is 2^-60
SLACK = 1 + 2.0**-40  # for the rounding of these bounds themselves


@dataclass(frozen=True)
class HeadShape:
    """Features d of a token, width r of queries and keys, outputs v.

    >>> HeadShape(3, 2, 1).width
    8
    """

    features: int
    width_of_scores: int
    outputs: int

    def __post_init__(self) -> None:
        if min(self.features, self.width_of_scores, self.outputs) < 1:
            raise TargetError("A head has features, a width of scores and outputs", str(self), "Give at least one each")

    @property
    def projected(self) -> int:
        """Columns of the three matrices together."""
        return 2 * self.width_of_scores + self.outputs

    @property
    def width(self) -> int:
        """Features of a prompt's token: a key, and a row of the three matrices."""
        return self.features + self.projected


@dataclass(frozen=True, eq=False)
class HeadMatrices:
    """The matrices (d, r), (d, r) and (d, v) of a head."""

    query: Array
    key: Array
    value: Array

    def __post_init__(self) -> None:
        shapes = [matrix.shape for matrix in (self.query, self.key, self.value)]
        if any(len(shape) != 2 for shape in shapes) or shapes[0] != shapes[1] or shapes[0][0] != shapes[2][0]:
            raise TargetError("W_Q and W_K are (d, r) and W_V is (d, v)", f"shapes {shapes}", "Mend the shapes")
        if not all(np.all(np.isfinite(matrix)) for matrix in (self.query, self.key, self.value)):
            raise TargetError("The matrices of a head are finite", "NaN or infinity", "Remove it")

    @property
    def shape(self) -> HeadShape:
        """The numbers the frozen network depends on."""
        return HeadShape(self.query.shape[0], self.query.shape[1], self.value.shape[1])

    def exact(self, x: Array) -> Array:
        """The head itself, in float64: what is emulated."""
        scores = (x @ self.query) @ np.swapaxes(x @ self.key, -1, -2)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return np.asarray((weights / weights.sum(axis=-1, keepdims=True)) @ (x @ self.value))


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


def head_tokens(matrices: HeadMatrices, beta: float, dtype: str) -> Array:
    """The prompt (2 d, d + 2 r + v): every row of the matrices with its key, and their mirror images."""
    d = matrices.shape.features
    rows = np.hstack([matrices.query, matrices.key, matrices.value])
    tokens = round_to(np.hstack([beta * np.eye(d), rows * (d / beta)]), dtype)
    if not np.all(np.isfinite(tokens)):
        raise RefusalError(f"Every token must fit {dtype}", "an entry beyond it", "Scale the matrices down")
    return np.vstack([tokens, -tokens])


def best_sharpness(features: int, data_bound: float, dtype: str) -> float:
    """The power of two beta for which the bound of a projection is smallest, for |x| <= data_bound.

    >>> best_sharpness(4, 1.0, "float64"), best_sharpness(4, 1.0, "float32")
    (0.0009765625, 0.0625)
    """
    _runs_in(dtype)
    if not (math.isfinite(data_bound) and data_bound > 0):
        raise TargetError("`data_bound` must be a positive number", repr(data_bound)[:80], "Give the largest |x|")
    largest = math.floor(math.log2(1 / data_bound)) - 2  # t at most 1/4
    tried = [2.0**exponent for exponent in range(largest, largest - FINEST, -1)]
    return min(tried, key=lambda beta: sum(_relative(features, data_bound, beta, machine(dtype))))


def emulation_bound(
    matrices: HeadMatrices, data_bound: float, beta: float, dtype: str, tokens: int, x: Array | None = None
) -> dict[str, float]:
    """Named parts of a bound of every output's error, for so many tokens with entries up to ``data_bound``.

    ``projection``: what is left of the sharpness in exact arithmetic; ``rounding``: what the dtype adds, the tokens'
    and the prompt's own rounding to it included. Underflow is not looked at. With ``x`` (..., tokens, d) the bound is
    of the error on these tokens, else on the worst ones.
    """
    model = _runs_in(dtype)
    truncation, rounding = _relative(matrices.shape.features, data_bound, beta, model)
    given = [_projection(matrix, data_bound, x) for matrix in (matrices.query, matrices.key, matrices.value)]
    exact = _through([(each.size, truncation * each.mass) for each in given])
    errors = [(each.size, truncation * each.mass + rounding * each.worst) for each in given]
    full = _through(errors, model, tokens)
    return {"projection": exact, "rounding": max(full - exact, 0.0) * SLACK}


@dataclass(frozen=True, eq=False)
class _Projection:
    """For every token (..., n, c): bounds of |x . w|, of sum_j |x_j w_j|, and R sum_j |w_j|."""

    size: Array
    mass: Array
    worst: Array


def _projection(matrix: Array, data_bound: float, x: Array | None) -> _Projection:
    worst = data_bound * np.abs(matrix).sum(axis=0, keepdims=True) * SLACK
    if x is None:
        return _Projection(worst, worst, worst)
    mass = np.abs(x) @ np.abs(matrix) * SLACK
    return _Projection(np.abs(x @ matrix) + gamma(len(matrix) + 2) * mass, mass, worst)


def _relative(features: int, data_bound: float, beta: float, model: Machine) -> tuple[float, float]:
    """Errors of a projection, divided by R sum_j |w_j|: of the finite sharpness, and of rounding.

    A head rounds exponentials, two sums of 2 d terms, their products and the division, each relative to the sum of
    |weight value|, at most exp(4 t) / beta sum_j |w_j|; the heads count 4/3 and 1/6.
    """
    t = beta * data_bound
    truncation = CAUCHY / 3 * (16 * t**4 / (1 - 4 * t * t) - 4 * t**4 / (1 - t * t))
    blocks = math.ceil(2 * features / KEYS)
    count = 4 * features + 2 * (EXPONENTIAL[model.name] + 2) * blocks + 24
    return truncation * SLACK, 1.5 * gamma(count, model.accumulation) * math.exp(4 * t) / t * SLACK


def _through(given: list[tuple[Array, Array]], model: Machine | None = None, tokens: int = 0) -> float:
    """The output's error from sizes and errors (..., n, c) of queries, keys and values; run by ``model``, if any."""
    (q, dq), (k, dk), (v, dv) = given
    k, dk = np.swapaxes(k, -1, -2), np.swapaxes(dk, -1, -2)
    moved = q @ dk + dq @ k + dq @ dk
    if model is not None:
        blocks, unit = math.ceil(tokens / KEYS), model.accumulation
        moved = moved + gamma(q.shape[-1] + 12, unit) * ((q + dq) @ (k + dk))
        moved = moved + gamma((EXPONENTIAL[model.name] + 1) * blocks, unit)
        dv = dv + gamma(2 * tokens + 2 * blocks + 8, unit) * (v + dv)
    share = np.expm1(np.minimum(2 * SLACK * moved.max(axis=-1, keepdims=True), 1.2))
    share = np.where(share > 2.0, 2.0, share)  # two distributions are never further apart
    off = dv.max(axis=-2, keepdims=True) + share * (v + dv).max(axis=-2, keepdims=True)
    return float(off.max()) * SLACK


def _runs_in(dtype: str) -> Machine:
    model = machine(dtype)
    if dtype not in EXPONENTIAL:
        remedy = "Use float64 or float32"
        raise RefusalError("Small sharpness needs a dtype that keeps small differences", dtype, remedy)
    return model

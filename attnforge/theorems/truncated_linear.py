r"""One softmax head that computes a truncated linear function (after Hu et al. 2025).

For anchors $L_k = a + kh$, $k = 0..p-1$, on $[a, b]$, the head with scores $\beta(2 y L_k - L_k^2)$ and values $L_k$
satisfies, for every real $y$ and with $c = \beta h^2$,
$$ |\mathrm{head}(y) - \mathrm{clamp}(y, a, b)| \le h\,E(c), \qquad E(c) \to \tfrac12 \ (c \to \infty), \quad
   \min_c E(c) = 0.063 \text{ at } c = 2.7 . $$
Why: the scores differ from $-\beta(y - L_k)^2$ by a term common to all keys, so the weights are a discrete Gaussian
around y; E is the error of the bracketing pair (*spacing*) and what the other anchors add (*leakage*), see
:mod:`attnforge.lemmas.leakage`. The rate is O(1/p) for every fixed c. On the papers' open grid,
$h = (b-a)/p$ and the last step is missing, so the bound there is $h$ plus leakage.

Anchors at other positions $L_0 < \dots < L_{p-1}$ of $[a, b]$: with the number $\beta$ the scores are the same, and
$c_k = \beta h_k^2$ differs from gap to gap; tuned and hard keep c the same over every gap, neighbours tie half-way, and
the temperature follows the spacing (:mod:`attnforge.anchors.axis`).

Layouts. **memory**: token i becomes $(u_i, 1)$, $u = (y - a)/h - k_0$, and the head owns p keys
$(\kappa, \kappa^2)$, $\kappa = k - k_0$: small integers, exact in every dtype up to its precision (where $\kappa^2$
needs more digits it is split in two features). Scores $2c\,u\kappa - c\,\kappa^2$.
**literal**: the paper's padded sequence. Token k < n carries $w_k * x_k + t_k/d$ in its first d features; every token
k < p carries $k$ (d times), $k(L_0 + L_k)$, 1, and $L_k e_G$. Scores
$\beta_p[2k y_i - k(L_0 + L_k)] = -(\beta_p/h)[(y_i - L_k)^2 - (y_i - L_0)^2]$, $\beta_p = \beta h$: the same weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from attnforge.anchors import Grid, Sharpness, sharpness, tuned, uniform
from attnforge.anchors.axis import Axis
from attnforge.anchors.temperature import per_step
from attnforge.errors import RefusalError, TargetError
from attnforge.lemmas.leakage import interpolation, row_error
from attnforge.network import Attention, Claims, Head, Linear, Network, Rows, Term
from attnforge.outward import add_up, ball, machine, precision, product_up, round_to
from attnforge.outward import upper as upper_end
from attnforge.targets import Box, Formula, Target, TruncatedLinear
from attnforge.theorems.construction import Construction, Cost, Documentation, Law
from attnforge.theorems.linear_form import form_and_one, form_of, products_per_token, tokens_of
from attnforge.theorems.tensor_heads import axis_columns

Array = npt.NDArray[np.float64]
Layout = Literal["memory", "literal"]


@dataclass(frozen=True)
class AnchorPlan:
    """p anchors, their grid and sharpness, and how to lay them out.

    ``positions`` are given ones, instead of a grid; ``per_gap`` is c over each of their gaps, where beta follows them:
    ``sharpness`` is then that of the mean gap.
    """

    anchors: int
    sharpness: float
    grid: Grid = "closed"
    layout: Layout = "memory"
    dtype: str = "float64"
    positions: tuple[float, ...] | None = None
    per_gap: float | None = None

    def axis(self, lower: float, upper: float) -> Axis:
        """The anchors at given positions: c the same over every gap, or one beta, and c = beta h^2."""
        at = np.array(self.positions)
        if self.per_gap is not None:
            return Axis.graded(at, lower, upper, self.per_gap, float(at[len(at) // 2]))
        h = mean_gap(at)
        return Axis.scaled(at, h, self.sharpness * h * h, (lower, upper))


class TruncatedLinearHead(Construction[AnchorPlan]):
    """One head, p anchors."""

    name = "truncated_linear"
    function_class = "truncated linear, clamp(w.x + t, a, b)"
    rate = "O(1/p)"
    conditions = "p anchors h apart, c = beta h^2 fixed: 0.0629 h tuned, up to h/2 hard (0.427 h at c = 36.7)"
    reference = "Hu et al. 2025, one head"
    documentation = Documentation(
        theorem="paper A, Theorem 3.1",
        hypotheses="a < b, p >= 2, beta > 0; w and t may differ from token to token",
        bound="sup over all real y: h E(c), h = (b-a)/(p-1); open grid h max(E(c), O(c)), h = (b-a)/p",
        heads="1",
        keys="p",
        width="2; literal 2d + d_o + 2",
        example="af.constructions.truncated_linear([1.0, -0.5], 0.1, -1, 1, anchors=9)",
    )
    law = Law(
        target=lambda: TruncatedLinear([1.0, -0.5], 0.25, -1, 2, Box(-3, 3)),
        refused=lambda: Formula("sin(x)", Box([-1], [1])),
        tols=(0.1, 0.01),
        order=1.0,
    )

    def accepts(self, target: Target) -> str | None:
        """Truncated linear targets."""
        return reason_not_truncated(target)

    def size(self, target: Target, tol: float, dtype: str) -> AnchorPlan:
        """The fewest anchors whose tuned bound is at most tol: p - 1 >= (b - a) E(c) / tol."""
        _, _, a, b = form_of(target)
        disturbance = 0.0
        for _ in range(4):  # the sharpness depends weakly on p through rounding: a few rounds settle it
            c = tuned(disturbance)
            steps = max(1.0, np.ceil((b - a) * interpolation(c, disturbance * c) / tol))
            if not (steps < 2**53 and 2 * disturbance < 1):
                needed = (b - a) * interpolation(tuned()) / tol
                raise RefusalError(
                    f"{dtype} must separate the scores of neighbouring anchors",
                    f"tol={tol:g}, which needs about {needed:.2g} anchors",
                    "Ask for a larger tol, a higher precision, or the gate",
                )
            disturbance = score_disturbance(int(steps) + 1, dtype)
        return AnchorPlan(int(steps) + 1, per_step(c, (b - a) / steps), dtype=dtype)

    def cost(self, target: Target, plan: AnchorPlan) -> Cost:
        """Three or four numbers an anchor (memory), a row of 2d + 2 + k features an anchor (literal)."""
        w, _, _, _ = form_of(target)
        p, (rows, d), n, k = plan.anchors, w.shape, tokens_of(target) or 1, target.outputs or 1
        if plan.layout == "memory":
            return Cost.of(p, 4 * p + 2 * rows * (d + 1) + 6 + k)
        width = 2 * d + 2 + k
        weights = p * (width + 2 * n) + n * d * width + 2 * width * (d + 1) + width * k + k * k
        return Cost.of(p, weights, p * p * (d + 1 + k))

    def build(self, target: Target, plan: AnchorPlan) -> Network:
        """The weights, in either layout."""
        w, t, a, b = form_of(target)
        if plan.positions is not None:
            return _given(w, t, plan.axis(a, b), plan, output_map(target), tokens_of(target))
        positions, h = uniform(a, b, plan.anchors, plan.grid)
        claims = Claims(self.name, plan.sharpness, positions, ("anchor",) * plan.anchors)
        output = output_map(target)
        if plan.layout == "memory":
            return _memory(w, t, positions, h, plan, claims, output, tokens_of(target))
        return _literal(w, t, positions, h, plan, claims, output, tokens_of(target) or 1)

    def bound(self, target: Target, plan: AnchorPlan) -> dict[str, float]:
        """``spacing``: the bracketing pair; ``leakage``: the other anchors."""
        _, _, a, b = form_of(target)
        if plan.positions is not None:
            return gaps_error(plan.positions, plan.per_gap, plan.sharpness, a, b)
        _, h = uniform(a, b, plan.anchors, plan.grid)
        return row_error(plan.sharpness * h * h, h, plan.anchors, open_grid=plan.grid == "open")


def mean_gap(positions: Array) -> float:
    """The mean distance of neighbours."""
    return float((positions[-1] - positions[0]) / (len(positions) - 1))


def gaps_error(
    positions: tuple[float, ...], per_gap: float | None, beta: float, lower: float, upper: float
) -> dict[str, float]:
    r"""The bound for anchors at any positions in [a, b], with c over each gap, or $c = \beta h^2$.

    The pair that brackets y errs by at most half its gap. Beyond it every further anchor weighs at most $e^{-c}$ of the
    one before, at the least c of all gaps, so that all of them weigh at most $2/(e^c - 1)$ and are at most b - a away.
    Below the first anchor and beyond the last, values stay what they are there.
    """
    gaps = np.diff(positions)  # each rounded once
    with precision():
        h = ball(float(gaps.min())) * (1 - ball(2.0**-52))
        least = ball(per_gap) if per_gap is not None else ball(beta) * h * h
        beyond = upper_end(2 * (ball(upper) - ball(lower)) / (least.exp() - 1))
        ends = max(upper_end(ball(b) - ball(a)) for a, b in ((lower, positions[0]), (positions[-1], upper)))
    spacing = add_up(product_up(0.5, float(gaps.max()), 1 + 2.0**-52), ends)
    return {"spacing": spacing, "leakage": min(beyond, add_up(upper, -lower))}


def score_disturbance(anchors: int, dtype: str) -> float:
    """Rounding of centred scores, divided by c: five roundings of 2 u kappa - kappa^2 with both up to p/2."""
    return 5 * machine(dtype).accumulation * 3 * (anchors / 2) ** 2


def resolve_sharpness(asked: Sharpness, h: float, anchors: int, dtype: str) -> float:
    """The beta asked for, where tuned takes the dtype's score rounding into account."""
    return sharpness(asked, h, dtype, score_disturbance(anchors, dtype))


def reason_not_truncated(target: Target) -> str | None:
    """None for truncated linear targets, else the reason."""
    try:
        target.truncated_form()
    except TargetError as error:
        return str(error)
    return None


def output_map(target: Target) -> Array:
    """W_O (1, k): writes the value into the chosen output feature."""
    outputs = getattr(target, "outputs", None)
    row = np.zeros((1, 1 if outputs is None else outputs))
    row[0, getattr(target, "output", 0) if outputs is not None else 0] = 1.0
    return row


def index_keys(kappa: Array, dtype: str) -> Array:
    """Keys (kappa, kappa^2), with kappa^2 split into two features where the dtype cannot hold it in one."""
    square = kappa * kappa
    if float(square.max()) > machine(dtype).largest:
        remedy = "Use fewer anchors, or a wider dtype"
        raise RefusalError(f"The squares of {dtype} keys must fit it", f"{len(kappa)} anchors in one head", remedy)
    high = round_to(square, dtype)
    columns = [kappa, square] if np.array_equal(high, square) else [kappa, high, round_to(square - high, dtype)]
    return np.stack(columns, axis=1)


def index_query(c: float, keys: Array, shift: float = 0.0) -> Array:
    """W_Q for tokens (u, 1) and :func:`index_keys`: scores 2c (u - shift) kappa - c kappa^2."""
    query = np.zeros((2, keys.shape[1]))
    query[:, 0] = 2 * c, -2 * c * shift
    query[1, 1:] = -c
    return query


def _given(w: Array, t: Array, axis: Axis, plan: AnchorPlan, output: Array, tokens: int | None) -> Network:
    """Keys (key, offset) of an axis, against tokens (u, 1)."""
    keys = axis_columns(axis, plan.dtype)
    query = np.zeros((2, keys.shape[1]))
    query[0, 0], query[1, 1:] = axis.linear, -axis.square
    claims = Claims(TruncatedLinearHead.name, plan.sharpness, axis.positions, ("anchor",) * len(axis))
    values = axis.positions[:, None]
    head = Head(query=query, output=output, memory_keys=keys, memory_values=values, claims=claims)
    encode = form_and_one(w, t, axis.scale, -axis.origin * axis.scale)
    return Network((encode, Attention((head,))), w.shape[1], tokens, construction=TruncatedLinearHead.name)


def _memory(
    w: Array, t: Array, positions: Array, h: float, plan: AnchorPlan, claims: Claims, output: Array, tokens: int | None
) -> Network:
    p, c = len(positions), plan.sharpness * h * h
    centre = p // 2
    keys = index_keys(np.arange(p, dtype=np.float64) - centre, plan.dtype)
    head = Head(
        query=index_query(c, keys), output=output, memory_keys=keys, memory_values=positions[:, None], claims=claims
    )
    encode = form_and_one(w, t, 1 / h, -positions[0] / h - centre)
    return Network((encode, Attention((head,))), w.shape[1], tokens, construction=TruncatedLinearHead.name)


def _literal(
    w: Array, t: Array, positions: Array, h: float, plan: AnchorPlan, claims: Claims, output: Array, tokens: int
) -> Network:
    p, d = len(positions), w.shape[1]
    if p < tokens:
        raise RefusalError(
            "The paper's padded sequence holds the n tokens among its p anchors, so `anchors` must be at least n",
            f"anchors={p}, n={tokens}",
            "Ask for more anchors, or use layout='memory'",
        )
    numbers, width, k = np.arange(p, dtype=np.float64), 2 * d + 2 + output.shape[1], slice(d, 2 * d)
    constant = np.zeros((p, width))
    constant[:tokens, :d] = np.broadcast_to(t, (tokens,))[:, None] / d
    constant[:, k] = numbers[:, None]
    constant[:, 2 * d] = numbers * (positions[0] + positions)
    constant[:, 2 * d + 1] = 1.0
    constant[:, 2 * d + 2 :] = positions[:, None] * output
    encode = Linear((Term(products_per_token(w, tokens, width), np.eye(p, tokens)),), constant)

    paper_sharpness = plan.sharpness * h
    query, key, value = np.zeros((width, d + 1)), np.zeros((width, d + 1)), np.zeros((width, output.shape[1]))
    query[np.arange(d), np.arange(d)] = 2 * paper_sharpness
    query[2 * d + 1, d] = -paper_sharpness
    key[np.arange(d, 2 * d), np.arange(d)] = 1.0
    key[2 * d, d] = 1.0
    value[2 * d + 2 :] = np.eye(output.shape[1])
    head = Head(query, np.eye(output.shape[1]), key=key, value=value, key_rows=Rows(), claims=claims)
    read = Linear((Term(None, np.eye(tokens, p)),))
    return Network((encode, Attention((head,)), read), d, tokens, construction=TruncatedLinearHead.name)

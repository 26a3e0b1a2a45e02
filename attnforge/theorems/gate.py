r"""Three keys that compute a truncated linear function to any precision (ours; SiLU head after Huben and Morris 2023).

Keys low, self, high with scores $-\beta(y-a),\; 0,\; \beta(y-b)$ and values $a,\; y,\; b$, where the self token's value
is y itself. For every real y
$$ |\mathrm{out} - \mathrm{clamp}(y, a, b)| \le \max\{ W(1/e)/\beta,\; (b-a)e^{-\beta(b-a)} \}, \quad
   W(1/e) = 0.2785. $$
Why: between a and b the two outer keys pull in opposite directions, each by $z\sigma(-\beta z) \le W(1/e)/\beta$ where
z is the distance to its kink (:mod:`attnforge.lemmas.kink`); below a the self key pulls down by as much and the high
key, whose score lies at least $\beta(b-a)$ below the low one's, pulls up; above b likewise. There are no interpolation
points: precision costs sharpness, not anchors.

Layouts. **memory**: each token attends to itself and to two constant keys. **literal**: a padded sequence of n + 2
tokens with one-hot positions; the bonus M on the query's own token and on the two constant keys leaves at most
$(n-1)e^{-M}$ on the other tokens.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attnforge.anchors.temperature import gate_sharpness, position_bonus
from attnforge.errors import RefusalError, is_number
from attnforge.lemmas.kink import far_key, kink
from attnforge.network import Attention, Claims, Head, Linear, Network, Rows, Term
from attnforge.outward import add_up, product_up, up
from attnforge.targets import Box, Formula, Target, TruncatedLinear
from attnforge.theorems.construction import Construction, Cost, Documentation, Law
from attnforge.theorems.linear_form import form_and_one, form_of, tokens_of
from attnforge.theorems.truncated_linear import Layout, output_map, reason_not_truncated

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class GatePlan:
    """The sharpness beta of scores beta (y - a), and the layout."""

    sharpness: float
    layout: Layout = "memory"
    dtype: str = "float64"


class Gate(Construction[GatePlan]):
    """Three keys, any precision."""

    name = "gate"
    function_class = "truncated linear, clamp(w.x + t, a, b)"
    rate = "O(1/sharpness), 3 keys"
    conditions = (
        "0.2785/beta where (b-a) exp(-beta (b-a)) is no larger; at the finest beta of a dtype exact to rounding"
    )
    reference = "ours; SiLU head after Huben and Morris 2023"
    documentation = Documentation(
        theorem="ours",
        hypotheses="a < b, beta > 0; literal: other tokens keep (n-1) exp(-M) of the weight, M the bonus",
        bound="sup over all real y: max(0.2785/beta, (b-a) exp(-beta (b-a)))",
        heads="1",
        keys="3; literal n + 2",
        width="2; literal n + 4",
        example="af.constructions.gate([1.0, -0.5], 0.25, -1, 2, domain=af.Box(-3, 3))",
    )
    law = Law(
        target=lambda: TruncatedLinear([1.0, -0.5], 0.25, -1, 2, Box(-3, 3)),
        refused=lambda: Formula("sin(x)", Box([-1], [1])),
        tols=(0.1, 1e-9),
        order=math.inf,
    )

    def accepts(self, target: Target) -> str | None:
        """Truncated linear targets."""
        return reason_not_truncated(target)

    def size(self, target: Target, tol: float, dtype: str) -> GatePlan:
        """The sharpness of the dtype: no tolerance needs less than three keys, and sharper costs nothing."""
        return GatePlan(finest_sharpness(target, dtype), dtype=dtype)

    def cost(self, target: Target, plan: GatePlan) -> Cost:
        """Three keys; in the literal layout a row of n + 4 features a token."""
        w, _, _, _ = form_of(target)
        (rows, d), n, k = w.shape, tokens_of(target) or 1, target.outputs or 1
        if plan.layout == "memory":
            return Cost.of(3, 2 * rows * (d + 1) + 16 + k)
        width = n + 4
        weights = width * (n * d + (n + 2) + 2 * (n + 2) + 1) + 2 * n * (n + 2) + k
        return Cost.of(n + 2, weights, n * (n + 2) * (n + 3))

    def build(self, target: Target, plan: GatePlan) -> Network:
        """The weights, in either layout."""
        if not (is_number(plan.sharpness) and math.isfinite(plan.sharpness) and plan.sharpness > 0):
            raise RefusalError("`sharpness` must be a positive number", repr(plan.sharpness), "Leave it out")
        w, t, a, b = form_of(target)
        output = output_map(target)
        if plan.layout == "memory":
            return _memory(w, t, a, b, plan, output, tokens_of(target))
        return _literal(w, t, a, b, plan, output, tokens_of(target) or 1)

    def bound(self, target: Target, plan: GatePlan) -> dict[str, float]:
        """``spacing``: the rounded kink; ``leakage``: the outer key opposite, and other tokens (literal)."""
        _, _, a, b = form_of(target)
        pair = kink(plan.sharpness)
        leak = max(0.0, far_key(plan.sharpness, b - a) - pair)
        if plan.layout == "literal":
            tokens = tokens_of(target) or 1
            others = (tokens - 1) * math.exp(-position_bonus(tokens, plan.dtype))
            leak = add_up(leak, product_up(up(up(others)), 2 * _spread(target)))
        return {"spacing": pair, "leakage": leak}


def finest_sharpness(target: Target, dtype: str) -> float:
    """As sharp as the dtype can use, on the target's domain."""
    return gate_sharpness(_spread(target), dtype)


def _spread(target: Target) -> float:
    """The largest of |y| on the domain, |a|, |b|: the scale of rounding."""
    w, t, a, b = form_of(target)
    reach = np.abs(w) * np.maximum(np.abs(target.domain.lower), np.abs(target.domain.upper))
    return max(float(np.max(reach.sum(axis=-1) + np.abs(t))), abs(a), abs(b), b - a)


def _memory(w: Array, t: Array, a: float, b: float, plan: GatePlan, output: Array, tokens: int | None) -> Network:
    head = gate_head(0, 2, a, b, plan.sharpness, output)
    return Network((form_and_one(w, t, 1.0, 0.0), Attention((head,))), w.shape[1], tokens, construction=Gate.name)


def gate_head(feature: int, width: int, lower: float | None, upper: float | None, beta: float, output: Array) -> Head:
    """A gate on one feature of tokens whose last feature is 1; without an end, no key stands for it."""
    query, value = np.zeros((width, 2)), np.zeros((width, 1))
    query[feature, 0], query[-1, 1], value[feature, 0] = beta, beta, 1.0
    keys = [[-1.0, lower]] if lower is not None else []
    keys += [[1.0, -upper]] if upper is not None else []
    ends = [end for end in (lower, upper) if end is not None]
    roles = ["low"] * (lower is not None) + ["high"] * (upper is not None) + ["self"]
    return Head(
        query=query,
        output=output,
        key=np.zeros((width, 2)),  # the self key: score 0
        value=value,
        key_rows=Rows("own"),
        memory_keys=np.array(keys),
        memory_values=np.array(ends)[:, None],
        claims=Claims(Gate.name, beta, np.array([*ends, 0.0]), tuple(roles)),
    )


def _literal(w: Array, t: Array, a: float, b: float, plan: GatePlan, output: Array, n: int) -> Network:
    """Features: y or a constant's value; slope and offset of a constant's score; one; one-hot position."""
    d, width, beta, bonus = w.shape[1], n + 4, plan.sharpness, position_bonus(n, plan.dtype)
    maps = np.zeros((n, d, width))
    maps[:, :, 0] = w
    constant = np.zeros((n + 2, width))
    constant[:n, 0], constant[n:, 0] = t, (a, b)
    constant[n:, 1] = -1.0, 1.0
    constant[n:, 2] = beta * a + bonus, -beta * b + bonus
    constant[:n, 3] = 1.0
    constant[:n, 4:] = np.eye(n)
    query, key, value = np.zeros((width, 2 + n)), np.zeros((width, 2 + n)), np.zeros((width, 1))
    query[0, 0], query[3, 1] = beta, 1.0
    query[4:, 2:] = bonus * np.eye(n)
    key[1, 0], key[2, 1] = 1.0, 1.0
    key[4:, 2:] = np.eye(n)
    value[0, 0] = 1.0
    positions = np.concatenate([np.zeros(n), [a, b]])
    claims = Claims(Gate.name, beta, positions, ("self",) * n + ("low", "high"))
    head = Head(query, output, key=key, value=value, key_rows=Rows(), query_rows=Rows.some(np.arange(n)), claims=claims)
    read = Linear((Term(None, np.eye(n, n + 2)),))
    return Network(
        (Linear((Term(maps, np.eye(n + 2, n)),), constant), Attention((head,)), read), d, n, construction=Gate.name
    )

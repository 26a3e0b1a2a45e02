r"""One layer of multi-head attention followed by a softmax approximates every continuous map (after Hu et al. 2025).

The bumps of :mod:`.bumps` are written by one layer of attention; a linear map forms the N = G^{nd} numbers $\beta
R_v(X)$, a softmax over these features weighs the centres, and a linear map V of the values F(v) reads the output,
$$ F(X) \approx V\,\mathrm{softmax}(\beta R(X)) , $$
with the bound of :mod:`.two_layer`: the outer softmax plays its second layer.

Attention is not what makes this universal. A linear map, a softmax and a linear map alone are enough: the scores
$\beta(2\langle v, X\rangle - |v|^2)$ are affine in X and differ from $-\beta|X - v|^2$ by a term common to all v, so
the softmax already selects the nearest centre. The layer of attention is there because the theorem has it.
"""

from __future__ import annotations

import numpy as np

from attnforge.network import Layer, Linear, Network, Softmax, Term
from attnforge.targets import Box, Formula, Table, Target
from attnforge.theorems.bumps import (
    BATCH,
    BumpPlan,
    bump_bound,
    centre_values,
    check_grid,
    collapse_layers,
    first_layer_cost,
    indicators,
    ramps,
    reason_not_continuous,
    size_grid,
)
from attnforge.theorems.construction import Construction, Cost, Documentation, Law
from attnforge.theorems.max_affine import shape_of


class SoftmaxTail(Construction[BumpPlan]):
    """Bumps, then a softmax over features."""

    name = "softmax_tail"
    function_class = "continuous functions and sequence maps"
    rate = "O(1/G)"
    conditions = "for Lipschitz maps of n tokens of d features, with G^(nd) features under the softmax"
    reference = "Hu et al. 2025, attention and softmax"
    documentation = Documentation(
        theorem="paper A, one layer of attention and a softmax",
        hypotheses="f Lipschitz with constant L in the sup norm of x, given or, of a formula, proved",
        bound="sup norm in and out: L (max h_r/2 + sum_r h_r A(beta, G))",
        heads="2ndG",
        keys="6ndG, and G^(nd) features of a softmax",
        width="nd + 1, then ndG, then G^(nd)",
        example='af.constructions.softmax_tail("sin(3*x)", {"x": (0, 1)}, grid=20)',
    )
    law = Law(
        target=lambda: Formula("sin(3*x)", Box([0], [1])),
        refused=lambda: Table([0.0, 1.0], [0.0, 1.0]),
        tols=(0.4, 0.1),
        order=1.0,
    )

    def accepts(self, target: Target) -> str | None:
        """Callables and formulas."""
        return reason_not_continuous(target)

    def size(self, target: Target, tol: float, dtype: str) -> BumpPlan:
        """The smallest grid whose bound is at most tol."""
        return size_grid(self.name, target, tol, dtype)

    def cost(self, target: Target, plan: BumpPlan) -> Cost:
        """D G numbers and n k values a centre, dense, and N features (thrice) for every point of a batch."""
        n, inputs, k = shape_of(target)
        first, count = first_layer_cost(target, plan), plan.grid**inputs
        parameters = count * (inputs * plan.grid + n * k) + n * n
        total = first.bytes + Cost.of(0, parameters).bytes + 24 * BATCH * count
        return Cost(first.anchors + count, first.parameters + parameters, total)

    def build(self, target: Target, plan: BumpPlan) -> Network:
        """The weights."""
        check_grid(plan.grid, plan.placement, plan.collapse)
        n, inputs, k = shape_of(target)
        scores = Linear((Term(plan.sharpness * indicators(plan.grid, inputs).T),))
        values = centre_values(target, plan).reshape(-1, n, k)
        read = [Term(np.ascontiguousarray(values[:, i]), _to_token(i, n)) for i in range(n)]
        layers: list[Layer] = [*collapse_layers(target, plan), ramps(inputs, plan.grid, plan.dtype)]
        layers += [scores, Softmax(), Linear(tuple(read))]
        return Network(tuple(layers), target.domain.shape[-1], n, construction=self.name)

    def bound(self, target: Target, plan: BumpPlan) -> dict[str, float]:
        """``spacing``: half a step; ``leakage``: all but the nearest centres."""
        return bump_bound(target, plan)


def _to_token(i: int, n: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]] | None:
    """The column that writes the only row into token i; None where there is one token."""
    return np.eye(n)[:, i : i + 1] if n > 1 else None

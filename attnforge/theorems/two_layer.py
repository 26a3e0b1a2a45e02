r"""Two layers of multi-head attention approximate every continuous sequence-to-sequence map (after Hu et al. 2025).

F maps a box of (n, d) arrays to (n, k) arrays. Layer 1 writes bumps (:mod:`.bumps`); layer 2 is one head over the N =
G^{nd} centres v with scores $\beta R_v(X)$ and values vec F(v), a retrieval; token i reads its slice of F(v). For F
with Lipschitz constant L in the sup norm, steps h_r and every X of the box
$$ |\mathrm{net}(X) - F(X)| \le L\,(\max_r h_r/2 + \sum_r h_r A(\beta, G)) , $$
where A, what all but the nearest centres add, is $0.28/\beta$ for the neighbours plus about $\frac12 G^2 e^{-\beta}$
for the rest (:mod:`attnforge.lemmas.bumps`). Why: scores are sums over inputs, so the softmax over the product grid is
a product of softmaxes, one an input, each of which holds all but A on points within half a step.

$\beta$ need not grow like ln N, as uniform estimates suggest: 2 ln G is enough, since inputs do not compete.

Layouts. **memory**: the head's memory holds the indicators of the centres' coordinates as keys and vec F(v) as values;
$\beta$ is in the query map. **literal**: a sequence of N tokens, one a centre; the linear map between the layers writes
$R_v(X)$ into token v, which is its key, the query is $\beta$, the value vec F(v).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from attnforge.errors import RefusalError
from attnforge.network import Attention, Claims, Head, Layer, Linear, Network, Rows, Term
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
    read_slices,
    reason_not_continuous,
    size_grid,
)
from attnforge.theorems.construction import Construction, Cost, Documentation, Law
from attnforge.theorems.max_affine import shape_of

Array = npt.NDArray[np.float64]


class TwoLayer(Construction[BumpPlan]):
    """Bumps, then retrieval."""

    name = "two_layer"
    function_class = "continuous functions and sequence maps"
    rate = "O(1/G)"
    conditions = "for Lipschitz maps of n tokens of d features, with G^(nd) keys"
    reference = "Hu et al. 2025, two layers"
    documentation = Documentation(
        theorem="paper A, Theorem 3.3",
        hypotheses="f Lipschitz with constant L in the sup norm of x, given or, of a formula, proved",
        bound="sup norm in and out: L (max h_r/2 + sum_r h_r A(beta, G))",
        heads="2ndG, then 1",
        keys="6ndG, then G^(nd)",
        width="nd + 1, then ndG; literal nk + 2",
        example='af.constructions.two_layer("sin(3*x)", {"x": (0, 1)}, grid=20)',
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
        """A key of D G numbers and n k values a centre, dense; literal, a batch of sequences of N tokens too."""
        n, inputs, k = shape_of(target)
        first, count, features = first_layer_cost(target, plan), plan.grid**inputs, inputs * plan.grid
        parameters = count * (features + n * k + 1) + features * features + (n * k) ** 2 + n * n * k * k
        running = 0
        if plan.layout == "literal":
            parameters += features * features * (n * k + 2) + count * (n * k + 3)
            running = 24 * BATCH * count * (n * k + 2)
        total = Cost.of(0, parameters).bytes + first.bytes + running
        return Cost(first.anchors + count, first.parameters + parameters, total)

    def build(self, target: Target, plan: BumpPlan) -> Network:
        """The weights, in either layout."""
        check_grid(plan.grid, plan.placement, plan.collapse)
        n, inputs, _ = shape_of(target)
        layers = [*collapse_layers(target, plan), ramps(inputs, plan.grid, plan.dtype)]
        layers += _literal(target, plan) if plan.layout == "literal" else _memory(target, plan)
        return Network(tuple(layers), target.domain.shape[-1], n, construction=self.name)

    def bound(self, target: Target, plan: BumpPlan) -> dict[str, float]:
        """``spacing``: half a step; ``leakage``: all but the nearest centres."""
        return bump_bound(target, plan)


def _memory(target: Target, plan: BumpPlan) -> list[Layer]:
    n, inputs, k = shape_of(target)
    keys = indicators(plan.grid, inputs)
    head = Head(
        query=plan.sharpness * np.eye(inputs * plan.grid),
        output=np.eye(n * k),
        memory_keys=keys,
        memory_values=centre_values(target, plan),
        claims=_claims(plan, len(keys)),
    )
    return [Attention((head,)), *read_slices(n, k, n if plan.collapse == "uniform" else 1)]


def _literal(target: Target, plan: BumpPlan) -> list[Layer]:
    """Features of token v: R_v(X), one, vec F(v). Only the first token asks: what it retrieves is the same for all."""
    n, inputs, k = shape_of(target)
    keys, values = indicators(plan.grid, inputs), centre_values(target, plan)
    count, features = keys.shape
    if plan.collapse == "uniform":
        raise RefusalError("The literal layout collapses by a linear map", "collapse='uniform'", "Use layout='memory'")
    width = 2 + n * k
    terms = []
    for feature in range(features):
        read = np.zeros((features, width))
        read[feature, 0] = 1.0
        terms.append(Term(read, keys[:, feature : feature + 1]))
    constant = np.hstack([np.zeros((count, 1)), np.ones((count, 1)), values])
    head = Head(
        query=_column(width, 1, plan.sharpness),
        output=np.eye(n * k),
        query_rows=Rows.some([0]),
        key=_column(width, 0, 1.0),
        value=np.eye(width)[:, 2:],
        key_rows=Rows(),
        claims=_claims(plan, count),
    )
    first = Linear((Term(None, np.eye(1, count)),))
    return [Linear(tuple(terms), constant), Attention((head,)), first, *read_slices(n, k, 1)]


def _column(width: int, at: int, number: float) -> Array:
    column = np.zeros((width, 1))
    column[at, 0] = number
    return column


def _claims(plan: BumpPlan, count: int) -> Claims:
    """Beta, and a number a key: what the centres are is read from the keys."""
    return Claims(TwoLayer.name, plan.sharpness, np.arange(count, dtype=np.float64), ())

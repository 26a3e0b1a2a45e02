r"""Heads over sparse grids: smooth functions of many inputs, without a grid that fills the box.

A layer of heads, each over a small grid of the few inputs it reads, outputs
$$ \sum_h \mathrm{head}_h(x) = \sum_{m \in I} a_m \prod_a N_{m_a}(z_a(x_a)), $$
a polynomial with any sparse set I of terms in the variables $z_a = \tanh(\alpha \hat x_a/2) / \tanh(\alpha/2)$,
which the softmax over a row of binomial anchors makes exactly (:mod:`attnforge.anchors.binomial`). The set is found by
f's own surpluses (:mod:`attnforge.anchors.combination`).

It interpolates f at one point a term. For functions with bounded mixed derivatives the error falls with the number of
terms at a rate that depends on the inputs only through logarithms, and faster than any power for analytic ones; the
constants are unknown, so what is stated is the largest error seen.
"""

from __future__ import annotations

import math

import numpy as np

from attnforge.anchors.combination import Combination, combine
from attnforge.outward import machine
from attnforge.targets import Box, Formula, Target
from attnforge.theorems.construction import Documentation, Law
from attnforge.theorems.max_affine import flat_values
from attnforge.theorems.tensor_grid import refuse_unless_function
from attnforge.theorems.tensor_heads import FittedPlan, HeadsConstruction, TensorHead

FEWEST_INPUTS, MOST_INPUTS = 5, 12


class SparseGrid(HeadsConstruction):
    """One head for each grid of a sparse set, over the inputs it needs.

    >>> from attnforge.targets import Box, Function
    >>> target = Function(lambda x: np.exp(-x.sum(axis=-1) / 3), Box(0, 1, shape=(5,)))
    >>> plan = SparseGrid().size(target, 1e-3, "float64")
    >>> SparseGrid().build(target, plan)(np.full((1, 5), 0.3)).round(3).tolist()  # exp(-1/2)
    [[0.607]]
    """

    name = "sparse_grid"
    function_class = "smooth functions of many inputs"
    rate = "any power, up to logarithms, for functions with bounded mixed derivatives"
    conditions = "mixed derivatives bounded; the constants grow with the number of inputs"
    reference = "Smolyak 1963; Gerstner and Griebel 2003"
    documentation = Documentation(
        theorem="ours",
        hypotheses="5 to 12 inputs; values are fitted to samples of f",
        bound="none: the largest error seen",
        heads="1 a grid of the sparse set",
        keys="sum over grids of products of their p_a",
        width="d + 1",
        example="af.constructions.sparse_grid(lambda x: 1 / (1 + x.mean(axis=-1)), [(0, 1)] * 5, tol=1e-3)",
    )
    law = Law(
        target=lambda: Formula("exp(-(a + b + c + d + g)/3)", Box(0, 1, shape=(5,)), tuple("abcdg")),
        refused=lambda: Formula("sin(x)", Box([-1], [1])),
        tols=(1e-1, 1e-3),
        order=math.inf,
    )
    fitted = True

    def accepts(self, target: Target) -> str | None:
        """Callables and formulas of five to twelve inputs: with fewer, a full grid is small."""
        refused = refuse_unless_function(target, MOST_INPUTS)
        if refused is None and target.domain.shape[0] < FEWEST_INPUTS:
            return f"fewer than {FEWEST_INPUTS} inputs need no sparse grid"
        return refused

    def size(self, target: Target, tol: float, dtype: str) -> FittedPlan:
        """Sample f where its surpluses say, and drop what is not needed for an error of tol at fresh points."""
        box = target.domain
        sparse = combine(flat_values(target), box.lower, box.upper, tol, roundoff=machine(dtype).roundoff)
        units = np.eye(len(box.lower))
        heads = (
            TensorHead(units[list(grid.inputs)], np.zeros(len(grid.inputs)), grid.axes, grid.values)
            for grid in sparse.grids
        )
        return FittedPlan(tuple(heads), explain(sparse), dtype)


def explain(sparse: Combination) -> str:
    """How the heads were chosen, in words."""
    largest = " x ".join(str(len(axis)) for axis in max(sparse.grids, key=lambda grid: grid.anchors).axes)
    if len(sparse.grids) == 1:
        text = f"one grid of {largest} anchors"
    else:
        text = f"{len(sparse.grids)} sparse grids of {sparse.anchors:,} anchors in all, the largest {largest}"
    return f"{text}, from {sparse.evaluations:,} values of f (values up to {sparse.magnitude:.2g})"

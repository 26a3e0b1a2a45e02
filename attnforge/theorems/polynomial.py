r"""One head that computes a polynomial, exact up to saturation: values in closed form, nothing is fitted.

A Gaussian row of anchors averages a polynomial p to its heat flow $e^{(\sigma^2/2)\Delta}p$, $\sigma^2 = 1/(2\beta)$.
With values $v_k = (e^{-(\sigma^2/2)\Delta}p)(c_k)$, inverse heat (Hermite) polynomials, the head returns p itself:
$$ \sum_k w_k v_k = \frac{\sum_j q^{j^2} e^{2\pi i j z}\,p(x + i\pi j h/c)}{\sum_j q^{j^2} e^{2\pi i j z}},
\quad q = e^{-\pi^2/c},\ z = x/h, $$
so the error is of size q, whatever the spacing (:mod:`attnforge.lemmas.saturation`): precision needs a smaller
sharpness and more ghosts, not a finer grid. In several inputs the heat flow factorises and so do the weights.
"""

from __future__ import annotations

import math

import numpy as np

from attnforge.anchors.axis import Axis
from attnforge.anchors.hermite import centred, coefficient_size, hermite_plan, hermite_values
from attnforge.errors import RefusalError
from attnforge.expression.polynomial import polynomial
from attnforge.targets import Box, Formula, Target
from attnforge.theorems.construction import Documentation, Law
from attnforge.theorems.tensor_heads import FittedPlan, HeadsConstruction, TensorHead

MOST_INPUTS = 4


class PolynomialHead(HeadsConstruction):
    """One head over a row of anchors an input, with inverse heat values."""

    name = "polynomial"
    function_class = "polynomials of up to four inputs and degree 12 in each"
    rate = "exact up to saturation, about 2 exp(-pi^2/c) |1 + i pi h/c|^n at degree n"
    conditions = "on [-1, 1], c = beta h^2: precision takes a smaller c and more ghosts, not a finer grid"
    reference = "approximate approximations, after Maz'ya and Schmidt"
    documentation = Documentation(
        theorem="ours",
        hypotheses="a polynomial of degree at most 12 in each of at most four inputs",
        bound="none of a theorem: an enclosure of the built network, sup norm in and out",
        heads="1",
        keys="product of p_a, ghosts counted",
        width="d + 1",
        example='af.constructions.polynomial("x^3 - x", {"x": (-1, 1)}, tol=1e-9)',
    )
    law = Law(
        target=lambda: Formula("x^3 - x", Box([-2], [2])),
        refused=lambda: Formula("sin(x)", Box([-1], [1])),
        tols=(1e-2, 1e-8),
        order=math.inf,
    )

    def accepts(self, target: Target) -> str | None:
        """Formulas that are polynomials."""
        if not isinstance(target, Formula):
            return "the target is not a formula"
        if target.domain.shape[0] > MOST_INPUTS:
            return f"{target.domain.shape[0]} inputs are more than {MOST_INPUTS}"
        terms = polynomial(target.tree, target.names)
        return "the formula is not a polynomial of degree at most 12" if terms is None else None

    def size(self, target: Target, tol: float, dtype: str) -> FittedPlan:
        """One row an input, each planned for its share of the tolerance."""
        terms = polynomial(target.tree, target.names) if isinstance(target, Formula) else None
        if terms is None:
            raise RefusalError("The target must be a polynomial", target.describe(), "Use tensor_grid")
        lower, upper = target.domain.lower, target.domain.upper
        coefficients = centred(terms, ((lower + upper) / 2).tolist())
        size = coefficient_size(coefficients, ((upper - lower) / 2).tolist()) or 1.0  # 0 of the zero polynomial
        if not np.isfinite(size):
            got = f"a domain of {target.domain.lower.tolist()} to {target.domain.upper.tolist()}"
            raise RefusalError(
                "The terms of a polynomial must be float64 numbers on its domain", got, "Scale the inputs"
            )
        share = tol / len(lower) / size
        bounds = zip(lower.tolist(), upper.tolist(), terms.degrees, strict=True)
        rows = [hermite_plan(a, b, degree, min(share, 0.1)) for a, b, degree in bounds]
        sides = zip(rows, lower.tolist(), upper.tolist(), strict=True)
        axes = tuple(Axis.row(row.steps, row.middle, row.spacing, row.sharpness, (a, b)) for row, a, b in sides)
        head = TensorHead.on_inputs(axes, hermite_values(coefficients, rows)[..., None])
        counts = " x ".join(str(row.count) for row in rows)
        return FittedPlan((head,), f"a polynomial: {counts} anchors with inverse heat values, in closed form", dtype)

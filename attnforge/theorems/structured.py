r"""Structure beats the curse of dimension: one head along a linear form, or one head a term of a sum.

A **ridge function** $g(w \cdot x + t)$ of any number of inputs is a function of one number: one head with a row of
anchors along the form. A **sum** of terms of few inputs is a layer of as many heads, each on the grid of its own inputs
(or along its own form): p anchors a term instead of $p^D$. Structure is read from the expression or found by probing
(:mod:`attnforge.targets.structure`), and checked at fresh points; terms share the tolerance, since errors add.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt

from attnforge.anchors.grid_fit import fit_grid
from attnforge.errors import RefusalError
from attnforge.outward import machine
from attnforge.targets import Box, Formula, Target
from attnforge.targets.structure import Structure, Term, find_structure
from attnforge.theorems.construction import Documentation, Law
from attnforge.theorems.tensor_grid import explain, refuse_unless_function
from attnforge.theorems.tensor_heads import FittedPlan, HeadsConstruction, TensorHead

Array = npt.NDArray[np.float64]

MOST_INPUTS = 512
SHARE = 0.8  # of the tolerance for the fits; the rest is for the structure itself, which is found to a tenth of it


class _Structured(HeadsConstruction):
    """Heads of their own for the terms of a target, ``given`` or to be found."""

    kind: Literal["ridge", "additive"]
    fitted = True

    def __init__(self, given: Structure | None = None) -> None:
        self.given = given

    def accepts(self, target: Target) -> str | None:
        """Callables and formulas of two or more inputs."""
        reason = refuse_unless_function(target, MOST_INPUTS)
        return reason or ("one input has no structure" if target.domain.shape[0] == 1 else None)

    def size(self, target: Target, tol: float, dtype: str) -> FittedPlan:
        """Find the terms and fit each of them to its share of the tolerance."""
        structure = self.given or _structure(target, tol)
        if structure.kind != self.kind:
            raise RefusalError(f"The target must be {self.function_class}", structure.reason, "Use tensor_grid")
        return fitted_terms(structure, tol, dtype)


class Ridge(_Structured):
    """One head along one linear form of all inputs."""

    name = "ridge"
    kind = "ridge"
    function_class = "a function of one linear form, of any number of inputs"
    rate = "geometric for analytic targets and at kinks, on the range of the form"
    conditions = "keys grow with the range of the form: no curse of dimension, but not independent of it"
    reference = "ours"
    documentation = Documentation(
        theorem="ours",
        hypotheses="f = g(w . x + t), read from a formula or found by probing and checked at fresh points",
        bound="none of a theorem: an enclosure of the built network, sup norm in and out",
        heads="1",
        keys="those of g on the range of w . x + t",
        width="d + 1",
        example='af.constructions.ridge("sin(3*x + 2*y - z)", {"x": (-1, 1), "y": (-1, 1), "z": (-1, 1)}, tol=1e-6)',
    )
    law = Law(
        target=lambda: Formula("cos(x + 2*y)", Box([0, 0], [1, 1]), ("x", "y")),
        refused=lambda: Formula("sin(x)", Box([-1], [1])),
        tols=(1e-2, 1e-6),
        order=math.inf,
    )


class Additive(_Structured):
    """One head a term of a sum."""

    name = "additive"
    kind = "additive"
    function_class = "a sum of terms of few inputs"
    rate = "that of its terms; anchors add instead of multiplying"
    conditions = "terms of few inputs each, read or found; they share the tolerance"
    reference = "ours, after the anchored ANOVA decomposition"
    documentation = Documentation(
        theorem="ours",
        hypotheses="f a sum of terms of few inputs or of one linear form each",
        bound="none of a theorem: an enclosure of the built network, sup norm in and out",
        heads="1 a term",
        keys="sum of those of the terms",
        width="d + 1",
        example='af.constructions.additive("sin(5*x) + abs(y - 1)", {"x": (-1, 1), "y": (0, 2)}, tol=1e-4)',
    )
    law = Law(
        target=lambda: Formula("sin(3*x) + exp(y)", Box([0, 0], [1, 1]), ("x", "y")),
        refused=lambda: Formula("sin(x)", Box([-1], [1])),
        tols=(1e-2, 1e-6),
        order=math.inf,
    )


def fitted_terms(structure: Structure, tol: float, dtype: str) -> FittedPlan:
    """A head for every term that varies; constants are added to the first head's values (weights sum to one)."""
    varying = [term for term in structure.terms if len(term.forms)]
    constant = sum(term.values(np.zeros((1, 0)))[0] for term in structure.terms if not len(term.forms))
    if not varying:
        varying = [_constant(structure.terms[0], constant)]
        constant = 0.0
    share, roundoff = SHARE * tol / len(varying), machine(dtype).roundoff
    fits = [fit_grid(term.values, term.lower, term.upper, share, roundoff) for term in varying]
    heads = [TensorHead(t.forms, t.offsets, f.axes, f.values) for t, f in zip(varying, fits, strict=True)]
    heads[0] = replace(heads[0], values=heads[0].values + constant)
    sizes = explain(fits[0], None) if len(fits) == 1 else f"{sum(fit.anchors for fit in fits):,} anchors in all"
    return FittedPlan(
        tuple(heads), f"{structure.reason.removesuffix('.')}; {sizes}", dtype, any(fit.is_graded for fit in fits)
    )


def _constant(term: Term, value: Array) -> Term:
    """A constant (k,), instead of the term, as a function of a form that is always zero."""
    zeros = np.zeros((1, term.forms.shape[1]))
    return replace(
        term,
        forms=zeros,
        offsets=np.zeros(1),
        lower=np.array([-1.0]),
        upper=np.array([1.0]),
        values=lambda u: np.tile(value, (len(u), 1)),
    )


@lru_cache(maxsize=1)
def _structure(target: Target, tol: float) -> Structure:
    """Found once for both constructions that ask."""
    return find_structure(target, tol)

r"""One head over a product grid of fitted anchors: spectral accuracy for smooth functions of few inputs.

Hard selection is of order 1, because an output jumps from value to value. At small sharpness c the weights overlap, and
the outputs of a head form a smooth linear space in which analytic functions are approximated at a geometric rate, until
saturation of relative size $e^{-\pi^2/c}$ (:mod:`attnforge.anchors.saturation`); values are fitted
(:mod:`attnforge.anchors.fitting`), not sampled. Kinks along an axis get graded anchors
(:mod:`attnforge.anchors.mesh`): still one head. Grids of several inputs are products:
:mod:`attnforge.anchors.grid_fit`.

A theorem's bound for fitted values would be a constant times the smoothness of f, which is unknown or useless. So no
bound is stated before the weights are there; the certificate then encloses what they compute.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from attnforge.anchors.edges import Edge
from attnforge.anchors.grid_fit import GridFit, fit_counts, fit_grid, fit_positions, fit_sharpness
from attnforge.outward import machine
from attnforge.targets import Box, Formula, Function, Table, Target
from attnforge.theorems.construction import Documentation, Law
from attnforge.theorems.max_affine import flat_values
from attnforge.theorems.tensor_heads import FittedPlan, HeadsConstruction, TensorHead

Array = npt.NDArray[np.float64]

MOST_INPUTS = 8


class TensorGrid(HeadsConstruction):
    """One head over the product of one row of anchors an input."""

    name = "tensor_grid"
    function_class = "continuous functions of few inputs"
    rate = "geometric for analytic targets, and at kinks along an axis"
    conditions = "f analytic; exp(-c N^(1/d)) in all N keys of d inputs, until saturation exp(-pi^2/c)"
    reference = "approximate approximations, after Maz'ya and Schmidt"
    documentation = Documentation(
        theorem="ours",
        hypotheses="values are fitted: f is sampled, and needs no more than to be computable",
        bound="none of a theorem: an enclosure of the built network, sup norm in and out",
        heads="1",
        keys="product of p_a, ghosts counted",
        width="d + 1",
        example='af.constructions.tensor_grid("sin(8*x) + abs(x)", {"x": (-1, 1)}, tol=1e-6)',
    )
    law = Law(
        target=lambda: Formula("exp(x*y)", Box([0, 0], [1, 1]), ("x", "y")),
        refused=lambda: Table([0.0, 1.0], [0.0, 1.0]),
        tols=(1e-2, 1e-6),
        order=math.inf,
    )
    fitted = True

    def accepts(self, target: Target) -> str | None:
        """Callables and formulas of up to eight inputs."""
        return refuse_unless_function(target, MOST_INPUTS)

    def size(self, target: Target, tol: float, dtype: str) -> FittedPlan:
        """Sample, resolve and fit: the smallest grid found whose error at fresh points is at most tol."""
        box, roundoff = target.domain, machine(dtype).roundoff
        fit = fit_grid(flat_values(target), box.lower, box.upper, tol, roundoff)
        return _plan(fit, target, dtype)

    def with_counts(self, target: Target, counts: Sequence[int], dtype: str) -> FittedPlan:
        """The best fit found with so many anchors on the domain along every axis."""
        box, roundoff = target.domain, machine(dtype).roundoff
        fit = fit_counts(flat_values(target), box.lower, box.upper, counts, roundoff)
        return _plan(fit, target, dtype)

    def with_sharpness(self, target: Target, counts: Sequence[int], beta: float, dtype: str) -> FittedPlan:
        """So many uniform anchors on the domain along every axis, as sharp as asked for, and the values that fit."""
        box, roundoff = target.domain, machine(dtype).roundoff
        return _plan(fit_sharpness(flat_values(target), box.lower, box.upper, counts, beta, roundoff), target, dtype)

    def at_positions(self, target: Target, positions: Sequence[Array], beta: float | None, dtype: str) -> FittedPlan:
        """Anchors at given positions along every axis, and the values that fit."""
        box, roundoff = target.domain, machine(dtype).roundoff
        return _plan(fit_positions(flat_values(target), box.lower, box.upper, positions, beta, roundoff), target, dtype)


def _plan(fit: GridFit, target: Target, dtype: str) -> FittedPlan:
    head = TensorHead.on_inputs(fit.axes, fit.values)
    return FittedPlan((head,), explain(fit, target.names), dtype, fit.is_graded)


def refuse_unless_function(target: Target, most: int) -> str | None:
    """Why the target is not a function of at most so many inputs; None if it is."""
    if not isinstance(target, Function | Formula) or target.layout != "function":
        return "the target is not a function on a box"
    inputs = target.domain.shape[0]
    return f"{inputs} inputs are more than {most}" if inputs > most else None


def explain(fit: GridFit, names: tuple[str, ...] | None) -> str:
    """How the anchors were chosen, in words."""
    kind = "graded anchors" if fit.is_graded else "anchors"
    counts, inside = (" x ".join(map(str, each)) for each in _counted(fit))
    ghosts = "" if counts == inside else f", {inside} on the domain, the others ghosts"
    kinks = [f"{_where(edge, a, names)}" for a, edges in enumerate(fit.edges) for edge in edges]
    text = f"{counts} {kind} with fitted values{ghosts} (condition {fit.condition:.1g}, values up to {_size(fit):.2g})"
    return text + (f"; {', '.join(kinks[:4])}{', ...' * (len(kinks) > 4)}" if kinks else "")


def _counted(fit: GridFit) -> tuple[list[int], list[int]]:
    """Anchors along every axis, and those that lie on the domain."""
    return [len(axis) for axis in fit.axes], [int(axis.inside.sum()) for axis in fit.axes]


def _where(edge: Edge, axis: int, names: tuple[str, ...] | None) -> str:
    kind = {1: "kink", 2: "jump of the second derivative"}.get(edge.order, f"jump of derivative {edge.order}")
    return f"{kind} found at {names[axis] if names else f'x{axis + 1}'} = {edge.at:.6g}"


def _size(fit: GridFit) -> float:
    return float(np.abs(fit.values).max())

r"""Functions that are only integrable: the head's values are averages over the cells (after Liu et al. 2025).

Let f be in $L_p$ on a box, $1 \le p < \infty$, cut into equal cells, and let $Af$ be its average on every cell. A is a
contraction of $L_p$ (Jensen), and $Ag \to g$ uniformly for continuous g; continuous functions are dense, so
$\|Af - f\|_p \le 2\|f - g\|_p + \|Ag - g\|_p \to 0$ as cells shrink: f may jump, and be unbounded.

A head has finite values, so unbounded f is *truncated* first, $f_T = \mathrm{clamp}(f, -T, T)$, at a level taken from
the tail: the smallest T with $\|f - f_T\|_p$ at most a thousandth of $\|Af - f\|_p$; by the same contraction that adds
no more to the error. The softmax is hard, so that the head departs from $Af_T$ only where neighbouring cells meet.

Averages, the tail and the error are integrals by :mod:`attnforge.targets.quadrature`: the error reported is an estimate
(on other nodes, with the network itself), not a bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attnforge.anchors import hard
from attnforge.anchors.cells import product
from attnforge.errors import RefusalError, TargetError
from attnforge.network import Network
from attnforge.targets import Function, JointFunction, Target
from attnforge.targets.quadrature import Quadrature, Values, quadrature
from attnforge.theorems.construction import Construction, Cost, Documentation
from attnforge.theorems.max_affine import CellsPlan, MaxAffine, grid_network, selection_cost

Array = npt.NDArray[np.float64]

NODES = 2**22
TOLERANCE = (1e-7, 1e-4)  # of the averages, relative to the integral of |f|^p: one input, several
TAIL = 1e-3  # of the error, left to truncation
DIVERGENT = 5e-3  # relative doubt beyond which an integral has not converged


@dataclass(frozen=True)
class AveragesPlan:
    """Cells an axis, the exponent p of the norm, and the dtype. Always hard."""

    counts: tuple[int, ...]
    exponent: float
    dtype: str = "float64"


class CellAverages(Construction[AveragesPlan]):
    """One head over the cells of a product grid, whose values are averages."""

    name = MaxAffine.name
    variant = "with `norm=p`"
    function_class = "Lebesgue-integrable functions and sequence maps"
    rate = "to zero in L_p"
    conditions = "O(1/G) for functions of bounded variation and p = 1"
    reference = "Liu et al. 2025, L_p"
    documentation = Documentation(
        theorem="paper B, self-attention, L_p",
        hypotheses="f in L_p of the box, 1 <= p < infinity",
        bound="none: the L_p norm of the error is estimated by quadrature",
        heads="1",
        keys="n G^(nd)",
        width="nd + 1, and n if n > 1",
        example='af.constructions.max_affine("step(x - 0.3)", {"x": (0, 1)}, cells=16, norm=2)',
    )

    def accepts(self, target: Target) -> str | None:
        """Callables and formulas."""
        return MaxAffine().accepts(target)

    def size(self, target: Target, tol: float, dtype: str) -> AveragesPlan:
        """Refused: an integrable function's error says nothing of finer cells before they are tried."""
        raise RefusalError("Cells for an L_p error are given", f"tol={tol:g}", "Call constructions.max_affine(norm=p)")

    def cost(self, target: Target, plan: AveragesPlan) -> Cost:
        """A key and a value a cell and token."""
        return selection_cost(target, math.prod(plan.counts))

    def build(self, target: Target, plan: AveragesPlan) -> Network:
        """The averages of the truncated target as values."""
        averages = cell_averages(target, plan.counts, plan.exponent)
        return grid_network(target, CellsPlan(plan.counts, hard(plan.dtype), dtype=plan.dtype), averages)

    def bound(self, target: Target, plan: AveragesPlan) -> dict[str, float]:
        """None that is finite: integrability gives no rate."""
        return {"spacing": math.inf, "leakage": 0.0}


def cell_averages(target: Target, counts: tuple[int, ...], exponent: float) -> Array:
    """Averages (N, K) of the truncated target over the cells, in the order of the grid."""
    lower, upper = cell_boxes(target, counts)
    nodes = _nodes(target, lower, upper, exponent)
    level = truncation_level(nodes, len(lower), exponent)
    return nodes.means(np.clip(nodes.values, -level, level), len(lower))


def cell_boxes(target: Target, counts: tuple[int, ...]) -> tuple[Array, Array]:
    """Lower and upper corners (N, D) of the cells, in the order of the grid."""
    sides = zip(target.domain.lower.ravel(), target.domain.upper.ravel(), counts, strict=True)
    edges = [np.linspace(a, b, n + 1) for a, b, n in sides]
    return product([edge[:-1] for edge in edges]), product([edge[1:] for edge in edges])


def unchecked_values(target: Target) -> Values:
    """The target on (N, D) points, all outputs in a row; infinities are let through."""

    def values(points: Array) -> Array:
        shaped = points.reshape(-1, *target.domain.shape)
        with np.errstate(all="ignore"):
            callables = Function | JointFunction
            raw = target.unchecked(shaped) if isinstance(target, callables) else target.values(shaped)
        return np.array(raw, dtype=np.float64).reshape(len(points), -1)

    return values


def truncation_level(nodes: Quadrature, cells: int, exponent: float) -> float:
    """The smallest T whose tail, the norm of f - clamp(f, -T, T), is at most a thousandth of the error of averages."""
    averages = nodes.means(nodes.values, cells)[nodes.owner]
    error = nodes.integral(np.abs(nodes.values - averages).max(axis=1) ** exponent) ** (1 / exponent)
    sizes = np.abs(nodes.values).max(axis=1)
    low, high = 0.0, float(sizes.max())
    for _ in range(60):
        level = low / 2 + high / 2
        tail = nodes.integral(np.maximum(sizes - level, 0.0) ** exponent) ** (1 / exponent)
        low, high = (low, level) if tail <= TAIL * error else (level, high)
    return high


def _nodes(target: Target, lower: Array, upper: Array, exponent: float) -> Quadrature:
    """Nodes good for f and for |f|^p on every cell; refused where the integral of |f|^p does not settle."""

    def monitor(values: Array) -> Array:
        return np.column_stack([values, np.abs(values).max(axis=1) ** exponent])

    rtol = TOLERANCE[lower.shape[1] > 1]
    nodes = quadrature(
        unchecked_values(target), lower, upper, monitor=monitor, rtol=rtol, enough=NODES // 4, most=NODES
    )
    if not nodes.doubt <= DIVERGENT:
        got = f"an integral of |f|^{exponent:g} known to {nodes.doubt:.1%} only"
        remedy = "Use a smaller p, or another function: this one may not be integrable"
        raise TargetError(f"f must be in L_{exponent:g} of its domain", got, remedy)
    return nodes

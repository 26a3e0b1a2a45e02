r"""One head over cells that are not a grid: Voronoi cells of given or inserted centres, free breakpoints on a line.

A head with keys $(\kappa_j, \sigma_j)$ scores $c(2\kappa_j \cdot u - \sigma_j)$, u the input recentred and scaled axis
by axis. Its cells are those of $\max_j 2\kappa_j \cdot u - \sigma_j$: a power diagram, face to face (quadtree cells
with hanging nodes are none).

**Voronoi**: $\sigma_j = |\kappa_j|^2$, scores are $-c|u - \kappa_j|^2$ up to a common term. The unit is the smallest
distance between centres, so that at a centre every other key weighs at most $e^{-c}$: hard in the dtype for
$e^{-c} \le$ roundoff.

**Breakpoints** $t_1 < \dots < t_{N-1}$: any increasing slopes serve if neighbours cross at the breakpoints,
$\sigma_{j+1} = \sigma_j + 2(\kappa_{j+1} - \kappa_j)\,t_j$. Then $2\kappa_j u - \sigma_j$ is concave in j with its
maximum in the cell of u, for every u. At distance $\delta$ from $t_j$ the neighbour weighs
$e^{-2c(\kappa_{j+1} - \kappa_j)\delta}$; with $\kappa_{j+1} - \kappa_j = 1/\min(w_j, w_{j+1})$ that is at most
$e^{-c}$ in the middle of both cells: the temperature follows the cells' widths $w_j$, and scores stay as small as they
can. Centres on a line are the same with breakpoints half-way and the gap between centres for $w_j$.

Values are f at given centres, else the middle of f's range over the cell. For F with Lipschitz constant L the error is
at most L times the cells' radius, plus what leaks over faces; how much that is depends on the cells, and
:mod:`attnforge.certification.selection` finds it by branch and bound.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from attnforge.anchors import hard
from attnforge.anchors.adaptive import Adaptive
from attnforge.anchors.breakpoints import breakpoints
from attnforge.anchors.centres import greedy_centres
from attnforge.errors import RefusalError
from attnforge.network import Attention, Claims, Network
from attnforge.outward import product_up, round_to
from attnforge.targets import Box, Target
from attnforge.theorems.construction import Construction, Cost, Documentation
from attnforge.theorems.max_affine import (
    MaxAffine,
    encode_inputs,
    flat_values,
    key_columns,
    selection_cost,
    selection_head,
    shape_of,
)

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FreeCellsPlan:
    """Which cells: centres (N, D) given, or so many adaptive ones. Always hard."""

    cells: Array | Adaptive
    dtype: str = "float64"

    @property
    def total(self) -> int:
        """Number of cells."""
        return self.cells.count if isinstance(self.cells, Adaptive) else len(self.cells)


@dataclass(frozen=True, eq=False)
class _Diagram:
    """A power diagram in u = scale x + shift: kappa (N, D), sigma (N,), positions (N, D) and values (N, K) of cells."""

    scale: Array
    shift: Array
    places: Array
    offsets: Array
    positions: Array
    values: Array


class FreeCells(Construction[FreeCellsPlan]):
    """One head over the cells of a power diagram."""

    name = MaxAffine.name
    variant = "with centres or adaptive cells"
    function_class = MaxAffine.function_class
    rate = "hard cells, as many as the target's variation asks for"
    conditions = "as many cells as are given"
    reference = MaxAffine.reference
    documentation = Documentation(
        theorem="paper B, self-attention, sup norm; cells ours",
        hypotheses="f a formula, or Lipschitz with constant L in the sup norm",
        bound="sup norm in and out: by branch and bound on the cells",
        heads="1",
        keys="n N",
        width="nd + 1, and n if n > 1",
        example='af.constructions.max_affine("sqrt(x + y)", {"x": (0, 1), "y": (0, 1)}, cells=af.anchors.Adaptive(60))',
    )

    def accepts(self, target: Target) -> str | None:
        """Callables and formulas."""
        return MaxAffine().accepts(target)

    def size(self, target: Target, tol: float, dtype: str) -> FreeCellsPlan:
        """As many adaptive cells as the uniform grid would have: never more are needed."""
        return FreeCellsPlan(Adaptive(MaxAffine().size(target, tol, dtype).total), dtype)

    def cost(self, target: Target, plan: FreeCellsPlan) -> Cost:
        """A key and a value a cell and token."""
        return selection_cost(target, plan.total)

    def build(self, target: Target, plan: FreeCellsPlan) -> Network:
        """Place the cells, then write their slopes and offsets as keys."""
        n, inputs, k = shape_of(target)
        c = hard(plan.dtype)
        diagram = _diagram(target, plan)
        keys = key_columns(diagram.places, diagram.offsets, plan.dtype)
        head = selection_head(keys, inputs, diagram.values.reshape(-1, n, k), 2 * c, -c, plan.dtype)
        claims = Claims(self.name, c, np.tile(diagram.positions, (n, 1)), ("centre",) * (len(keys) * n))
        encode = encode_inputs(target, diagram.scale, diagram.shift)
        layers = (encode, Attention((replace(head, claims=claims),)))
        return Network(layers, target.domain.shape[-1], n, construction=self.name)

    def bound(self, target: Target, plan: FreeCellsPlan) -> dict[str, float]:
        """``spacing``: without looking at the cells, only that values lie in the range of F over the box."""
        known, sides = target.lipschitz(), (target.domain.upper - target.domain.lower).ravel()
        constant = np.inf if known is None else known.in_sup_norm(len(sides))
        return {"spacing": product_up(float(constant), float(sides.max())), "leakage": 0.0}


def check_centres(centres: npt.ArrayLike, domain: Box) -> Array:
    """User-given centres as an (N, D) array; refused unless finite, inside the domain and distinct."""
    try:
        points = np.asarray(centres, dtype=np.float64)
    except (TypeError, ValueError):
        raise RefusalError("`cells` must be numbers", repr(centres)[:200], "Give an (N, D) array of centres") from None
    wanted = f"(N, {domain.lower.size})"
    shapes = ((domain.lower.size,), domain.shape)
    if points.ndim < 2 or points.shape[1:] not in shapes or len(points) == 0:
        raise RefusalError(f"Centres are an array of shape {wanted}", f"shape {points.shape}", "One row a centre")
    inside = np.isfinite(points.reshape(len(points), -1)).all(axis=1)
    flat = points.reshape(len(points), -1)
    inside &= ((flat >= domain.lower.ravel()) & (flat <= domain.upper.ravel())).all(axis=1)
    if not inside.all():
        got = f"{flat[inside.argmin()].tolist()} as centre {int(inside.argmin())}"
        raise RefusalError("Centres lie in the domain, where the target has values", got, "Move it inside")
    if len(np.unique(flat, axis=0)) < len(flat):
        got = f"{len(flat) - len(np.unique(flat, axis=0))} of {len(flat)} twice"
        raise RefusalError("Centres differ from one another", got, "Drop the duplicates")
    return flat


def _diagram(target: Target, plan: FreeCellsPlan) -> _Diagram:
    lower, upper = target.domain.lower.ravel(), target.domain.upper.ravel()
    values = flat_values(target)
    if not isinstance(plan.cells, Adaptive):
        if len(lower) == 1:
            return _around_centres(plan.cells[:, 0], values(plan.cells), plan.dtype)
        return _voronoi(plan.cells, values(plan.cells), np.ones(len(lower)), plan.dtype)
    if len(lower) > 1:
        centres, middles = greedy_centres(values, lower, upper, plan.cells.count)
        sides = np.where(upper > lower, upper - lower, 1.0)
        return _voronoi(centres, middles, 1 / sides, plan.dtype)
    if lower[0] == upper[0]:
        return _around_centres(lower, values(lower[None]), plan.dtype)
    edges, middles = breakpoints(values, float(lower[0]), float(upper[0]), plan.cells.count)
    return _between_breakpoints(edges, middles, plan.dtype)


def _voronoi(centres: Array, values: Array, scale: Array, dtype: str) -> _Diagram:
    """Keys kappa = (centre - middle) / gap, as the dtype holds them, and their squares as offsets."""
    unit = scale / _smallest_gap(centres * scale)
    middle = centres.min(axis=0) / 2 + centres.max(axis=0) / 2
    places = round_to((centres - middle) * unit, dtype)
    return _Diagram(unit, -middle * unit, places, np.square(places).sum(axis=1), centres, values)


def _line(crossings: Array, gaps: Array, positions: Array, values: Array, dtype: str) -> _Diagram:
    """Cells on a line, from left to right: neighbours cross at ``crossings``, slopes grow by 1 / ``gaps``.

    Lengths are counted in the smallest gap. Slopes and inputs are counted from the middle cell, and offsets from there
    outwards, so that they stay small. Each offset follows from the slopes as the dtype holds them.
    """
    unit = 1 / float(gaps.min(initial=np.inf)) if len(gaps) else 1.0
    centre = len(positions) // 2
    origin = float(positions[centre])
    slopes = np.concatenate([[0.0], np.cumsum(1 / (gaps * unit))])
    places = round_to(slopes - slopes[centre], dtype)
    offsets = np.concatenate([[0.0], np.cumsum(2 * np.diff(places) * (crossings - origin) * unit)])
    scale, shift = np.array([unit]), np.array([-origin * unit])
    return _Diagram(scale, shift, places[:, None], offsets - offsets[centre], positions[:, None], values)


def _between_breakpoints(edges: Array, values: Array, dtype: str) -> _Diagram:
    """Cells between neighbouring edges, as sharp as the narrower of two neighbours asks for."""
    widths = np.diff(edges)
    return _line(edges[1:-1], np.minimum(widths[1:], widths[:-1]), edges[:-1] / 2 + edges[1:] / 2, values, dtype)


def _around_centres(centres: Array, values: Array, dtype: str) -> _Diagram:
    """Voronoi cells on a line, crossing half-way between centres; in the order the centres were given."""
    order = np.argsort(centres)
    given = np.argsort(order)
    along = centres[order]
    ordered = _line(along[1:] / 2 + along[:-1] / 2, np.diff(along), along, values[order], dtype)
    return replace(
        ordered,
        places=ordered.places[given],
        offsets=ordered.offsets[given],
        positions=ordered.positions[given],
        values=ordered.values[given],
    )


def _smallest_gap(points: Array) -> float:
    """The smallest distance between two points; 1 where there is only one."""
    from scipy.spatial import cKDTree  # slow to import, and only these cells need it

    return float(cKDTree(points).query(points, k=2)[0][:, 1].min()) if len(points) > 1 else 1.0

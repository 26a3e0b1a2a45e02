r"""One layer, one head: attention partitions the domain and assigns a value to every cell (after Liu et al. 2025).

$\mathrm{MaxAff}(x) = \max_j a_j \cdot x + b_j$ divides the domain into convex cells, a power diagram; a head with keys
$(a_j, b_j)$ selects the cell of x and returns its value. With centres $v_j$ the scores
$\beta(2 v_j \cdot x - |v_j|^2)$ differ from $-\beta|x - v_j|^2$ by a term common to all keys: cells are Voronoi cells.
On a product grid of cells with steps $h_j$ scores are $c \sum_j (2 u_j \kappa_j - \kappa_j^2)$, $u = x/h$ counted from
the grid's middle, and for F with Lipschitz constant L (sup norm)
$$ |\mathrm{head}(x) - F(x)| \le L\,E\max_j|v_j - x_j| \le L\,(\max_j h_j/2 + \textstyle\sum_j h_j X(c)) , $$
:mod:`attnforge.lemmas.cells`: no gap between scores is assumed. *Hard* is the papers' construction, of order 1.
*Tuned* takes $c = \pi^2/\ln(8\pi G)$ with G at least 1000: at up to G cells the ripple of the Gaussian row,
$(2\pi/c)e^{-\pi^2/c}$ steps, stays below what the softmax smooths away of a curvature of one, $h^2/(4c)$, and c does
not depend on coarser grids. With ghosts beyond the edges by odd reflection it is of order 2 for smooth F; the bound is
the same up to the weight of ghosts.

The papers' layout of the same head (``literal``) is plain self-attention over a padded sequence whose tokens carry the
keys and values (:mod:`.padding`); **memory** keeps them in the head.

A map of n tokens: every query token reads vec(X) (a sum of n linear terms) and its own position $e_i$; the keys are
(cell j, token i) with a bonus M for the query's own i, because a value cannot depend on the query otherwise:
other tokens keep $(n-1)e^{-M}$ of the weight. A single head all the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from attnforge.anchors import hard
from attnforge.anchors.cells import reflected_values
from attnforge.anchors.product_grid import ProductGrid
from attnforge.anchors.temperature import Sharpness, cell_sharpness, position_bonus
from attnforge.errors import RefusalError
from attnforge.lemmas.cells import expected_distance
from attnforge.network import Attention, Claims, Head, Linear, Network, Term
from attnforge.outward import machine, product_up, round_to
from attnforge.targets import Box, Formula, Function, Table, Target
from attnforge.theorems.construction import Construction, Cost, Documentation, Law
from attnforge.theorems.padding import padded
from attnforge.theorems.truncated_linear import Layout

Array = npt.NDArray[np.float64]

LARGEST = 10**7  # cells a sized grid may have
PROBES = 4096  # pairs of points that estimate a slope where nothing is known of the target


@dataclass(frozen=True)
class CellsPlan:
    """Cells an axis, ghosts a side, sharpness c = beta h^2."""

    counts: tuple[int, ...]
    sharpness: float
    ghosts: int = 0
    dtype: str = "float64"
    layout: Layout = "memory"

    @property
    def total(self) -> int:
        """Cells and ghosts in all."""
        return math.prod(count + 2 * self.ghosts for count in self.counts)


class MaxAffine(Construction[CellsPlan]):
    """One head over the cells of a product grid."""

    name = "max_affine"
    function_class = "continuous functions and sequence maps"
    rate = "O(1/G) hard, O(1/G^2) tuned for smooth targets"
    conditions = "G cells an input, G^(nd) keys a token; order 2 where second derivatives are bounded, as measured"
    reference = "Liu et al. 2025, single head"
    documentation = Documentation(
        theorem="paper B, self-attention, sup norm",
        hypotheses="f Lipschitz with constant L in the sup norm of x, given or, of a formula, proved",
        bound="sup norm in and out: L (max h_j/2 + sum_j h_j X(c)); with ghosts more, see the lemma",
        heads="1",
        keys="n G^(nd)",
        width="nd + 1, and n if n > 1; literal 2(nd + 2 + n) + k",
        example='af.constructions.max_affine("sqrt(x)", {"x": (0.1, 1)}, cells=12)',
    )
    law = Law(
        target=lambda: Formula("sin(3*x)", Box([0], [1])),
        refused=lambda: Table([0.0, 1.0], [0.0, 1.0]),
        tols=(0.1, 0.01),
        order=1.0,
    )

    def accepts(self, target: Target) -> str | None:
        """Callables and formulas."""
        return None if isinstance(target, Function | Formula) else "the target is not a function on a box"

    def size(self, target: Target, tol: float, dtype: str) -> CellsPlan:
        """The coarsest grid of cubes whose hard bound is at most tol: h <= tol / (L (1/2 + D X(c)))."""
        lower, upper = _sides(target)
        c, constant = hard(dtype), _slope(target)
        near, far = expected_distance(c, [1.0] * len(lower))
        step = tol / (constant * (near + far)) if constant > 0 else math.inf
        wanted = [max(1.0, float(np.ceil(length / step))) for length in upper - lower]
        needed = math.prod(wanted)
        if not needed <= LARGEST:
            sides = np.maximum(upper - lower, np.finfo(np.float64).tiny)
            fits = constant * (near + far) * float(np.exp(np.log(sides).mean())) / LARGEST ** (1 / len(lower))
            got = f"about {needed:.2g} cells for tol={tol:g}"
            raise RefusalError(f"A grid may have at most {LARGEST:,} cells", got, f"tol={fits:.2g} would fit")
        return CellsPlan(tuple(int(n) for n in wanted), c, dtype=dtype)

    def cost(self, target: Target, plan: CellsPlan) -> Cost:
        """A key and a value a cell and token; padded, also their rows, n mixing columns, and all pairs of tokens."""
        lean = selection_cost(target, plan.total)
        if plan.layout == "memory":
            return lean
        n, inputs, k = shape_of(target)
        width, keys = 2 * (inputs + 2 + n) + k, plan.total * n
        weights = lean.parameters + keys * (width + (n + 1) * n) + 3 * width * width
        return Cost.of(keys, weights, keys * keys * width)

    def build(self, target: Target, plan: CellsPlan) -> Network:
        """The weights: the grid's places as keys, the target's values as values."""
        lower, upper = _sides(target)
        values = reflected_values(flat_values(target), lower, upper, plan.counts, plan.ghosts)
        return grid_network(target, plan, values)

    def bound(self, target: Target, plan: CellsPlan) -> dict[str, float]:
        """``spacing``: half a cell; ``leakage``: further cells, and other tokens."""
        known = target.lipschitz()
        lower, upper = _sides(target)
        if known is None:
            return {"spacing": math.inf, "leakage": 0.0}
        steps = [float(s) for s in (upper - lower) / np.array(plan.counts)]
        near, far = expected_distance(plan.sharpness, steps, plan.ghosts > 0)
        constant = known.in_sup_norm(len(lower))
        return {"spacing": product_up(constant, near), "leakage": product_up(constant, far)}


def grid_network(target: Target, plan: CellsPlan, values: Array) -> Network:
    """A head over the plan's cells and ghosts with the given values (N, n k), cells in the order of the grid."""
    n, inputs, k = shape_of(target)
    grid = ProductGrid(*_sides(target), plan.counts, plan.ghosts)
    c, keys = plan.sharpness, place_keys(grid.places, plan.dtype)
    head = selection_head(keys, inputs, values.reshape(-1, n, k), 2 * c, -c, plan.dtype)
    roles = tuple("cell" if inside else "ghost" for inside in grid.inside)
    claims = Claims(MaxAffine.name, c, np.tile(grid.positions, (n, 1)), roles * n)
    encode = encode_inputs(target, 1 / grid.steps, -grid.origin / grid.steps)
    layers = (encode, Attention((replace(head, claims=claims),)))
    network = Network(layers, target.domain.shape[-1], n, construction=MaxAffine.name)
    return padded(network) if plan.layout == "literal" else network


def selection_cost(target: Target, cells: int) -> Cost:
    """What a head over so many cells needs: a key and a value a cell and token."""
    n, inputs, k = shape_of(target)
    keys = cells * n
    width = inputs + 1 + (n if n > 1 else 0)
    encode = n * (n * n + target.domain.shape[-1] * width) + n * width
    return Cost.of(keys, keys * (width + 1 + k) + width * (width + 1) + encode + k * k)


def cells_sharpness(asked: Sharpness, counts: tuple[int, ...], domain: Box, dtype: str) -> tuple[float, int]:
    """The c of scores and the ghosts a side."""
    shortest = float(((domain.upper - domain.lower).ravel() / np.array(counts)).min())
    return cell_sharpness(asked, counts, shortest, dtype)


def place_keys(places: Array, dtype: str) -> Array:
    """Keys (kappa_1, .., kappa_D, |kappa|^2): scores fall with the squared distance."""
    return key_columns(places, (places * places).sum(axis=1), dtype)


def key_columns(places: Array, offsets: Array, dtype: str) -> Array:
    """Keys (kappa_1, .., kappa_D, sigma), the offset sigma split in two where the dtype needs it."""
    if float(np.abs(offsets).max()) > machine(dtype).largest:
        raise RefusalError(f"The squares of {dtype} keys must fit it", f"{len(places)} cells", "Use a wider dtype")
    high = round_to(offsets, dtype)
    columns = [offsets] if np.array_equal(high, offsets) else [high, round_to(offsets - high, dtype)]
    return np.column_stack([places, *columns])


def encode_inputs(target: Target, scale: Array, shift: Array) -> Linear:
    """Every token becomes (scale * vec(X) + shift ; 1 ; e_i): a sum of n linear terms; e_i only for n > 1."""
    n, inputs, _ = shape_of(target)
    d, width = inputs // n, inputs + 1 + (n if n > 1 else 0)
    terms = []
    for i in range(n):
        feature_map = np.zeros((d, width))
        at = np.arange(i * d, (i + 1) * d)
        feature_map[np.arange(d), at] = scale[at]
        mix = np.zeros((n, n))
        mix[:, i] = 1.0
        terms.append(Term(feature_map, mix if n > 1 else None))
    constant = np.zeros((n, width))
    constant[:, :inputs], constant[:, inputs] = shift, 1.0
    if n > 1:
        constant[:, inputs + 1 :] = np.eye(n)
    return Linear(tuple(terms), constant)


def selection_head(keys: Array, inputs: int, values: Array, linear: float, square: float, dtype: str) -> Head:
    """A head over cells: queries (linear u ; square ; M e_i), values (N, n, k) as n blocks of N keys, one a token."""
    (cells, n, k), squares = values.shape, keys.shape[1] - inputs
    bonus = n if n > 1 else 0
    query = np.zeros((inputs + 1 + bonus, inputs + squares + bonus))
    query[np.arange(inputs), np.arange(inputs)] = linear
    query[inputs, inputs : inputs + squares] = square
    memory = keys
    if bonus:
        query[inputs + 1 :, inputs + squares :] = position_bonus(n, dtype) * np.eye(n)
        memory = np.vstack([np.hstack([keys, np.tile(row, (cells, 1))]) for row in np.eye(n)])
    return Head(query, np.eye(k), memory_keys=memory, memory_values=np.moveaxis(values, 1, 0).reshape(n * cells, k))


def shape_of(target: Target) -> tuple[int, int, int]:
    """Tokens n (1 for functions), inputs n d in all, outputs k a token."""
    n = target.domain.shape[0] if target.layout == "tokens" else 1
    return n, int(np.prod(target.domain.shape)), target.outputs or 1


def flat_values(target: Target) -> Callable[[Array], Array]:
    """The target as a function of all its inputs at once: (N, n d) to (N, n k)."""

    def values(points: Array) -> Array:
        raw = np.asarray(target.values(points.reshape(-1, *target.domain.shape)), dtype=np.float64)
        return raw.reshape(len(points), -1)

    return values


def _slope(target: Target) -> float:
    """The Lipschitz constant in the sup norm; where none is known, the steepest slope seen, which proves nothing."""
    known = target.lipschitz()
    if known is not None:
        return known.in_sup_norm(int(np.prod(target.domain.shape)))
    rng = np.random.default_rng(0)
    lower, upper = _sides(target)
    points = rng.uniform(lower, upper, size=(PROBES, len(lower)))
    near = np.clip(points + rng.choice([-1.0, 1.0], size=points.shape) * 1e-4 * (upper - lower), lower, upper)
    rise = np.abs(flat_values(target)(near) - flat_values(target)(points)).max(axis=1)
    return float((rise / np.abs(near - points).max(axis=1)).max())


def _sides(target: Target) -> tuple[Array, Array]:
    return target.domain.lower.ravel(), target.domain.upper.ravel()

r"""Bumps by ramps: the first layer of both constructions of Hu et al. 2025 on continuous maps.

A box with D = nd inputs carries G grid points an input, h_r apart: N = G^D centres v. Around each grid point stands
the bump $\psi((x_r - v_r)/h_r)$, $\psi(t) = \mathrm{clamp}(\frac32 - |t|, 0, 1)$, one on the point's own cell and zero
beyond the next one. It is the difference of two ramps,
$$ \psi(t) = \mathrm{clamp}(t + \tfrac32, 0, 1) - \mathrm{clamp}(t - \tfrac12, 0, 1) , $$
and each ramp is a gate (:mod:`.gate`) of the dtype's finest sharpness: 2DG heads, whose output maps write +1 or -1
into one of DG bump features. The bump of a centre, $R_v(X) = \sum_r \psi((x_r - v_r)/h_r)$, is the sum of D of these
features: the product of the features with the key of v, a row of zeros with D ones. No array of N bumps is made.

The ramps must see all of X. **affine**: a sum of n linear terms writes $(\mathrm{vec}(X) - \text{middle})/h$ and a 1
into a single token. **uniform**, with attention alone: token i is embedded as $e_i \otimes x_i$ in $R^{nd}$, and a
head whose scores are all zero averages the tokens; its value map n I makes the sum of them, vec(X), at every token.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from attnforge.anchors.cells import product
from attnforge.anchors.temperature import Sharpness, bump_sharpness, gate_sharpness, hard_bumps
from attnforge.errors import RefusalError
from attnforge.lemmas.bumps import product_grid
from attnforge.network import Attention, Head, Layer, Linear, Rows, Term
from attnforge.outward import product_up
from attnforge.targets import Formula, Function, Target
from attnforge.theorems.construction import Cost
from attnforge.theorems.gate import gate_head
from attnforge.theorems.max_affine import flat_values, shape_of
from attnforge.theorems.truncated_linear import Layout

Array = npt.NDArray[np.float64]
Collapse = Literal["affine", "uniform"]
Placement = Literal["midpoints", "closed"]

LARGEST = 10**7  # centres a sized grid may have
BATCH = 4096  # points that run at once when a network is certified


@dataclass(frozen=True)
class BumpPlan:
    """Grid points an input, the beta that multiplies bumps, and how tokens are collapsed, placed and laid out.

    ``midpoints`` puts grid points in the middle of G equal cells, ``closed`` puts the outermost on the ends of the box.
    """

    grid: int
    sharpness: float
    collapse: Collapse = "affine"
    placement: Placement = "midpoints"
    layout: Layout = "memory"
    dtype: str = "float64"


def reason_not_continuous(target: Target) -> str | None:
    """None for callables and formulas: they have values wherever centres are."""
    return None if isinstance(target, Function | Formula) else "the target is not a function on a box"


def check_grid(grid: int, placement: str, collapse: str = "affine") -> None:
    """Refuse grids without points and words that mean nothing."""
    if placement not in ("midpoints", "closed"):
        raise RefusalError("`placement` must be 'midpoints' or 'closed'", repr(placement), "Use 'midpoints'")
    if collapse not in ("affine", "uniform"):
        raise RefusalError("`collapse` must be 'affine' or 'uniform'", repr(collapse), "Use 'affine'")
    least = 2 if placement == "closed" else 1
    if grid < least:
        raise RefusalError(f"`grid` must be at least {least} points an input", str(grid), "Ask for more grid points")


def grid_sharpness(asked: Sharpness, grid: int, target: Target, placement: Placement, dtype: str) -> float:
    """Beta as asked for on this grid."""
    inputs = shape_of(target)[1]
    return bump_sharpness(asked, grid, inputs, 0.5 if placement == "closed" else 0.0, dtype)


def size_grid(name: str, target: Target, tol: float, dtype: str) -> BumpPlan:
    """The smallest grid whose bound is at most tol, hard: the bound of a Lipschitz target only falls with beta."""
    if target.lipschitz() is None:
        remedy = f"Pass lipschitz=, or choose the grid yourself: af.constructions.{name}(f, domain, grid=...)"
        raise RefusalError("A grid is sized by the target's Lipschitz constant", "none", remedy)
    inputs = shape_of(target)[1]
    most = int(LARGEST ** (1 / inputs) + 1e-9)

    def plan(grid: int) -> BumpPlan:
        return BumpPlan(grid, hard_bumps(grid**inputs, dtype), dtype=dtype)

    def reaches(grid: int) -> bool:
        return sum(bump_bound(target, plan(grid)).values()) <= tol

    finest = bump_bound(target, plan(most))
    if not (fits := sum(finest.values())) <= tol:
        got = f"about {most * fits / tol:.2g} centres an input for tol={tol:g}"
        raise RefusalError(f"A grid may have at most {LARGEST:,} centres", got, f"tol={fits:.2g} would fit")
    low, high, step = 0, most, 1  # the bound falls with the grid
    middle = max(1, math.ceil(most * finest["spacing"] / tol))  # where the spacing, L h / 2, spends it
    while high - low > 1:
        middle = min(max(middle, low + 1), high - 1)
        if reaches(middle):
            middle, high = (middle - step if high == most else (low + middle) // 2), middle
        else:
            middle, low = (middle + step if high == most else (middle + high) // 2), middle
        step *= 2
    return plan(high)


def bump_bound(target: Target, plan: BumpPlan) -> dict[str, float]:
    """``spacing``: L max h/2; ``leakage``: L sum h_r A(beta, G), all but the nearest centres."""
    known, inputs = target.lipschitz(), shape_of(target)[1]
    if known is None:
        return {"spacing": math.inf, "leakage": 0.0}
    half, rest = product_grid(plan.sharpness, steps_of(target, plan), (plan.grid,) * inputs)
    constant = known.in_sup_norm(inputs)
    return {"spacing": product_up(constant, half), "leakage": product_up(constant, rest)}


def first_layer_cost(target: Target, plan: BumpPlan) -> Cost:
    """Collapse and ramps: 2DG heads on D + 1 features that write DG; a batch of points through them."""
    n, inputs, _ = shape_of(target)
    features, heads = inputs * plan.grid, 2 * inputs * plan.grid
    rows = n if plan.collapse == "uniform" else 1
    collapse = (n * (inputs // n) + 4 * inputs + n) * (inputs + 1)
    parameters = collapse + heads * (5 * (inputs + 1) + 6 + features)
    running = 8 * BATCH * rows * (12 * heads + features)
    keys = 3 * heads + (n if plan.collapse == "uniform" else 0)  # three a ramp, every token of a uniform head
    return Cost(keys, parameters, Cost.of(0, parameters).bytes + running)


def steps_of(target: Target, plan: BumpPlan) -> Array:
    """The distance h_r of neighbouring grid points, an input."""
    lengths = target.domain.upper.ravel() - target.domain.lower.ravel()
    return np.asarray(lengths / (plan.grid if plan.placement == "midpoints" else plan.grid - 1))


def centres(target: Target, plan: BumpPlan) -> Array:
    """All centres (N, D), the last input fastest, inside the box."""
    lower, upper, middle = (side.ravel() for side in (target.domain.lower, target.domain.upper, target.domain.middle))
    axes = middle + places(plan.grid)[:, None] * steps_of(target, plan)
    return product(list(np.clip(axes, lower, upper).T))


def centre_values(target: Target, plan: BumpPlan) -> Array:
    """The target's values (N, n k) at the centres."""
    return flat_values(target)(centres(target, plan))


def places(grid: int) -> Array:
    """Grid points in steps from the middle of the box."""
    return np.asarray(np.arange(grid) - (grid - 1) / 2)


def indicators(grid: int, inputs: int) -> Array:
    """Keys (N, D G): D ones a row, at the bump features of the centre's coordinates."""
    chosen = product([np.arange(grid, dtype=np.float64) + r * grid for r in range(inputs)]).astype(np.int64)
    keys = np.zeros((len(chosen), inputs * grid))
    np.put_along_axis(keys, chosen, 1.0, axis=1)
    return keys


def collapse_layers(target: Target, plan: BumpPlan) -> list[Layer]:
    """Tokens to (u_1, .., u_D, 1), u = (vec(X) - middle) / h: in one token (affine) or in every token (uniform)."""
    n, inputs, _ = shape_of(target)
    h = steps_of(target, plan)
    scale = np.divide(1.0, h, out=np.zeros_like(h), where=h > 0)
    shift = np.append(-target.domain.middle.ravel() * scale, 1.0)
    blocks = np.zeros((n, inputs // n, inputs + 1))
    for r in range(inputs):
        blocks[r // (inputs // n), r % (inputs // n), r] = scale[r]
    if plan.collapse == "affine":
        terms = [Term(block, row[None] if n > 1 else None) for block, row in zip(blocks, np.eye(n), strict=True)]
        return [Linear(tuple(terms), shift[None])]
    own = np.repeat(np.eye(n), inputs // n, axis=1) * shift[:-1]
    embed = Linear((Term(blocks),), np.hstack([own, np.zeros((n, 1))]))
    one = np.append(np.zeros(inputs), 1.0)[None]
    return [embed, Attention((uniform_head(inputs, n),)), Linear((Term(),), one)]


def uniform_head(inputs: int, n: int) -> Head:
    """All scores zero: every token receives the mean of the tokens, times n by the value map: their sum."""
    nothing = np.zeros((inputs + 1, 1))
    return Head(
        query=nothing,
        output=np.eye(inputs, inputs + 1),
        key=nothing,
        value=n * np.eye(inputs + 1, inputs),
        key_rows=Rows(),
    )


def ramps(inputs: int, grid: int, dtype: str) -> Attention:
    """Two ramps for each bump: rising over the cell before its own, falling over the cell after.

    Gates read u with |u| <= G/2 and have ends up to one step further; they are as sharp as the dtype can use there.
    """
    beta = gate_sharpness(grid / 2 + 1, dtype)
    heads = []
    for r in range(inputs):
        for g, place in enumerate(places(grid)):
            write = np.zeros((1, inputs * grid))
            write[0, r * grid + g] = 1.0
            heads += [_ramp(r, inputs + 1, place - 1.5, beta, write), _ramp(r, inputs + 1, place + 0.5, beta, -write)]
    return Attention(tuple(heads))


def _ramp(feature: int, width: int, start: float, beta: float, output: Array) -> Head:
    """clamp(u - start, 0, 1): the gate on [start, start + 1], its values counted from start."""
    head = gate_head(feature, width, start, start + 1.0, beta, output)
    value = np.zeros((width, 1))
    value[feature, 0], value[-1, 0] = 1.0, -start
    return replace(head, value=value, memory_values=np.array([[0.0], [1.0]]))


def read_slices(n: int, k: int, rows: int) -> list[Layer]:
    """Token i reads entries i k .. (i + 1) k of its own row, or of the only row; nothing to do for one token."""
    if n == 1:
        return []
    slices = np.eye(n * k).reshape(n * k, n, k).transpose(1, 0, 2)
    if rows == n:
        return [Linear((Term(slices),))]
    return [Linear(tuple(Term(each, row[:, None]) for each, row in zip(slices, np.eye(n), strict=True)))]

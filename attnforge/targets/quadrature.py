r"""Adaptive quadrature of functions that may jump or be infinite at isolated points.

Every box carries a product Gauss-Legendre rule, whose nodes lie inside: f is never asked for its value at an edge. A
box is cut into $2^D$ parts; where the parts' sum agrees with the whole, the parts' nodes are kept, elsewhere they are
cut again. Level by level the boxes with the smallest disagreement are kept, as long as these together use at most half
of what is left of the tolerance: singularities and jumps attract nodes, smooth parts do not. Nodes at which f is
infinite or undefined are moved by a millionth of their box. The result is a set of nodes and weights, good for every
integral one cares to form; ``doubt`` is the relative disagreement left. An estimate, not a bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attnforge.errors import RefusalError, TargetError

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
Values = Callable[[Array], Array]

ORDERS = {1: 8, 2: 4, 3: 3}  # nodes an axis; 2 beyond
FINEST = 2.0**-42  # of the coordinates: narrower boxes cannot place their nodes
MOVES = (1e-6, -1e-6, 3e-6)


@dataclass(frozen=True, eq=False)
class Quadrature:
    """Nodes (N, D) with weights (N,), the box (N,) each belongs to, f (N, K) there, and the relative doubt."""

    points: Array
    weights: Array
    owner: Indices
    values: Array
    doubt: float

    def integral(self, of: Array) -> float:
        """The integral of a function given by its values at the nodes."""
        return float(self.weights @ of)

    def means(self, of: Array, boxes: int) -> Array:
        """Averages (boxes, K) over every box of values (N, K) at the nodes."""
        volume = np.bincount(self.owner, self.weights, minlength=boxes)
        sums = [np.bincount(self.owner, self.weights * column, minlength=boxes) for column in of.T]
        return np.stack(sums, axis=1) / volume[:, None]


@dataclass(frozen=True, eq=False)
class _Part:
    """Boxes with their nodes (B, q, D), weights (B, q), values (B, q, K) and monitored integrals (B, M)."""

    lower: Array
    upper: Array
    owner: Indices
    points: Array
    weights: Array
    values: Array
    integrals: Array

    def some(self, index: npt.NDArray[np.bool_]) -> _Part:
        return _Part(*(getattr(self, name)[index] for name in self.__dataclass_fields__))


def quadrature(
    values: Values, lower: Array, upper: Array, *, monitor: Values, rtol: float, enough: int, most: int, extra: int = 0
) -> Quadrature:
    """Nodes for integrals over boxes with the given corners (B, D).

    Args:
        values: f, from (N, D) points to (N, K) values; infinite or NaN at isolated points if need be.
        lower, upper: corners of the boxes.
        monitor: from (N, K) values to the (N, M) integrands that must come out right.
        rtol: relative tolerance, over all boxes.
        enough: nodes after which boxes are cut no more, whatever the doubt.
        most: nodes beyond which the boxes themselves are too many.
        extra: nodes an axis beyond the usual number.
    """
    order = ORDERS.get(lower.shape[1], 2) + extra
    nodes = len(lower) * (1 + 2 ** lower.shape[1]) * order ** lower.shape[1]
    if nodes > most:
        got = f"{len(lower):,} boxes with {nodes:,} nodes"
        raise RefusalError(f"Quadrature may use at most {most:,} nodes", got, "Ask for fewer cells")
    active = _evaluated(values, monitor, lower, upper, np.arange(len(lower)), order)
    scale = np.maximum(np.abs(active.integrals).sum(axis=0), 1e-300)
    kept: list[_Part] = []
    left, doubt, spent = rtol, 0.0, len(active.weights) * active.weights.shape[1]
    while len(active.lower):
        parts = _cut(values, monitor, active, order)
        spent += parts.weights.size
        together = parts.integrals.reshape(len(active.lower), -1, parts.integrals.shape[1]).sum(axis=1)
        gaps = (np.abs(together - active.integrals) / scale).max(axis=1)
        room = spent + 2 ** lower.shape[1] * parts.weights.size <= enough
        done = _agreed(gaps, left / 2) | ~_divisible(active) if room else np.ones(len(gaps), dtype=bool)
        used = float(gaps[done].sum())
        left, doubt = max(left - used, 0.0), doubt + used
        of_done = np.repeat(done, len(parts.lower) // len(done))
        kept.append(parts.some(of_done))
        active = parts.some(~of_done)
    return _collected(kept, doubt)


def _evaluated(values: Values, monitor: Values, lower: Array, upper: Array, owner: Indices, order: int) -> _Part:
    """Boxes with f at their nodes."""
    axes = lower.shape[1]
    nodes, weights = np.polynomial.legendre.leggauss(order)
    grid = np.stack(np.meshgrid(*[(nodes + 1) / 2] * axes, indexing="ij"), axis=-1).reshape(-1, axes)
    shares = np.prod(np.stack(np.meshgrid(*[weights / 2] * axes, indexing="ij"), axis=-1), axis=-1).ravel()
    widths = upper - lower
    points = lower[:, None] + grid * widths[:, None]
    found = _finite(values, points.reshape(-1, axes), np.repeat(widths, len(grid), axis=0))
    of_box = np.prod(widths, axis=1)[:, None] * shares
    watched = monitor(found).reshape(len(lower), len(grid), -1)
    integrals = np.einsum("bq,bqm->bm", of_box, watched)
    return _Part(lower, upper, owner, points, of_box, found.reshape(len(lower), len(grid), -1), integrals)


def _finite(values: Values, points: Array, widths: Array) -> Array:
    """Values at the points, those that are not finite taken beside them."""
    found = values(points)
    for move in MOVES:
        bad = ~np.isfinite(found).all(axis=1)
        if not bad.any():
            return found
        found[bad] = values(points[bad] + move * widths[bad])
    bad = ~np.isfinite(found).all(axis=1)
    if bad.any():
        where = np.array2string(points[bad.argmax()], precision=6, threshold=8)
        remedy = "It may be infinite at isolated points only"
        raise TargetError("The function must be finite almost everywhere", f"NaN or infinity around {where}", remedy)
    return found


def _cut(values: Values, monitor: Values, part: _Part, order: int) -> _Part:
    """Every box in 2^D, the parts of a box in a row."""
    axes = part.lower.shape[1]
    middle = part.lower / 2 + part.upper / 2
    upper_half = (np.arange(2**axes)[:, None] >> np.arange(axes)) & 1
    lower = np.where(upper_half, middle[:, None], part.lower[:, None]).reshape(-1, axes)
    upper = np.where(upper_half, part.upper[:, None], middle[:, None]).reshape(-1, axes)
    return _evaluated(values, monitor, lower, upper, np.repeat(part.owner, 2**axes), order)


def _agreed(gaps: Array, budget: float) -> npt.NDArray[np.bool_]:
    """The boxes with the smallest gaps, together within the budget."""
    order = np.argsort(gaps, kind="stable")
    done = np.zeros(len(gaps), dtype=bool)
    done[order[np.cumsum(gaps[order]) <= budget]] = True
    return done


def _divisible(part: _Part) -> npt.NDArray[np.bool_]:
    size = np.maximum(np.abs(part.lower), np.abs(part.upper))
    return np.asarray(((part.upper - part.lower) > FINEST * size).all(axis=1))


def _collected(kept: list[_Part], doubt: float) -> Quadrature:
    axes = kept[0].lower.shape[1]
    return Quadrature(
        np.concatenate([part.points.reshape(-1, axes) for part in kept]),
        np.concatenate([part.weights.ravel() for part in kept]),
        np.concatenate([np.repeat(part.owner, part.weights.shape[1]) for part in kept]),
        np.concatenate([part.values.reshape(-1, part.values.shape[-1]) for part in kept]),
        doubt,
    )

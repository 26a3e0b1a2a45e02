r"""Piecewise polynomials on Chebyshev panels: an interval cut at edges, a polynomial of its own degree on each piece.

A panel of degree n carries the n + 1 Chebyshev points of the second kind (Lobatto points), ends included. Neighbours
share the node at their common edge, so the interpolant is continuous and P panels have $1 + \sum_i n_i$ nodes.
Polynomial interpolation there is within a factor $2 + \frac{2}{\pi}\ln(n+1)$ of the best polynomial of that degree,
and converges like $\rho^{-n}$ for functions analytic in a Bernstein ellipse of parameter $\rho$ around the panel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from scipy.fft import dct

from attnforge.anchors.reproducible import cosines
from attnforge.errors import DomainError

Array = npt.NDArray[np.float64]


def lobatto(lower: float, upper: float, degree: int) -> Array:
    r"""The ``degree + 1`` Chebyshev points of the second kind on [lower, upper], ascending, both ends exact.

    Rounded from many digits, they are symmetric to the last bit, and those of degree n are every other one of those of
    degree 2n.

    >>> lobatto(-1.0, 1.0, 2).tolist()
    [-1.0, 0.0, 1.0]
    """
    points = (lower + upper) / 2 + (upper - lower) / 2 * cosines(degree)[::-1]
    points[0], points[-1] = lower, upper
    return np.asarray(points, dtype=np.float64)


def chebyshev_coefficients(values: npt.ArrayLike) -> Array:
    r"""Coefficients $c_0, \dots, c_n$ of $\sum_j c_j T_j$ from values (n + 1, ...) at the ascending Lobatto points.

    >>> chebyshev_coefficients([1.0, 0.0, 1.0]).tolist()  # x^2 = 1/2 + T_2 / 2
    [0.5, 0.0, 0.5]
    """
    descending = np.asarray(values, dtype=np.float64)[::-1]
    coefficients = dct(descending, type=1, axis=0) / (len(descending) - 1)
    coefficients[[0, -1]] /= 2
    return np.asarray(coefficients, dtype=np.float64)


def barycentric(nodes: Array, x: Array) -> Array:
    """The matrix (len(x), len(nodes)) that maps values at the nodes to the interpolating polynomial's values at x.

    The weights are those of the nodes as they are, rounded, not of the ideal Chebyshev points: on a panel a few
    thousand floats long the two differ visibly.

    >>> barycentric(np.array([0.0, 1.0]), np.array([0.0, 0.25])).tolist()
    [[1.0, 0.0], [0.75, 0.25]]
    """
    # Scaled by 4 / length, the products of differences neither overflow nor underflow (capacity of an interval); nor do
    # those of fewer than a thousand of them, of which every k-th are spread like all.
    gaps = (nodes[:, None] - nodes) * (4 / (nodes[-1] - nodes[0]))
    np.fill_diagonal(gaps, 1.0)
    turns = 1 + len(nodes) // 1000
    weights = 1 / np.prod([gaps[:, turn::turns].prod(axis=1) for turn in range(turns)], axis=0)
    away = x[:, None] - nodes
    hit = away == 0
    terms = np.where(hit, 0.0, weights / np.where(hit, 1.0, away))
    at_node = hit.any(axis=1)
    totals = np.where(at_node, 1.0, terms.sum(axis=1))
    return np.where(at_node[:, None], hit, terms / totals[:, None])


@dataclass(frozen=True, eq=False)
class Panels:
    """Panels [edges[i], edges[i + 1]] with a polynomial of degree ``degrees[i]`` each, continuous at the edges.

    >>> panels = Panels(np.array([-1.0, 0.0, 1.0]), (1, 2))
    >>> panels.nodes.tolist()
    [-1.0, 0.0, 0.5, 1.0]
    >>> float(panels.interpolation(np.array([-0.25]))[0] @ np.abs(panels.nodes))
    0.25
    """

    edges: Array
    degrees: tuple[int, ...]

    def __post_init__(self) -> None:
        """Check the edges and degrees, and that float64 tells neighbouring nodes apart."""
        edges = np.array(self.edges, dtype=np.float64)
        if edges.ndim != 1 or len(edges) < 2 or not np.isfinite(edges).all() or not (np.diff(edges) > 0).all():
            remedy = "Sort them, drop repeated ones, and give at least the two ends"
            raise DomainError("`edges` must be finite and strictly increasing", str(edges.tolist()), remedy)
        if len(self.degrees) != len(edges) - 1 or min(self.degrees) < 1:
            got = f"{len(edges) - 1} panels and degrees {self.degrees}"
            raise DomainError("`degrees` must be one whole number >= 1 for each panel", got, "Give one degree a panel")
        object.__setattr__(self, "edges", edges)
        object.__setattr__(self, "degrees", tuple(int(n) for n in self.degrees))
        if not (np.diff(self.nodes) > 0).all():
            shortest = float(np.diff(edges).min())
            remedy = "Lower the degree of the short panels, or join them"
            raise DomainError("nodes must be distinct float64 numbers", f"a panel of length {shortest:.3g}", remedy)

    @classmethod
    def whole(cls, lower: float, upper: float, degree: int) -> Panels:
        """One panel.

        >>> Panels.whole(0.0, 2.0, 2).nodes.tolist()
        [0.0, 1.0, 2.0]
        """
        return cls(np.array([lower, upper]), (degree,))

    @cached_property
    def nodes(self) -> Array:
        """All nodes (M,), ascending; every edge is one of them."""
        pieces = [lobatto(a, b, n)[1:] for (a, b), n in zip(pairwise(self.edges), self.degrees, strict=True)]
        return np.concatenate([self.edges[:1], *pieces])

    @cached_property
    def slices(self) -> tuple[slice, ...]:
        """Where the nodes of each panel lie among all nodes; neighbours overlap in one."""
        starts = np.concatenate([[0], np.cumsum(self.degrees)]).tolist()
        return tuple(slice(a, b + 1) for a, b in pairwise(starts))

    def interpolation(self, x: npt.ArrayLike) -> Array:
        """The matrix (len(x), M) that maps values at the nodes to the piecewise polynomial's values at x."""
        points = np.asarray(x, dtype=np.float64)
        if points.ndim != 1 or not ((points >= self.edges[0]) & (points <= self.edges[-1])).all():
            requirement = f"`x` must be an (N,) array in [{self.edges[0]:g}, {self.edges[-1]:g}]"
            got = f"shape {points.shape}" if points.ndim != 1 else f"{points.min():g} to {points.max():g}"
            raise DomainError(requirement, got, "A piecewise polynomial says nothing outside its panels")
        matrix = np.zeros((len(points), len(self.nodes)))
        owner = np.searchsorted(self.edges[1:-1], points, side="right")
        for panel in np.unique(owner):
            rows, columns = owner == panel, self.slices[panel]
            matrix[rows, columns] = barycentric(self.nodes[columns], points[rows])
        return matrix

    def coefficients(self, values: npt.ArrayLike) -> list[Array]:
        """The Chebyshev coefficients (degree + 1, ...) of each panel, from values (M, ...) at the nodes."""
        table = np.asarray(values, dtype=np.float64)
        if table.shape[:1] != self.nodes.shape:
            remedy = "Evaluate at `nodes`"
            raise DomainError(f"`values` must have {len(self.nodes)} rows", f"shape {table.shape}", remedy)
        return [chebyshev_coefficients(table[columns]) for columns in self.slices]

    def samples(self, per_degree: float) -> Array:
        """Points about ``per_degree`` times as dense as the nodes, Chebyshev-distributed in each panel, edges included.

        >>> Panels.whole(-1.0, 1.0, 1).samples(2).tolist()
        [-1.0, 0.0, 1.0]
        """
        dense = [max(1, math.ceil(per_degree * n)) for n in self.degrees]
        pieces = [lobatto(a, b, n) for (a, b), n in zip(pairwise(self.edges), dense, strict=True)]
        return np.unique(np.concatenate(pieces))  # a short panel has fewer floats than points

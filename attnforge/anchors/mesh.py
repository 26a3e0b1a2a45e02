r"""Graded anchors: gaps that follow what f needs locally, growing gently away from kinks.

A panel of length L resolved by a polynomial of degree n needs gaps of about L/n. At an edge where the m-th derivative
jumps by J, smoothing over a gap h errs by about $J h^m/6$, a quarter of the tolerance at
$h = (1.5\,\mathrm{tol}/J)^{1/m}$. Both are wishes; the gap function is the largest one below all of them that grows at
most at rate g,
$$ H(x) = \min_i \big(h_i + g\,\mathrm{dist}(x, I_i)\big) , $$
so the gaps grow geometrically (by a factor near 1 + g) away from an edge and the number of anchors,
$\int dx/H$, grows with the logarithm of the tolerance: convergence is exponential where uniform anchors have order 1.
Anchors are placed so that $\int dx/H$ between neighbours is one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attnforge.anchors.edges import Edge
from attnforge.anchors.panels import Panels

Array = npt.NDArray[np.float64]

FINE = 16  # points an octave of the quadrature that counts anchors, right to (ln 2 / 16)^2 / 12, a part in 6,000


@dataclass(frozen=True, eq=False)
class Spacing:
    """Wished gaps (I,) on intervals from ``left`` to ``right`` (I,); an edge is an interval of length zero."""

    left: Array
    right: Array
    gaps: Array

    @classmethod
    def wanted(cls, panels: Panels, edges: Sequence[Edge], tol: float, columns: Array) -> Spacing:
        """What the panels, with the values (M, q) at their nodes, and the edges ask for at this tolerance.

        Panels resolve f more closely than that. The degree that counts is the one beyond which all coefficients are
        within a quarter of the tolerance together; where it is 0 a panel asks for nothing, as do the last of those that
        shrink towards a singular end.
        """
        lengths, sharp = np.diff(panels.edges), [edge for edge in edges if edge.jump > 0]
        at = np.array([edge.at for edge in sharp])
        degrees = np.array([degree_within(part, tol / 4) for part in panels.coefficients(columns)])
        gaps = np.where(degrees > 0, lengths / np.maximum(degrees, 1), lengths.max() * len(lengths))
        at_edges = np.array([(1.5 * tol / edge.jump) ** (1 / edge.order) for edge in sharp])
        return cls(
            np.concatenate([panels.edges[:-1], at]),
            np.concatenate([panels.edges[1:], at]),
            np.concatenate([gaps, at_edges]),
        )

    @property
    def finest(self) -> float:
        """Where the smallest gap is wished: the place to count scores from."""
        i = int(self.gaps.argmin())
        return float((self.left[i] + self.right[i]) / 2)

    @property
    def is_possible(self) -> bool:
        """Whether float64 tells points apart that closely: not so next to an infinite slope at a tiny tolerance."""
        with np.errstate(divide="ignore"):
            return math.isfinite(self.count(1.0, 1.0))

    def anchors(self, scale: float, growth: float, ghosts: int, gaps: int | None = None) -> Array:
        """Positions from end to end with gaps ``scale`` times the wished ones, and ghosts that repeat the last gap.

        Or as many ``gaps`` as said, each that many times as long or short.
        """
        x, counted = self._counted(scale, growth)
        steps = max(2, math.ceil(counted[-1])) if gaps is None else gaps
        places = np.interp(np.linspace(0.0, counted[-1], steps + 1), counted, x)
        beyond = np.arange(1, ghosts + 1)
        before, after = places[1] - places[0], places[-1] - places[-2]
        return np.concatenate([(places[0] - beyond * before)[::-1], places, places[-1] + beyond * after])

    def count(self, scale: float, growth: float) -> float:
        r"""How many gaps that is, $\int dx/H$."""
        return float(self._counted(scale, growth)[1][-1])

    def _counted(self, scale: float, growth: float) -> tuple[Array, Array]:
        """Points from end to end, and the gaps up to each."""
        x = self._quadrature(scale, growth)
        density = 1 / self._gap(x, scale, growth)
        return x, np.concatenate([[0.0], np.cumsum(np.diff(x) * (density[1:] + density[:-1]) / 2)])

    def _gap(self, x: Array, scale: float, growth: float) -> Array:
        """H at increasing points, every end of a wish among them: the wishes there, carried on to both sides."""
        wished = np.full(len(x), np.inf)
        starts, ends = np.searchsorted(x, self.left), np.searchsorted(x, self.right, side="right")
        for start, end, gap in zip(starts, ends, scale * self.gaps, strict=True):
            wished[start:end] = np.minimum(wished[start:end], gap)
        along = growth * (x - x[0])
        before = np.minimum.accumulate(wished - along) + along
        after = np.minimum.accumulate((wished + along)[::-1])[::-1] - along
        return np.asarray(np.minimum(wished, np.minimum(before, after)))

    def _quadrature(self, scale: float, growth: float) -> Array:
        """Points geometrically dense towards every end of a wish, so that 1/H is nearly linear between them."""
        lower, upper = float(self.left.min()), float(self.right.max())
        finest = scale * float(self.gaps.min())
        octaves = max(1.0, float(np.log2((upper - lower) / finest)) + 1)
        steps = np.concatenate([[0.0], np.geomspace(finest / 8, upper - lower, int(FINE * (octaves + 3)))])
        ends = np.unique(np.concatenate([self.left, self.right]))
        return np.unique(np.clip(np.concatenate([ends[:, None] + steps, ends[:, None] - steps]).ravel(), lower, upper))


def degree_within(coefficients: Array, tol: float) -> int:
    """The degree of the shortest polynomial that differs from this one by at most tol."""
    tails = np.abs(coefficients[::-1]).cumsum(axis=0)[::-1].max(axis=1)
    return int(np.count_nonzero(tails[1:] > tol))

r"""Resolving a black-box function of one variable: the panels on which polynomials follow it to a tolerance.

On an interval the degree doubles, 8, 16, 32, ..., over nested Lobatto grids, until the last Chebyshev coefficients are
negligible and the polynomial agrees with every other value known in the interval. Where that does not come, or is
foreseen not to come (coefficients that fall like a power of the degree, not geometrically), the interval is cut: at the
edge that :mod:`attnforge.anchors.edges` finds, else in the middle. Towards a singularity at an end panels shrink by
four at a time: for f analytic but for that end, the panel $[\delta, 4\delta]$ has a Bernstein ellipse of parameter
$\rho = 3$ whatever $\delta$ is, so that every panel converges at the same rate.

No sampling can prove that nothing was missed between samples: the result is evidence, to be certified elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from numpy.polynomial import chebyshev

from attnforge.anchors.edges import Edge, Noise, worst
from attnforge.anchors.panels import Panels, barycentric, chebyshev_coefficients, lobatto
from attnforge.effort import check_time
from attnforge.errors import DomainError, TargetError, ToleranceError

Array = npt.NDArray[np.float64]

LOWEST = 8  # the first degree
WIDEST = 256  # the highest degree on the whole interval, and on parts of a function that merely oscillates
SPLIT = 64  # the highest degree once splitting has begun
GRADING = 4.0  # the ratio of neighbouring panels next to a singular end
CLOSER = 16.0  # the ratio of distances from a kink at which its parts are looked at
FRESH, FRESH_WHOLE = 7, 33  # points between the nodes, where a polynomial must agree with f
GEOMETRIC = 1.25  # the ratio of two falls of log(tail) is 2 if they are geometric, at most 1 next to an edge
SPENT = 16  # evaluations allowed for each of the nodes allowed
ROUNDING = 2.0**-52


@dataclass(frozen=True, eq=False)
class Resolution:
    """Panels, the values (M, k) at their nodes, and the edges found; ``reason`` says why ``resolved`` is False.

    ``error`` is the largest difference from f at all points evaluated. If not resolved, panels and values are what
    there was when the search ended.
    """

    panels: Panels
    values: Array
    edges: tuple[Edge, ...]
    resolved: bool
    evaluations: int
    error: float
    reason: str = ""

    def __call__(self, x: npt.ArrayLike) -> Array:
        """The piecewise polynomial's values (len(x), k)."""
        return self.panels.interpolation(x) @ self.values


class _Samples:
    """f with a memory: every value is computed once, and all values known in an interval can be had."""

    def __init__(self, f: Callable[[Array], npt.ArrayLike]) -> None:
        self.f = f
        self.x = np.empty(0)
        self.y = np.empty((0, 0))

    def __call__(self, x: Array) -> Array:
        new = np.setdiff1d(x, self.x)
        if len(new):
            self._learn(new)
        return self.y[np.searchsorted(self.x, x)]

    def _learn(self, new: Array) -> None:
        y = np.asarray(self.f(new), dtype=np.float64)
        if y.ndim != 2 or len(y) != len(new) or (len(self.y) and y.shape[1] != self.y.shape[1]):
            remedy = "Return one row of k numbers for each point"
            raise TargetError("`f` must map (N,) arrays to (N, k) arrays", f"{new.shape} to {y.shape}", remedy)
        bad = ~np.isfinite(y).all(axis=1)
        if bad.any():
            remedy = "Choose an interval on which f is finite"
            raise TargetError(
                "`f` must be finite on the interval", f"{y[bad][0]} at x = {float(new[bad][0])!r}", remedy
            )
        x, table = np.concatenate([self.x, new]), np.concatenate([self.y.reshape(-1, y.shape[1]), y])
        order = np.argsort(x)
        self.x, self.y = x[order], table[order]

    def within(self, lower: float, upper: float) -> tuple[Array, Array]:
        """All known points in [lower, upper] and their values."""
        first, last = np.searchsorted(self.x, lower), np.searchsorted(self.x, upper, side="right")
        return self.x[first:last], self.y[first:last]

    @property
    def largest(self) -> float:
        return float(np.abs(self.y).max(initial=0.0))


@dataclass(frozen=True, eq=False)
class _Piece:
    """An interval under work: its degree so far, the values at the Lobatto points, and what is known of it."""

    lower: float
    upper: float
    highest: int
    fresh: int
    degree: int = 0
    values: Array = field(default_factory=lambda: np.empty((0, 0)))
    tails: tuple[float, ...] = ()  # the sum of the last coefficients at degrees 8, 16, ...
    undersampled: bool = False  # they do not fall yet
    singular: float | None = None  # the end towards which panels shrink

    @property
    def wanted(self) -> Array:
        """The points of the next degree."""
        return lobatto(self.lower, self.upper, 2 * self.degree or self._first)

    @property
    def _first(self) -> int:
        return LOWEST if self._tells_apart(LOWEST) else 1

    def raised(self, samples: _Samples) -> _Piece:
        """The piece at its next degree."""
        values = samples(self.wanted)
        sizes = np.abs(chebyshev_coefficients(values))
        peak, tail = float(_last(sizes).max()), float(_last(sizes).sum(axis=0).max())
        before = self.tails[-1] if self.tails else math.inf
        undersampled = peak > 0.1 * float(sizes[1:].max()) or tail > 1.4 * before  # twice as many, hardly smaller
        return replace(
            self, degree=len(values) - 1, values=values, tails=(*self.tails, tail), undersampled=undersampled
        )

    def _tells_apart(self, degree: int) -> bool:
        """Are the Lobatto points of that degree distinct floats? The closest are pi^2 / (4 n^2) lengths apart."""
        gap = (self.upper - self.lower) * (math.pi / (2 * degree)) ** 2
        return gap > 2 * float(np.spacing(max(abs(self.lower), abs(self.upper))))

    def hopeless(self, tol: float) -> bool:
        """Will doubling not bring the tail below the tolerance?

        With each doubling the logarithm of the ratio of tails doubles if they fall geometrically, and stays if they
        fall like a power of the degree, as edges make them. The trend is read from three degrees and prolonged.
        """
        if 2 * self.degree > self.highest or not self._tells_apart(2 * self.degree):
            return True
        if self.singular is not None and self.degree >= 16:
            return True
        if self.degree < 32 or self.undersampled:
            return False
        first, second, third = (math.log(max(tail, 1e-300)) for tail in self.tails[-3:])
        geometric = third - second < GEOMETRIC * min(0.0, second - first)
        doublings = round(math.log2(self.highest / self.degree))
        foreseen = third + (third - second) * (2 ** (doublings + 1) - 2 if geometric else doublings)
        return foreseen > math.log(tol / 2)

    def blur(self, samples: _Samples) -> float:
        """What rounding may do to a value: of f itself, and of the point times the slope."""
        gaps = np.diff(lobatto(self.lower, self.upper, self.degree))
        slope = float((np.abs(np.diff(self.values, axis=0)).max(axis=1) / gaps).max())
        return ROUNDING * (samples.largest + slope * max(abs(self.lower), abs(self.upper)))

    def budget(self, tol: float, samples: _Samples) -> float:
        """What coefficients may sum to and be negligible: a tenth of the tolerance, or rounding in all of them."""
        return max(tol / 10, self.degree / 2 * self.blur(samples))

    def decayed(self, tol: float, samples: _Samples) -> bool:
        """Are the last coefficients negligible?"""
        return self.degree >= LOWEST and self.tails[-1] <= self.budget(tol, samples)

    def unseen(self, samples: _Samples) -> Array:
        """Fresh points between the nodes, as many as are needed beside those known already."""
        known = len(samples.within(self.lower, self.upper)[0]) - self.degree - 1
        return _irrational(self.lower, self.upper, max(0, self.fresh - known))

    def error(self, samples: _Samples) -> float:
        """The largest difference from f at all known points."""
        x, y = samples.within(self.lower, self.upper)
        return float(np.abs(self._at(x) - y).max())

    def trimmed(self, tol: float, samples: _Samples) -> _Piece | None:
        """The lowest degree that keeps within the tolerance, by values of the interpolant; None if not resolved.

        Values at the new nodes are those of the interpolant: f's own at the ends, where neighbours share them. Leaving
        out coefficients that sum to s so moves it by at most 2 s (they alias to lower ones).
        """
        if self.degree < LOWEST:
            return self if float(np.abs(self.values[-1] - self.values[0]).max()) <= tol else None
        if not self.decayed(tol, samples):
            return None
        allowed = max(0.9 * tol, 32 * ROUNDING * samples.largest)
        # Where rounding decides what is negligible, its estimate may be too high: then less is left out.
        budgets = self.budget(tol, samples) / np.array([1.0, 4.0, 16.0, 64.0, math.inf])
        shorter = (self._shortened(float(budget)) for budget in budgets)
        return next((piece for piece in shorter if piece.error(samples) <= allowed), None)

    def _shortened(self, budget: float) -> _Piece:
        """The lowest degree that leaves out coefficients of no larger sum."""
        left_out = np.cumsum(np.abs(chebyshev_coefficients(self.values))[::-1], axis=0)[::-1].max(axis=1)
        degree = max(1, int(np.count_nonzero(left_out > budget)) - 1)
        return replace(self, degree=degree, values=self._at(lobatto(self.lower, self.upper, degree)))

    def _at(self, x: Array) -> Array:
        return barycentric(lobatto(self.lower, self.upper, self.degree), x) @ self.values

    def slopes(self) -> tuple[Array, Array, float]:
        """The derivative at both ends, and Markov's factor from the size of a polynomial to that of its derivative."""
        factor = 2 / (self.upper - self.lower)
        derivative = chebyshev.chebder(chebyshev_coefficients(self.values)) * factor
        left, right = (np.asarray(chebyshev.chebval(end, derivative)) for end in (-1.0, 1.0))
        return left, right, factor * self.degree**2

    def cut(self, at: float) -> list[_Piece]:
        """The two parts, not yet sampled."""
        highest = WIDEST if self.undersampled else SPLIT
        return [_Piece(a, b, highest, FRESH) for a, b in ((self.lower, at), (at, self.upper))]

    def graded(self, end: float) -> list[_Piece]:
        """A quarter at that end, to be cut so again if need be, and the rest."""
        at = end + ((self.lower - end) + (self.upper - end)) / GRADING
        parts = (_Piece(a, b, SPLIT, FRESH) for a, b in ((self.lower, at), (at, self.upper)))
        return [replace(part, singular=end) if end in (part.lower, part.upper) else part for part in parts]

    def end_near(self, at: float) -> float | None:
        """The end to which that point is too near for a cut, if any."""
        gap = 64 * float(np.spacing(max(abs(self.lower), abs(self.upper))))
        return next((end for end in (self.lower, self.upper) if abs(at - end) < gap), None)

    def straight(self, samples: _Samples) -> _Piece:
        """The chord, for a part that was not sampled before the search ended."""
        return replace(self, degree=1, values=samples(np.array([self.lower, self.upper])))


def resolve(
    f: Callable[[Array], npt.ArrayLike], lower: float, upper: float, tol: float, *, largest: int = 4096
) -> Resolution:
    r"""Panels and values of a piecewise polynomial within ``tol``, in every output, of f on [lower, upper].

    ``f`` maps (N,) arrays to (N, k) arrays. All outputs share the panels. Jumps of the value larger than ``tol`` end
    the search (no continuous function follows them), and so do noise, more than ``largest`` nodes, or 16 times as many
    evaluations. The tolerance is met at all points evaluated, those between nodes included; rounding of f, about
    $10^{-15} \max|f|$, is not chased.

    >>> found = resolve(lambda x: (np.sin(8 * x) + np.abs(x))[:, None], -1.0, 1.0, 1e-6)
    >>> found.resolved, found.panels.edges.tolist(), found.edges[0].order
    (True, [-1.0, 0.0, 1.0], 1)
    """
    if not (math.isfinite(lower) and math.isfinite(upper) and lower < upper):
        raise DomainError("an interval must be finite and not empty", f"[{lower}, {upper}]", "Give lower < upper")
    if not (math.isfinite(tol) and tol > 0):
        raise ToleranceError("`tol` must be a positive number", repr(tol), "Ask for a tolerance above zero")
    return _Work(_Samples(f), float(lower), float(upper), tol, largest).run()


def _beside(edge: Edge, piece: _Piece, tol: float) -> Array:
    """Points on both sides of a kink, sixteen times closer each, which its parts must follow as well.

    A slope that jumps by J at a place that is wrong by d, or at two places so far apart, errs by J d: the closest
    points are tol/(4 J) away, so that what they do not see is below the tolerance.
    """
    least = max(tol / (4 * max(edge.jump, tol)), 64 * float(np.spacing(max(abs(piece.lower), abs(piece.upper)))))
    reach = min(edge.at - piece.lower, piece.upper - edge.at)
    count = math.ceil(math.log(max(reach / least, 1.0), CLOSER))
    steps = reach / float(CLOSER) ** np.arange(1, 1 + count)
    return np.concatenate([edge.at - steps, edge.at + steps])


class _Work:
    """The pieces of one call: those at rest, those under way, and the edges met."""

    def __init__(self, samples: _Samples, lower: float, upper: float, tol: float, largest: int) -> None:
        self.samples, self.lower, self.upper, self.tol, self.largest = samples, lower, upper, tol, largest
        self.under_way = [_Piece(lower, upper, WIDEST, FRESH_WHOLE)]
        self.at_rest: list[_Piece] = []
        self.edges: list[Edge] = []
        self.reason = ""

    def run(self) -> Resolution:
        while self.under_way:
            check_time("resolving the target")
            self._raise()
            if not self._go_on():
                break
        return self._result()

    def _raise(self) -> None:
        """One round: a call of f for the next degree of all pieces, one more to check those that seem resolved."""
        self.samples(np.concatenate([piece.wanted for piece in self.under_way]))
        self.under_way = [piece.raised(self.samples) for piece in self.under_way]
        seem = [piece for piece in self.under_way if piece.decayed(self.tol, self.samples)]
        if seem:
            self.samples(np.concatenate([piece.unseen(self.samples) for piece in seem]))

    def _go_on(self) -> bool:
        """Sort the pieces into resolved, to be raised, and to be cut; False when the search is over."""
        pieces, self.under_way = self.under_way, []
        for piece in pieces:
            done = None if self.reason else piece.trimmed(self.tol, self.samples)
            if done:
                self.at_rest.append(done)
            elif self.reason or not piece.hopeless(self.tol):
                self.under_way.append(piece)
            else:
                self.under_way += self._parts(piece)
        nodes = sum(piece.degree for piece in self.at_rest) + len(self.under_way) + 1
        if not self.reason and nodes > self.largest:
            self.reason = f"more than {self.largest} nodes are needed"
        if not self.reason and self.under_way and len(self.samples.x) > SPENT * self.largest:
            self.reason = f"more than {SPENT * self.largest} evaluations are needed"
        return not self.reason

    def _parts(self, piece: _Piece) -> list[_Piece]:
        """Where to cut a piece that will not resolve; the piece itself, and a reason, if that is in vain."""
        if piece.degree < LOWEST:
            change = float(np.abs(piece.values[-1] - piece.values[0]).max())
            self.reason = (
                f"f is too steep for float64 at x = {piece.lower!r}: it changes by {change:.3g} over a length of "
                f"{piece.upper - piece.lower:.3g}"
            )
            return [piece]
        if piece.singular is not None:
            return piece.graded(piece.singular)
        found = worst(self.samples, piece.lower, piece.upper)
        if found is None:
            return piece.cut((piece.lower + piece.upper) / 2)
        if isinstance(found, Noise):
            self.reason = (
                f"the values are irregular by about {found.size:.3g} at every scale near x = {piece.lower:.6g} to "
                f"{piece.upper:.6g}, as if by noise"
            )
            return [piece]
        if found.order == 0 and found.jump > self.tol:
            self.edges.append(found)
            self.reason = f"the value jumps by {found.jump:.6g} at x = {found.at!r}"
            return [piece]
        end = piece.end_near(found.at)
        if end is not None:
            return piece.graded(end)
        self.edges.append(found)
        self.samples(_beside(found, piece, self.tol))
        return piece.cut(found.at)

    def _result(self) -> Resolution:
        pieces = sorted([*self.at_rest, *self.under_way], key=lambda piece: piece.lower)
        pieces = [piece if piece.degree else piece.straight(self.samples) for piece in pieces]
        edges = np.array([self.lower, *(piece.upper for piece in pieces)])
        panels = Panels(edges, tuple(piece.degree for piece in pieces))
        values = np.concatenate([pieces[0].values[:1], *(piece.values[1:] for piece in pieces)])
        found = tuple(sorted([*self.edges, *self._met_by_chance(pieces)], key=lambda edge: edge.at))
        error = max(piece.error(self.samples) for piece in pieces)
        return Resolution(panels, values, found, not self.reason, len(self.samples.x), error, self.reason)

    def _met_by_chance(self, pieces: list[_Piece]) -> list[Edge]:
        """Kinks that a cut in the middle happened to hit: slopes differ by more than errors of size tol explain."""
        known, found = {edge.at for edge in self.edges}, []
        for before, after in pairwise([] if self.reason else pieces):
            (_, left, below), (right, _, above) = before.slopes(), after.slopes()
            jump = float(np.abs(right - left).max())
            if after.lower not in known and jump > 10 * (self.tol + before.blur(self.samples)) * (below + above):
                found.append(Edge(after.lower, 1, jump))
        return found


def _last(coefficients: Array) -> Array:
    """The last quarter, at least three: even and odd functions have every other coefficient zero."""
    return coefficients[-max(3, (len(coefficients) - 1) // 4) :]


def _irrational(lower: float, upper: float, count: int) -> Array:
    """Points that no grid contains: multiples of the golden ratio modulo one, evenly spread for every count."""
    golden = (math.sqrt(5) - 1) / 2
    return np.asarray(lower + (upper - lower) * ((0.5 + golden * np.arange(1, count + 1)) % 1.0), dtype=np.float64)

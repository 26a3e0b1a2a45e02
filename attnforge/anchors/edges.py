r"""Finding the point where a black-box function of one variable is least smooth: a jump, a kink, or a higher one.

Fourth differences of values with step h are $O(h^4)$ where f is smooth and $O(J h^k)$ where its k-th derivative jumps
by J, k < 4. So: take a grid, go where they are largest, refine there by four, and repeat. How fast they fall tells the
order k (the rate at which they fall, in powers of h); if in the end they fall like $h^4$, f was merely steep.

The place of an edge of order $k \ge 1$ is then sharpened: with polynomials $p_-$ and $p_+$ fitted on the two sides,
$D = p_+ - p_-$ behaves like $J (x - s)^k / k!$, and $D^{(k-1)}$ has a simple zero at the edge s, which Newton's method
finds to about the rounding of f divided by J. This is the idea of Chebfun's splitting (Pachon, Platte, Trefethen,
"Piecewise-smooth chebfuns", IMA J. Numer. Anal. 2010), with one difference order for all edges and two-sided fits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numpy.polynomial import chebyshev

from attnforge.anchors.panels import chebyshev_coefficients, lobatto
from attnforge.effort import check_time
from attnforge.errors import DomainError

Array = npt.NDArray[np.float64]
Function = Callable[[Array], Array]

FIRST = 33  # points of the first grid
SMOOTH = 3.5  # differences that fall faster than h to this power have met no edge of order 3 or less
PEAK = 6.0  # an edge stands out of the median difference by this factor
TRAIL = 5  # grids from which the rate is read
PATIENCE = 6  # rounds without a peak and without decay, after which f is irregular at every scale
FITTED = 20  # degree of the polynomials on the two sides
CLEAR = 256  # the fits reach this many times farther than the gap between them: extrapolating costs a factor 6
TRIES = 4  # fits tried, each on a quarter of the last one's interval
ROUNDING = 2.0**-52
# Sum of |fourth differences| of (x)_+^k / k! on a unit grid, averaged over where the edge lies between grid points.
WEIGHT = (8.0, 3.0, 1.25, 1.0)


@dataclass(frozen=True)
class Edge:
    """A point where a derivative jumps: of order 0 the value, 1 the slope, 2 and 3 the next two derivatives.

    ``jump`` estimates by how much, the largest over outputs. Where the derivative is unbounded (sqrt|x| has order 1)
    it is its size at a typical scale of the search, and says little.
    """

    at: float
    order: int
    jump: float


@dataclass(frozen=True)
class Noise:
    """No single worst point: values are irregular by about ``size`` however close they are taken."""

    size: float


@dataclass(frozen=True, eq=False)
class _Grid:
    """Equally spaced points x (n,), values y (n, k), and their fourth differences."""

    x: Array
    y: Array

    @property
    def step(self) -> float:
        return float(self.x[-1] - self.x[0]) / (len(self.x) - 1)

    @property
    def differences(self) -> Array:
        return np.asarray(np.abs(np.diff(self.y, 4, axis=0)).max(axis=1), dtype=np.float64)

    @property
    def strength(self) -> float:
        return float(self.differences.sum())

    @property
    def floor(self) -> float:
        """What rounding of the values, and of the points times the slope, can add to the strength."""
        slope = np.abs(np.diff(self.y, axis=0)).max() / self.step
        return float(32 * len(self.x) * (ROUNDING * np.abs(self.y).max() + slope * self.blur) / 4)

    @property
    def blur(self) -> float:
        return float(np.spacing(np.abs(self.x).max()))

    @property
    def peaked(self) -> bool:
        return bool(self.differences.max() > PEAK * np.median(self.differences))

    @property
    def stencil(self) -> slice:
        """The five points of the largest fourth difference."""
        worst = int(self.differences.argmax())
        return slice(worst, worst + 5)

    @property
    def window(self) -> tuple[float, float]:
        ends = self.x[self.stencil]
        return float(ends[0]), float(ends[-1])

    def zoomed(self, f: Function) -> _Grid:
        """The window with a quarter of the step; values already known are kept."""
        kept, values = self.x[self.stencil], self.y[self.stencil]
        x = np.interp(np.arange(17) / 4, np.arange(5), kept)
        y = np.empty((17, values.shape[1]))
        y[::4] = values
        new = np.arange(17) % 4 != 0
        y[new] = f(x[new])
        return _Grid(x, y)


def locate(f: Function, lower: float, upper: float) -> Edge | None:
    """The worst edge of f, which maps (N,) to (N, k) arrays, on [lower, upper]; None where f is smooth, or noise.

    A singularity at an end of the interval is an edge there: sqrt(x) on [0, 1] has one at 0.

    >>> edge = locate(lambda x: np.abs(x - 0.3)[:, None], -1.0, 1.0)
    >>> edge.at, edge.order, round(edge.jump, 9)
    (0.3, 1, 2.0)
    >>> locate(lambda x: np.tanh(1000 * x)[:, None], -1.0, 1.1) is None
    True
    """
    found = worst(f, lower, upper)
    return found if isinstance(found, Edge) else None


def worst(f: Function, lower: float, upper: float) -> Edge | Noise | None:
    """As :func:`locate`, but tells noise from smoothness.

    >>> worst(lambda x: np.sin(x).astype(np.float32).astype(np.float64)[:, None], 0.0, 1e-3)
    Noise(size=...)
    """
    if not (math.isfinite(lower) and math.isfinite(upper) and lower < upper):
        raise DomainError("an interval must be finite and not empty", f"[{lower}, {upper}]", "Give lower < upper")
    return _Search(f, lower, upper).run()


class _Search:
    """The grids of one search: all of them, and the trail of those in which an edge stands out."""

    def __init__(self, f: Function, lower: float, upper: float) -> None:
        self.f, self.lower, self.upper = f, lower, upper
        self.scale = max(abs(lower), abs(upper))
        x = np.linspace(lower, upper, FIRST)
        self.grids = [_Grid(x, f(x))]
        self.trail: list[_Grid] = []
        self.lost = 0  # rounds since the peak was last seen
        self.fits = 0

    def run(self) -> Edge | Noise | None:
        while True:
            check_time("looking for kinks")
            grid = self.grids[-1]
            if grid.strength <= grid.floor or self._falls_smoothly():
                break
            self._follow(grid)
            found = self._at_an_end() or self._sharpened()
            if found:
                return found
            if self.lost >= 3 and len(self.trail) >= 3:
                break
            if self.lost >= PATIENCE and _rate(self.grids[-PATIENCE:]) < 0.5:
                # Fourth differences of independent values of variance 1 have variance 70, and mean size 0.8 sqrt(70).
                return Noise(float(grid.differences.mean()) / 7)
            finest = max(4 * grid.blur, ROUNDING / 8 * self.scale)
            if grid.step / 4 < finest:
                break
            self.grids.append(grid.zoomed(self.f))
        return self._concluded()

    def _follow(self, grid: _Grid) -> None:
        if grid.peaked:
            broken = self.lost and len(self.trail) < 4  # too short to have been more than chance
            self.trail = [grid] if broken else [*self.trail, grid]
            self.lost = 0
        else:
            self.lost += 1

    def _falls_smoothly(self) -> bool:
        return len(self.grids) >= 3 and _rate(self.grids[-3:]) >= SMOOTH

    def _touches(self, grid: _Grid) -> float | None:
        low, high = grid.window
        return self.lower if low == self.lower else self.upper if high == self.upper else None

    def _at_an_end(self) -> Edge | None:
        """A singularity at an end: the windows shrink towards it, and it is no jump (that takes all the zooming)."""
        if self.lost or len(self.trail) < PATIENCE:
            return None
        ends = {self._touches(grid) for grid in self.trail[-PATIENCE:]}
        rate = _rate(self.trail[-PATIENCE:])
        if len(ends) > 1 or None in ends or not 0.1 < rate < SMOOTH:
            return None
        (end,) = ends
        return self._estimated(float(end or 0.0), _order(rate))

    def _sharpened(self) -> Edge | None:
        """The edge by fits on both sides, once windows are short and the rate is near a whole number."""
        if self.lost or len(self.trail) < TRAIL or self.fits >= TRIES:
            return None
        rate = _rate(self.trail[-TRAIL:])
        order = round(rate)
        if not 1 <= order <= 3 or abs(rate - order) > 0.35:
            return None
        low, high = self.trail[-1].window
        while self.fits < TRIES:
            reach = (self.upper - self.lower) / 4 ** (self.fits + 1)
            room = min(reach, low - self.lower, self.upper - high)
            if room < CLEAR / 4 * (high - low) or reach < CLEAR * (high - low):
                return None  # try again when the window is shorter
            self.fits += 1
            found = self._fitted(low, high, reach, order)
            if found:
                return found
        return None

    def _fitted(self, low: float, high: float, reach: float, order: int) -> Edge | None:
        """By fits that reach so far down from ``low`` and up from ``high``, as far as there is room."""
        below, above = (max(self.lower, low - reach), low), (high, min(self.upper, high + reach))
        return _two_sided(self.f, self.trail[-1], order, below, above)

    def _fitted_at(self, at: float, order: int) -> Edge | None:
        """By fits that meet at the place where differences drown in rounding, and again where those say it is.

        At that scale f is its smooth continuation on both sides up to rounding, so no gap between them is needed.
        """
        low, high = self.trail[-1].window
        for fits in range(self.fits, TRIES):
            reach = (self.upper - self.lower) / 4 ** (fits + 1)
            if min(reach, low - self.lower, self.upper - high) < 4 * (high - low):
                return None
            if first := self._fitted(at, at, reach, order):
                return self._fitted(first.at, first.at, reach, order) or first
        return None

    def _concluded(self) -> Edge | None:
        """What the trail says when zooming has come to its end: rounding, or the spacing of floats."""
        if len(self.trail) < 3 or self._falls_smoothly():
            return None
        self.trail = _above_the_noise(self.trail)
        rate = _rate(self.trail)
        after = self.grids[self.grids.index(self.trail[-1]) :]
        if rate >= SMOOTH or (len(after) > 1 and _rate(after) > rate + 1.5 and after[-1].strength > after[-1].floor):
            return None
        order = _order(rate)
        if order == 0:
            return self._jump()
        grid = self.trail[-1]
        low, high = grid.window
        centre = float(grid.x[2:-2] @ grid.differences / grid.differences.sum())
        centre = min(max(centre, low), high)
        sharpened = self._fitted_at(centre, order) if abs(rate - order) < 0.4 else None
        return sharpened or self._estimated(_nice(centre, (high - low) / 2, self.scale), order)

    def _estimated(self, at: float, order: int) -> Edge:
        sizes = [grid.strength / (WEIGHT[order] * grid.step**order) for grid in self.trail]
        return Edge(at, order, float(np.median(sizes)))

    def _jump(self) -> Edge:
        """Bisection of the cell with the largest change, to neighbouring floats."""
        grid = self.trail[-1]
        jump = float(np.ptp(grid.y[grid.stencil], axis=0).max())
        worst_cell = int(np.abs(np.diff(grid.y, axis=0)).max(axis=1).argmax())
        low, high = (float(t) for t in grid.x[worst_cell : worst_cell + 2])
        left, right = grid.y[worst_cell], grid.y[worst_cell + 1]
        while high - low > ROUNDING / 8 * self.scale:
            middle = (low + high) / 2
            if not low < middle < high:
                break
            value = self.f(np.array([middle]))[0]
            if np.abs(value - left).max() > np.abs(right - value).max():
                high, right = middle, value
            else:
                low, left = middle, value
        blur = float(np.spacing(self.scale))
        return Edge(_nice((low + high) / 2, high - low + blur, self.scale), 0, jump)


def _rate(grids: list[_Grid]) -> float:
    """The power of the step with which the strengths fall, by least squares of their logarithms."""
    strengths = np.log([max(grid.strength, 1e-300) for grid in grids])
    return float(np.polyfit(np.log([grid.step for grid in grids]), strengths, 1)[0])


def _above_the_noise(trail: list[_Grid]) -> list[_Grid]:
    """Without the last grids, where a kink of a function computed in low precision ends in a staircase."""
    while len(trail) > 4 and _rate(trail[-3:]) < _rate(trail[:4]) - 0.6:
        trail = trail[:-1]
    return trail


def _order(rate: float) -> int:
    """The first derivative that is not continuous: |x|^a with a not whole has its ceil(a)-th derivative unbounded."""
    return 0 if rate < 0.1 else min(3, max(1, math.ceil(rate - 0.3)))


def _two_sided(
    f: Function, grid: _Grid, order: int, below: tuple[float, float], above: tuple[float, float]
) -> Edge | None:
    """The zero of the (order - 1)-th derivative of the difference of fits below and above the edge.

    None if the fits are poor, or contradict the grid in which the edge was seen.
    """
    x = np.stack([lobatto(*below, FITTED), lobatto(*above, FITTED)])
    y = f(x.ravel()).reshape(2, FITTED + 1, -1)
    (_, low), (high, _) = below, above
    left, right = below[1] - below[0], above[1] - above[0]
    size, slope = float(np.abs(y).max()), float(np.abs(np.diff(y, axis=1) / np.diff(x)[..., None]).max())
    noise = ROUNDING * size + slope * float(np.spacing(np.abs(x).max()))
    fits = [chebyshev_coefficients(side) for side in y]
    tail = max(float(np.abs(fit[-4:]).max()) for fit in fits)
    if tail > max(512 * ROUNDING * size, 4 * noise):
        return None

    def difference(at: float, derivative: int) -> Array:
        """Local coordinates from the ends next to the edge, so that no digits of ``at`` are lost."""
        places = (1 + 2 * (at - low) / left, -1 + 2 * (at - high) / right)
        minus, plus = (
            chebyshev.chebval(place, chebyshev.chebder(fit, derivative)) * (2 / length) ** derivative
            for place, fit, length in zip(places, fits, (left, right), strict=True)
        )
        return np.asarray(plus - minus, dtype=np.float64)

    window, at = grid.window, (low + high) / 2
    output = int(np.abs(difference(at, order)).argmax())
    for _ in range(6):
        slope = float(difference(at, order)[output])
        if slope == 0:
            return None
        at -= float(difference(at, order - 1)[output]) / slope
        if not window[0] <= at <= window[1]:
            return None
    jump = float(np.abs(difference(at, order)).max())
    expected = WEIGHT[order] * jump * grid.step**order
    if not expected / 6 < grid.strength < 6 * expected:
        return None
    # Markov: a derivative multiplies the rounding of a fit by at most 2 n^2 / length, twice that is seen at an end.
    blur = (tail + 4 * noise) * (2 * FITTED**2 / min(left, right)) ** (order - 1) / jump
    scale = float(np.abs(x).max())
    return Edge(_nice(at, 4 * blur + 4 * float(np.spacing(scale)), scale), order, jump)


def _nice(at: float, uncertainty: float, scale: float) -> float:
    """Zero or the shortest decimal within the uncertainty, where that is no coincidence; else the number itself."""
    if abs(at) <= uncertainty <= 1e-6 * scale:
        return 0.0
    for digits in range(1, 9):
        rounded = float(f"{at:.{digits - 1}e}")
        unit = 10.0 ** (math.floor(math.log10(abs(at))) - digits + 1) if at else math.inf
        if abs(rounded - at) <= uncertainty <= unit / 100:
            return rounded
    return at

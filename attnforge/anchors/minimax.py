r"""Values of least sup error: the fit that oscillates evenly, instead of the one of least squares.

With keys fixed, the outputs of a head, or of several heads that add up, are $W v$: W the softmax weights (of all heads,
side by side), v the values. The sup error is convex in v, and its minimum over points $x_1 \dots x_N$ is a linear
programme,
$$ \min_{v, t} t \quad\text{with}\quad |(W v)_i - f(x_i)| \le t . $$
Least squares spreads its error as it likes and peaks at the ends; the minimiser attains t with changing signs.

**Coordinates.** W is ill-conditioned: ghosts hardly act on the domain. With $W = U S V^T$ and the error $e$ of the
values one starts from,
$$ v = v_0 + e\,V\,\mathrm{diag}(\sqrt N / s_j)\,y, \qquad W v = W v_0 + e\,\sqrt N\,U\,y , $$
so in y the programme has orthogonal columns of mean square one, and in units of e all its numbers are of order one.

**Tame values.** Rounding is proportional to the values, and what they do between the points too, so they may not
exceed ``largest``. With $r$ coordinates and $R = (\mathrm{largest} - \max|v_0|)/\sqrt r$, the bounds
$|y_j| \le R s_j / (e \sqrt N)$ say $|(V^T(v - v_0))_j| \le R$, so $|v - v_0|_\infty \le |v - v_0|_2 \le \sqrt r R$. A
coordinate whose bound is below SLIGHT moves the output by less than that part of e, in the mean square: it stays zero.

**Exchange**, after Remez: the programme is solved on a working set; points where the error exceeds its t are added,
until none does by more than SLACK. Its least t is a lower bound of the sup error of all values within the bounds, so
what is left to gain is known. It is solved by an interior-point method with one dense factorisation
a step, of the size of the values: for full matrices twenty times faster than a sparse solver.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from attnforge.anchors.axis import Axis
from attnforge.anchors.fitting import FINEST_CUT, cuts_between
from attnforge.effort import check_time

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
Map = Callable[[Array], Array]

SLACK = 0.02  # the working set's t and the error on all points agree to this
SLIGHT = 1e-3  # coordinates that move the output by less, of the error, are left alone
ROUNDS = 8  # of exchange, where nothing else is said
STEPS = 60  # of the interior-point method, which needs 10 to 30
GAP = 1e-2  # where it stops, relative to t: inside, not at a vertex, it does better between the points
WORK = 4e9  # operations of a step that are thought little
CLIMBS = 3  # proposals a round
CLIMBERS = 32  # worst points around which more may be proposed
SIMPLEX, FARTHEST = 0.2, 1.0  # first steps of a deformation; beyond the last its gaps would outgrow the points
TRIALS = 25  # of a deformation, for each parameter and simplex
VALLEY = math.log(8)  # gaps that grow by more than that on both sides surround a kink
TINY, WORST = 1e-300, 1e300  # errors that are told apart
RIDGE = 1e-13  # of the diagonal: keeps the factorisation going where f is met exactly and t tends to zero
SHORT = 0.99  # of the way to the border of the feasible set


@dataclass(frozen=True, eq=False)
class Minimax:
    """Values (p, k) of least sup error, what they reach, and what no values can.

    ``error`` (k,) is the largest error over all points looked at, ``start`` (k,) that of the values one started from;
    ``least`` (k,) is about what any values within the same bounds err at least: the last programme's t less its gap.
    """

    values: Array
    start: Array
    error: Array
    least: Array


def minimax_values(
    weights_at: Map,
    wanted_at: Map,
    start: Array,
    points: Array,
    largest: float,
    propose: Callable[[Array, int], Array] | None = None,
    rounds: int = ROUNDS,
    gap: float = GAP,
) -> Minimax:
    """Values that minimise the largest error over the points, and over what is proposed on the way.

    Args:
        weights_at: softmax weights (N, p) at (N, D) points, of all heads side by side.
        wanted_at: what is wanted there, (N, k). Called once a round, with all that is new.
        start: values (p, k) to improve, never made worse on these points.
        points: (N, D), dense where the anchors are: several between neighbours.
        largest: no value may be larger in absolute value, unless the start's are.
        propose: from the worst points so far (M, D) and the number of the round to further points to look at, for
            domains of several inputs, which no set of points fills. None: nothing is added.
        rounds: of exchange, at most.
        gap: how closely each programme is solved.

    >>> line = lambda x: np.hstack([np.ones_like(x), x])  # the line of least sup distance to a parabola
    >>> found = minimax_values(line, np.square, np.zeros((2, 1)), np.linspace(0, 1, 101)[:, None], 10.0, gap=1e-9)
    >>> found.values.ravel().round(4).tolist(), found.error.round(4).tolist()  # x - 1/8 is off by 1/8
    ([-0.125, 1.0], [0.125])
    """
    known = _Known(points, weights_at(points), wanted_at(points))
    spectrum = _Spectrum.of(known.weights)
    outputs = [_Output.of(known, spectrum, start[:, k], k, largest) for k in range(start.shape[1])]
    for number in range(rounds):
        check_time("polishing values")
        outputs = [output.solved(known, gap) for output in outputs]
        if propose is not None:
            for climb in range(CLIMBS):
                more = propose(_worst(known, outputs), number * CLIMBS + climb)
                known = known.extended(more, weights_at(more), wanted_at(more), outputs)
        outputs, before = [output.exchanged(known) for output in outputs], outputs
        if all(len(new.working) == len(old.working) for new, old in zip(outputs, before, strict=True)):
            break
    best = [min(output.tried, key=partial(known.error, output=output.output)) for output in outputs]
    return Minimax(
        np.column_stack(best),
        np.array([known.error(start[:, k], k) for k in range(len(best))]),
        np.array([known.error(values, k) for k, values in enumerate(best)]),
        (1 - gap) * np.array([output.promised for output in outputs]),
    )


def chebyshev(columns: Array, offset: Array, bounds: Array, gap: float = GAP) -> tuple[Array, float]:
    r"""The y within ``bounds`` (r,) that minimises $t = \max_i |(A y + b)_i|$, and t: a linear programme.

    A Mehrotra predictor-corrector method on $G x + s = h$, $s \ge 0$, $x = (y, t)$, with rows $\pm(A y + b) \le t$ and
    $\pm y \le \mathrm{bounds}$. Every step solves two systems with the matrix
    $G^T \mathrm{diag}(\lambda / s)\,G$ of size r + 1, which the bounds keep definite.
    What is returned is within its bounds, and t at most a part ``gap`` above the least.

    >>> y, t = chebyshev(np.array([[1.0], [1.0]]), np.array([0.0, -3.0]), np.array([10.0]), 1e-9)  # between 0 and 3
    >>> y.round(4).tolist(), round(t, 4)
    ([1.5], 1.5)
    """
    if not offset.any():
        return np.zeros(len(bounds)), 0.0
    programme = _Programme(columns, bounds)
    h = np.concatenate([-offset, offset, bounds, bounds])
    x = np.append(np.zeros(len(bounds)), 2 * float(np.abs(offset).max()))
    slack = h - programme.rows(x)
    price = np.concatenate([np.full(2 * len(offset), 0.5 / len(offset)), SLIGHT / np.tile(bounds, 2) / len(bounds)])
    for _ in range(STEPS):
        check_time("polishing values")
        wrong = programme.transposed(price) + programme.objective
        if price @ slack <= gap * x[-1] and np.abs(wrong).max() <= gap:
            break
        try:
            x, slack, price = _step(programme, x, slack, price, wrong)
        except LinAlgError:  # as accurate as its arithmetic allows: what it has is within the bounds all the same
            break
    y = np.clip(x[:-1], -bounds, bounds)
    return y, float(np.abs(columns @ y + offset).max())


@dataclass(frozen=True, eq=False)
class _Programme:
    """The matrix G of the programme, never formed."""

    columns: Array
    bounds: Array

    @property
    def objective(self) -> Array:
        """Minimise the last variable."""
        return np.append(np.zeros(len(self.bounds)), 1.0)

    def rows(self, x: Array) -> Array:
        """The product G x."""
        moved = self.columns @ x[:-1]
        return np.concatenate([moved - x[-1], -moved - x[-1], x[:-1], -x[:-1]])

    def transposed(self, prices: Array) -> Array:
        """The product of G's transpose with prices."""
        above, below, high, low = self._split(prices)
        return np.append(self.columns.T @ (above - below) + high - low, -(above + below).sum())

    def normal(self, scales: Array) -> Array:
        """The matrix G^T diag(scales) G."""
        above, below, high, low = self._split(scales)
        inner = (self.columns * (above + below)[:, None]).T @ self.columns + np.diag(high + low)
        border = self.columns.T @ (below - above)
        return np.block([[inner, border[:, None]], [border, (above + below).sum()]])

    def _split(self, rows: Array) -> list[Array]:
        m, r = self.columns.shape
        return np.split(rows, [m, 2 * m, 2 * m + r])


def _step(programme: _Programme, x: Array, slack: Array, price: Array, wrong: Array) -> tuple[Array, Array, Array]:
    """Predict, then correct towards the central path; slacks stay equal to h - G x, since they start so."""
    scales = price / slack
    normal = programme.normal(scales)
    normal[np.diag_indices_from(normal)] *= 1 + RIDGE
    factor = cho_factor(normal, check_finite=False)

    def towards(complementary: Array) -> tuple[Array, Array, Array]:
        """Solve G^T dprice = -wrong, G dx + dslack = 0, price dslack + slack dprice = -complementary."""
        held = complementary / slack
        dx = cho_solve(factor, programme.transposed(held) - wrong, check_finite=False)
        moved = programme.rows(dx)
        return dx, -moved, scales * moved - held

    _, dslack, dprice = towards(price * slack)
    reached = (slack + _way(slack, dslack) * dslack) @ (price + _way(price, dprice) * dprice) / (price @ slack)
    centre = reached**3 * (price @ slack) / len(slack)
    dx, dslack, dprice = towards(price * slack + dslack * dprice - centre)
    primal, dual = (min(1.0, SHORT * _way(*pair)) for pair in ((slack, dslack), (price, dprice)))
    return x + primal * dx, slack + primal * dslack, price + dual * dprice


def _way(at: Array, towards: Array) -> float:
    """How far one can go before an entry becomes negative; at most 1."""
    falling = towards < 0
    return min(1.0, float((-at[falling] / towards[falling]).min())) if falling.any() else 1.0


@dataclass(frozen=True, eq=False)
class _Known:
    """Points (N, D), weights (N, p) there and what is wanted (N, k)."""

    points: Array
    weights: Array
    wanted: Array

    def errors(self, values: Array, output: int) -> Array:
        """Signed errors (N,) of one output."""
        return np.asarray(self.weights @ values - self.wanted[:, output])

    def error(self, values: Array, output: int) -> float:
        """The largest of them."""
        return float(np.abs(self.errors(values, output)).max())

    def extended(self, points: Array, weights: Array, wanted: Array, outputs: Sequence[_Output]) -> _Known:
        """With those of further points at which an output errs more than its programme promised."""
        more = _Known(points, weights, wanted)
        new = np.any([np.abs(more.errors(o.tried[-1], o.output)) > (1 + SLACK) * o.promised for o in outputs], axis=0)
        return _Known(
            np.concatenate([self.points, points[new]]),
            np.concatenate([self.weights, weights[new]]),
            np.concatenate([self.wanted, wanted[new]]),
        )


@dataclass(frozen=True, eq=False)
class _Spectrum:
    """Directions (p, r) in the space of values, and the root mean square (r,) each has on the points."""

    directions: Array
    sizes: Array

    @classmethod
    def of(cls, weights: Array) -> _Spectrum:
        """From the singular value decomposition, by way of QR: the weights have many more rows than columns."""
        _, sizes, rows = np.linalg.svd(np.linalg.qr(weights, mode="r"), full_matrices=False)
        return cls(rows.T, sizes / math.sqrt(len(weights)))


@dataclass(frozen=True, eq=False)
class _Output:
    """One output: its coordinates ``back`` (p, r) in units of its first error, bounds (r,), and the working set."""

    output: int
    back: Array
    bounds: Array
    unit: float
    working: Indices
    tried: tuple[Array, ...]
    promised: float

    @classmethod
    def of(cls, known: _Known, spectrum: _Spectrum, start: Array, output: int, largest: float) -> _Output:
        """Coordinates from the spectrum; the working set an even spread of points and the worst."""
        errors = np.abs(known.errors(start, output))
        unit = float(errors.max()) or 1.0
        room = max(0.0, largest - float(np.abs(start).max())) / math.sqrt(len(spectrum.sizes))
        bounds = room * spectrum.sizes / unit
        kept = bounds > SLIGHT
        back = unit * spectrum.directions[:, kept] / spectrum.sizes[kept]
        spread = np.linspace(0, len(errors) - 1, min(len(errors), _room(start))).astype(np.int64)
        working = np.union1d(spread, np.argsort(errors)[-_room(start) // 2 :])
        return cls(output, back, bounds[kept], unit, working, (start,), 0.0)

    def solved(self, known: _Known, gap: float) -> _Output:
        """The programme on the working set."""
        if not len(self.bounds):
            return self
        columns = known.weights[self.working] @ self.back / self.unit
        offset = known.errors(self.tried[0], self.output)[self.working] / self.unit
        y, t = chebyshev(columns, offset, self.bounds, gap)
        return replace(self, tried=(*self.tried, self.tried[0] + self.back @ y), promised=t * self.unit)

    def exchanged(self, known: _Known) -> _Output:
        """The working set with the worst of the points that err more than it promised."""
        errors = np.abs(known.errors(self.tried[-1], self.output))
        worst = np.argsort(errors)[-_room(self.tried[0]) // 2 :]
        over = worst[errors[worst] > (1 + SLACK) * self.promised]
        return replace(self, working=np.union1d(self.working, over)) if len(self.bounds) else self


def _room(start: Array) -> int:
    """Points of the first working set: a step costs their number times the square of that of the values."""
    return max(4 * len(start), int(WORK / len(start) ** 2))


def _worst(known: _Known, outputs: Sequence[_Output]) -> Array:
    """Points (M, D) at which the outputs err most, relative to what each of them promised."""
    relative = [np.abs(known.errors(o.tried[-1], o.output)) / (o.promised or 1.0) for o in outputs]
    return known.points[np.argsort(np.max(relative, axis=0))[-CLIMBERS:]]


def polished_axis(axis: Axis, places: Array, wanted: Array, largest: float) -> tuple[Axis, Array]:
    r"""The axis, deformed so that values of least sup error err less, and values (p, k) to start from.

    What matters is low-dimensional, and is searched by Nelder and Mead's simplex with the values solved for at every
    trial: the sharpness and the length of a uniform row; of a graded one also its growth, tilt and bow
    (:func:`deformed`). The gain can be large: a head's output is a rational function of an exponential, whose
    poles lie $h\pi/2c$ off the real axis, and a row whose poles meet those of f follows it far more closely.

    Args:
        axis: where to start; returned as it is if nothing better is found.
        places: (N,) along the axis, dense where its anchors are; f is evaluated nowhere else.
        wanted: (N, k).
        largest: no value may be larger in absolute value.
    """
    from scipy.optimize import minimize  # slow to import, and only this needs it

    def error(parameters: Array) -> float:
        if np.abs(parameters).max() > FARTHEST:
            return math.log(WORST)
        return math.log(np.clip(_reach(deformed(axis, parameters), places, wanted, largest)[0], TINY, WORST))

    count = 2 if _is_uniform(axis) else 5
    found = np.zeros(count)
    for size in (SIMPLEX, -SIMPLEX) if len(axis) > 2 else ():
        simplex = found + size * np.eye(count + 1, count, -1)
        trial = minimize(
            error, found, method="Nelder-Mead", options={"initial_simplex": simplex, "maxfev": TRIALS * count}
        )
        found = np.asarray(trial.x)
    best = min((axis, deformed(axis, found)), key=lambda each: _reach(each, places, wanted, largest)[0])
    return best, _reach(best, places, wanted, largest)[1]


def deformed(axis: Axis, parameters: npt.ArrayLike) -> Axis:
    r"""As many anchors, with other gaps and sharpness.

    The sharpness becomes $c\,e^{\theta_0}$, the gaps $h_k \exp(\theta_1 + \theta_2 g_k + \theta_3 \xi_k + \theta_4 (2
    \xi_k^2 - 1))$, where $\xi_k$ runs from -1 to 1 and $g_k$ is the centred logarithm of $h_k$ over its range.

    Where a graded axis is finest f has a kink: there anchors stay, and gaps between two such places are scaled
    to fit. A uniform row takes two parameters, and stays uniform about its middle.

    >>> deformed(Axis.uniform(0.0, 1.0, 3, 0, 0.5), [0.0, np.log(2)]).positions.tolist()
    [-0.5, 0.5, 1.5]
    """
    theta = np.asarray(parameters, dtype=np.float64)
    c, ends, positions = axis.sharpness * math.exp(theta[0]), (axis.lower, axis.upper), axis.positions
    if _is_uniform(axis):
        step = float(positions[-1] - positions[0]) / max(1, len(axis) - 1) * math.exp(theta[1])
        whole = np.arange(len(axis)) - len(axis) // 2
        middle = float(positions[0] + positions[-1]) / 2
        return Axis.row(whole, middle - float(whole[0] + whole[-1]) / 2 * step, step, c, ends)
    gaps = np.diff(positions)
    logs, index = np.log(gaps), np.linspace(-1.0, 1.0, len(gaps))
    growth = (logs - logs.mean()) / np.ptp(logs)
    moved = np.exp(logs + theta[1] + theta[2] * growth + theta[3] * index + theta[4] * (2 * index**2 - 1))
    kept = _finest(logs)
    for left, right in pairwise(kept):
        moved[left:right] *= gaps[left:right].sum() / moved[left:right].sum()
    at = np.concatenate([[0.0], np.cumsum(moved)])
    at += positions[kept[0]] - at[kept[0]]
    return Axis.graded(at, *ends, c, float(at[moved.argmin()]))


def _is_uniform(axis: Axis) -> bool:
    gaps = np.diff(axis.positions)
    return not len(gaps) or float(np.ptp(gaps)) <= 1e-9 * float(gaps.max())


def _finest(logs: Array) -> list[int]:
    """Indices of valleys of the logarithms of gaps, deep on both sides; the deepest of all if there is none."""
    found = []
    for k in range(len(logs)):
        lower = np.flatnonzero(logs < logs[k])
        left = int(lower[lower < k].max(initial=-1)) + 1
        right = int(lower[lower > k].min(initial=len(logs)))
        if min(logs[left : k + 1].max(), logs[k:right].max()) - logs[k] > VALLEY:
            found.append(k)
    return found or [int(logs.argmin())]


def _reach(axis: Axis, places: Array, wanted: Array, largest: float) -> tuple[float, Array]:
    """The sup error of the best values found with this axis, and these values; infinite if none are tame."""
    weights = axis.weights(places)
    u, s, vt = np.linalg.svd(weights, full_matrices=False)
    projected, fits = u.T @ wanted, []
    for cut in cuts_between(1e-3, FINEST_CUT):
        kept = s > cut * s[0]
        values = vt[kept].T @ (projected[kept] / s[kept, None])
        if np.abs(values).max() > largest:
            break
        fits.append((float(np.abs(weights @ values - wanted).max()), values))
    if not fits:
        return math.inf, np.zeros((len(axis), wanted.shape[1]))
    start = min(fits, key=lambda fit: fit[0])[1]
    found = minimax_values(lambda _: weights, lambda _: wanted, start, places[:, None], largest, rounds=1)
    return float(found.error.max()), found.values

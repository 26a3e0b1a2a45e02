r"""How far T stacked blocks are from T exact steps, and from the minimiser, on given data.

Let $v_t$ be the iterates that float64 computes (any points near the exact ones would do), $w_t$ the exact iterates and
$\hat w_t$ the network's. A block adds to the exact step, taken from its own $\hat w_t$, at most $r_t$, entry by entry:
what residuals lack (:mod:`.links`), what their sum lacks (:mod:`.aggregation`), gates and rounding. With
$J_t$ the step's Jacobian between $w_t$ and $\hat w_t$, $\hat w_{t+1} - w_{t+1} = J_t(\hat w_t - w_t) + r_t$, hence
$$ |\hat w_T - w_T| \le \sum_t |J_{T-1} \cdots J_{t+1}|\, r_t , $$
entry by entry. $J_t$ is that at $v_t$ up to what the tube around $v_t$ allows: a curvature times its radius, and a
whole kink where a residual or a weight may lie on either side.

**The tube.** In the Euclidean norm a gradient step of a convex loss is Lipschitz with
$q = \max(|1 - \eta m|, |1 - \eta L|) \le 1$ for $\eta \le 2/L$, proximal maps do not expand, so radii obey
$R_{t+1} = q_t R_t + |r_t|$ with $q_t$ the smaller of q and the norm of $J_t$, and so do the distances of $v_t$. The
same recursion bounds the drift once more, and with q says how fast the stack converges: it ends within
$R_T + |v_{T+1} - v_T|/(1 - q)$ of the minimiser.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attnforge.balls import Machine, gamma
from attnforge.certification.in_context.aggregation import rounding, transmission, truncation, variation
from attnforge.certification.in_context.links import LARGEST, Sizes, gate_error, residual_error
from attnforge.certification.in_context.range import check_range
from attnforge.certification.in_context.reading import Step
from attnforge.errors import CertificateError, RefusalError
from attnforge.lemmas.link_row import LOGISTIC_BEND
from attnforge.targets.in_context.algorithm import Algorithm
from attnforge.targets.in_context.features import Features

Array = npt.NDArray[np.float64]
Parts = dict[str, Array]

CURVATURE = {"identity": 1.0, "clamp": 1.0, "logistic": 0.25, "softmax": 0.5}
"""The largest derivative of a residual by a form (of a softmax: the largest eigenvalue)."""

BEND = {"identity": 0.0, "clamp": 0.0, "logistic": LOGISTIC_BEND, "softmax": 1.5}
"""How much a derivative of a residual changes with a form: $|p_a' (1 + p_b) + p_a p_b'| \\le 3/2$ for a softmax."""

UNDERFLOWN = 750.0  # a score so far below the others weighs nothing in float64
SLACK = 1 + 2.0**-20  # of the evaluation of sums of non-negative terms in float64


@dataclass(frozen=True, eq=False)
class Drift:
    """Bounds for one prompt: of the drift (d, K) by parts, of one step by parts, in the Euclidean norm, and q.

    ``minimiser`` is None where q = 1: nothing then says how fast the exact iteration converges.
    """

    parts: dict[str, float]
    step: dict[str, float]
    euclidean: float
    contraction: float
    minimiser: float | None


def prompt_drift(
    steps: Sequence[Step], algorithm: Algorithm, features: Features, machine: Machine, x: Array, y: Array
) -> Drift:
    """The bounds for examples x (n, d) and y (n, K): K classes as unit vectors, labels 0 and 1."""
    problem = _Problem(algorithm, features, machine, x, y)
    v, network, reference, mirror = np.zeros((x.shape[1], y.shape[1])), 0.0, 0.0, 0.0
    errors: list[Parts] = []
    jacobians: list[tuple[Array, Array]] = []
    for step in steps:
        tube = (network + reference) * SLACK
        here = problem.step_error(step, v, tube, mirror)
        jacobians.append(problem.jacobian(v, tube))
        errors.append(here)
        q = min(problem.contraction(v, tube), _norm(jacobians[-1][0]) + _norm(jacobians[-1][1]))
        added = 2 * float(np.linalg.norm(here["rounding"]) + np.linalg.norm(here.get("gate", 0.0)))
        mirror = mirror * growth(step) + added
        network = (q * network + float(np.linalg.norm(np.add.reduce(list(here.values()))))) * SLACK
        reference = (q * reference + problem.iteration_rounding(v, tube)) * SLACK
        v = problem.step(v)
    totals = _carried(errors, jacobians)
    worst = np.unravel_index(int(np.argmax(np.add.reduce(list(totals.values())))), v.shape)
    parts = {name: float(total[worst]) * SLACK for name, total in totals.items()}
    if network < sum(parts.values()):
        parts = {name: value * network / sum(parts.values()) for name, value in parts.items()}
    largest = max(errors, key=lambda each: float(np.add.reduce(list(each.values())).max()))
    q = problem.contraction(v, (network + reference) * SLACK)
    change = float(np.linalg.norm(problem.step(v) - v)) + problem.iteration_rounding(v, network + reference)
    away = None if q >= 1.0 else (network + (change + (1 + q) * reference) / (1.0 - q)) * SLACK
    step_parts = {name: float(each.max()) for name, each in largest.items()}
    return Drift(parts, step_parts, network, q, away)


def _norm(matrix: Array) -> float:
    """A bound of the spectral norm."""
    return float(np.linalg.norm(matrix, 2)) * (1 + 2.0**-40)


def _carried(errors: list[Parts], jacobians: list[tuple[Array, Array]]) -> Parts:
    """The sum over steps of |product of later Jacobians| times the step's errors, part by part.

    The product is known up to a matrix of spectral norm ``radius``, no entry of which is larger.
    """
    shape = next(iter(errors[0].values())).shape
    size = math.prod(shape)
    product, radius = np.eye(size), 0.0
    totals = {name: np.zeros(size) for name in errors[0]}
    for here, (middle, spread) in zip(reversed(errors), reversed(jacobians), strict=True):
        for name, error in here.items():
            totals[name] += np.abs(product) @ error.ravel() + radius * float(np.linalg.norm(error))
        steep, doubt = _norm(middle), _norm(spread)
        rounded = gamma(size + 2) * _norm(np.abs(product)) * _norm(np.abs(middle))
        radius = radius * (steep + doubt) + _norm(product) * doubt + rounded
        product = product @ middle
    return {name: total.reshape(shape) for name, total in totals.items()}


class _Problem:
    """The examples, and what the bounds need of them."""

    def __init__(self, algorithm: Algorithm, features: Features, machine: Machine, x: Array, y: Array) -> None:
        self.algorithm, self.features, self.machine, self.x, self.y = algorithm, features, machine, x, y
        self.labels = y - algorithm.label_shift  # as tokens hold them
        self.size = np.abs(x)
        self.length = np.linalg.norm(x, axis=1)[:, None] * SLACK
        self.penalised = np.ones((x.shape[1], 1))
        self.penalised[x.shape[1] - algorithm.free :] = 0.0
        covariance = x.T @ x / len(x)
        self.covariance = covariance
        doubt = gamma(len(x) + 8 * x.shape[1] + 8) * float(np.trace(covariance))
        self.largest = float(np.linalg.eigvalsh(covariance)[-1]) + doubt
        penalty = algorithm.l2 * self.penalised[:, 0]
        convex = float(np.linalg.eigvalsh(covariance + np.diag(penalty))[0]) - doubt
        least = convex if algorithm.link == "identity" else penalty.min()
        self.least = max(float(least), 0.0)

    def step(self, v: Array) -> Array:
        return self.algorithm.step(self.x, self.y, v)

    def contraction(self, v: Array, tube: float) -> float:
        """The Lipschitz constant of a step inside the tube; refused where a step may expand."""
        rate, most = self.algorithm.learning_rate, self._curvature(v, tube) + self.algorithm.l2
        if rate * most > 2.0 * (1 + 1e-9):
            got = f"{rate:.3g} where the data's curvature is {most:.3g}"
            raise RefusalError("The step size must be at most two over the curvature", got, f"Use {1 / most:.2g}")
        return float(min(1.0, max(abs(1 - rate * self.least), abs(1 - rate * most)) * (1 + 2.0**-40)))

    def step_error(self, step: Step, v: Array, tube: float, mirror: float) -> Parts:
        """What one block adds to the exact step from its own weights, (d, K), by parts."""
        algorithm, machine, rate = self.algorithm, self.machine, self.algorithm.learning_rate
        check_wiring(step, algorithm, self.features)
        sizes, doubt = self._sizes(v, tube, mirror), self.moved(v, tube)
        residuals = algorithm.residuals(self.x, self.y, v)
        link = residual_error(step, algorithm, self.features, machine, sizes)
        largest = np.abs(residuals) + doubt + link
        check_silence(step, float(largest.max()))
        inputs, labels, held = (float(np.abs(each).max()) for each in (self.x, self.labels, np.abs(v) + tube))
        check_range(step, self.features, machine, inputs, labels, held, float(largest.max()))
        bent = truncation(step.heads, rate, self.x, residuals) + variation(step, rate, self.x, residuals, doubt)
        scored = sizes.products + sizes.label if step.link is None else largest + 2 * np.abs(self.labels)
        shift, ahead = float((doubt + link).max()), self.features.ahead
        weight, added = np.abs(v) + tube, 1.1 * _added(step, self.size, largest)
        decay = np.abs(step.decay[:, None] + rate * algorithm.l2 * self.penalised) + 2.0**-52 * rate * algorithm.l2
        after = weight * (1 + np.abs(step.decay[:, None])) + added
        found = {
            "aggregation": bent + decay * weight,
            "rounding": rounding(step, machine, self.x, residuals, shift, scored, ahead)
            + written(step, machine) * after,
        }
        if step.link is not None:
            found["link"] = transmission(step, self.x, residuals, link)
        return {name: part * SLACK for name, part in {**found, **self._gates(step, after)}.items()}

    def _gates(self, step: Step, weight: Array) -> Parts:
        """The proximal map: one gate a penalised weight, as steep and as wide as the block has them."""
        threshold = self.algorithm.learning_rate * self.algorithm.l1 * self.penalised[:, 0]
        if not threshold.any() and not any(step.gates):
            return {}
        error = np.zeros_like(weight)
        for j, gate in enumerate(step.gates):
            if gate is None:
                error[j] = min(threshold[j], np.inf)
                continue
            reach = abs(gate.reach - threshold[j]) + 2.0**-52 * threshold[j]
            if gate.factor != -1.0:
                raise CertificateError("A proximal gate takes the clamp away once", f"factor {gate.factor}", "Rebuild")
            error[j] = gate_error(gate, self.machine, weight[j]) + reach + gamma(4, self.machine.roundoff) * weight[j]
        return {"gate": error}

    def jacobian(self, v: Array, tube: float) -> tuple[Array, Array]:
        """The step's Jacobian (d K, d K) anywhere in the tube: middle and radius."""
        rate, n, (d, k) = self.algorithm.learning_rate, len(self.x), v.shape
        slope, doubt = self._slopes(v, tube)
        doubt = doubt + gamma(2 * n + 8) * np.abs(slope)
        curved = np.stack([[self.x.T * slope[:, a, b] @ self.x for b in range(k)] for a in range(k)])
        unsure = np.stack([[self.size.T * doubt[:, a, b] @ self.size for b in range(k)] for a in range(k)])
        kept = np.broadcast_to(1 - rate * self.algorithm.l2 * self.penalised, (d, k)).ravel()
        middle = np.diag(kept) - rate / n * curved.transpose(2, 0, 3, 1).reshape(d * k, d * k)
        spread = np.diag(np.full(d * k, 2.0**-50)) + rate / n * unsure.transpose(2, 0, 3, 1).reshape(d * k, d * k)
        return self._after_gates(v, tube, middle, spread)

    def _after_gates(self, v: Array, tube: float, middle: Array, spread: Array) -> tuple[Array, Array]:
        """Rows of weights that the proximal map sets to zero are dropped; halved, where it may or may not."""
        rate, n = self.algorithm.learning_rate, len(self.x)
        threshold = np.broadcast_to(rate * self.algorithm.l1 * self.penalised, v.shape)
        if not threshold.any():
            return middle, spread
        gradient = self.x.T @ self.algorithm.residuals(self.x, self.y, v) / n + self.algorithm.l2 * self.penalised * v
        moved = np.abs(v - rate * gradient)
        doubt = tube + gamma(4 * n + 40) * (
            np.abs(v) + rate * self.size.T @ (self.size @ np.abs(v) + np.abs(self.y)) / n
        )
        unsure = ((np.abs(moved - threshold) <= doubt) & (threshold > 0)).ravel()
        keep = np.where(unsure, 0.5, (moved.ravel() > threshold.ravel()) | (threshold.ravel() == 0))[:, None]
        either = np.where(unsure, 0.5, 0.0)[:, None]
        return keep * middle, (keep + either) * spread + either * np.abs(middle)

    def _slopes(self, v: Array, tube: float) -> tuple[Array, Array]:
        """Derivatives (n, K, K) of residuals by forms, and how much they may differ inside the tube."""
        form, n = self.x @ v, len(self.x)
        moved = (self.length * tube + gamma(8 * len(v)) * (self.size @ np.abs(v) + 1))[:, :, None]
        match self.algorithm.link:
            case "identity":
                return np.ones((n, 1, 1)), np.zeros((n, 1, 1))
            case "clamp":
                away = np.abs(np.abs(form - self.y) - self.algorithm.delta)[:, :, None]
                inside = (np.abs(form - self.y) < self.algorithm.delta)[:, :, None]
                unsure = away <= moved
                return np.where(unsure, 0.5, inside.astype(float)), np.where(unsure, 0.5, 0.0)
            case "softmax":
                p = self.algorithm.residuals(self.x, np.zeros_like(self.y), v)
                slope = p[:, :, None] * np.eye(p.shape[1]) - p[:, :, None] * p[:, None, :]
                return slope, np.broadcast_to(BEND["softmax"] * moved[:, :1] + 2.0**-45, slope.shape)
        steep = np.exp(np.minimum(form, LARGEST))[:, :, None]
        if self.algorithm.link == "exponential":
            return steep, steep * np.expm1(np.minimum(moved, 1.0)) + np.where(moved < 1.0, 0.0, math.inf)
        p = self.algorithm.residuals(self.x, np.zeros_like(self.y), v)[:, :, None]
        return p * (1 - p), BEND["logistic"] * moved + 2.0**-48

    def moved(self, v: Array, tube: float) -> Array:
        """How far (n, K) the network's residuals may be from those computed at v."""
        form = self.length * tube + gamma(8 * len(v)) * (self.size @ np.abs(v) + np.abs(self.y))
        return np.asarray(self._steepest_each(v, tube) * form + 2.0**-50)

    def iteration_rounding(self, v: Array, tube: float) -> float:
        """A bound, in the Euclidean norm, of what float64 makes of one exact step from v."""
        form = self.size @ np.abs(v) + np.abs(self.y) + 1
        residuals = np.abs(self.algorithm.residuals(self.x, self.y, v)) + 1.0
        lost = self.size.T @ (self._steepest_each(v, tube) * form + residuals) / len(self.x)
        rate = self.algorithm.learning_rate
        return float(np.linalg.norm(gamma(2 * len(self.x) + 8 * len(v) + 40) * (rate * lost + 2 * np.abs(v))))

    def _sizes(self, v: Array, tube: float, mirror: float) -> Sizes:
        form = np.abs(self.x @ v) + self.length * tube
        products = self.size @ (np.abs(v) + tube)
        apart, doubt = np.abs(self.x @ v - self.y), self.moved(v, tube)
        known = (np.maximum(apart - doubt, 0.0), apart + doubt) if self.algorithm.link == "clamp" else (None, None)
        return Sizes(form * SLACK, products * SLACK, np.abs(self.labels), self.length, mirror, *known)

    def _curvature(self, v: Array, tube: float) -> float:
        """The largest curvature of the mean of the losses inside the tube."""
        if self.algorithm.link in CURVATURE:
            return CURVATURE[self.algorithm.link] * self.largest
        weighted = self.x.T * self._steepest_each(v, tube)[:, 0] @ self.x / len(self.x)
        return float(np.linalg.eigvalsh(weighted)[-1]) + gamma(len(self.x) + 8 * len(v) + 8) * float(np.trace(weighted))

    def _steepest_each(self, v: Array, tube: float) -> Array:
        """The largest derivative of each residual by its form, (n, K)."""
        if self.algorithm.link != "exponential":
            return np.ones((len(self.x), 1))
        return np.asarray(np.exp(np.minimum(self.x @ v + self.length * tube, LARGEST)) * SLACK)


def _added(step: Step, size: Array, residuals: Array) -> Array:
    """A bound (d, K) of what the sum over examples adds to w, head by head."""
    return np.asarray(sum(abs(beta * f) for beta, f in step.heads) * (size.T @ residuals) / len(size))


def written(step: Step, machine: Machine) -> float:
    """Roundings of what heads write and of adding it to w: groups of like heads are added one after the other."""
    return gamma(len(step.weights) + 6, machine.roundoff)


def growth(step: Step) -> float:
    """How much of a difference between a state token and its mirror image is left: sums over examples are odd."""
    return float(np.abs(1 + step.decay).max())


def check_wiring(step: Step, algorithm: Algorithm, features: Features) -> None:
    """Residuals of squares are read directly, unless they are interpolated; others need a link."""
    if (step.link is None) != (algorithm.link == "identity" and not features.levels):
        got = "a link" if step.link else "none"
        raise CertificateError("Only residuals of squares are read without a link", got, "Rebuild the network")


def check_silence(step: Step, reach: float) -> None:
    """State tokens and anchors must weigh nothing as keys of the sum over examples."""
    loudest = max(abs(beta) for beta, _ in step.heads) * (2 * reach + step.idle)
    if not step.silence - loudest > UNDERFLOWN:
        got = f"a score of {-step.silence:g} beside scores up to {loudest:.3g}"
        raise RefusalError("Tokens that are no examples must be silenced", got, "Use a smaller step size or data bound")

r"""How far T stacked blocks are from T exact steps, and from the minimiser, on given data.

Let $v_t$ be the iterates that float64 computes (any points near the exact ones would do), $w_t$ the exact iterates and
$\hat w_t$ the network's. A block adds to the exact step, taken from its own $\hat w_t$, at most $r_t$, entry by entry:
what residuals lack (:mod:`.links`), what their sum lacks (:mod:`.aggregation`), gates and rounding. With
$J_t$ the step's Jacobian between $w_t$ and $\hat w_t$, $\hat w_{t+1} - w_{t+1} = J_t(\hat w_t - w_t) + r_t$, hence
$$ |\hat w_T - w_T| \le \sum_t |J_{T-1} \cdots J_{t+1}|\, r_t , $$
entry by entry: steps are blocks of :mod:`attnforge.certification.registers`. $J_t$ is that at $v_t$ up to what the tube
around $v_t$ allows: a curvature times its radius, and a whole kink where a residual or a weight may lie on either side.

**The tube.** In the Euclidean norm a gradient step of a convex loss is Lipschitz with
$q = \max(|1 - \eta m|, |1 - \eta L|) \le 1$ for $\eta \le 2/L$, proximal maps do not expand, so radii obey
$R_{t+1} = q_t R_t + |r_t|$ with $q_t$ the smaller of q and the norm of $J_t$, and so do the distances of $v_t$: two
more columns of errors, of all parts together and of float64. The same recursion bounds the drift once more, and with q
says how fast the stack converges: it ends within $R_T + |v_{T+1} - v_T|/(1 - q)$ of the minimiser.

**Steps that expand**, made for the spectrum of a quadratic objective, are carried by eigenvectors instead
(:mod:`.spectral`), and end within $|p_T(H)| |w_0 - w^*|$ of the minimiser.

How far the two state tokens of one output are from mirror images is a register of its own, which the sum over examples
does not read: it keeps $1 + \text{decay}$ of itself and is bounded by that recursion, in the Euclidean norm alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from attnforge.certification.in_context.aggregation import rounding, transmission, truncation, variation
from attnforge.certification.in_context.links import NOTHING, Sizes, gate_error, residual_error
from attnforge.certification.in_context.range import check_range
from attnforge.certification.in_context.reading import Step
from attnforge.certification.in_context.spectral import Commuting, eigenvalues
from attnforge.certification.registers import Registers
from attnforge.errors import CertificateError, RefusalError
from attnforge.lemmas.link_row import LOGISTIC_BEND
from attnforge.outward import Balls, Machine, Up, down, gamma, spectral_norm, up
from attnforge.targets.in_context import Iteration
from attnforge.targets.in_context.algorithm import Algorithm
from attnforge.targets.in_context.features import Features

Array = npt.NDArray[np.float64]
Parts = dict[str, Up]

PARTS = ("aggregation", "rounding", "link", "gate")

CURVATURE = {"identity": 1.0, "clamp": 1.0, "logistic": 0.25, "softmax": 0.5}
"""The largest derivative of a residual by a form (of a softmax: the largest eigenvalue)."""

BEND = {"logistic": LOGISTIC_BEND, "softmax": 1.5}
"""How much a derivative of a residual changes with a form: $|p_a' (1 + p_b) + p_a p_b'| \\le 3/2$ for a softmax."""

UNDERFLOWN = 750.0  # a score so far below the others weighs nothing in float64
EDGE = 2 * (1 + 1e-9)  # step sizes of exactly two over the curvature are not refused for a rounding


@dataclass(frozen=True, eq=False)
class Drift:
    """Bounds for one prompt: of the drift (d, K) by parts, of one step by parts, and q.

    ``minimiser`` is None where q = 1: nothing then says how fast the exact iteration converges.
    """

    parts: dict[str, float]
    step: dict[str, float]
    contraction: float
    minimiser: float | None


def prompt_drift(steps: Sequence[Step], target: Iteration, machine: Machine, x: Array, y: Array) -> Drift:
    """The bounds for examples x (n, d) and y (n, K): K classes as unit vectors, labels 0 and 1."""
    problem, v, mirror, errors = _Problem(target.algorithm, target.features, machine, x, y), target.start, NOTHING, []
    of = {target.algorithm: problem}
    held = machine.cast(Up.of(v))  # of first weights, in tokens
    first = columns({"rounding": held})
    carrier = _Expanding(problem, target, first) if target.spectrum else _Contracting(first)
    for t, step in enumerate(steps):
        algorithm = target.at(t)
        problem = of.setdefault(algorithm, problem.at(algorithm))
        tube = carrier.length()[-2:].sum()
        here, lost = problem.step_error(step, v, tube, mirror), problem.iteration_rounding(v, tube)
        carrier.step(problem, v, tube, columns(here, lost))
        mirror = mirror * growth(step) + unmirrored({name: part.norm().norm() for name, part in here.items()})
        errors.append(here)
        v = problem.step(v)
    q, minimiser = carrier.convergence(problem, v)
    names = [name for name in PARTS if any(name in each for each in errors)]
    largest = max((columns(each)[:, : len(PARTS)] for each in errors), key=lambda each: float(each.sum().most()))
    totals = carrier.swept()
    parts = within(_worst(totals[:, : len(PARTS)]), float(totals[:, -2].most()))
    return Drift(
        {name: part for name, part in zip(PARTS, parts, strict=True) if name in names},
        {name: part for name, part in zip(PARTS, largest.most(0).values.tolist(), strict=True) if name in names},
        float(q),
        minimiser,
    )


class _Contracting:
    """Errors through steps that do not expand: by their Jacobians, entry by entry, and by Lipschitz constants."""

    def __init__(self, first: Up) -> None:
        self.registers = Registers()
        self.block = self.registers.start(first)

    def length(self) -> Up:
        return self.registers.length(self.block)

    def step(self, problem: _Problem, v: Array, tube: Up, local: Up) -> None:
        jacobian, slopes = problem.jacobian(v, tube), problem.gate_slopes(v, tube)
        q = problem.contraction(v, tube).least(problem.steepness(jacobian, slopes))
        self.block = self.registers.step(self.block, jacobian, slopes, q, local)

    def swept(self) -> Up:
        return self.registers.swept(self.block)

    def convergence(self, problem: _Problem, v: Array) -> tuple[Up, float | None]:
        """The factor of another step, and how far the minimiser may be; None where nothing says so."""
        network, reference = self.length()[-2], self.length()[-1]
        q = problem.contraction(v, network + reference)
        return q, problem.away(v, network, reference, q)


class _Expanding:
    """Errors through steps of a quadratic objective that may expand, by eigenvectors."""

    def __init__(self, problem: _Problem, target: Iteration, first: Up) -> None:
        spectrum = eigenvalues(problem.hessian)
        ends = down(float(spectrum.mid[0] - spectrum.rad[0])), float(Up.of(spectrum).most())
        target.check_eigenvalues(*ends)
        self.errors, self.ends = Commuting(spectrum, target.start.size, first.norm(-2)), ends
        self.steps, self.first = target.steps, target.start

    def length(self) -> Up:
        return self.errors.length()

    def step(self, problem: _Problem, _v: Array, _tube: Up, local: Up) -> None:
        self.errors.step(problem.algorithm.learning_rate, local.norm(-2))

    def swept(self) -> Up:
        return self.errors.swept()[None]

    def convergence(self, problem: _Problem, v: Array) -> tuple[Up, float | None]:
        """The factor of a step on average, and how far the minimiser may be.

        That is p_T of the first distance to it, of which one more step, of constant size, knows enough.
        """
        network, reference = self.swept()[0, -2], self.swept()[0, -1]
        constant = problem.at(replace(problem.algorithm, learning_rate=2 / sum(self.ends)))
        away = constant.away(v, network, reference, constant.contraction(v, network + reference))
        if away is None:
            return self.errors.grown(), None
        apart = Up.of(Balls.exact(v) - Balls.exact(self.first)).norm().norm()  # v to w_0, and on to the minimiser
        reached = network + self.errors.grown() * (apart + away)
        return Up.of(up(float(self.errors.grown()) ** (1 / self.steps))), float(reached.least(away))


def columns(here: Parts, lost: Up | None = None) -> Up:
    """Errors (m, parts) as registers have them; followed by all of them together, and by those of float64."""
    every = [here.get(name, here["rounding"] * 0.0) for name in PARTS]
    every += [sum(every[1:], start=every[0]), every[0] * 0.0 if lost is None else lost]
    return Up(np.stack([each.values.ravel() for each in every], axis=-1))


def _worst(parts: Up) -> list[float]:
    """The parts (P,) of the register (m, P) where their sum is largest."""
    return list(parts.values[int(np.argmax(parts.sum().values))].tolist())


def within(parts: list[float], whole: float) -> list[float]:
    """The parts in proportion, where more is known of them together; they add up to no less."""
    total = math.fsum(parts)
    return parts if not whole < total else [float(Up.of(part) * whole / down(total)) for part in parts]


def unmirrored(norms: Parts) -> Up:
    """What a step adds to the distance of the two state tokens' sum from zero: sums over examples are odd."""
    return 2.0 * (norms["rounding"] + norms.get("gate", NOTHING))


class _Problem:
    """The examples, and what the bounds need of them."""

    def __init__(self, algorithm: Algorithm, features: Features, machine: Machine, x: Array, y: Array) -> None:
        self.algorithm, self.features, self.machine, self.x, self.y = algorithm, features, machine, x, y
        self.labels = Up.of(Balls.exact(y) - Balls.exact(algorithm.label_shift))  # as tokens hold them
        self.size, self.length = Up.of(x), Up.of(x).norm()[:, None]
        self.penalised = algorithm.penalised(x.shape[1])
        self.inverse, self.is_linear = Balls.exact(len(x)).inverse(), algorithm.link == "identity"
        self.largest = spectral_norm(Balls.exact(x)) ** 2 / len(x)
        penalty = algorithm.l2 * self.penalised
        self.least = self._least(penalty) if self.is_linear else float(penalty.min())

    def at(self, algorithm: Algorithm) -> _Problem:
        """The same examples with another step size."""
        found = copy(self)
        found.algorithm = algorithm
        for name in ("_linear", "_linear_norm"):  # that depend on it
            found.__dict__.pop(name, None)
        return found

    @cached_property
    def hessian(self) -> Balls:
        """That of squares, X^T X / n + penalty."""
        penalty = Balls.exact(np.diag(self.algorithm.l2 * self.penalised))
        return Balls.exact(self.x.T) @ Balls.exact(self.x) * self.inverse + penalty

    def _least(self, penalty: Array) -> float:
        """A lower bound of the smallest eigenvalue of X^T X / n + penalty: any c less the norm of c minus it."""
        c = float(self.largest + penalty.max())
        return max(down(c - float(spectral_norm(Balls.exact(c * np.eye(len(penalty))) - self.hessian))), 0.0)

    def away(self, v: Array, network: Up, reference: Up, q: Up) -> float | None:
        """How far a run this far from the exact iterate, and v as float64 has it, are from the minimiser.

        The next step of a map with Lipschitz constant q says so; None where that is 1.
        """
        change = Up.of(Balls.exact(self.step(v)) - Balls.exact(v)).norm().norm()
        change = change + self.iteration_rounding(v, network + reference).norm().norm()
        away = network + (change + (1.0 + q) * reference) / down(1 - float(q))
        return float(away) if float(q) < 1 else None

    def step(self, v: Array) -> Array:
        return self.algorithm.step(self.x, self.y, v)

    def contraction(self, v: Array, tube: Up) -> Up:
        """The Lipschitz constant of a step inside the tube; refused where a step may expand."""
        rate, most = self.algorithm.learning_rate, self._curvature(v, tube) + self.algorithm.l2
        if not float(rate * most) <= EDGE:
            got = f"{rate:.3g} where the data's curvature is {float(most):.3g}"
            remedy = f"Use {1 / float(most):.2g}"
            raise RefusalError("The step size must be at most two over the curvature", got, remedy)
        ends = Balls.exact(1.0) - Balls.exact(rate) * Balls.exact([self.least, float(most)])
        return Up.of(ends).most().least(1.0 if float(rate * most) <= 2.0 else EDGE)

    def step_error(self, step: Step, v: Array, tube: Up, mirror: Up) -> Parts:
        """What one block adds to the exact step from its own weights, (d, K), by parts."""
        algorithm, machine, rate = self.algorithm, self.machine, self.algorithm.learning_rate
        check_wiring(step, algorithm, self.features)
        doubt = self.moved(v, tube)
        sizes = self._sizes(v, tube, mirror, doubt)
        residuals, weight = algorithm.residuals(self.x, self.y, v), tube + np.abs(v)
        link = residual_error(step, algorithm, self.features, machine, sizes)
        largest = doubt + link + residuals
        check_silence(step, float(largest.most()))
        tokens = (float(each.most()) for each in (self.size, self.labels, weight, largest))
        check_range(step, self.features, machine, *tokens)
        bent = truncation(step.heads, rate, self.x, residuals) + variation(step, rate, self.x, residuals, doubt)
        scored = sizes.products + sizes.label if step.link is None else largest + 2 * self.labels
        added = [abs(f) * self._summed(largest * beta) for beta, f in step.heads]
        after = sum(added, start=weight * (1.0 + Up.of(step.decay)[:, None]))
        shift, ahead = (doubt + link).most(), self.features.ahead
        parts = {
            "aggregation": bent + decay_error(step, algorithm)[:, None] * weight,
            "rounding": rounding(step, machine, self.x, residuals, shift, scored, ahead)
            + written(step, machine, after),
        }
        if step.link is not None:
            parts["link"] = transmission(step, self.x, residuals, link)
        return parts | gates(step, algorithm, machine, after)

    def _summed(self, z: Up) -> Up:
        """The size (d, K) of a head's mean, its scores up to z (n, K): sinh over a mean of cosh, at most tanh."""
        return (self.size.T @ z.sinh() / len(self.x)).least(self.size.most(0)[:, None] * z.most(0).tanh())

    def jacobian(self, v: Array, tube: Up) -> Balls:
        """The gradient step's Jacobian (d K, d K) anywhere in the tube; symmetric."""
        return self._linear if self.is_linear else self._jacobian(self._slopes(v, tube))

    def steepness(self, jacobian: Balls, slopes: Balls) -> Up:
        """The Euclidean norm of the Jacobian of a whole step."""
        if self.is_linear and not self.algorithm.l1:
            return self._linear_norm
        return spectral_norm(slopes[:, None] * jacobian)

    @cached_property
    def _linear(self) -> Balls:
        """That of squares, everywhere."""
        k = self.y.shape[1]
        return self._jacobian(Balls.exact(np.broadcast_to(np.eye(k), (len(self.x), k, k))))

    @cached_property
    def _linear_norm(self) -> Up:
        return spectral_norm(self._linear)

    def _jacobian(self, slope: Balls) -> Balls:
        """From the slopes (n, K, K) of residuals."""
        rate, k, d = Balls.exact(self.algorithm.learning_rate), slope.shape[1], self.x.shape[1]
        slopes = Balls(*(part.transpose(1, 2, 0)[:, :, None] for part in (slope.mid, slope.rad)))
        curved = Balls.exact(self.x.T) * slopes @ Balls.exact(self.x) * rate * self.inverse
        curved = Balls(*(part.transpose(2, 0, 3, 1).reshape(d * k, d * k) for part in (curved.mid, curved.rad)))
        penalty = np.diag(np.repeat(self.algorithm.l2 * self.penalised, k))
        return Balls.exact(np.eye(d * k)) - rate * Balls.exact(penalty) - curved

    def gate_slopes(self, v: Array, tube: Up) -> Balls:
        """Slopes (d K,) of the proximal map: 0 for weights it sets to zero, 1 for others, either where it may."""
        if not self.algorithm.l1:
            return Balls.exact(np.ones(v.size))
        smooth = replace(self.algorithm, l1=0.0).step(self.x, self.y, v).ravel()
        threshold = np.repeat(self.algorithm.learning_rate * self.algorithm.l1 * self.penalised, v.shape[1])
        doubt = tube + self.iteration_rounding(v, tube) + gamma(4) * threshold.max()
        unsure = (np.abs(np.abs(smooth) - threshold) <= doubt.values.ravel()) & (threshold > 0)
        return Balls(np.where(unsure, 0.5, np.abs(smooth) > threshold), np.where(unsure, 0.5, 0.0))

    def _slopes(self, v: Array, tube: Up) -> Balls:
        """Derivatives (n, K, K) of residuals by forms, anywhere in the tube."""
        form, link, moved = self.x @ v, self.algorithm.link, self._form_moved(v, tube).most(1)[:, None, None]
        if link == "clamp":
            away = (np.abs(form - self.y) - self.algorithm.delta)[:, :, None]
            unsure = np.abs(away) <= (moved + gamma(4) * self.algorithm.delta).values
            return Balls(np.where(unsure, 0.5, away < 0), np.where(unsure, 0.5, 0.0))
        if link == "exponential":
            steep = np.exp(form)[:, :, None]
            return Balls(steep, (steep * (moved.expm1() + gamma(32))).values)
        p = self.algorithm.residuals(self.x, np.zeros_like(self.y), v)
        slope = p[:, :, None] * (np.eye(p.shape[1]) - p[:, None, :])
        return Balls(slope, np.broadcast_to((BEND[link] * moved + gamma(256)).values, slope.shape))

    def _form_moved(self, v: Array, tube: Up) -> Up:
        """How far (n, K) the network's forms w.x - y may be from those computed at v."""
        return self.length * tube + gamma(8 * len(v)) * (self.size @ Up.of(v) + self.y)

    def moved(self, v: Array, tube: Up) -> Up:
        """How far (n, K) the network's residuals may be from those computed at v, their functions to 32 roundoffs."""
        evaluated = gamma(8 if self.algorithm.link in ("identity", "clamp") else 32)
        return self._steepest_each(v, tube) * (self._form_moved(v, tube) + evaluated)

    def iteration_rounding(self, v: Array, tube: Up) -> Up:
        """What float64 makes (d, K) of one exact step from v."""
        form = self.size @ Up.of(v) + self.y + 1.0
        residuals = Up.of(self.algorithm.residuals(self.x, self.y, v)) + 1.0
        lost = self.size.T @ (self._steepest_each(v, tube) * form + residuals) / len(self.x)
        return gamma(2 * len(self.x) + 8 * len(v) + 40) * (self.algorithm.learning_rate * lost + 2 * np.abs(v))

    def _sizes(self, v: Array, tube: Up, mirror: Up, doubt: Up) -> Sizes:
        form = Up.of(Balls.exact(self.x) @ Balls.exact(v)) + self.length * tube
        sizes = Sizes(form, self.size @ (tube + np.abs(v)), self.labels, self.length, mirror)
        if self.algorithm.link != "clamp":
            return sizes
        apart = np.abs(self.x @ v - self.y)
        least = np.maximum(np.nextafter(apart - doubt.values, -np.inf), 0.0)
        return Sizes(form, sizes.products, self.labels, self.length, mirror, least, doubt + apart)

    def _curvature(self, v: Array, tube: Up) -> Up:
        """The largest curvature of the mean of the losses inside the tube."""
        if self.algorithm.link in CURVATURE:
            return CURVATURE[self.algorithm.link] * self.largest
        roots = Balls.exact(self._steepest_each(v, tube).root().values)
        return spectral_norm(roots * Balls.exact(self.x)) ** 2 / len(self.x)

    def _steepest_each(self, v: Array, tube: Up) -> Up:
        """The largest derivative of each residual by its form, (n, K)."""
        if self.algorithm.link != "exponential":
            return Up.of(np.ones((len(self.x), 1)))
        form = Balls.exact(self.x) @ Balls.exact(v)
        return Up.exp_of(np.nextafter(form.mid + (Up.of(form.rad) + self.length * tube).values, np.inf))


def gates(step: Step, algorithm: Algorithm, machine: Machine, weight: Up) -> Parts:
    """The proximal map (d, ...): one gate a penalised weight, as steep and as wide as the block has them."""
    if not algorithm.l1 and not any(step.gates):
        return {}
    wanted, errors = _step_times(algorithm, algorithm.l1, len(step.decay)), []
    for j, gate in enumerate(step.gates):
        size = weight[j]
        if gate is None:
            errors.append(size * 0.0 + Up.of(wanted[j]))
            continue
        if gate.factor != -1.0:
            raise CertificateError("A proximal gate takes the clamp away once", f"factor {gate.factor}", "Rebuild")
        apart = Up.of(Balls.exact(gate.reach) - wanted[j])
        errors.append(gate_error(gate, machine, size) + apart + gamma(4, machine.roundoff) * size)
    return {"gate": Up(np.stack([error.values for error in errors]))}


def decay_error(step: Step, algorithm: Algorithm) -> Up:
    """How far (d,) what a block takes away of w is from the penalty's; products of weights are rounded once."""
    return Up.of(Balls.exact(step.decay) + _step_times(algorithm, algorithm.l2, len(step.decay))) + Up.of(
        step.decay
    ) * gamma(2)


def _step_times(algorithm: Algorithm, penalty: float, inputs: int) -> Balls:
    """The step size times a penalty (d,), exactly."""
    return Balls.exact(algorithm.learning_rate) * Balls.exact(penalty * algorithm.penalised(inputs))


def written(step: Step, machine: Machine, size: Up) -> Up:
    """Roundings of what heads write and of adding it to w: groups of like heads are added one after the other."""
    return size * gamma(len(step.weights) + 6, machine.roundoff)


def growth(step: Step) -> Up:
    """How much of a difference between a state token and its mirror image is left."""
    return Up.of(Balls.exact(1.0) + Balls.exact(step.decay)).most()


def check_wiring(step: Step, algorithm: Algorithm, features: Features) -> None:
    """Residuals of squares are read directly, unless they are interpolated; others need a link."""
    if (step.link is None) != (algorithm.link == "identity" and not features.levels):
        got = "a link" if step.link else "none"
        raise CertificateError("Only residuals of squares are read without a link", got, "Rebuild the network")


def check_silence(step: Step, reach: float) -> None:
    """State tokens and anchors must weigh nothing as keys of the sum over examples."""
    loudest = float(Up.of([beta for beta, _ in step.heads]).most() * (2 * Up.of(reach) + step.idle))
    if not step.silence - loudest > UNDERFLOWN:
        got = f"a score of {-step.silence:g} beside scores up to {loudest:.3g}"
        raise RefusalError("Tokens that are no examples must be silenced", got, "Use a smaller step size or data bound")

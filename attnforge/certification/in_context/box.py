r"""How far T stacked blocks are from T exact steps on any examples of a box: $|x_{ij}| \le B$ and $|y_i| \le Y$.

**Where iterates go.** Let $\ell$ bound $|x_i|$ and L the curvature of the smooth part of the objective. For
$\eta L < 2$ a proximal gradient step lowers the objective by at least $(\frac1\eta - \frac L2)|w_{t+1} - w_t|^2$, and
the objective begins with $F_0$, the loss at w = 0, and is never negative. So
$$ |w_t| \le \sqrt{t \sum_s |w_{s+1} - w_s|^2} \le \sqrt{\frac{t\,\eta F_0}{1 - \eta L/2}} , $$
and with penalties also $|w_t| \le \sqrt{2F_0/\alpha_2}$. Residuals of squares obey $\frac1{2n}\sum r_i^2 \le F_0$, too.

**Drift.** Steps do not expand distances in the Euclidean norm (:mod:`.prompt`), so that the errors of blocks add up.
Each is bounded by the same parts as for given data, with sizes in place of data: sums over examples by every order of
addition, truncation by :func:`attnforge.lemmas.small_sharpness.combined_error`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attnforge.balls import Machine, gamma
from attnforge.certification.in_context.aggregation import BLOCK, gain_error
from attnforge.certification.in_context.links import Sizes, exponential, gate_error, residual_error
from attnforge.certification.in_context.prompt import (
    CURVATURE,
    SLACK,
    check_silence,
    check_wiring,
    growth,
    written,
)
from attnforge.certification.in_context.range import check_range
from attnforge.certification.in_context.reading import Step
from attnforge.errors import CertificateError, RefusalError
from attnforge.lemmas.small_sharpness import combined_error
from attnforge.targets.in_context.algorithm import Algorithm
from attnforge.targets.in_context.features import Features

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class DataBox:
    """``inputs`` bounds every |x_ij|, ``values`` every |y_i|; ``examples`` is the largest number of them."""

    inputs: float
    values: float
    examples: int


def box_drift(
    steps: Sequence[Step], algorithm: Algorithm, features: Features, machine: Machine, box: DataBox
) -> dict[str, float]:
    """Named parts of a bound, in the Euclidean norm and so in the sup norm, after all steps."""
    problem = _Box(algorithm, features, machine, box)
    apart, mirror = 0.0, 0.0
    totals: dict[str, float] = {}
    for t, step in enumerate(steps):
        here = problem.step_error(step, problem.weights(t), apart, mirror)
        for name, part in here.items():
            totals[name] = totals.get(name, 0.0) + part
        apart = sum(totals.values()) * SLACK
        mirror = mirror * growth(step) + 2 * (here["rounding"] + here.get("gate", 0.0))
    return {name: part * SLACK for name, part in totals.items()}


class _Box:
    """The box, and what every prompt in it obeys."""

    def __init__(self, algorithm: Algorithm, features: Features, machine: Machine, box: DataBox) -> None:
        self.algorithm, self.features, self.machine, self.box = algorithm, features, machine, box
        square = (features.inputs - algorithm.free) * box.inputs**2 + algorithm.free  # an intercept reads a one
        self.length = math.sqrt(square) * SLACK
        if algorithm.link == "exponential":
            got, remedy = "the exponential of w.x", "Certify prompts one by one: net.certify(X, y)"
            raise RefusalError("Over a box the loss must have a largest curvature", got, remedy)
        self.curvature = (CURVATURE[algorithm.link] * square + algorithm.l2) * SLACK
        if algorithm.learning_rate * self.curvature > 2 / SLACK**2:
            got = f"{algorithm.learning_rate:.3g} where data of this box may have curvature {self.curvature:.3g}"
            remedy = f"Use {1 / self.curvature:.2g}, or certify prompts one by one: net.certify(X, y)"
            raise RefusalError("The step size must be below two over the curvature", got, remedy)
        self.start = self._loss_at_zero()

    def _loss_at_zero(self) -> float:
        y, delta = self.box.values, self.algorithm.delta
        match self.algorithm.link:
            case "identity":
                return y * y / 2
            case "clamp":
                return min(y * y / 2, delta * y)
            case "logistic":
                return math.log(2.0) * SLACK
        return math.log(self.features.outputs) * SLACK

    def weights(self, t: int) -> float:
        """A bound of the exact iterate's Euclidean norm after t steps."""
        rate = self.algorithm.learning_rate
        room = 1 - rate * self.curvature / 2
        free = self.algorithm.free
        descent = math.sqrt(t * rate * self.start / room) if room > 0 else math.inf
        ridge = math.sqrt(2 * self.start / self.algorithm.l2) if self.algorithm.l2 and not free else math.inf
        lasso = self.start / self.algorithm.l1 if self.algorithm.l1 and not free else math.inf
        return min(descent, ridge, lasso) * SLACK

    def step_error(self, step: Step, weights: float, apart: float, mirror: float) -> dict[str, float]:
        """What one block may add to the distance from the exact step, in the Euclidean norm."""
        algorithm, machine, rate = self.algorithm, self.machine, self.algorithm.learning_rate
        check_wiring(step, algorithm, self.features)
        size = weights + apart
        sizes = self._sizes(size, mirror)
        link = float(residual_error(step, algorithm, self.features, machine, sizes).max())
        reach = self._residual(weights) + apart * self.length + link
        if not reach < math.inf:
            raise RefusalError("Residuals must be bounded", "infinity", "Use a smaller step size or data bound")
        check_silence(step, reach)
        check_range(step, self.features, machine, self.length, float(sizes.label.max()), size, reach)
        squares = algorithm.link == "identity"
        outputs, gains = math.sqrt(self.features.outputs), [(beta, beta * f) for beta, f in step.heads]
        most = sum(abs(gain) for _, gain in gains)
        mean = min(math.sqrt(2 * self.start) + apart * self.length + link, reach) if squares else reach
        bent = combined_error(gains, reach, mean) + gain_error(step.heads, rate) * mean
        bent = min(bent, sum(abs(f) for _, f in step.heads) + rate * mean)  # no mean is larger than what it averages
        after = size * (1 + float(np.abs(step.decay).max())) + outputs * most * self.length * reach
        decay = (
            float(np.abs(step.decay + rate * algorithm.l2 * self._penalised()).max()) + 2.0**-52 * rate * algorithm.l2
        )
        found = {
            "aggregation": outputs * self.length * bent + decay * size,
            "link": outputs * self.length * self._transmitted(step, reach) * link,
            "rounding": outputs
            * self.length
            * sum(abs(f) * self._head(step, beta, reach, sizes) for beta, f in step.heads)
            + written(step, machine) * after,
        }
        found |= self._gates(step, after)
        return {name: part * SLACK for name, part in found.items() if name != "link" or step.link}

    def _transmitted(self, step: Step, reach: float) -> float:
        total = abs(sum(beta * f for beta, f in step.heads))
        for beta, f in step.heads:
            z = min(abs(beta) * reach, 300.0)
            total += abs(beta * f) * (math.expm1(2 * z) + math.exp(2 * z) * math.sinh(z))
        return total

    def _head(self, step: Step, beta: float, reach: float, sizes: Sizes) -> float:
        """The rounding of one head's mean, in units of |x|: for every order of addition."""
        machine, keys = self.machine, 2 * self.box.examples + self.features.ahead
        z = abs(beta) * reach
        register = reach + 2 * float(sizes.label.max())
        scored = float((sizes.products + sizes.label).max()) if step.link is None else register
        scores = gamma(step.width + 4, machine.roundoff) * abs(beta) * scored + 2 * machine.accumulation * z
        blocks = math.ceil(keys / BLOCK)
        found = 2 * 1.01 * (scores + exponential(machine)) + gamma(2 * keys + 16, machine.accumulation)
        found += 2 * blocks * (exponential(machine) + 2 * machine.accumulation) + gamma(4, machine.roundoff)
        return found if machine.accumulation == machine.roundoff else found + 2 * machine.roundoff

    def _gates(self, step: Step, size: float) -> dict[str, float]:
        threshold = self.algorithm.learning_rate * self.algorithm.l1 * self._penalised()
        if not threshold.any() and not any(step.gates):
            return {}
        total = 0.0
        for gate, wanted in zip(step.gates, threshold, strict=True):
            if gate is None:
                total += float(wanted) ** 2
                continue
            if gate.factor != -1.0:
                raise CertificateError("A proximal gate takes the clamp away once", f"factor {gate.factor}", "Rebuild")
            error = float(gate_error(gate, self.machine, np.array(size))) + abs(gate.reach - float(wanted))
            total += (error + 2.0**-52 * float(wanted) + gamma(4, self.machine.roundoff) * size) ** 2
        return {"gate": math.sqrt(total * self.features.outputs)}

    def _penalised(self) -> Array:
        found = np.ones(self.features.inputs)
        found[self.features.inputs - self.algorithm.free :] = 0.0
        return found

    def _residual(self, weights: float) -> float:
        """A bound of every exact residual: by weights, by the objective, by the link."""
        far = weights * self.length + self.box.values
        match self.algorithm.link:
            case "identity":
                return min(far, math.sqrt(2 * self.start * self.box.examples)) * SLACK
            case "clamp":
                return min(far, self.algorithm.delta) * SLACK
        return 1.0

    def _sizes(self, size: float, mirror: float) -> Sizes:
        form = np.full((1, self.features.outputs), size * self.length * SLACK)
        label = np.full_like(form, self.box.values if self.algorithm.link in ("identity", "clamp") else 1.0)
        return Sizes(form, form, label, np.array([[self.length]]), mirror)

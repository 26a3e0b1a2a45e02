r"""How far T stacked blocks are from T exact steps on any examples of a box: $|x_{ij}| \le B$ and $|y_i| \le Y$.

**Where iterates go.** Let $\ell$ bound $|x_i|$ and L the curvature of the smooth part of the objective. For
$\eta L < 2$ a proximal gradient step lowers the objective by at least $(\frac1\eta - \frac L2)|w_{t+1} - w_t|^2$, and
the objective begins with $F_0$, the loss at w = 0, and is never negative. So
$$ |w_t| \le \sqrt{t \sum_s |w_{s+1} - w_s|^2} \le \sqrt{\frac{t\,\eta F_0}{1 - \eta L/2}} , $$
and with penalties also $|w_t| \le \sqrt{2F_0/\alpha_2}$. Residuals of squares obey $\frac1{2n}\sum r_i^2 \le F_0$, too.

**Drift.** Steps do not expand distances in the Euclidean norm (:mod:`.prompt`), so that the errors of blocks add up: w
is one register of slope 1 (:mod:`attnforge.certification.registers`). Each is bounded by the same parts as for given
data, with sizes in place of data: sums over examples by every order of addition, truncation by
:func:`attnforge.lemmas.small_sharpness.combined_error`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from flint import arb

from attnforge.balls import Balls, Machine, Up, down, gamma, upper
from attnforge.certification.in_context.aggregation import gain_error, transmitted
from attnforge.certification.in_context.links import NOTHING, Sizes, residual_error, softmax
from attnforge.certification.in_context.prompt import (
    CURVATURE,
    PARTS,
    Parts,
    check_silence,
    check_wiring,
    columns,
    decay_error,
    gates,
    growth,
    unmirrored,
    written,
)
from attnforge.certification.in_context.range import check_range
from attnforge.certification.in_context.reading import Step
from attnforge.certification.registers import Registers
from attnforge.errors import RefusalError
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
    problem, registers, one = _Box(algorithm, features, machine, box), Registers(), Balls.exact(np.ones((1, 1)))
    block, mirror, names = registers.start(Up.zeros(1, len(PARTS) + 2)), NOTHING, set()
    for t, step in enumerate(steps):
        here = problem.step_error(step, problem.weights(t), registers.length(block)[-2], mirror)
        block = registers.step(block, one, one[0], Up.of(1.0), columns(here))
        mirror = mirror * growth(step) + unmirrored(here)
        names |= set(here)
    totals = registers.error(block).values[0, : len(PARTS)].tolist()
    return {name: part for name, part in zip(PARTS, totals, strict=True) if name in names}


class _Box:
    """The box, and what every prompt in it obeys."""

    def __init__(self, algorithm: Algorithm, features: Features, machine: Machine, box: DataBox) -> None:
        self.algorithm, self.features, self.machine, self.box = algorithm, features, machine, box
        square = (
            Up.of(box.inputs) ** 2 * (features.inputs - algorithm.free) + algorithm.free
        )  # an intercept reads a one
        self.length = square.root()
        if algorithm.link == "exponential":
            got, remedy = "the exponential of w.x", "Certify prompts one by one: net.certify(X, y)"
            raise RefusalError("Over a box the loss must have a largest curvature", got, remedy)
        self.curvature = CURVATURE[algorithm.link] * square + algorithm.l2
        if not float(algorithm.learning_rate * self.curvature) < 2:
            got = f"{algorithm.learning_rate:.3g} where data of this box may have curvature {float(self.curvature):.3g}"
            remedy = f"Use {1 / float(self.curvature):.2g}, or certify prompts one by one: net.certify(X, y)"
            raise RefusalError("The step size must be below two over the curvature", got, remedy)
        self.start = self._loss_at_zero()

    def _loss_at_zero(self) -> Up:
        y = Up.of(self.box.values)
        if self.algorithm.link in ("identity", "clamp"):
            return (y * y * 0.5).least(y * self.algorithm.delta if self.algorithm.link == "clamp" else math.inf)
        return Up.of(upper(arb(max(self.features.outputs, 2)).log()))

    def weights(self, t: int) -> Up:
        """A bound of the exact iterate's Euclidean norm after t steps."""
        algorithm, penalty = self.algorithm, 0.0 if self.algorithm.free else 1.0
        room = down(1 - float(algorithm.learning_rate * self.curvature * 0.5))
        descent = (t * algorithm.learning_rate * self.start / room).root()
        return descent.least((2 * self.start / (algorithm.l2 * penalty)).root()).least(
            self.start / (algorithm.l1 * penalty)
        )

    def step_error(self, step: Step, weights: Up, apart: Up, mirror: Up) -> Parts:
        """What one block may add to the distance from the exact step, in the Euclidean norm."""
        algorithm, machine, rate = self.algorithm, self.machine, self.algorithm.learning_rate
        check_wiring(step, algorithm, self.features)
        size = weights + apart
        sizes = self._sizes(size, mirror)
        link = residual_error(step, algorithm, self.features, machine, sizes).most()
        reach = self._residual(weights) + apart * self.length + link
        if not float(reach) < math.inf:
            raise RefusalError("Residuals must be bounded", "infinity", "Use a smaller step size or data bound")
        check_silence(step, float(reach))
        label = sizes.label.most()
        check_range(step, self.features, machine, *(float(each) for each in (self.length, label, size, reach)))
        mean = reach
        if algorithm.link == "identity":
            mean = ((2 * self.start).root() + apart * self.length + link).least(reach)
        gains, factors = [(beta, beta * f) for beta, f in step.heads], sum(abs(f) for _, f in step.heads)
        bent = combined_error(gains, float(reach), float(mean)) + gain_error(step.heads, rate) * mean
        bent = bent.least(factors + rate * mean)  # no mean is larger than what it averages
        outputs = Up.of(self.features.outputs).root()
        each = outputs * self.length
        added = sum((abs(f) * (reach * beta).tanh() for beta, f in step.heads), start=NOTHING)
        after = size * (1.0 + Up.of(step.decay).most()) + each * added
        made = sum((abs(f) * self._head(step, beta, reach, sizes) for beta, f in step.heads), start=NOTHING)
        parts = {
            "aggregation": each * bent + decay_error(step, algorithm).most() * size,
            "rounding": each * made + written(step, machine, after),
        }
        if step.link:
            linear, rest = transmitted(step, reach)
            parts["link"] = each * (linear + rest) * link
        proximal = gates(step, algorithm, machine, after * np.ones(self.features.inputs))
        return parts | {name: part.norm() * outputs for name, part in proximal.items()}

    def _head(self, step: Step, beta: float, reach: Up, sizes: Sizes) -> Up:
        """The rounding of one head's mean, in units of |x|: for every order of addition.

        Log-weights off by d move a mean of numbers in [-1, 1] by at most 2 tanh(d / 2) <= d.
        """
        machine, model = self.machine, softmax(self.machine, 2 * self.box.examples + self.features.ahead)
        scored = sizes.products + sizes.label if step.link is None else reach + 2 * sizes.label
        scores = beta * scored.most()
        scores = gamma(step.width + 4, machine.roundoff) * scores + model.subtraction(2 * beta * reach, scores)
        weights = (model.blocks + 1) * (model.exponential + 6 * model.unit)  # no less than a checker charges
        return scores + weights + model.mean(after=4)

    def _residual(self, weights: Up) -> Up:
        """A bound of every exact residual: by weights, by the objective, by the link."""
        far = weights * self.length + self.box.values
        match self.algorithm.link:
            case "identity":
                return far.least((2 * self.start * self.box.examples).root())
            case "clamp":
                return far.least(self.algorithm.delta)
        return Up.of(1.0)

    def _sizes(self, size: Up, mirror: Up) -> Sizes:
        form = Up.of(np.ones((1, self.features.outputs))) * (size * self.length)
        label = self.box.values if self.algorithm.link in ("identity", "clamp") else 1.0
        return Sizes(form, form, form * 0.0 + label, self.length, mirror)

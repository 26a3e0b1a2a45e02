r"""How far T stacked blocks are from T exact steps on any examples of a box: $|x_{ij}| \le B$ and $|y_i| \le Y$.

**Where iterates go.** Let $\ell$ bound $|x_i|$ and L the curvature of the smooth part of the objective. For
$\eta L < 2$ a proximal gradient step lowers the objective by at least $(\frac1\eta - \frac L2)|w_{t+1} - w_t|^2$, and
the objective begins with $F_0$, its value at $w_0$, and is never negative. So, by Cauchy and Schwarz,
$$ |w_t - w_0| \le \sum_s |w_{s+1} - w_s| \le \sqrt{F_0 \sum_{s < t} \frac{\eta_s}{1 - \eta_s L/2}} , $$
and with penalties also $|w_t| \le \sqrt{2F_0/\alpha_2}$. Residuals of squares obey $\frac1{2n}\sum r_i^2 \le F_0$, too.

**Drift.** Steps do not expand distances in the Euclidean norm (:mod:`.prompt`), so that the errors of blocks add up: w
is one register of slope 1 (:mod:`attnforge.certification.registers`). Each is bounded by the same parts as for given
data, with sizes in place of data: sums over examples by every order of addition, truncation by
:func:`attnforge.lemmas.small_sharpness.combined_error`.

**Steps for a spectrum** [m, L] may expand, and the objective may rise. Where all eigenvalues of the Hessian H lie
there, $w_t - w^* = p_t(H)(w_0 - w^*)$, $p_t(\lambda) = \prod_{s < t}(1 - \eta_s\lambda)$, and
$|w^*| = |H^{-1} X^T y / n| \le Y/\sqrt m$, as $X^T X/n \le H$. So $|w_t| \le |w^*| + P_t (|w_0| + |w^*|)$ with
$P_t$ the largest $|p_t|$ on [m, L], residuals have a root mean square of at most $Y + \sqrt L P_t (|w_0| + |w^*|)$
(that at $w^*$ is at most Y, by its objective), and errors are carried over cells of [m, L] (:mod:`.spectral`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from flint import arb

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
from attnforge.certification.in_context.spectral import Commuting, cells
from attnforge.certification.registers import Registers
from attnforge.errors import RefusalError
from attnforge.lemmas.small_sharpness import combined_error
from attnforge.outward import Balls, Machine, Up, down, gamma, upper
from attnforge.targets.in_context import Iteration
from attnforge.targets.in_context.algorithm import Algorithm

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class DataBox:
    """``inputs`` bounds every |x_ij|, ``values`` every |y_i|; ``examples`` is the largest number of them."""

    inputs: float
    values: float
    examples: int


def box_drift(steps: Sequence[Step], target: Iteration, machine: Machine, box: DataBox) -> dict[str, float]:
    """Named parts of a bound, in the Euclidean norm and so in the sup norm, after all steps."""
    first = columns({"rounding": machine.cast(Up.of(target.start)).norm().norm()[None]})
    carrier = _Expanding(target, first) if target.spectrum else _Adding(first)
    make = _Spectral if target.spectrum else _Descending
    problem, mirror, names = make(target, machine, box), NOTHING, set()
    for t, step in enumerate(steps):
        algorithm = target.at(t)
        apart, grown = carrier.length()[-2], carrier.grown()
        here = problem.step_error(step, algorithm, problem.weights(t, grown), problem.spread(grown), apart, mirror)
        carrier.step(algorithm.learning_rate, columns(here))
        mirror = mirror * growth(step) + unmirrored(here)
        names |= set(here)
    totals = carrier.swept().values[: len(PARTS)].tolist()
    return {name: part for name, part in zip(PARTS, totals, strict=True) if name in names}


class _Adding:
    """Errors of steps that do not expand: w is one register of slope 1."""

    def __init__(self, first: Up) -> None:
        self.registers, self.one = Registers(), Balls.exact(np.ones((1, 1)))
        self.block = self.registers.start(first)

    def length(self) -> Up:
        return self.registers.length(self.block)

    def grown(self) -> Up:
        return Up.of(1.0)

    def step(self, _rate: float, local: Up) -> None:
        self.block = self.registers.step(self.block, self.one, self.one[0], Up.of(1.0), local)

    def swept(self) -> Up:
        return self.registers.error(self.block)[0]


class _Expanding:
    """Errors of steps for a spectrum: over cells of it."""

    def __init__(self, target: Iteration, first: Up) -> None:
        assert target.spectrum is not None
        self.errors = Commuting(cells(target.spectrum, target.steps), target.start.size, first[0])

    def length(self) -> Up:
        return self.errors.length()

    def grown(self) -> Up:
        return self.errors.grown()

    def step(self, rate: float, local: Up) -> None:
        self.errors.step(rate, local[0])

    def swept(self) -> Up:
        return self.errors.swept()


class _Box(ABC):
    """The box, and what every prompt in it obeys."""

    def __init__(self, target: Iteration, machine: Machine, box: DataBox) -> None:
        algorithm = target.algorithm
        self.target, self.algorithm, self.features, self.machine, self.box = (
            target,
            algorithm,
            target.features,
            machine,
            box,
        )
        self.square = (
            Up.of(box.inputs) ** 2 * (self.features.inputs - algorithm.free) + algorithm.free
        )  # an intercept reads a one
        self.length = self.square.root()
        self.first = Up.of(target.start).norm().norm()

    @abstractmethod
    def weights(self, t: int, grown: Up) -> Up:
        """A bound of the exact iterate's Euclidean norm after t steps; ``grown`` is P_t."""

    @abstractmethod
    def spread(self, grown: Up) -> Up:
        """A bound of the root mean square of the exact residuals of squares."""

    @abstractmethod
    def _residual(self, weights: Up) -> Up:
        """A bound of every exact residual."""

    def step_error(self, step: Step, algorithm: Algorithm, weights: Up, spread: Up, apart: Up, mirror: Up) -> Parts:
        """What one block may add to the distance from the exact step, in the Euclidean norm."""
        machine, rate = self.machine, algorithm.learning_rate
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
            mean = (spread + apart * self.length + link).least(reach)
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

    def _sizes(self, size: Up, mirror: Up) -> Sizes:
        form = Up.of(np.ones((1, self.features.outputs))) * (size * self.length)
        label = self.box.values if self.algorithm.link in ("identity", "clamp") else 1.0
        return Sizes(form, form, form * 0.0 + label, self.length, mirror)


class _Descending(_Box):
    """Steps that lower the objective."""

    def __init__(self, target: Iteration, machine: Machine, box: DataBox) -> None:
        super().__init__(target, machine, box)
        algorithm = self.algorithm
        if algorithm.link == "exponential":
            got, remedy = "the exponential of w.x", "Certify prompts one by one: net.certify(X, y)"
            raise RefusalError("Over a box the loss must have a largest curvature", got, remedy)
        rates = target.rates or (algorithm.learning_rate,)
        self.curvature = CURVATURE[algorithm.link] * self.square + algorithm.l2
        if not float(max(rates) * self.curvature) < 2:
            got = f"{max(rates):.3g} where data of this box may have curvature {float(self.curvature):.3g}"
            remedy = f"Use {1 / float(self.curvature):.2g}, or certify prompts one by one: net.certify(X, y)"
            raise RefusalError("The step size must be below two over the curvature", got, remedy)
        self.start, self.travelled = self._first_objective(), [Up.of(0.0)]
        for rate in target.rates[:-1]:
            self.travelled.append(self.travelled[-1] + self._travelled(rate))

    def _travelled(self, rate: float) -> Up:
        return Up.of(rate) / down(1 - float(rate * self.curvature * 0.5))

    def _first_objective(self) -> Up:
        """At the first weights: every residual's loss is at most its own at zero, and a slope times the form."""
        y, link, algorithm = Up.of(self.box.values), self.algorithm.link, self.algorithm
        form = self.first * self.length
        if link in ("identity", "clamp"):
            far = y + form
            loss = (far * far * (0.5 * self.features.outputs)).least(
                far * algorithm.delta if link == "clamp" else math.inf
            )
        else:  # probabilities less labels: a slope of at most the root of two
            loss = Up.of(upper(arb(max(self.features.outputs, 2)).log())) + Up.of(2.0).root() * form
        entries = Up.of(self.target.start).sum().sum()
        return loss + algorithm.l2 * self.first**2 * 0.5 + algorithm.l1 * entries

    def weights(self, t: int, grown: Up) -> Up:
        algorithm, penalty = self.algorithm, 0.0 if self.algorithm.free else 1.0
        rates = self.travelled[t] if self.target.rates else t * self._travelled(algorithm.learning_rate)
        descent = self.first + (rates * self.start).root()
        return descent.least((2 * self.start / (algorithm.l2 * penalty)).root()).least(
            self.start / (algorithm.l1 * penalty)
        )

    def spread(self, grown: Up) -> Up:
        return (2 * self.start).root()

    def _residual(self, weights: Up) -> Up:
        """By weights, by the objective, by the link."""
        far = weights * self.length + self.box.values
        match self.algorithm.link:
            case "identity":
                return far.least((2 * self.start * self.box.examples).root())
            case "clamp":
                return far.least(self.algorithm.delta)
        return Up.of(1.0)


class _Spectral(_Box):
    """Steps for a spectrum that holds the eigenvalues of the Hessian."""

    def __init__(self, target: Iteration, machine: Machine, box: DataBox) -> None:
        super().__init__(target, machine, box)
        assert target.spectrum is not None
        least, most = target.spectrum
        self.best = Up.of(target.features.outputs).root() * box.values / down(math.sqrt(least))
        self.steep = Up.of(most).root()

    def weights(self, t: int, grown: Up) -> Up:
        return self.best + grown * (self.first + self.best)

    def spread(self, grown: Up) -> Up:
        return self.steep * grown * (self.first + self.best) + self.box.values

    def _residual(self, weights: Up) -> Up:
        return weights * self.length + self.box.values

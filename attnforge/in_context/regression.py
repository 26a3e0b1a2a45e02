"""Regressions that frozen attention fits in context: one class an algorithm, all the same network code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt

from attnforge.arrays import float64
from attnforge.compiler.in_context import InContextNetwork, certified_iteration, stacked
from attnforge.errors import DomainError, RefusalError, TargetError
from attnforge.lemmas.link_row import Row
from attnforge.network import Layer
from attnforge.outward import DType, dtype_name
from attnforge.targets.in_context import Iteration
from attnforge.targets.in_context.algorithm import Algorithm, Link
from attnforge.targets.in_context.features import Features
from attnforge.targets.in_context.schedule import Spectrum, chebyshev, check_rates, transients
from attnforge.theorems.in_context.block import block
from attnforge.theorems.in_context.interpolation import Asked, row_features, row_for
from attnforge.theorems.in_context.sharpness import TYPICAL, UNKNOWN, balanced

Route = Literal["small_sharpness", "interpolation"]

REACH = 10.0  # residuals and forms w.x are taken to lie below, where no data_bound says otherwise
CONVERGED = 1e-2  # of the distance to the minimiser: what Chebyshev steps must leave less of
ANCHORS = 64  # of the interpolation route, where none are asked for


@dataclass(frozen=True)
class Regression:
    """What is minimised and how: (1/n) sum of losses of x_i.w and y_i, plus penalties.

    Args:
        steps: of gradient or proximal descent: blocks of the network.
        learning_rate: a number, one a step, or "auto": one over the largest curvature that ``data_bound`` allows.
        fit_intercept: whether a constant 1 is appended to every x; its weight comes last and is not penalised.
        route: how residuals are computed: "small_sharpness", to rounding, or "interpolation", the paper's, on a row of
            anchors. The latter takes forms x.w and residuals to lie below ``data_bound``, 10 where that is not given.
        dtype: in which the network runs, by name or as torch names it.
        anchors: p of the interpolation route, 64 where None.
        sharpness: of the interpolation route: "tuned", the smallest bound, or "hard", the paper's selection.
        momentum: refused unless zero: a step with momentum may expand distances, so its drift has no certificate.
        schedule: "chebyshev" for step sizes that are optimal for a ``spectrum``, in place of ``learning_rate``; of
            quadratic objectives alone.
        spectrum: (m, L), which holds all eigenvalues of the Hessian: of X^T X / n, with alpha added where there is a
            penalty (alpha/2)|w|^2. Data with others are refused.
        initial: the weights (d,) before the first step, d + 1 with an intercept, (d, K) of K classes; zero where None.
    """

    steps: int = 200
    learning_rate: float | Sequence[float] | Literal["auto"] = "auto"
    fit_intercept: bool = False
    route: Route = "small_sharpness"
    dtype: DType = "float64"
    anchors: int | None = None
    sharpness: Asked = "tuned"
    momentum: float = 0.0
    schedule: Literal["chebyshev"] | None = field(default=None, kw_only=True)
    spectrum: Spectrum | None = field(default=None, kw_only=True)
    initial: npt.ArrayLike | None = field(default=None, kw_only=True)

    link: ClassVar[Link] = "identity"
    curvature: ClassVar[float] = 1.0  # the largest second derivative of the loss
    spread: ClassVar[float | None] = None  # typical of residuals, where the link says so: half of the largest
    extrapolated: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.momentum:
            got = f"{self.momentum!r}: steps with momentum may expand distances, and their drift is not certified"
            raise RefusalError("`momentum` must be 0", got, "Use more steps")
        if self.schedule is not None or self.spectrum is not None:
            self._check_schedule()

    def build(
        self, features: int, examples: int | None = None, data_bound: float | None = None, certify: bool = True
    ) -> InContextNetwork:
        """The network for examples of so many features, any number of them.

        Args:
            features: inputs d of an example.
            examples: not needed; given, calls with another number are refused.
            data_bound: a bound of all |x_ij| and, of squares and Huber's loss, |y_i|: larger ones are refused. It
                gives the step size "auto", the range of the sharpness, and a certificate for all prompts within it.
                With the interpolation route anchors cover so much: forms beyond it are cut, and certified so.
            certify: False leaves that certificate out, which may take seconds; ``net.certify(X, y)`` is about a prompt.
        """
        if self.steps < 1 or features < 1:
            raise TargetError("`steps` and `features` are at least 1", f"{self.steps} and {features}")
        inputs, outputs = features + self.fit_intercept, self._outputs()
        rates = self._rates(inputs, data_bound)
        algorithm = self._algorithm(rates[0])
        row = self._row(algorithm, data_bound)
        tokens = row_features(row, inputs) if row else Features(inputs, outputs)
        several = rates if len(set(rates)) > 1 else ()
        first = None if self.initial is None else self._first(inputs, outputs)
        target = Iteration(algorithm, tokens, self.steps, data_bound, examples, several, self.spectrum, first)
        network = stacked(self._blocks(target, row), target)
        if not certify:
            reason = "no certificate for all prompts was asked for"
            return InContextNetwork(network, target, None, "in_context", dtype_name(self.dtype), reason)  # type: ignore[arg-type]
        return certified_iteration(network, target, "in_context", self.dtype)

    def for_examples(self, x: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None) -> Self:
        r"""The same with step sizes for these examples (n, d), of these weights (n,), where they are left "auto".

        They come from the eigenvalues m to L of the Hessian $X^T X/n$ with its penalty: Chebyshev's for quadratic
        objectives if so many steps of theirs converge, by $2e^{-2T/\sqrt{L/m}}$ to less than one part in a hundred;
        else one over the largest curvature.

        >>> LeastSquares(steps=9).for_examples([[2.0, 0.0], [0.0, 1.0]]).spectrum
        (0.5, 2.0)
        >>> Lasso(alpha=0.1).for_examples([[2.0, 0.0], [0.0, 1.0]]).learning_rate
        0.5
        """
        if self.learning_rate != "auto" or self.schedule is not None:
            return self
        if self.link == "exponential":
            raise RefusalError("Poisson's loss has no largest curvature", 'learning_rate="auto"', "Pass a number")
        given = float64(x)
        weights = np.ones(len(given) if given.ndim else 0) if sample_weight is None else float64(sample_weight)
        if given.ndim != 2 or not given.size or weights.shape != given.shape[:1] or not np.isfinite(given).all():
            got = f"shapes {given.shape} and {weights.shape}"
            raise DomainError("Examples are finite, of shape (n, d), and weights (n,)", got, "Reshape them")
        if not np.all((weights > 0) & np.isfinite(weights)):
            raise DomainError("Weights are positive numbers", f"{weights.min():g}", "Leave examples of weight zero out")
        inputs = np.column_stack([given, np.ones(len(given))]) if self.fit_intercept else given
        weighted, (l2, l1) = np.sqrt(weights)[:, None] * inputs, self._penalties()
        gram = weighted.T @ weighted / len(given)
        penalty = np.diag(l2 * self._algorithm(1.0).penalised(len(gram)))
        m, largest = (float(end) for end in np.linalg.eigvalsh(gram + penalty)[[0, -1]])
        quadratic = self.link == "identity" and not l1 and self.route == "small_sharpness"
        if quadratic and m > 0 and 2 * np.exp(-2 * self.steps * np.sqrt(m / largest)) < CONVERGED:
            return replace(self, schedule="chebyshev", spectrum=(m, largest))
        steepest = self.curvature * float(np.linalg.eigvalsh(gram)[-1]) + l2
        return replace(self, learning_rate=1.0 / steepest if steepest > 0 else 1.0)

    def _blocks(self, target: Iteration, row: Row | None) -> list[tuple[Layer, ...]]:
        """The block of every step, or the one of all; as sharp as residuals allow, which Chebyshev steps let grow."""
        bound, link, cut = target.data_bound, self.extrapolated, target.algorithm.delta
        size = self.spread or (UNKNOWN if bound is None else TYPICAL * bound)
        rates, made = target.rates or (target.algorithm.learning_rate,), dict[tuple[float, float], tuple[Layer, ...]]()
        grown = transients(rates, target.spectrum) if target.spectrum else np.ones(len(rates))
        steps = list(zip(rates, np.maximum(grown, 1.0).tolist(), strict=True))
        for t, (rate, larger) in enumerate(steps):
            if (rate, larger) not in made:
                sharpness = balanced(dtype_name(self.dtype), size * larger, bound or REACH, link, cut)
                made[rate, larger] = block(target.at(t), target.features, replace(sharpness, row=row))
        return [made[step] for step in steps]

    def _first(self, inputs: int, outputs: int) -> Any:
        """The first weights (d, K)."""
        given = np.array(float64(self.initial))
        return given[:, None] if given.ndim == 1 and outputs == 1 else given

    def _row(self, algorithm: Algorithm, data_bound: float | None) -> Row | None:
        """The anchors of the interpolation route."""
        if self.route == "interpolation":
            anchors = ANCHORS if self.anchors is None else self.anchors
            return row_for(algorithm, data_bound or REACH, anchors, self.sharpness, dtype_name(self.dtype))
        if self.route != "small_sharpness":
            raise RefusalError('`route` must be "small_sharpness" or "interpolation"', repr(self.route), "Leave it out")
        if self.anchors is not None:
            raise RefusalError("Anchors are of the interpolation route", f"{self.anchors}", 'Use route="interpolation"')
        return None

    def _rates(self, inputs: int, data_bound: float | None) -> tuple[float, ...]:
        """The step sizes: one of all steps, or one a step."""
        if self.spectrum is not None:
            return chebyshev(self.steps, self.spectrum)
        if not isinstance(self.learning_rate, str | float | int | np.number):
            rates = tuple(float(rate) for rate in self.learning_rate)
            check_rates(rates or (0.0,), self.steps)
            return rates
        if self.learning_rate != "auto":
            return (float(self.learning_rate),)
        if data_bound is None:
            raise RefusalError('learning_rate="auto" needs `data_bound`', "none", "Pass data_bound= or a number")
        if self.link == "exponential":
            raise RefusalError("Poisson's loss has no largest curvature", 'learning_rate="auto"', "Pass a number")
        largest = max(data_bound, 1.0 if self.fit_intercept else data_bound)
        return (1.0 / (self.curvature * inputs * largest**2 + self._penalties()[0]),)

    def _check_schedule(self) -> None:
        """Raise where Chebyshev's step sizes are not all that is asked for, or the objective is not quadratic."""
        if self.schedule != "chebyshev" or self.spectrum is None:
            got = f"schedule={self.schedule!r}, spectrum={self.spectrum!r}"
            remedy = "Bound the eigenvalues of the Hessian: spectrum=(m, L)"
            raise RefusalError('`schedule="chebyshev"` and `spectrum=(m, L)` belong together', got, remedy)
        if self.learning_rate != "auto":
            got, remedy = f"learning_rate={self.learning_rate!r:.40}", "Leave out one of them"
            raise RefusalError("A schedule sets the step sizes", got, remedy)
        remedy = "Use a constant learning_rate"
        if self.link != "identity":
            got = "a loss whose Hessian changes from step to step, so that their factors do not commute"
            raise RefusalError("Chebyshev steps are for quadratic objectives", got, remedy)
        if self._penalties()[1]:
            got = "a proximal map, which does not commute with the steps"
            raise RefusalError("Chebyshev steps are for quadratic objectives", got, remedy)
        if self.route != "small_sharpness":
            got = "the interpolation route: iterates leave its anchors on the way"
            raise RefusalError("Chebyshev steps take the small-sharpness route", got, "Leave `route` out")

    def _algorithm(self, rate: float) -> Algorithm:
        l2, l1 = self._penalties()
        return Algorithm(self.link, rate, l2, l1, getattr(self, "delta", 1.0), int(self.fit_intercept))

    def _penalties(self) -> tuple[float, float]:
        """The weights of |w|^2 / 2 and of |w|_1."""
        return 0.0, 0.0

    def _outputs(self) -> int:
        return 1


def checked_outputs(outputs: int, route: Route) -> int:
    """The number of outputs of squares."""
    if outputs < 1 or (outputs > 1 and route != "small_sharpness"):
        got = f"{outputs} by the route {route!r}"
        raise TargetError("`outputs` is at least 1, and 1 of the interpolation route", got, "Leave `route` out")
    return outputs


@dataclass(frozen=True)
class LeastSquares(Regression):
    """Loss (x.w - y)^2 / 2; with ``outputs`` K > 1 of their sum, y is (..., n, K) and weights are (..., d, K)."""

    outputs: int = field(default=1, kw_only=True)

    def _outputs(self) -> int:
        return checked_outputs(self.outputs, self.route)


@dataclass(frozen=True)
class Ridge(Regression):
    """Least squares plus (alpha/2)|w|^2; of several ``outputs`` as least squares."""

    alpha: float = 1.0
    outputs: int = field(default=1, kw_only=True)

    def _penalties(self) -> tuple[float, float]:
        return self.alpha, 0.0

    def _outputs(self) -> int:
        return checked_outputs(self.outputs, self.route)


@dataclass(frozen=True)
class Lasso(Regression):
    """Least squares plus alpha |w|_1, by proximal gradient descent."""

    alpha: float = 1.0

    def _penalties(self) -> tuple[float, float]:
        return 0.0, self.alpha


@dataclass(frozen=True)
class ElasticNet(Regression):
    """Least squares plus alpha (l1_ratio |w|_1 + (1 - l1_ratio)|w|^2 / 2)."""

    alpha: float = 1.0
    l1_ratio: float = 0.5

    def _penalties(self) -> tuple[float, float]:
        return self.alpha * (1 - self.l1_ratio), self.alpha * self.l1_ratio


@dataclass(frozen=True)
class Huber(Regression):
    """Squares up to ``delta``, straight beyond: residuals are clamped to [-delta, delta]."""

    delta: float = 1.35
    link: ClassVar[Link] = "clamp"


@dataclass(frozen=True)
class Logistic(Regression):
    """Labels 0 and 1, log loss; two heads a step. Penalty (alpha/2)|w|^2."""

    alpha: float = 0.0
    link: ClassVar[Link] = "logistic"
    curvature: ClassVar[float] = 0.25
    spread: ClassVar[float | None] = 0.5
    extrapolated: ClassVar[bool] = False

    def _penalties(self) -> tuple[float, float]:
        return self.alpha, 0.0


@dataclass(frozen=True)
class SoftmaxRegression(Regression):
    """Classes 0 .. K - 1, cross-entropy; weights (d, K). Penalty (alpha/2)|w|^2."""

    classes: int = 2
    alpha: float = 0.0
    link: ClassVar[Link] = "softmax"
    curvature: ClassVar[float] = 0.5
    spread: ClassVar[float | None] = 0.5

    def _penalties(self) -> tuple[float, float]:
        return self.alpha, 0.0

    def _outputs(self) -> int:
        if self.classes < 2:
            raise TargetError("`classes` is at least 2", str(self.classes), "Use Logistic for labels 0 and 1")
        return self.classes


@dataclass(frozen=True)
class Poisson(Regression):
    """Counts, log link: loss exp(x.w) - y x.w. Penalty (alpha/2)|w|^2."""

    alpha: float = 0.0
    link: ClassVar[Link] = "exponential"
    spread: ClassVar[float | None] = 1.0  # of counts around a mean of one

    def _penalties(self) -> tuple[float, float]:
        return self.alpha, 0.0

"""Regressions that frozen attention fits in context: one class an algorithm, all the same network code."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from attnforge.balls import DType, dtype_name
from attnforge.compiler.in_context import InContextNetwork, certified_iteration, stacked
from attnforge.errors import RefusalError, TargetError
from attnforge.lemmas.link_row import Row
from attnforge.targets.in_context import Iteration
from attnforge.targets.in_context.algorithm import Algorithm, Link
from attnforge.targets.in_context.features import Features
from attnforge.theorems.in_context.block import block
from attnforge.theorems.in_context.interpolation import Asked, row_features, row_for
from attnforge.theorems.in_context.sharpness import TYPICAL, UNKNOWN, balanced

Route = Literal["small_sharpness", "interpolation"]

REACH = 10.0  # residuals and forms w.x are taken to lie below, where no data_bound says otherwise
ANCHORS = 64  # of the interpolation route, where none are asked for


@dataclass(frozen=True)
class Regression:
    """What is minimised and how: (1/n) sum of losses of x_i.w and y_i, plus penalties, from w = 0.

    Args:
        steps: of gradient or proximal descent: blocks of the network.
        learning_rate: a number, or "auto": one over the largest curvature that ``data_bound`` allows.
        fit_intercept: whether a constant 1 is appended to every x; its weight comes last and is not penalised.
        route: how residuals are computed: "small_sharpness", to rounding, or "interpolation", the paper's, on a row of
            anchors. The latter takes forms x.w and residuals to lie below ``data_bound``, 10 where that is not given.
        dtype: in which the network runs, by name or as torch names it.
        anchors: p of the interpolation route, 64 where None.
        sharpness: of the interpolation route: "tuned", the smallest bound, or "hard", the paper's selection.
        momentum: refused unless zero: a step with momentum may expand distances, so its drift has no certificate.
    """

    steps: int = 200
    learning_rate: float | Literal["auto"] = "auto"
    fit_intercept: bool = False
    route: Route = "small_sharpness"
    dtype: DType = "float64"
    anchors: int | None = None
    sharpness: Asked = "tuned"
    momentum: float = 0.0

    link: ClassVar[Link] = "identity"
    curvature: ClassVar[float] = 1.0  # the largest second derivative of the loss
    spread: ClassVar[float | None] = None  # typical of residuals, where the link says so: half of the largest
    extrapolated: ClassVar[bool] = True

    def build(self, features: int, examples: int | None = None, data_bound: float | None = None) -> InContextNetwork:
        """The network for examples of so many features, any number of them.

        Args:
            features: inputs d of an example.
            examples: not needed; given, calls with another number are refused.
            data_bound: a bound of all |x_ij| and, of squares and Huber's loss, |y_i|: larger ones are refused. It
                gives the step size "auto", the range of the sharpness, and a certificate for all prompts within it.
                With the interpolation route anchors cover so much: forms beyond it are cut, and certified so.
        """
        if self.momentum:
            got = f"{self.momentum!r}: steps with momentum may expand distances, and their drift is not certified"
            raise RefusalError("`momentum` must be 0", got, "Use more steps")
        if self.steps < 1 or features < 1:
            raise TargetError("`steps` and `features` are at least 1", f"{self.steps} and {features}")
        inputs = features + self.fit_intercept
        algorithm = self._algorithm(self._rate(inputs, data_bound))
        reach = data_bound or REACH
        size = self.spread or (UNKNOWN if data_bound is None else TYPICAL * data_bound)
        sharpness = balanced(dtype_name(self.dtype), size, reach, self.extrapolated, algorithm.delta)
        row = self._row(algorithm, data_bound)
        sharpness = replace(sharpness, row=row)
        tokens = row_features(row, inputs) if row else Features(inputs, self._outputs())
        target = Iteration(algorithm, tokens, self.steps, data_bound, examples)
        network = stacked(block(algorithm, tokens, sharpness), target)
        return certified_iteration(network, target, "in_context", self.dtype)

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

    def _rate(self, inputs: int, data_bound: float | None) -> float:
        if self.learning_rate != "auto":
            return float(self.learning_rate)
        if data_bound is None:
            raise RefusalError('learning_rate="auto" needs `data_bound`', "none", "Pass data_bound= or a number")
        if self.link == "exponential":
            raise RefusalError("Poisson's loss has no largest curvature", 'learning_rate="auto"', "Pass a number")
        l2 = self._penalties()[0]
        return 1.0 / (self.curvature * inputs * max(data_bound, 1.0 if self.fit_intercept else data_bound) ** 2 + l2)

    def _algorithm(self, rate: float) -> Algorithm:
        l2, l1 = self._penalties()
        return Algorithm(self.link, rate, l2, l1, getattr(self, "delta", 1.0), int(self.fit_intercept))

    def _penalties(self) -> tuple[float, float]:
        """The weights of |w|^2 / 2 and of |w|_1."""
        return 0.0, 0.0

    def _outputs(self) -> int:
        return 1


@dataclass(frozen=True)
class LeastSquares(Regression):
    """Loss (x.w - y)^2 / 2."""


@dataclass(frozen=True)
class Ridge(Regression):
    """Least squares plus (alpha/2)|w|^2."""

    alpha: float = 1.0

    def _penalties(self) -> tuple[float, float]:
        return self.alpha, 0.0


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

r"""Bayesian linear regression with known noise, in context: ridge regression of y, and of X itself.

Weights are normal with precision $\tau I$ before, and y given X has noise of variance $\sigma^2$. The posterior is
normal with precision $A = X^T X/\sigma^2 + \tau I$ and mean $A^{-1} X^T y/\sigma^2$. Let $\alpha = \tau\sigma^2/n$ and
$H = X^T X/n + \alpha I = \frac{\sigma^2}{n} A$: ridge regression of y, $H^{-1} X^T y/n$, is the mean, and ridge
regression of column j of X is $H^{-1}(H - \alpha I)e_j = (I - \alpha H^{-1})e_j$. So with W the weights of all columns
$$ A^{-1} = (I - W)/\tau : $$
one network of 1 + d outputs, whose values are (y, X), holds mean and covariance in its state tokens. What it is off by,
a certified $\varepsilon$ an entry, is $\varepsilon/\tau$ in the covariance, and at most
$|x|_1^2\,\varepsilon/\tau$ in the variance $x^T A^{-1} x$ of a prediction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from attnforge.arrays import alike
from attnforge.certification import Certificate
from attnforge.compiler.in_context import InContextNetwork, queries
from attnforge.errors import DomainError, RefusalError, TargetError
from attnforge.in_context.regression import Ridge
from attnforge.outward import DType
from attnforge.targets.in_context.kernel import side_by_side
from attnforge.targets.in_context.schedule import Spectrum


@dataclass(frozen=True)
class BayesianLinear:
    """The posterior of linear weights: normal before, with normal noise of known variance.

    Args:
        prior_precision: tau, one over the variance of a weight before.
        noise: the variance of y given X.
        steps, learning_rate, schedule, spectrum, dtype: as of :class:`Ridge` with alpha = prior_precision noise / n:
            the spectrum is of X^T X / n + alpha I.

    >>> net = BayesianLinear(prior_precision=1.0, noise=0.5, steps=60, learning_rate=0.5).build(features=1, examples=2)
    >>> mean, covariance = net([[1.0], [-1.0]], [2.0, -1.0])
    >>> mean.round(9), covariance.round(9)
    (array([1.2]), array([[0.2]]))
    """

    prior_precision: float = 1.0
    noise: float = 1.0
    steps: int = 200
    learning_rate: float | Sequence[float] | Literal["auto"] = "auto"
    schedule: Literal["chebyshev"] | None = None
    spectrum: Spectrum | None = None
    dtype: DType = "float64"

    def build(self, features: int, examples: int | None = None, data_bound: float | None = None) -> BayesianNetwork:
        """The network for so many examples of so many features; ``data_bound`` as of the regressions."""
        if not (0 < self.prior_precision < np.inf and 0 < self.noise < np.inf):
            got = f"{self.prior_precision!r} and {self.noise!r}"
            raise TargetError("`prior_precision` and `noise` are positive numbers", got, "Use 1.0")
        if examples is None or examples < 1:
            remedy = "Pass examples=n"
            raise RefusalError("The penalty, prior_precision noise / n, needs the number of examples", "none", remedy)
        ridge = Ridge(
            self.steps,
            self.learning_rate,
            dtype=self.dtype,
            alpha=self.prior_precision * self.noise / examples,
            outputs=1 + features,
            schedule=self.schedule,
            spectrum=self.spectrum,
        )
        return BayesianNetwork(ridge.build(features, examples, data_bound), self.prior_precision, self.noise)


@dataclass(frozen=True, eq=False)
class BayesianNetwork:
    """Frozen attention that computes a posterior; ``regression`` is the network, of 1 + d outputs.

    ``regression.save`` writes it to a file; its certificates are about its weights, mean and W of the module's text.
    """

    regression: InContextNetwork
    prior_precision: float
    noise: float

    def __call__(self, x: Any, y: Any) -> tuple[Any, Any]:
        """The posterior's mean (..., d) and covariance (..., d, d); NumPy in, NumPy out; torch alike."""
        weights = self.regression(*self.values(x, y))
        fitted = weights[..., 1:]
        one = np.eye(fitted.shape[-1])
        one = one if isinstance(weights, np.ndarray) else weights.new_tensor(one)
        return weights[..., 0], (one - fitted) / self.prior_precision

    def predict(self, x: Any, y: Any, x_query: Any) -> tuple[Any, Any]:
        """The mean and the variance (..., q) of y at points (..., q, d), noise included."""
        mean, covariance = self(x, y)
        points = queries(x_query, x, mean)
        spread = ((points @ covariance) * points).sum(-1)
        return (points @ mean[..., None])[..., 0], spread + self.noise

    def certify(self, x: Any, y: Any) -> Certificate:
        """A bound of how far the mean is from the exact iteration's, entry by entry, on these examples.

        The covariance is that over ``prior_precision``; ``minimiser`` bounds the distance of all weights together from
        those of the posterior itself.
        """
        return self.regression.certify(*self.values(x, y))

    def values(self, x: Any, y: Any) -> tuple[Any, Any]:
        """X and the values (y, X) of all outputs, that the regression takes."""
        x, y = alike(x, y)
        if y.shape != x.shape[:-1]:
            got = f"shapes {tuple(x.shape)} and {tuple(y.shape)}"
            raise DomainError("Examples have shapes (..., n, d) and (..., n)", got, "Reshape them")
        return x, side_by_side(y[..., None], x)

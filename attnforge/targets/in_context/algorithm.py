r"""What is minimised, as data: $\frac1n \sum_i \ell(x_i \cdot w, y_i) + \frac{\alpha_2}{2}|w|^2 + \alpha_1 |w|_1$.

The link says what the derivative r of the loss is: ``identity`` $w \cdot x - y$ (least squares), ``clamp`` the same cut
to $[-\delta, \delta]$ (Huber), ``logistic`` $\sigma(w \cdot x) - y$, ``softmax`` over K outputs, ``exponential``
$e^{w \cdot x} - y$ (Poisson). A step is $w \leftarrow \mathrm{prox}(w - \eta(\frac1n\sum_i r_i x_i + \alpha_2 w))$,
the proximal map of $\eta\alpha_1|w|_1$ being $w - \mathrm{clamp}(w, -\eta\alpha_1, \eta\alpha_1)$. The last
``free`` weights (an intercept) are not penalised.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import special

from attnforge.errors import TargetError

Array = npt.NDArray[np.float64]
Link = Literal["identity", "clamp", "logistic", "softmax", "exponential"]


@dataclass(frozen=True)
class Algorithm:
    """A loss by its link, penalties, and the step size."""

    link: Link
    learning_rate: float
    l2: float = 0.0
    l1: float = 0.0
    delta: float = 1.0
    free: int = 0

    def __post_init__(self) -> None:
        if not (np.isfinite(self.learning_rate) and self.learning_rate > 0):
            got = repr(self.learning_rate)
            raise TargetError("`learning_rate` must be a positive number", got, 'Use "auto" with data_bound')
        for name in ("l2", "l1"):
            if not (np.isfinite(getattr(self, name)) and getattr(self, name) >= 0):
                raise TargetError("Penalties must be finite and not negative", f"{name} = {getattr(self, name)!r}")
        if not self.delta > 0:
            raise TargetError("`delta` must be positive", repr(self.delta), "Use 1.35 for data of unit variance")

    def residuals(self, x: Array, y: Array, w: Array) -> Array:
        """The derivatives r (..., n, K) of the loss at weights (..., d, K)."""
        form = x @ w
        match self.link:
            case "identity":
                return form - y
            case "clamp":
                return np.clip(form - y, -self.delta, self.delta)
            case "logistic":
                return np.asarray(special.expit(form) - y)
            case "softmax":
                return np.asarray(special.softmax(form, axis=-1) - y)
            case "exponential":
                return np.exp(form) - y

    def step(self, x: Array, y: Array, w: Array) -> Array:
        """One exact step: what a block of attention is compared with."""
        gradient = np.swapaxes(x, -1, -2) @ self.residuals(x, y, w) / x.shape[-2]
        penalised = self.penalised(w.shape[-2])[:, None]
        moved = w - self.learning_rate * (gradient + self.l2 * penalised * w)
        threshold = self.learning_rate * self.l1 * penalised
        return np.asarray(moved - np.clip(moved, -threshold, threshold))

    def penalised(self, inputs: int) -> Array:
        """One for every weight that penalties are about, zero for free ones."""
        return (np.arange(inputs) < inputs - self.free).astype(np.float64)

    def targets(self, y: Any, outputs: int) -> Any:
        """Values as the y (..., n, K) of tokens: labels around zero, classes as unit vectors, numbers of K outputs."""
        if self.link == "softmax":
            return _unit_vectors(y, outputs)
        if outputs > 1:
            return y
        return (y - self.label_shift)[..., None]

    @property
    def label_shift(self) -> float:
        """What tokens leave off their values: labels lie around zero, so that the link is odd."""
        return 0.5 if self.link == "logistic" else 0.0

    def mean(self, form: Any) -> Any:
        """The prediction at linear forms w.x: themselves, probabilities, or rates."""
        match self.link:
            case "logistic":
                return 1 / (1 + _exp(-form))
            case "softmax":
                weights = _exp(form - _largest(form))
                return weights / weights.sum(-1)[..., None]
            case "exponential":
                return _exp(form)
        return form

    def label_problem(self, y: Array, outputs: int) -> str:
        """What is wrong with the values, if anything."""
        if self.link == "logistic" and not np.isin(y, (0.0, 1.0)).all():
            return "Labels are 0 or 1"
        if self.link == "softmax" and not np.isin(y, np.arange(outputs)).all():
            return f"Classes are 0 to {outputs - 1}"
        if self.link == "exponential" and (y < 0).any():
            return "Counts are not negative"
        return ""


def _unit_vectors(y: Any, outputs: int) -> Any:
    classes = np.arange(outputs) if isinstance(y, np.ndarray) else y.new_tensor(range(outputs))
    return (y[..., None] == classes) * (y[..., None] * 0 + 1)


def _exp(z: Any) -> Any:
    return np.exp(z) if isinstance(z, np.ndarray) else z.exp()


def _largest(z: Any) -> Any:
    return z.max(-1, keepdims=True) if isinstance(z, np.ndarray) else z.max(-1, keepdim=True).values

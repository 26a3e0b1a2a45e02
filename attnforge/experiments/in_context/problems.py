"""Eight regressions: examples drawn for them, gradient descent done exactly, and the attention that does the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

import attnforge as af
from attnforge.experiments.table import Array

FEATURES, EXAMPLES, CLASSES = 10, 300, 4
DTYPES = ("float64", "float32")  # of the attention; exact iteration is done in float64
ALPHA, DELTA = 0.1, 0.5
LONGEST = 5000  # exact steps after which the minimiser is taken to be reached
STILL = 2.0**-52  # of the largest weight: a step that moves none by more is the last
REACH = 6.0  # of the anchors of the interpolation route


@dataclass(frozen=True)
class Kind:
    """A regression by the name of its class, with the step size in units of one over the largest curvature of squares.

    ``link`` names the derivative of its loss, ``l2`` and ``l1`` are its penalties: enough to iterate it exactly
    without the code that builds the network.
    """

    made_by: str
    link: str
    rate: float
    l2: float = 0.0
    l1: float = 0.0
    options: Mapping[str, Any] = field(default_factory=dict)


KINDS: dict[str, Kind] = {
    "least squares": Kind("LeastSquares", "identity", 1.0),
    "ridge": Kind("Ridge", "identity", 0.9, ALPHA, options={"alpha": ALPHA}),
    "lasso": Kind("Lasso", "identity", 1.0, l1=ALPHA, options={"alpha": ALPHA}),
    "elastic net": Kind("ElasticNet", "identity", 0.9, ALPHA / 2, ALPHA / 2, {"alpha": ALPHA, "l1_ratio": 0.5}),
    "Huber": Kind("Huber", "clamp", 1.0, options={"delta": DELTA}),
    "logistic": Kind("Logistic", "logistic", 2.5, ALPHA, options={"alpha": ALPHA}),
    "softmax": Kind("SoftmaxRegression", "softmax", 1.5, ALPHA, options={"alpha": ALPHA, "classes": CLASSES}),
    "Poisson": Kind("Poisson", "exponential", 0.3, ALPHA, options={"alpha": ALPHA}),
}


@dataclass(frozen=True, eq=False)
class Problem:
    """Examples x (n, d) and y (n,), and what is minimised: (1/n) sum of losses plus penalties, from w = 0."""

    kind: Kind
    x: Array
    y: Array

    @cached_property
    def rate(self) -> float:
        """The step size: that of the kind over the largest eigenvalue of X^T X / n."""
        return self.kind.rate / float(np.linalg.eigvalsh(self.x.T @ self.x / len(self.x))[-1])

    @property
    def start(self) -> Array:
        """No weights (d, K)."""
        return np.zeros((self.x.shape[1], CLASSES if self.kind.link == "softmax" else 1))

    def step(self, w: Array) -> Array:
        """One exact step of (proximal) gradient descent from weights (..., d, K)."""
        gradient = self.x.T @ self._derivatives(self.x @ w) / len(self.x) + self.kind.l2 * w
        moved = w - self.rate * gradient
        threshold = self.rate * self.kind.l1
        return np.asarray(np.sign(moved) * np.maximum(np.abs(moved) - threshold, 0.0))

    def iterates(self, steps: int) -> Array:
        """The weights (steps, d, K) after every step."""
        w, found = self.start, []
        for _ in range(steps):
            w = self.step(w)
            found.append(w)
        return np.stack(found)

    def minimiser(self) -> Array:
        """Where the exact iteration stops to move, but for the last bits: the objective is convex."""
        w = self.start
        for _ in range(LONGEST):
            before, w = w, self.step(w)
            if np.abs(w - before).max() <= STILL * np.abs(w).max():
                break
        return w

    def network(self, steps: int, dtype: str = "float64", **options: Any) -> Any:
        """The attention that does the same."""
        made_by = getattr(af.in_context, self.kind.made_by)
        regression = made_by(steps=steps, learning_rate=self.rate, dtype=dtype, **self.kind.options, **options)
        bound = REACH if "route" in options else float(max(np.abs(self.x).max(), np.abs(self.y).max()))
        return regression.build(self.x.shape[1], data_bound=bound)

    def attention(self, net: Any) -> Array:
        """The weights (steps, d, K) after every block of the network."""
        return np.asarray(net.trajectory(self.x, self.y)).reshape(net.steps, *self.start.shape)

    def _derivatives(self, form: Array) -> Array:
        """Of the loss in the linear forms (..., n, K)."""
        match self.kind.link:
            case "identity":
                return form - self.y[:, None]
            case "clamp":
                return np.clip(form - self.y[:, None], -DELTA, DELTA)
            case "logistic":
                return 1 / (1 + np.exp(-form)) - self.y[:, None]
            case "exponential":
                return np.exp(form) - self.y[:, None]
        weights = np.exp(form - form.max(axis=-1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=-1, keepdims=True) - np.eye(CLASSES)[self.y.astype(int)])


def problem(kind: str, examples: int = EXAMPLES, features: int = FEATURES, *, seed: int = 0) -> Problem:
    """Normal examples; values, labels, classes or counts drawn as the regression supposes.

    >>> problem("logistic", 5, 2).x.shape
    (5, 2)
    """
    rng = np.random.default_rng([seed, examples, features])
    x = rng.normal(size=(examples, features))
    w = rng.normal(size=(features, CLASSES)) * (2.5 / features) ** 0.5
    form, noise = x @ w[:, 0], rng.random(examples)
    match KINDS[kind].link:
        case "logistic":
            y = noise < 1 / (1 + np.exp(-form))
        case "softmax":
            y = (2 * x @ w + rng.gumbel(size=(examples, CLASSES))).argmax(axis=1)
        case "exponential":
            y = rng.poisson(np.exp(form / 4))
        case _:
            y = form + 0.3 * rng.normal(size=examples)
    return Problem(KINDS[kind], x, np.asarray(y, dtype=np.float64))

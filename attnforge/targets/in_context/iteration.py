"""The exact iteration: what a stack of blocks is compared with. From examples (X, y) to weights, in T steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from attnforge.errors import DomainError, TargetError
from attnforge.targets.in_context.algorithm import Algorithm, Link
from attnforge.targets.in_context.features import Features, prompt
from attnforge.targets.in_context.prompt_target import PromptTarget
from attnforge.targets.target import AnyArray

Array = npt.NDArray[np.float64]

MOST_STEPS = 1_000_000  # that a file may ask for


@dataclass(frozen=True, eq=False)
class Iteration(PromptTarget):
    """Steps of an algorithm on examples X (..., n, d) and y (..., n), from w = 0: weights (..., d), or (..., d, K).

    ``features`` says how tokens hold the examples; ``data_bound`` bounds all |x_ij| and, of squares and Huber's loss,
    all |y_i|; None where nothing is known of them. ``examples`` is their number, None for any. With ``fit_intercept``
    (the algorithm's ``free`` weight) every x is followed by a one.
    """

    algorithm: Algorithm
    features: Features
    steps: int
    data_bound: float | None = None
    examples: int | None = None

    call, exact = "net(X, y)", "exact weights"

    def __post_init__(self) -> None:
        counts = (self.steps, self.features.inputs - self.algorithm.free, self.features.outputs, self.examples or 1)
        if not all(type(n) is int and n >= 1 for n in counts) or self.steps > MOST_STEPS:
            got = f"{self.steps} steps, {self.features.inputs} inputs, {self.examples} examples"
            raise TargetError("Steps, inputs and examples are whole numbers from 1", got, "Give positive numbers")
        self.check_data_bound()
        object.__setattr__(self, "outputs", None if self.features.outputs == 1 else self.features.outputs)

    @property
    def written(self) -> int:
        """Features of a token: weights are read off the state tokens."""
        return self.features.width

    @property
    def fit_intercept(self) -> bool:
        """Whether the last weight is an intercept."""
        return self.algorithm.free > 0

    def values(self, points: AnyArray) -> AnyArray:
        """Weights for examples (..., n, d + 1), y in the last column."""
        return self.weights(points[..., :-1], points[..., -1])

    def weights(self, x: AnyArray, y: AnyArray) -> AnyArray:
        """The exact weights after all steps, in the precision of the examples."""
        return np.asarray(self.trajectory(x, y)[-1])

    def trajectory(self, x: AnyArray, y: AnyArray) -> AnyArray:
        """The exact iterates after every step, first axis the step."""
        inputs, labels = self.augmented(x), self.labels(y)
        w, found = np.zeros((*x.shape[:-2], inputs.shape[-1], labels.shape[-1]), dtype=inputs.dtype), []
        for _ in range(self.steps):
            w = self.algorithm.step(inputs, labels, w)
            found.append(w if self.features.outputs > 1 else w[..., 0])
        return np.stack(found)

    def labels(self, y: AnyArray) -> AnyArray:
        """Values as the algorithm takes them, (..., n, K): classes as unit vectors."""
        return np.asarray(self.algorithm.targets(y, self.features.outputs) + self.algorithm.label_shift)

    def augmented(self, x: Any) -> Any:
        """With a constant 1 as the last input, if there is an intercept; NumPy or torch."""
        if not self.fit_intercept:
            return x
        if isinstance(x, np.ndarray):
            return np.concatenate([x, np.ones((*x.shape[:-1], 1), dtype=x.dtype)], axis=-1)
        import torch

        return torch.cat([x, x.new_ones((*x.shape[:-1], 1))], dim=-1)

    def prompt(self, x: Any, y: Any) -> Any:
        """The tokens (..., ahead + 2 n, width) of examples, NumPy or torch."""
        return prompt(self.features, self.augmented(x), self.algorithm.targets(y, self.features.outputs))

    def check(self, x: Array, y: Array) -> None:
        """Raise unless these are examples of the domain."""
        d = self.features.inputs - self.algorithm.free
        if x.ndim < 2 or x.shape[-1] != d or y.shape != x.shape[:-1] or not x.shape[-2]:
            got = f"shapes {x.shape} and {y.shape}"
            raise DomainError(f"Examples have shapes (..., n, {d}) and (..., n), n >= 1", got, "Reshape them")
        self.check_examples(x.shape[-2], "Build another")
        if not (np.isfinite(x).all() and np.isfinite(y).all()):
            raise DomainError("Examples must be finite", "NaN or infinity", "Leave these examples out")
        problem = self.algorithm.label_problem(y, self.features.outputs)
        if problem:
            raise DomainError(problem, f"values from {y.min():g} to {y.max():g}", "Encode the labels")
        largest = max(float(np.abs(x).max()), float(np.abs(y).max()) if self.has_numbers else 0.0)
        self.check_within("Examples", largest)

    @property
    def has_numbers(self) -> bool:
        """Whether y are numbers that residuals w.x - y are made of, rather than labels, classes or counts."""
        return self.algorithm.link in ("identity", "clamp")

    def with_steps(self, steps: int) -> Iteration:
        """The same iteration, longer or shorter."""
        return replace(self, steps=steps)

    def describe(self) -> str:
        """One line for people."""
        algorithm, d = self.algorithm, self.features.inputs - self.algorithm.free
        penalties = [f"l2 {algorithm.l2:g}"] * bool(algorithm.l2) + [f"l1 {algorithm.l1:g}"] * bool(algorithm.l1)
        name = NAMES[algorithm.link] + (f" with {' and '.join(penalties)}" if penalties else "")
        more = " and an intercept" if self.fit_intercept else ""
        return f"{name}: {self.steps:,} steps of size {algorithm.learning_rate:.4g} on {d} features{more}"

    def to_data(self) -> tuple[dict[str, Any], dict[str, AnyArray]]:
        """For a file: everything."""
        algorithm = self.algorithm
        numbers = ("learning_rate", "l2", "l1", "delta")
        data = {
            "kind": "in_context",
            "link": algorithm.link,
            "free": algorithm.free,
            **{name: float(getattr(algorithm, name)).hex() for name in numbers},
            "inputs": self.features.inputs,
            "outputs": self.features.outputs,
            "steps": self.steps,
            "data_bound": None if self.data_bound is None else float(self.data_bound).hex(),
            "examples": self.examples,
        }
        levels, answers = (np.array(each, dtype=np.float64) for each in (self.features.levels, self.features.answers))
        return data, {"levels": levels, "answers": answers} if len(levels) else {}

    @classmethod
    def from_data(cls, data: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> Iteration:
        """From a file."""
        if data["link"] not in get_args(Link) or data["free"] not in (0, 1):
            raise TargetError("A stored algorithm has a known link", f"{data['link']!r:.40}, {data['free']!r:.10}")
        rate, l2, l1, delta = (float.fromhex(data[name]) for name in ("learning_rate", "l2", "l1", "delta"))
        algorithm = Algorithm(data["link"], rate, l2, l1, delta, data["free"])
        levels, answers = (np.asarray(arrays.get(name, ()), dtype=np.float64) for name in ("levels", "answers"))
        if levels.ndim != 1 or levels.shape != answers.shape or (levels.size and not np.abs(levels).max() > 0):
            raise TargetError("Levels and answers are two rows of one length", f"{levels.shape} and {answers.shape}")
        inputs, outputs = data["inputs"], data["outputs"]
        if not all(isinstance(n, int) and 1 <= n <= MOST_STEPS for n in (inputs, outputs)):
            raise TargetError("Inputs and outputs are whole numbers from 1", f"{inputs!r:.20} and {outputs!r:.20}")
        features = Features(inputs, outputs, tuple(levels.tolist()), tuple(answers.tolist()))
        bound = None if data["data_bound"] is None else float.fromhex(data["data_bound"])
        return cls(algorithm, features, data["steps"], bound, data["examples"])


NAMES = {
    "identity": "least squares",
    "clamp": "Huber regression",
    "logistic": "logistic regression",
    "softmax": "softmax regression",
    "exponential": "Poisson regression",
}

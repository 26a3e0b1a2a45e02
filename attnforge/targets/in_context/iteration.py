"""The exact iteration: what a stack of blocks is compared with. From examples (X, y) to weights, in T steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from attnforge.errors import DomainError, RefusalError, TargetError
from attnforge.targets.in_context.algorithm import Algorithm, Link
from attnforge.targets.in_context.features import Features, prompt
from attnforge.targets.in_context.prompt_target import PromptTarget
from attnforge.targets.in_context.schedule import Spectrum, check_rates, check_spectrum
from attnforge.targets.target import AnyArray

Array = npt.NDArray[np.float64]

MOST_STEPS = 1_000_000  # that a file may ask for
INSIDE = 1e-9  # of its largest eigenvalue, by which a Hessian may leave the spectrum: roundings of its own ends


@dataclass(frozen=True, eq=False)
class Iteration(PromptTarget):
    r"""Steps of an algorithm on examples X (..., n, d) and y (..., n): weights (..., d), or (..., d, K).

    Squares of K > 1 outputs take y (..., n, K). With weights $s_i$ of examples the objective is
    $\frac1n\sum_i s_i (x_i \cdot w - y_i)^2/2$, that of the examples $\sqrt{s_i}\,(x_i, y_i)$: tokens hold these.

    ``features`` says how tokens hold the examples; ``data_bound`` bounds all |x_ij| and, of squares and Huber's loss,
    all |y_i|; None where nothing is known of them. ``examples`` is their number, None for any. With ``fit_intercept``
    (the algorithm's ``free`` weight) every x is followed by a one.

    ``rates`` are the step sizes, one a step, where they differ: the algorithm's own is then the first. ``spectrum``
    holds the eigenvalues of the Hessian of squares, X^T X / n and its penalty, where steps are made for it: other data
    are refused. ``initial`` (d, K) are the weights before the first step, zero where None.
    """

    algorithm: Algorithm
    features: Features
    steps: int
    data_bound: float | None = None
    examples: int | None = None
    rates: tuple[float, ...] = ()
    spectrum: Spectrum | None = None
    initial: Array | None = None

    call, exact = "net(X, y)", "exact weights"

    def __post_init__(self) -> None:
        counts = (self.steps, self.features.inputs - self.algorithm.free, self.features.outputs, self.examples or 1)
        if not all(type(n) is int and n >= 1 for n in counts) or self.steps > MOST_STEPS:
            got = f"{self.steps} steps, {self.features.inputs} inputs, {self.examples} examples"
            raise TargetError("Steps, inputs and examples are whole numbers from 1", got, "Give positive numbers")
        self.check_data_bound()
        self._check_steps()
        object.__setattr__(self, "outputs", None if self.features.outputs == 1 else self.features.outputs)

    def _check_steps(self) -> None:
        check_rates(self.rates, self.steps)
        if self.rates and self.rates[0] != self.algorithm.learning_rate:
            got = f"{self.rates[0]:g} and {self.algorithm.learning_rate:g}"
            raise TargetError("The algorithm's step size is the first one", got, "Build it anew")
        if self.spectrum is not None:
            object.__setattr__(self, "spectrum", check_spectrum(self.spectrum))
            if self.algorithm.link != "identity" or self.algorithm.l1:
                got = self.algorithm.link if self.algorithm.link != "identity" else f"l1 = {self.algorithm.l1:g}"
                raise TargetError("Steps for a spectrum are of quadratic objectives", got, "Use a constant step size")
        if self.initial is not None:
            shape = (self.features.inputs, self.features.outputs)
            if self.initial.shape != shape or not np.isfinite(self.initial).all():
                got = f"shape {self.initial.shape}"
                raise TargetError(f"First weights are {shape[0] * shape[1]} finite numbers", got, "Give one a weight")

    def at(self, step: int) -> Algorithm:
        """The algorithm with the size of this step."""
        return replace(self.algorithm, learning_rate=self.rates[step]) if self.rates else self.algorithm

    @property
    def start(self) -> Array:
        """The weights (d, K) before the first step."""
        return np.zeros((self.features.inputs, self.features.outputs)) if self.initial is None else self.initial

    @property
    def columns(self) -> tuple[str, ...]:
        """What a token holds, by name: every step keeps it."""
        return self.features.names

    @property
    def written(self) -> int:
        """Features of a token: weights are read off the state tokens."""
        return self.features.width

    @property
    def fit_intercept(self) -> bool:
        """Whether the last weight is an intercept."""
        return self.algorithm.free > 0

    def values(self, points: AnyArray) -> AnyArray:
        """Weights for examples (..., n, d + 1), y in the last column; in the last K of K outputs."""
        if not self.has_columns:
            return self.weights(points[..., :-1], points[..., -1])
        k = self.features.outputs
        return self.weights(points[..., :-k], points[..., -k:])

    def weights(self, x: AnyArray, y: AnyArray, sample_weight: AnyArray | None = None) -> AnyArray:
        """The exact weights after all steps, in the precision of the examples."""
        return np.asarray(self.trajectory(x, y, sample_weight)[-1])

    def trajectory(self, x: AnyArray, y: AnyArray, sample_weight: AnyArray | None = None) -> AnyArray:
        """The exact iterates after every step, first axis the step."""
        inputs, labels = self.problem(x, y, sample_weight)
        w, found = np.zeros((*x.shape[:-2], inputs.shape[-1], labels.shape[-1]), dtype=inputs.dtype) + self.start, []
        for t in range(self.steps):
            w = self.at(t).step(inputs, labels, w)
            found.append(w if self.features.outputs > 1 else w[..., 0])
        return np.stack(found)

    def problem(self, x: AnyArray, y: AnyArray, sample_weight: AnyArray | None = None) -> tuple[AnyArray, AnyArray]:
        """What the algorithm takes: inputs (..., n, d), and values (..., n, K), classes as unit vectors."""
        values = self.algorithm.targets(y, self.features.outputs) + self.algorithm.label_shift
        inputs, values = _scaled(sample_weight, self.augmented(x), np.asarray(values))
        return inputs, values

    def augmented(self, x: Any) -> Any:
        """With a constant 1 as the last input, if there is an intercept; NumPy or torch."""
        if not self.fit_intercept:
            return x
        if isinstance(x, np.ndarray):
            return np.concatenate([x, np.ones((*x.shape[:-1], 1), dtype=x.dtype)], axis=-1)
        import torch

        return torch.cat([x, x.new_ones((*x.shape[:-1], 1))], dim=-1)

    def prompt(self, x: Any, y: Any, sample_weight: Any = None) -> Any:
        """The tokens (..., ahead + 2 n, width) of examples, NumPy or torch."""
        values = self.algorithm.targets(y, self.features.outputs)
        inputs, values = _scaled(sample_weight, self.augmented(x), values)
        return prompt(self.features, inputs, values, self.initial)

    def check(self, x: Array, y: Array, sample_weight: Array | None = None) -> None:
        """Raise unless these are examples of the domain, where they are weighted with positive numbers."""
        d, columns = self.features.inputs - self.algorithm.free, (self.features.outputs,) * self.has_columns
        if x.ndim < 2 or x.shape[-1] != d or y.shape != (*x.shape[:-1], *columns) or not x.shape[-2]:
            got, wanted = f"shapes {x.shape} and {y.shape}", ", ".join(["..., n", *map(str, columns)])
            raise DomainError(f"Examples have shapes (..., n, {d}) and ({wanted}), n >= 1", got, "Reshape them")
        self.check_examples(x.shape[-2], "Build another")
        if not (np.isfinite(x).all() and np.isfinite(y).all()):
            raise DomainError("Examples must be finite", "NaN or infinity", "Leave these examples out")
        problem = self.algorithm.label_problem(y, self.features.outputs)
        if problem:
            raise DomainError(problem, f"values from {y.min():g} to {y.max():g}", "Encode the labels")
        self._check_weights(x, sample_weight)
        x, y = _scaled(sample_weight, x, y if self.has_columns else y[..., None])
        largest = max(float(np.abs(x).max(initial=0.0)), float(np.abs(y).max(initial=0.0)) if self.has_numbers else 0.0)
        self.check_within("Examples", largest)

    def _check_weights(self, x: Array, sample_weight: Array | None) -> None:
        if sample_weight is not None:
            if self.algorithm.link != "identity" or self.features.levels:
                got, remedy = NAMES[self.algorithm.link], "Repeat examples, or use LeastSquares, Ridge or Lasso"
                raise RefusalError("Weighted examples are those of squares, scaled by a root", got, remedy)
            if sample_weight.shape != x.shape[:-1] or not np.all((sample_weight > 0) & np.isfinite(sample_weight)):
                got, remedy = f"shape {sample_weight.shape}", "Leave examples of weight zero out"
                raise DomainError(f"Weights are positive numbers of shape {x.shape[:-1]}", got, remedy)
            if self.fit_intercept and self.data_bound is not None and sample_weight.max() > 1:
                got, remedy = f"{sample_weight.max():g}", "Divide weights, and alpha, by the largest weight"
                raise DomainError("With an intercept, a data bound takes weights up to 1", got, remedy)
        self._check_spectrum(*_scaled(sample_weight, self.augmented(x)))

    def _check_spectrum(self, inputs: Array) -> None:
        if self.spectrum is None or not inputs.size:
            return
        hessian = np.swapaxes(inputs, -1, -2) @ inputs / inputs.shape[-2]
        found = np.linalg.eigvalsh(hessian + np.diag(self.algorithm.l2 * self.algorithm.penalised(inputs.shape[-1])))
        self.check_eigenvalues(float(found.min()), float(found.max()))

    def check_eigenvalues(self, least: float, most: float) -> None:
        """Raise unless the Hessian's eigenvalues lie in the spectrum, up to roundings of its ends."""
        low, high = self.spectrum or (least, most)
        if not (least >= low - INSIDE * high and most <= high * (1 + INSIDE)):
            wanted = f"The eigenvalues of {self.hessian} must lie in the spectrum [{low:g}, {high:g}]"
            remedy = f"Build with spectrum=({least:.3g}, {most:.3g}), or scale the data"
            raise DomainError(wanted, f"{least:.6g} to {most:.6g}", remedy)

    @property
    def hessian(self) -> str:
        """What it is of squares."""
        return "X^T X / n" + (f" + {self.algorithm.l2:g} I" if self.algorithm.l2 else "")

    @property
    def has_columns(self) -> bool:
        """Whether y are numbers of several outputs, (..., n, K)."""
        return self.algorithm.link == "identity" and self.features.outputs > 1

    @property
    def condition(self) -> str:
        """What a certificate for all prompts of steps for a spectrum is conditional on."""
        low, high = self.spectrum or (0.0, np.inf)
        return f"all eigenvalues of {self.hessian} of a prompt lie in [{low!r}, {high!r}]"

    @property
    def has_numbers(self) -> bool:
        """Whether y are numbers that residuals w.x - y are made of, rather than labels, classes or counts."""
        return self.algorithm.link in ("identity", "clamp")

    def with_steps(self, steps: int) -> Iteration:
        """The same iteration, longer or shorter."""
        if self.rates:
            got, remedy = f"{self.steps} step sizes that differ", "Build it with another number of steps"
            raise RefusalError("Only steps of one size can be fewer or more", got, remedy)
        return replace(self, steps=steps)

    def describe(self) -> str:
        """One line for people."""
        algorithm, d = self.algorithm, self.features.inputs - self.algorithm.free
        penalties = [f"l2 {algorithm.l2:g}"] * bool(algorithm.l2) + [f"l1 {algorithm.l1:g}"] * bool(algorithm.l1)
        name = NAMES[algorithm.link] + (f" with {' and '.join(penalties)}" if penalties else "")
        more = " and an intercept" if self.fit_intercept else ""
        return f"{name}: {self.steps:,} {self._sizes()} on {d} features{more}"

    def _sizes(self) -> str:
        if self.spectrum is not None:
            return f"steps for eigenvalues in [{self.spectrum[0]:.4g}, {self.spectrum[1]:.4g}]"
        if self.rates:
            return f"steps of sizes {min(self.rates):.4g} to {max(self.rates):.4g}"
        return f"steps of size {self.algorithm.learning_rate:.4g}"

    def to_data(self) -> tuple[dict[str, Any], dict[str, AnyArray]]:
        """For a file: everything."""
        algorithm = self.algorithm
        numbers = ("learning_rate", "l2", "l1", "delta")
        data: dict[str, Any] = {
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
        if self.spectrum is not None:
            data["spectrum"] = [end.hex() for end in self.spectrum]
        held = {"levels": self.features.levels, "answers": self.features.answers, "rates": self.rates}
        arrays = {name: np.array(each, dtype=np.float64) for name, each in held.items() if len(each)}
        return data, arrays if self.initial is None else arrays | {"initial": self.initial}

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
        rates = tuple(np.asarray(arrays.get("rates", ()), dtype=np.float64).ravel().tolist())
        spectrum = check_spectrum([float.fromhex(end) for end in data["spectrum"]]) if "spectrum" in data else None
        first = np.asarray(arrays["initial"], dtype=np.float64) if "initial" in arrays else None
        steps, examples = data["steps"], data["examples"]
        return cls(algorithm, features, steps, bound, examples, rates, spectrum, first)


def _scaled(sample_weight: Any, *parts: Any) -> tuple[Any, ...]:
    """Rows (..., n, k) times the roots of their weights."""
    return parts if sample_weight is None else tuple(part * sample_weight[..., None] ** 0.5 for part in parts)


NAMES = {
    "identity": "least squares",
    "clamp": "Huber regression",
    "logistic": "logistic regression",
    "softmax": "softmax regression",
    "exponential": "Poisson regression",
}

"""A network that fits its prompt: called as net(X, y), it returns the weights after T steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.errors import DomainError
from attnforge.network import Layer, Network
from attnforge.theorems.in_context.algorithm import Algorithm
from attnforge.theorems.in_context.bound import Drift, drift
from attnforge.theorems.in_context.features import Features, prompt, weights_of
from attnforge.theorems.in_context.sharpness import Sharpness

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class InContextNetwork:
    """Frozen softmax attention that runs an algorithm on the examples of its prompt.

    The same weights serve any number of examples and any batch. ``block`` are the layers of one step, ``features`` what
    a token holds; with ``fit_intercept`` the last weight is the intercept.
    """

    algorithm: Algorithm
    features: Features
    sharpness: Sharpness
    block: tuple[Layer, ...]
    steps: int
    dtype: str
    fit_intercept: bool = False
    examples: int | None = None

    @property
    def network(self) -> Network:
        """All steps, one block after the other: linear maps, softmax heads, residual connections."""
        return Network(self.block * self.steps, self.features.width, construction="in_context")

    def __call__(self, x: Any, y: Any) -> Any:
        """Weights (..., d), or (..., d, K) of K classes, after all steps. NumPy in, NumPy out; torch in, torch out.

        Args:
            x: examples (..., n, d).
            y: their values (..., n): numbers, labels 0 and 1, or classes 0 .. K - 1.
        """
        return self._run(x, y, every=False)

    def trajectory(self, x: Any, y: Any) -> Any:
        """The iterate after every block: (..., steps, d), or (..., steps, d, K)."""
        return self._run(x, y, every=True)

    def predict(self, x: Any, y: Any, x_query: Any) -> Any:
        """Predictions (..., q) at points (..., q, d): numbers, rates, or probabilities (of K classes, (..., q, K))."""
        weights = self(x, y)
        many = self.features.outputs > 1
        form = _augmented(x_query, self.fit_intercept) @ (weights if many else weights[..., None])
        return self.algorithm.mean(form if many else form[..., 0])

    def certify(self, x: Any, y: Any) -> Drift:
        """How far the weights may be from those of the exact iteration, and from the minimiser, on these examples.

        For one prompt, x (n, d) and y (n,). Refused where the step size is too large for the data.
        """
        data = [np.asarray(z, dtype=np.float64) for z in (x, y)]
        self._check(*data)
        if data[0].ndim != 2:
            raise DomainError("A certificate is about one prompt", f"shape {data[0].shape}", "Certify them one by one")
        values = self.algorithm.targets(data[1], self.features.outputs) + self.algorithm.label_shift
        inputs = _augmented(data[0], self.fit_intercept)
        return drift(self.algorithm, self.sharpness, self.steps, self.dtype, inputs, values)

    def module(self, dtype: str | None = None, device: Any = None, trainable: bool = False) -> Any:
        """One block, applied ``steps`` times to the prompt of X and y, as a ``torch.nn.Module``. It does not check."""
        import torch

        from attnforge.runtime import AttentionNetwork
        from attnforge.runtime.looped import LoopedModule

        block = Network(self.block, self.features.width)
        core = AttentionNetwork(block, getattr(torch, dtype or self.dtype), trainable)
        module = LoopedModule(core, self.steps, self._assemble, self._read)
        return module if device is None else module.to(device)

    def _run(self, x: Any, y: Any, every: bool) -> Any:
        import torch

        given = isinstance(x, torch.Tensor)
        kind = x.dtype if given else np.result_type(np.asarray(x).dtype, np.float32)
        data = [z if isinstance(z, torch.Tensor) else torch.from_numpy(np.array(z, dtype=np.float64)) for z in (x, y)]
        self._check(*(z.detach().to("cpu", torch.float64).numpy() for z in data))
        module = self.module(device=data[0].device)
        place = -3 if self.features.outputs > 1 else -2
        found = module.trajectory(*data).movedim(0, place) if every else module(*data)
        return found.to(kind) if given else found.detach().to(torch.float64).numpy().astype(kind)

    def _assemble(self, x: Any, y: Any) -> Any:
        """The prompt of examples and values."""
        return prompt(
            self.features, _augmented(x, self.fit_intercept), self.algorithm.targets(y, self.features.outputs)
        )

    def _read(self, tokens: Any) -> Any:
        held = weights_of(self.features, tokens)
        return held if self.features.outputs > 1 else held[..., 0]

    def _check(self, x: Array, y: Array) -> None:
        d = self.features.inputs - self.fit_intercept
        if x.ndim < 2 or x.shape[-1] != d or y.shape != x.shape[:-1] or not x.shape[-2]:
            got = f"shapes {x.shape} and {y.shape}"
            raise DomainError(f"Examples have shapes (..., n, {d}) and (..., n), n >= 1", got, "Reshape them")
        if self.examples not in (None, x.shape[-2]):
            raise DomainError(f"This network was built for {self.examples} examples", f"{x.shape[-2]}", "Build another")
        if not (np.isfinite(x).all() and np.isfinite(y).all()):
            raise DomainError("Examples must be finite", "NaN or infinity", "Leave these examples out")
        problem = self.algorithm.label_problem(y, self.features.outputs)
        if problem:
            raise DomainError(problem, f"values from {y.min():g} to {y.max():g}", "Encode the labels")


def _augmented(x: Any, fit_intercept: bool) -> Any:
    """With a constant 1 as the last input, if there is an intercept."""
    if not fit_intercept:
        return x
    if isinstance(x, np.ndarray):
        return np.concatenate([x, np.ones((*x.shape[:-1], 1))], axis=-1)
    import torch

    return torch.cat([x, x.new_ones((*x.shape[:-1], 1))], dim=-1)

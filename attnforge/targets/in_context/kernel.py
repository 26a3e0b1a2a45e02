r"""The exact Nadaraya-Watson average: what a head over examples is compared with.

$$ f(x) = \frac{\sum_i K(x, x_i)\,y_i}{\sum_i K(x, x_i)}, \qquad K = e^{-|x - x_i|^2/(2h^2)}\ \text{(Gaussian)}, \qquad
   K = e^{x \cdot x_i/h^2}\ \text{(softmax)} . $$

**Tokens.** A query token is x, an example token $(x_i, y_i)$: raw data. The Gaussian kernel needs $|x_i|^2$, which is
not linear in $x_i$: the prompt puts it into the token, $(x_i, |x_i|^2, y_i)$, a feature of the inputs alone. The prompt
also measures all points from the first example, which the kernel does not notice: otherwise points near 2000 with h = 1
would lose six digits to cancellation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
from flint import arb

from attnforge.errors import DomainError, TargetError
from attnforge.targets.in_context.prompt_target import PromptTarget
from attnforge.targets.target import AnyArray

Array = npt.NDArray[np.float64]
Kernel = Literal["gaussian", "softmax"]


@dataclass(frozen=True, eq=False)
class KernelAverage(PromptTarget):
    """Labels of examples X (..., n, d), y (..., n, k), averaged with weights K(x, x_i) at queries (..., q, d).

    ``data_bound`` bounds every |x_ij|, |y_i| and every entry of a query; None where nothing is known of them.
    ``examples`` is their number, None for any.

    >>> KernelAverage("gaussian", 0.5, 1).average(np.array([[0.0], [1.0]]), np.array([3.0, 5.0]), np.array([[0.5]]))
    array([4.])
    """

    kernel: Kernel
    bandwidth: float
    features: int
    outputs: int = 1
    examples: int | None = None
    data_bound: float | None = None

    call, exact = "net(X, y, X_query)", "exact average"

    def __post_init__(self) -> None:
        check_kernel(self.kernel, self.bandwidth)
        counts = (self.features, self.outputs, 1 if self.examples is None else self.examples)
        if not all(type(n) is int and n >= 1 for n in counts):
            got = f"{self.features}, {self.examples} and {self.outputs}"
            raise TargetError("`features`, `examples` and `outputs` are at least 1", got, "Give positive numbers")
        self.check_data_bound()

    @property
    def scored(self) -> int:
        """Features of an example token that scores read: x, and |x|^2 with the Gaussian kernel; labels follow."""
        return self.features + (self.kernel == "gaussian")

    @property
    def width(self) -> int:
        """Features of an example token."""
        return self.scored + self.outputs

    def values(self, points: AnyArray) -> AnyArray:
        """Averages at the examples (..., n, d + k) themselves, labels in the last columns."""
        x, y = points[..., : self.features], points[..., self.features :]
        return self.average(x, y, x)

    def average(self, x: AnyArray, y: AnyArray, queries: AnyArray) -> AnyArray:
        """The average (..., q), or (..., q, k) where y is (..., n, k), in the precision of the data."""
        labels = y[..., None] if y.ndim == x.ndim - 1 else y
        if self.kernel == "gaussian":
            apart = queries[..., :, None, :] - x[..., None, :, :]
            scores = -(apart * apart).sum(axis=-1) / (2 * x.dtype.type(self.bandwidth) ** 2)
        else:
            scores = queries @ np.swapaxes(x, -1, -2) / x.dtype.type(self.bandwidth) ** 2
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        found = (weights @ labels) / weights.sum(axis=-1, keepdims=True)
        return np.asarray(found if y.ndim == x.ndim else found[..., 0])

    def enclosed(self, x: Array, y: Array, queries: Array) -> list[list[arb]]:
        """The average at each query, for each label, by balls of the caller's precision; y is (n, k)."""
        points = [[arb(entry) for entry in row] for row in x.tolist()]
        return [self._enclosed_at(points, y.tolist(), [arb(entry) for entry in query]) for query in queries.tolist()]

    def _enclosed_at(self, points: list[list[arb]], labels: list[list[float]], query: list[arb]) -> list[arb]:
        scores = [self._score(query, point) / arb(self.bandwidth) ** 2 for point in points]
        best = max(scores, key=lambda score: float(score.mid()))
        weights = [(score - best).exp() for score in scores]
        total = sum(weights, arb(0))
        columns = zip(*labels, strict=True)
        return [sum((w * arb(v) for w, v in zip(weights, column, strict=True)), arb(0)) / total for column in columns]

    def _score(self, query: list[arb], point: list[arb]) -> arb:
        pairs = zip(query, point, strict=True)
        if self.kernel == "gaussian":
            return sum((-((a - b) ** 2) / 2 for a, b in pairs), arb(0))
        return sum((a * b for a, b in pairs), arb(0))

    def prompt(self, x: Any, y: Any, queries: Any) -> tuple[Any, Any]:
        """Query tokens (..., q, d) and example tokens (..., n, width) of x, y (..., n, k); NumPy or torch."""
        return tokens(self.kernel, x, y, queries)

    def check(self, x: Array, y: Array, queries: Array) -> None:
        """Raise unless these are examples, labels in columns, and queries of the domain."""
        self._check_shapes(x.shape, y.shape, queries.shape)
        for name, values in (("X", x), ("y", y), ("X_query", queries)):
            if not np.isfinite(values).all():
                raise DomainError(f"{name} must be finite", "NaN or infinity", "Leave these examples out")
        self.check_within("X, y and X_query", max(float(np.abs(each).max(initial=0.0)) for each in (x, y, queries)))

    def _check_shapes(self, x: tuple[int, ...], y: tuple[int, ...], queries: tuple[int, ...]) -> None:
        d = self.features
        if len(x) < 2 or x[-1] != d or y[:-1] != x[:-1] or 0 in (*x[-2:], y[-1]):
            got = f"shapes {tuple(x)} and, of labels in columns, {tuple(y)}"
            raise DomainError(f"X is (..., n, {d}) and y (..., n) or (..., n, k), n >= 1", got, "Reshape them")
        self.check_examples(x[-2], "Build without `examples`")
        try:
            if queries[-1:] != (d,) or len(queries) < 2:
                raise ValueError
            np.broadcast_shapes(x[:-2], queries[:-2])
        except ValueError:
            got = f"shapes {tuple(queries)} and, of X, {tuple(x)}"
            wanted = f"X_query is (..., q, {d}), its leading axes broadcast with those of X"
            raise DomainError(wanted, got, "Reshape it") from None

    def describe(self) -> str:
        """One line for people."""
        name = "Gaussian" if self.kernel == "gaussian" else "softmax"
        many = f", {self.outputs} labels" if self.outputs > 1 else ""
        return f"{name} kernel regression of bandwidth {self.bandwidth:.4g} on {self.features} features{many}"

    def to_data(self) -> tuple[dict[str, Any], dict[str, AnyArray]]:
        """For a file: everything."""
        data = {
            "kind": "kernel_average",
            "kernel": self.kernel,
            "bandwidth": float(self.bandwidth).hex(),
            "features": self.features,
            "outputs": self.outputs,
            "examples": self.examples,
            "data_bound": None if self.data_bound is None else float(self.data_bound).hex(),
        }
        return data, {}

    @classmethod
    def from_data(cls, data: Mapping[str, Any], _arrays: Mapping[str, AnyArray]) -> KernelAverage:
        """From a file."""
        bound = None if data["data_bound"] is None else float.fromhex(data["data_bound"])
        width, counts = float.fromhex(data["bandwidth"]), (data["features"], data["outputs"], data["examples"])
        return cls(data["kernel"], width, *counts, bound)


def check_kernel(kernel: str, bandwidth: float) -> None:
    """Raise unless the kernel is one of ours and the sharpness 1/h^2 is a positive number."""
    if kernel not in get_args(Kernel):
        raise TargetError("`kernel` must be 'gaussian' or 'softmax'", repr(kernel)[:40], "Use 'gaussian'")
    if not (np.isfinite(bandwidth) and 1e-150 <= bandwidth <= 1e150):
        raise TargetError("`bandwidth` must be a positive number between 1e-150 and 1e150", repr(bandwidth), "Use 1.0")


def tokens(kernel: Kernel, x: Any, y: Any, queries: Any) -> tuple[Any, Any]:
    """Query tokens (..., q, d) and example tokens (..., n, d + k), or d + 1 + k with the Gaussian kernel.

    From x (..., n, d), y (..., n, k) and queries (..., q, d), all NumPy or all torch.

    >>> tokens("gaussian", np.array([[2.0], [5.0]]), np.array([[7.0], [8.0]]), np.array([[4.0]]))
    (array([[2.]]), array([[0., 0., 7.], [3., 9., 8.]]))
    """
    if kernel == "softmax":
        return queries, side_by_side(x, y)
    queries, x = queries - x[..., :1, :], x - x[..., :1, :]
    return queries, side_by_side(x, (x * x).sum(-1)[..., None], y)


def side_by_side(*parts: Any) -> Any:
    """Columns, NumPy's or torch's."""
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts, axis=-1)
    import torch

    return torch.cat(parts, dim=-1)

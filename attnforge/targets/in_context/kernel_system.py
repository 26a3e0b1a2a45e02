r"""Kernel ridge regression as an iteration: (K + alpha I) a = y by steps, and the tokens that hold it.

$K_{ij} = e^{-|x_i - x_j|^2/(2h^2)}$, and a step is $a \leftarrow a + \eta_t (y - \alpha a - K a)$ from a = 0. K has
eigenvalues between 0 and its trace n, so $K + \alpha I$ has its own in $[\alpha, \alpha + n]$, whatever the data are.
Predictions $\sum_i a_i K(x, x_i)$ are the mean of a Gaussian process with this kernel and noise of variance alpha.

**Tokens**, one an example: x, $|x|^2$ (``square``), 1 (``one``), ``y``, the coefficient ``a`` and the workspace
``product``. As for :mod:`.kernel`, points are measured from the first example, which the kernel does not notice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.errors import DomainError, RefusalError, TargetError
from attnforge.targets.in_context.kernel import check_kernel, side_by_side
from attnforge.targets.in_context.prompt_target import PromptTarget
from attnforge.targets.in_context.schedule import Spectrum, check_rates, check_spectrum
from attnforge.targets.target import AnyArray

Array = npt.NDArray[np.float64]

EXTRA = ("square", "one", "y", "a", "product")
"""Features of a token behind x."""


@dataclass(frozen=True, eq=False)
class KernelSystem(PromptTarget):
    """Coefficients a (..., n) after all steps, one of ``rates`` each, on examples X (..., n, d) and y (..., n).

    ``spectrum`` holds the eigenvalues of K + alpha I. ``examples`` is their number, None for any. ``data_bound`` bounds
    every |x_ij| and |y_i|; None where nothing is known of them.

    >>> system = KernelSystem(1.0, 1.0, 1, (0.5,) * 50, (1.0, 3.0))
    >>> system.coefficients(np.array([[0.0], [9.0]]), np.array([2.0, 4.0])).round(9)
    array([1., 2.])
    """

    alpha: float
    bandwidth: float
    features: int
    rates: tuple[float, ...]
    spectrum: Spectrum
    examples: int | None = None
    data_bound: float | None = None

    call, exact = "net(X, y)", "exact coefficients"

    def __post_init__(self) -> None:
        check_kernel("gaussian", self.bandwidth)
        if not (np.isfinite(self.alpha) and self.alpha > 0):
            raise TargetError("`alpha` must be a positive number", repr(self.alpha), "Use 1.0")
        counts = (self.features, 1 if self.examples is None else self.examples, len(self.rates))
        if not all(type(n) is int and n >= 1 for n in counts):
            got = f"{self.features} features, {self.examples} examples, {len(self.rates)} steps"
            raise TargetError("Features, examples and steps are whole numbers from 1", got, "Give positive numbers")
        check_rates(self.rates, len(self.rates))
        object.__setattr__(self, "spectrum", check_spectrum(self.spectrum))
        self.check_data_bound()

    @property
    def steps(self) -> int:
        """Number of steps."""
        return len(self.rates)

    @property
    def width(self) -> int:
        """Features of a token."""
        return self.features + len(EXTRA)

    @property
    def columns(self) -> tuple[str, ...]:
        """A name for every feature of a token, which steps keep."""
        return (*(f"x[{i}]" for i in range(self.features)), *EXTRA)

    @property
    def written(self) -> int:
        """Features of a token: coefficients are read off the tokens."""
        return self.width

    def place(self, name: str) -> int:
        """Where a feature behind x stands."""
        return self.features + EXTRA.index(name)

    def gram(self, queries: AnyArray, x: AnyArray) -> AnyArray:
        """The kernel (..., q, n), in the precision of the data."""
        apart = sum(((queries[..., :, None, j] - x[..., None, :, j]) ** 2 for j in range(x.shape[-1])), start=0.0)
        return np.asarray(np.exp(-apart / (2 * x.dtype.type(self.bandwidth) ** 2)))

    def values(self, points: AnyArray) -> AnyArray:
        """Coefficients for examples (..., n, d + 1), y in the last column."""
        return self.coefficients(points[..., :-1], points[..., -1])

    def coefficients(self, x: AnyArray, y: AnyArray) -> AnyArray:
        """After all steps, in the precision of the examples."""
        return np.asarray(self.trajectory(x, y)[-1])

    def trajectory(self, x: AnyArray, y: AnyArray) -> AnyArray:
        """After every step, first axis the step."""
        gram, a, found = self.gram(x, x), np.zeros_like(y), []
        for rate in self.rates:
            a = a + rate * (y - self.alpha * a - (gram @ a[..., None])[..., 0])
            found.append(a)
        return np.stack(found)

    def prompt(self, x: Any, y: Any) -> Any:
        """The tokens (..., n, width) of examples, NumPy or torch.

        >>> KernelSystem(1.0, 1.0, 1, (0.5,), (1.0, 3.0)).prompt(np.array([[2.0], [5.0]]), np.array([7.0, 8.0]))
        array([[0., 0., 1., 7., 0., 0.], [3., 9., 1., 8., 0., 0.]])
        """
        x, y = x - x[..., :1, :], y[..., None]
        return side_by_side(x, (x * x).sum(-1)[..., None], y * 0 + 1, y, y * 0, y * 0)

    def check(self, x: Array, y: Array, sample_weight: Array | None = None) -> None:
        """Raise unless these are examples of the domain, all of one weight."""
        if sample_weight is not None:
            got, remedy = "sample_weight", "Leave it out"
            raise RefusalError("Examples of kernel ridge regression have no weights", got, remedy)
        if x.ndim < 2 or x.shape[-1] != self.features or y.shape != x.shape[:-1] or not x.shape[-2]:
            got = f"shapes {x.shape} and {y.shape}"
            raise DomainError(
                f"Examples have shapes (..., n, {self.features}) and (..., n), n >= 1", got, "Reshape them"
            )
        self.check_examples(x.shape[-2], "Build another")
        if not (np.isfinite(x).all() and np.isfinite(y).all()):
            raise DomainError("Examples must be finite", "NaN or infinity", "Leave these examples out")
        self.check_within("Examples", max(float(np.abs(each).max(initial=0.0)) for each in (x, y)))
        if x.size and not self.is_certain(x.shape[-2]):
            self._check_spectrum(x)

    def is_certain(self, examples: int) -> bool:
        """Whether K + alpha I has its eigenvalues in the spectrum for all examples, so many of them."""
        return self.spectrum[0] <= self.alpha and self.alpha + examples <= self.spectrum[1]

    def _check_spectrum(self, x: Array) -> None:
        found = np.linalg.eigvalsh(self.gram(x, x)) + self.alpha
        self.check_eigenvalues(float(found.min()), float(found.max()))

    def check_eigenvalues(self, least: float, most: float) -> None:
        """Raise unless the eigenvalues of K + alpha I lie in the spectrum, up to roundings."""
        low, high = self.spectrum
        if not (least >= low - 1e-9 * high and most <= high * (1 + 1e-9)):
            wanted = f"The eigenvalues of K + {self.alpha:g} I must lie in the spectrum [{low:g}, {high:g}]"
            remedy = f"Build with spectrum=({self.alpha:g}, {most:.4g}), or for as many examples"
            raise DomainError(wanted, f"{least:.6g} to {most:.6g}", remedy)

    def describe(self) -> str:
        """One line for people."""
        low, high = self.spectrum
        return (
            f"kernel ridge regression of bandwidth {self.bandwidth:.4g} with alpha {self.alpha:g}: {self.steps:,} "
            f"steps for eigenvalues in [{low:.4g}, {high:.4g}] on {self.features} features"
        )

    def to_data(self) -> tuple[dict[str, Any], dict[str, AnyArray]]:
        """For a file: everything."""
        numbers = {"alpha": self.alpha, "bandwidth": self.bandwidth, "low": self.spectrum[0], "high": self.spectrum[1]}
        data = {
            "kind": "kernel_system",
            "features": self.features,
            "examples": self.examples,
            "data_bound": None if self.data_bound is None else float(self.data_bound).hex(),
            **{name: float(number).hex() for name, number in numbers.items()},
        }
        return data, {"rates": np.array(self.rates)}

    @classmethod
    def from_data(cls, data: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> KernelSystem:
        """From a file."""
        alpha, width, low, high = (float.fromhex(data[name]) for name in ("alpha", "bandwidth", "low", "high"))
        bound = None if data["data_bound"] is None else float.fromhex(data["data_bound"])
        rates = tuple(np.asarray(arrays["rates"], dtype=np.float64).ravel().tolist())
        return cls(alpha, width, data["features"], rates, (low, high), data["examples"], bound)

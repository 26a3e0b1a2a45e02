"""Kernel (Nadaraya-Watson) regression on the examples of a prompt: one softmax head, exact."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from attnforge.balls import DType, dtype_name
from attnforge.errors import DomainError, TargetError
from attnforge.network import Network
from attnforge.theorems.in_context.kernel_regression import (
    HIDDEN,
    Kernel,
    causal_network,
    check_kernel,
    network,
    tokens,
)

if TYPE_CHECKING:
    from torch import Tensor

    from attnforge.runtime import AttentionNetwork

    _Data = tuple[Tensor, Tensor, Tensor]


@dataclass(frozen=True)
class KernelRegression:
    r"""Labels averaged with weights $K(x, x_i)$: by one softmax head, equal to the closed form up to rounding.

    Args:
        bandwidth: h, the distance at which examples stop to matter.
        kernel: "gaussian", $e^{-|x - x_i|^2/(2h^2)}$, whose prompt holds $|x_i|^2$ beside $x_i$ and $y_i$; or
            "softmax", $e^{x \cdot x_i/h^2}$, from raw data alone.
        dtype: in which the network runs.

    >>> net = KernelRegression(bandwidth=0.5).build(features=1)
    >>> net.predict([[0.0], [1.0]], [3.0, 5.0], [[0.0], [0.5], [100.0]])
    array([3.2384..., 4. , 5. ])
    """

    bandwidth: float = 1.0
    kernel: Kernel = "gaussian"
    dtype: DType = "float64"

    def __post_init__(self) -> None:
        check_kernel(self.kernel, self.bandwidth)
        if dtype_name(self.dtype) not in ("float64", "float32", "bfloat16"):
            raise TargetError("`dtype` must be float64, float32 or bfloat16", repr(self.dtype), 'Use "float64"')

    def build(self, features: int, examples: int | None = None, outputs: int = 1) -> KernelNetwork:
        """The network for examples of so many features, any number of them.

        Args:
            features: inputs d of an example.
            examples: not needed; given, calls with another number are refused, and the network says so in its shape.
            outputs: labels k of an example. Calls with another number use the same head with a wider value map.
        """
        if min(features, outputs, 1 if examples is None else examples) < 1:
            got = f"{features}, {examples} and {outputs}"
            raise TargetError("`features`, `examples` and `outputs` are at least 1", got, "Give positive numbers")
        return KernelNetwork(self, features, examples, outputs)


@dataclass(frozen=True, eq=False)
class KernelNetwork:
    """Frozen softmax attention that predicts from the examples of its prompt; made by :class:`KernelRegression`.

    X is (..., n, d), y (..., n) or (..., n, k), X_query (..., q, d) with leading axes that broadcast with those of X.
    NumPy in, NumPy out; torch in, torch out, same dtype and device, differentiable. The same weights serve any n, q
    and batch.
    """

    regression: KernelRegression
    features: int
    examples: int | None = None
    outputs: int = 1

    @cached_property
    def network(self) -> Network:
        """One head: query tokens attend to example tokens, the second input. See :meth:`tokens`."""
        kind = self.regression
        return network(kind.kernel, kind.bandwidth, self.features, self.outputs, self.examples)

    def causal_network(self, examples: int) -> Network:
        """The head with positions for so many examples, where query i sees the examples before it."""
        kind = self.regression
        return causal_network(kind.kernel, kind.bandwidth, self.features, self.outputs, examples)

    def tokens(self, x: Any, y: Any, x_query: Any) -> tuple[Any, Any]:
        """What network and module take: query tokens (..., q, d) and example tokens (..., n, m).

        >>> net = KernelRegression().build(features=1)
        >>> net.network(*net.tokens([[0.0], [2.0]], [3.0, 5.0], [[1.0]]))
        array([[4.]])
        """
        data, kind = self._checked(x, y, x_query)
        asking, told = self._tokens(data)
        return _returned(asking, kind), _returned(told, kind)

    def predict(self, x: Any, y: Any, x_query: Any) -> Any:
        """Predictions (..., q), or (..., q, k) where y is (..., n, k)."""
        data, kind = self._checked(x, y, x_query)
        fitting = self._for(data)
        return _returned(_run(fitting._module, fitting._tokens(data), np.ndim(y) == np.ndim(x)), kind)

    def predict_causal(self, x: Any, y: Any) -> Any:
        """Predictions (..., n), or (..., n, k), at every example from those before it; 0 at the first, which sees none.

        The positions of n examples are weights: the network is built for this n, at most 2,048.
        """
        data, kind = self._checked(x, y, x)
        fitting = self._for(data)
        module = fitting._as_module(fitting.causal_network(data[0].shape[-2]))
        prompt = fitting._tokens(data)
        # |x.x_i - |x_i|^2 / 2| is at most 3/2 d max^2, so this keeps scores below HIDDEN / 8
        if not prompt[0].abs().max() / self.regression.bandwidth <= np.sqrt(HIDDEN / (16 * self.features)):
            got, remedy = "a larger score", "Scale the data, or use a larger bandwidth"
            raise DomainError(f"Scores must not exceed {HIDDEN / 8:g}, where the mask begins", got, remedy)
        return _returned(_run(module, prompt, np.ndim(y) == np.ndim(x)), kind)

    def attention(self, x: Any, y: Any, x_query: Any) -> list[list[Any]]:
        """The weights (..., q, n), in a list over layers of a list over heads, as everywhere: ``[[weights]]``."""
        data, kind = self._checked(x, y, x_query)
        fitting = self._for(data)
        found = fitting._module.to(data[0].device).attention(*fitting._tokens(data))
        return [[_returned(weights, kind) for weights in layer] for layer in found]

    def module(self, dtype: DType | None = None, device: Any = None, trainable: bool = False) -> AttentionNetwork:
        """A ``torch.nn.Module`` called as ``module(*net.tokens(X, y, X_query))``: (..., q, k). It checks no numbers."""
        module = self._as_module(self.network, dtype, trainable)
        return module if device is None else module.to(device)

    @cached_property
    def _module(self) -> AttentionNetwork:
        return self.module()

    def _as_module(self, net: Network, dtype: DType | None = None, trainable: bool = False) -> AttentionNetwork:
        import torch

        from attnforge.runtime import AttentionNetwork

        return AttentionNetwork(net, getattr(torch, dtype_name(dtype or self.regression.dtype)), trainable)

    def _for(self, data: _Data) -> KernelNetwork:
        """This network, or with the value map of another number of labels."""
        k = data[1].shape[-1]
        return self if k == self.outputs else replace(self, outputs=k)

    def _tokens(self, data: _Data) -> tuple[Tensor, Tensor]:
        x, y, x_query = data
        batch = np.broadcast_shapes(x.shape[:-2], x_query.shape[:-2])
        asking: Tensor
        asking, told = tokens(self.regression.kernel, x, y, x_query.expand(*batch, *x_query.shape[-2:]))
        return asking, told

    def _checked(self, x: Any, y: Any, x_query: Any) -> tuple[_Data, Any]:
        """Finite tensors (..., n, d), (..., n, k) and (..., q, d) in float64, and the dtype of the answer."""
        (x, y, x_query), kind = _tensors(x, y, x_query)
        y = y[..., None] if y.dim() == x.dim() - 1 else y
        self._check_shapes(x, y, x_query)
        for name, values in (("X", x), ("y", y), ("X_query", x_query)):
            if not values.isfinite().all():
                raise DomainError(f"{name} must be finite", "NaN or infinity", "Leave these examples out")
        return (x, y, x_query), kind

    def _check_shapes(self, x: Tensor, y: Tensor, x_query: Tensor) -> None:
        d, n = self.features, self.examples or "n"
        if x.dim() < 2 or x.shape[-1] != d or y.shape[:-1] != x.shape[:-1] or 0 in (*x.shape[-2:], y.shape[-1]):
            got = f"shapes {tuple(x.shape)} and, of labels in columns, {tuple(y.shape)}"
            raise DomainError(f"X is (..., n, {d}) and y (..., n) or (..., n, k), n >= 1", got, "Reshape them")
        if self.examples not in (None, x.shape[-2]):
            raise DomainError(f"This network was built for {n} examples", str(x.shape[-2]), "Build without `examples`")
        try:
            if x_query.shape[-1:] != (d,) or x_query.dim() < 2:
                raise ValueError
            np.broadcast_shapes(x.shape[:-2], x_query.shape[:-2])
        except ValueError:
            got = f"shapes {tuple(x_query.shape)} and, of X, {tuple(x.shape)}"
            wanted = f"X_query is (..., q, {d}), its leading axes broadcast with those of X"
            raise DomainError(wanted, got, "Reshape it") from None


def _tensors(*given: Any) -> tuple[_Data, Any]:
    """All inputs as float64 tensors on one device, and the dtype of the answer: torch's or NumPy's."""
    import torch

    if not any(isinstance(values, torch.Tensor) for values in given):
        arrays = [np.asarray(values) for values in given]
        _check_real([array.dtype for array in arrays if array.dtype.kind not in "fiub"])
        single = all(array.dtype == np.float32 for array in arrays)
        x, y, x_query = (torch.from_numpy(np.array(array, dtype=np.float64)) for array in arrays)
        return (x, y, x_query), np.dtype(np.float32 if single else np.float64)
    device = next(values.device for values in given if isinstance(values, torch.Tensor))
    x, y, x_query = (torch.as_tensor(values).to(device) for values in given)
    _check_real([tensor.dtype for tensor in (x, y, x_query) if tensor.is_complex()])
    kind = torch.promote_types(torch.promote_types(x.dtype, y.dtype), x_query.dtype)
    return (x.double(), y.double(), x_query.double()), kind if kind.is_floating_point else torch.float64


def _check_real(others: list[Any]) -> None:
    if others:
        raise DomainError("X, y and X_query must hold real numbers", str(others[0]), "Pass real numbers")


def _run(module: AttentionNetwork, prompt: tuple[Tensor, Tensor], many: bool) -> Tensor:
    """The module's predictions, with the axis of labels where ``many``."""
    out: Tensor = module.to(prompt[0].device)(*prompt)
    if not out.isfinite().all():
        remedy = "Scale the data, or use a larger bandwidth"
        raise DomainError("Scores (points / bandwidth)^2 must not overflow", "a score that is not finite", remedy)
    return out if many else out[..., 0]


def _returned(found: Tensor, kind: Any) -> Any:
    """In the caller's dtype: an array where that is NumPy's."""
    if isinstance(kind, np.dtype):
        return found.detach().double().numpy().astype(kind)
    return found.to(kind)

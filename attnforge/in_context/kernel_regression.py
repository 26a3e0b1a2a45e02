"""Kernel (Nadaraya-Watson) regression on the examples of a prompt: one softmax head, exact."""

from __future__ import annotations

from dataclasses import dataclass

from attnforge.compiler.kernel import KernelNetwork, certified_average
from attnforge.errors import TargetError
from attnforge.outward import DType, dtype_name
from attnforge.targets.in_context.kernel import Kernel, KernelAverage, check_kernel
from attnforge.theorems.in_context.kernel_regression import network


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

    def build(
        self, features: int, examples: int | None = None, outputs: int = 1, data_bound: float | None = None
    ) -> KernelNetwork:
        """The network for examples of so many features, any number of them.

        Args:
            features: inputs d of an example.
            examples: not needed; given, calls with another number are refused, and the network says so in its shape.
            outputs: labels k of an example.
            data_bound: of every number in X, y and X_query; with it ``net.certificate`` covers all such prompts.
        """
        target = KernelAverage(self.kernel, float(self.bandwidth), features, outputs, examples, data_bound)
        made = network(self.kernel, target.bandwidth, features, outputs, examples)
        return certified_average(made, target, "in_context", self.dtype)

"""Kernel ridge regression, which is the mean of a Gaussian process, in context: one head a step."""

from __future__ import annotations

from dataclasses import dataclass

from attnforge.compiler.kernel_ridge import KernelRidgeNetwork, certified_system
from attnforge.errors import RefusalError, TargetError
from attnforge.outward import DType, dtype_name
from attnforge.targets.in_context import KernelSystem
from attnforge.targets.in_context.schedule import Spectrum, chebyshev
from attnforge.theorems.in_context.kernel_ridge import network


@dataclass(frozen=True)
class KernelRidge:
    r"""Coefficients a of $(K + \alpha I)\,a = y$, $K_{ij} = e^{-|x_i - x_j|^2/(2h^2)}$, by Chebyshev steps.

    Args:
        alpha: as scikit-learn has it, not divided by n; the variance of the noise of a Gaussian process.
        bandwidth: h of the kernel; scikit-learn's gamma is 1 / (2 h^2).
        steps: blocks of the network, about $\frac12\sqrt{(\alpha + n)/\alpha}\,\ln(2/\varepsilon)$ for an error
            $\varepsilon$ of the coefficients, relative to those of the solution.
        spectrum: (m, L) that holds the eigenvalues of K + alpha I; [alpha, alpha + n], where they always are, if None.
        dtype: in which the network runs.

    >>> net = KernelRidge(alpha=0.5, bandwidth=1.0, steps=30).build(features=1, examples=3)
    >>> net([[0.0], [1.0], [2.0]], [1.0, 2.0, 3.0]).round(6)
    array([0.307804, 0.491804, 1.773366])
    """

    alpha: float = 1.0
    bandwidth: float = 1.0
    steps: int = 200
    spectrum: Spectrum | None = None
    dtype: DType = "float64"

    def build(self, features: int, examples: int | None = None, data_bound: float | None = None) -> KernelRidgeNetwork:
        """The network for examples of so many features.

        Args:
            features: inputs d of an example.
            examples: their number n, which the spectrum depends on: calls with another are refused. With a
                ``spectrum`` of one's own it may be left out, and prompts that do not keep to it are refused.
            data_bound: a bound of all |x_ij| and |y_i|: larger ones are refused.
        """
        if self.steps < 1 or features < 1:
            raise TargetError("`steps` and `features` are at least 1", f"{self.steps} and {features}")
        if dtype_name(self.dtype) not in ("float64", "float32"):
            raise TargetError("`dtype` must be float64 or float32", repr(self.dtype), 'Use "float64"')
        if not self.alpha > 0:
            raise TargetError("`alpha` must be positive", repr(self.alpha), "Use 1.0")
        spectrum = self.spectrum
        if spectrum is None:
            if examples is None:
                remedy = "Pass examples=n, or spectrum=(m, L) to KernelRidge"
                raise RefusalError("Steps for [alpha, alpha + n] need the number of examples", "none", remedy)
            spectrum = (float(self.alpha), float(self.alpha) + examples)
        rates = chebyshev(self.steps, spectrum)
        target = KernelSystem(float(self.alpha), float(self.bandwidth), features, rates, spectrum, examples, data_bound)
        return certified_system(network(target, dtype_name(self.dtype)), target, "in_context", self.dtype)

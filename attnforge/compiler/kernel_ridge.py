"""A network that solves the kernel system of its prompt: called as net(X, y), it returns the coefficients."""

from __future__ import annotations

from typing import Any

import numpy as np

from attnforge.certification import Certificate
from attnforge.certification.in_context.kernel_ridge import certify_system, refuse_box
from attnforge.compiler.in_context import SteppedNetwork, queries
from attnforge.errors import DomainError
from attnforge.targets.in_context import KernelSystem


class KernelRidgeNetwork(SteppedNetwork):
    """Frozen softmax attention that runs kernel ridge regression on the examples of its prompt.

    ``target`` is the exact iteration; :meth:`certify` bounds |net(X, y) - target| on a prompt.
    """

    target: KernelSystem
    prove = staticmethod(refuse_box)

    def predict(self, x: Any, y: Any, x_query: Any) -> Any:
        """Predictions (..., q) at points (..., q, d): sums of the coefficients, weighted by the kernel."""
        a, scale = self(x, y), 2 * self.target.bandwidth**2
        x_query, x = queries(x_query, x, a), queries(x, x, a)
        apart = ((x_query[..., :, None, :] - x[..., None, :, :]) ** 2).sum(-1) / -scale
        kernel = np.exp(apart) if isinstance(a, np.ndarray) else apart.exp().to(a.dtype)
        return (kernel @ a[..., None])[..., 0]

    def certify(self, x: Any, y: Any) -> Certificate:
        """A bound of |net(X, y) - exact coefficients|, entry by entry, on these examples; from the network's numbers.

        For one prompt, x (n, d) and y (n,). ``parts`` add up to the bound after all steps, ``step`` are those of the
        largest error of one step; ``contraction`` is the factor of a step on average and ``minimiser`` the Euclidean
        distance to the solution of (K + alpha I) a = y.
        """
        return certify_system(self.network, self.target, self.dtype, *self._one_prompt(x, y))

    def _assembled(self, x: Any, y: Any, sample_weight: Any = None) -> Any:
        """In float64: differences and squares lose digits that a cast of theirs does not."""
        return self.target.prompt(x, y) if isinstance(x, np.ndarray) else self.target.prompt(x.double(), y.double())

    def _read(self, tokens: Any) -> Any:
        return tokens[..., self.target.place("a")]

    def _run(self, data: tuple[Any, ...], every: bool) -> Any:
        found = super()._run(data, every)
        if not (np.isfinite(found).all() if isinstance(found, np.ndarray) else found.isfinite().all()):
            remedy = "Scale the data, or use a larger bandwidth"
            raise DomainError("Scores (points / bandwidth)^2 must not overflow", "a score that is not finite", remedy)
        return found


certified_system = KernelRidgeNetwork.certified

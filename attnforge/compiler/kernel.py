"""A network that averages the labels of its prompt: called as net(X, y, X_query)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from attnforge.arrays import returned, tensors
from attnforge.certification import Certificate
from attnforge.certification.in_context.kernel import certify_average, certify_average_box
from attnforge.compiler.in_context import PromptNetwork
from attnforge.errors import DomainError
from attnforge.outward import DType
from attnforge.targets.in_context import KernelAverage
from attnforge.theorems.in_context.kernel_regression import HIDDEN, causal_network

if TYPE_CHECKING:
    from torch import Tensor

    from attnforge.runtime import AttentionNetwork

    _Data = tuple[Tensor, Tensor, Tensor]


class KernelNetwork(PromptNetwork):
    """Frozen softmax attention that predicts from the examples of its prompt.

    X is (..., n, d), y (..., n) or (..., n, k), X_query (..., q, d) with leading axes that broadcast with those of X.
    NumPy in, NumPy out; torch in, torch out, same dtype and device, differentiable. The same weights serve any n, q
    and batch. A network of one output takes the columns of y one by one, as prompts of their own.

    ``target`` is the exact average, ``certificate`` bounds |net(X, y, X_query) - target|. :meth:`certify` gives the
    certificate of one prompt, which is far smaller.
    """

    target: KernelAverage
    prove = staticmethod(certify_average_box)

    def __call__(self, x: Any, y: Any, x_query: Any) -> Any:
        """Predictions (..., q), or (..., q, k) where y is (..., n, k)."""
        data, kind = self._checked(x, y, x_query)
        many = data[1].shape[-1] != self.target.outputs
        found = _run(self._running(data[0].device), self._tokens(self._columns(data) if many else data))
        found = found[..., 0].movedim(-2, -1) if many else found
        return returned(found if np.ndim(y) == np.ndim(x) else found[..., 0], kind)

    def predict(self, x: Any, y: Any, x_query: Any) -> Any:
        """The same as calling it."""
        return self(x, y, x_query)

    def predict_causal(self, x: Any, y: Any) -> Any:
        """Predictions (..., n), or (..., n, k), at every example from those before it; 0 at the first, which sees none.

        The positions of n examples are weights: another network is built, for this n, at most 2,048. No certificate
        is about it.
        """
        import torch

        from attnforge.runtime import AttentionNetwork

        data, kind = self._checked(x, y, x)
        target, prompt = self.target, self._tokens(data)
        sizes = target.features, data[1].shape[-1], data[0].shape[-2]
        network = causal_network(target.kernel, target.bandwidth, *sizes)
        # |x.x_i - |x_i|^2 / 2| is at most 3/2 d max^2, so this keeps scores below HIDDEN / 8
        if not prompt[0].abs().max() / target.bandwidth <= np.sqrt(HIDDEN / (16 * target.features)):
            got, remedy = "a larger score", "Scale the data, or use a larger bandwidth"
            raise DomainError(f"Scores must not exceed {HIDDEN / 8:g}, where the mask begins", got, remedy)
        found = _run(AttentionNetwork(network, getattr(torch, self.dtype)).to(data[0].device), prompt)
        return returned(found if np.ndim(y) == np.ndim(x) else found[..., 0], kind)

    def prompt(self, x: Any, y: Any, x_query: Any) -> tuple[Any, Any]:
        """What network and module take: query tokens (..., q, d) and example tokens (..., n, width).

        :mod:`attnforge.targets.in_context.kernel` says what they hold.
        """
        data, kind = self._checked(x, y, x_query)
        self._check_labels(data[1].shape[-1])
        asking, told = self._tokens(data)
        return returned(asking, kind), returned(told, kind)

    def tokens(self, x: Any, y: Any, x_query: Any) -> tuple[Any, Any]:
        """The same as :meth:`prompt`.

        >>> from attnforge.in_context import KernelRegression
        >>> net = KernelRegression().build(features=1)
        >>> net.network(*net.tokens([[0.0], [2.0]], [3.0, 5.0], [[1.0]]))
        array([[4.]])
        """
        return self.prompt(x, y, x_query)

    def certify(self, x: Any, y: Any, x_query: Any) -> Certificate:
        """A bound of |net(X, y, X_query) - exact average| at these queries; from the network's own numbers.

        For one prompt, x (n, d), y (n,) or (n, k), x_query (q, d). ``parts`` add up to the bound at the worst query.
        """
        (x, y, x_query), _ = self._checked(x, y, x_query)
        self._check_labels(y.shape[-1])
        if x.dim() != 2 or x_query.dim() != 2 or not len(x_query):
            got = f"shapes {tuple(x.shape)} and {tuple(x_query.shape)}"
            raise DomainError("A certificate is about one prompt with queries", got, "Certify them one by one")
        arrays = (part.detach().cpu().numpy() for part in (x, y, x_query))
        return certify_average(self.network, self.target, self.dtype, *arrays)

    def attention(self, x: Any, y: Any, x_query: Any) -> list[list[Any]]:
        """The weights (..., q, n), in a list over layers of a list over heads, as everywhere: ``[[weights]]``."""
        (x, y, x_query), kind = self._checked(x, y, x_query)
        prompt = self._tokens((x, y[..., : self.target.outputs], x_query))
        found = self._running(x.device).attention(*prompt)
        return [[returned(weights, kind) for weights in layer] for layer in found]

    def module(  # type: ignore[override]
        self, dtype: DType | None = None, device: Any = None, trainable: bool = False, kernel: str = "auto"
    ) -> AttentionNetwork:
        """A ``torch.nn.Module`` called as ``module(*net.prompt(X, y, X_query))``: (..., q, k). It checks no numbers."""
        module = self._core(dtype, trainable, kernel)
        return module if device is None else module.to(device)

    def _columns(self, data: _Data) -> _Data:
        """A prompt a label: (..., k, n, d), (..., k, n, 1) and (..., 1, q, d)."""
        x, y, x_query = data
        k = y.shape[-1]
        if self.target.outputs != 1:
            self._check_labels(k)
        x = x.unsqueeze(-3).expand(*x.shape[:-2], k, *x.shape[-2:])
        return x, y.movedim(-1, -2)[..., None], x_query.unsqueeze(-3)

    def _check_labels(self, k: int) -> None:
        if k != self.target.outputs:
            wanted = f"This network was built for {self.target.outputs} labels an example"
            raise DomainError(wanted, str(k), "Pass as many, or build with `outputs`")

    def _tokens(self, data: _Data) -> tuple[Tensor, Tensor]:
        x, y, x_query = data
        batch = np.broadcast_shapes(x.shape[:-2], x_query.shape[:-2])
        return self.target.prompt(x, y, x_query.expand(*batch, *x_query.shape[-2:]))

    def _checked(self, x: Any, y: Any, x_query: Any) -> tuple[_Data, Any]:
        """Tensors (..., n, d), (..., n, k) and (..., q, d) of the domain in float64, and the dtype of the answer."""
        read, kind = tensors(x, y, x_query)
        x, y, x_query = (part.double() for part in read)
        y = y[..., None] if y.dim() == x.dim() - 1 else y
        self.target.check(*(part.detach().cpu().numpy() for part in (x, y, x_query)))
        return (x, y, x_query), kind


certified_average = KernelNetwork.certified


def _run(module: AttentionNetwork, prompt: tuple[Tensor, Tensor]) -> Tensor:
    out: Tensor = module(*prompt)
    if not out.isfinite().all():
        remedy = "Scale the data, or use a larger bandwidth"
        raise DomainError("Scores (points / bandwidth)^2 must not overflow", "a score that is not finite", remedy)
    return out

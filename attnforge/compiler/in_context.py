"""A network that fits its prompt: called as net(X, y), it returns the weights after T steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from attnforge.arrays import alike, float64, is_tensor, numbers, returned, tensors
from attnforge.certification import Certificate
from attnforge.certification.in_context.certify import certify_box, certify_prompt
from attnforge.compiler.compiled import OTHER, Compiled
from attnforge.errors import DomainError, RefusalError
from attnforge.network import Layer, Network
from attnforge.outward import DType, dtype_name
from attnforge.targets import Target
from attnforge.targets.in_context import Algorithm, Features, Iteration, KernelSystem

if TYPE_CHECKING:
    from attnforge.runtime import AttentionNetwork
    from attnforge.runtime.looped import LoopedModule

Array = npt.NDArray[np.float64]


class PromptNetwork(Compiled, ABC):
    """A network that reads its task from a prompt.

    ``certificate`` bounds its error for every prompt of the data box; without a ``data_bound`` there is none, and
    ``reason`` says so.
    """

    certificate: Certificate | None  # type: ignore[assignment]

    def __repr__(self) -> str:
        known = "no certificate for all prompts" if self.certificate is None else self.certificate
        return f"<{type(self).__name__} {self.construction}: {self.target.describe()}, {known}>"

    @staticmethod
    @abstractmethod
    def prove(network: Network, target: Any, dtype: str) -> Certificate:
        """The certificate of the data box; a RefusalError where there is none."""

    @classmethod
    def certified(
        cls, network: Network, target: Target, construction: str, dtype: DType, reason: str = "asked for by name"
    ) -> Self:
        """The network with the certificate of its data box, or with the reason why there is none."""
        certificate, dtype = None, dtype_name(dtype)
        try:
            certificate = cls.prove(network, target, dtype)
        except RefusalError as error:
            reason = f"no certificate for all prompts: {error}"
        return cls(network, target, certificate, construction, dtype, reason)  # type: ignore[arg-type]

    def with_network(self, network: Network, target: Any = None) -> Self:
        """The same target with other weights, certified anew: those of a trained module, ``module.network()``."""
        if target is not None:
            got = f"target={target!r:.80}"
            raise RefusalError("A network that reads its task from a prompt keeps its target", got, "Build that one")
        reason = "other weights, certified anew"
        name = self.construction.removesuffix(OTHER) + OTHER
        return self.certified(network, self.target, name, self.dtype, reason)

    def _core(self, dtype: DType | None, trainable: bool, kernel: str) -> AttentionNetwork:
        import torch

        from attnforge.runtime import AttentionNetwork

        if kernel not in ("auto", "dense"):
            raise DomainError("`kernel` must be 'auto' or 'dense'", repr(kernel), "Use 'auto'")
        name = self.dtype if dtype is None else dtype_name(dtype)
        return AttentionNetwork(self.network, getattr(torch, name), trainable)


class SteppedNetwork(PromptNetwork):
    """Frozen softmax attention whose blocks of layers are the steps of an algorithm, on the examples of its prompt.

    The same weights serve any batch. ``target`` is the exact iteration.
    """

    target: Iteration | KernelSystem

    @abstractmethod
    def _read(self, tokens: Any) -> Any:
        """What the tokens hold after a step."""

    @abstractmethod
    def _assembled(self, x: Any, y: Any, sample_weight: Any = None) -> Any:
        """The tokens of examples, NumPy or torch."""

    @property
    def _step_axis(self) -> int:
        """Where the steps of a trajectory stand."""
        return -2

    @property
    def steps(self) -> int:
        """Number of blocks."""
        return self.target.steps

    @property
    def block(self) -> tuple[Layer, ...]:
        """The layers of the first step; the others have the same where step sizes are, and nobody changed them."""
        return self.network.layers[: len(self.network.layers) // self.steps]

    def __call__(self, x: Any, y: Any, sample_weight: Any = None) -> Any:
        """What is found after all steps. NumPy in, NumPy out; torch in, torch out.

        Weights (..., d), or (..., d, K) of K classes or outputs; coefficients (..., n) of kernel ridge regression.

        Args:
            x: examples (..., n, d).
            y: their values (..., n): numbers, labels 0 and 1, or classes 0 .. K - 1; (..., n, K) of K outputs.
            sample_weight: positive weights (..., n) of the examples, of squares alone; all one where None.
        """
        return self._run((x, y, sample_weight), every=False)

    def trajectory(self, x: Any, y: Any, sample_weight: Any = None) -> Any:
        """The iterate after every block: steps are an axis in front of its own, as in (..., steps, d)."""
        return self._run((x, y, sample_weight), every=True)

    def prompt(self, x: Any, y: Any, sample_weight: Any = None) -> Any:
        """The tokens (..., tokens, width) that ``network`` and the core of ``module()`` take.

        Of regressions state tokens first, then anchors (of the interpolation route), then sixteen examples (x, y),
        their mirror images (-x, -y), and so on; :mod:`attnforge.targets.in_context.features` lists the features of a
        token, and :mod:`attnforge.targets.in_context.kernel_system` those of kernel ridge regression.
        """
        return self._assembled(*self._checked(alike(*_given(x, y, sample_weight))))

    def module(  # type: ignore[override]
        self, dtype: DType | None = None, device: Any = None, trainable: bool = False, kernel: str = "auto"
    ) -> LoopedModule:
        """A ``torch.nn.Module`` called as ``module(X, y)``, all blocks on the prompt of X and y. It does not check."""
        from attnforge.runtime.looped import LoopedModule

        module = LoopedModule(self._core(dtype, trainable, kernel), len(self.block), self._assembled, self._read)
        return module if device is None else module.to(device)

    def attention(self, x: Any, y: Any, sample_weight: Any = None) -> list[list[Any]]:
        """Softmax weights on the prompt of X and y: over layers of attention, over heads, (..., query, key)."""
        import torch

        data, kind = tensors(*_given(x, y, sample_weight))
        with torch.no_grad():
            module = self._running(data[0].device)
            found = module.core.attention(module.tokens(*self._checked(data)))
        given = isinstance(kind, torch.dtype)
        return found if given else [[weights.double().numpy() for weights in layer] for layer in found]

    def _one_prompt(self, *given: Any) -> list[Array]:
        """The examples of a certificate, (n, d), their values, and weights where there are some."""
        data = self._checked([float64(z) for z in _given(*given)])
        if data[0].ndim != 2:
            raise DomainError("A certificate is about one prompt", f"shape {data[0].shape}", "Certify them one by one")
        return data

    def _checked(self, data: list[Any]) -> list[Any]:
        self.target.check(*map(float64, data))
        return data

    def _run(self, data: tuple[Any, ...], every: bool) -> Any:
        given, kind = tensors(*_given(*data))
        module = self._running(given[0].device)
        checked = self._checked(given)
        return returned(module.trajectory(*checked).movedim(0, self._step_axis) if every else module(*checked), kind)


class InContextNetwork(SteppedNetwork):
    """Frozen softmax attention that runs an algorithm on the examples of its prompt.

    The same weights serve any number of examples and any batch. ``target`` is the exact iteration, ``certificate``
    bounds |net(X, y) - target|. :meth:`certify` gives the certificate of one prompt, which is far smaller.
    """

    target: Iteration
    prove = staticmethod(certify_box)

    @property
    def algorithm(self) -> Algorithm:
        """What is minimised, and the step size."""
        return self.target.algorithm

    @property
    def features(self) -> Features:
        """What a token holds."""
        return self.target.features

    def predict(self, x: Any, y: Any, x_query: Any, sample_weight: Any = None) -> Any:
        """Predictions (..., q) at points (..., q, d): numbers, rates, or probabilities; (..., q, K) of K of them."""
        weights = self(x, y, sample_weight)
        many = self.features.outputs > 1
        form = self.target.augmented(queries(x_query, x, weights)) @ (weights if many else weights[..., None])
        return self.algorithm.mean(form if many else form[..., 0])

    def certify(self, x: Any, y: Any, sample_weight: Any = None) -> Certificate:
        """A bound of |net(X, y) - exact weights|, entry by entry, on these examples; from the network's own numbers.

        For one prompt, x (n, d), y (n,) or (n, K), and weights (n,) where examples have some. ``parts`` add up to the
        bound after all steps, ``step`` are those of the largest error of one step; ``contraction`` and ``minimiser``
        say how fast it converges, and how close it came. Refused where the step size is too large for the data.
        """
        return certify_prompt(self.network, self.target, self.dtype, *self._one_prompt(x, y, sample_weight))

    def with_steps(self, steps: int) -> InContextNetwork:
        """So many times the first block."""
        target = self.target.with_steps(steps)
        return self.certified(stacked([self.block], target), target, self.construction, self.dtype)

    @property
    def _step_axis(self) -> int:
        return -3 if self.features.outputs > 1 else -2

    def _assembled(self, x: Any, y: Any, sample_weight: Any = None) -> Any:
        return self.target.prompt(x, y, sample_weight)

    def _read(self, tokens: Any) -> Any:
        held = tokens[..., : self.features.outputs, self.features.slices["w"]].swapaxes(-1, -2)
        return held if self.features.outputs > 1 else held[..., 0]


def queries(x_query: Any, x: Any, found: Any) -> Any:
    """Points (..., q, d) beside examples (..., n, d), of the kind of array that was found from these."""
    points = alike(x_query, found)[0].to(found.dtype) if is_tensor(found) else numbers(x_query)
    values, (*batch, _, d) = float64(points), np.shape(x)
    try:
        if values.ndim < 2 or values.shape[-1] != d:
            raise ValueError
        np.broadcast_shapes(values.shape[:-2], tuple(batch))
    except ValueError:
        wanted = f"X_query is (..., q, {d}), its leading axes broadcast with those of X"
        raise DomainError(wanted, f"shapes {values.shape} and, of X, {np.shape(x)}", "Reshape it") from None
    if not np.isfinite(values).all():
        raise DomainError("X_query must be finite", "NaN or infinity", "Leave these points out")
    return points


def _given(x: Any, y: Any, sample_weight: Any = None) -> list[Any]:
    """Examples and values, and weights where there are some."""
    return [x, y, *([] if sample_weight is None else [sample_weight])]


def stacked(blocks: Sequence[tuple[Layer, ...]], target: Iteration) -> Network:
    """The network of all steps, one block after the other; a single block is that of every step."""
    layers = tuple(chain.from_iterable(blocks)) if len(blocks) > 1 else blocks[0] * target.steps
    return Network(layers, target.features.width, construction="in_context")


certified_iteration = InContextNetwork.certified

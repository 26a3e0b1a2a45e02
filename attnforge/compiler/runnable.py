"""A network behind the target it was made for: checked inputs in, values out, in the dtype it is compiled for."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from attnforge.arrays import framed, gathered, is_tensor, kind_of, returned
from attnforge.compiler.inside import inside
from attnforge.compiler.two_inputs import checked, pair, run
from attnforge.errors import CertificateError, DomainError, TargetError
from attnforge.network import (
    Attention,
    Layer,
    Network,
    apply_layer,
    count_keys,
    count_pairs,
    count_parameters,
    layers_in,
    rows_named,
)
from attnforge.outward import DType, dtype_name
from attnforge.targets import Box, JointFunction, Target

if TYPE_CHECKING:
    from torch import Tensor

    from attnforge.runtime import JointModule, TargetModule


NUMPY_HEADS, NUMPY_PAIRS = 16, 2**14  # where NumPy, head after head, takes less time than torch


class Runnable:
    """What can be called and measured: a network, its target and the dtype it runs in, with or without a certificate.

    Calling it takes NumPy arrays or torch tensors and returns the same kind, dtype and device; or a data frame, whose
    columns are taken by name, and returns a Series, or a frame of several outputs, with its index. It runs in the
    compiled ``dtype`` and raises DomainError for NaN and for points outside its domain; one a rounding outside is taken
    as its end. Few points are run by NumPy, others by torch: where its settings allow float32 products in fewer bits
    than the certificate assumes, a float32 network then raises CertificateError. ``module()`` gives the bare
    ``torch.nn.Module``, which has the same shapes and checks nothing.
    Targets of two inputs are called as ``net(X, Y)``, their leading axes broadcast.
    """

    network: Network
    target: Target
    dtype: str

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """Values at the given points: ``net(x)``, several inputs by name, ``net(x=..., y=...)``; or ``net(X, Y)``."""
        if isinstance(self.target, JointFunction):
            return self._call_pair(self.target, pair(inputs, named))
        x = self._gather(inputs, named)
        if is_tensor(x):
            return self._running(x.device)(self._inside(x)).to(kind_of(x))
        kind = kind_of(x)
        result = self._values(x.astype(kind)).astype(kind)
        return framed(result, inputs) if result.ndim else kind.type(result)

    def at_points(self, points: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Values at points of ``domain``, one array whatever the number of inputs: what searches call."""
        given = self.target.split(points) if isinstance(self.target, JointFunction) else (points,)
        return np.asarray(self(*given))

    @property
    def domain(self) -> Box:
        """Where the certificate holds and calls are accepted; of two inputs, the flat joint box."""
        return self.target.domain

    @property
    def anchors(self) -> int:
        """Keys in all heads, ghosts and sentinels counted."""
        return count_keys(self.network)

    @property
    def heads(self) -> int:
        """Number of heads in all layers."""
        return len(self.network.heads)

    @property
    def layers(self) -> int:
        """Number of layers of attention."""
        return sum(isinstance(layer, Attention) for layer in self.network.layers)

    @property
    def parameters(self) -> int:
        """Number of weights, zeros included."""
        return count_parameters(self.network)[0]

    def module(
        self,
        dtype: DType | None = None,
        device: Any = None,
        trainable: bool = False,
        kernel: str = "auto",
        shards: int = 1,
    ) -> TargetModule | JointModule:
        """A ``torch.nn.Module`` made of linear maps and softmax attention only, with the same shapes.

        It does **not** check its inputs. ``trainable`` turns the weights into parameters; what training makes of them
        is no longer covered by the certificate. A dtype other than the compiled one is not covered either. ``kernel``
        is how attention runs: ``auto`` chooses by the numbers of the network among those that the certificate covers;
        ``dense``, ``batched``, ``factorised``, ``window`` or ``sharded`` is taken or refused, and warned of where the
        certificate does not cover it (``af.certify(net, kernel=...)`` may). ``shards`` are those of the sharded kernel,
        which ``attnforge.runtime.over_processes`` and ``over_cluster`` hand to other processes.
        """
        import torch

        from attnforge.runtime import AttentionNetwork, JointModule, TargetModule

        kind = getattr(torch, dtype_name(dtype or self.dtype))
        core = AttentionNetwork(self.network, kind, trainable, kernel, shards)
        covered = getattr(getattr(self, "certificate", None), "kernels", (kernel,))
        if kernel not in ("auto", *covered):
            message = (
                f"the certificate covers {', '.join(covered)}, not {kernel}: af.certify(net, kernel={kernel!r}) may"
            )
            warnings.warn(message, UserWarning, stacklevel=2)
        keep = getattr(self.target, "outputs", None) is not None
        module: TargetModule | JointModule
        if isinstance(self.target, JointFunction):
            module = JointModule(core, self.target.keys.shape, self.target.query.shape, keep)
        else:
            module = TargetModule(core, self.target.layout, keep)
        return module if device is None else module.to(device)

    def attention(self, *inputs: Any, **named: Any) -> list[list[Any]]:
        """Softmax weights at x, or at (X, Y): a list over layers of a list over heads of (..., query, key) arrays.

        Inputs are given as to a call: ``net.attention(x)``, or by name, ``net.attention(x=..., y=...)``.
        """
        import torch

        if isinstance(self.target, JointFunction):
            return self._attention_pair(self.target, pair(inputs, named))
        x = self._gather(inputs, named)
        tensor = x if isinstance(x, torch.Tensor) else torch.from_numpy(np.array(x, dtype=np.float64))
        with torch.no_grad():
            layers = self._running(tensor.device).attention(self._inside(tensor))
        kind = kind_of(x) if isinstance(x, torch.Tensor) else np.dtype(np.float64)
        return [[returned(weights, kind) for weights in layer] for layer in layers]

    def _values(self, x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """At points of float64 or float32: few by NumPy, at once; many by torch."""
        points = self._shaped(x.astype(np.float64))
        plain = type(self.target).check_points is Target.check_points  # others ask for more than to be inside
        if not (plain and ((points >= self.domain.lower) & (points <= self.domain.upper)).all()):
            points = inside(points, self.domain, str(x.dtype))
            self.target.check_points(points)
        if points.size <= self._few:
            return self._in_numpy(points)
        import torch

        with torch.no_grad():
            out = self._running("cpu")(torch.from_numpy(points.reshape(x.shape)))
        return np.asarray(out.to(torch.float64).numpy())

    def _in_numpy(self, points: npt.NDArray[np.float64]) -> npt.NDArray[Any]:
        """What the module computes, of the same shapes, without the time that torch takes to start."""
        kind, layers = self._layers
        is_function = self.target.layout == "function"
        state = points.astype(kind)[..., None, :] if is_function else points.astype(kind)
        with np.errstate(all="ignore"):  # what overflows is not finite, and whoever asks is told so, as by torch
            for layer in layers:
                state = apply_layer(layer, state)
        if getattr(self.target, "outputs", None) is None:
            state = state[..., 0]
            return np.asarray(state[..., 0] if is_function else state)
        return np.asarray(state[..., 0, :] if is_function else state)

    @cached_property
    def _layers(self) -> tuple[Any, tuple[Layer, ...]]:
        kind = np.float32 if self.dtype == "float32" else np.float64
        return kind, layers_in(self.network, kind)

    @cached_property
    def _few(self) -> int:
        """Numbers at a time, of all points, that NumPy runs: in dtypes that it has, of few heads that read one input.

        Networks that do not take the target's points are left to the module, which says so.
        """
        network, given = self.network, 1 if self.target.layout == "function" else None
        alone = all(head.key_rows is None or head.key_rows.kind == "own" for head in network.heads)
        plain = network.context is None and rows_named(network, "state") <= (network.tokens or 1)
        fits = network.features == self.domain.shape[-1] and (network.tokens == given or given is None)
        known = network.tokens is not None or (alone and given is None)
        if self.dtype not in ("float64", "float32") or self.heads > NUMPY_HEADS or not (plain and fits and known):
            return 0
        tokens = network.tokens or 1
        pairs = max(1, self.heads) * count_pairs(network, tokens, 0)
        return NUMPY_PAIRS * tokens * network.features // pairs

    @cached_property
    def _module(self) -> Any:
        return self.module()

    def sharing(self, other: Runnable) -> Self:
        """This, with the module that another of the same network and dtype has built, if it has."""
        if "_module" in vars(other):
            vars(self)["_module"] = other._module
        return self

    def _call_pair(self, target: JointFunction, given: tuple[Any, Any]) -> Any:
        import torch

        x, y, kind = checked(target, given)
        module = self._running(x.device)
        with torch.set_grad_enabled(torch.is_grad_enabled() and isinstance(kind, torch.dtype)):
            return returned(run(module, self.network, x, y), kind)

    def _attention_pair(self, target: JointFunction, given: tuple[Any, Any]) -> list[list[Any]]:
        import torch

        x, y, kind = checked(target, given)
        with torch.no_grad():
            layers = self._running(x.device).attention(x, y)
        kind = kind if isinstance(kind, torch.dtype) else np.dtype(np.float64)
        return [[returned(weights, kind) for weights in layer] for layer in layers]

    def _gather(self, inputs: tuple[Any, ...], named: dict[str, Any]) -> Any:
        return gathered(inputs, named, self.target.names)

    def _running(self, device: Any) -> Any:
        """The module there, unless torch would not compute what was certified."""
        import torch

        from attnforge.runtime.arithmetic import reduced_precision

        setting = reduced_precision(torch.device(device)) if self.dtype == "float32" else None
        if setting is not None:
            requirement = "A float32 network must run in float32, as its certificate assumes"
            remedy = 'Call torch.set_float32_matmul_precision("highest"), or use net.module(), which only warns'
            raise CertificateError(requirement, f"{setting}: products in fewer bits", remedy)
        return self._module.to(device)

    def _inside(self, x: Tensor) -> Tensor:
        """The points, checked; those that rounding alone took out of the domain are moved to its ends."""
        import torch

        given = self._shaped(x.detach().to("cpu", torch.float64).numpy())
        moved = inside(given, self.domain, str(x.dtype).removeprefix("torch."))
        self.target.check_points(moved)
        if np.array_equal(moved, given):
            return x
        lower, upper = (torch.as_tensor(end, device=x.device) for end in (self.domain.lower, self.domain.upper))
        wide = x.to(torch.float64)
        return wide + (wide.clamp(lower, upper).reshape(x.shape) - wide).detach()  # exact: both are within a unit

    def _shaped(self, x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Points as (..., d) or (..., n, d); plain numbers are points where there is one input."""
        d = self.network.features
        if self.target.layout == "function":
            if d == 1 and x.ndim <= 1:
                x = x[..., None]
            fits = x.ndim >= 1 and x.shape[-1] == d
            wanted = f"(..., {d})" + (", a number or (N,)" if d == 1 else "")
        else:
            n = self.network.tokens
            fits = x.ndim >= 2 and x.shape[-1] == d and n in (None, x.shape[-2])
            wanted = f"(..., {n or 'n'}, {d})"
        if not fits:
            raise DomainError(f"Inputs must have shape {wanted}", f"shape {x.shape}", "Reshape the input")
        return x


def check_runnable(verb: str, given: Any) -> None:
    """Raise unless it is what a verb about compiled networks takes."""
    if not isinstance(given, Runnable):
        raise TargetError(f"`{verb}` takes a compiled network", type(given).__name__, "Pass what af.compile returns")


@dataclass(frozen=True, eq=False)
class Uncertified(Runnable):
    """A network of which nothing has been said yet: what is measured before there is a certificate."""

    network: Network
    target: Target
    dtype: str

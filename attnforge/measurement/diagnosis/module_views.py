"""Heads inside a torch module, seen while it runs: ``nn.MultiheadAttention`` anywhere in it, and our own heads.

Forward hooks copy what each attention is given, at the queries that will be looked at, and are taken off again. The
module runs on copies of the inputs, without gradients, in evaluation mode and without torch's fused fast path (which
passes the attention by); all of that is put back, so nothing of the module or its inputs is changed. An attention that
is called several times is seen at its first and its last call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from attnforge.errors import AttnforgeError, DomainError, TargetError
from attnforge.measurement.diagnosis.network_views import head_view
from attnforge.measurement.diagnosis.torch_attention import TorchCall, torch_call
from attnforge.measurement.diagnosis.view import HeadView, chosen_rows
from attnforge.network import Head, Rows
from attnforge.runtime.module import AnyHead

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class _OurCall:
    """A group of our heads and what it was given, at some entries of the batch."""

    group: AnyHead
    state: Tensor
    context: Tensor | None

    def views(self) -> Iterator[HeadView]:
        """The heads, rebuilt from the buffers as the dtype holds them."""
        dtype = str(self.group.output.dtype).removeprefix("torch.")
        with torch.no_grad():
            weights = self.group.weights(self.state, self.context)
        told = None if self.context is None else _numpy(self.context.expand(len(self.state), -1, -1))
        for h, ran in enumerate(weights):
            yield head_view(_head(self.group, h), 0, h, dtype, _numpy(self.state), told, _numpy(ran))


@dataclass
class _Calls:
    """Of one attention: how often it was called, the first call, and the last one if there are several."""

    count: int = 0
    first: TorchCall | _OurCall | None = None
    last: TorchCall | _OurCall | None = None

    def views(self) -> Iterator[tuple[str, HeadView]]:
        """The heads at these calls, with words to tell the calls apart."""
        for words, call in (("", self.first), (f"call {self.count} of {self.count}", self.last)):
            for view in () if call is None else call.views():
                yield words, view


def module_views(module: nn.Module, inputs: tuple[Any, ...], seed: int = 0) -> Iterator[HeadView]:
    """Run ``module(*inputs)`` and look at every head of attention in it.

    A bare ``nn.MultiheadAttention`` may be given one input, then query, key and value alike. ``seed`` draws the queries
    looked at, where there are too many.
    """
    if isinstance(module, nn.MultiheadAttention) and len(inputs) == 1:
        inputs = inputs * 3
    found: dict[str, _Calls] = {}
    hooks = [
        part.register_forward_pre_hook(_noting(found, name, seed), with_kwargs=True)
        for name, part in module.named_modules()
        if isinstance(part, nn.MultiheadAttention | AnyHead)
    ]
    try:
        with torch.no_grad(), _evaluating(module):
            module(*(x.clone() if isinstance(x, Tensor) else x for x in inputs))
    except AttnforgeError:
        raise
    except Exception as error:
        got = f"{type(error).__name__}: {error}".split("\n")[0][:200]
        raise DomainError("The module must run on x", got, "Pass x as the module takes it, in its dtype") from error
    finally:
        for hook in hooks:
            hook.remove()
    if not found:
        got = f"{type(module).__name__} without any that was called"
        remedy = "Pass its weights: af.diagnose(AttentionWeights(query, key, value), x)"
        raise TargetError("A module is diagnosed by its nn.MultiheadAttention", got, remedy)
    return (
        replace(view, layer=layer, name=", ".join(filter(None, (name, words))))
        for layer, (name, calls) in enumerate(found.items())
        for words, view in calls.views()
    )


@contextmanager
def _evaluating(module: nn.Module) -> Iterator[None]:
    """Evaluation mode and no fast path; dropout is off, and running means of the module stay as they are."""
    modes, fast = {part: part.training for part in module.modules()}, torch.backends.mha.get_fastpath_enabled()
    try:
        for part in modes:
            part.training = False
        torch.backends.mha.set_fastpath_enabled(False)
        yield
    finally:
        for part, mode in modes.items():
            part.training = mode
        torch.backends.mha.set_fastpath_enabled(fast)


def _noting(found: dict[str, _Calls], name: str, seed: int) -> Callable[..., None]:
    def note(
        module: nn.MultiheadAttention | AnyHead,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        calls = found.setdefault(name, _Calls())
        call: TorchCall | _OurCall
        if isinstance(module, nn.MultiheadAttention):
            call = torch_call(module, args, kwargs, seed)
        else:
            call = _our_call(module, args, kwargs, seed)
        calls.count += 1
        if calls.count == 1:
            calls.first = call
        else:
            calls.last = call

    return note


def _our_call(
    group: AnyHead,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    seed: int,
) -> _OurCall:
    """State and second input of a group of our heads, at as many entries of the batch as memory allows."""
    state: Tensor = args[0]
    context: Tensor | None = args[1] if len(args) > 1 else kwargs.get("context")
    read = context if group.from_context and context is not None else state
    keys = (0 if group.memory_keys is None else group.memory_keys.shape[1]) + (
        0 if group.key is None else read.shape[1]
    )
    weights = len(group.query) * state.shape[1] * keys
    kept = torch.from_numpy(chosen_rows(len(state), weights, seed)).to(state.device)
    told = None if context is None else context[kept] if len(context) > 1 else context.clone()
    return _OurCall(group, state[kept], told)


def _head(group: AnyHead, number: int) -> Head:
    def part(name: str) -> Array | None:
        tensor = getattr(group, name)
        return None if tensor is None else _numpy(tensor[number])

    query, output = part("query"), part("output")
    assert query is not None
    assert output is not None
    asking = Rows() if group.query_rows is None else Rows.some(_numpy(group.query_rows))
    source = "context" if group.from_context else "state"
    told: Rows | None = None
    if group.key is not None:
        told = Rows("own") if group.written_out else Rows(source=source)  # type: ignore[arg-type]
        if group.key_rows is not None:
            told = Rows.some(_numpy(group.key_rows), source)  # type: ignore[arg-type]
    return Head(query, output, asking, part("key"), part("value"), told, part("memory_keys"), part("memory_values"))


def _numpy(tensor: Tensor) -> Any:
    if not tensor.is_floating_point():
        return tensor.detach().cpu().numpy()
    return tensor.detach().to("cpu", torch.float64).numpy()

"""Whether a run is of plain numbers, or of what torch follows: derivatives, transforms, graphs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad


def is_plain(*tensors: Tensor) -> bool:
    """Whether only the numbers of these tensors are asked for, so that other code than torch's may compute with them.

    Not so while a graph is captured, under the transforms of ``torch.func``, and where a derivative is asked for.
    """
    if torch.compiler.is_compiling() or torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
        return False
    return all(type(tensor) in (Tensor, nn.Parameter) and not _is_followed(tensor) for tensor in tensors)


def has_tangent(*tensors: Tensor) -> bool:
    """Whether one of them carries a derivative forwards (``torch.func.jvp``), which no fused kernel does.

    Inside such a derivative, what another transform has wrapped may carry one, too, and does not show it.
    """
    inside = forward_ad._current_level >= 0  # of such a derivative at all: asking every tensor takes longer
    return inside and any(_is_wrapped(tensor) or _tangent(tensor) is not None for tensor in tensors)


def parts(rows: Tensor, size: int) -> tuple[Tensor, ...]:
    """Rows, so many at once; all of them in a graph, which is to take any number."""
    return (rows,) if torch.compiler.is_compiling() else torch.split(rows, size)


def _is_followed(tensor: Tensor) -> bool:
    return tensor.requires_grad or _is_wrapped(tensor) or has_tangent(tensor)


def _is_wrapped(tensor: Tensor) -> bool:
    return torch._C._functorch.is_functorch_wrapped_tensor(tensor)


def _tangent(tensor: Tensor) -> Tensor | None:
    unpack: Any = forward_ad.unpack_dual
    tangent: Tensor | None = unpack(tensor).tangent
    return tangent

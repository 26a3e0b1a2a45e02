"""Calling a compiled target of two inputs: both are checked, broadcast, and run in pieces that fit the memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from attnforge.arrays import tensors
from attnforge.compiler.inside import inside
from attnforge.errors import DomainError
from attnforge.network import Network
from attnforge.targets import Box, JointFunction

if TYPE_CHECKING:
    from torch import Tensor

    from attnforge.runtime import JointModule

CHUNK = 2**24  # numbers of lengthened second inputs held at once: 128 MB


def pair(inputs: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, Any]:
    """X and Y of ``net(X, Y)`` or ``net(X=..., Y=...)``."""
    if len(inputs) == 2 and not named:
        return inputs[0], inputs[1]
    if not inputs and set(named) == {"X", "Y"}:
        return named["X"], named["Y"]
    got = f"{len(inputs)} positional and {len(named)} named inputs"
    raise DomainError("This network takes two inputs, keys from X and queries from Y", got, "Call net(X, Y)")


def checked(target: JointFunction, given: tuple[Any, Any]) -> tuple[Tensor, Tensor, Any]:
    """Both inputs as tensors of fitting shapes inside their boxes, and the dtype of the answer: torch's or NumPy's."""
    (x, y), kind = tensors(*given)
    x, y = _inside("X", x, target.keys, given[0]), _inside("Y", y, target.query, given[1])
    _check_batches(target, x, y)
    return x, y, kind


def run(module: JointModule, network: Network, x: Tensor, y: Tensor) -> Tensor:
    """The module's values; where every point has keys of its own, so many points at a time as fit."""
    import torch

    from attnforge.runtime.joint import as_tokens, common_batch

    context, queries = as_tokens("X", x, module.keys), as_tokens("Y", y, module.query)
    batch = common_batch(context, queries)
    step = max(1, CHUNK // _numbers(network))
    if context.shape[:-2].numel() == 1 or batch.numel() <= step:
        out: Tensor = module(x, y)
        return out
    context = context.expand(*batch, *context.shape[-2:]).reshape(-1, *module.keys)
    queries = queries.expand(*batch, *queries.shape[-2:]).reshape(-1, *module.query)
    parts = [module(context[i : i + step], queries[i : i + step]) for i in range(0, len(context), step)]
    return torch.cat(parts).reshape(*batch, *parts[0].shape[1:])


def _numbers(network: Network) -> int:
    """Entries of the second input after its linear maps, for one point."""
    constants = [layer.constant.size for layer in network.context_layers if layer.constant is not None]
    mixes = [term.mix.size for layer in network.context_layers for term in layer.terms if term.mix is not None]
    return max([1, *constants, *mixes])


def _inside(name: str, value: Tensor, box: Box, given: Any) -> Tensor:
    """An input of fitting shape inside its box; what rounding alone took out of it is moved to its ends."""
    import torch

    from attnforge.runtime.joint import as_tokens

    tokens = as_tokens(name, value, box.shape)
    points = tokens.detach().to("cpu", torch.float64).numpy().reshape(*tokens.shape[:-2], *box.shape)
    moved = inside(points, box, str(getattr(given, "dtype", "float64")).removeprefix("torch."))
    try:
        box.check(moved)
    except DomainError as error:
        raise DomainError(f"{name}: {error.requirement}", error.got, error.remedy) from None
    if np.array_equal(moved, points):
        return value
    lower, upper = (torch.as_tensor(end, device=value.device) for end in (box.lower, box.upper))
    wide = value.to(torch.float64)
    return wide + (wide.clamp(lower, upper).reshape(value.shape) - wide).detach()  # exact: both are within a unit


def _check_batches(target: JointFunction, x: Tensor, y: Tensor) -> None:
    from attnforge.runtime.joint import as_tokens

    inputs = (("X", x, target.keys), ("Y", y, target.query))
    shapes = [tuple(as_tokens(name, value, box.shape).shape[:-2]) for name, value, box in inputs]
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        got = f"{shapes[0]} and {shapes[1]}"
        raise DomainError("The leading axes of X and Y must broadcast", got, "Give as many X as Y, or one X") from None

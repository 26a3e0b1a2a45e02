"""The public ``diagnose``: whatever holds softmax attention, ours or not, is looked at for the known failures."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from attnforge.arrays import float64, is_tensor, numbers
from attnforge.compiler.compiled import Compiled
from attnforge.compiler.inside import inside
from attnforge.compiler.two_inputs import checked
from attnforge.errors import DomainError, TargetError
from attnforge.measurement.diagnosis import (
    AttentionWeights,
    Diagnosis,
    Subject,
    diagnose_network,
    diagnose_views,
    module_views,
    weights_views,
)
from attnforge.measurement.diagnosis.subject import listed_points
from attnforge.network import Network
from attnforge.outward import machine
from attnforge.targets import JointFunction
from attnforge.targets.table import Table

if TYPE_CHECKING:
    from torch import Tensor

Array = npt.NDArray[np.float64]

POINTS = 1024


def diagnose(net: Any, x: Any = None, *, points: int = POINTS, seed: int = 0, dtype: str | None = None) -> Diagnosis:
    """Look for the failure signatures of softmax attention: what is wrong, the evidence, the cause and the remedy.

    Uniform attention, boundary artefacts, interpolation drift, score overflow and lost argmax, underflow, duplicate
    keys; see :mod:`attnforge.measurement.diagnosis`. What needs a target is looked for where the target is known.

    Args:
        net: a ``Compiled``; a ``Network``; an ``nn.MultiheadAttention`` or any ``nn.Module`` that contains some (it is
            run once on x, in evaluation mode); our own ``net.module()``; a network of ``af.in_context``; or
            ``AttentionWeights``.
        x: points as ``net`` takes them, chosen by us where the domain is known. Of a ``Network``, tokens (..., n, m);
            of a module, its input, or a tuple of its inputs, None among them passed on; NumPy arrays of floats are cast
            to its dtype, whole numbers and masks are not. Of a network that reads a prompt, ``(x, prompt)``, or
            ``(X, y)``, or ``(X, y, X_query)``.
        points: how many points are chosen.
        seed: of these, and of the queries looked at where there are too many.
        dtype: what it runs in, instead of the dtype it was compiled for (float64 for a ``Network``). Modules and
            ``AttentionWeights`` have their own.

    >>> import attnforge as af
    >>> diagnose(af.constructions.truncated_linear([1.0], 0.0, -1, 1, anchors=21)).healthy
    True
    >>> soft = af.constructions.truncated_linear([1.0], 0.0, -1, 1, anchors=21, sharpness=1.0)
    >>> [finding.signature for finding in diagnose(soft).faults]
    ['uniform attention']
    """
    _whole("points", points, 1)
    _whole("seed", seed, 0)
    if dtype is not None:
        machine(dtype)
    if isinstance(net, Compiled) and net.target.layout != "prompt":
        return _compiled(net, x, points, seed, dtype or net.dtype)
    if isinstance(net, Network):
        return _network(net, x, points, seed, dtype or "float64")
    _only_where_it_runs(dtype)
    if isinstance(net, AttentionWeights):
        return diagnose_views(weights_views(net, _array(_given(x)), seed))
    return diagnose_views(module_views(*_module(net, x), seed))


def _compiled(net: Compiled, x: Any, points: int, seed: int, dtype: str) -> Diagnosis:
    subject = Subject(net.network, dtype, net.target, str(net.certificate.norm), net.certificate.bound)
    return diagnose_network(subject, None if x is None else _points(net, x), count=points, seed=seed)


def _points(net: Compiled, x: Any) -> Array:
    """Points of the target, one row each."""
    if isinstance(net.target, JointFunction):
        return _pairs(net.target, x)
    array, d = _array(x), net.network.features
    if isinstance(net.target, Table) and (array.shape[-1:] == (d,) or (d == 1 and array.ndim <= 1)):
        array = listed_points(net.target, array.reshape(-1, d))
    array = inside(net._shaped(array), net.domain)
    net.domain.check(array)
    return array.reshape(-1, *array.shape[-2:]) if net.target.layout == "tokens" else array.reshape(-1, d)


def _pairs(target: JointFunction, x: Any) -> Array:
    """Flat joint points of two inputs, whose leading axes broadcast."""
    from attnforge.runtime.joint import as_tokens, common_batch

    if not isinstance(x, tuple) or len(x) != 2:
        got = f"{len(x)}" if isinstance(x, tuple) else type(x).__name__
        raise DomainError("This network takes two inputs", got, "Pass x=(X, Y)")
    first, second, _ = checked(target, (_array(x[0]), _array(x[1])))
    sides = as_tokens("X", first, target.keys.shape), as_tokens("Y", second, target.query.shape)
    batch = common_batch(*sides)
    flat = (part.expand(*batch, *part.shape[-2:]).reshape(batch.numel(), -1).numpy() for part in sides)
    return np.hstack(list(flat))


def _network(net: Network, x: Any, points: int, seed: int, dtype: str) -> Diagnosis:
    given = x if isinstance(x, tuple) else (_given(x),)
    count = 1 if net.context is None else 2
    if len(given) != count:
        remedy = "Pass x=(tokens, context)" if count == 2 else "Pass x=tokens"
        raise DomainError(f"The number of inputs must be the network's, {count}", f"{len(given)}", remedy)
    tokens = _tokens("the network", _array(given[0]), net.tokens, net.features)
    if net.context is None:
        return diagnose_network(Subject(net, dtype), tokens.reshape(-1, *tokens.shape[-2:]), count=points, seed=seed)
    second_input = _tokens("the second input of the network", _array(given[1]), *net.context)
    try:
        batch = np.broadcast_shapes(tokens.shape[:-2], second_input.shape[:-2])
    except ValueError:
        got = f"{tokens.shape[:-2]} and {second_input.shape[:-2]}"
        raise DomainError("The leading axes of both inputs must broadcast", got, "Give as many of both") from None
    both = (np.broadcast_to(z, (*batch, *z.shape[-2:])).reshape(-1, *z.shape[-2:]) for z in (tokens, second_input))
    return diagnose_network(Subject(net, dtype), *both, count=points, seed=seed)


def _tokens(who: str, tokens: Array, count: int | None, features: int | None) -> Array:
    fits = tokens.ndim >= 2 and count in (None, tokens.shape[-2]) and features in (None, tokens.shape[-1])
    if not fits:
        wanted = f"{who} takes arrays of shape (..., {count or 'n'}, {features or 'm'})"
        raise DomainError(wanted[0].upper() + wanted[1:], f"shape {tokens.shape}", "Reshape the input")
    return tokens


def _module(net: Any, x: Any) -> tuple[Any, tuple[Any, ...]]:
    """A torch module, and what to call it with."""
    import torch

    given = x if isinstance(x, tuple) else (x,)
    module = net
    if not isinstance(net, torch.nn.Module):
        if not callable(getattr(net, "module", None)):
            wanted = "A network, a torch module or AttentionWeights can be diagnosed"
            raise TargetError(wanted, type(net).__name__, "Pass one of these")
        given, dtypes = _prompted(net, given)
        module = net.module(**dtypes)
    if not given or given[0] is None:
        _given(None, "inputs of the module")
    kind = next((p.dtype for p in [*module.parameters(), *module.buffers()] if p.is_floating_point()), torch.float32)
    inputs = tuple(_input(part, kind) for part in given)
    if isinstance(inputs[0], torch.Tensor) and not inputs[0].isfinite().all():
        raise DomainError("Inputs must be finite", "NaN or infinity", "Remove these points")
    return module, inputs


def _prompted(net: Any, given: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, str]]:
    """Examples and prompts as the tokens that the module reads, and the dtype that a prompt asks for."""
    assemble = getattr(net, "tokens", None)
    if callable(assemble):
        wanted = ", ".join(signature(assemble).parameters)
        if len(given) != len(signature(assemble).parameters):
            raise DomainError(f"This network takes x=({wanted})", f"{len(given)} inputs", "Pass all of these")
        return tuple(assemble(*given)), {}
    dtypes = [part.dtype for part in given if _is_prompt(part)]
    plain = tuple(part.tokens if _is_prompt(part) else part for part in given)
    return plain, {"dtype": dtypes[0]} if dtypes else {}


def _is_prompt(part: Any) -> bool:
    return isinstance(getattr(part, "tokens", None), np.ndarray) and isinstance(getattr(part, "dtype", None), str)


def _input(part: Any, kind: Any) -> Tensor | bool | None:
    """An input of a module: tensors, None and flags as they are, arrays of floats in the module's dtype."""
    import torch

    if part is None or isinstance(part, bool):
        return part
    tensor = part if isinstance(part, torch.Tensor) else torch.from_numpy(np.array(_real(part)))
    if not tensor.numel():
        raise DomainError("`x` must hold at least one number", f"shape {tuple(tensor.shape)}", "Pass typical inputs")
    if isinstance(part, torch.Tensor) or not tensor.is_floating_point():
        return tensor
    return tensor.to(kind)


def _only_where_it_runs(dtype: str | None) -> None:
    if dtype is not None:
        raise TargetError("A module runs in its own dtype", f"dtype={dtype!r}", "Cast it with .to, and leave dtype out")


def _given(x: Any, what: str = "tokens of shape (..., n, m)") -> Any:
    if x is None:
        raise DomainError(f"`x` must be given: {what}", "none", "Its domain is not known; pass typical inputs")
    return x


def _array(x: Any) -> Array:
    """Finite numbers in float64, at least one."""
    values = _real(x).astype(np.float64)
    if not values.size:
        raise DomainError("`x` must hold at least one point", f"shape {values.shape}", "Pass typical inputs")
    if not np.isfinite(values).all():
        raise DomainError("Inputs must be finite", "NaN or infinity", "Remove these points")
    return values


def _real(x: Any) -> npt.NDArray[Any]:
    """An array of real numbers or truth values, of the type they have; tensors in float64."""
    read = numbers(x)
    return float64(read) if is_tensor(read) else np.asarray(read)


def _whole(name: str, given: Any, least: int) -> None:
    if not isinstance(given, int | np.integer) or isinstance(given, bool) or given < least:
        raise TargetError(f"`{name}` must be a whole number, at least {least}", repr(given)[:80], "Leave it out")

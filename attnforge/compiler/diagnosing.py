"""The public ``diagnose``: whatever holds softmax attention, ours or not, is looked at for the known failures."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.balls import machine
from attnforge.compiler.compiled import Compiled
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
from attnforge.network import Network
from attnforge.targets import JointFunction

Array = npt.NDArray[np.float64]

POINTS = 1024


def diagnose(net: Any, x: Any = None, *, points: int = POINTS, seed: int = 0, dtype: str | None = None) -> Diagnosis:
    """Look for the failure signatures of softmax attention: what is wrong, the evidence, the cause and the remedy.

    Uniform attention, boundary artefacts, interpolation drift, score overflow and lost argmax, underflow, duplicate
    keys; see :mod:`attnforge.measurement.diagnosis`. What needs a target is looked for where the target is known.

    Args:
        net: a ``Compiled``; a ``Network``; an ``nn.MultiheadAttention`` or any ``nn.Module`` that contains some (it is
            run once on x); our own ``net.module()``; anything with such a ``module()``; or ``AttentionWeights``.
        x: points as ``net`` takes them, chosen by us where the domain is known. Of a ``Network``, tokens (..., n, m);
            of a module, its input, or a tuple of its inputs.
        points: how many points are chosen.
        seed: of these.
        dtype: what it runs in, instead of the dtype it was compiled for (float64 for a ``Network``). Modules and
            ``AttentionWeights`` have their own.

    >>> import attnforge as af
    >>> diagnose(af.constructions.truncated_linear([1.0], 0.0, -1, 1, anchors=21)).healthy
    True
    >>> soft = af.constructions.truncated_linear([1.0], 0.0, -1, 1, anchors=21, sharpness=1.0)
    >>> [finding.signature for finding in diagnose(soft).faults]
    ['uniform attention']
    """
    if dtype is not None:
        machine(dtype)
    if isinstance(net, Compiled):
        return _compiled(net, x, points, seed, dtype or net.dtype)
    if isinstance(net, Network):
        return _network(net, x, points, seed, dtype or "float64")
    if isinstance(net, AttentionWeights):
        _only_where_it_runs(dtype)
        return diagnose_views(weights_views(net, _array(_given(x))), net.dtype)
    return _module(net, x, dtype)


def _compiled(net: Compiled, x: Any, points: int, seed: int, dtype: str) -> Diagnosis:
    subject = Subject(net.network, dtype, net.target, str(net.certificate.norm), net.certificate.bound)
    return diagnose_network(subject, None if x is None else _points(net, x), count=points, seed=seed)


def _points(net: Compiled, x: Any) -> Array:
    """Points of the target, one row each."""
    if isinstance(net.target, JointFunction):
        if not isinstance(x, tuple) or len(x) != 2:
            raise DomainError("This network takes two inputs", type(x).__name__, "Pass x=(X, Y)")
        shapes = net.target.keys.shape, net.target.query.shape
        first, second = (_array(part).reshape(-1, *shape) for part, shape in zip(x, shapes, strict=True))
        count = max(len(first), len(second))
        both = (np.broadcast_to(part, (count, *part.shape[1:])).reshape(count, -1) for part in (first, second))
        return np.hstack(list(both))
    array = _array(x)
    if net.target.layout == "tokens":
        rows = array.reshape(-1, *array.shape[-2:]) if array.ndim >= 2 else array
    else:
        rows = array.reshape(-1, net.network.features)
    net._check(rows)
    return rows


def _network(net: Network, x: Any, points: int, seed: int, dtype: str) -> Diagnosis:
    given = x if isinstance(x, tuple) else (_given(x, "tokens of shape (..., n, m)"),)
    tokens, context = (*(_array(part) for part in given), None)[:2]
    assert tokens is not None
    if tokens.ndim < 2 or tokens.shape[-1] != net.features or net.tokens not in (None, tokens.shape[-2]):
        wanted = f"The network takes arrays of shape (..., {net.tokens or 'n'}, {net.features})"
        raise DomainError(wanted, f"shape {tokens.shape}", "Reshape the input")
    flat = tokens.reshape(-1, *tokens.shape[-2:])
    if (context is None) != (net.context is None):
        raise DomainError("The number of inputs must be the network's", f"{len(given)}", "Pass x=(tokens, context)")
    told = None if context is None else np.broadcast_to(context, (len(flat), *context.shape[-2:]))
    return diagnose_network(Subject(net, dtype), flat, told, count=points, seed=seed)


def _module(net: Any, x: Any, dtype: str | None) -> Diagnosis:
    import torch

    _only_where_it_runs(dtype)
    module = net
    if not isinstance(net, torch.nn.Module):
        make = getattr(net, "module", None)
        if not callable(make):
            wanted = "A network, a torch module or AttentionWeights can be diagnosed"
            raise TargetError(wanted, type(net).__name__, "Pass one of these")
        module = make()
    given = x if isinstance(x, tuple) else (_given(x, "inputs of the module"),)
    kind = next((p.dtype for p in [*module.parameters(), *module.buffers()] if p.is_floating_point()), torch.float32)
    inputs = tuple(
        part if isinstance(part, torch.Tensor) else torch.from_numpy(_array(part)).to(kind) for part in given
    )
    views = module_views(module, inputs)
    return diagnose_views(views, views[0].dtype)


def _only_where_it_runs(dtype: str | None) -> None:
    if dtype is not None:
        raise TargetError("A module runs in its own dtype", f"dtype={dtype!r}", "Cast it with .to, and leave dtype out")


def _given(x: Any, what: str = "tokens of shape (..., n, m)") -> Any:
    if x is None:
        raise DomainError(f"`x` must be given: {what}", "none", "Its domain is not known; pass typical inputs")
    return x


def _array(x: Any) -> Array:
    import torch

    array = x.detach().to("cpu", torch.float64).numpy() if isinstance(x, torch.Tensor) else x
    try:
        found = np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError):
        raise DomainError("Inputs must be real numbers", repr(x)[:80], "Pass a NumPy array or a tensor") from None
    if not np.isfinite(found).all():
        raise DomainError("Inputs must be finite", "NaN or infinity", "Remove these points")
    return found

"""The theorems by name: each function builds one construction with the numbers given and returns it certified."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from attnforge.anchors import Grid, Sharpness, uniform
from attnforge.balls import machine
from attnforge.compiler.certifying import certified
from attnforge.compiler.compiled import Compiled
from attnforge.compiler.cost import afford
from attnforge.errors import RefusalError
from attnforge.targets import Box, Function, ReluNetwork, Target, TruncatedLinear, as_lipschitz
from attnforge.theorems.construction import Construction, Cost
from attnforge.theorems.gate import Gate, GatePlan, finest_sharpness
from attnforge.theorems.max_affine import CellsPlan, MaxAffine, cells_sharpness
from attnforge.theorems.multihead_truncated_linear import (
    HeadsPlan,
    MultiheadTruncatedLinear,
    check_plan,
    plan_sharpness,
)
from attnforge.theorems.relu_network import ReluNetworkConstruction, anchor_plan, even_plan, gate_plan
from attnforge.theorems.truncated_linear import AnchorPlan, Layout, TruncatedLinearHead, resolve_sharpness

__all__ = ["gate", "max_affine", "multihead_truncated_linear", "relu_network", "truncated_linear"]

DOMAIN = Box(-10, 10)
P = TypeVar("P")


def truncated_linear(
    w: npt.ArrayLike,
    t: npt.ArrayLike,
    lower: float,
    upper: float,
    *,
    anchors: int,
    sharpness: Sharpness = "tuned",
    grid: Grid = "closed",
    domain: Box = DOMAIN,
    output: int = 0,
    outputs: int | None = None,
    layout: Layout = "memory",
    dtype: str = "float64",
) -> Compiled:
    r"""One softmax head that computes a truncated linear function, after Hu et al. 2025.

    With p ``anchors`` on [a, b], h apart, and sharpness c = beta h^2, for every real y = w . x + t
    $$ |\mathrm{head}(y) - \mathrm{clamp}(y, a, b)| \le h E(c), $$
    where E = 1/2 in the hard limit and 0.063 when tuned. Proof: :mod:`attnforge.theorems.truncated_linear`.

    Args:
        w: (d,) for all tokens, or (n, d).
        t: a number, or (n,).
        lower, upper: the interval [a, b].
        anchors: p, at least 2.
        sharpness: ``"hard"``, ``"tuned"`` (smallest sup error) or the number beta of scores beta (2 y L - L^2).
        grid: ``"closed"`` (both ends are anchors) or ``"open"`` (the paper's).
        domain: where it is certified and may be called.
        output, outputs: write into feature ``output`` of ``outputs`` instead of returning the value alone.
        layout: ``"memory"`` (lean) or ``"literal"`` (the paper's padded sequence).
        dtype: what it runs in.

    Returns:
        A Compiled that takes (..., n, d) and returns (..., n), or (..., n, outputs).

    >>> net = truncated_linear([1.0, -2.0], 0.5, -1, 1, anchors=21)
    >>> round(net.certificate.bound, 4), net([[[0.3, 0.2]]]).shape
    (0.0063, (1, 1))
    """
    machine(dtype)
    target = TruncatedLinear(w, t, lower, upper, domain, output=output, outputs=outputs)
    count = _count("anchors", anchors)
    afford(Cost.of(count, 4 * count), "truncated_linear")
    _, spacing = uniform(target.lower, target.upper, max(count, 0), grid)
    plan = AnchorPlan(count, resolve_sharpness(sharpness, spacing, count, dtype), grid, _layout(layout), dtype)
    return _finish(TruncatedLinearHead(), target, plan, dtype)


def multihead_truncated_linear(
    w: npt.ArrayLike,
    t: npt.ArrayLike,
    lower: float,
    upper: float,
    *,
    tokens: int,
    heads: int,
    sharpness: Sharpness = "tuned",
    sentinels: int = 2,
    domain: Box = DOMAIN,
    output: int = 0,
    outputs: int | None = None,
    layout: Layout = "memory",
    dtype: str = "float64",
) -> Compiled:
    r"""H softmax heads that compute a truncated linear function H times better, after Hu et al. 2025.

    Each head holds ``tokens`` keys: n - 2r anchors of its own and r ``sentinels`` a side, sitting on its neighbours'
    anchors. With h = (b - a) / (H (n - 2r) - 1) the error is at most h E(c) plus max(|a|, |b|) times what the borders
    count twice, about exp(-4c)/4 for r = 2. Proof: :mod:`attnforge.theorems.multihead_truncated_linear`.

    Args:
        w: (d,) for all tokens, or (n, d).
        t: a number, or (n,).
        lower, upper: the interval [a, b].
        tokens: n, keys a head; in the literal layout also the length of the sequence.
        heads: H.
        sharpness: ``"hard"``, ``"tuned"`` or the number beta of scores beta (2 y L - L^2).
        sentinels: r, at least 1.
        domain: where it is certified and may be called.
        output, outputs: write into feature ``output`` of ``outputs`` instead of returning the value alone.
        layout: ``"memory"`` (lean, any number of tokens) or ``"literal"`` (the paper's [X, I_n]).
        dtype: what it runs in.

    >>> net = multihead_truncated_linear([1.0], 0.0, -1, 1, tokens=12, heads=4)
    >>> net.heads, net.anchors, net.certificate.bound < 0.005
    (4, 48, True)
    """
    machine(dtype)
    target = TruncatedLinear(w, t, lower, upper, domain, output=output, outputs=outputs)
    counts = [_count(n, v) for n, v in (("tokens", tokens), ("heads", heads), ("sentinels", sentinels))]
    plan = HeadsPlan(counts[0], counts[1], 1.0, counts[2], _layout(layout), dtype)
    check_plan(plan)
    plan = replace(plan, sharpness=plan_sharpness(sharpness, plan, target.lower, target.upper))
    return _finish(MultiheadTruncatedLinear(), target, plan, dtype)


def gate(
    w: npt.ArrayLike,
    t: npt.ArrayLike,
    lower: float,
    upper: float,
    *,
    sharpness: float | None = None,
    domain: Box = DOMAIN,
    output: int = 0,
    outputs: int | None = None,
    layout: Layout = "memory",
    dtype: str = "float64",
) -> Compiled:
    r"""Three keys that compute a truncated linear function to any precision (ours).

    Keys low, self, high with scores -beta (y - a), 0, beta (y - b) and values a, y, b: the error is at most
    0.2785 / beta at each kink and there are no interpolation points. Proof: :mod:`attnforge.theorems.gate`.

    Args:
        w: (d,) for all tokens, or (n, d).
        t: a number, or (n,).
        lower, upper: the interval [a, b].
        sharpness: beta; None takes the finest the dtype can use.
        domain: where it is certified and may be called.
        output, outputs: write into feature ``output`` of ``outputs`` instead of returning the value alone.
        layout: ``"memory"`` (each token sees itself and two constants) or ``"literal"`` (a padded sequence).
        dtype: what it runs in.

    >>> gate([1.0], 0.0, -1, 1).certificate.bound < 1e-13
    True
    """
    machine(dtype)
    target = TruncatedLinear(w, t, lower, upper, domain, output=output, outputs=outputs)
    beta = finest_sharpness(target, dtype) if sharpness is None else sharpness
    return _finish(Gate(), target, GatePlan(beta, _layout(layout), dtype), dtype)


def relu_network(
    module: Any,
    domain: Box,
    *,
    by: str = "gate",
    anchors: int | None = None,
    tol: float | None = None,
    dtype: str = "float64",
) -> Compiled:
    r"""A torch ReLU network as an attention-only network, one head a neuron (after Hu et al. 2025; the gate is ours).

    Proof and error budget: :mod:`attnforge.theorems.relu_network`. With gates the output is the module's, to rounding.

    Args:
        module: ``nn.Sequential`` of Linear, ReLU, LeakyReLU, Hardtanh, ReLU6 (nested ones too).
        domain: a box of d inputs; of shape (n, d) to apply the module to every token of a sequence.
        by: ``"gate"``, or ``"anchors"`` for the papers' anchored heads.
        anchors: with ``by="anchors"``, anchors a neuron; or give ``tol``, which is split over the layers.
        tol: with ``by="anchors"``, the error asked for, in exact arithmetic.
        dtype: what it runs in.

    Returns:
        A Compiled with the module's shapes: (..., d) to (..., k), or (..., n, d) to (..., n, k).

    >>> from torch import nn
    >>> net = relu_network(nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1)), Box(-1, 1))
    >>> net.heads, net.certificate.bound < 1e-13
    (4, True)
    """
    machine(dtype)
    target = ReluNetwork.from_torch(module, domain)
    if by == "gate":
        plan = gate_plan(target, dtype)
    elif by == "anchors" and (anchors is None) != (tol is None):
        plan = anchor_plan(target, tol, dtype) if tol is not None else even_plan(target, _at_least_two(anchors), dtype)
    else:
        got = f"by={by!r}, anchors={anchors}, tol={tol}"
        raise RefusalError("`by` must be 'gate', or 'anchors' with either anchors= or tol=", got, "Choose one")
    return _finish(ReluNetworkConstruction(), target, plan, dtype)


def max_affine(
    f: Callable[[Any], Any],
    domain: Box,
    *,
    cells: int | Sequence[int],
    sharpness: Sharpness = "tuned",
    lipschitz: Any = None,
    dtype: str = "float64",
) -> Compiled:
    r"""One layer, one head: attention partitions the domain and gives every cell a value, after Liu et al. 2025.

    For f with Lipschitz constant L (sup norm) on a grid of cells with steps h_j the error is at most
    $L(\max_j h_j/2 + \sum_j h_j X(c))$, X = 0 in the hard limit. Proof: :mod:`attnforge.theorems.max_affine`.

    Args:
        f: takes (..., d) arrays and returns (...) or (..., k); on a box of n tokens, (..., n, d) to (..., n, k).
        domain: a box of shape (d,) or (n, d).
        cells: cells along every axis, or one number an axis.
        sharpness: ``"hard"``; ``"tuned"``, of order 2 for smooth f; or the number c = beta h^2.
        lipschitz: a number (sup norm) or ``af.Lipschitz``; without it the certificate is ``sampled``.
        dtype: what it runs in.

    >>> import numpy as np
    >>> net = max_affine(lambda x: np.sin(3 * x[..., 0]), Box(0, 1, shape=(1,)), cells=32, lipschitz=3)
    >>> net.certificate.status, net.certificate.estimate.error < 0.003
    ('conditional', True)
    """
    machine(dtype)
    target = Function(f, domain, lipschitz=as_lipschitz(lipschitz))
    counts = _cell_counts(cells, int(np.prod(target.domain.shape)))
    c, ghosts = cells_sharpness(sharpness, counts, dtype)
    return _finish(MaxAffine(), target, CellsPlan(counts, c, ghosts, dtype), dtype)


def _cell_counts(cells: int | Sequence[int], axes: int) -> tuple[int, ...]:
    counts = tuple(cells) if isinstance(cells, Sequence) else (cells,) * axes
    if len(counts) != axes or any(_count("cells", count) < 1 for count in counts):
        got = repr(cells)
        raise RefusalError(f"`cells` must be a number, or {axes} of them, at least 1", got, "Ask for more cells")
    return tuple(_count("cells", count) for count in counts)


def _at_least_two(anchors: Any) -> int:
    count = _count("anchors", anchors)
    if count < 2:
        raise RefusalError("`anchors` must be at least 2", str(count), "Ask for more anchors")
    return count


def _finish(construction: Construction[P], target: Target, plan: P, dtype: str) -> Compiled:
    """Check the cost, then build and certify."""
    afford(construction.cost(target, plan), construction.name)
    return certified(construction.build(target, plan), target, construction.name, dtype)


def _count(name: str, value: int) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise RefusalError(f"`{name}` must be a whole number", repr(value), "Round it") from None


def _layout(layout: str) -> Layout:
    if layout not in ("memory", "literal"):
        raise RefusalError("`layout` must be 'memory' or 'literal'", repr(layout), "Use 'memory' unless you compare")
    return "memory" if layout == "memory" else "literal"

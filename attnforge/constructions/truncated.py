"""Truncated linear functions: one head, several heads, a gate."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from attnforge.anchors import Grid, Sharpness, uniform
from attnforge.anchors import sharpness as sharpness_of
from attnforge.compiler.budget import Asked
from attnforge.compiler.compiled import Compiled
from attnforge.compiler.cost import afford
from attnforge.constructions.finishing import as_layout, count_of, finish, positions_of
from attnforge.errors import RefusalError
from attnforge.outward import DType, dtype_name
from attnforge.targets import Box, TruncatedLinear, as_box
from attnforge.theorems.construction import Cost
from attnforge.theorems.gate import Gate, GatePlan, finest_sharpness
from attnforge.theorems.multihead_truncated_linear import (
    HeadsPlan,
    MultiheadTruncatedLinear,
    check_plan,
    plan_sharpness,
)
from attnforge.theorems.truncated_linear import AnchorPlan, Layout, TruncatedLinearHead, mean_gap, resolve_sharpness

DOMAIN = Box(-10, 10)


def truncated_linear(
    w: npt.ArrayLike,
    t: npt.ArrayLike,
    lower: float,
    upper: float,
    *,
    anchors: npt.ArrayLike,
    sharpness: Sharpness = "tuned",
    grid: Grid = "closed",
    domain: Any = DOMAIN,
    output: int = 0,
    outputs: int | None = None,
    layout: Layout = "memory",
    dtype: DType = "float64",
    **asked: Unpack[Asked],
) -> Compiled:
    r"""One softmax head that computes a truncated linear function, after Hu et al. 2025.

    With p ``anchors`` on [a, b], h apart, and sharpness c = beta h^2, for every real y = w . x + t
    $$ |\mathrm{head}(y) - \mathrm{clamp}(y, a, b)| \le h E(c), $$
    where E = 1/2 in the hard limit and 0.063 when tuned. Proof: :mod:`attnforge.theorems.truncated_linear`.

    Args:
        w: (d,) for all tokens, or (n, d).
        t: a number, or (n,).
        lower, upper: the interval [a, b].
        anchors: p, at least 2; or their positions, increasing numbers of [lower, upper].
        sharpness: ``"hard"``, ``"tuned"`` (smallest sup error) or the number beta of scores beta (2 y L - L^2). At
            given positions hard and tuned keep c = beta h^2 the same over every gap h.
        grid: ``"closed"`` (both ends are anchors) or ``"open"`` (the paper's), of a number of anchors.
        domain: where it is certified and may be called: an ``af.Box``, or intervals, one a feature.
        output, outputs: write into feature ``output`` of ``outputs`` instead of returning the value alone.
        layout: ``"memory"`` (lean) or ``"literal"`` (the paper's padded sequence).
        dtype: what it runs in: a name, or a torch dtype.
        asked: effort, timeout, workers, cluster, require, max_bytes and progress, as ``af.compile`` takes them.

    Returns:
        A Compiled that takes (..., n, d) and returns (..., n), or (..., n, outputs).

    >>> net = truncated_linear([1.0, -2.0], 0.5, -1, 1, anchors=21)
    >>> round(net.certificate.bound, 4), net([[[0.3, 0.2]]]).shape
    (0.0063, (1, 1))
    >>> own = truncated_linear([1.0], 0.0, -1, 1, anchors=[-1, -0.9, 0, 0.9, 1])
    >>> own.anchors, own.certificate.status
    (5, 'proved')
    """
    dtype = dtype_name(dtype)
    target = TruncatedLinear(w, t, lower, upper, as_box(domain)[0], output=output, outputs=outputs)
    if np.ndim(anchors) == 1:
        plan = _at_positions(anchors, sharpness, (target.lower, target.upper), (grid, as_layout(layout)), dtype)
        return finish(TruncatedLinearHead(), target, plan, dtype, asked)
    count = count_of("anchors", anchors)
    afford(Cost.of(count, 4 * count), "truncated_linear", max_bytes=asked.get("max_bytes"))
    _, spacing = uniform(target.lower, target.upper, max(count, 0), grid)
    plan = AnchorPlan(count, resolve_sharpness(sharpness, spacing, count, dtype), grid, as_layout(layout), dtype)
    return finish(TruncatedLinearHead(), target, plan, dtype, asked)


def _at_positions(
    anchors: Any, asked: Sharpness, ends: tuple[float, float], how: tuple[Grid, Layout], dtype: str
) -> AnchorPlan:
    """Anchors where the caller wants them."""
    at = positions_of("anchors", anchors, *ends)
    if how != ("closed", "memory"):
        got, remedy = f"grid={how[0]!r}, layout={how[1]!r}", "Leave both out, or give a number of anchors"
        raise RefusalError("Anchors at given positions are keys of the memory layout, without a grid", got, remedy)
    c = None if not isinstance(asked, str) else sharpness_of(asked, 1.0, dtype)
    beta = sharpness_of(asked, mean_gap(at), dtype)
    return AnchorPlan(len(at), beta, dtype=dtype, positions=tuple(at.tolist()), per_gap=c)


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
    domain: Any = DOMAIN,
    output: int = 0,
    outputs: int | None = None,
    layout: Layout = "memory",
    dtype: DType = "float64",
    **asked: Unpack[Asked],
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
        sentinels: r; 0 leaves them out, to see what they are for: heads then add up what they return away from their
            own anchors, and the certificate states that error.
        domain: where it is certified and may be called: an ``af.Box``, or intervals, one a feature.
        output, outputs: write into feature ``output`` of ``outputs`` instead of returning the value alone.
        layout: ``"memory"`` (lean, any number of tokens) or ``"literal"`` (the paper's [X, I_n]).
        dtype: what it runs in: a name, or a torch dtype.
        asked: effort, timeout, workers, cluster, require, max_bytes and progress, as ``af.compile`` takes them.

    >>> net = multihead_truncated_linear([1.0], 0.0, -1, 1, tokens=12, heads=4)
    >>> net.heads, net.anchors, net.certificate.bound < 0.005
    (4, 48, True)
    """
    dtype = dtype_name(dtype)
    target = TruncatedLinear(w, t, lower, upper, as_box(domain)[0], output=output, outputs=outputs)
    counts = [count_of(n, v) for n, v in (("tokens", tokens), ("heads", heads), ("sentinels", sentinels))]
    plan = HeadsPlan(counts[0], counts[1], 1.0, counts[2], as_layout(layout), dtype)
    check_plan(plan)
    plan = replace(plan, sharpness=plan_sharpness(sharpness, plan, target.lower, target.upper))
    return finish(MultiheadTruncatedLinear(), target, plan, dtype, asked)


def gate(
    w: npt.ArrayLike,
    t: npt.ArrayLike,
    lower: float,
    upper: float,
    *,
    sharpness: float | None = None,
    domain: Any = DOMAIN,
    output: int = 0,
    outputs: int | None = None,
    layout: Layout = "memory",
    dtype: DType = "float64",
    **asked: Unpack[Asked],
) -> Compiled:
    r"""Three keys that compute a truncated linear function to any precision (ours).

    Keys low, self, high with scores -beta (y - a), 0, beta (y - b) and values a, y, b: the error is at most
    0.2785 / beta at each kink and there are no interpolation points. Proof: :mod:`attnforge.theorems.gate`.

    Args:
        w: (d,) for all tokens, or (n, d).
        t: a number, or (n,).
        lower, upper: the interval [a, b].
        sharpness: beta; None takes the finest the dtype can use.
        domain: where it is certified and may be called: an ``af.Box``, or intervals, one a feature.
        output, outputs: write into feature ``output`` of ``outputs`` instead of returning the value alone.
        layout: ``"memory"`` (each token sees itself and two constants) or ``"literal"`` (a padded sequence).
        dtype: what it runs in: a name, or a torch dtype.
        asked: effort, timeout, workers, cluster, require, max_bytes and progress, as ``af.compile`` takes them.

    >>> gate([1.0], 0.0, -1, 1).certificate.bound < 1e-13
    True
    """
    dtype = dtype_name(dtype)
    target = TruncatedLinear(w, t, lower, upper, as_box(domain)[0], output=output, outputs=outputs)
    beta = finest_sharpness(target, dtype) if sharpness is None else sharpness
    return finish(Gate(), target, GatePlan(beta, as_layout(layout), dtype), dtype, asked)

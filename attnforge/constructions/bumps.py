"""Continuous functions by bumps and retrieval: two layers, or one layer and a softmax."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Unpack

from attnforge.anchors import Sharpness
from attnforge.compiler.budget import Asked
from attnforge.compiler.compiled import Compiled
from attnforge.compiler.cost import afford
from attnforge.constructions.finishing import as_layout, count_of, finish, target_of
from attnforge.outward import DType, dtype_name
from attnforge.theorems.bumps import BumpPlan, Collapse, Placement, check_grid, grid_sharpness
from attnforge.theorems.softmax_tail import SoftmaxTail
from attnforge.theorems.truncated_linear import Layout
from attnforge.theorems.two_layer import TwoLayer


def two_layer(
    f: Any,
    domain: Any,
    *,
    grid: int,
    sharpness: Sharpness = "tuned",
    lipschitz: Any = None,
    collapse: Collapse = "affine",
    placement: Placement = "midpoints",
    layout: Layout = "memory",
    dtype: DType = "float64",
    **asked: Unpack[Asked],
) -> Compiled:
    r"""Two layers of multi-head attention that compute a continuous sequence-to-sequence map, after Hu et al. 2025.

    The first layer writes bumps around G grid points an input, the second retrieves F at the G^(nd) centres by a
    softmax with scores beta R_v(X). For F with Lipschitz constant L (sup norm) and steps h_r the error is at most
    $L(\max_r h_r/2 + \sum_r h_r A(\beta, G))$, A = 0 in the hard limit. Proof: :mod:`attnforge.theorems.two_layer`.

    Args:
        f: takes (..., d) arrays and returns (...) or (..., k); on a box of n tokens, (..., n, d) to (..., n, k). Or a
            formula as text, whose Lipschitz constant is then proved.
        domain: a box of shape (d,) or (n, d), or named intervals.
        grid: G, grid points an input; the centres are G to the power of all inputs.
        sharpness: ``"hard"``, ``"tuned"`` (smallest sup error) or the number beta that multiplies the bumps.
        lipschitz: of a callable, a number (sup norm) or ``af.Lipschitz``; without it the certificate is ``sampled``.
        collapse: how the first layer comes to see all tokens: by an ``"affine"`` map, or by a ``"uniform"`` head.
        placement: grid points at ``"midpoints"`` of equal cells, or ``"closed"``: the outermost on the ends of the box.
        layout: ``"memory"`` (centres in the head's memory) or ``"literal"`` (a token a centre).
        dtype: what it runs in: a name, or a torch dtype.
        asked: effort, timeout, workers, cluster, require, max_bytes and progress, as ``af.compile`` takes them.

    >>> import numpy as np
    >>> from attnforge import Box
    >>> net = two_layer(lambda x: np.sort(x, axis=-2), Box(0, 1, shape=(2, 1)), grid=4, lipschitz=1)
    >>> round(net.certificate.bound, 2), net([[0.9], [0.1]]).round(3).tolist()
    (0.13, [[0.125], [0.875]])
    """
    dtype = dtype_name(dtype)
    target = target_of(f, domain, lipschitz)
    count = count_of("grid", grid)
    check_grid(count, placement, collapse)
    plan = BumpPlan(count, 1.0, collapse, placement, as_layout(layout), dtype)
    afford(TwoLayer().cost(target, plan), TwoLayer.name, max_bytes=asked.get("max_bytes"))
    beta = grid_sharpness(sharpness, count, target, placement, dtype)
    return finish(TwoLayer(), target, replace(plan, sharpness=beta), dtype, asked)


def softmax_tail(
    f: Any,
    domain: Any,
    *,
    grid: int,
    sharpness: Sharpness = "tuned",
    lipschitz: Any = None,
    placement: Placement = "midpoints",
    dtype: DType = "float64",
    **asked: Unpack[Asked],
) -> Compiled:
    r"""One layer of multi-head attention and a softmax that compute a continuous map, after Hu et al. 2025.

    The bumps and the bound of :func:`two_layer`; a linear map, a softmax over G^(nd) features and a linear map take the
    place of the second layer. A linear map, a softmax and a linear map alone are already universal, since the scores
    $\beta(2\langle v, X\rangle - |v|^2)$ are affine in X: attention is not what makes this construction so. Proof:
    :mod:`attnforge.theorems.softmax_tail`.

    Args:
        f: takes (..., d) arrays and returns (...) or (..., k); on a box of n tokens, (..., n, d) to (..., n, k). Or a
            formula as text, whose Lipschitz constant is then proved.
        domain: a box of shape (d,) or (n, d), or named intervals.
        grid: G, grid points an input.
        sharpness: ``"hard"``, ``"tuned"`` (smallest sup error) or the number beta that multiplies the bumps.
        lipschitz: of a callable, a number (sup norm) or ``af.Lipschitz``; without it the certificate is ``sampled``.
        placement: grid points at ``"midpoints"`` of equal cells, or ``"closed"``: the outermost on the ends of the box.
        dtype: what it runs in: a name, or a torch dtype.
        asked: effort, timeout, workers, cluster, require, max_bytes and progress, as ``af.compile`` takes them.

    >>> import numpy as np
    >>> from attnforge import Box
    >>> net = softmax_tail(lambda x: np.abs(x[..., 0]), Box(-1, 1, shape=(1,)), grid=8, lipschitz=1)
    >>> round(net.certificate.bound, 2), float(net(0.6).round(3))
    (0.13, 0.625)
    """
    dtype = dtype_name(dtype)
    target = target_of(f, domain, lipschitz)
    count = count_of("grid", grid)
    check_grid(count, placement)
    plan = BumpPlan(count, 1.0, placement=placement, dtype=dtype)
    afford(SoftmaxTail().cost(target, plan), SoftmaxTail.name, max_bytes=asked.get("max_bytes"))
    beta = grid_sharpness(sharpness, count, target, placement, dtype)
    return finish(SoftmaxTail(), target, replace(plan, sharpness=beta), dtype, asked)

"""The theorems by name: each function builds one construction with the numbers given and returns it certified."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from attnforge.anchors import Adaptive, Grid, Sharpness, hard, uniform
from attnforge.balls import machine
from attnforge.compiler.certifying import certified
from attnforge.compiler.compiled import Compiled
from attnforge.compiler.cost import afford
from attnforge.compiler.fitted import additive, polynomial, ridge, sparse_grid, tensor_grid
from attnforge.compiler.mean_error import certified_in_mean
from attnforge.compiler.targets import as_target
from attnforge.errors import RefusalError
from attnforge.targets import Box, Function, JointFunction, ReluNetwork, Target, TruncatedLinear, as_box, as_lipschitz
from attnforge.targets.joint import takes_one_input
from attnforge.theorems.bumps import BumpPlan, Collapse, Placement, check_grid, grid_sharpness
from attnforge.theorems.cell_averages import AveragesPlan, CellAverages, cell_averages
from attnforge.theorems.construction import Construction, Cost
from attnforge.theorems.cross_attention import CrossAttention
from attnforge.theorems.free_cells import FreeCells, FreeCellsPlan, check_centres
from attnforge.theorems.gate import Gate, GatePlan, finest_sharpness
from attnforge.theorems.max_affine import CellsPlan, MaxAffine, cells_sharpness
from attnforge.theorems.multihead_truncated_linear import (
    HeadsPlan,
    MultiheadTruncatedLinear,
    check_plan,
    plan_sharpness,
)
from attnforge.theorems.relu_network import ReluNetworkConstruction, anchor_plan, even_plan, gate_plan
from attnforge.theorems.softmax_tail import SoftmaxTail
from attnforge.theorems.truncated_linear import AnchorPlan, Layout, TruncatedLinearHead, resolve_sharpness
from attnforge.theorems.two_layer import TwoLayer

__all__ = [
    "additive",
    "cross_attention",
    "gate",
    "max_affine",
    "multihead_truncated_linear",
    "polynomial",
    "relu_network",
    "ridge",
    "softmax_tail",
    "sparse_grid",
    "tensor_grid",
    "truncated_linear",
    "two_layer",
]

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
    f: Any,
    domain: Box,
    *,
    cells: int | Sequence[int] | npt.ArrayLike | Adaptive,
    norm: str | float = "sup",
    sharpness: Sharpness | None = None,
    lipschitz: Any = None,
    layout: Layout = "memory",
    dtype: str = "float64",
) -> Compiled:
    r"""One layer, one head: attention partitions the domain and gives every cell a value, after Liu et al. 2025.

    For f with Lipschitz constant L (sup norm) on a grid of cells with steps h_j the error is at most
    $L(\max_j h_j/2 + \sum_j h_j X(c))$, X = 0 in the hard limit. Proof: :mod:`attnforge.theorems.max_affine`. Centres
    and adaptive cells are hard, and their error is bounded by branch and bound: :mod:`attnforge.theorems.free_cells`.

    Args:
        f: takes (..., d) arrays and returns (...) or (..., k); on a box of n tokens, (..., n, d) to (..., n, k). Or a
            formula as text.
        domain: a box of shape (d,) or (n, d).
        cells: cells along every axis, or one number an axis; an (N, D) array of centres (Voronoi cells); or
            ``af.anchors.Adaptive(count)``.
        norm: ``"sup"``; or a number p >= 1: cell averages for Lebesgue-integrable f, discontinuous or unbounded. Then
            the certificate's ``estimate`` is the L_p error by quadrature, :mod:`attnforge.theorems.cell_averages`.
        sharpness: on grids ``"hard"``; ``"tuned"`` (the default), of order 2 for smooth f; or the number beta of
            scores beta (2 v . x - |v|^2). Centres, adaptive cells and averages are ``"hard"``.
        lipschitz: a number (sup norm) or ``af.Lipschitz``; without it the certificate is ``sampled``.
        layout: of grids, ``"memory"`` (lean) or ``"literal"`` (self-attention over a padded sequence).
        dtype: what it runs in.

    >>> import numpy as np
    >>> net = max_affine(lambda x: np.sin(3 * x[..., 0]), Box(0, 1, shape=(1,)), cells=32, lipschitz=3)
    >>> net.certificate.status, net.certificate.estimate.error < 0.003
    ('conditional', True)
    >>> from attnforge.anchors import Adaptive
    >>> max_affine("x^8", {"x": (0, 1)}, cells=Adaptive(10)).certificate.bound < 0.055
    True
    """
    machine(dtype)
    if norm != "sup":
        return _in_mean(f, domain, cells, norm, sharpness, dtype)
    plain = callable(f) and not isinstance(f, Target)
    target = Function(f, domain, lipschitz=as_lipschitz(lipschitz)) if plain else as_target(f, domain, lipschitz)
    if _are_free(cells):
        _only_hard(sharpness, "free cells")
        places = cells if isinstance(cells, Adaptive) else check_centres(cells, target.domain)
        return _finish(FreeCells(), target, FreeCellsPlan(places, dtype), dtype)
    counts = _cell_counts(cells, int(np.prod(target.domain.shape)))
    c, ghosts = cells_sharpness("tuned" if sharpness is None else sharpness, counts, target.domain, dtype)
    return _finish(MaxAffine(), target, CellsPlan(counts, c, ghosts, dtype, _layout(layout)), dtype)


def cross_attention(
    f: Callable[..., Any],
    keys_domain: Any,
    query_domain: Any,
    *,
    grid: int | Sequence[int],
    norm: str | float = "sup",
    sharpness: Sharpness | None = None,
    lipschitz: Any = None,
    dtype: str = "float64",
) -> Compiled:
    r"""One head of cross-attention that computes f(X, Y): keys and values from X, queries from Y (Liu et al. 2025).

    For f with Lipschitz constant L (sup norm of both inputs together) on a grid of cells of the joint box with steps
    h_j the error is at most $L(\max_j h_j/2 + \sum_j h_j X(c))$, X = 0 in the hard limit. Proof:
    :mod:`attnforge.theorems.cross_attention`.

    A target of the query alone, f(Y), is the special case of constant keys and values, which are then the head's own:
    the network is :func:`max_affine`'s and is called as ``net(Y)``. It is asked for by ``keys_domain=None``, or by an f
    of one argument (``keys_domain`` is then not used).

    Args:
        f: takes X (..., d) or (..., n, d) and Y likewise, and returns (...) or (..., k); where Y is a sequence of n
            tokens, (..., n) or (..., n, k): the output tokens are Y's.
        keys_domain, query_domain: boxes of X and Y, of shape (d,) or (n, d) each; or lists of intervals.
        grid: cells along every axis of the joint box, or one number an axis: first those of X, then those of Y.
        norm: ``"sup"``; or p >= 1, for targets that are only in L_p: values are averages over the cells, and the
            certificate holds an estimate of the L_p error.
        sharpness: ``"hard"``; ``"tuned"``, of order 2 for smooth f; or the number beta of scores
            beta (2 v . x - |v|^2), h the shortest step. By default tuned; hard for L_p.
        lipschitz: a number (sup norm) or ``af.Lipschitz``; without it the certificate is ``sampled``.
        dtype: what it runs in.

    Returns:
        A Compiled called as ``net(X, Y)``; leading axes broadcast, and one X for many Y is cheapest.

    >>> import numpy as np
    >>> box = Box(0, 1, shape=(1,))
    >>> net = cross_attention(lambda x, y: np.sin(4 * x[..., 0]) * y[..., 0], box, box, grid=16, lipschitz=5)
    >>> net.certificate.status, net.certificate.estimate.error < 0.02, net(0.5, [0.1, 0.2, 0.3]).shape
    ('conditional', True, (3,))
    """
    machine(dtype)
    asked = as_box(query_domain)[0]
    if keys_domain is None or takes_one_input(f):
        counts = _grid_counts(grid, asked.lower.size)
        return max_affine(f, asked, cells=counts, norm=norm, sharpness=sharpness, lipschitz=lipschitz, dtype=dtype)
    target = JointFunction(f, as_box(keys_domain)[0], asked, lipschitz=as_lipschitz(lipschitz))
    counts = _grid_counts(grid, target.domain.lower.size)
    if norm != "sup":
        return _pairs_in_mean(target, counts, _exponent(norm), sharpness, dtype)
    c, ghosts = cells_sharpness("tuned" if sharpness is None else sharpness, counts, target.domain, dtype)
    return _finish(CrossAttention(), target, CellsPlan(counts, c, ghosts, dtype), dtype)


def _pairs_in_mean(
    target: JointFunction, counts: tuple[int, ...], exponent: float, sharpness: Sharpness | None, dtype: str
) -> Compiled:
    """Averages over cells of the joint box, and their L_p error."""
    _only_hard(sharpness, "cell averages")
    construction, plan = CrossAttention(), CellsPlan(counts, hard(dtype), dtype=dtype)
    afford(construction.cost(target, plan), construction.name)
    network = construction.network(target, plan, cell_averages(target, counts, exponent))
    return certified_in_mean(network, target, construction.name, counts, exponent, dtype)


def _grid_counts(grid: Any, axes: int) -> tuple[int, ...]:
    counts = tuple(grid) if isinstance(grid, Sequence | np.ndarray) else (grid,) * axes
    if len(counts) != axes or any(_count("grid", count) < 1 for count in counts):
        requirement = f"`grid` must be a number of cells, at least 1, or {axes} of them, one an axis"
        raise RefusalError(requirement, repr(grid)[:200], "Ask for more cells")
    return tuple(_count("grid", count) for count in counts)


def _are_free(cells: Any) -> bool:
    """Whether cells are adaptive or centres, rather than numbers of cells an axis."""
    try:
        return isinstance(cells, Adaptive) or np.ndim(cells) > 1
    except ValueError:
        got = repr(cells)[:200]
        raise RefusalError("Centres are an array of shape (N, D)", got, "Give every centre as many numbers") from None


def _in_mean(f: Any, domain: Box, cells: Any, norm: Any, sharpness: Sharpness | None, dtype: str) -> Compiled:
    """Cell averages, and their L_p error."""
    exponent = _exponent(norm)
    _only_hard(sharpness, "cell averages")
    if _are_free(cells):
        raise RefusalError("L_p needs a grid of cells", type(cells).__name__, "Give a number of cells an axis")
    target = Function(f, domain) if callable(f) and not isinstance(f, Target) else as_target(f, domain)
    counts = _cell_counts(cells, int(np.prod(target.domain.shape)))
    plan, construction = AveragesPlan(counts, exponent, dtype), CellAverages()
    afford(construction.cost(target, plan), construction.name)
    return certified_in_mean(construction.build(target, plan), target, construction.name, counts, exponent, dtype)


def _exponent(norm: Any) -> float:
    try:
        exponent = float(norm)
    except (TypeError, ValueError):
        exponent = math.nan
    if not 1 <= exponent < math.inf:
        raise RefusalError("`norm` must be 'sup' or a number p with 1 <= p < inf", repr(norm), "Use norm=1, say")
    return exponent


def _only_hard(sharpness: Sharpness | None, what: str) -> None:
    if sharpness not in (None, "hard"):
        raise RefusalError(f"`sharpness` of {what} must be 'hard'", repr(sharpness), "Leave it out, or give a grid")


def _cell_counts(cells: Any, axes: int) -> tuple[int, ...]:
    counts = (cells,) * axes if np.ndim(cells) == 0 else tuple(cells)
    if len(counts) != axes or any(_count("cells", count) < 1 for count in counts):
        got = repr(cells)
        raise RefusalError(f"`cells` must be a number, or {axes} of them, at least 1", got, "Ask for more cells")
    return tuple(_count("cells", count) for count in counts)


def two_layer(
    f: Callable[[Any], Any],
    domain: Box,
    *,
    grid: int,
    sharpness: Sharpness = "tuned",
    lipschitz: Any = None,
    collapse: Collapse = "affine",
    placement: Placement = "midpoints",
    layout: Layout = "memory",
    dtype: str = "float64",
) -> Compiled:
    r"""Two layers of multi-head attention that compute a continuous sequence-to-sequence map, after Hu et al. 2025.

    The first layer writes bumps around G grid points an input, the second retrieves F at the G^(nd) centres by a
    softmax with scores beta R_v(X). For F with Lipschitz constant L (sup norm) and steps h_r the error is at most
    $L(\max_r h_r/2 + \sum_r h_r A(\beta, G))$, A = 0 in the hard limit. Proof: :mod:`attnforge.theorems.two_layer`.

    Args:
        f: takes (..., d) arrays and returns (...) or (..., k); on a box of n tokens, (..., n, d) to (..., n, k).
        domain: a box of shape (d,) or (n, d).
        grid: G, grid points an input; the centres are G to the power of all inputs.
        sharpness: ``"hard"``, ``"tuned"`` (smallest sup error) or the number beta that multiplies the bumps.
        lipschitz: a number (sup norm) or ``af.Lipschitz``; without it the certificate is ``sampled``.
        collapse: how the first layer comes to see all tokens: by an ``"affine"`` map, or by a ``"uniform"`` head.
        placement: grid points at ``"midpoints"`` of equal cells, or ``"closed"``: the outermost on the ends of the box.
        layout: ``"memory"`` (centres in the head's memory) or ``"literal"`` (a token a centre).
        dtype: what it runs in.

    >>> import numpy as np
    >>> net = two_layer(lambda x: np.sort(x, axis=-2), Box(0, 1, shape=(2, 1)), grid=4, lipschitz=1)
    >>> round(net.certificate.bound, 2), net([[0.9], [0.1]]).round(3).tolist()
    (0.13, [[0.125], [0.875]])
    """
    target = _continuous(f, domain, lipschitz, dtype)
    count = _count("grid", grid)
    check_grid(count, placement, collapse)
    plan = BumpPlan(count, 1.0, collapse, placement, _layout(layout), dtype)
    afford(TwoLayer().cost(target, plan), TwoLayer.name)
    beta = grid_sharpness(sharpness, count, target, placement, dtype)
    return _finish(TwoLayer(), target, replace(plan, sharpness=beta), dtype)


def softmax_tail(
    f: Callable[[Any], Any],
    domain: Box,
    *,
    grid: int,
    sharpness: Sharpness = "tuned",
    lipschitz: Any = None,
    placement: Placement = "midpoints",
    dtype: str = "float64",
) -> Compiled:
    r"""One layer of multi-head attention and a softmax that compute a continuous map, after Hu et al. 2025.

    The bumps and the bound of :func:`two_layer`; a linear map, a softmax over G^(nd) features and a linear map take the
    place of the second layer. A linear map, a softmax and a linear map alone are already universal, since the scores
    $\beta(2\langle v, X\rangle - |v|^2)$ are affine in X: attention is not what makes this construction so. Proof:
    :mod:`attnforge.theorems.softmax_tail`.

    Args:
        f: takes (..., d) arrays and returns (...) or (..., k); on a box of n tokens, (..., n, d) to (..., n, k).
        domain: a box of shape (d,) or (n, d).
        grid: G, grid points an input.
        sharpness: ``"hard"``, ``"tuned"`` (smallest sup error) or the number beta that multiplies the bumps.
        lipschitz: a number (sup norm) or ``af.Lipschitz``; without it the certificate is ``sampled``.
        placement: grid points at ``"midpoints"`` of equal cells, or ``"closed"``: the outermost on the ends of the box.
        dtype: what it runs in.

    >>> import numpy as np
    >>> net = softmax_tail(lambda x: np.abs(x[..., 0]), Box(-1, 1, shape=(1,)), grid=8, lipschitz=1)
    >>> round(net.certificate.bound, 2), float(net(0.6).round(3))
    (0.13, 0.625)
    """
    target = _continuous(f, domain, lipschitz, dtype)
    count = _count("grid", grid)
    check_grid(count, placement)
    plan = BumpPlan(count, 1.0, placement=placement, dtype=dtype)
    afford(SoftmaxTail().cost(target, plan), SoftmaxTail.name)
    beta = grid_sharpness(sharpness, count, target, placement, dtype)
    return _finish(SoftmaxTail(), target, replace(plan, sharpness=beta), dtype)


def _continuous(f: Callable[[Any], Any], domain: Box, lipschitz: Any, dtype: str) -> Function:
    """The callable on its box, after a look at the dtype."""
    machine(dtype)
    return Function(f, domain, lipschitz=as_lipschitz(lipschitz))


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
        count = operator.index(value)
    except TypeError:
        raise RefusalError(f"`{name}` must be a whole number", repr(value), "Round it") from None
    if count > 2**53:
        raise RefusalError(f"`{name}` must be countable in float64", f"about 10^{len(str(count)) - 1}", "Ask for fewer")
    return count


def _layout(layout: str) -> Layout:
    if layout not in ("memory", "literal"):
        raise RefusalError("`layout` must be 'memory' or 'literal'", repr(layout), "Use 'memory' unless you compare")
    return "memory" if layout == "memory" else "literal"

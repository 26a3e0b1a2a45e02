"""Continuous and integrable functions by cells: of one input, and of two that meet in cross-attention."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from attnforge.anchors import Adaptive, Sharpness, hard
from attnforge.compiler.budget import Asked, budget
from attnforge.compiler.compiled import Compiled
from attnforge.compiler.cost import afford
from attnforge.compiler.mean_error import certified_in_mean
from attnforge.constructions.finishing import as_layout, count_of, finish, target_of
from attnforge.errors import RefusalError
from attnforge.outward import DType, dtype_name
from attnforge.targets import Box, JointFunction, as_box, as_lipschitz
from attnforge.targets.joint import takes_one_input
from attnforge.theorems.cell_averages import AveragesPlan, CellAverages, cell_averages
from attnforge.theorems.cross_attention import CrossAttention
from attnforge.theorems.free_cells import FreeCells, FreeCellsPlan, check_centres
from attnforge.theorems.max_affine import CellsPlan, MaxAffine, cells_sharpness
from attnforge.theorems.truncated_linear import Layout


def max_affine(
    f: Any,
    domain: Any,
    *,
    cells: int | Sequence[int] | npt.ArrayLike | Adaptive,
    norm: str | float = "sup",
    sharpness: Sharpness | None = None,
    lipschitz: Any = None,
    layout: Layout = "memory",
    dtype: DType = "float64",
    **asked: Unpack[Asked],
) -> Compiled:
    r"""One layer, one head: attention partitions the domain and gives every cell a value, after Liu et al. 2025.

    For f with Lipschitz constant L (sup norm) on a grid of cells with steps h_j the error is at most
    $L(\max_j h_j/2 + \sum_j h_j X(c))$, X = 0 in the hard limit. Proof: :mod:`attnforge.theorems.max_affine`. Centres
    and adaptive cells are hard, and their error is bounded by branch and bound: :mod:`attnforge.theorems.free_cells`.

    Args:
        f: takes (..., d) arrays and returns (...) or (..., k); on a box of n tokens, (..., n, d) to (..., n, k). Or a
            formula as text.
        domain: a box of shape (d,) or (n, d), or named intervals.
        cells: cells along every axis, or one number an axis; an (N, D) array of centres (Voronoi cells); or
            ``af.anchors.Adaptive(count)``.
        norm: ``"sup"``; or a number p >= 1: cell averages for Lebesgue-integrable f, discontinuous or unbounded. Then
            the certificate's ``estimate`` is the L_p error by quadrature, :mod:`attnforge.theorems.cell_averages`.
        sharpness: on grids ``"hard"``; ``"tuned"`` (the default), of order 2 for smooth f; or the number beta of
            scores beta (2 v . x - |v|^2). Centres, adaptive cells and averages are ``"hard"``.
        lipschitz: a number (sup norm) or ``af.Lipschitz``; without it the certificate is ``sampled``.
        layout: of grids, ``"memory"`` (lean) or ``"literal"`` (self-attention over a padded sequence).
        dtype: what it runs in: a name, or a torch dtype.
        asked: effort, timeout, workers, cluster, require, max_bytes and progress, as ``af.compile`` takes them.

    >>> import numpy as np
    >>> net = max_affine(lambda x: np.sin(3 * x[..., 0]), Box(0, 1, shape=(1,)), cells=32, lipschitz=3)
    >>> net.certificate.status, net.certificate.estimate.error < 0.003
    ('conditional', True)
    >>> from attnforge.anchors import Adaptive
    >>> max_affine("x^8", {"x": (0, 1)}, cells=Adaptive(10)).certificate.bound < 0.055
    True
    """
    dtype = dtype_name(dtype)
    if norm != "sup":
        return _in_mean(f, domain, cells, norm, sharpness, dtype, asked)
    target = target_of(f, domain, lipschitz)
    if _are_free(cells):
        _only_hard(sharpness, "free cells")
        places = cells if isinstance(cells, Adaptive) else check_centres(cells, target.domain)
        return finish(FreeCells(), target, FreeCellsPlan(places, dtype), dtype, asked)
    counts = _cell_counts(cells, int(np.prod(target.domain.shape)))
    c, ghosts = cells_sharpness("tuned" if sharpness is None else sharpness, counts, target.domain, dtype)
    return finish(MaxAffine(), target, CellsPlan(counts, c, ghosts, dtype, as_layout(layout)), dtype, asked)


def cross_attention(
    f: Callable[..., Any],
    keys_domain: Any,
    query_domain: Any,
    *,
    grid: int | Sequence[int],
    norm: str | float = "sup",
    sharpness: Sharpness | None = None,
    lipschitz: Any = None,
    dtype: DType = "float64",
    **asked: Unpack[Asked],
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
        dtype: what it runs in: a name, or a torch dtype.
        asked: effort, timeout, workers, cluster, require, max_bytes and progress, as ``af.compile`` takes them.

    Returns:
        A Compiled called as ``net(X, Y)``; leading axes broadcast, and one X for many Y is cheapest.

    >>> import numpy as np
    >>> box = Box(0, 1, shape=(1,))
    >>> net = cross_attention(lambda x, y: np.sin(4 * x[..., 0]) * y[..., 0], box, box, grid=16, lipschitz=5)
    >>> net.certificate.status, net.certificate.estimate.error < 0.02, net(0.5, [0.1, 0.2, 0.3]).shape
    ('conditional', True, (3,))
    """
    dtype = dtype_name(dtype)
    query = as_box(query_domain)[0]
    if keys_domain is None or takes_one_input(f):
        counts = _grid_counts(grid, query.lower.size)
        options: dict[str, Any] = {"norm": norm, "sharpness": sharpness, "lipschitz": lipschitz, "dtype": dtype}
        return max_affine(f, query, cells=counts, **options, **asked)
    target = JointFunction(f, as_box(keys_domain)[0], query, lipschitz=as_lipschitz(lipschitz))
    counts = _grid_counts(grid, target.domain.lower.size)
    if norm != "sup":
        return _pairs_in_mean(target, counts, _exponent(norm), sharpness, dtype, asked)
    c, ghosts = cells_sharpness("tuned" if sharpness is None else sharpness, counts, target.domain, dtype)
    return finish(CrossAttention(), target, CellsPlan(counts, c, ghosts, dtype), dtype, asked)


def _pairs_in_mean(
    target: JointFunction,
    counts: tuple[int, ...],
    exponent: float,
    sharpness: Sharpness | None,
    dtype: str,
    asked: Asked,
) -> Compiled:
    """Averages over cells of the joint box, and their L_p error."""
    _only_hard(sharpness, "cell averages")
    construction, plan = CrossAttention(), CellsPlan(counts, hard(dtype), dtype=dtype)
    afford(construction.cost(target, plan), construction.name, max_bytes=asked.get("max_bytes"))
    with budget(**asked) as given:
        network = construction.network(target, plan, cell_averages(target, counts, exponent))
        compiled = certified_in_mean(network, target, construction.name, counts, exponent, dtype)
    given.accepted(compiled.certificate, construction.name)
    return compiled


def _grid_counts(grid: Any, axes: int) -> tuple[int, ...]:
    counts = tuple(grid) if isinstance(grid, Sequence | np.ndarray) else (grid,) * axes
    if len(counts) != axes or any(count_of("grid", count) < 1 for count in counts):
        requirement = f"`grid` must be a number of cells, at least 1, or {axes} of them, one an axis"
        raise RefusalError(requirement, repr(grid)[:200], "Ask for more cells")
    return tuple(count_of("grid", count) for count in counts)


def _are_free(cells: Any) -> bool:
    """Whether cells are adaptive or centres, rather than numbers of cells an axis."""
    try:
        return isinstance(cells, Adaptive) or np.ndim(cells) > 1
    except ValueError:
        got = repr(cells)[:200]
        raise RefusalError("Centres are an array of shape (N, D)", got, "Give every centre as many numbers") from None


def _in_mean(
    f: Any, domain: Box, cells: Any, norm: Any, sharpness: Sharpness | None, dtype: str, asked: Asked
) -> Compiled:
    """Cell averages, and their L_p error."""
    exponent = _exponent(norm)
    _only_hard(sharpness, "cell averages")
    if _are_free(cells):
        raise RefusalError("L_p needs a grid of cells", type(cells).__name__, "Give a number of cells an axis")
    target = target_of(f, domain)
    counts = _cell_counts(cells, int(np.prod(target.domain.shape)))
    plan, construction = AveragesPlan(counts, exponent, dtype), CellAverages()
    afford(construction.cost(target, plan), construction.name, max_bytes=asked.get("max_bytes"))
    with budget(**asked) as given:
        network = construction.build(target, plan)
        compiled = certified_in_mean(network, target, construction.name, counts, exponent, dtype)
    given.accepted(compiled.certificate, construction.name)
    return compiled


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
    if len(counts) != axes or any(count_of("cells", count) < 1 for count in counts):
        got = repr(cells)
        raise RefusalError(f"`cells` must be a number, or {axes} of them, at least 1", got, "Ask for more cells")
    return tuple(count_of("cells", count) for count in counts)

"""Fitted constructions by name: each function sizes one of them for a tolerance and returns it measured."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, TypeVar, Unpack

import numpy as np
import numpy.typing as npt

from attnforge.anchors.axis_search import MOST
from attnforge.anchors.grid_fit import MOST_ANCHORS
from attnforge.compiler.attempt import attempt
from attnforge.compiler.budget import Asked, budget, positive
from attnforge.compiler.certifying import certified
from attnforge.compiler.compiled import Compiled
from attnforge.compiler.cost import afford
from attnforge.constructions.finishing import positions_of, target_of
from attnforge.errors import RefusalError, is_number
from attnforge.outward import DType, dtype_name
from attnforge.targets import Target, as_box
from attnforge.targets.structure import given_sum
from attnforge.theorems.construction import Construction
from attnforge.theorems.graph.construction import GraphConstruction
from attnforge.theorems.polynomial import PolynomialHead
from attnforge.theorems.sparse_grid import SparseGrid
from attnforge.theorems.structured import Additive, Ridge
from attnforge.theorems.tensor_grid import TensorGrid
from attnforge.theorems.tensor_heads import FittedPlan

Array = npt.NDArray[np.float64]
P = TypeVar("P")


def tensor_grid(
    f: Any,
    domain: Any,
    *,
    tol: float | None = None,
    anchors: npt.ArrayLike | None = None,
    sharpness: float | None = None,
    dtype: DType = "float64",
    **asked: Unpack[Asked],
) -> Compiled:
    r"""One head over a product grid of anchors with fitted values: spectral accuracy for smooth f of few inputs.

    Anchors along an axis are uniform, or graded towards the kinks that were found there. Their number, sharpness
    c = beta h^2 and ghosts come from the tolerance; how: :mod:`attnforge.anchors.grid_fit`.

    For a formula of up to four inputs the certificate is ``proved`` where the enclosure comes to an end
    (:mod:`attnforge.certification.enclosure`), else ``sampled``.

    Args:
        f: takes (..., d) arrays and returns (...) or (..., k), d up to 8; or a formula as text.
        domain: a box of shape (d,), intervals, or named intervals.
        tol: the largest error asked for; or
        anchors: how many lie on the domain along every axis, or one number an axis; ghosts come on top. Or their
            positions: a list of increasing numbers an axis, for one input that list alone; those beyond the domain are
            ghosts, and no others are added.
        sharpness: with ``anchors``, the number beta of scores beta (2 x L - L^2): uniform anchors, whatever becomes of
            the error, c = beta h^2. Without it the sharpness is searched for; at given positions it follows the gaps.
        dtype: what it runs in: a name, or a torch dtype.
        asked: effort, timeout, workers, cluster, require, max_bytes and progress, as ``af.compile`` takes them.

    >>> net = tensor_grid("sin(8*x)", {"x": (-1, 1)}, tol=1e-13)
    >>> net.anchors <= 48, net.certificate.estimate.error <= 1e-13
    (True, True)
    >>> net = tensor_grid("exp(x*y)", {"x": (0, 1), "y": (0, 1)}, anchors=6)
    >>> net.certificate.estimate.error < 1e-6, net.reason.split(" (")[0]
    (True, '22 x 22 anchors with fitted values, 6 x 6 on the domain, the others ghosts')
    >>> tensor_grid("abs(x)", {"x": (-1, 1)}, anchors=[-1, -0.3, -0.1, 0, 0.1, 0.3, 1]).anchors
    7
    """
    if (tol is None) == (anchors is None):
        got = f"tol={tol}, anchors={anchors!r}"
        raise RefusalError("`tensor_grid` needs either tol= or anchors=", got, "Give one of them")
    if sharpness is not None and (anchors is None or not (is_number(sharpness) and 0 < sharpness < math.inf)):
        remedy = "Give anchors= and a positive number, or leave it out"
        raise RefusalError("`sharpness` is a positive number beside anchors=", f"{sharpness!r}", remedy)
    if tol is not None:
        return _reaching(TensorGrid(), f, domain, tol, dtype, asked)
    construction, runs_in = TensorGrid(), dtype_name(dtype)
    target = target_of(f, domain)
    _accepted(construction, target)
    with budget(**asked) as given:
        plan = _planned(construction, target, anchors, sharpness, runs_in)
        afford(construction.cost(target, plan), construction.name, max_bytes=given.max_bytes)
        network = construction.build(target, plan)
        compiled = certified(network, target, construction.name, runs_in, given, plan.reason)
    given.accepted(compiled.certificate, construction.name)
    return compiled


def ridge(f: Any, domain: Any, *, tol: float, dtype: DType = "float64", **asked: Unpack[Asked]) -> Compiled:
    """One head along one linear form: functions g(w . x + t) of any number of inputs.

    The form is read from an expression, or found in a callable from the directions of its gradients and checked at
    fresh points: :mod:`attnforge.targets.structure`. The head costs what g costs on the range of w . x + t. The
    certificate of a formula is ``proved``, that of a callable ``sampled``.

    Args:
        f: takes (..., d) arrays and returns (...) or (..., k); or a formula as text.
        domain: a box of shape (d,), intervals, or named intervals.
        tol: the largest error asked for.
        dtype: what it runs in: a name, or a torch dtype.
        asked: effort, timeout, workers, cluster, require, max_bytes and progress, as ``af.compile`` takes them.

    >>> import numpy as np
    >>> from attnforge import Box
    >>> net = ridge(lambda x: np.cos(x.sum(axis=-1)), Box(0, 1, shape=(8,)), tol=1e-7)
    >>> net.anchors <= 40, net.certificate.estimate.error <= 1e-7
    (True, True)
    """
    return _reaching(Ridge(), f, domain, tol, dtype, asked)


def additive(f: Any, domain: Any, *, tol: float, dtype: DType = "float64", **asked: Unpack[Asked]) -> Compiled:
    """One head a term: sums of terms of few inputs, in any number of inputs.

    Terms are read from an expression, found in a callable by mixed differences (anchored ANOVA), or given as a list of
    pairs (inputs, callable). For a formula the certificate is ``proved``, term by term, where every enclosure comes to
    an end; for callables it is ``sampled``.

    Args:
        f: takes (..., d) arrays and returns (...) or (..., k); a formula as text; or pairs such as
            ``[([0], f0), ([1, 2], f12)]``, where f12 takes (..., 2) arrays of inputs 1 and 2.
        domain: a box of shape (d,), intervals, or named intervals.
        tol: the largest error asked for.
        dtype: what it runs in: a name, or a torch dtype.
        asked: effort, timeout, workers, cluster, require, max_bytes and progress, as ``af.compile`` takes them.

    >>> import numpy as np
    >>> from attnforge import Box
    >>> terms = [([0], lambda x: np.sin(5 * x[..., 0])), ([1, 2], lambda x: x[..., 0] * np.exp(x[..., 1]))]
    >>> net = additive(terms, Box(-1, 1, shape=(3,)), tol=1e-8)
    >>> net.heads, net.certificate.estimate.error <= 1e-8
    (2, True)
    """
    if not isinstance(f, list | tuple):
        return _reaching(Additive(), f, domain, tol, dtype, asked)
    target, structure = given_sum(f, as_box(domain)[0])
    return _sized(Additive(structure), target, tol, dtype, asked)


def sparse_grid(f: Any, domain: Any, *, tol: float, dtype: DType = "float64", **asked: Unpack[Asked]) -> Compiled:
    """Heads over anisotropic grids that add up to a sparse grid: 5 to 12 inputs, bounded mixed derivatives.

    The combination technique, adaptive in the dimensions: :mod:`attnforge.anchors.combination`. The certificate is
    ``sampled``.

    Args:
        f: takes (..., d) arrays and returns (...) or (..., k), d from 5 to 12; or a formula as text.
        domain: a box of shape (d,), intervals, or named intervals.
        tol: the largest error asked for.
        dtype: what it runs in: a name, or a torch dtype.
        asked: effort, timeout, workers, cluster, require, max_bytes and progress, as ``af.compile`` takes them.

    >>> import numpy as np
    >>> from attnforge import Box
    >>> net = sparse_grid(lambda x: np.exp(-x.sum(axis=-1) / 3), Box(0, 1, shape=(6,)), tol=1e-3)
    >>> net.anchors < 5000, net.certificate.estimate.error <= 1e-3
    (True, True)
    """
    return _reaching(SparseGrid(), f, domain, tol, dtype, asked)


def polynomial(f: Any, domain: Any, *, tol: float, dtype: DType = "float64", **asked: Unpack[Asked]) -> Compiled:
    """One head with values in closed form: polynomials of up to four inputs, exact up to saturation.

    Values are those of the inverse heat polynomial: :mod:`attnforge.theorems.polynomial`. The certificate is
    ``proved`` where the enclosure comes to an end, else ``sampled``.

    Args:
        f: a formula as text, of degree at most 12 in every input.
        domain: named intervals, or a box.
        tol: the largest error asked for.
        dtype: what it runs in: a name, or a torch dtype.
        asked: effort, timeout, workers, cluster, require, max_bytes and progress, as ``af.compile`` takes them.

    >>> net = polynomial("x^3 - x", {"x": (-2, 2)}, tol=1e-13)
    >>> net.anchors <= 32, net.certificate.estimate.error <= 1e-13
    (True, True)
    """
    return _reaching(PolynomialHead(), f, domain, tol, dtype, asked)


def graph(f: Any, domain: Any, tol: float, *, dtype: DType = "float64", **asked: Unpack[Asked]) -> Compiled:
    """One small head a node of a formula, of any number of inputs: keys grow with its nodes, not with its inputs.

    How it is taken apart: :mod:`attnforge.theorems.graph`. The certificate is composed of those of the heads.

    Args:
        f: one or several formulas as text, traced, or a network of torch, scikit-learn or ONNX.
        domain: named intervals, or a box.
        tol: the largest error asked for.
        dtype: what it runs in: a name, or a torch dtype.
        asked: effort, timeout, workers, cluster, require, max_bytes and progress, as ``af.compile`` takes them.

    >>> net = graph("x*y/sqrt(1 + z^2)", {"x": (-1, 1), "y": (-1, 1), "z": (0, 2)}, tol=1e-6)
    >>> net.heads, net.anchors < 60, net.certificate.status
    (3, True, 'proved')
    """
    return _reaching(GraphConstruction(), f, domain, tol, dtype, asked)


def _reaching(construction: Construction[P], f: Any, domain: Any, tol: float, dtype: DType, asked: Asked) -> Compiled:
    """Size, build and measure, until tol is reached."""
    dtype_name(dtype)
    target = target_of(f, domain)
    _accepted(construction, target)
    return _sized(construction, target, tol, dtype, asked)


def _sized(construction: Construction[P], target: Target, tol: float, dtype: DType, asked: Asked) -> Compiled:
    runs_in, wanted = dtype_name(dtype), positive(tol)
    with budget(**asked) as given:
        given.watch.say(f"sizing {construction.name}")
        plan = construction.size(target, wanted, runs_in)
        return attempt(construction, plan, target, wanted, runs_in, budget=given)


def _accepted(construction: Construction[Any], target: Target) -> None:
    reason = construction.accepts(target)
    if reason is not None:
        raise RefusalError(f"`{construction.name}` takes {construction.function_class}", reason, "Use af.compile")


def _planned(construction: TensorGrid, target: Target, anchors: Any, beta: float | None, dtype: str) -> FittedPlan:
    """Anchors counted along the axes, or where they are wanted."""
    axes = target.domain.lower.size
    given = _positions(anchors, axes)
    if given is not None:
        return construction.at_positions(target, given, beta, dtype)
    counts = _counts(anchors, axes)
    if beta is None:
        return construction.with_counts(target, counts, dtype)
    return construction.with_sharpness(target, counts, beta, dtype)


def _positions(anchors: Any, axes: int) -> list[Array] | None:
    """Positions along every axis, where a list of them is given for each, or for the only one; None for counts."""
    if isinstance(anchors, str) or not isinstance(anchors, Sequence | np.ndarray) or not len(anchors):
        return None
    nested = all(isinstance(each, Sequence | np.ndarray) and not isinstance(each, str) for each in anchors)
    if not nested and not (axes == 1 and len(anchors) > 1):
        return None
    lists = anchors if nested else [anchors]
    if len(lists) != axes or max(map(len, lists)) > MOST:
        requirement = f"`anchors` as positions are a list an axis, {axes} here, of at most {MOST:,} numbers each"
        raise RefusalError(requirement, f"lists of {', '.join(str(len(each)) for each in lists)}", "Give one an axis")
    return [positions_of("anchors", each) for each in lists]


def _counts(anchors: Any, axes: int) -> list[int]:
    try:
        counts = [operator.index(n) for n in ([anchors] * axes if np.ndim(anchors) == 0 else anchors)]
    except (TypeError, ValueError):  # ValueError: a ragged list
        counts = []
    if len(counts) != axes or min(counts) < 2:
        each = "" if axes == 1 else f", or {axes} of them, one an axis"
        requirement = f"`anchors` counts those on the domain, without ghosts: a whole number, at least 2{each}"
        raise RefusalError(requirement, repr(anchors)[:200], "Ask for more, or list their positions along every axis")
    if max(counts) > MOST or math.prod(counts) > MOST_ANCHORS:
        requirement = (
            f"`anchors` must be at most {MOST:,} along an axis and {MOST_ANCHORS:,} in all, ghosts not counted"
        )
        raise RefusalError(requirement, repr(anchors)[:200], "Ask for fewer anchors")
    return counts

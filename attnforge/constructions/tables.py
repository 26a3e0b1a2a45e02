"""Tables of noisy points by name: one head with values by ridge regression."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from attnforge.anchors.scattered import MOST
from attnforge.arrays import float64
from attnforge.compiler.budget import Asked, budget
from attnforge.compiler.certifying import certified
from attnforge.compiler.compiled import Compiled
from attnforge.compiler.cost import afford
from attnforge.constructions.finishing import count_of
from attnforge.errors import DomainError, RefusalError, TargetError
from attnforge.outward import DType, dtype_name
from attnforge.targets.table import Table, checked_table, column_names, merged
from attnforge.theorems.table import TableHead

Array = npt.NDArray[np.float64]


def table(
    points: Any,
    values: Any,
    *,
    anchors: int | None = None,
    alpha: float | None = None,
    sharpness: float | None = None,
    sample_weight: npt.ArrayLike | None = None,
    names: Sequence[str] | None = None,
    dtype: DType = "float64",
    **asked: Unpack[Asked],
) -> Compiled:
    r"""One head through noisy points: anchors among them, values by ridge regression.

    The values solve the linear least squares problem
    $$ \min_v \sum_i \omega_i |(Wv)_i - y_i|^2 + \alpha|v - \bar v|^2 $$
    in closed form, W being the head's softmax weights at the points: fitted, not trained by gradient descent. What is
    not given is chosen by leaving points out, one at a time: :mod:`attnforge.anchors.smoothing`. Points that shall be
    *met*, within a tolerance, are for ``af.compile((points, values), tol=...)``.

    The target is the table of the distinct points and of the mean values there, and the certificate is about these
    points: its estimate is the largest residual.

    Args:
        points: (N, d), or (N,) for one input; a point may be listed several times, with different values.
        values: (N,), or (N, k) for k outputs.
        anchors: how many, at most one a distinct point and 4,000; None chooses up to 512.
        alpha: the ridge, in units of a point of weight one; None chooses.
        sharpness: c = beta h^2, h being the median distance of neighbouring anchors where the points' box is scaled
            to [-1, 1]^d; None chooses.
        sample_weight: (N,), of the points, not negative; all one where None.
        names: of the inputs; those of the columns, where ``points`` is a data frame.
        dtype: what it runs in: a name, or a torch dtype.
        asked: effort, timeout, workers, cluster, require, max_bytes and progress, as ``af.compile`` takes them.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-1, 1, 200)
    >>> net = table(x, np.sin(3 * x) + 0.1 * rng.normal(size=200))
    >>> net.anchors < 30, abs(float(net(0.5) - np.sin(1.5))) < 0.05
    (True, True)
    """
    runs_in, count = dtype_name(dtype), None if anchors is None else count_of("anchors", anchors)
    if count is not None and not 2 <= count <= MOST:
        raise RefusalError(f"`anchors` must be between 2 and {MOST:,}", str(count), "Leave it out to have it chosen")
    for name, number, least in (("alpha", alpha, "not negative"), ("sharpness", sharpness, "positive")):
        _check_number(name, number, least)
    where, what = checked_table(points, values)
    found, means, weights = merged(where, what.reshape(len(what), -1), _weights(sample_weight, len(where)))
    target = Table(found, means[:, 0] if what.ndim == 1 else means, column_names(points) if names is None else names)
    construction = TableHead()
    with budget(**asked) as given:
        given.watch.say("fitting values")
        chosen: dict[str, Any] = {"anchors": count, "alpha": alpha, "sharpness": sharpness}
        plan = construction.smoothed(target, weights, **chosen, dtype=runs_in)
        afford(construction.cost(target, plan), construction.name, max_bytes=given.max_bytes)
        network = construction.build(target, plan)
        compiled = certified(network, target, construction.name, runs_in, given, plan.reason)
    given.accepted(compiled.certificate, construction.name)
    return compiled


def _check_number(name: str, number: Any, least: str) -> None:
    if number is None:
        return
    fits = isinstance(number, int | float | np.number) and np.isfinite(number)
    if not fits or number < 0 or (number == 0 and least == "positive"):
        raise RefusalError(f"`{name}` must be a number, {least}", repr(number)[:80], "Leave it out to have it chosen")


def _weights(sample_weight: npt.ArrayLike | None, count: int) -> Array:
    """One weight a point, at least two of them positive."""
    if sample_weight is None:
        return np.ones(count)
    try:
        weights = float64(sample_weight)
    except DomainError:
        weights = np.empty(())
    if weights.shape != (count,) or not (np.isfinite(weights) & (weights >= 0)).all() or (weights > 0).sum() < 2:
        requirement = f"`sample_weight` holds {count} numbers, not negative, at least two of them positive"
        raise TargetError(requirement, f"shape {weights.shape}", "Give one weight a point")
    return weights

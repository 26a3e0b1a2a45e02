"""One softmax head fitted to a table, as a scikit-learn estimator."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from attnforge.certification import Certificate
from attnforge.compiler import Compiled
from attnforge.compiler import compile as compile_table
from attnforge.constructions import table
from attnforge.errors import RefusalError, TargetError
from attnforge.expression.tree import name_problem
from attnforge.targets.table import merged

Array = npt.NDArray[np.float64]


class AttentionRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    r"""Regression by one softmax attention head: anchors among the points, values by linear least squares.

    Nothing is trained by gradient descent. Anchors are the farthest points of the data, and with W their softmax
    weights at the points the values solve
    $$ \min_v \sum_i \omega_i |(Wv)_i - y_i|^2 + \alpha|v - \bar v|^2 $$
    in closed form; what is left None is chosen by leaving points out, one at a time
    (:func:`attnforge.constructions.table`). With ``tol`` the points are to be met instead, by the fewest anchors found
    (``af.compile((X, y), tol)``): right for tables without noise, wrong for others.

    Rows with equal X are one point, of their weighted mean and of the sum of their weights; rows of weight zero are
    left out. Columns that do not vary are left out, too. Points outside the box of the fit are moved to its nearest
    side: beyond the data the prediction stays what it is there. Features are scaled to a box by the fit itself, and
    count alike: scale or drop those that matter less.

    Args:
        anchors: how many, at most one a distinct point; None chooses. With ``tol``, more are refused.
        alpha: the ridge, not negative: the larger, the smoother. None chooses.
        sharpness: c = beta h^2, h being the median distance of neighbouring anchors: the larger, the more local. None
            chooses.
        tol: the largest error asked for at the points, in the units of y; ToleranceError where it cannot be had.
        dtype: what the network runs in: a name, or a torch dtype.

    Attributes:
        net_: the ``Compiled`` network, of the inputs ``columns_``; it takes points inside of ``net_.domain`` only.
        certificate_: what is known of the network: its largest error at the points, sampled. A table says nothing
            between its points.
        columns_: indices of the features that vary, which the network takes.
        n_features_in_, feature_names_in_: as scikit-learn has them.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (200, 2))
    >>> model = AttentionRegressor().fit(X, np.sin(3 * X[:, 0]) * X[:, 1])
    >>> model.score(X, np.sin(3 * X[:, 0]) * X[:, 1]) > 0.999, model.net_.heads
    (True, 1)
    """

    net_: Compiled
    columns_: npt.NDArray[np.intp]

    def __init__(
        self,
        *,
        anchors: int | None = None,
        alpha: float | None = None,
        sharpness: float | None = None,
        tol: float | None = None,
        dtype: Any = "float64",
    ) -> None:
        self.anchors = anchors
        self.alpha = alpha
        self.sharpness = sharpness
        self.tol = tol
        self.dtype = dtype

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit a head to X (n, d) and y (n,) or (n, k); ``sample_weight`` (n,) are not negative."""
        X, y = validate_data(self, X, y, dtype=np.float64, multi_output=True, y_numeric=True, ensure_min_samples=2)
        y = np.asarray(y, dtype=np.float64)
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        points, means, weights = merged(X, y.reshape(len(y), -1), weights)
        self.columns_ = np.flatnonzero((points != points[:1]).any(axis=0)) if len(points) else np.empty(0, dtype=int)
        if not len(self.columns_):
            got = f"{len(points)} of positive weight"
            raise TargetError("A fit needs points that differ, at least two", got, "Give more rows")
        self.net_ = self._compiled(points[:, self.columns_], means[:, 0] if y.ndim == 1 else means, weights)
        return self

    def predict(self, X: Any) -> Array:
        """The network's values (n,), or (n, k), at X (n, d); points outside the box of the fit are moved to it."""
        check_is_fitted(self)
        points = validate_data(self, X, dtype=np.float64, reset=False)[:, self.columns_]
        box = self.net_.domain
        return np.asarray(self.net_(np.clip(points, box.lower, box.upper)), dtype=np.float64)

    @property
    def certificate_(self) -> Certificate:
        """What is known of the network at the points."""
        check_is_fitted(self)
        return self.net_.certificate

    def __sklearn_tags__(self) -> Any:
        """Several outputs are fitted together."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _compiled(self, points: Array, values: Array, weights: Array) -> Compiled:
        if self.tol is None:
            chosen: dict[str, Any] = {"anchors": self.anchors, "alpha": self.alpha, "sharpness": self.sharpness}
            return table(points, values, **chosen, sample_weight=weights, names=self._names(), dtype=self.dtype)
        given = [name for name in ("alpha", "sharpness") if getattr(self, name) is not None]
        if given:
            got, remedy = f"tol={self.tol!r} and {given[0]}={getattr(self, given[0])!r}", "Leave one of them out"
            raise RefusalError("With `tol` points are met, and nothing is smoothed", got, remedy)
        names = self._names()
        box = None
        if names is not None:
            box = dict(zip(names, zip(points.min(axis=0), points.max(axis=0), strict=True), strict=True))
        return compile_table((points, values), box, self.tol, max_anchors=self.anchors, dtype=self.dtype)

    def _names(self) -> list[str] | None:
        """Names of the features for the network, where all of them can be written in a formula."""
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            return None
        chosen = [str(name) for name in np.asarray(names)[self.columns_]]
        return None if any(name_problem(name) for name in chosen) else chosen

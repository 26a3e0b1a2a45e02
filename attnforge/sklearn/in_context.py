"""In-context algorithms as scikit-learn estimators: ``fit`` keeps a prompt, ``predict`` runs attention on it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields, is_dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from attnforge.certification import Certificate
from attnforge.compiler.in_context import InContextNetwork
from attnforge.compiler.kernel import KernelNetwork
from attnforge.compiler.kernel_ridge import KernelRidgeNetwork
from attnforge.errors import RefusalError, TargetError
from attnforge.in_context.kernel_regression import KernelRegression
from attnforge.in_context.kernel_ridge import KernelRidge
from attnforge.in_context.regression import (
    ElasticNet,
    Huber,
    Lasso,
    LeastSquares,
    Logistic,
    Poisson,
    Regression,
    Ridge,
    SoftmaxRegression,
)

Array = npt.NDArray[np.float64]
Algorithm = Regression | KernelRidge | KernelRegression
PromptNetwork = InContextNetwork | KernelNetwork | KernelRidgeNetwork

NUMBERS = (LeastSquares, Ridge, Lasso, ElasticNet, Huber, Poisson, KernelRidge, KernelRegression)
SQUARES = (LeastSquares, Ridge, Lasso, ElasticNet)  # of which examples may have weights
SEVERAL = (LeastSquares, Ridge, KernelRegression)  # which take several outputs
CLASSES = (Logistic, SoftmaxRegression)
NESTED = "algorithm__"


class InContextEstimator(BaseEstimator, ABC):  # type: ignore[misc]
    """What both share: an algorithm as data, whose fields are parameters, and the prompt."""

    net_: PromptNetwork
    algorithm_: Algorithm
    X_fit_: Array
    y_fit_: Array
    sample_weight_: Array | None

    def __init__(self, algorithm: Any = None) -> None:
        self.algorithm = algorithm

    @property
    @abstractmethod
    def _default(self) -> Regression:
        """The algorithm that None stands for."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The algorithm; with ``deep`` also its fields, as ``algorithm__alpha``."""
        nested = {f"{NESTED}{each.name}": getattr(self._asked, each.name) for each in self._fields} if deep else {}
        return {"algorithm": self.algorithm, **nested}

    def set_params(self, **params: Any) -> Self:
        """Set the algorithm, or fields of it: ``set_params(algorithm__alpha=0.1)``."""
        nested = {name.removeprefix(NESTED): value for name, value in params.items() if name.startswith(NESTED)}
        super().set_params(**{name: value for name, value in params.items() if not name.startswith(NESTED)})
        known = [each.name for each in self._fields]
        unknown = [name for name in nested if name not in known]
        if unknown:
            wanted = f"The fields of {type(self._asked).__name__} are {', '.join(known)}"
            raise TargetError(wanted, unknown[0], "Use one of these")
        if nested:
            self.algorithm = replace(self._asked, **nested)
        return self

    @cached_property
    def certificate_(self) -> Certificate:
        """A bound of how far the network is from the exact iteration on this prompt; proved when it is first read.

        Of kernel regression, from the exact averages at the examples themselves.
        """
        check_is_fitted(self)
        given = (self.X_fit_, self.y_fit_)
        if isinstance(self.net_, KernelNetwork):
            return self.net_.certify(*given, self.X_fit_)
        if isinstance(self.net_, KernelRidgeNetwork):
            return self.net_.certify(*given)
        return self.net_.certify(*given, self.sample_weight_)

    @property
    def _asked(self) -> Any:
        return self._default if self.algorithm is None else self.algorithm

    @property
    def _fields(self) -> tuple[Any, ...]:
        return fields(self._asked) if is_dataclass(self._asked) else ()

    def _keep(self, algorithm: Algorithm, X: Array, y: Array, weights: Array | None) -> Self:
        """The prompt, and the network for as many examples and features."""
        self.__dict__.pop("certificate_", None)
        self.X_fit_, self.y_fit_, self.sample_weight_ = X, y, weights
        if isinstance(algorithm, Regression):
            algorithm = algorithm.for_examples(X, weights)
            self.net_ = algorithm.build(X.shape[1], data_bound=_largest(algorithm, X, y), certify=False)
        elif isinstance(algorithm, KernelRegression):
            self.net_ = algorithm.build(X.shape[1], outputs=1 if y.ndim == 1 else y.shape[1])
        else:
            self.net_ = algorithm.build(X.shape[1], examples=len(X))
        self.algorithm_ = algorithm
        return self

    def _predicted(self, X: Any) -> Array:
        """What the network makes of the prompt and the queries."""
        check_is_fitted(self)
        queries = validate_data(self, X, dtype=np.float64, reset=False)
        given = (self.X_fit_, self.y_fit_, queries)
        if isinstance(self.net_, InContextNetwork):
            return np.asarray(self.net_.predict(*given, self.sample_weight_))
        return np.asarray(self.net_.predict(*given))


class InContextRegressor(RegressorMixin, InContextEstimator):  # type: ignore[misc]
    """Regression by frozen attention that reads its examples from a prompt.

    ``fit`` keeps the examples and builds the network for them: its weights hold the algorithm and its step sizes, which
    where "auto" come from the eigenvalues of the examples (:meth:`Regression.for_examples`), and nothing else of the
    data. ``predict`` runs the network on the prompt and answers the queries.

    Features should be of similar size, as after ``StandardScaler``: the algorithms are gradient descent.

    Args:
        algorithm: of ``attnforge.in_context``: ``LeastSquares``, ``Ridge``, ``Lasso``, ``ElasticNet``, ``Huber``,
            ``Poisson`` (with a learning rate of its own), ``KernelRidge`` or ``KernelRegression``; None is
            ``Ridge(steps=50, alpha=1e-3, fit_intercept=True)``. Its fields are parameters, too: ``algorithm__alpha``.

    Attributes:
        net_: the network; ``algorithm_``: with the step sizes it was built for.
        certificate_: a proved bound of its distance from the exact iteration on this prompt; takes seconds, once.
        coef_, intercept_: what the network finds, of all but the kernels.
        X_fit_, y_fit_, sample_weight_: the prompt.
        n_features_in_, feature_names_in_: as scikit-learn has them.

    >>> from attnforge.in_context import Lasso
    >>> X = np.random.default_rng(0).normal(size=(60, 3))
    >>> model = InContextRegressor(Lasso(alpha=0.1, steps=100)).fit(X, X[:, 0] - 2 * X[:, 1])
    >>> model.coef_.round(1).tolist()
    [0.9, -1.8, 0.0]
    """

    @property
    def _default(self) -> Regression:
        return Ridge(steps=50, alpha=1e-3, fit_intercept=True)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Keep X (n, d) and y (n,) as the prompt; (n, k) of squares, ridge and kernel regression.

        ``sample_weight`` (n,), of squares, ridge, lasso and elastic net; refused of others. The objective is the
        weighted mean of the losses, plus penalties. Examples of weight zero are left out.
        """
        algorithm = _checked(self._asked, NUMBERS)
        X, y = validate_data(self, X, y, dtype=np.float64, multi_output=isinstance(algorithm, SEVERAL), y_numeric=True)
        y, weights = np.asarray(y, dtype=np.float64), None
        self._columns = None if y.ndim == 1 else y.shape[1]
        if sample_weight is not None:
            algorithm, kept, weights = _weighted(algorithm, _check_sample_weight(sample_weight, X, dtype=np.float64))
            X, y = X[kept], y[kept]
        y = y[:, 0] if self._columns == 1 else y
        if isinstance(algorithm, LeastSquares | Ridge):
            algorithm = replace(algorithm, outputs=1 if y.ndim == 1 else y.shape[1])
        return self._keep(algorithm, X, y, weights)

    def predict(self, X: Any) -> Array:
        """Predictions (n,), or (n, k), at X (n, d)."""
        found = self._predicted(X)
        return found if self._columns is None else found.reshape(len(found), self._columns)

    @property
    def coef_(self) -> Array:
        """Weights (d,), or (k, d), that the network finds."""
        found = self._weights()
        return found[: self.n_features_in_].T

    @property
    def intercept_(self) -> Any:
        """The intercept, or k of them; zero where none is fitted."""
        found = self._weights()
        return found[-1] if len(found) > self.n_features_in_ else np.zeros_like(found[0])[()]

    def _weights(self) -> Array:
        check_is_fitted(self)
        if not isinstance(self.net_, InContextNetwork):
            raise AttributeError(f"{type(self.algorithm_).__name__} has no weights of features")
        return np.asarray(self.net_(self.X_fit_, self.y_fit_, self.sample_weight_))

    def __sklearn_tags__(self) -> Any:
        """Several outputs, or positive ones alone, as the algorithm has it."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = isinstance(self._asked, SEVERAL)
        tags.target_tags.positive_only = isinstance(self._asked, Poisson)
        return tags


class InContextClassifier(ClassifierMixin, InContextEstimator):  # type: ignore[misc]
    """Classification by frozen attention that reads its examples from a prompt: logistic and softmax regression.

    As :class:`InContextRegressor`; of more than two classes ``Logistic`` becomes the softmax regression of as many.

    Args:
        algorithm: ``Logistic`` or ``SoftmaxRegression`` of ``attnforge.in_context``; None is
            ``Logistic(steps=100, alpha=1e-3, fit_intercept=True)``. Its fields are parameters, too.

    Attributes:
        classes_: the labels.
        net_, algorithm_, certificate_, X_fit_, y_fit_, n_features_in_, feature_names_in_: as of the regressor; y_fit_
            counts the classes from 0.

    >>> X = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    >>> InContextClassifier().fit(X, ["no", "no", "yes", "yes"]).predict([[-1.5], [0.5]]).tolist()
    ['no', 'yes']
    """

    classes_: npt.NDArray[Any]

    @property
    def _default(self) -> Regression:
        return Logistic(steps=100, alpha=1e-3, fit_intercept=True)

    def fit(self, X: Any, y: Any) -> Self:
        """Keep X (n, d) and labels y (n,) as the prompt."""
        algorithm = _checked(self._asked, CLASSES)
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        count = len(self.classes_)
        if count < 2:
            raise TargetError("Classification needs two classes", f"one class, {self.classes_[0]!r}", "Give others")
        if isinstance(algorithm, SoftmaxRegression):
            algorithm = replace(algorithm, classes=count)
        elif count > 2:
            shared = {each.name: getattr(algorithm, each.name) for each in fields(algorithm)}
            algorithm = SoftmaxRegression(**shared, classes=count)
        return self._keep(algorithm, X, labels.astype(np.float64), None)

    def predict_proba(self, X: Any) -> Array:
        """Probabilities (n, classes) at X (n, d)."""
        found = self._predicted(X)
        return found if found.ndim == 2 else np.column_stack([1 - found, found])

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The most probable classes (n,) at X (n, d)."""
        best = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])


def _checked(algorithm: Any, kinds: tuple[type, ...]) -> Any:
    if isinstance(algorithm, kinds):
        return algorithm
    names = ", ".join(kind.__name__ for kind in kinds)
    got = algorithm.__name__ if isinstance(algorithm, type) else type(algorithm).__name__
    raise TargetError(f"`algorithm` is one of attnforge.in_context: {names}", got, "Pass Ridge(alpha=0.1), say")


def _weighted(algorithm: Any, given: Array) -> tuple[Any, npt.NDArray[np.bool_], Array]:
    """The algorithm, the examples kept, and their weights, so that losses are a weighted mean.

    Tokens hold examples times the roots of their weights, and the objective divides by their number n, so weights s
    of mean one are a weighted mean. With an intercept a data bound takes weights up to one alone: all are divided by
    the largest, and the penalty is multiplied by the mean that they then have.
    """
    if not isinstance(algorithm, SQUARES):
        names = ", ".join(kind.__name__ for kind in SQUARES)
        got = type(algorithm).__name__
        raise RefusalError(f"`sample_weight` is of {names}", got, "Repeat examples, or leave it out")
    if (given < 0).any() or not (given > 0).any():
        got = f"numbers from {given.min():g} to {given.max():g}"
        raise TargetError("`sample_weight` holds numbers that are not negative, some positive", got, "Correct them")
    weights = given[given > 0] / given.max()
    if not isinstance(algorithm, LeastSquares):
        algorithm = replace(algorithm, alpha=algorithm.alpha * float(weights.mean()))
    return algorithm, given > 0, weights


def _largest(algorithm: Regression, X: Array, y: Array) -> float:
    """A bound of the numbers in the prompt, whose weights are at most one; one where all of them are zero."""
    numbers = algorithm.link in ("identity", "clamp")
    return max(float(np.abs(X).max()), float(np.abs(y).max()) if numbers else 0.0) or 1.0

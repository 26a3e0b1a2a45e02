"""Estimators for scikit-learn: constructed attention behind ``fit`` and ``predict``.

:class:`AttentionRegressor` fits one softmax head to a table; :class:`InContextRegressor` and
:class:`InContextClassifier` keep the examples as a prompt, from which frozen attention predicts.
"""

from attnforge.errors import RefusalError

try:
    import sklearn as _installed  # noqa: F401
except ImportError as error:
    _remedy = "Run pip install 'attnforge[sklearn]'"
    _refusal = RefusalError("`attnforge.sklearn` needs scikit-learn, the extra `sklearn`", "no scikit-learn", _remedy)
    raise ImportError(str(_refusal)) from error

from attnforge.sklearn.attention import AttentionRegressor
from attnforge.sklearn.in_context import InContextClassifier, InContextRegressor

__all__ = ["AttentionRegressor", "InContextClassifier", "InContextRegressor"]

"""Functions of d inputs in [0, 1], and how steep they are."""

from __future__ import annotations

import math

import numpy as np

from attnforge.experiments.table import Array

TARGETS = {
    "gaussian": "exp(-sum (x_j - 1/2)^2)",
    "decaying": "exp(-sum 4 (x_j - 1/2)^2 / j^2)",
    "additive": "sum sin(3 x_j + j)",
    "ridge": "sin(8 (x_1 - x_2 + x_3 - ...) / d)",
}


def target(name: str, x: Array) -> Array:
    """The target at points (..., d).

    >>> target("gaussian", np.full((1, 3), 0.5)).tolist()
    [1.0]
    """
    j = np.arange(1, x.shape[-1] + 1)
    match name:
        case "gaussian":
            return np.asarray(np.exp(-((x - 0.5) ** 2).sum(axis=-1)))
        case "decaying":
            return np.asarray(np.exp(-(4 * (x - 0.5) ** 2 / j**2).sum(axis=-1)))
        case "additive":
            return np.asarray(np.sin(3 * x + j).sum(axis=-1))
    return np.asarray(np.sin(8 * (x * (-1.0) ** (j + 1)).sum(axis=-1) / x.shape[-1]))


def lipschitz(name: str, d: int) -> float:
    r"""Of the target in the sup norm: a bound of the sum of its |partial derivatives|.

    For $e^{-s}$, $s = \sum_j c_j t_j^2$, that sum is $2 e^{-s} \sum_j c_j |t_j| \le 2 e^{-s}\sqrt{Cs}$ with
    $C = \sum_j c_j$ by Cauchy and Schwarz, and $\sqrt s e^{-s} \le 1/\sqrt{2e}$.

    >>> lipschitz("additive", 4), lipschitz("ridge", 4)
    (12.0, 8.0)
    """
    if name in ("gaussian", "decaying"):
        weight = float(d) if name == "gaussian" else sum(4 / j**2 for j in range(1, d + 1))
        return math.sqrt(2 * weight / math.e)
    return 3.0 * d if name == "additive" else 8.0

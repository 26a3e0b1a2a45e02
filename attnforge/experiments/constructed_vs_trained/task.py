"""What the authors train on: linear forms, one a token, their truncated values, and data drawn for them."""

from __future__ import annotations

import numpy as np

import attnforge as af
from attnforge.experiments.table import Array
from attnforge.targets import TruncatedLinear

FEATURES, TOKENS, KEYS = 10, 50, 60  # d, n, p
LOWER, UPPER, REACH = -25.0, 25.0, 5.0
TRAINING, TEST, BATCH = 800, 200, 32
FRESH = 2_000  # sequences that errors are measured on
CONSTRUCTED = {
    "hard": "hard selection",
    "tuned": "tuned for the largest error",
    "mean": "tuned for the mean square (c = 1.4)",
    "estimated": "c = 1.4, w and t estimated",
}
STARTS = ("hard", "tuned", "mean")  # of these, what training starts from
PARTS = {"all": "all weights", "values": "values only"}
THEOREM, ENCLOSURE = "theorem", "enclosure"  # what proves a bound: the rows of anchors, or boxes of what a head reads


class Task:
    """One draw of the linear forms, and data for them: everything follows from the seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        draw = np.random.default_rng([seed, 0])
        self.w, self.t = draw.standard_normal((TOKENS, FEATURES)), draw.standard_normal(TOKENS)

    def data(self, kind: int, count: int) -> tuple[Array, Array]:
        """Sequences (count, n, d) and their targets (count, n); every kind has its own."""
        x = np.random.default_rng([self.seed, kind]).uniform(-REACH, REACH, (count, TOKENS, FEATURES))
        return x, np.clip((x * self.w).sum(axis=-1) + self.t, LOWER, UPPER)

    def training(self) -> tuple[Array, Array]:
        """What is trained on, and estimated from."""
        return self.data(1, TRAINING)

    def test(self) -> tuple[Array, Array]:
        """What the authors' loss is printed for."""
        return self.data(2, TEST)

    def fresh(self) -> tuple[Array, Array]:
        """What errors are measured on."""
        return self.data(3, FRESH)

    def target(self) -> TruncatedLinear:
        """The function itself."""
        return truncated(self.w, self.t)


def truncated(w: Array, t: Array) -> TruncatedLinear:
    """The target of forms w (n, d) and t (n,)."""
    return TruncatedLinear(w, t, LOWER, UPPER, af.Box(-REACH, REACH))


def estimated(x: Array, y: Array) -> tuple[Array, Array]:
    """The forms w (n, d) and t (n,) that fit the samples which are not clipped, token by token, by least squares.

    >>> x = np.array([[[0.0]], [[1.0]], [[2.0]], [[9.0]]])
    >>> w, t = estimated(x, np.array([[1.0], [3.0], [5.0], [25.0]]))
    >>> w.round(9).tolist(), t.round(9).tolist()
    ([[2.0]], [1.0])
    """
    inside = (y > LOWER) & (y < UPPER)
    wide = np.concatenate([x, np.ones((*x.shape[:2], 1))], axis=-1)
    fits = [np.linalg.lstsq(wide[inside[:, i], i], y[inside[:, i], i])[0] for i in range(x.shape[1])]
    found = np.stack(fits)
    return found[:, :-1], found[:, -1]


def errors(out: Array, y: Array) -> dict[str, float]:
    """How far outputs are from targets: mean square and largest.

    >>> errors(np.array([1.0, 2.0]), np.array([1.0, 4.0]))
    {'mse': 2.0, 'error': 2.0}
    """
    error = out - y
    return {"mse": float(np.mean(error**2)), "error": float(np.abs(error).max())}

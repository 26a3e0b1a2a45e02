"""Continuous maps with known Lipschitz constants (sup norm), and an error measured without the library's search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import attnforge as af


@dataclass(frozen=True)
class Map:
    """A function, where it is approximated, and its Lipschitz constant."""

    function: Callable[[Any], Any]
    domain: af.Box
    lipschitz: float

    @property
    def options(self) -> dict[str, Any]:
        """As constructions take them."""
        return {"f": self.function, "domain": self.domain, "lipschitz": self.lipschitz}


def _mixture(x: np.ndarray) -> np.ndarray:
    weights = np.exp(x @ np.swapaxes(x, -1, -2))
    return (weights / weights.sum(axis=-1, keepdims=True)) @ x


def _product(x: np.ndarray) -> np.ndarray:
    return np.stack([x[..., 0, :] * x[..., 1, :], np.sin(x[..., 0, :]) - x[..., 1, :]], axis=-2)


# sin(3a) b + cos(2b): |3 cos(3a) b| + |sin(3a) - 2 sin(2b)| is at most 4.82 on the unit square
WAVE = Map(lambda x: np.sin(3 * x[..., 0]) * x[..., 1] + np.cos(2 * x[..., 1]), af.Box(0, 1, shape=(2,)), 4.82)
PRODUCT = Map(_product, af.Box(0, 1, shape=(2, 1)), 2.0)
SORT = Map(lambda x: np.sort(x, axis=-2), af.Box(0, 1, shape=(2, 2)), 1.0)  # sorting never moves points apart
# softmax attention of two tokens, out_i = x_j + s (x_i - x_j): 1, and a quarter of the sum of |2 x_i - x_j| + |x_i|
ATTEND = Map(_mixture, af.Box(0, 1, shape=(2, 2)), 2.5)


def worst(net: Any, cells: int = 8, count: int = 3000) -> float:
    """The largest error at random points, corners, and points beside the borders of cells; NaN counts as infinite."""
    rng, shape = np.random.default_rng(3), net.domain.shape
    corners = rng.integers(0, 2, (64, *shape)).astype(float)
    borders = (rng.integers(0, cells + 1, (count, *shape)) + rng.normal(0, 0.03, (count, *shape))) / cells
    unit = np.concatenate([rng.random((count, *shape)), corners, np.clip(borders, 0, 1)])
    x = net.domain.lower + unit * (net.domain.upper - net.domain.lower)
    error = float(np.abs(net(x) - net.target.values(x)).max())
    return np.inf if np.isnan(error) else error

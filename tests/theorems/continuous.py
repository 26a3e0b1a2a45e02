"""Continuous maps with known Lipschitz constants (sup norm), and an error measured without the library's search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import attnforge as af

torch.set_num_threads(1)  # networks this small run faster on one thread


@dataclass(frozen=True)
class Map:
    function: Callable[[Any], Any]
    domain: af.Box
    lipschitz: float

    @property
    def options(self) -> dict[str, Any]:
        return {"f": self.function, "domain": self.domain, "lipschitz": self.lipschitz}


def _mixture(x: np.ndarray) -> np.ndarray:
    weights = np.exp(x @ np.swapaxes(x, -1, -2))
    return (weights / weights.sum(axis=-1, keepdims=True)) @ x


# sin(3a) b + cos(2b): |3 cos(3a) b| + |sin(3a) - 2 sin(2b)| is at most 4.82 on the unit square
WAVE = Map(lambda x: np.sin(3 * x[..., 0]) * x[..., 1] + np.cos(2 * x[..., 1]), af.Box(0, 1, shape=(2,)), 4.82)
# first token: a b; second token: sin(a) - b
PRODUCT = Map(
    lambda x: np.stack([x[..., 0, :] * x[..., 1, :], np.sin(x[..., 0, :]) - x[..., 1, :]], axis=-2),
    af.Box(0, 1, shape=(2, 1)),
    2.0,
)
SORT = Map(lambda x: np.sort(x, axis=-2), af.Box(0, 1, shape=(2, 2)), 1.0)  # sorting never moves points apart
# softmax attention of two tokens: out_i = x_j + s (x_i - x_j), s the logistic of x_i . (x_i - x_j). The convex
# combination moves by at most 1; s by a quarter of the sum over 2 features of |2 x_i - x_j| + |x_i| <= 3, and it
# multiplies |x_i - x_j| <= 1
ATTEND = Map(_mixture, af.Box(0, 1, shape=(2, 2)), 2.5)


def points(domain: af.Box, count: int = 3000, cells: int = 8) -> np.ndarray:
    """Random points, corners, and points just beside the borders of the grid's cells."""
    rng = np.random.default_rng(3)
    shape = domain.shape
    inside = rng.random((count, *shape))
    corners = rng.integers(0, 2, (64, *shape)).astype(float)
    borders = np.clip(
        (rng.integers(0, cells + 1, (count, *shape)) + rng.normal(0, 0.03, (count, *shape))) / cells, 0, 1
    )
    return domain.lower + np.concatenate([inside, corners, borders]) * (domain.upper - domain.lower)


def worst(net: Any, cells: int = 8, count: int = 3000) -> float:
    """The largest error found; NaN counts as infinite."""
    x = points(net.domain, count, cells)
    error = float(np.abs(net(x) - net.target.values(x)).max())
    return np.inf if np.isnan(error) else error

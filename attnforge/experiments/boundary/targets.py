"""Targets with a transition somewhere in [0, 1], smooth ones, and the points at which errors are looked for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attnforge.experiments.table import Array

Target = Callable[[Array], Array]  # of (..., 1) arrays

SMOOTH = ("exp", "root")  # e^x, and sqrt(1 - x), whose slope is infinite at the end
NEAR = 2.0  # steps from an end that count as near it
MIDDLE = 16.0  # steps from both ends, at least, that count as the interior


def smooth_target(name: str) -> Target:
    """One of SMOOTH.

    >>> smooth_target("root")(np.array([[0.0], [0.75]])).tolist()
    [1.0, 0.5]
    """
    return lambda x: np.asarray(np.exp(x[..., 0]) if name == "exp" else np.sqrt(np.maximum(1 - x[..., 0], 0.0)))


def transition(name: str, width: float, at: float) -> Target:
    """A tanh of this width, a kink or a jump, at a place.

    >>> transition("jump", 0.0, 0.5)(np.array([[0.4], [0.5]])).tolist()
    [-1.0, 1.0]
    """

    def f(points: Array) -> Array:
        x = points[..., 0] - at
        if name == "tanh":
            return np.asarray(np.tanh(x / width))
        return np.abs(x) if name == "kink" else np.where(x >= 0, 1.0, -1.0)

    return f


def title(name: str, width: float) -> str:
    """What a transition is called in tables and figures."""
    return {"tanh": f"tanh, w = {width:g}", "kink": "kink |x - t|", "jump": "jump from -1 to 1"}[name]


def even_points(cells: int) -> Array:
    """Points of [0, 1], more of them near the upper end."""
    return np.unique(np.concatenate([np.linspace(0, 1, 20_001), np.linspace(1 - NEAR / cells, 1, 2001)]))


def looked_at(at: float, cells: int) -> Array:
    """Points of [0, 1]: everywhere, more of them near the end and near the transition, never on it."""
    h = 1 / cells
    around = at + np.linspace(-4 * h, 4 * h, 8001)
    close = at + np.concatenate([-np.geomspace(1e-9, h, 400), np.geomspace(1e-9, h, 400)])
    points = np.concatenate([even_points(cells), around, close])
    return np.unique(points[(points >= 0) & (points <= 1) & (points != at)])


def counted(x: Array, distance: float, cells: int) -> Array:
    """Points at which a transition is judged: the end's half of the domain, or if it is in the interior, the interior.

    A network without ghosts errs at the ends whatever the transition does.
    """
    margin = MIDDLE / 2 / cells
    return x[x >= 0.5] if distance < MIDDLE else x[(x >= margin) & (x <= 1 - margin)]

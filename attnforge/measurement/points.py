"""Where to look: random points, a dense line along the form, and the places where anchored heads err."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from attnforge.errors import TargetError
from attnforge.targets import Box, Target

Array = npt.NDArray[np.float64]

NUDGES = (0.0, 1e-9, -1e-9, 1e-3, -1e-3, 0.21, -0.21)  # in steps: on, just beside, and where a tuned head errs most


def random_points(box: Box, tokens: int | None, count: int, rng: np.random.Generator) -> Array:
    """Uniform points of the box: (count, d), or (count / n, n, d) for tokens."""
    shape = box.shape if tokens is None else (tokens, box.shape[-1])
    points = count if tokens is None else max(1, count // tokens)
    return rng.uniform(box.lower, box.upper, size=(points, *shape))


def line_points(target: Target, box: Box, tokens: int | None, count: int, places: Array) -> Array:
    """Points on the diagonal along which the target's linear form runs through all its values.

    An even grid of ``count`` points, then one point for each value of the form in ``places`` that the box allows. Along
    x(s) = middle + s rad sign(w), s in [-1, 1], the form is y(s) = y(0) + s sum |w| rad. Nothing for other targets.
    """
    try:
        form = target.truncated_form()
    except TargetError:
        return np.empty((0, *box.shape))
    w, t = form.weights.mid, form.offsets.mid
    middle, radius = box.middle, (box.upper - box.lower) / 2
    reach = np.maximum((np.abs(w) * radius).sum(axis=-1), np.finfo(np.float64).tiny)
    start = (w * middle).sum(axis=-1) + t
    grid = np.linspace(-1.0, 1.0, max(count, 2))[:, None] * np.ones(reach.size)
    with np.errstate(over="ignore"):
        special = (places[:, None] - start) / reach
    s = np.concatenate([grid, special])
    s = np.clip(s, -1.0, 1.0)
    points = middle + s[:, :, None] * (radius * np.sign(w))
    points = np.clip(points, box.lower, box.upper)
    if tokens is None:
        return np.asarray(points[:, 0])
    return np.asarray(np.broadcast_to(points, (len(points), tokens, points.shape[-1])))


def risky_places(positions: Array, ends: tuple[float, float]) -> Array:
    """Values of the form where anchored heads may err: kinks, anchors, midpoints, borders, and just beside them."""
    anchors = np.unique(np.concatenate([positions, ends]))
    gaps = np.diff(anchors)
    step = float(gaps.min()) if len(gaps) else 1.0
    bases = np.concatenate([anchors, anchors[:-1] + gaps / 2])
    return np.asarray((bases[:, None] + step * np.array(NUDGES)).ravel())

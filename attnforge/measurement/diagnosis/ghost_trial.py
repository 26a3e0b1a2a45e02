r"""Would ghosts help? On rows so short that all of the domain is near an end, the only way to know is to try.

All values are fitted anew, by least squares at points of the domain, once with the keys that are there and ghosts
added at the ends that have none. If the error falls by a factor 10, ghosts were missing. Rows that are right as they
are do not pass: a fitted head has ghosts, a staircase does not improve, nor does a tuned row of a clamp, whose error
between anchors, $(2\pi/c)e^{-\pi^2/c}$ steps, stays what it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from attnforge.labels.rows import KeyAxis
from attnforge.measurement.diagnosis.subject import Subject
from attnforge.network import Attention

Array = npt.NDArray[np.float64]
Ends = tuple[bool, bool]

MOST_KEYS = 800  # in all heads, ghosts included
A_KEY = 4  # points for each of them
REACH = 1e-8  # share of the weight that added ghosts leave missing


def error_with_ghosts(
    subject: Subject, axes: Mapping[int, tuple[KeyAxis, ...]], lacking: Mapping[tuple[int, int], Ends], seed: int
) -> float | None:
    """The largest error after refitting with ghosts at the lacking ends of (head, axis); None where it cannot be tried.

    It can where the network is one layer of heads over grids, and the grids are not too large.
    """
    box, heads = subject.box, [layer for layer in subject.network.layers if isinstance(layer, Attention)]
    single = len(heads) == 1 and heads[0] is subject.network.layers[-1] and not heads[0].residual
    if box is None or not single or any(not axes.get(h) for h in range(len(heads[0].heads))):
        return None
    rows = {h: [_extended(axis, lacking.get((h, i), (False, False))) for i, axis in enumerate(axes[h])] for h in axes}
    keys = sum(math.prod(len(slopes) for slopes, _ in found) for found in rows.values())
    if keys > MOST_KEYS:
        return None
    rng = np.random.default_rng(seed)
    points = rng.uniform(box.lower, box.upper, size=(2 * A_KEY * keys, len(box.lower)))
    points[: len(points) // 8] = np.where(rng.uniform(size=(len(points) // 8, 1)) < 0.5, box.lower, box.upper)
    design = np.hstack([_weights(axes[h], rows[h], points) for h in rows])
    wanted = subject.wanted(points).reshape(len(points), -1)
    fitted, fresh = slice(0, None, 2), slice(1, None, 2)
    values = np.linalg.lstsq(design[fitted], wanted[fitted], rcond=1e-12)[0]
    return float(np.abs(design[fresh] @ values - wanted[fresh]).max())


def _extended(axis: KeyAxis, lacking: Ends) -> tuple[Array, Array]:
    """Slopes and offsets of the row, up to terms common to all keys, continued at the lacking ends."""
    count = math.ceil(math.sqrt(math.log(1 / REACH) / axis.sharpness))
    rises, steps, positions = axis.rises, axis.steps, axis.positions
    if lacking[0]:
        rises = np.concatenate([np.full(count, rises[0]), rises])
        positions = np.concatenate([positions[0] - steps[0] * np.arange(count, 0, -1), positions])
    if lacking[1]:
        rises = np.concatenate([rises, np.full(count, rises[-1])])
        positions = np.concatenate([positions, positions[-1] + steps[-1] * np.arange(1, count + 1)])
    ties = (positions[1:] + positions[:-1]) / 2
    return np.concatenate([[0.0], np.cumsum(rises)]), np.concatenate([[0.0], -np.cumsum(rises * ties)])


def _weights(axes: Sequence[KeyAxis], rows: Sequence[tuple[Array, Array]], points: Array) -> Array:
    """Softmax weights (N, p) of a product grid: products of those of its axes."""
    total = np.ones((len(points), 1))
    for axis, (slopes, offsets) in zip(axes, rows, strict=True):
        scores = np.outer(points @ axis.direction, slopes) + offsets
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        total = (total[:, :, None] * weights[:, None, :]).reshape(len(points), -1)
    return total

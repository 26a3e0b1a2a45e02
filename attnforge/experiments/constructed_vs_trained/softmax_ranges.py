r"""Ranges of softmax means over scores that are known up to an interval each.

Over independent weights $e_k \in [\exp(d_k - r_k), \exp(d_k + r_k)]$ the largest $\sum e_k v_k / \sum e_k$ takes the
lower end up to some value and the upper end beyond it, so that one scan finds it.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

ROOM = 2.0**-40  # of every sum of absolute values: more than the roundings of the proof and of the run in float64
UNDERFLOW = 1e-280  # sums of weights below it may have lost digits


def mixed_range(low: Array, high: Array, values: Array) -> tuple[Array, Array]:
    """Least and largest of sum e v / sum e over log e in [low, high], (C, p) each; values ascend.

    >>> low, high = mixed_range(np.log([[1.0, 1.0]]), np.log([[3.0, 1.0]]), np.array([0.0, 1.0]))
    >>> low.round(6).tolist(), high.round(6).tolist()
    ([0.25], [0.5])
    """
    top = high.max(axis=1, keepdims=True)  # the largest weight is 1: nothing overflows
    small, large = np.exp(low - top), np.exp(high - top)
    least = _scan(large, small, values, float(values[0])).min(axis=1)
    return least, _scan(small, large, values, float(values[-1])).max(axis=1)


def steepest(low: Array, high: Array, rates: Array, values: Array, inside: tuple[Flags, Flags]) -> Array:
    """A bound of |d(output - target)/dy| on cells, relative scores changing by ``rates`` and in [low, high].

    The output changes by the covariance of rates and values under the softmax weights, the target by 1 inside its
    interval and 0 outside; ``inside`` says which cells are all inside, and which are in part.
    """
    top = high.max(axis=1, keepdims=True)
    small, large = np.exp(low - top), np.exp(high - top)
    others, least = large.sum(axis=1, keepdims=True), small.sum(axis=1, keepdims=True)
    most = np.minimum(large / np.maximum(large + np.maximum(least - small, 0.0), UNDERFLOW), 1.0)
    few = small / (others + ROOM)
    both, one, other = (_weighted(few, most, each) for each in (rates * values, rates, values))
    corners = np.stack([i * j for i in one for j in other])
    upwards = both[1] - corners.min(axis=0) - inside[0]
    downwards = corners.max(axis=0) - both[0] + inside[1]
    room = ROOM * (np.abs(rates).max(axis=1) + 1) * (np.abs(values).max(axis=1) + 1) * low.shape[1]
    steepest: Array = np.maximum(upwards, downwards) + room
    return np.where(least[:, 0] > math.sqrt(UNDERFLOW), steepest, np.inf)


def _weighted(few: Array, most: Array, values: Array) -> tuple[Array, Array]:
    """Least and largest of sum w v for weights between ``few`` and ``most``, sign by sign."""
    up, down = np.maximum(values, 0.0), np.minimum(values, 0.0)
    return (few * up + most * down).sum(axis=1), (most * up + few * down).sum(axis=1)


def _scan(first: Array, last: Array, values: Array, worst: float) -> Array:
    """The mean of the values with the weights ``first`` up to a key and ``last`` beyond, for every such key.

    Only weights of one sign are added, so that sums are as accurate as their terms; where nearly all underflow, the
    mean is ``worst``.
    """
    mass = np.cumsum(first, axis=1) + _beyond(last)
    moment = np.cumsum(first * values, axis=1) + _beyond(last * values)
    return np.where(mass > UNDERFLOW, moment / np.maximum(mass, UNDERFLOW), worst)


def _beyond(terms: Array) -> Array:
    """Sums over all later columns."""
    sums = np.zeros_like(terms)
    sums[:, :-1] = np.cumsum(terms[:, :0:-1], axis=1)[:, ::-1]
    return sums

"""Where fitted heads err: between neighbouring anchors, wherever these are, however close they lie."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from attnforge.network import Claims, Network
from attnforge.targets import Box

Array = npt.NDArray[np.float64]
Placement = Callable[[Array], Array]

ON, MIDWAY = 0.1, 0.1  # shares of the points exactly on an anchor, and exactly half-way to the next


def near_anchors(network: Network, box: Box, count: int, rng: np.random.Generator) -> Array:
    """``count`` points (N, D) of a box of D inputs whose density follows the anchors.

    A head that claims positions (keys, r) along r forms of the inputs gets its share of them: around a random key, at a
    random fraction of the way to the next anchor along every axis. Anchors 1e-6 apart around a kink are so looked at as
    closely as those 0.1 apart elsewhere. None (0, D) where no head claims positions that can be reached this way: heads
    along several forms that mix inputs are left out.

    >>> import attnforge as af
    >>> net = af.constructions.max_affine(lambda x: x[..., 0], af.Box(0, 1, shape=(1,)), cells=4, lipschitz=1)
    >>> points = near_anchors(net.network, net.domain, 100, np.random.default_rng(0))
    >>> points.shape, bool(points.min() >= 0), bool(points.max() <= 1)
    ((100, 1), True, True)
    """
    claimed = [head.claims for head in network.heads if head.claims is not None]
    found = [(claims, place) for claims in claimed if (place := _placement(claims, box, rng)) is not None]
    parts = [np.empty((0, box.lower.size))]
    # In random order, so that no head is left out every time where points are few.
    for turn, index in enumerate(rng.permutation(len(found)).tolist()):
        claims, place = found[index]
        share = len(range(turn, count, len(found)))
        parts.append(_points(claims, place, box, share, rng))
    return np.concatenate(parts)


def _placement(claims: Claims, box: Box, rng: np.random.Generator) -> Placement | None:
    """How values (N, r) of the forms become points (N, D) of the box that have them; None where this is not known."""
    inputs = box.lower.size
    if claims.positions.ndim != 2 or not len(claims.positions) or len(box.shape) != 1:
        return None
    rank = claims.positions.shape[1]
    if claims.forms is None:
        return (lambda u: u) if rank == inputs else None
    if claims.forms.shape != (rank, inputs + 1):
        return None
    weights, offsets = claims.forms[:, :-1], claims.forms[:, -1]
    columns = np.abs(weights).argmax(axis=1)
    single = np.count_nonzero(weights, axis=1) == 1
    if single.all() and len(set(columns.tolist())) == rank:
        scale = weights[np.arange(rank), columns]
        return lambda u: _assigned(box, columns, (u - offsets) / scale, rng)
    if rank == 1:
        return lambda u: _moved(box, weights[0], u[:, 0] - offsets[0], rng)
    return None


def _points(claims: Claims, place: Placement, box: Box, count: int, rng: np.random.Generator) -> Array:
    lower, upper = _ranges(claims, box)
    # Anchors outside the range clip to its ends, which so count as anchors.
    values = np.clip(_beside(np.clip(claims.positions, lower, upper), _inside(claims), count, rng), lower, upper)
    return np.clip(place(values), box.lower, box.upper)


def _ranges(claims: Claims, box: Box) -> tuple[Array, Array]:
    """The smallest and largest value (r,) of each form on the box."""
    if claims.forms is None:
        return box.lower, box.upper
    weights, offsets = claims.forms[:, :-1], claims.forms[:, -1]
    ends = np.stack([weights * box.lower, weights * box.upper])
    return ends.min(axis=0).sum(axis=1) + offsets, ends.max(axis=0).sum(axis=1) + offsets


def _inside(claims: Claims) -> npt.NDArray[np.intp]:
    """Keys that are no ghosts; all of them where the roles say nothing."""
    keys = [key for key, role in enumerate(claims.roles[: len(claims.positions)]) if role != "ghost"]
    return np.array(keys, dtype=np.intp) if keys else np.arange(len(claims.positions), dtype=np.intp)


def _beside(positions: Array, keys: npt.NDArray[np.intp], count: int, rng: np.random.Generator) -> Array:
    """``count`` places (N, r), each between an anchor and one of its neighbours along every axis."""
    chosen = positions[rng.choice(keys, size=count)]
    moved = np.empty((count, positions.shape[1]))
    for axis in range(positions.shape[1]):
        line = np.unique(positions[:, axis])
        here = np.searchsorted(line, chosen[:, axis])
        there = np.clip(here + rng.choice([-1, 1], size=count), 0, len(line) - 1)
        kind, way = rng.uniform(size=count), rng.uniform(size=count)
        way = np.where(kind < ON, 0.0, np.where(kind < ON + MIDWAY, 0.5, way))
        moved[:, axis] = line[here] + way * (line[there] - line[here])
    return moved


def _assigned(box: Box, columns: npt.NDArray[np.intp], values: Array, rng: np.random.Generator) -> Array:
    """Random points of the box in which the inputs ``columns`` have the given values (N, r)."""
    points = rng.uniform(box.lower, box.upper, size=(len(values), box.lower.size))
    points[:, columns] = values
    return points


def _moved(box: Box, weights: Array, values: Array, rng: np.random.Generator) -> Array:
    """Random points x of the box, each moved towards a corner until w . x is the given value (N,).

    Towards the corner where the form is largest (or smallest) the form moves monotonically to its largest (smallest)
    value, so the value is met inside the box.
    """
    points = rng.uniform(box.lower, box.upper, size=(len(values), box.lower.size))
    high, low = (np.where(sign * weights > 0, box.upper, box.lower) for sign in (1, -1))
    missing = values - points @ weights
    corners = np.where(weights == 0, points, np.where(missing[:, None] > 0, high, low))
    reach = (corners - points) @ weights
    part = np.divide(missing, reach, out=np.zeros_like(missing), where=reach != 0)
    return np.asarray(points + np.clip(part, 0.0, 1.0)[:, None] * (corners - points))

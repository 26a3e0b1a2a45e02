r"""Where keys stand, read from the scores alone: rows of anchors along an axis, and product grids of them.

Along a coordinate y a head with constant keys scores $s_k(y) = a_k y + b_k$. In the order of the slopes, neighbours tie
at $m_k = -(b_{k+1} - b_k)/(a_{k+1} - a_k)$. Two families of rows are built, both determined by these numbers:

* *Gaussian*, one temperature: $a_{k+1} - a_k = 2\beta h_k$, so that
  $\beta = (\Delta a_k + \Delta a_{k+1}) / (4\,\Delta m_k)$ for every k;
* *graded*, the temperature follows the spacing: $(a_{k+1} - a_k)\,h_k = 2c$, so that
  $c = \Delta m_k / (1/\Delta a_k + 1/\Delta a_{k+1})$ for every k.

Whichever constant varies less (equal gaps are both) gives the gaps $h_k$, hence the positions, and the local sharpness
$c_k = \frac12 \Delta a_k h_k$, which is $\beta h^2$ on a Gaussian row. Medians are used: one key out of place does not
move the others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

ALIKE = 1e-9  # of the range: slopes closer than this are the same
FITS = 1e-6  # of the largest score: what a product grid may leave unexplained
SAME_DIRECTION = 1e-9
ROUNDING = 1e-9
REGULAR = 1e-3  # median deviation of the constant of a row


@dataclass(frozen=True, eq=False)
class KeyAxis:
    """A row of keys along ``direction`` (D,) of the inputs: place j of the row stands at ``positions[j]``.

    ``place`` (p,) is the place of each of the head's keys, ``steps`` the gaps between places, ``rises`` by how much
    slopes grow from one to the next, ``ties`` where neighbours score alike, ``sharpness`` c; ``regular`` says that it
    is of one of the two families, which takes five keys to tell. The domain reaches from ``lower`` to ``upper`` along
    the direction.
    """

    direction: Array
    positions: Array
    steps: Array
    rises: Array
    place: Indices
    sharpness: float
    lower: float
    upper: float
    regular: bool = True
    ties: Array = field(default_factory=lambda: np.zeros(0))

    @property
    def beyond(self) -> tuple[int, int]:
        """Places clearly outside the domain, below and above: ghosts."""
        quarter = 0.25 * self.end_steps[0], 0.25 * self.end_steps[1]
        below = int((self.positions < self.lower - quarter[0]).sum())
        return below, int((self.positions > self.upper + quarter[1]).sum())

    @property
    def end_steps(self) -> tuple[float, float]:
        """The gap between places at the lower and at the upper end of the domain."""
        last = len(self.steps) - 1
        low, high = (int(np.searchsorted(self.positions, end)) for end in (self.lower, self.upper))
        return float(self.steps[min(max(low - 1, 0), last)]), float(self.steps[min(max(high - 1, 0), last)])

    @property
    def step(self) -> float:
        """The usual gap."""
        return float(np.median(self.steps))


def key_axes(slopes: Array, offsets: Array, lower: Array, upper: Array) -> tuple[KeyAxis, ...]:
    """The axes of a head whose keys score a_k . x + b_k, slopes (p, D), on the box [lower, upper]; none if no grid.

    >>> row = np.arange(5.0)
    >>> (axis,) = key_axes(2 * row[:, None], -row * row, np.array([1.0]), np.array([3.0]))
    >>> axis.positions.tolist(), axis.sharpness, axis.beyond
    ([0.0, 1.0, 2.0, 3.0, 4.0], 1.0, (1, 1))
    """
    if not (np.isfinite(slopes).all() and np.isfinite(offsets).all()):
        return ()
    direction = _single_direction(slopes)
    if direction is not None:
        ends = np.sort(np.stack([direction * lower, direction * upper]), axis=0).sum(axis=1)
        place, along = _classes(slopes @ direction)
        axis = _axis(direction, along, _highest(offsets, place, len(along)), place, float(ends[0]), float(ends[1]))
        return () if axis is None else (axis,)
    return _product(slopes, offsets, lower, upper)


def _product(slopes: Array, offsets: Array, lower: Array, upper: Array) -> tuple[KeyAxis, ...]:
    """A grid along the inputs: every combination of slopes occurs, and offsets are sums over the axes."""
    active = np.flatnonzero(np.ptp(slopes, axis=0) > ALIKE * np.abs(slopes).max(initial=0.0))
    found = [_classes(slopes[:, i]) for i in active]
    shape = tuple(len(along) for _, along in found)
    if math.prod(shape) > len(slopes) or min(shape, default=0) < 3:
        return ()
    flat = np.ravel_multi_index(tuple(place for place, _ in found), shape)
    table = np.full(math.prod(shape), -np.inf)
    np.maximum.at(table, flat, offsets)
    if not np.isfinite(table).all():
        return ()
    grid = table.reshape(shape)
    parts = [grid.mean(axis=tuple(j for j in range(grid.ndim) if j != i)) - grid.mean() for i in range(grid.ndim)]
    summed = grid.mean() + sum(np.expand_dims(p, _others(i, grid.ndim)) for i, p in enumerate(parts))
    if np.abs(grid - summed).max() > FITS * np.abs(grid).max():
        return ()
    axes = [
        _axis(np.eye(len(lower))[i], along, part, place, float(lower[i]), float(upper[i]))
        for i, (place, along), part in zip(active, found, parts, strict=True)
    ]
    return tuple(axis for axis in axes if axis is not None)


def _axis(direction: Array, slopes: Array, offsets: Array, place: Indices, low: float, high: float) -> KeyAxis | None:
    """Positions, gaps and sharpness of a row with increasing slopes; None for fewer than three keys."""
    if len(slopes) < 3:
        return None
    rises = np.diff(slopes)
    ties = -np.diff(offsets) / rises
    apart = np.diff(ties)
    if np.median(apart) <= 0:
        return None
    with np.errstate(divide="ignore"):
        beta = (rises[1:] + rises[:-1]) / (4 * apart)
        c = apart / (1 / rises[1:] + 1 / rises[:-1])
    gaussian, graded = float(np.median(beta)), float(np.median(c))
    steps = rises / (2 * gaussian) if _varies(beta) <= _varies(c) + ROUNDING else 2 * graded / rises
    middle = len(ties) // 2
    places = np.concatenate([[0.0], np.cumsum(steps)])
    shift = (
        float(np.median(ties - (places[1:] + places[:-1]) / 2))
        if len(ties) > 2
        else ties[middle] - (places[middle] + places[middle + 1]) / 2
    )
    sharpness = float(np.median(rises * steps / 2))
    regular = len(apart) > 2 and min(_spread(beta), _spread(c)) < REGULAR
    return KeyAxis(direction, places + shift, steps, rises, place, sharpness, low, high, regular, ties)


def _single_direction(slopes: Array) -> Array | None:
    """The unit vector along which all differences of slopes lie, its largest entry positive; None if several."""
    moved = slopes - slopes[0]
    longest = moved[np.argmax(np.abs(moved).sum(axis=1))]
    size = float(np.linalg.norm(longest))
    if size == 0:
        return None
    unit = longest / size
    rest = moved - np.outer(moved @ unit, unit)
    if np.abs(rest).max() > SAME_DIRECTION * np.abs(moved).max():
        return None
    return np.asarray(unit * np.sign(unit[np.abs(unit).argmax()]))


def _classes(slopes: Array) -> tuple[Indices, Array]:
    """The place of each key in the row of distinct slopes, and these slopes, increasing."""
    order = np.argsort(slopes, kind="stable")
    along = slopes[order]
    new = np.diff(along, prepend=-np.inf) > ALIKE * max(float(np.ptp(slopes)), np.finfo(np.float64).tiny)
    place = np.empty(len(slopes), dtype=np.int64)
    place[order] = np.cumsum(new) - 1
    return place, along[new]


def _highest(offsets: Array, place: Indices, count: int) -> Array:
    """The largest offset at each place: keys of equal slope and lower offset never win."""
    best = np.full(count, -np.inf)
    np.maximum.at(best, place, offsets)
    return best


def _varies(values: Array) -> float:
    """Mean deviation from the median: one key out of place already tells the two families apart."""
    middle = np.median(values)
    return float(np.mean(np.abs(values / middle - 1))) if middle > 0 else math.inf


def _spread(values: Array) -> float:
    middle = np.median(values)
    return float(np.median(np.abs(values / middle - 1))) if middle > 0 else math.inf


def _others(axis: int, count: int) -> tuple[int, ...]:
    return tuple(j for j in range(count) if j != axis)

"""Where a network's anchors are, by its labels: what figures mark."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attnforge.labels import HeadLabel, labels_of
from attnforge.network import Network
from attnforge.targets import Box

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Row:
    """Anchors (p,) in the range of the form w . x + t, their values (p,) where they have any, and their name."""

    weights: Array
    offset: float
    positions: Array
    values: Array | None
    name: str


def single_row(network: Network, box: Box) -> Row | None:
    """The anchors of a network of one head along one form that varies; None for others.

    >>> import attnforge as af
    >>> net = af.constructions.max_affine(lambda x: x[..., 0], af.Box(0, 1, shape=(1,)), cells=2, lipschitz=1)
    >>> single_row(net.network, net.domain).positions.tolist()
    [0.25, 0.75]
    """
    found = rows(network, box)
    if len(network.heads) != 1 or len(found) != 1 or not np.any(found[0].weights * (box.upper - box.lower)):
        return None
    return found[0]


def rows(network: Network, box: Box) -> list[Row]:
    """Every head's anchors along its form, for heads whose keys stand along a single one of the inputs."""
    return [row for head in labels_of(network).heads if (row := _row(head, box)) is not None]


def planes(network: Network, box: Box) -> list[Array]:
    """Anchors (p, D) inside the box, of every head whose keys stand along all inputs."""
    found = [places for head in labels_of(network).heads if (places := _points(head, box)) is not None]
    return [places[_inside(places, box.lower, box.upper)] for places in found]


def counted(network: Network) -> str:
    """Heads and anchors, in words."""
    labels = labels_of(network).heads
    keys, heads = sum(head.count for head in labels), len(labels)
    return f"{heads:,} head{'s' * (heads != 1)}, {keys:,} anchor{'s' * (keys != 1)}, ghosts included"


def _points(head: HeadLabel, box: Box) -> Array | None:
    """The places of keys that are points of the box."""
    if head.forms is None or head.places is None or head.places.shape[1:] != box.shape:
        return None
    return head.places if np.array_equal(head.forms, np.eye(*head.forms.shape)) else None


def _row(head: HeadLabel, box: Box) -> Row | None:
    forms, places = head.forms, head.places
    if forms is None or places is None or len(box.shape) != 1 or forms.shape != (1, box.lower.size + 1):
        return None
    weights, offset = forms[0, :-1], float(forms[0, -1])
    ends = np.stack([weights * box.lower, weights * box.upper])
    low, high = ends.min(axis=0).sum() + offset, ends.max(axis=0).sum() + offset
    inside = _inside(places, np.array([low]), np.array([high]))
    order = np.argsort(places[inside, 0])
    values = head.values
    kept = None if values is None or len(values) != len(inside) else values[inside, 0][order]
    kind = "cells" if "cell" in head.roles else "anchors"
    return Row(weights, offset, places[inside, 0][order], kept, kind)


def _inside(places: Array, lower: Array, upper: Array) -> npt.NDArray[np.bool_]:
    """Which keys lie within the ends, rounding allowed for."""
    slack = 1e-9 * (upper - lower)
    return np.asarray(((places >= lower - slack) & (places <= upper + slack)).all(axis=1))

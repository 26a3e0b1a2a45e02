"""Where a network's anchors are, as far as its heads say: what figures mark."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attnforge.network import Claims, Head, Network
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
    """Every head's anchors along its form, for heads that claim positions along a single one."""
    return [row for head in network.heads if (row := _row(head, box)) is not None]


def planes(network: Network, box: Box) -> list[Array]:
    """Anchors (p, D) inside the box, of every head that claims positions along all inputs."""
    found = [head.claims for head in network.heads if head.claims is not None and along_inputs(head.claims, box)]
    return [claims.positions[_inside(claims, box.lower, box.upper)] for claims in found]


def along_inputs(claims: Claims, box: Box) -> bool:
    """Whether the positions are points of the box."""
    return claims.positions.ndim == 2 and claims.forms is None and claims.positions.shape[1:] == box.shape


def counted(network: Network) -> str:
    """Heads and anchors, in words."""
    keys = sum(len(head.claims.positions) if head.claims else head.memory_size for head in network.heads)
    heads = len(network.heads)
    return f"{heads:,} head{'s' * (heads != 1)}, {keys:,} anchor{'s' * (keys != 1)}, ghosts included"


def _row(head: Head, box: Box) -> Row | None:
    claims = head.claims
    if claims is None or claims.positions.ndim != 2 or claims.positions.shape[1] != 1 or len(box.shape) != 1:
        return None
    forms = np.array([[1.0, 0.0]]) if claims.forms is None else claims.forms
    if forms.shape != (1, box.lower.size + 1):
        return None
    weights, offset = forms[0, :-1], float(forms[0, -1])
    ends = np.stack([weights * box.lower, weights * box.upper])
    low, high = ends.min(axis=0).sum() + offset, ends.max(axis=0).sum() + offset
    inside = _inside(claims, np.array([low]), np.array([high]))
    order = np.argsort(claims.positions[inside, 0])
    values = head.memory_values
    kept = None if values is None or len(values) != len(inside) else values[inside, 0][order]
    kind = "cells" if "cell" in claims.roles else "anchors"
    return Row(weights, offset, claims.positions[inside, 0][order], kept, kind)


def _inside(claims: Claims, lower: Array, upper: Array) -> npt.NDArray[np.bool_]:
    """Which keys lie within the ends, rounding allowed for."""
    slack = 1e-9 * (upper - lower)
    at = claims.positions
    return np.asarray(((at >= lower - slack) & (at <= upper + slack)).all(axis=1))

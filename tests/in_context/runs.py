"""Prompts, how far a run is from the exact iteration, and whether what is certified of a changed network is true."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import attnforge as af

Array = npt.NDArray[np.float64]
EXACT = ("weights", "coefficients", "average")  # what the target of each kind says


def drift(net: Any, *data: Array) -> float:
    """How far the run is from the exact iteration or average, in extended precision."""
    exact = next(getattr(net.target, name) for name in EXACT if hasattr(net.target, name))
    return float(np.abs(net(*data) - exact(*(each.astype(np.longdouble) for each in data))).max())


def is_believed(net: Any, network: af.Network, *data: Array) -> bool:
    """Whether the changed network is certified at all; where it is, its run is no further off."""
    try:
        changed = net.with_network(network)
        bound = changed.certify(*data).bound
    except af.AttnforgeError:
        return False
    assert drift(changed, *data) <= bound
    return True


def nudged(array: Array, place: int, size: float) -> Array:
    """With one entry larger by this part of itself; out of nothing where it is zero."""
    array.flat[place] = array.flat[place] * (1 + size) if array.flat[place] else size
    return array

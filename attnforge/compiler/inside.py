"""Points that rounding alone took out of the domain are taken as its ends; others stay where they are."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from attnforge.outward import MACHINES, Machine
from attnforge.targets import Box

Array = npt.NDArray[np.float64]


def inside(points: npt.ArrayLike, box: Box, dtype: str = "float64") -> Array:
    """Points of a dtype, moved into the box where they lie at most one unit in the last place of an end outside it.

    An end that the dtype cannot hold is rounded to a number up to half a unit away, and a step of a range may end one
    unit further. At an end that is zero the unit is what the dtype may flush to zero.

    >>> float(inside(np.nextafter(0.1, 1), Box(0, 0.1))), float(inside(np.float32(0.1), Box(0, 0.1), "float32"))
    (0.1, 0.1)
    >>> float(inside(0.1000001, Box(0, 0.1)))
    0.1000001
    """
    given = np.asarray(points, dtype=np.float64)
    machine = MACHINES.get(dtype, MACHINES["float64"])  # whole numbers are exact
    near = (given >= box.lower - _unit(box.lower, machine)) & (given <= box.upper + _unit(box.upper, machine))
    return np.where(near, np.clip(given, box.lower, box.upper), given)


def _unit(ends: Array, machine: Machine) -> Array:
    """One unit in the last place, 2 u 2^e with 2^e <= |end|."""
    exponents = np.frexp(ends)[1] - 1
    return np.where(ends == 0.0, machine.underflow, np.ldexp(2 * machine.roundoff, exponents))

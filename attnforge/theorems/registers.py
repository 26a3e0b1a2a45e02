r"""Tokens whose features are registers: the constant 1, then inputs, then a fresh column a node.

A *form* (m,) is a linear function of m registers; the weight of register 0 is its offset. Heads read forms and write
one column, which is zero before: with a residual, writing is exact.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from attnforge.errors import RefusalError

Array = npt.NDArray[np.float64]


def one_hot(register: int, registers: int) -> Array:
    """The form that is one register.

    >>> one_hot(1, 3).tolist()
    [0.0, 1.0, 0.0]
    """
    form = np.zeros(registers)
    form[register] = 1.0
    return form


def scaled(form: Array, factor: float, divisor: float = 1.0) -> Array:
    """A form times a factor, by a divisor; refused where a weight is no number."""
    with np.errstate(over="ignore", invalid="ignore"):
        found = factor * form / divisor + 0.0  # no negative zeros
    if not np.isfinite(found).all():
        remedy = "Scale the inputs, or narrow the domain"
        raise RefusalError("The weights of a head on registers must be numbers", "an overflow", remedy)
    return found


def columns(*forms: Array) -> Array:
    """A map (m, r) from registers to r features, one a form."""
    return np.stack(forms, axis=1)


def written(column: int, registers: int, factor: float = 1.0) -> Array:
    """An output map (1, m) that writes the head's value, times a factor, to one column."""
    return scaled(one_hot(column, registers), factor)[None]

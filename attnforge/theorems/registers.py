r"""Tokens whose features are registers: the constant 1, then inputs, then a fresh column a node.

A *form* (m,) is a linear function of m registers; the weight of register 0 is its offset. Heads read forms and write
one column, which is zero before: with a residual, writing is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from attnforge.errors import RefusalError, TargetError
from attnforge.network import Attention, Head, Linear, Network, Term, count_keys, count_parameters
from attnforge.targets import Formula, Target
from attnforge.theorems.construction import Cost

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Input:
    """An input of a formula: its register, as a form of the constant, all inputs and one node, and its interval."""

    form: Array
    low: float
    high: float

    @classmethod
    def of(cls, target: Formula, name: str) -> Input:
        """The input of that name."""
        place, box = target.names.index(name), target.domain
        return cls(one_hot(1 + place, len(target.names) + 2), float(box.lower[place]), float(box.upper[place]))


def why_not(read: Callable[[Target], object], target: Target) -> str | None:
    """None where the target can be read so, else the reason."""
    try:
        read(target)
    except TargetError as error:
        return str(error)
    return None


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


def written(column: int, registers: int) -> Array:
    """An output map (1, m) that writes the head's value to one column."""
    return one_hot(column, registers)[None]


def one_node(head: Head, form: Array, construction: str) -> Network:
    """The function of one token that is what the head writes to the last register, plus a form of the others."""
    width = len(form)
    encode = Linear((Term(np.eye(width - 2, width, 1)),), one_hot(0, width)[None])
    read = Linear((Term(columns(form + one_hot(width - 1, width))),))
    return Network((encode, Attention((head,), residual=True), read), width - 2, 1, construction=construction)


def counted(network: Network) -> Cost:
    """What a network of few registers needs: making it takes no more than counting."""
    return Cost.of(count_keys(network), count_parameters(network)[0])

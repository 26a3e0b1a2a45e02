"""Linear forms in what registers hold, and the cells of a number that a lookup tells apart."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.errors import TargetError
from attnforge.targets.programs.language import Values

SMALLEST, LARGEST = Fraction(sys.float_info.min), Fraction(sys.float_info.max)


def check_range(*values: Fraction) -> None:
    """Refuse numbers that float64 has not, to its precision: too large, or nearer to zero than its normal ones."""
    for value in values:
        if value and not SMALLEST <= abs(value) <= LARGEST:
            got = f"about 2^{value.numerator.bit_length() - value.denominator.bit_length()}"  # digits may be too many
            raise TargetError("Numbers of a program are 0, or from 2.3e-308 to 1.7e308 in size", got, "Scale them")


@dataclass(frozen=True)
class Grid:
    """A number's range, and its grid: a multiple of 1/d, for some d up to ``denominator``; None where none is known."""

    lower: Fraction
    upper: Fraction
    denominator: int | None

    def __post_init__(self) -> None:
        check_range(self.lower, self.upper)

    @property
    def is_integer(self) -> bool:
        """Whether all values are integers."""
        return self.denominator == 1


@dataclass(frozen=True, eq=False)
class Form:
    """A constant plus, for every register, the weights of its features: one of a number, one a label of labels."""

    weights: Mapping[Values, tuple[Fraction, ...]]
    constant: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        check_range(self.constant, *(weight for weights in self.weights.values() for weight in weights))

    def __add__(self, other: Form) -> Form:
        total = dict(self.weights)
        for node, theirs in other.weights.items():
            mine = total.get(node, (Fraction(0),) * len(theirs))
            total[node] = tuple(a + b for a, b in zip(mine, theirs, strict=True))
        return Form({node: weights for node, weights in total.items() if any(weights)}, self.constant + other.constant)

    def times(self, factor: Fraction) -> Form:
        """The form times a constant."""
        scaled = {node: tuple(factor * w for w in weights) for node, weights in self.weights.items() if factor}
        return Form(scaled, factor * self.constant)

    def same_as(self, other: Form) -> bool:
        """Whether both are the same function."""
        return dict(self.weights) == dict(other.weights) and self.constant == other.constant


@dataclass(frozen=True, eq=False)
class LabelCondition:
    """A condition on the labels that two registers hold: ``allowed`` (query label, key label).

    ``query`` is None where the condition does not depend on it; then there is one row.
    """

    query: Values | None
    key: Values
    allowed: npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class NumberCondition:
    """Two numbers are equal; else they are ``apart`` at least. The key's form has no constant.

    The squares are forms, too: the key's always, the query's where a run may find nothing selected.
    """

    query: Form
    key: Form
    key_square: Form
    query_square: Form | None
    query_range: Grid
    key_range: Grid
    apart: Fraction


@dataclass(frozen=True)
class Cell:
    """Values of a number between ``lower`` and ``upper`` that all have one ``result``."""

    lower: Fraction
    upper: Fraction
    result: Any

    def __post_init__(self) -> None:
        check_range(self.lower, self.upper)

"""A property as VNN-LIB 1.0 writes it: constants of a box, and what a counterexample satisfies.

Inputs are ``X_0``, ``X_1``, ..., outputs ``Y_0``, ...; ``sat`` is the answer where the property fails. Numbers are
written in full: a reader who takes them for decimals, and one who takes them for floats of the dtype they are of, read
the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal

import numpy as np
import numpy.typing as npt

from attnforge.certification.bracket import Pieces
from attnforge.export.interface import one_line

Array = npt.NDArray[np.float64]


def property_text(about: Sequence[str], pieces: Pieces, lower: Array, upper: Array) -> str:
    """The negation of: on every cell, outputs lie strictly between its pieces with offsets ``lower`` and ``upper``."""
    inputs, outputs = pieces.lower.shape[1], pieces.offsets.shape[1]
    box = _inside(pieces.lower.min(axis=0), pieces.upper.max(axis=0))
    lines = [
        *(f"; {one_line(line)}" for line in about),
        *(f"(declare-const X_{i} Real)" for i in range(inputs)),
        *(f"(declare-const Y_{j} Real)" for j in range(outputs)),
        *(f"(assert {bound})" for bound in box),
        "(assert (or",
        *(f"  (and {clause})" for clause in _clauses(pieces, lower, upper)),
        "))",
    ]
    return "\n".join(lines) + "\n"


def decimal(number: float) -> str:
    """A float64 number, all of it.

    >>> decimal(0.1), decimal(-2.0**-3), decimal(3)
    ('0.1000000000000000055511151231257827021181583404541015625', '-0.125', '3.0')
    """
    text = format(Decimal(float(number)), "f")
    return text if "." in text else text + ".0"


def _clauses(pieces: Pieces, lower: Array, upper: Array) -> Iterator[str]:
    """One for every cell, output and side."""
    cells, outputs = pieces.offsets.shape
    for c in range(cells):
        where = " ".join(_inside(pieces.lower[c], pieces.upper[c])) + " " if cells > 1 else ""
        for j in range(outputs):
            for relation, offset in ((">=", upper[c, j]), ("<=", lower[c, j])):
                yield f"{where}({relation} Y_{j} {_affine(pieces.slopes[c, j], offset)})"


def _inside(lower: Array, upper: Array) -> list[str]:
    """The box as bounds of the inputs."""
    ends = enumerate(zip(lower, upper, strict=True))
    return [text for i, (low, high) in ends for text in (f"(>= X_{i} {decimal(low)})", f"(<= X_{i} {decimal(high)})")]


def _affine(slopes: Array, offset: float) -> str:
    terms = [f"(* {decimal(slope)} X_{i})" for i, slope in enumerate(slopes) if slope]
    return f"(+ {' '.join(terms)} {decimal(offset)})" if terms else decimal(offset)

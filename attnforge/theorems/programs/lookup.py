r"""Heads that look a value up: constant keys, one a cell of a number, or one a pair of labels.

*Cells of a number.* The cells are ordered along the number t, with gaps between neighbours. Every cell has a line
$s_j t + c_j$ as its score, and neighbours' lines cross in the middle $m_j$ of the gap of width $2 h_j$, where their
slopes differ by $L/h_j$: in cell j its own line is L above its neighbours', and more above all others, since lines of
increasing slopes that cross in order are in order. Only these differences matter, so $s_0 = c_0 = 0$ and
$s_j = \sum_{i<j} L/h_i$, $c_j = -\sum_{i<j} m_i L/h_i$. For counts, whose cells are the points $1/(1+w)$, both
are integers.

*Pairs of labels.* Keys are $e_a + e_b$, queries $L(e_a + e_b)$: 2L for the pair itself, at most L for others.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import numpy.typing as npt

from attnforge.network import Head
from attnforge.targets.programs.forms import Cell
from attnforge.targets.programs.language import Labels, LabelTable, NumberTable
from attnforge.targets.programs.registers import Layout, Register
from attnforge.theorems.programs.columns import Columns
from attnforge.theorems.programs.selection import encoded, written

Array = npt.NDArray[np.float64]


def cell_head(layout: Layout, number: Array, cells: Sequence[Cell], register: Register, level: float) -> Head:
    """Writes the result of the cell in which a number lies, which is read by these weights (m,)."""
    ordered = sorted(cells, key=lambda cell: cell.lower)
    columns = Columns(layout)
    columns.add(number, columns.nothing)
    columns.add(columns.one, columns.nothing)
    results = np.concatenate([encoded(register, cell.result) for cell in ordered])
    return Head(
        query=columns.matrices[0],
        output=written(layout, register),
        memory_keys=lines(ordered, level),
        memory_values=results,
    )


def lines(cells: Sequence[Cell], level: float) -> Array:
    """Slopes and intercepts (cells, 2) of ordered cells.

    >>> lines([Cell(Fraction(i), Fraction(i), i) for i in range(3)], 8.0).tolist()
    [[0.0, 0.0], [16.0, -8.0], [32.0, -32.0]]
    """
    slope = intercept = Fraction(0)
    found = [(0.0, 0.0)]
    for one, two in pairwise(cells):
        steeper = 2 * Fraction(level) / (two.lower - one.upper)
        slope, intercept = slope + steeper, intercept - steeper * (one.upper + two.lower) / 2
        found.append((float(slope), float(intercept)))
    return np.array(found)


def pair_head(layout: Layout, node: LabelTable | NumberTable, register: Register, level: float) -> Head:
    """Writes a function of two labels."""
    columns, typed = Columns(layout), layout.typed
    sizes = []
    for argument in node.arguments:
        assert isinstance(argument, Labels)
        held, stands = typed.root(argument)
        labels = typed.labels(argument)
        sizes.append(len(labels))
        for i in range(len(labels)):
            query = columns.nothing
            query[layout[held].features] = [level * (labels.place(each) == i) for each in stands]
            columns.add(query, columns.nothing)
    first, second = np.eye(sizes[0]), np.eye(sizes[1])
    keys = [np.concatenate([first[a], second[b]]) for a, b in product(*map(range, sizes))]
    return Head(
        query=columns.matrices[0],
        output=written(layout, register),
        memory_keys=np.array(keys),
        memory_values=np.concatenate([encoded(register, result) for result in typed.outcomes(node)]),
    )

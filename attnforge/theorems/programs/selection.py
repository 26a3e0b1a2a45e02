r"""Heads that select among tokens and average, or count.

Let L be the sharpness. A condition on labels scores 0 where it is met and $-S$ where not:
$e_q^T (-S)(1 - P)\, e_k$. Equality of numbers that are a apart if they differ scores $-\beta (k - q)^2$ with
$\beta = S/a^2$, that is $2\beta q k - \beta k^2$, and $-\beta q^2$ where scores are compared with a constant key's.
Conditions add up: 0 if all are met, else at most $-S$.

- *Mean*: S = L.
- *Ranked*: $+\rho r$, $\rho = L$, r the integer that ranks the key, in [a, b]. What does not meet the conditions must
  stay below what does, whatever the ranking: $S = \rho(b - a) + L$.
- *May be empty*: a constant key at $\rho a - L$ holds the default; S = L more, so that it is above the others.
- *Count*: a constant key at 0, of value 1 among values 0, takes the weight $1/(1 + w)$.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt

from attnforge.network import Head, Rows
from attnforge.targets.programs.forms import LabelCondition, NumberCondition
from attnforge.targets.programs.language import (
    LabelAggregate,
    Labels,
    NumberAggregate,
    Numbers,
    Selector,
    Width,
)
from attnforge.targets.programs.registers import Layout, Register, needed_square
from attnforge.theorems.programs.columns import Columns, power_of_two

Array = npt.NDArray[np.float64]


def count_head(layout: Layout, node: Width, register: Register, level: float) -> Head:
    """Writes 1/(1 + w)."""
    columns = Columns(layout)
    _conditions(columns, layout, node.selector, level, alone=False)
    value = np.zeros((layout.features, 1))
    return _head(columns, value, register, np.array([[1.0]]))


def mean_head(layout: Layout, node: LabelAggregate | NumberAggregate, register: Register, level: float) -> Head:
    """Writes the mean of values over what is selected."""
    typed, selector = layout.typed, node.selector
    empty = typed.may_be_empty(selector)
    columns, lowest, width = Columns(layout), 0.0, 0.0
    if selector.ranking is not None:
        form, grid = typed.form(selector.ranking), typed.grid(selector.ranking)
        columns.add(level * columns.one, columns.form(form, constant=False))
        lowest = level * float(grid.lower - form.constant)
        width = level * float(grid.upper - grid.lower)
    if empty:
        columns.add(columns.one, columns.nothing, lowest - level)
    below = power_of_two(width + level * (1 + empty))
    _conditions(columns, layout, selector, below, alone=not empty)
    value = values(layout, node.values, register)
    return _head(columns, value, register, encoded(register, node.default) if empty else None)


def _conditions(columns: Columns, layout: Layout, selector: Selector, below: float, alone: bool) -> None:
    """The columns of all conditions; ``alone`` where no constant key is compared with."""
    for condition in layout.typed.conditions(selector):
        if isinstance(condition, LabelCondition):
            _labels(columns, layout, condition, below)
        else:
            _numbers(columns, condition, below, alone)


def _labels(columns: Columns, layout: Layout, condition: LabelCondition, below: float) -> None:
    """Key labels that all queries treat alike share a column."""
    patterns, group = np.unique(condition.allowed, axis=1, return_inverse=True)
    for i in range(patterns.shape[1]):
        query, key = columns.nothing, columns.nothing
        query[layout[condition.query].features] = np.where(patterns[:, i], 0.0, -below)
        key[layout[condition.key].features] = group.reshape(-1) == i
        if query.any():
            columns.add(query, key)


def _numbers(columns: Columns, condition: NumberCondition, below: float, alone: bool) -> None:
    beta = power_of_two(float(Fraction(below) / condition.apart**2))
    columns.add(2 * beta * columns.form(condition.query), columns.form(condition.key))
    columns.add(-beta * columns.one, columns.form(condition.key_square))
    if not alone:
        columns.add(columns.form(needed_square(condition)), -beta * columns.one)


def values(layout: Layout, node: Labels | Numbers, register: Register) -> Array:
    """W_V (m, v): what a key's registers hold, as the features that are written."""
    weights = np.zeros((layout.features, register.size))
    if isinstance(node, Labels):
        held, stands = layout.typed.root(node)
        weights[layout[held].features] = np.concatenate([encoded(register, label) for label in stands])
        return weights
    weights[:, 0] = Columns(layout).form(layout.typed.form(node))
    return weights


def encoded(register: Register, value: object) -> Array:
    """A value as its register holds it, (1, size)."""
    if register.labels is None:
        assert isinstance(value, int | Fraction)
        return np.array([[float(value)]])
    row = np.zeros((1, register.size))
    row[0, register.labels.place(value)] = 1.0
    return row


def written(layout: Layout, register: Register) -> Array:
    """W_O (v, m): to the register's features."""
    output = np.zeros((register.size, layout.features))
    output[:, register.features] = np.eye(register.size)
    return output


def _head(columns: Columns, value: Array, register: Register, constant: Array | None) -> Head:
    query, key = columns.matrices
    return Head(
        query=query,
        key=key,
        value=value,
        output=written(columns.layout, register),
        key_rows=Rows(),
        memory_keys=None if constant is None else columns.constant_key,
        memory_values=constant,
    )

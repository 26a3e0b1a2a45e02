r"""Features on a cell: what each is in exact arithmetic, how far the run may be from it, and sums of them.

A sum of k rounded products, added in any order, is off by at most $\gamma_k \sum |w||v|$, $\gamma_k = k u/(1 - k u)$.
A product by a power of two is exact unless it underflows, and a sum of one term is. What may leave the dtype's range is
not known: an infinite number times zero is no zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from flint import arb

from attnforge.certification.checker.rounding import SLACK, sum_of_products
from attnforge.certification.checker.space import Form, Space
from attnforge.certification.checker.taylor import Cell, Model
from attnforge.outward import Machine, gamma, upper


@dataclass(frozen=True, eq=False)
class Place:
    """A cell, the space it is cut from, and the dtype that runs."""

    space: Space
    cell: Cell
    machine: Machine


def anywhere(machine: Machine) -> Place:
    """A place without variables, for values known by their ranges only."""
    return Place(Space((), ()), Cell((), (), 0), machine)


class Value:
    """A feature: a linear form of the inputs or a model of the exact function, and ``off``, the run's distance from it.

    ``size`` bounds its absolute value in exact arithmetic, ``run`` contains the values of the run. Where the run may
    overflow, ``off`` is infinite.
    """

    __slots__ = ("form", "model", "off", "run", "size")

    def __init__(self, place: Place, content: Form | Model, off: float, run: arb | None = None) -> None:
        self.form = content if isinstance(content, Form) else None
        self.model = place.space.model(content, place.cell) if isinstance(content, Form) else content
        if isinstance(content, Form):
            self.model = place.cell.tight(self.model)
        span = self.model.over[0]
        self.size = 0.0 if span == 0 else upper(abs(span))
        self.off = off if self.size + off <= place.machine.largest else math.inf
        wide = span + arb(0, self.off)
        self.run = wide if run is None or self.off == math.inf else wide.intersection(run)


def input_rounding(machine: Machine, size: float) -> float:
    """Of an input up to a size: dtypes below float64 round it, the half types through float32: twice."""
    if machine.name == "float64":
        return 0.0
    return (machine.roundoff * (1 + 2.0**-10) * size + machine.underflow) * SLACK


def constant(place: Place, number: float) -> Value:
    """A number of the network."""
    return Value(place, Form({}, arb(number)), 0.0)


def between(place: Place, low: float, high: float) -> Value:
    """Any number of an interval, as the run has it."""
    return Value(place, place.cell.constant(arb(low).union(arb(high))), 0.0)


def combine(place: Place, values: Sequence[Value], weights: Sequence[float], shift: float = 0.0) -> Value:
    """Shift + sum of weights times values, and what computing it adds."""
    pairs = [(weight, value) for weight, value in zip(weights, values, strict=True) if weight != 0.0]
    finite = all(value.off < math.inf for value in values)
    if not pairs and finite:
        return constant(place, shift)
    content = _exact(place, pairs, shift)
    machine = place.machine
    moving = [(weight, value) for weight, value in pairs if value.size + value.off > 0]
    roundings = any(not (_is_power(weight) or is_simple(value)) for weight, value in moving) + max(len(moving) - 1, 0)
    roundings += bool(shift and moving)
    carried = sum(value.off * abs(weight) for weight, value in pairs)
    made = sum((value.size + value.off) * abs(weight) for weight, value in moving) + abs(shift)
    small = sum(not (_is_power(weight) and abs(weight) >= 1) for weight, _ in moving)  # products that may underflow
    lost = gamma(roundings, machine.roundoff) * made
    if roundings > 1:
        lost = min(lost, sum_of_products([arb(weight) * value.run for weight, value in moving], shift, machine))
    rounded = (lost + (roundings + small) * machine.underflow) * SLACK
    off = (carried + rounded) * SLACK if finite and made <= machine.largest else math.inf
    if isinstance(content, Form):
        return Value(place, content, off)
    run = sum((arb(weight) * value.run for weight, value in pairs), start=arb(shift, rounded))
    return Value(place, content, off, run)


def total(place: Place, values: Sequence[Value]) -> Value:
    """The sum of several values, in any order."""
    return values[0] if len(values) == 1 else combine(place, values, [1.0] * len(values))


def _exact(place: Place, pairs: Sequence[tuple[float, Value]], shift: float) -> Form | Model:
    forms = [value.form.times(arb(weight)) for weight, value in pairs if value.form is not None]
    if len(forms) == len(pairs):
        total = Form({}, arb(shift))
        for form in forms:
            total = total.plus(form)
        return total
    cell = place.cell
    parts = [value.model if weight == 1.0 else cell.scale(arb(weight), value.model) for weight, value in pairs]
    return cell.tight(cell.add(*parts, cell.constant(arb(shift))))


def _is_power(weight: float) -> bool:
    return abs(math.frexp(weight)[0]) == 0.5


def is_simple(value: Value) -> bool:
    """A constant that is zero or a power of two, and runs as such."""
    form = value.form
    if form is None or form.slopes or value.off or not form.constant.is_exact():
        return False
    number = float(form.constant)
    return number == 0.0 or _is_power(number)

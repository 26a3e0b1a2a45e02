r"""The registers written so far: which heads write them, from which forms, and where they can be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from attnforge.expression.evaluate import bounds
from attnforge.expression.intervals import UNDEFINED, Interval, is_undefined
from attnforge.expression.ranges import is_large, range_on
from attnforge.expression.tree import Node, variables
from attnforge.targets.graph import (
    UNFOLDED,
    Conditions,
    Step,
    canonical_on,
    common,
    conditioned,
    multiplied_out,
    natural,
    register,
    substituted,
)
from attnforge.theorems.graph.values import Value

Kind = Literal["row", "root", "multiplier", "exponential", "logistic", "gate"]


@dataclass(frozen=True, eq=False)
class Registered:
    """A step: which kind of head writes it, the forms that the head reads, and the ends of the range of the first.

    ``row``, ``root`` and ``logistic`` read one form; a ``multiplier`` u and v, its tree (u + shift) v; an
    ``exponential`` l and v, v exp(l); a ``gate`` one form, which it cuts off at ``ends``.
    """

    kind: Kind
    tree: Node
    forms: tuple[Node, ...]
    ends: tuple[float | None, float | None] = (None, None)


class Registers:
    """Those of inputs on a box, and of the steps written since; and which affine forms of them are whose products."""

    def __init__(self, inputs: int, box: Sequence[Interval], conditions: Conditions = ()) -> None:
        self.inputs, self.conditions = inputs, conditions
        self.steps: list[Registered] = []
        self.written: dict[Node, int] = {}
        self.factors: dict[Node, tuple[Node, Node]] = {}
        self.exact: dict[str, Node] = {register(i + 1).name: register(i + 1) for i in range(inputs)}
        self.sides = {register(i + 1).name: side for i, side in enumerate(box)}
        self.canonical = canonical_on(self.sides, conditions)
        self.ranges = dict(self.sides)
        self.seen_ranges: dict[Node, Interval] = {}

    def range(self, tree: Node) -> Interval:
        """Of an expression of registers, on the domain."""
        if tree not in self.seen_ranges:
            exact = substituted(tree, self.exact)
            many = len({*variables(tree)} - self.sides.keys()) > UNFOLDED or is_large(exact)
            found = UNDEFINED if many else range_on(self.canonical.simplified(exact), self.sides)
            found = bounds(tree, self.ranges) if is_undefined(found) else found
            self.seen_ranges[tree] = conditioned(found, exact, self.conditions)
        return self.seen_ranges[tree]

    def write(self, step: Registered) -> Value:
        """The register of a step, written once."""
        if step.tree not in self.written:
            number = self.inputs + 1 + len(self.steps)
            self.steps.append(step)
            self.written[step.tree] = number
            self.ranges[register(number).name] = self._range_of(step)
            self.exact[register(number).name] = substituted(multiplied_out(step.tree), self.exact)
        return self.at(self.written[step.tree])

    def at(self, number: int) -> Value:
        """The register of that number."""
        return Value(register(number), {number: 1.0}, True)

    def _range_of(self, step: Registered) -> Interval:
        """Of a register; of one form, along that. An argument of a root or an arc is where it can be taken."""
        known = Step.of(step.tree)
        if len(known.forms) > 1 and not is_undefined(whole := self.range(step.tree)):
            return whole
        inside = {name: self.range(form.tree) for name, form in known.forms.items()}
        return range_on(known.function, {n: common(each, natural(known.function, n)) for n, each in inside.items()})

    def exponential_of(self, name: str) -> Registered | None:
        """The step that writes a register, if that is a positive v exp(l)."""
        number = int(name[2:-1]) - self.inputs - 1
        step = self.steps[number] if number >= 0 else None
        if step is None or step.kind != "exponential":
            return None
        inside = [self.range(each) for each in (step.tree, step.forms[1])]
        return step if not any(is_undefined(each) or not each.lower > 0 for each in inside) else None

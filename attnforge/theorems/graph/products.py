r"""Products of powers of values: along one form a ridge, else in logarithms, or in pairs of affine factors."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from attnforge.errors import RefusalError
from attnforge.expression.intervals import is_undefined
from attnforge.expression.simplify import minus, of, plus, raised, times
from attnforge.expression.text import to_text
from attnforge.expression.tree import Apply, Constant, Node
from attnforge.theorems.graph.registers import Registered
from attnforge.theorems.graph.ridges import Ridges
from attnforge.theorems.graph.values import (
    Value,
    affine_value,
    constant,
    direction_of,
    exponential_part,
    grouped,
    number,
    power_of,
    scaled,
)
from attnforge.theorems.multiplier import factor_shift

Powers = Sequence[tuple[Value, Fraction]]

MOST_DYNAMIC = 1e4  # largest over smallest value of a factor whose logarithm is taken: rows of log reach that far


class Products:
    """Of values and their powers."""

    def __init__(self, ridges: Ridges) -> None:
        self.ridges, self.registers = ridges, ridges.registers

    def multiplied(self, scale: Node, factors: Powers) -> Value:
        """A constant times powers of values; a power of exponent 0 is 1, of zero too."""
        factors = [each for each in factors if each[1]]
        constants = (raised(value.tree, number(power)) for value, power in factors if value.constant)
        scale = times(scale, *constants)
        groups = grouped((each for each in factors if not each[0].constant), lambda each: each[0].direction)
        if len(groups) <= 1:
            return scaled(scale, along(groups[0])) if groups else constant(scale)
        plain, logs = list[Value](), list[Node]()
        for group in groups:
            scale = self._sorted(group, scale, plain, logs)
        if not logs:
            return scaled(scale, self._products(plain))
        exponent = plus(*logs)
        if not plain:
            return scaled(scale, Value(of("exp", exponent), direction_of(exponent), False))
        v = self._products(plain).tree
        step = Registered("exponential", times(v, of("exp", exponent)), (exponent, v))
        return scaled(scale, self.registers.write(step))

    def _sorted(self, group: Powers, scale: Node, plain: list[Value], logs: list[Node]) -> Node:
        """A factor goes to the affine ones, or its logarithm to the others; what is left of the scale."""
        whole = along(group)
        if whole.affine:
            plain.append(whole)
            return scale
        factor, exponent = exponential_part(whole.tree)
        if exponent is not None:
            logs.append(exponent)
            return times(scale, factor)
        within = self.registers.range(whole.tree)
        sign = 0 if is_undefined(within) else int(within.lower > 0) - int(within.upper < 0)
        ends = sorted((abs(within.lower), abs(within.upper)), key=float)
        if not sign or not ends[1] < MOST_DYNAMIC * ends[0]:
            plain.append(self.ridges.affine(whole))
            return scale
        base, power = group[0]
        if len(group) == 1 and base.affine and self.registers.range(base.tree).lower > 0:  # its logarithm may be shared
            logs.append(times(number(power), self.ridges.logarithm(base.tree)))
            return scale
        positive = whole.tree if sign > 0 else minus(whole.tree)
        logs.append(self.registers.write(self.ridges.row(_exponent(positive))).tree)
        return scale if sign > 0 else minus(scale)

    def _products(self, factors: Sequence[Value]) -> Value:
        """In pairs, so that the depth is logarithmic."""
        left = list(factors)
        while len(left) > 1:
            left = [self._product(*left[i : i + 2]) if i + 1 < len(left) else left[i] for i in range(0, len(left), 2)]
        return left[0]

    def _product(self, u: Value, v: Value) -> Value:
        r"""U v = (u + s) v - s v, where the head computes the first product (:mod:`attnforge.theorems.multiplier`)."""
        ranges = [self.registers.range(each.tree) for each in (u, v)]
        if any(is_undefined(each) for each in ranges):
            raise RefusalError("Factors of a product are bounded", to_text(u.tree)[:60], "Shrink the domain")
        radius = [float((each.upper - each.lower) / 2) for each in ranges]
        reach = [float(abs(each.lower).max(abs(each.upper))) for each in ranges]
        if radius[1] * reach[0] < radius[0] * reach[1]:
            u, v, ranges, radius = v, u, ranges[::-1], radius[::-1]
        low, high = float(ranges[0].lower), float(ranges[0].upper)
        shift = Constant(factor_shift(low, high))
        tree = Apply("*", (plus(u.tree, shift), v.tree))
        made = self.registers.write(Registered("multiplier", tree, (u.tree, v.tree), (low, high)))
        whole = plus(made.tree, times(minus(shift), v.tree)) if shift.value else made.tree
        self.registers.factors[whole] = u.tree, v.tree
        return affine_value(whole)


def _exponent(tree: Node) -> Node:
    """The logarithm of an expression."""
    return tree.arguments[0] if isinstance(tree, Apply) and tree.function == "exp" else of("log", tree)


def along(group: Powers) -> Value:
    """The product of powers along one form; constants are affine."""
    tree = times(*(power_of(value.tree, power) for value, power in group))
    affine = all(value.constant for value, _ in group) or (len(group) == 1 and group[0][0].affine and group[0][1] == 1)
    return Value(tree, group[0][0].direction, affine)

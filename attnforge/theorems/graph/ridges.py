r"""Sums and functions of values: what stays along one form waits, the rest is written down."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attnforge.anchors.panels import chebyshev_coefficients, lobatto
from attnforge.errors import RefusalError
from attnforge.expression.evaluate import evaluate
from attnforge.expression.intervals import is_undefined
from attnforge.expression.simplify import ONE, ZERO, of, plus, times
from attnforge.expression.tree import Apply, Constant, Node, bottom_up, variables
from attnforge.outward import lower, upper
from attnforge.targets.graph import Step, substituted
from attnforge.theorems.graph.registers import Registered, Registers
from attnforge.theorems.graph.values import (
    Value,
    affine_value,
    constant,
    direction_of,
    exponential_part,
    first_form,
    grouped,
    is_affine,
    multiple,
    negated,
    parallel,
    replaced,
    scaled,
)

LOGISTIC = ("tanh", "sigmoid", "silu")  # two keys each
NEAR = 0.999  # arguments of arcs beyond that are too near the end of their domain for a row
RESOLVED, UNRESOLVED = 1e-8, 1024  # of the largest coefficient: smaller ones do not count; degrees beyond that


class Ridges:
    """Functions of one form, and the rows, roots and logistic heads that write them."""

    def __init__(self, registers: Registers) -> None:
        self.registers = registers

    def sum(self, parts: Sequence[Value]) -> Value:
        """Ridges along one form add up to one; others are written down first, and the sum is affine."""
        affine = [part for part in parts if part.affine]
        ridges = grouped((part for part in parts if not part.affine), lambda part: part.direction)
        line = plus(*(part.tree for part in affine)) if affine else ZERO
        along = direction_of(line)
        if not ridges:
            return affine_value(line)
        whole = [Value(plus(*(part.tree for part in group)), group[0].direction, False) for group in ridges]
        if len(whole) == 1 and (not along or parallel(along, whole[0].direction)):
            return Value(plus(line, whole[0].tree), whole[0].direction, False)
        return affine_value(plus(line, *(self.affine(each).tree for each in whole)))

    def function(self, name: str, parts: Sequence[Value]) -> Value:
        """Of arguments along one form."""
        varying = [part for part in parts if not part.constant]
        if any(not parallel(varying[0].direction, part.direction) for part in varying[1:]):
            raise RefusalError("Functions of several arguments are taken of one form", f"{name} of several")
        return Value(Apply(name, tuple(part.tree for part in parts)), varying[0].direction, False)

    def arc(self, name: str, u: Value) -> Value:
        r"""Near one end of its domain by a root, $\arcsin u = \frac\pi2 - 2\arcsin\sqrt{(1 - u)/2}$."""
        within = self.registers.range(u.tree)
        above, below = bool(within.upper > NEAR), bool(within.lower < -NEAR)
        if above == below:
            return self.function(name, [u])
        sign = Constant(1.0 if above else -1.0)
        half, quarter = Constant(0.5), times(Constant(0.5), Apply("pi", ()))
        inner = self.sum([constant(half), scaled(times(Constant(-0.5), sign), self.affine(u))])
        arc = self.affine(self.function("asin", [self.function("sqrt", [inner])]))
        asin = self.sum([constant(times(sign, quarter)), scaled(times(Constant(-2.0), sign), arc)])
        if name == "asin":
            return asin
        return self.sum([constant(quarter), negated(asin)])

    def affine(self, value: Value) -> Value:
        """The value itself, or a multiple of a register in its place: one serves all multiples of a ridge."""
        if value.affine:
            return value
        scale, tree = multiple(value.tree)
        if tree in self.registers.written:
            return scaled(scale, self.registers.at(self.registers.written[tree]))
        factor, exponent = exponential_part(tree)
        if exponent is not None:
            step = Registered("exponential", of("exp", exponent), (exponent, ONE))
            return scaled(times(scale, factor), self.registers.write(step))
        inner = tree.arguments[0] if isinstance(tree, Apply) and tree.function in LOGISTIC else None
        if inner is not None and is_affine(inner):
            return scaled(scale, self.registers.write(Registered("logistic", tree, (inner,))))
        rooted = self._rooted(tree)
        if rooted is not None:
            return scaled(scale, self.affine(rooted))
        return scaled(scale, self.registers.write(self.row(tree)))

    def row(self, tree: Node) -> Registered:
        """Along its form; of a positive register v exp(l) rather along log(v) + l, where that takes half the keys."""
        row = Registered("row", tree, (first_form(tree),))
        (name, *others) = variables(tree)
        made = None if others else self.registers.exponential_of(name)
        if made is None:
            return row
        exponent, v = made.forms
        line = exponent if v == ONE else plus(exponent, self.logarithm(v))
        other = Registered("row", substituted(tree, {name: of("exp", line)}), (line,))
        return other if 2 * self._degree(other) <= self._degree(row) else row

    def logarithm(self, form: Node) -> Node:
        """Of a positive form, by one row; of a product of positive ones, the sum of theirs, which vary less."""
        factors = self.registers.factors.get(form, ())
        if factors and all(self.registers.range(each).lower > 0 for each in factors):
            return plus(*(self.logarithm(each) for each in factors))
        return self.registers.write(Registered("row", of("log", form), (form,))).tree

    def _degree(self, row: Registered) -> int:
        """Of a polynomial that follows a row to some digits: what its keys grow with."""
        within, known = self.registers.range(row.forms[0]), Step.of(row.tree)
        (name, *others) = known.forms
        if others or is_undefined(within):
            return UNRESOLVED
        for degree in (2**k for k in range(3, UNRESOLVED.bit_length() - 1)):
            at = lobatto(lower(within.lower), upper(within.upper), degree)
            sizes = np.abs(chebyshev_coefficients(np.asarray(evaluate(known.function, {name: at}))))
            if sizes[-2:].max() <= RESOLVED * sizes.max():
                return int(np.count_nonzero(sizes > RESOLVED * sizes.max()))
        return UNRESOLVED

    def _rooted(self, tree: Node) -> Value | None:
        """What is a function of a root that reaches 0, as one of a register: rows do not follow roots well there."""
        roots = {each for each in bottom_up(tree) if isinstance(each, Apply) and each.function == "sqrt"}
        if len(roots) != 1:
            return None
        (root,) = roots
        inner = root.arguments[0]
        if not is_affine(inner) or self.registers.range(inner).lower > 0:
            return None
        made = self.registers.write(Registered("root", root, (inner,)))
        rest = replaced(tree, root, made.tree)
        return Value(rest, made.direction, rest == made.tree) if variables(rest) == variables(made.tree) else None

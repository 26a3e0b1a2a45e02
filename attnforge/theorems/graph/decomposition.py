r"""A formula taken apart into registers: each step a function of one form, a product, v exp(l), or a kink.

Values on the way are expressions of registers of three kinds: constants, affine forms, and *ridges*, functions of one
form. Sums and multiples of affine forms are affine; functions, sums and products of ridges along one form are ridges
again, and become one row, however many operations they contain. Only where two forms meet is anything written down:
- a sum of ridges along different forms: each becomes a register, and the sum is affine;
- a product: factors along one form are one factor. Factors that are exponentials, or ridges that keep their sign and
  vary by no more than ``MOST_DYNAMIC``, add up in logarithms, $v\,e^{l}$; affine factors are multiplied in pairs.
  Where there is no affine factor the product is the ridge $e^{l}$ along l, and waits;
- a kink, of an affine form;
- a root of an affine form that reaches 0, and arcs that reach one end of their domain.
Roots and powers of products are products of powers where the factors are positive.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from attnforge.effort import check_time
from attnforge.expression.evaluate import evaluate
from attnforge.expression.intervals import Interval, is_undefined
from attnforge.expression.linear import COEFFICIENT_BITS
from attnforge.expression.simplify import ONE, of, raised, times
from attnforge.expression.tree import Apply, Constant, Node, Variable, bottom_up, variables
from attnforge.outward import precision
from attnforge.targets.graph import Conditions, Graph, register, substituted
from attnforge.theorems.graph.kinks import Kinks
from attnforge.theorems.graph.products import Products, along
from attnforge.theorems.graph.registers import Registered, Registers
from attnforge.theorems.graph.ridges import Ridges
from attnforge.theorems.graph.values import HALF, Value, constant, negated, number, parallel, rational, scaled

Factors = list[tuple[Node, Fraction]]


@dataclass(frozen=True, eq=False)
class Decomposition:
    """Steps in order, and outputs as affine expressions of registers; the graph says what they compute."""

    steps: tuple[Registered, ...]
    outputs: tuple[Node, ...]
    graph: Graph

    @property
    def layers(self) -> list[int]:
        """The layer of each step, from 1."""
        depth: dict[int, int] = defaultdict(int)
        for i, step in enumerate(self.graph.steps):
            read = [p for form in step.forms.values() for p in form.weights]
            depth[self.graph.inputs + 1 + i] = 1 + max((depth[p] for p in read), default=0)
        return [depth[self.graph.inputs + 1 + i] for i in range(len(self.steps))]


def decompose(
    trees: Sequence[Node], names: Sequence[str], box: Sequence[Interval], conditions: Conditions = ()
) -> Decomposition:
    """Registers for the expressions of named inputs on a box, where conditions on registers hold.

    >>> from flint import arb
    >>> from attnforge.expression.parse import parse
    >>> unit = Interval(arb(1), arb(2))
    >>> found = decompose([parse("x*y/sqrt(x^2 + z^2)")], ["x", "y", "z"], [unit] * 3)
    >>> [step.kind for step in found.steps]
    ['multiplier', 'row', 'row', 'row', 'exponential']
    """
    work = _Work(names, box, conditions)
    with precision(COEFFICIENT_BITS):
        outputs = [work.ridges.affine(work.value(tree)).tree for tree in trees]
    return work.finished(outputs)


class _Work:
    """Values of nodes so far."""

    def __init__(self, names: Sequence[str], box: Sequence[Interval], conditions: Conditions) -> None:
        self.box = list(box)
        self.inputs = {name: i + 1 for i, name in enumerate(names)}
        self.values: dict[int, Value] = {}
        self.kept: list[Node] = []  # so that no id is used twice
        self.registers = Registers(len(names), box, conditions)
        self.ridges = Ridges(self.registers)
        self.products, self.kinks = Products(self.ridges), Kinks(self.ridges)

    def value(self, tree: Node) -> Value:
        """What a node is, its arguments first."""
        for node in bottom_up(tree):
            if id(node) not in self.values:
                check_time("taking the formula apart")
                self.kept.append(node)
                self.values[id(node)] = self._visit(node)
        return self.values[id(tree)]

    def _visit(self, node: Node) -> Value:
        if isinstance(node, Constant):
            return constant(node)
        if isinstance(node, Variable):
            return self.registers.at(self.inputs[node.name])
        parts = [self.values[id(each)] for each in node.arguments]
        if all(part.constant for part in parts):
            return constant(Apply(node.function, tuple(part.tree for part in parts)))
        if node.function == "+":
            return self.ridges.sum(parts)
        if node.function == "-":
            return negated(parts[0])
        if node.function in ("*", "/", "sqrt", "^"):
            return self._power(node, parts)
        if node.function in ("abs", "relu", "min", "max", "clamp"):
            return self.kinks.kink(node.function, parts)
        if node.function in ("asin", "acos"):
            return self.ridges.arc(node.function, parts[0])
        if node.function == "log":
            return self._logarithm(node.arguments[0])
        if node.function == "atan2" and self._positive(node.arguments[1]):
            quotient = self.products.multiplied(ONE, [(parts[0], Fraction(1)), (parts[1], Fraction(-1))])
            return self.ridges.function("atan", [quotient])
        if node.function == "hypot":
            squares = [along([(part, Fraction(2))]) for part in parts]
            return self.ridges.function("sqrt", [self.ridges.sum(squares)])
        return self.ridges.function(node.function, parts)

    def _power(self, node: Apply, parts: Sequence[Value]) -> Value:
        if node.function == "^" and parts[0].constant and float(evaluate(parts[0].tree, {})) == 1:
            return constant(ONE)
        if node.function == "^" and not parts[1].constant:
            logarithm = (
                self.ridges.function("log", [parts[0]]) if not parts[0].constant else constant(of("log", parts[0].tree))
            )
            return self.ridges.function(
                "exp", [self.products.multiplied(ONE, [(parts[1], Fraction(1)), (logarithm, Fraction(1))])]
            )
        scale, factors = self._factors(node)
        return self.products.multiplied(scale, [(self.values[id(base)], power) for base, power in factors])

    def _factors(self, node: Node) -> tuple[Node, Factors]:
        """A constant, and bases with their exponents, as far down as products of powers go."""
        scale: Node = ONE
        found, closed, stack = Factors(), Factors(), [(node, Fraction(1))]
        while stack or closed:
            if not stack:
                each, power = closed.pop()
                others = [self.values[id(base)].direction for base, _ in found + closed]
                mine = self.values[id(each)].direction
                if any(parallel(mine, other) for other in others):
                    found.append((each, power))
                    continue
                inner = self._opened(each, power)
                if inner is None:
                    found.append((each, power))
                else:
                    stack.extend(reversed(inner))
                continue
            each, power = stack.pop()
            value = self.values.get(id(each))
            if isinstance(each, Constant) or (value is not None and value.constant):
                scale = times(scale, raised(each if value is None else value.tree, number(power)))
            elif each is not node and isinstance(each, Apply) and each.function in ("*", "/") and power != 1:
                closed.append((each, power))  # a power of a product: opened where nothing else follows its form
            else:
                inner = self._opened(each, power)
                if inner is None:
                    found.append((each, power))
                else:
                    stack.extend(reversed(inner))
        return scale, found

    def _opened(self, node: Node, power: Fraction) -> Factors | None:
        """The factors of a product of powers; of a broken power only where they are positive."""
        if not isinstance(node, Apply):
            return None
        if node.function == "*":
            inner = [(each, power) for each in node.arguments]
        elif node.function == "/":
            inner = [(node.arguments[0], power), (node.arguments[1], -power)]
        elif node.function == "-" and power.denominator == 1:
            return [(Constant(-1.0), power), (node.arguments[0], power)]
        elif node.function == "sqrt":
            inner = [(node.arguments[0], power * HALF)]
        elif node.function == "^" and (exponent := rational(node.arguments[1])) is not None:
            inner = [(node.arguments[0], power * exponent)]
        else:
            return None
        whole = all(each.denominator == 1 for _, each in inner)
        if node.function in ("*", "/") and whole:
            return inner
        if node.function in ("sqrt", "^") and whole and power.denominator == 1:
            return inner
        return inner if all(self._positive(base) for base, _ in inner) else (None if id(node) in self.values else inner)

    def _positive(self, node: Node) -> bool:
        value = self.values.get(id(node)) or self.value(node)
        within = self.registers.range(value.tree)
        return not is_undefined(within) and bool(within.lower > 0)

    def _logarithm(self, node: Node) -> Value:
        """Of a product of positive factors along several forms, the sum of theirs."""
        scale, factors = self._factors(node)
        values = [(self.values[id(base)], power) for base, power in factors]
        one = all(parallel(values[0][0].direction, value.direction) for value, _ in values[1:])
        within = self.registers.range(scale)
        if one or not within.lower > 0 or not all(self._positive(base) for base, _ in factors):
            return self.ridges.function("log", [self.values[id(node)]])
        parts = [scaled(number(power), self.ridges.function("log", [value])) for value, power in values]
        first = [] if scale == ONE else [constant(of("log", scale))]
        return self.ridges.sum([*first, *parts])

    def finished(self, outputs: Sequence[Node]) -> Decomposition:
        """Steps that lead to an output, numbered anew."""
        first, needed = len(self.inputs) + 1, set[str]()
        stack = [name for tree in outputs for name in variables(tree)]
        while stack:
            name = stack.pop()
            position = int(name[2:-1]) - first
            if name in needed or position < 0:
                continue
            needed.add(name)
            stack.extend(variables(self.registers.steps[position].tree))
        kept = [i for i in range(len(self.registers.steps)) if register(first + i).name in needed]
        names: dict[str, Node] = {register(first + old).name: register(first + new) for new, old in enumerate(kept)}
        steps = tuple(_renamed(self.registers.steps[i], names) for i in kept)
        final = tuple(substituted(tree, names) for tree in outputs)
        graph = Graph(self.box, [step.tree for step in steps], final, self.registers.conditions)
        return Decomposition(steps, final, graph)


def _renamed(step: Registered, names: dict[str, Node]) -> Registered:
    check_time("taking the formula apart")
    forms = tuple(substituted(form, names) for form in step.forms)
    return Registered(step.kind, substituted(step.tree, names), forms, step.ends)

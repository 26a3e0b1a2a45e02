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
from typing import Literal

import numpy as np

from attnforge.anchors.panels import chebyshev_coefficients, lobatto
from attnforge.balls import lower, precision, upper
from attnforge.effort import check_time
from attnforge.errors import RefusalError
from attnforge.targets.expression.canonical import Canonical
from attnforge.targets.expression.evaluate import bounds, evaluate
from attnforge.targets.expression.intervals import UNDEFINED, Interval, is_undefined
from attnforge.targets.expression.linear import COEFFICIENT_BITS
from attnforge.targets.expression.ranges import is_large, range_on
from attnforge.targets.expression.simplify import ONE, ZERO, minus, of, over, plus, raised, times
from attnforge.targets.expression.text import to_text
from attnforge.targets.expression.tree import Apply, Constant, Node, Variable, bottom_up, fold, variables, varies
from attnforge.targets.graph import UNFOLDED, Graph, Step, common, least, multiplied_out, natural, register, substituted
from attnforge.theorems.multiplier import factor_shift

Kind = Literal["row", "root", "multiplier", "exponential", "logistic", "gate"]
Factors = list[tuple[Node, Fraction]]

MOST_DYNAMIC = 1e4  # largest over smallest value of a factor whose logarithm is taken: rows of log reach that far
ALIKE = 1e-13  # two forms whose weights agree so far are one, as float64 weights have it
HALF = Fraction(1, 2)
LOGISTIC = ("tanh", "sigmoid", "silu")  # two keys each
NEAR = 0.999  # arguments of arcs beyond that are too near the end of their domain for a row
RESOLVED, UNRESOLVED = 1e-8, 1024  # of the largest coefficient: smaller ones do not count; degrees beyond that


@dataclass(frozen=True, eq=False)
class Value:
    """An expression of registers: constant (no direction), affine, or a function of one form along its direction."""

    tree: Node
    direction: dict[int, float]
    affine: bool

    @property
    def constant(self) -> bool:
        """Whether it reads no register."""
        return not self.direction


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


def decompose(trees: Sequence[Node], names: Sequence[str], box: Sequence[Interval]) -> Decomposition:
    """Registers for the expressions of named inputs on a box.

    >>> from flint import arb
    >>> from attnforge.targets.expression.parse import parse
    >>> unit = Interval(arb(1), arb(2))
    >>> found = decompose([parse("x*y/sqrt(x^2 + z^2)")], ["x", "y", "z"], [unit] * 3)
    >>> [step.kind for step in found.steps]
    ['multiplier', 'row', 'row', 'row', 'exponential']
    """
    work = _Work(names, box)
    with precision(COEFFICIENT_BITS):
        outputs = [work.affine(work.value(tree)).tree for tree in trees]
    return work.finished(outputs)


class _Work:
    """Values of nodes so far, and the registers written for them."""

    def __init__(self, names: Sequence[str], box: Sequence[Interval]) -> None:
        self.box = list(box)
        self.inputs = {name: i + 1 for i, name in enumerate(names)}
        self.values: dict[int, Value] = {}
        self.kept: list[Node] = []  # so that no id is used twice
        self.steps: list[Registered] = []
        self.written: dict[Node, int] = {}
        self.exact: dict[str, Node] = {register(i).name: register(i) for i in self.inputs.values()}
        self.sides = {register(i + 1).name: side for i, side in enumerate(box)}
        self.canonical = Canonical(lambda node: least(node, self.sides))
        self.ranges = dict(self.sides)
        self.seen_ranges: dict[Node, Interval] = {}

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
            return Value(node, {}, True)
        if isinstance(node, Variable):
            return self._register(self.inputs[node.name])
        parts = [self.values[id(each)] for each in node.arguments]
        if all(part.constant for part in parts):
            return Value(Apply(node.function, tuple(part.tree for part in parts)), {}, True)
        if node.function == "+":
            return self.sum(parts)
        if node.function == "-":
            return self.scaled(Constant(-1.0), parts[0])
        if node.function in ("*", "/", "sqrt", "^"):
            return self._power(node, parts)
        if node.function in ("abs", "relu", "min", "max", "clamp"):
            return self._kink(node.function, parts)
        if node.function in ("asin", "acos"):
            return self._arc(node.function, parts[0])
        if node.function == "log":
            return self._logarithm(node.arguments[0])
        if node.function == "atan2" and self._positive(node.arguments[1]):
            quotient = self._multiplied(ONE, [(parts[0], Fraction(1)), (parts[1], Fraction(-1))])
            return self._function("atan", [quotient])
        if node.function == "hypot":
            squares = [self._along([(part, Fraction(2))]) for part in parts]
            return self._function("sqrt", [self.sum(squares)])
        return self._function(node.function, parts)

    def range(self, tree: Node) -> Interval:
        """Of an expression of registers, on the domain."""
        if tree not in self.seen_ranges:
            exact = substituted(tree, self.exact)
            many = len({*variables(tree)} - self.sides.keys()) > UNFOLDED or is_large(exact)
            found = UNDEFINED if many else range_on(self.canonical.simplified(exact), self.sides)
            self.seen_ranges[tree] = bounds(tree, self.ranges) if is_undefined(found) else found
        return self.seen_ranges[tree]

    # --- sums and functions

    def scaled(self, factor: Node, value: Value) -> Value:
        """A constant times a value."""
        return Value(times(factor, value.tree), value.direction, value.affine)

    def sum(self, parts: Sequence[Value]) -> Value:
        """Ridges along one form add up to one; others are written down first, and the sum is affine."""
        ridges: list[list[Value]] = []
        affine = [part for part in parts if part.affine]
        for part in parts:
            if part.affine:
                continue
            group = next((group for group in ridges if _parallel(group[0].direction, part.direction)), None)
            if group is None:
                ridges.append([part])
            else:
                group.append(part)
        line = plus(*(part.tree for part in affine)) if affine else ZERO
        along = _direction(line)
        if not ridges:
            return _affine(line)
        whole = [Value(plus(*(part.tree for part in group)), group[0].direction, False) for group in ridges]
        if len(whole) == 1 and (not along or _parallel(along, whole[0].direction)):
            return Value(plus(line, whole[0].tree), whole[0].direction, False)
        return _affine(plus(line, *(self.affine(each).tree for each in whole)))

    def _function(self, name: str, parts: Sequence[Value]) -> Value:
        """Of arguments along one form."""
        varying = [part for part in parts if not part.constant]
        if any(not _parallel(varying[0].direction, part.direction) for part in varying[1:]):
            raise RefusalError("Functions of several arguments are taken of one form", f"{name} of several")
        return Value(Apply(name, tuple(part.tree for part in parts)), varying[0].direction, False)

    def _arc(self, name: str, u: Value) -> Value:
        r"""Near one end of its domain by a root, $\arcsin u = \frac\pi2 - 2\arcsin\sqrt{(1 - u)/2}$."""
        within = self.range(u.tree)
        above, below = bool(within.upper > NEAR), bool(within.lower < -NEAR)
        if above == below:
            return self._function(name, [u])
        sign = Constant(1.0 if above else -1.0)
        half, quarter = Constant(0.5), times(Constant(0.5), Apply("pi", ()))
        inner = self.sum([Value(half, {}, True), self.scaled(times(Constant(-0.5), sign), self.affine(u))])
        arc = self.affine(self._function("asin", [self._function("sqrt", [inner])]))
        asin = self.sum([Value(times(sign, quarter), {}, True), self.scaled(times(Constant(-2.0), sign), arc)])
        if name == "asin":
            return asin
        return self.sum([Value(quarter, {}, True), self.scaled(Constant(-1.0), asin)])

    def affine(self, value: Value) -> Value:
        """The value itself, or a multiple of a register in its place: one serves all multiples of a ridge."""
        if value.affine:
            return value
        scale, tree = _multiple(value.tree)
        if tree in self.written:
            return self.scaled(scale, self._register(self.written[tree]))
        factor, exponent = _exponential(tree)
        if exponent is not None:
            step = Registered("exponential", of("exp", exponent), (exponent, ONE))
            return self._scaled_register(times(scale, factor), step)
        inner = tree.arguments[0] if isinstance(tree, Apply) and tree.function in LOGISTIC else None
        if inner is not None and _is_affine(inner):
            return self._scaled_register(scale, Registered("logistic", tree, (inner,)))
        rooted = self._rooted(tree)
        if rooted is not None:
            return self.scaled(scale, self.affine(rooted))
        return self._scaled_register(scale, self._row(tree))

    def _row(self, tree: Node) -> Registered:
        """Along its form; of a positive register v exp(l) rather along log(v) + l, where that takes half the keys."""
        row = Registered("row", tree, (_first_form(tree),))
        (name, *others) = variables(tree)
        made = None if others else self._exponential_of(name)
        if made is None:
            return row
        exponent, v = made.forms
        line = exponent if v == ONE else plus(exponent, self._write(_logarithm(v)).tree)
        other = Registered("row", substituted(tree, {name: of("exp", line)}), (line,))
        return other if 2 * self._degree(other) <= self._degree(row) else row

    def _exponential_of(self, name: str) -> Registered | None:
        """The step that writes a register, if that is a positive v exp(l)."""
        number = int(name[2:-1]) - len(self.inputs) - 1
        step = self.steps[number] if number >= 0 else None
        if step is None or step.kind != "exponential":
            return None
        inside = [self.range(each) for each in (step.tree, step.forms[1])]
        return step if not any(is_undefined(each) or not each.lower > 0 for each in inside) else None

    def _degree(self, row: Registered) -> int:
        """Of a polynomial that follows a row to some digits: what its keys grow with."""
        within, known = self.range(row.forms[0]), Step.of(row.tree)
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
        if not _is_affine(inner) or self.range(inner).lower > 0:
            return None
        made = self._write(Registered("root", root, (inner,)))
        rest = _replaced(tree, root, made.tree)
        return Value(rest, made.direction, rest == made.tree) if variables(rest) == variables(made.tree) else None

    def _scaled_register(self, scale: Node, step: Registered) -> Value:
        return self.scaled(scale, self._write(step))

    def _write(self, step: Registered) -> Value:
        if step.tree not in self.written:
            number = len(self.inputs) + 1 + len(self.steps)
            self.steps.append(step)
            self.written[step.tree] = number
            self.ranges[register(number).name] = self._range_of(step)
            self.exact[register(number).name] = substituted(multiplied_out(step.tree), self.exact)
        return self._register(self.written[step.tree])

    def _register(self, number: int) -> Value:
        return Value(register(number), {number: 1.0}, True)

    def _range_of(self, step: Registered) -> Interval:
        """Of a register; of one form, along that. An argument of a root or an arc is where it can be taken."""
        known = Step.of(step.tree)
        if len(known.forms) > 1 and not is_undefined(whole := self.range(step.tree)):
            return whole
        inside = {name: self.range(form.tree) for name, form in known.forms.items()}
        return range_on(known.function, {n: common(each, natural(known.function, n)) for n, each in inside.items()})

    # --- products and powers

    def _power(self, node: Apply, parts: Sequence[Value]) -> Value:
        if node.function == "^" and not parts[1].constant:
            logarithm = (
                self._function("log", [parts[0]])
                if not parts[0].constant
                else Value(of("log", parts[0].tree), {}, True)
            )
            return self._function("exp", [self._multiplied(ONE, [(parts[1], Fraction(1)), (logarithm, Fraction(1))])])
        scale, factors = self._factors(node)
        return self._multiplied(scale, [(self.values[id(base)], power) for base, power in factors])

    def _factors(self, node: Node) -> tuple[Node, Factors]:
        """A constant, and bases with their exponents, as far down as products of powers go."""
        scale: Node = ONE
        found, closed, stack = Factors(), Factors(), [(node, Fraction(1))]
        while stack or closed:
            if not stack:
                each, power = closed.pop()
                others = [self.values[id(base)].direction for base, _ in found + closed]
                mine = self.values[id(each)].direction
                if any(_parallel(mine, other) for other in others):
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
                scale = times(scale, raised(each if value is None else value.tree, _number(power)))
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
        elif node.function == "^" and (exponent := _rational(node.arguments[1])) is not None:
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
        within = self.range(value.tree)
        return not is_undefined(within) and bool(within.lower > 0)

    def _logarithm(self, node: Node) -> Value:
        """Of a product of positive factors along several forms, the sum of theirs."""
        scale, factors = self._factors(node)
        values = [(self.values[id(base)], power) for base, power in factors]
        one = all(_parallel(values[0][0].direction, value.direction) for value, _ in values[1:])
        within = self.range(scale)
        if one or not within.lower > 0 or not all(self._positive(base) for base, _ in factors):
            return self._function("log", [self.values[id(node)]])
        parts = [self.scaled(_number(power), self._function("log", [value])) for value, power in values]
        constant = [] if scale == ONE else [Value(of("log", scale), {}, True)]
        return self.sum([*constant, *parts])

    def _along(self, group: Sequence[tuple[Value, Fraction]]) -> Value:
        """The product of powers along one form."""
        tree = times(*(_raised(value.tree, power) for value, power in group))
        affine = len(group) == 1 and group[0][0].affine and group[0][1] == 1
        return Value(tree, group[0][0].direction, affine)

    def _multiplied(self, scale: Node, factors: Sequence[tuple[Value, Fraction]]) -> Value:
        groups: list[list[tuple[Value, Fraction]]] = []
        for value, power in factors:
            if value.constant:
                scale = times(scale, raised(value.tree, _number(power)))
                continue
            group = next((each for each in groups if _parallel(each[0][0].direction, value.direction)), None)
            if group is None:
                groups.append([(value, power)])
            else:
                group.append((value, power))
        if len(groups) <= 1:
            return self.scaled(scale, self._along(groups[0])) if groups else Value(scale, {}, True)
        plain, logs = list[Value](), list[Node]()
        for group in groups:
            scale = self._sorted(group, scale, plain, logs)
        if not logs:
            return self.scaled(scale, self._products(plain))
        exponent = plus(*logs)
        if not plain:
            return self.scaled(scale, Value(of("exp", exponent), _direction(exponent), False))
        v = self._products(plain).tree
        step = Registered("exponential", times(v, of("exp", exponent)), (exponent, v))
        return self._scaled_register(scale, step)

    def _sorted(self, group: list[tuple[Value, Fraction]], scale: Node, plain: list[Value], logs: list[Node]) -> Node:
        """A factor goes to the affine ones, or its logarithm to the others; what is left of the scale."""
        whole = self._along(group)
        if whole.affine:
            plain.append(whole)
            return scale
        factor, exponent = _exponential(whole.tree)
        if exponent is not None:
            logs.append(exponent)
            return times(scale, factor)
        within = self.range(whole.tree)
        sign = 0 if is_undefined(within) else int(within.lower > 0) - int(within.upper < 0)
        ends = sorted((abs(within.lower), abs(within.upper)), key=float)
        if not sign or not ends[1] < MOST_DYNAMIC * ends[0]:
            plain.append(self.affine(whole))
            return scale
        base, power = group[0]
        if len(group) == 1 and base.affine and self.range(base.tree).lower > 0:  # its logarithm may be shared
            logs.append(times(_number(power), self._write(_logarithm(base.tree)).tree))
            return scale
        positive = whole.tree if sign > 0 else minus(whole.tree)
        logs.append(self._write(self._row(of("log", positive))).tree)
        return scale if sign > 0 else minus(scale)

    def _products(self, factors: Sequence[Value]) -> Value:
        """In pairs, so that the depth is logarithmic."""
        left = list(factors)
        while len(left) > 1:
            left = [self._product(*left[i : i + 2]) if i + 1 < len(left) else left[i] for i in range(0, len(left), 2)]
        return left[0]

    def _product(self, u: Value, v: Value) -> Value:
        r"""U v = (u + s) v - s v, where the head computes the first product (:mod:`attnforge.theorems.multiplier`)."""
        ranges = [self.range(each.tree) for each in (u, v)]
        if any(is_undefined(each) for each in ranges):
            raise RefusalError("Factors of a product are bounded", to_text(u.tree)[:60], "Shrink the domain")
        radius = [float((each.upper - each.lower) / 2) for each in ranges]
        reach = [float(abs(each.lower).max(abs(each.upper))) for each in ranges]
        if radius[1] * reach[0] < radius[0] * reach[1]:
            u, v, ranges, radius = v, u, ranges[::-1], radius[::-1]
        low, high = float(ranges[0].lower), float(ranges[0].upper)
        shift = Constant(factor_shift(low, high))
        tree = Apply("*", (plus(u.tree, shift), v.tree))
        made = self._write(Registered("multiplier", tree, (u.tree, v.tree), (low, high)))
        whole = plus(made.tree, times(minus(shift), v.tree)) if shift.value else made.tree
        return _affine(whole)

    # --- kinks

    def _kink(self, name: str, parts: Sequence[Value]) -> Value:
        flat = [self.affine(part) for part in parts]
        if name == "relu":
            return self._relu(flat[0])
        if name == "abs":
            twice = self.scaled(Constant(2.0), self._relu(flat[0]))
            return self.sum([twice, self.scaled(Constant(-1.0), flat[0])])
        if name == "clamp":
            return self._clamp(*flat)
        sign = Constant(1.0 if name == "max" else -1.0)
        first, *others = (self.scaled(sign, each) for each in flat)
        for other in others:
            first = self.sum([other, self._relu(self.sum([first, self.scaled(Constant(-1.0), other)]))])
        return self.scaled(sign, first)

    def _relu(self, u: Value) -> Value:
        within = self.range(u.tree)
        if not is_undefined(within) and within.lower >= 0:
            return u
        if not is_undefined(within) and within.upper <= 0:
            return Value(ZERO, {}, True)
        return self._write(Registered("gate", of("relu", u.tree), (u.tree,), (0.0, None)))

    def _clamp(self, u: Value, a: Value, b: Value) -> Value:
        plain = isinstance(a.tree, Constant) and isinstance(b.tree, Constant)
        if not plain:
            return self._kink("min", [self._kink("max", [u, a]), b])
        low, high = a.tree.value, b.tree.value  # type: ignore[union-attr]
        within = self.range(u.tree)
        if not is_undefined(within) and within.lower >= low and within.upper <= high:
            return u
        return self._write(Registered("gate", of("clamp", u.tree, a.tree, b.tree), (u.tree,), (low, high)))

    # --- the end

    def finished(self, outputs: Sequence[Node]) -> Decomposition:
        """Steps that lead to an output, numbered anew."""
        first, needed = len(self.inputs) + 1, set[str]()
        stack = [name for tree in outputs for name in variables(tree)]
        while stack:
            name = stack.pop()
            number = int(name[2:-1])
            if name in needed or number < first:
                continue
            needed.add(name)
            stack.extend(variables(self.steps[number - first].tree))
        kept = [i for i in range(len(self.steps)) if register(first + i).name in needed]
        names: dict[str, Node] = {register(first + old).name: register(first + new) for new, old in enumerate(kept)}
        steps = tuple(_renamed(self.steps[i], names) for i in kept)
        final = tuple(substituted(tree, names) for tree in outputs)
        return Decomposition(steps, final, Graph(self.box, [step.tree for step in steps], final))


def _renamed(step: Registered, names: dict[str, Node]) -> Registered:
    forms = tuple(substituted(form, names) for form in step.forms)
    return Registered(step.kind, substituted(step.tree, names), forms, step.ends)


def _replaced(tree: Node, part: Node, by: Node) -> Node:
    def visit(each: Node, parts: Sequence[Node]) -> Node:
        if each == part:
            return by
        return Apply(each.function, tuple(parts)) if isinstance(each, Apply) else each

    return fold(tree, visit)


def _logarithm(form: Node) -> Registered:
    return Registered("row", of("log", form), (form,))


def _exponential(tree: Node) -> tuple[Node, Node | None]:
    """A constant and an affine exponent, if that is what an expression is: c exp(l), or a power of it."""
    if not isinstance(tree, Apply):
        return tree, None
    if tree.function == "exp" and _is_affine(tree.arguments[0]):
        return ONE, tree.arguments[0]
    if tree.function == "-":
        scale, exponent = _exponential(tree.arguments[0])
        return minus(scale), exponent
    if tree.function == "*":
        varying = [each for each in tree.arguments if varies(each)]
        found = [_exponential(each) for each in varying]
        if all(exponent is not None for _, exponent in found):
            constants = [each for each in tree.arguments if not varies(each)]
            scale = times(*constants, *(factor for factor, _ in found))
            return scale, plus(*(exponent for _, exponent in found if exponent is not None))
    if tree.function == "^" and (power := _rational(tree.arguments[1])) is not None:
        scale, exponent = _exponential(tree.arguments[0])
        if exponent is not None and scale == ONE:
            return ONE, times(_number(power), exponent)
    return tree, None


def _multiple(tree: Node) -> tuple[Node, Node]:
    """A constant and the expression that it multiplies."""
    if isinstance(tree, Apply) and tree.function == "-":
        scale, rest = _multiple(tree.arguments[0])
        return minus(scale), rest
    factors = tree.arguments if isinstance(tree, Apply) and tree.function == "*" else (tree,)
    constants = [each for each in factors if not varies(each)]
    return times(*constants), times(*(each for each in factors if varies(each)))


def _raised(tree: Node, power: Fraction) -> Node:
    return of("sqrt", tree) if power == HALF else raised(tree, _number(power))


def _rational(node: Node) -> Fraction | None:
    """The number an exponent is, if it is one."""
    if isinstance(node, Constant):
        return Fraction(node.value)
    if isinstance(node, Apply) and node.function in ("-", "/"):
        parts = [_rational(each) for each in node.arguments]
        if all(part is not None for part in parts):
            numbers = [part for part in parts if part is not None]
            return -numbers[0] if len(numbers) == 1 else numbers[0] / numbers[1] if numbers[1] else None
    return None


def _number(power: Fraction) -> Node:
    whole = Constant(float(power))
    if Fraction(whole.value) == power:
        return whole
    return over(Constant(float(power.numerator)), Constant(float(power.denominator)))


def _is_affine(tree: Node) -> bool:
    return all(isinstance(each, Variable) for each in [Step.of(tree).function])


def _direction(tree: Node) -> dict[int, float]:
    """The weights of an affine expression."""
    step = Step.of(tree) if varies(tree) else None
    if step is None or not step.forms:
        return {}
    (form,) = step.forms.values()
    return {p: float(weight) for p, weight in form.weights.items()}


def _affine(tree: Node) -> Value:
    """An affine expression; refused where all of it cancels, since what is left is a number known to some digits."""
    along = _direction(tree)
    if varies(tree) and not along:
        raise RefusalError("Parts of a formula do not cancel", to_text(tree)[:80], "Simplify it")
    return Value(tree, along, True)


def _first_form(tree: Node) -> Node:
    """The first form of an expression along one."""
    return next(iter(Step.of(tree).forms.values())).tree


def _parallel(a: dict[int, float], b: dict[int, float]) -> bool:
    if not a or a.keys() != b.keys():
        return False
    pivot = max(a, key=lambda p: abs(a[p]))
    ratio = b[pivot] / a[pivot]
    return all(abs(b[p] - ratio * a[p]) <= ALIKE * abs(ratio * a[pivot]) for p in a)

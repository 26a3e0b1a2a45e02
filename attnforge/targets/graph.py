r"""Straight-line programs: registers that are formulas of registers before them, and how errors compose.

Register 0 is the constant 1, then come the inputs, then one register a step. A step is a function g of affine forms of
earlier registers, $r_n = g(a_1 \cdot r, a_2 \cdot r, \dots)$; outputs are affine forms of all of them.

**Errors.** A run has, in place of each $r_n$, a number that is off from $g(a \cdot \tilde r)$ by at most a local error
$\delta_n$. Let $G_n$ be the output as a function of registers 1..n, the later ones exact functions of these. Then
$$ |\text{run} - f| \le \sum_n \sup\Bigl|\frac{\partial G_n}{\partial r_n}\Bigr|\,\delta_n , $$
with the suprema over ranges that hold the exact registers and the run's: exact ranges widened by a forward bound of the
error. There is no second-order term. Derivatives of $G_n$ are products and sums along paths, by interval arithmetic
with signs, backwards. Where a step has no bounded slope on its range (a root at 0) it enters with its modulus of
continuity: what its arguments are off by, through the modulus, is added to its local error, and the sum starts there.

**Ranges** of forms are those of the expressions of the inputs that they are (:mod:`.expression.ranges`), on the whole
domain, and on parts of it where sums over paths are loose.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from flint import arb

from attnforge.effort import check_time
from attnforge.errors import TargetError
from attnforge.expression.canonical import Canonical
from attnforge.expression.derivative import derivative
from attnforge.expression.evaluate import bounds
from attnforge.expression.intervals import (
    UNDEFINED,
    Interval,
    absolute,
    add,
    from_ball,
    is_undefined,
    multiply,
)
from attnforge.expression.linear import COEFFICIENT_BITS
from attnforge.expression.ranges import is_large, least_on, range_on
from attnforge.expression.simplify import plus, times
from attnforge.expression.tree import Apply, Constant, Node, Variable, bottom_up, fold, variables
from attnforge.outward import lower as from_below
from attnforge.outward import precision, upper
from attnforge.targets.structure.ridge import linear, rewritten
from attnforge.targets.structure.summands import summands

Array = npt.NDArray[np.float64]

SLOPES = 24  # cells for the range of a slope
ENDS = 20  # bits of the ends between which it is taken, rounded outward: 0 and 1 stay where they are
UNFOLDED = 5  # registers in a form up to which it is put in terms of the inputs: in sums of more, little cancels
ROOTS, ARCS = ("sqrt",), ("asin", "acos")  # without a bounded slope at the ends of their domains
NOTHING = Interval(arb(0), arb(0))
SIGNLESS = Canonical(lambda node: -math.inf)  # forms of which no sign is known


def register(number: int) -> Variable:
    """The variable that stands for a register."""
    return Variable(f"r[{number}]")


def number_of(name: str) -> int:
    """The register that a variable stands for."""
    if not (name.startswith("r[") and name.endswith("]")):
        raise TargetError("Steps of a graph read registers r[i]", name, "Name inputs by their numbers")
    return int(name[2:-1])


def substituted(node: Node, values: Mapping[str, Node]) -> Node:
    """The expression with expressions in place of variables; what is shared stays shared."""

    def visit(each: Node, parts: Sequence[Node]) -> Node:
        if isinstance(each, Variable):
            return values.get(each.name, each)
        if not isinstance(each, Apply) or all(a is b for a, b in zip(parts, each.arguments, strict=True)):
            return each
        return plus(*parts) if each.function == "+" else Apply(each.function, tuple(parts))

    return fold(node, visit)


def multiplied_out(tree: Node) -> Node:
    """(c + u) v as u v + c v: what a step shifts a factor by is subtracted by the next, and cancels."""
    if not (isinstance(tree, Apply) and tree.function == "*" and len(tree.arguments) == 2):
        return tree
    u, v = tree.arguments
    shifts = [each for each in summands(u) if isinstance(each, Constant)]
    rest = [each for each in summands(u) if not isinstance(each, Constant)]
    return plus(times(plus(*rest), v), *(times(shift, v) for shift in shifts)) if shifts and rest else tree


@dataclass(frozen=True, eq=False)
class Form:
    """An affine form of registers: weights by their numbers, offset, and the expression that it is."""

    weights: dict[int, arb]
    offset: arb
    tree: Node

    @cached_property
    def arrays(self) -> tuple[npt.NDArray[np.int64], Array, Array]:
        """Places of the registers, from 0, and float64 numbers below and above their weights."""
        ends = [(from_below(weight.lower()), upper(weight.upper())) for weight in self.weights.values()]
        low, high = np.array(ends).reshape(-1, 2).T
        return np.array(list(self.weights), dtype=np.int64) - 1, low, high

    @classmethod
    def of(cls, node: Node) -> Form:
        """The form that an expression of registers is."""
        names = variables(node)
        form = linear(node, names)
        if form is None:
            raise TargetError("Outputs are affine forms of registers", "another expression")
        pairs = zip(names, form.weights, strict=True)
        return cls({number_of(name): weight for name, weight in pairs if not weight.is_zero()}, form.offset, node)


@dataclass(frozen=True, eq=False)
class Step:
    """A register as a function of affine forms, named y[0], y[1], ..; its slopes by them."""

    tree: Node
    function: Node
    forms: dict[str, Form]
    slopes: dict[str, Node] = field(default_factory=dict)

    @classmethod
    def of(cls, tree: Node) -> Step:
        """The maximal affine parts of an expression of registers are its forms."""
        parts: dict[str, Node] = {}
        with precision(COEFFICIENT_BITS):
            function = rewritten(tree, parts)
            forms = {name: Form.of(part) for name, part in parts.items()}
            function = _merged(function, forms)
        return cls(tree, function, forms, {name: derivative(function, name) for name in forms})


def _in_time(tree: Node) -> Step:
    """The step of a tree, while there is time."""
    check_time("reading registers")
    return Step.of(tree)


def _merged(function: Node, forms: dict[str, Form]) -> Node:
    """Forms that are exact multiples of the first, up to a constant, are written by it."""
    first, *others = sorted(forms, key=lambda name: not forms[name].weights) or [""]
    if not others or not forms[first].weights:
        return function
    lead, values = forms[first], dict[str, Node]()
    pivot = next(iter(lead.weights))
    for name in others:
        form = forms[name]
        slope = form.weights.get(pivot, arb(0)) / lead.weights[pivot]
        offset = form.offset - slope * lead.offset
        exact = slope.is_exact() and offset.is_exact() and arb(float(slope)) == slope and arb(float(offset)) == offset
        alike = form.weights.keys() == lead.weights.keys()
        if exact and alike and all((form.weights[p] - slope * w).is_zero() for p, w in lead.weights.items()):
            values[name] = plus(times(Constant(float(slope)), Variable(first)), Constant(float(offset)))
            del forms[name]
    return substituted(function, values)


@dataclass(frozen=True, eq=False)
class Composition:
    """Local errors, with what enters through moduli; errors in all; widened ranges of forms and of registers.

    ``bounded`` says of each step whether its ``slopes`` are; where not, they are undefined.
    """

    entered: list[float]
    errors: list[float]
    ranges: list[dict[str, Interval]]
    registers: list[Interval]
    bounded: list[bool]
    slopes: list[dict[str, Interval]]


Conditions = Sequence[tuple[Node, Interval]]
"""Expressions of registers, and where they are: what is assumed of the inputs beside their box."""


def conditioned(found: Interval, exact: Node, conditions: Conditions) -> Interval:
    """The range of an expression of the inputs where conditions on multiples of it hold."""
    for node, inside in conditions if not is_large(exact) else ():
        ratio = SIGNLESS.ratio(exact, node)
        if ratio is not None:
            found = common(found, multiply(inside, from_ball(arb(ratio.numerator) / ratio.denominator)))
    return found


def canonical_on(sides: Mapping[str, Interval], conditions: Conditions = ()) -> Canonical:
    """Forms of expressions on a box, where the conditions hold."""

    def lowest(node: Node) -> float:
        if conditions and (known := conditioned(UNDEFINED, node, conditions)).lower.is_finite():
            return max(least(node, sides), from_below(known.lower))
        return least(node, sides)

    return Canonical(lowest)


class Graph:
    """Steps and outputs over a box of inputs, where ``conditions`` hold.

    >>> from attnforge.expression.parse import parse
    >>> box = [Interval(arb(0), arb(1)), Interval(arb(1), arb(2))]
    >>> graph = Graph(box, [parse("sin(r[1] + r[2])"), parse("r[3]*r[2]")], [parse("2*r[4]")])
    >>> composed = graph.compose([0, 0, 1e-3, 0])
    >>> [round(each, 6) for each in graph.sensitivities(composed.slopes)][2:], round(composed.errors[3], 6)
    ([4.0, 2.0], 0.002)
    """

    def __init__(
        self, box: Sequence[Interval], steps: Sequence[Node], outputs: Sequence[Node], conditions: Conditions = ()
    ) -> None:
        self.box, self.conditions = list(box), conditions
        self.steps = list(map(_in_time, steps))
        self._slopes: tuple[list[arb], list[dict[str, Interval]]] | None = None
        with precision(COEFFICIENT_BITS):
            self.outputs = [Form.of(tree) for tree in outputs]

    @property
    def inputs(self) -> int:
        """How many."""
        return len(self.box)

    @cached_property
    def canonical(self) -> Canonical:
        """Forms of expressions of the inputs, which are enclosed on the domain."""
        sides = self.sides(self.box)
        return canonical_on(sides, self.conditions)

    @cached_property
    def exact(self) -> list[Node]:
        """Every register from the constant on, as an expression of the inputs."""
        known: dict[str, Node] = {}
        for i in range(self.inputs):
            known[register(i + 1).name] = register(i + 1)
        for i, step in enumerate(self.steps):
            known[register(self.inputs + 1 + i).name] = substituted(multiplied_out(step.tree), known)
        return list(known.values())

    def expression(self, tree: Node) -> Node:
        """An expression of registers as one of the inputs."""
        return self._tidied(self.unfolded(tree))

    def unfolded(self, tree: Node) -> Node:
        """An expression of registers as one of the inputs, as it is."""
        return substituted(tree, {register(i + 1).name: node for i, node in enumerate(self.exact)})

    def computed(self, form: Form) -> int:
        """How many registers a form reads beside inputs; of inputs alone, each of them once, intervals are exact."""
        return sum(p > self.inputs for p in form.weights)

    def _tidied(self, tree: Node) -> Node:
        """Small expressions without what cancels in them."""
        return tree if is_large(tree) else self.canonical.simplified(tree)

    def sides(self, box: Sequence[Interval]) -> dict[str, Interval]:
        """The box by the inputs' names."""
        return {register(i + 1).name: side for i, side in enumerate(box)}

    @cached_property
    def ranges(self) -> list[dict[str, Interval]]:
        """The exact ranges of all forms of all steps on the domain."""
        sides = self.sides(self.box)
        known = dict(sides)
        found = []
        with precision():
            for i, step in enumerate(self.steps):
                check_time("enclosing registers")
                mine = {}
                for name, form in step.forms.items():
                    mine[name] = _affine(form, known)
                    few = 0 < self.computed(form) <= UNFOLDED
                    if few and not is_large(exact := self.expression(form.tree)):
                        mine[name] = common(range_on(exact, sides), mine[name])
                    if self.conditions:
                        mine[name] = self.conditioned(mine[name], form.tree)
                    mine[name] = common(mine[name], natural(step.function, name))
                found.append(mine)
                known[register(self.inputs + 1 + i).name] = bounds(step.function, mine)
        return found

    def conditioned(self, found: Interval, tree: Node) -> Interval:
        """The range of an expression of registers where the conditions hold."""
        return conditioned(found, self.unfolded(tree), self.conditions)

    def compose(self, local: Sequence[float], box: Sequence[Interval] | None = None) -> Composition:
        """What local errors, of the inputs first, do to the outputs, on the domain or on a part of it."""
        with precision():
            return _compose(self, [arb(each) for each in local], self.box if box is None else list(box))

    def sensitivities(self, slopes: list[dict[str, Interval]], form: Form | None = None) -> list[float]:
        """The largest derivatives of a form, or of any output, by the inputs and all registers, for these slopes."""
        with precision():
            found = [_adjoint(self, slopes, each) for each in (self.outputs if form is None else [form])]
        return [float(each) for each in np.max(found, axis=0)]

    def slopes(self, local: list[arb]) -> list[dict[str, Interval]]:
        """On the whole domain, for these local errors; of the last ones asked for they are kept."""
        if self._slopes is None or self._slopes[0] != local:
            self._slopes = local, _compose(self, local, self.box).slopes
        return self._slopes[1]


def _compose(graph: Graph, local: list[arb], box: list[Interval]) -> Composition:
    whole = box == graph.box
    known = [] if whole else graph.slopes(local)
    sides = graph.sides(box)
    exact, errors, slopes, ranges, bounded = dict(sides), list(local[: graph.inputs]), [], [], []
    entered = list(local)
    for i, step in enumerate(graph.steps):
        check_time("composing registers")
        number = graph.inputs + i
        mine, off = {}, {}
        for name, form in step.forms.items():
            inside = graph.ranges[i][name]
            if not whole:
                here = common(inside, _affine(form, exact))
                inside = inside if here.lower > here.upper else here  # no point of this part meets the conditions
            mine[name] = inside
            off[name] = sum((abs(w) * errors[p - 1] for p, w in form.weights.items()), start=arb(0)).upper()
        wide = {name: _widened(mine[name], off[name]) for name in mine}
        tilt = {name: _slope(slope, wide, fine=whole) for name, slope in step.slopes.items()}
        if not whole:
            tilt = {name: common(each, known[i][name]) for name, each in tilt.items()}
        bounded.append(all(not is_undefined(each) and _largest(each).is_finite() for each in tilt.values()))
        if not bounded[-1]:
            entered[number] = (local[number] + modulus(step.function, mine, off)).upper()
            tilt, carried = dict.fromkeys(tilt, UNDEFINED), arb(0)
        else:
            carried = sum((_largest(tilt[name]) * off[name] for name in tilt), start=arb(0))
        errors.append((carried + entered[number]).upper())
        slopes.append(tilt)
        ranges.append(wide)
        exact[register(number + 1).name] = bounds(step.function, mine)
    return Composition(
        [upper(each) for each in entered],
        [upper(each) for each in errors],
        ranges,
        [_widened(inside, off) for inside, off in zip(exact.values(), errors, strict=True)],
        bounded,
        slopes,
    )


def _slope(slope: Node, ranges: Mapping[str, Interval], fine: bool) -> Interval:
    """The range of a slope: on parts of the domain by intervals alone."""
    if not fine:
        return bounds(slope, ranges)
    with precision(ENDS):
        wide = [(name, side.lower.lower(), side.upper.upper()) for name, side in ranges.items()]
    ends = tuple((name, float(low), float(high)) for name, low, high in wide)
    exact = all(arb(a) == low and arb(b) == high for (_, a, b), (_, low, high) in zip(ends, wide, strict=True))
    return _fine(slope, ends) if exact else range_on(slope, ranges, SLOPES)


@lru_cache(maxsize=4096)
def _fine(slope: Node, ends: tuple[tuple[str, float, float], ...]) -> Interval:
    """The range of a slope on cells; once for all units of a network, and all errors that move ends by little."""
    with precision():
        return range_on(slope, {name: Interval(arb(low), arb(high)) for name, low, high in ends}, SLOPES)


def _adjoint(graph: Graph, slopes: list[dict[str, Interval]], output: Form) -> Array:
    """The largest derivatives of a form; a step without a bounded slope passes nothing on: the sum starts there."""
    count = graph.inputs + len(graph.steps)
    low, high = np.zeros(count), np.zeros(count)
    for p, weight in output.weights.items():
        low[p - 1], high[p - 1] = from_below(weight.lower()), upper(weight.upper())
    for i in reversed(range(len(graph.steps))):
        mine = low[graph.inputs + i], high[graph.inputs + i]
        if mine == (0.0, 0.0):
            continue
        for name, form in graph.steps[i].forms.items():
            if is_undefined(slopes[i][name]):
                continue
            slope = from_below(slopes[i][name].lower), upper(slopes[i][name].upper)
            places, *weights = form.arrays
            more = _times(_times(mine, slope), weights)
            low[places] = np.nextafter(low[places] + more[0], -np.inf)
            high[places] = np.nextafter(high[places] + more[1], np.inf)
    return np.asarray(np.maximum(np.abs(low), np.abs(high)))


def _times(u: Sequence[Any], v: Sequence[Any]) -> tuple[Any, Any]:
    """The product of two intervals of float64 arrays, rounded outward."""
    products = np.stack(np.broadcast_arrays(*(a * b for a in u for b in v)))
    return np.nextafter(products.min(axis=0), -np.inf), np.nextafter(products.max(axis=0), np.inf)


def modulus(function: Node, ranges: Mapping[str, Interval], off: Mapping[str, arb]) -> arb:
    r"""How far a function may move where its arguments, within their ranges, are off by so much.

    From the leaves on, each part has a range and a bound of how far it may be off. Roots and arcs at the ends of their
    domains have no bounded slope there, but
    $$ |\sqrt a - \sqrt b| \le \sqrt{|a - b|}, \qquad |\arcsin a - \arcsin b| \le \tfrac\pi2\sqrt{2|a - b|} , $$
    the second since $\arccos(1 - t)/\sqrt{2t}$ rises from 1 at 0 to $\pi/2$ at 2; alike for the arc cosine. All others
    move by the largest slope that they have on their widened arguments. Infinite where one is not bounded.
    """

    def visit(node: Node, parts: Sequence[tuple[Interval, arb]]) -> tuple[Interval, arb]:
        if not isinstance(node, Apply):
            if isinstance(node, Variable):
                return ranges[node.name], off[node.name]
            return bounds(node, {}), arb(0)
        names = {f"a[{i}]": part for i, part in enumerate(parts)}
        inside = {name: part[0] for name, part in names.items()}
        plain = Apply(node.function, tuple(map(Variable, names)))
        value, (first, moved) = bounds(plain, inside), parts[0] if parts else (NOTHING, arb(0))
        if node.function in ROOTS and not first.lower > 0:
            return value, moved.sqrt().upper()
        if node.function in ARCS and not (first.lower > -1 and first.upper < 1):
            return value, (arb.pi() / 2 * (2 * moved).sqrt()).upper()
        wide = {name: _widened(*part) for name, part in names.items()}
        slopes = {name: bounds(derivative(plain, name), wide) for name in names}
        if any(is_undefined(slope) for name, slope in slopes.items() if not names[name][1].is_zero()):
            return value, arb.pos_inf()
        return value, sum((_largest(slopes[n]) * names[n][1] for n in names if not names[n][1].is_zero()), arb(0))

    return fold(function, visit)[1].upper()


def least(node: Node, ranges: Mapping[str, Interval]) -> float:
    """A lower bound of an expression, of its least value's sign if that can be told; minus infinity where none is."""
    with precision():
        found = least_on(node, ranges)
        return -math.inf if found.is_nan() else from_below(found)


def natural(function: Node, name: str) -> Interval:
    """Where a function can be taken: an exact argument of a root or an arc never leaves that, whatever bounds say."""
    for node in bottom_up(function):
        if isinstance(node, Apply) and node.arguments == (Variable(name),):
            if node.function in ROOTS:
                return Interval(arb(0), arb.pos_inf())
            if node.function in ARCS:
                return Interval(arb(-1), arb(1))
    return Interval(-arb.pos_inf(), arb.pos_inf())


def common(u: Interval, v: Interval) -> Interval:
    """Both intervals at once; where one is not known, the other."""
    if is_undefined(u):
        return v
    if is_undefined(v):
        return u
    return Interval(u.lower.max(v.lower), u.upper.min(v.upper))


def _affine(form: Form, known: Mapping[str, Interval]) -> Interval:
    """By the ranges of the registers."""
    parts = [multiply(known[register(p).name], from_ball(weight)) for p, weight in form.weights.items()]
    if any(is_undefined(part) for part in parts):
        return UNDEFINED
    return add(from_ball(form.offset), *parts)


def _widened(inside: Interval, off: arb) -> Interval:
    return inside if off.is_zero() else Interval((inside.lower - off).lower(), (inside.upper + off).upper())


def _largest(u: Interval) -> arb:
    return absolute(u).upper

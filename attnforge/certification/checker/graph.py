r"""Is the bound of a graph of registers true? Every head against the formula that it claims, then all of them together.

1. *Layout.* The first layer makes (1, inputs, zeros). A head writes one column, which nobody else writes, from columns
   of earlier layers; residuals keep them. So every column is, to the last bit, what its head writes.
2. *Heads.* The distance of each from its formula, for all registers that the run may have. Scores follow one form u; a
   second form v may be a factor of the value and of the formula. Then, at every u, the distance is largest at an end
   of v, where both are functions of one variable, on cells of it. Other forms are written by u or v up to what is left
   of them on the box of registers: nothing but roundings, where the claim is true.
3. *Composition*: :mod:`.registers`.
4. *Meaning.* The formulas, put into each other, have the terms of the target in canonical form; what coefficients
   differ by is charged. These forms (:mod:`attnforge.targets.expression.canonical`) are the prover's, too: what they
   say is tested at random points, by balls.

Where this does not end in the bound, heads are compared with their claims at points of the domain: a claim is false if
its head errs, for certain, by what moves the output there by more than the bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt
from flint import arb

from attnforge.balls import Machine, lower, machine, upper
from attnforge.certification.checker.formula import FormulaOn
from attnforge.certification.checker.heads import attend
from attnforge.certification.checker.layers import is_alone, one_map
from attnforge.certification.checker.questions import BeyondReachError
from attnforge.certification.checker.registers import (
    Registers,
    Step,
    UnknownError,
    register_of,
    size,
    widened,
)
from attnforge.certification.checker.rounding import SLACK
from attnforge.certification.checker.search import Box, Outcome, distance, exactly, middle, supremum, within
from attnforge.certification.checker.space import Form, Space
from attnforge.certification.checker.taylor import ONE, ZERO, Cell, Model, meet
from attnforge.certification.checker.values import Place, Value, anywhere, between, combine, constant
from attnforge.effort import check_time
from attnforge.errors import AttnforgeError, CertificateError
from attnforge.network import Attention, Head, Linear, Network
from attnforge.network.apply import apply_layer
from attnforge.targets import Formula
from attnforge.targets.expression import parse, to_text
from attnforge.targets.expression.canonical import Canonical
from attnforge.targets.expression.evaluate import evaluate
from attnforge.targets.expression.intervals import Interval, to_ball
from attnforge.targets.expression.simplify import plus, times
from attnforge.targets.expression.tree import Apply, Constant, Node, Variable, bottom_up, fold, variables

Array = npt.NDArray[np.float64]

ORDER, KINKED = 12, 4  # of expansions along a form: of smooth registers, and of those with kinks
REMAINS = 8.0  # roundoffs of what it writes, or of the argument of a kink: an error that need not be known better
KINKS = ("relu", "abs", "max", "min", "clamp")
HEAD_CELLS, BOXES = 600, 2000  # looked at for one head, and for all of them together
SHARE = 2.0**-10  # of the bound, for all heads: errors below need not be known better
POINTS, FEW = 64, 8  # at which heads are compared with claims, and claims put together with the target


@dataclass(frozen=True, eq=False)
class Written:
    """A head, the column that it writes, and the formula of registers that it claims."""

    head: Head
    column: int
    step: Step
    layer: int

    @property
    def text(self) -> str:
        """In words."""
        return f"r[{self.column}] = {to_text(self.step.tree)[:80]}"

    @cached_property
    def read(self) -> list[int]:
        """The registers it reads, or claims to."""
        used = np.any(self.head.query != 0, axis=1)
        for matrix in (self.head.key, self.head.value):
            used = used if matrix is None else used | np.any(matrix != 0, axis=1)
        return sorted({0, *np.flatnonzero(used).tolist(), *map(register_of, variables(self.step.tree))})

    def run(self, place: Place, row: Sequence[Value], negligible: float) -> Value:
        """What it writes; ``row`` has the registers that it reads."""
        head, rows = self.head, self.read
        parts = {name: getattr(head, name) for name in ("query", "key", "value")}
        some = {name: matrix[rows] for name, matrix in parts.items() if matrix is not None}
        mixed = attend(place, replace(head, **some), row, [] if head.key_rows is None else [row], negligible)
        return combine(place, mixed, head.output[:, self.column].tolist())


def is_graph(network: Network) -> bool:
    """Whether all heads add to registers, and claim formulas of them."""
    first, *middle, last = network.layers if len(network.layers) > 2 else (None, None, None)
    plain = isinstance(first, Linear) and isinstance(last, Linear) and network.tokens == 1
    adds = all(isinstance(layer, Attention) and layer.residual for layer in middle)
    return plain and adds and all(h.claims is not None and h.claims.formula for h in network.heads)


def compare_claims(
    network: Network, target: Formula, bound: float, dtype: str, cells: int, progress: Callable[[float], None]
) -> Outcome:
    """Whether the run stays within the bound, claim by claim; CertificateError where a claim is false."""
    graph = _Graph(network, target, machine(dtype))
    with exactly(2):
        reached, boxes = graph.reached(bound, min(cells, BOXES), progress)
        if reached <= bound:
            return Outcome("confirmed", reached, cells=boxes)
        graph.refute(bound)
    return Outcome("undecided", reached, cells=boxes)


def refute_claims(network: Network, target: Formula, bound: float, dtype: str) -> None:
    """CertificateError, naming the register, where a claim is false by more than the bound allows."""
    if is_graph(network):
        graph = _Graph(network, target, machine(dtype))
        with exactly(2):
            graph.refute(bound)


class _Graph:
    """Registers, and the heads that write them."""

    def __init__(self, network: Network, target: Formula, model: Machine) -> None:
        self.network, self.target, self.model = network, target, model
        self.written, weights = _layout(network)
        pairs = zip(target.domain.lower.tolist(), target.domain.upper.tolist(), strict=True)
        self.box = [Interval(arb(a), arb(b)) for a, b in pairs]
        self.weights = weights.T.tolist()
        self.outputs = [Form({p: arb(w) for p, w in enumerate(each) if p and w}, arb(each[0])) for each in self.weights]
        with exactly(2):
            self.registers = Registers(self.box, [each.step for each in self.written])

    def reached(self, bound: float, limit: int, progress: Callable[[float], None]) -> tuple[float, int]:
        """A bound of the run's distance from the target, and the boxes looked at."""
        apart = self._apart()
        if not apart < bound:
            return math.inf, 0
        local = self._local(bound, progress)
        if not all(each.is_finite() for each in local):
            return math.inf, 0
        try:
            found = self.registers.follow(self.box, local)
        except UnknownError:
            return math.inf, 0
        row = [_between(self.model, widened(v, off)) for v, off in zip(found.values, found.off, strict=True)]
        made = max(combine(anywhere(self.model), row, weights).off for weights in self.weights)
        rest = (apart + made) * SLACK
        domain = self.target.domain
        whole = tuple(domain.lower.tolist()), tuple(domain.upper.tolist())

        allowed = bound / SLACK - rest

        def judge(box: Box) -> tuple[float, float]:
            above = self._error(box, local)
            return above, 0.0 if above <= allowed else self._error((middle(box), middle(box)), local)

        composed = within(judge, whole, 2, allowed, limit)
        reached = composed.reached if composed.verdict == "confirmed" else math.inf
        return (reached + rest) * SLACK, composed.cells

    def _error(self, box: Box, local: Sequence[arb]) -> float:
        sides = [Interval(arb(a), arb(b)) for a, b in zip(*box, strict=True)]
        return self.registers.error(sides, local, self.outputs)

    def _local(self, bound: float, progress: Callable[[float], None]) -> list[arb]:
        """How far inputs and registers may be from what they are of the run's registers before them."""
        once, least = (ZERO, ZERO) if self.model.name == "float64" else map(arb, self._input_rounding())
        local = [(size(side) * once + least).upper() for side in self.box]
        local += [ZERO] * len(self.written)
        enough = self._enough(bound)
        for n, each in enumerate(self.written):
            check_time("checking registers")
            progress(n / (len(self.written) + 1))
            try:
                found = self.registers.follow(self.box, local, n)
                forms = [(self.registers.exact[n][k], found.off_of(f)) for k, f in enumerate(each.step.forms)]
            except UnknownError:
                return [arb.pos_inf()] * len(local)
            values = [to_ball(widened(v, off)) for v, off in zip(found.values, found.off, strict=True)]
            head = _Local(each, values, [widened(*form) for form in forms], self.model)
            local[len(self.box) + n] = arb(head.error(enough[n]))
        return local

    def _input_rounding(self) -> tuple[float, float]:
        """Of what is not float64, the half types through float32: relative, and where it underflows."""
        return self.model.roundoff * (1 + 2.0**-10), self.model.underflow

    def _enough(self, bound: float) -> list[float]:
        """Local errors that need not be known better: their share of the bound."""
        try:
            found = self.registers.follow(self.box, [ZERO] * (len(self.box) + len(self.written)))
        except UnknownError:
            return [0.0] * len(self.written)
        adjoints = [self.registers.sensitivities(found, output)[1 + len(self.box) :] for output in self.outputs]
        most = [max(upper(size(adjoint)) for adjoint in each) for each in zip(*adjoints, strict=True)]
        return [SHARE * bound / len(most) / max(each, 1e-300) for each in most]

    # meaning

    def _apart(self) -> float:
        """By how much the formulas put into each other may differ from the target."""
        forms, worst = Canonical(self._least), 0.0
        for tree, output in zip(self._targets(), self.outputs, strict=True):
            total = ZERO
            for coefficient, term in forms.difference(self._unfolded(output), tree):
                total = total + abs(coefficient) * self._largest(term)
            worst = max(worst, upper(total))
        self._test(worst)
        return worst

    def _test(self, apart: float) -> None:
        """CertificateError if the formulas put into each other are further from the target at a point."""
        for point in self._points()[:FEW]:
            values = {f"r[{i + 1}]": Form({}, arb(x)) for i, x in enumerate(point.tolist())}
            place = anywhere(self.model)
            for tree, output in zip(self._targets(), self.outputs, strict=True):
                both = [FormulaOn(values, place.space, place.cell)(each) for each in (tree, self._unfolded(output))]
                if lower(abs(both[0].at[0] - both[1].at[0])) > apart:
                    raise CertificateError("The registers put into each other are the target", f"not at {_at(point)}")

    def _points(self) -> Array:
        """At random."""
        domain, rng = self.target.domain, np.random.default_rng(0)
        return domain.lower + (domain.upper - domain.lower) * rng.random((POINTS, len(self.box)))

    def _targets(self) -> list[Node]:
        numbers: dict[str, Node] = {name: Variable(f"r[{i + 1}]") for i, name in enumerate(self.target.names)}
        return [_with(self.target.tree, numbers)]

    def _unfolded(self, output: Form) -> Node:
        """An output as a formula of the inputs."""
        trees: dict[str, Node] = {"r[0]": Constant(1.0)}
        for each in self.written:
            trees[f"r[{each.column}]"] = _with(each.step.tree, trees)
        terms = [times(Constant(float(w)), Variable(f"r[{p}]")) for p, w in output.slopes.items()]
        return _with(plus(Constant(float(output.constant)), *terms), trees)

    def _range(self, node: Node) -> Interval:
        alone = Registers(self.box, [Step(node)])
        return alone.follow(self.box, [ZERO] * (len(self.box) + 1)).values[-1]

    def _least(self, node: Node) -> float:
        try:
            return lower(self._range(node).lower)
        except UnknownError:
            return -math.inf

    def _largest(self, node: Node) -> arb:
        try:
            return size(self._range(node))
        except UnknownError:
            return arb.pos_inf()

    # claims at points

    def refute(self, bound: float) -> None:
        """CertificateError if a head errs by what moves the output by more than the bound."""
        points = self._points()
        state = points[:, None]
        with np.errstate(all="ignore"):
            for layer in self.network.layers[:-1]:
                state = apply_layer(layer, state)
            named = {f"r[{p}]": state[:, 0, p] for p in range(state.shape[-1])}
            for each in self.written:
                apart = np.abs(state[:, 0, each.column] - evaluate(each.step.tree, named))
                worst = int(np.argmax(np.where(np.isnan(apart), -1.0, apart)))
                seen = self._seen(each, state[worst, 0])
                if lower(seen * self._moved(points[worst], each.column)) > bound:
                    got = f"{each.text}: it is off by at least {float(seen):.3g} at {_at(points[worst])}"
                    raise CertificateError("Every head writes the formula that it claims", got, "Rebuild the network")

    def _seen(self, each: Written, registers: Array) -> arb:
        """By how much a head errs for certain, at these registers."""
        place = anywhere(self.model)
        output = each.run(place, [constant(place, float(registers[p])) for p in each.read], 0.0)
        inputs = {f"r[{p}]": Form({}, arb(float(registers[p]))) for p in each.read}
        claimed = FormulaOn(inputs, place.space, place.cell)(each.step.tree)
        below = lower(abs(output.model.at[0] - claimed.at[0])) - output.off
        return arb(max(below, 0.0))

    def _moved(self, point: Array, column: int) -> arb:
        """How much an output moves with a register, at least, at a point."""
        sides = [Interval(arb(x), arb(x)) for x in point.tolist()]
        try:
            found = self.registers.follow(sides, [ZERO] * (len(sides) + len(self.written)))
        except UnknownError:
            return ZERO
        adjoints = [self.registers.sensitivities(found, output)[column] for output in self.outputs]
        return max((arb(max(lower(abs(to_ball(each))), 0.0)) for each in adjoints), key=float)


def _with(node: Node, values: dict[str, Node]) -> Node:
    """The formula with formulas in place of variables."""

    def visit(each: Node, parts: Sequence[Node]) -> Node:
        if isinstance(each, Apply):
            return Apply(each.function, tuple(parts))
        return values.get(each.name, each) if isinstance(each, Variable) else each

    return fold(node, visit)


def _between(model: Machine, u: Interval) -> Value:
    return between(anywhere(model), lower(u.lower), upper(u.upper))


def _at(point: Array) -> str:
    return ", ".join(f"{x:.6g}" for x in point)


# --- layout


def _layout(network: Network) -> tuple[list[Written], Array]:
    """The heads in the order of their columns, and the weights (width, outputs) of the read-out."""
    first, *middle, last = network.layers
    inputs, width = network.features, 1 + network.features + len(network.heads)
    made, read = one_map(first), one_map(last)
    plain = made is not None and np.array_equal(made[0], np.eye(inputs, width, 1)) and read is not None
    if not plain or made is None or read is None or not np.array_equal(made[1], np.eye(1, width)[0]):
        raise BeyondReachError("Registers begin with 1 and the inputs, and are zero beyond", "others")
    if read[0].shape[0] != width or read[1].any():
        raise BeyondReachError("The outputs are weighted sums of the registers", "another read-out")
    written = [
        _written(head, depth)
        for depth, layer in enumerate(middle, start=1)
        if isinstance(layer, Attention)
        for head in layer.heads
    ]
    written.sort(key=lambda each: each.column)
    if [each.column for each in written] != list(range(1 + inputs, width)):
        raise BeyondReachError("Every register beside the inputs is written by one head", "another set of them")
    layers = dict.fromkeys(range(1 + inputs), 0) | {each.column: each.layer for each in written}
    for each in written:
        late = [p for p in each.read if not (p < each.column and layers.get(p, each.layer) < each.layer)]
        if late:
            raise BeyondReachError("A head reads what earlier layers write", f"{each.text} from {late}")
    return written, read[0]


def _written(head: Head, layer: int) -> Written:
    columns = np.flatnonzero(np.any(head.output != 0, axis=0))
    if len(columns) != 1 or not is_alone(head):
        raise BeyondReachError("A head reads its own token, and writes one register", "another head")
    assert head.claims is not None
    try:
        with exactly(2):
            step = Step(parse(head.claims.formula or ""))
    except AttnforgeError as reason:
        raise CertificateError(f"r[{columns[0]}] is a formula of registers", str(reason)[:80]) from None
    return Written(head, int(columns[0]), step, layer)


# --- heads


class _Plane(Space):
    """Registers in a box, by the form u, the variable of cells, and by the form v, a number."""

    def __init__(self, box: Sequence[arb], along: Form, across: Form | None, at: arb) -> None:
        self.box, self.along, self.across, self.at = box, along, across, at

    def written(self, form: Form, by: Form) -> tuple[arb, arb]:
        """Factor, and a ball around the rest: what is left of a form, less that multiple of another, on the box."""
        sizes = {p: upper(abs(self.box[p])) for p in by.slopes}
        square = sum(((w * sizes[p]) ** 2 for p, w in by.slopes.items()), start=ZERO)
        inner = sum((w * form.slopes.get(p, ZERO) * sizes[p] ** 2 for p, w in by.slopes.items()), start=ZERO)
        factor = (inner / square).mid() if square > 0 else ZERO
        left = form.plus(by.times(-factor))
        return factor, self._on_box(left)

    def _on_box(self, form: Form) -> arb:
        return sum((w * self.box[p] for p, w in form.slopes.items()), start=form.constant)

    def follows(self, form: Form) -> bool:
        """Whether it is rather written by u than by v."""
        if self.across is None or not form.slopes:
            return True
        return bool(self.written(form, self.along)[1].rad() <= self.written(form, self.across)[1].rad())

    def model(self, form: Form, cell: Cell) -> Model:
        """The form on a cell."""
        if not form.slopes:
            return cell.constant(form.constant)
        along = self.follows(form)
        factor, rest = self.written(form, self.along if along or self.across is None else self.across)
        by = cell.variable(0) if along else cell.constant(self.at)
        found, box = cell.add(cell.constant(rest), cell.scale(factor, by)), self._on_box(form)
        if along and box.overlaps(found.over[0]):  # at an end of v, what is written by v need not be in the box
            return replace(found, over=[meet(found.over[0], box), *found.over[1:]])
        return found


class _Local:
    """A head and its formula, for registers in ``box`` and forms in ``ranges``."""

    def __init__(self, written: Written, box: Sequence[arb], ranges: Sequence[Interval], model: Machine) -> None:
        self.written, self.box, self.model = written, box, model
        self.ranges = ranges
        factors: tuple[int, int | None] | None = self._factors()
        self.along, self.across = factors or (0, None)

    def _factors(self) -> tuple[int, int] | None:
        """The form u, that scores follow, and the form v, a factor of the formula that is nowhere else in it."""
        step, tree = self.written.step, self.written.step.tree
        factors = tree.arguments if isinstance(tree, Apply) and tree.function == "*" else ()
        for i, factor in enumerate(factors):
            rest = set().union(*map(step.read_by, factors[:i] + factors[i + 1 :]))
            if factor in step.places and len(rest) == 1 and step.places[factor][0] not in rest:
                v, u = step.places[factor][0], *rest
                if self._scores_follow(_Plane(self.box, step.forms[u], step.forms[v], ZERO)):
                    return u, v
        return None

    def _scores_follow(self, plane: _Plane) -> bool:
        """Whether queries and keys vary with u alone."""
        head = self.written.head
        columns = [*head.query.T.tolist(), *([] if head.key is None else head.key.T.tolist())]
        forms = [Form({p: arb(w) for p, w in enumerate(column) if p and w}, arb(column[0])) for column in columns]
        return all(plane.follows(form) for form in forms)

    def error(self, enough: float) -> float:
        """A bound of the distance between them, known well down to ``enough``; of a constant none is looked for."""
        if not self.ranges:
            return math.inf
        u = self.ranges[self.along]
        whole = (lower(u.lower),), (upper(u.upper),)
        kinked = any(isinstance(each, Apply) and each.function in KINKS for each in bottom_up(self.written.step.tree))
        try:
            reach = size(u if kinked else self.written.step.on(self.ranges)[0])
            least = REMAINS * self.model.roundoff * upper(reach)
            order, floor = (KINKED, least) if kinked else (ORDER, max(enough, least))
            return supremum(partial(self._on, order, floor / 64), whole, order, floor, HEAD_CELLS).reached
        except UnknownError:
            return math.inf

    def _on(self, order: int, negligible: float, box: Box) -> tuple[float, float]:
        """Bounds of the distance on a cell of u from above, and at its middle from below."""
        cell = Cell(*box, order)
        if self.across is None:
            return distance(cell, *self._both(cell, ZERO, negligible))
        v = self.ranges[self.across]
        output, _ = self._both(cell, to_ball(v), negligible)
        above, below = 0.0, 0.0
        for end in v:
            found, formula = self._both(cell, end, negligible)
            apart = cell.add(found.model, cell.scale(-ONE, formula))
            above = max(above, cell.largest(apart) + output.off)
            below = max(below, lower(abs(apart.at[0])) - found.off)
        return above * SLACK, below

    def _both(self, cell: Cell, at: arb, negligible: float) -> tuple[Value, Model]:
        forms, written = self.written.step.forms, self.written
        across = None if self.across is None else forms[self.across]
        place = Place(_Plane(self.box, forms[self.along], across, at), cell, self.model)
        inputs = {p: Form({p: ONE}, ZERO) if p else Form({}, ONE) for p in written.read}
        row = [Value(place, inputs[p], 0.0) for p in written.read]
        formula = FormulaOn({f"r[{p}]": form for p, form in inputs.items()}, place.space, cell)(written.step.tree)
        return written.run(place, row, negligible), formula

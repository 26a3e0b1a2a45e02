r"""Graphs of registers: every head proved by itself, from its numbers, and the errors composed.

The claims say which formula of which registers each head writes. Nothing of that is believed:
1. *Layout.* Register 0 is 1, the next are the inputs; a head writes one column that nobody else writes and that is zero
   before, reads columns of earlier layers only, and a residual keeps all of them. So every column is what its head
   writes, to the last bit.
2. *Heads.* For registers in the ranges that the run may reach, each head is within a local error of its formula, by an
   expansion along the one form that its scores follow (:mod:`.enclosure.one_input`), in exact arithmetic, plus what the
   dtype adds (:mod:`.enclosure.row_run`). A head whose own value varies with a second form v writes $A(u) + B(u) v$,
   and is compared with $\beta(u) v$: it errs by at most $\sup|A| + \sup|B - \beta|\,\sup|v|$. Kinks are gates
   (:mod:`.three_keys`).
3. *Composition* by interval adjoints on widened ranges (:mod:`attnforge.targets.graph`), cut where it is loose.
4. *Meaning.* The formulas, put into each other, are the target, up to the coefficients of the read-out: both have the
   same terms in canonical form (:mod:`attnforge.targets.expression.canonical`), and what coefficients differ by is
   charged with the range of the term.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from flint import arb, arb_mat

from attnforge.balls import Balls, Machine, Up, add_up, gamma, precision, upper
from attnforge.balls import lower as from_below
from attnforge.balls.branch_and_bound import Found, Rules, branch_and_bound
from attnforge.certification.anchored import Problem
from attnforge.certification.enclosure.affine_heads import AffineHead, one_token
from attnforge.certification.enclosure.one_input import READ, supremum
from attnforge.certification.enclosure.row_run import RowRun
from attnforge.certification.enclosure.run import evenly, rounding
from attnforge.certification.statement import Proof, Statement
from attnforge.certification.three_keys import bound_gate
from attnforge.effort import check_time
from attnforge.errors import AttnforgeError, CertificateError, RefusalError
from attnforge.network import Attention, Head, Linear, Network
from attnforge.targets import Formula, TruncatedForm
from attnforge.targets.expression import parse, to_text
from attnforge.targets.expression.canonical import Canonical
from attnforge.targets.expression.intervals import Interval, absolute, is_undefined
from attnforge.targets.expression.linear import COEFFICIENT_BITS
from attnforge.targets.expression.ranges import range_on
from attnforge.targets.expression.simplify import ONE, over, plus, times
from attnforge.targets.expression.tree import Apply, Constant, Node, Variable, variables
from attnforge.targets.formulas import Formulas
from attnforge.targets.graph import Composition, Form, Graph, Step, number_of, register, substituted

Array = npt.NDArray[np.float64]

NEGLIGIBLE = 0.01  # of a head's error in exact arithmetic: rounding below it is not told more closely
CLOSE = 1.3  # a composed bound may exceed what errors do at some point by this factor
NODES = 64  # a head on registers is looked at on so many times fewer intervals than a network of one form
CUTS = 300  # boxes of a proof of several inputs for one part of the domain on which errors are composed
LAYOUT = "A graph of registers is a map to (1, inputs, zeros), attention with residuals, and a read-out"
REMEDY = "Rebuild the network"


@dataclass(frozen=True, eq=False)
class Written:
    """A head that writes a column, the formula it claims, and its layer."""

    head: Head
    column: int
    tree: Node
    layer: int


def is_graph(network: Network) -> bool:
    """Whether heads add to registers, and each claims its formula; the only one of a network need not."""
    if len(network.layers) < 3:
        return False
    first, *middle, last = network.layers
    adds = all(isinstance(layer, Attention) and layer.residual for layer in middle)
    if not adds or not isinstance(first, Linear) or not isinstance(last, Linear) or network.tokens != 1:
        return False
    claimed = all(head.claims is not None and head.claims.formula for head in network.heads)
    return claimed or (len(network.heads) == 1 and last.terms[0].map is not None and last.terms[0].map.shape[1] == 1)


def prove_graph(statement: Statement) -> Proof:
    """``composition``: local errors of all heads, carried to the output; ``rounding``: those of the dtype."""
    run, box, model = statement.run, statement.domain, statement.machine
    written, read_out = _layout(run, statement.target)
    with precision(COEFFICIENT_BITS):
        outputs = [_output(read_out[:, k]) for k in range(read_out.shape[1])]
    sides = _sides(box.lower.ravel(), box.upper.ravel())
    graph = Graph(sides, [each.tree for each in written], outputs)
    fit, rounded = _local(graph, written, statement)
    apart = _apart(graph, statement.target, outputs)
    local = _added(fit, rounded)
    bound = _composed(graph, local, statement)
    exact = bound * _share(graph, fit, local)
    summed = _read(read_out, graph, local, model)
    rest = Up.of(float(np.nextafter(bound - exact, np.inf))) if math.isfinite(bound) else Up.of(0.0)
    return Proof({"composition": exact, "rounding": float(rest + Up.of(apart) + Up.of(summed))})


def _sides(lower: Array, upper_: Array) -> list[Interval]:
    return [Interval(arb(a), arb(b)) for a, b in zip(lower.tolist(), upper_.tolist(), strict=True)]


def _added(fit: Sequence[float], rounded: Sequence[float]) -> list[float]:
    return [add_up(a, b) for a, b in zip(fit, rounded, strict=True)]


# --- layout


def _layout(network: Network, target: object) -> tuple[list[Written], Array]:
    first, *middle, last = network.layers
    width = 1 + network.features + len(network.heads)
    if network.tokens != 1 or network.context is not None or not isinstance(first, Linear):
        raise CertificateError(LAYOUT, "another network", REMEDY)
    _check_first(first, network.features, width)
    weights = _read_out(last, width)
    written = [
        _written(head, depth, width, target, weights)
        for depth, layer in enumerate(middle, start=1)
        for head in _heads(layer)
    ]
    written.sort(key=lambda each: each.column)
    if [each.column for each in written] != list(range(1 + network.features, width)):
        raise CertificateError("Every column beside the inputs is written by one head", "another set", REMEDY)
    depths = dict.fromkeys(range(1 + network.features), 0) | {each.column: each.layer for each in written}
    for each in written:
        _check_reads(each, depths)
    return written, weights


def _check_first(layer: Linear, inputs: int, width: int) -> None:
    plain = len(layer.terms) == 1 and layer.terms[0].mix is None and layer.terms[0].map is not None
    constant = None if layer.constant is None else layer.constant
    if not plain or constant is None or constant.shape != (1, width):
        raise CertificateError(LAYOUT, "another first layer", REMEDY)
    made = np.zeros(0) if layer.terms[0].map is None else layer.terms[0].map
    if not np.array_equal(made, np.eye(inputs, width, 1)) or not np.array_equal(constant, np.eye(1, width)):
        raise CertificateError("Registers begin with 1 and the inputs, and are zero beyond", "others", REMEDY)


def _heads(layer: object) -> tuple[Head, ...]:
    if not isinstance(layer, Attention) or not layer.residual:
        raise CertificateError(LAYOUT, "another layer", REMEDY)
    return layer.heads


def _written(head: Head, depth: int, width: int, target: object, weights: Array) -> Written:
    columns = np.flatnonzero(np.any(head.output != 0, axis=0))
    alone = head.query_rows.indices is None and (head.key_rows is None or head.key_rows.kind == "own")
    if len(columns) != 1 or not alone or head.output.shape[1] != width:
        raise CertificateError("A head asks and reads its own token, and writes one register", "another", REMEDY)
    text = head.claims.formula if head.claims is not None else None
    if text is None:
        return Written(head, int(columns[0]), _left(target, weights, int(columns[0])), depth)
    try:
        tree = parse(text)
    except AttnforgeError as reason:
        raise CertificateError("A register is a formula of registers", str(reason)[:80], REMEDY) from None
    return Written(head, int(columns[0]), tree, depth)


def _left(target: object, weights: Array, column: int) -> Node:
    """What the only head must write where nothing is claimed: the target, without what is read from the inputs."""
    (tree,), names = _trees(target)
    inputs = substituted(tree, {name: register(i + 1) for i, name in enumerate(names)})
    others = np.where(np.arange(len(weights)) == column, 0.0, weights[:, 0])
    if not weights[column, 0]:
        raise CertificateError("The output reads the register that is written", "others", REMEDY)
    rest = plus(inputs, times(Constant(-1.0), _output(others)))
    return _CANONICAL.factored(over(rest, Constant(float(weights[column, 0]))))


def _check_reads(written: Written, depths: dict[int, int]) -> None:
    head = written.head
    used = np.any(head.query != 0, axis=1)
    for matrix in (head.key, head.value):
        used = used if matrix is None else used | np.any(matrix != 0, axis=1)
    numbers = [*np.flatnonzero(used).tolist(), *(number_of(name) for name in variables(written.tree))]
    late = [n for n in numbers if not (n < written.column and depths.get(n, written.layer) < written.layer)]
    if late or 0 in (number_of(name) for name in variables(written.tree)):
        got = f"register {written.column} from {sorted(set(late))}"
        raise CertificateError("A register is computed from earlier layers", got, REMEDY)


def _read_out(layer: object, width: int) -> Array:
    """Weights (m, k), the constant among those of register 0."""
    if not isinstance(layer, Linear) or len(layer.terms) != 1 or layer.terms[0].mix is not None:
        raise CertificateError(LAYOUT, "another read-out", REMEDY)
    weights = layer.terms[0].map
    if weights is None or weights.ndim != 2 or weights.shape[0] != width or layer.constant is not None:
        raise CertificateError(LAYOUT, "another read-out", REMEDY)
    return weights


def _output(weights: Array) -> Node:
    terms = [times(Constant(float(w)), register(p)) for p, w in enumerate(weights[1:], start=1) if w]
    return plus(Constant(float(weights[0])), *terms)


# --- meaning


def _apart(graph: Graph, target: object, outputs: Sequence[Node]) -> float:
    """By how much the formulas put into each other may differ from the target: what coefficients are rounded by."""
    trees, names = _trees(target)
    if len(trees) != len(outputs):
        raise CertificateError("The network writes the target's outputs", f"{len(outputs)}", REMEDY)
    inputs = {name: register(i + 1) for i, name in enumerate(names)}
    sides = graph.sides(graph.box)
    worst = 0.0
    with precision():
        for tree, output in zip(trees, outputs, strict=True):
            total = Up.of(0.0)
            for coefficient, term in graph.canonical.difference(graph.unfolded(output), substituted(tree, inputs)):
                within = range_on(term, sides)
                size = arb.pos_inf() if is_undefined(within) else absolute(within).upper
                total = total + Up.of(upper(abs(coefficient) * size))
            worst = max(worst, float(total))
    if not math.isfinite(worst):
        raise CertificateError("The registers put into each other are the target", "another formula", REMEDY)
    return worst


def _trees(target: object) -> tuple[tuple[Node, ...], tuple[str, ...]]:
    if isinstance(target, Formula):
        return (target.tree,), target.names
    if isinstance(target, Formulas):
        return tuple(target.trees), target.names
    raise CertificateError("A graph of registers is compared with formulas", type(target).__name__, REMEDY)


# --- heads


def _local(graph: Graph, written: Sequence[Written], statement: Statement) -> tuple[list[float], list[float]]:
    """Local errors of inputs and registers, layer by layer: in exact arithmetic, and by the dtype."""
    model = statement.machine
    rounded = [_input_rounding(side, model) for side in graph.box] + [0.0] * len(written)
    fit = [0.0] * len(rounded)
    for depth in range(1, max(each.layer for each in written) + 1):
        composed = graph.compose(_added(fit, rounded))
        for i, each in enumerate(written):
            if each.layer == depth:
                check_time("proving registers")
                number = graph.inputs + i
                fit[number], rounded[number] = _head(each, graph, composed, i, statement)
    return fit, rounded


def _input_rounding(side: Interval, model: Machine) -> float:
    if model.name == "float64":
        return 0.0
    return float(Up.of(upper(absolute(side).upper)) * (model.roundoff * (1 + 2.0**-10)) + Up.of(model.underflow))


def _head(written: Written, graph: Graph, composed: Composition, i: int, statement: Statement) -> tuple[float, float]:
    """How far a head may be from its formula, for registers as the run may have them."""
    ranges = composed.ranges[i]
    for name, inside in graph.ranges[i].items():
        reach, around = absolute(inside).upper + inside.upper - inside.lower, ranges[name]
        if not (around.upper - inside.upper <= reach):  # undefined ranges included
            got = f"r[{written.column}] = {to_text(written.tree)[:80]}"
            remedy = "Shrink the domain, or use a wider dtype"
            raise RefusalError("What a register reads is off by less than it is large", got, remedy)
    step = graph.steps[i]
    with precision(READ):
        small = _Small.of(written.head, written.column, step, composed.registers)
        if not step.forms:
            raise CertificateError("A register depends on others", to_text(written.tree)[:80], REMEDY)
        if small.exact.tilts and _is_gate(step.function):
            return _gate(small, step, statement.machine)
        if small.exact.tilts:
            return _product(small, step, ranges, statement)
        return _row(small, step, ranges, statement)


@dataclass(frozen=True, eq=False)
class _Small:
    """A head on the registers it reads, register 0 first: as a network, and its scores and values exactly."""

    head: Head
    numbers: list[int]
    exact: AffineHead
    low: Array
    high: Array

    @classmethod
    def of(cls, head: Head, column: int, step: Step, registers: Sequence[Interval]) -> _Small:
        used = np.any(head.query != 0, axis=1)
        for matrix in (head.key, head.value):
            used = used if matrix is None else used | np.any(matrix != 0, axis=1)
        read = {int(p) for p in np.flatnonzero(used)} | {p for form in step.forms.values() for p in form.weights}
        numbers = [0, *sorted(read - {0})]
        maps = {name: getattr(head, name) for name in ("query", "key", "value")}
        some = {name: matrix[numbers] for name, matrix in maps.items() if matrix is not None}
        small = replace(head, **some, output=head.output[:, [column]], claims=None)
        ends = [registers[p - 1] for p in numbers[1:]]
        low = np.array([1.0, *(from_below(end.lower) for end in ends)])
        high = np.array([1.0, *(upper(end.upper) for end in ends)])
        return cls(small, numbers, one_token(small), low, high)

    @property
    def network(self) -> Network:
        return Network((Attention((self.head,)),), len(self.numbers), 1)

    def sizes(self) -> list[arb]:
        """The largest value of each register that varies."""
        return [arb(max(abs(a), abs(b))) for a, b in zip(self.low[1:], self.high[1:], strict=True)]

    def weights(self, form: Form) -> list[arb]:
        return [form.weights.get(p, arb(0)) for p in self.numbers[1:]]


class _Along:
    """The direction of one form: other linear functions as multiples of it, and how much is beside it."""

    def __init__(self, small: _Small, form: Form) -> None:
        self.weights, self.offset, self.sizes = small.weights(form), form.offset, small.sizes()
        moves = [float(abs(w) * s) for w, s in zip(self.weights, self.sizes, strict=True)]
        self.pivot = int(np.argmax(moves))

    def split(self, weights: Sequence[arb], offset: arb) -> tuple[arb, arb]:
        """Slope * form + the ball that is returned second."""
        slope = weights[self.pivot] / self.weights[self.pivot]
        beside = arb(0)
        for i, (weight, own, size) in enumerate(zip(weights, self.weights, self.sizes, strict=True)):
            if i != self.pivot:
                beside += abs(weight - slope * own) * size
        radius = arb(upper(beside))
        return slope, offset - slope * self.offset + (-radius).union(radius)


def _scores(small: _Small, along: _Along) -> tuple[list[arb], list[arb]]:
    head = small.exact
    inputs = range(head.slopes.nrows())
    pairs = [along.split([head.slopes[i, k] for i in inputs], head.offsets[0, k]) for k in range(head.slopes.ncols())]
    return [slope for slope, _ in pairs], [offset for _, offset in pairs]


def _row(small: _Small, step: Step, ranges: dict[str, Interval], statement: Statement) -> tuple[float, float]:
    """A function of one form by constant values."""
    name, form = next(iter(step.forms.items()))
    along = _Along(small, form)
    slopes, offsets = _scores(small, along)
    p = len(slopes)
    values = [small.exact.values[k, 0] for k in range(p)]
    head = AffineHead(arb_mat(1, p, slopes), arb_mat(1, p, offsets), arb_mat(p, 1, values))
    lines = {each: along.split(small.weights(other), other.offset) for each, other in step.forms.items()}
    lines[name] = arb(1), arb(0)
    low, high = from_below(ranges[name].lower), upper(ranges[name].upper)
    fit = supremum((head,), _extended(step.function), lines, low, high, cells=statement.effort.intervals // NODES).bound
    added = _rounding(small, (head,), [low], [high], fit, statement.machine)
    return fit, added


def _product(small: _Small, step: Step, ranges: dict[str, Interval], statement: Statement) -> tuple[float, float]:
    """A function of one form times another, by an own value that follows the second."""
    found = []
    for u, v in ((u, v) for u in step.forms for v in step.forms if u != v):
        beta = substituted(step.function, {v: ONE})
        if len(step.forms) == 2 and _CANONICAL.same(step.function, times(beta, Variable(v))):
            along, across = _Along(small, step.forms[u]), _Along(small, step.forms[v])
            scores = _scores(small, along)
            found.append((max(float(offset.rad()) for offset in scores[1]), beta, (u, v), along, across, scores))
    if found:
        _, beta, names, along, across, scores = min(found, key=lambda each: each[0])  # the form that scores follow
        return _factors(small, beta, names, along, across, scores, ranges, statement)
    raise CertificateError("A head whose own value varies is a product", to_text(step.tree)[:80], REMEDY)


def _factors(
    small: _Small, beta: Node, names: tuple[str, str], along: _Along, across: _Along,
    scores: tuple[list[arb], list[arb]], ranges: dict[str, Interval], statement: Statement,
) -> tuple[float, float]:  # fmt: skip
    (slopes, offsets), p = scores, len(scores[0])
    tilts = {k: [tilt[i, 0] for i in range(tilt.nrows())] for k, tilt in small.exact.tilts}
    rates, rests = [], []
    for k in range(p):
        tilt = tilts.get(k, [arb(0)] * (len(small.numbers) - 1))
        rate, rest = across.split(tilt, small.exact.values[k, 0])
        rates.append(rate)
        rests.append(rest)
    u, v = names
    ends = [(from_below(ranges[name].lower), upper(ranges[name].upper)) for name in (u, v)]
    found, left = (
        supremum(
            (AffineHead(arb_mat(1, p, slopes), arb_mat(1, p, offsets), arb_mat(p, 1, values)),), wanted,
            {u: (arb(1), arb(0))}, *ends[0], cells=statement.effort.intervals // NODES,
        ).bound
        for values, wanted in ((rates, beta), ([arb(upper(abs(rest))) for rest in rests], Constant(0.0)))
    )  # fmt: skip
    fit = float(Up.of(found) * Up.of(max(map(abs, ends[1]))) + Up.of(left))
    both = AffineHead(
        arb_mat(2, p, [*slopes, *[arb(0)] * p]),
        arb_mat(1, p, offsets),
        arb_mat(p, 1, rests),
        tuple((k, arb_mat(2, 1, [arb(0), rate])) for k, rate in enumerate(rates) if not rate.is_zero()),
    )
    low, high = (list(end) for end in zip(*ends, strict=True))
    return fit, _rounding(small, (both,), low, high, fit, statement.machine)


def _rounding(
    small: _Small, heads: tuple[AffineHead, ...], low: list[float], high: list[float], fit: float, model: Machine
) -> float:
    run = RowRun(small.network, 0, 0, (small.low, small.high), heads, model)
    return rounding(run, *evenly(np.array(low), np.array(high)), NEGLIGIBLE * fit)


def _is_gate(function: Node) -> bool:
    return isinstance(function, Apply) and function.function in ("relu", "clamp")


def _gate(small: _Small, step: Step, model: Machine) -> tuple[float, float]:
    """A kink, by the lemma of gates; where the formula has no end, one beyond all values stands for it."""
    function = step.function
    name, *others = step.forms
    ends = [] if not isinstance(function, Apply) else function.arguments[1:]
    plain = isinstance(function, Apply) and function.arguments[0] == Variable(name)
    if others or not plain or not all(isinstance(end, Constant) for end in ends):
        raise CertificateError("A kink is one of a form at numbers", to_text(step.tree)[:80], REMEDY)
    numbers = [end.value for end in ends if isinstance(end, Constant)]
    form = step.forms[name]
    weights = [form.offset, *small.weights(form)]
    mid = np.array([[float(w.mid()) for w in weights]])
    reach = float(np.abs(mid[0]) @ np.maximum(np.abs(small.low), np.abs(small.high)))
    a, b = numbers or (0.0, 2 * reach + 1.0)
    rad = np.array([[upper(abs(w - arb(float(m)))) for w, m in zip(weights, mid[0], strict=True)]])
    truncated = TruncatedForm(Balls(mid, rad), Balls.exact(np.zeros(1)), Balls.exact(a), Balls.exact(b))
    box = small.low[None], small.high[None]
    parts = bound_gate(Problem((), (small.head,), truncated, *box, 0, model, exact_inputs=True))
    return float(Up.of(parts["spacing"]) + Up.of(parts["leakage"])), parts["rounding"]


def _extended(function: Node) -> Node:
    """The formula beyond the ends of its natural domain, which the exact argument never leaves: as at the end."""
    if not isinstance(function, Apply):
        return function
    arguments = tuple(_extended(each) for each in function.arguments)
    if function.function == "sqrt":
        return Apply("sqrt", (Apply("relu", arguments),))
    if function.function in ("asin", "acos"):
        return Apply(function.function, (Apply("clamp", (*arguments, Constant(-1.0), ONE)),))
    return Apply(function.function, arguments)


_CANONICAL = Canonical(lambda node: False)


# --- composition


def _composed(graph: Graph, local: Sequence[float], statement: Statement) -> float:
    """The bound of all outputs, on parts of the domain where it is loose on the whole."""
    box = statement.domain
    widths = np.maximum(box.upper - box.lower, np.finfo(np.float64).tiny).ravel()

    def look(lower: Array, upper_: Array, _: object) -> Found:
        bound, seen, axes = [], [], []
        for low, high in zip(lower, upper_, strict=True):
            middle = low / 2 + high / 2
            bound.append(max(graph.compose(local, _sides(low, high)).bounds))
            seen.append(max(graph.compose(local, _sides(middle, middle)).bounds))
            axes.append(int(np.argmax((high - low) / widths)))
        return Found.of(np.array(bound), np.array(seen), axes)

    rules = Rules(CLOSE, max(1, statement.effort.boxes // CUTS), batch=1)
    return branch_and_bound(look, box.lower.reshape(1, -1), box.upper.reshape(1, -1), rules).bound


def _share(graph: Graph, fit: Sequence[float], local: Sequence[float]) -> float:
    """The part of a bound that is due to errors in exact arithmetic, about."""
    shares = graph.compose(local).shares
    total, mine = sum(shares), sum(s * f / q for s, f, q in zip(shares, fit, local, strict=True) if q)
    return min(1.0, mine / total) if total and math.isfinite(total) else 1.0


def _read(read_out: Array, graph: Graph, local: Sequence[float], model: Machine) -> float:
    """What the read-out's products and their sums round, at most."""
    registers = graph.compose(local).registers
    sizes = np.array([1.0, *(upper(absolute(each).upper) for each in registers)])
    terms = np.count_nonzero(read_out, axis=0)
    mass = np.abs(read_out).T @ sizes * (1 + 2.0**-40)
    return max(
        float(Up.of(m) * gamma(int(k), model.roundoff) + Up.of(k * model.underflow))
        for m, k in zip(mass, terms, strict=True)
    )

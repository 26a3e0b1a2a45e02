r"""Graphs of registers: every head proved by itself, from its numbers, and the errors composed.

The claims say which formula of which registers each head writes. Nothing of that is believed:
1. *Layout* (:mod:`.layout`): every column is what its head writes, to the last bit. Or registers are directions of the
   stream (:mod:`.directions`), whatever its basis: then what a run makes of reading them is noise in each head.
2. *Heads* (:mod:`.heads`): for registers in the ranges that the run may reach, each is within a local error of its
   formula.
3. *Composition* by adjoints (:mod:`.blocks`), slopes taken on widened ranges (:mod:`attnforge.targets.graph`), on
   parts of the domain where it is loose.
4. *Meaning.* The formulas, put into each other, are the target, up to the coefficients of the read-out: both have the
   same terms in canonical form (:mod:`attnforge.expression.canonical`), and what coefficients differ by is
   charged with the range of the term.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from flint import arb

from attnforge.certification.certificate import LocalBound
from attnforge.certification.graph.blocks import Blocks
from attnforge.certification.graph.directions import Directions
from attnforge.certification.graph.heads import beyond, extended, local_error
from attnforge.certification.graph.layout import REMEDY, Columns, formulas_of, output_of, read_columns, trees_of
from attnforge.certification.statement import Proof, Statement
from attnforge.effort import check_time
from attnforge.errors import CertificateError
from attnforge.expression import evaluate, to_text
from attnforge.expression.evaluate import bounds
from attnforge.expression.intervals import UNDEFINED, Interval, absolute, is_undefined
from attnforge.expression.linear import COEFFICIENT_BITS
from attnforge.expression.ranges import is_large, range_on
from attnforge.expression.simplify import ONE, minus, plus
from attnforge.expression.tree import Apply, Constant, Node, Variable, bottom_up, fold, varies
from attnforge.kernel.rounding import power_of_two
from attnforge.network import Network
from attnforge.outward import Machine, Up, add_up, gamma, precision, upper
from attnforge.outward import lower as from_below
from attnforge.outward.branch_and_bound import Found, Rules, branch_and_bound
from attnforge.targets.defined import has_values
from attnforge.targets.graph import Composition, Form, Graph, least, register, substituted

Array = npt.NDArray[np.float64]

ROOM = 2.0**-10  # of the bound, added: who adds roundings up in another way, as the checker does, confirms it
CLOSE = 1.3  # a composed bound may exceed what errors do at some point by this factor
CUTS = 300  # boxes of a proof of several inputs for one part of the domain on which errors are composed
BATCH = 4  # parts cut at once: with more, some are cut in vain
NEGLIGIBLE = 0.01  # of the bound: roundings below it are not told more closely
SHRINK = "Shrink the domain, or write the formula so that it is seen"
LINKS = 256  # weights of a graph up to which that is so; of larger ones there are fewer parts


def prove_graph(statement: Statement) -> Proof:
    """``composition``: local errors of all heads, carried to the output; ``rounding``: those of the dtype."""
    run, box, model = statement.run, statement.domain, statement.machine
    layout = _layout(run, statement.target, model)
    read_out = layout.read_out
    with precision(COEFFICIENT_BITS):
        outputs = [output_of(read_out[:, k]) for k in range(read_out.shape[1])]
    sides = _sides(box.lower.ravel(), box.upper.ravel())
    target = formulas_of(statement.target)
    graph = Graph(sides, [each.tree for each in layout.written], outputs, target.conditions_on_registers)
    assumed = _check_defined(graph, statement.target)
    fit, rounded = _local(graph, layout, statement)
    apart = _apart(graph, statement.target, outputs)
    local = _added(fit, rounded)
    bound = _composed(graph, local, rounded, statement)
    whole = graph.compose(local)
    exact = bound * _share(Blocks(graph).errors([whole], rounded).values[0])
    summed = _summed(layout, graph, whole, bound, model)
    rest = Up.of(float(np.nextafter(bound - exact, np.inf))) if math.isfinite(bound) else Up.of(0.0)
    made = (rest + Up.of(apart) + Up.of(summed)) * (1 + ROOM) + Up.of(exact) * ROOM
    parts = {"composition": exact, "rounding": float(made)}
    registers, sensitivities = _registers(graph, whole, local), Up.of(graph.sensitivities(whole.slopes))
    at_once = ((sensitivities * whole.entered).sum() + Up.of(apart) + Up.of(summed)) * (1 + ROOM)
    linear = (float(at_once), tuple(sensitivities.values[: graph.inputs].tolist())) if all(whole.bounded) else None
    return Proof(parts, "conditional" if assumed else "proved", assumed, registers=registers, linear=linear)


def _check_defined(graph: Graph, target: object) -> tuple[str, ...]:
    """Refuse roots and arcs of what may leave their domain, unless the target takes the same: where it has a value.

    What is then not known to stay there is returned, in words. Of all else the target takes, values on the whole domain
    are proved: forms that cancel, as of exp(log(u)), sqrt(u)^2 and u/u, are the same function only where both have one.
    """
    trees, names = trees_of(target)
    inputs, sides = {name: register(i + 1) for i, name in enumerate(names)}, graph.sides(graph.box)
    known = [each for tree in trees for node in bottom_up(substituted(tree, inputs)) for each in _not_negative(node)]
    found, roots = dict[str, None](), list[Node]()
    for step in graph.steps:
        check_time("proving registers")
        for wanted in (each for node in bottom_up(step.tree) for each in _not_negative(node)):
            exact = graph.unfolded(wanted)
            roots.append(exact)
            if _is_not_negative(exact, sides) or graph.conditioned(UNDEFINED, wanted).lower >= 0:
                continue
            taken = next((each for each in known if graph.canonical.multiple(exact, each)), None)
            if taken is None:
                got = to_text(step.tree)[:80]
                raise CertificateError("Registers are formulas that the whole domain has values of", got, REMEDY)
            named = substituted(taken, {register(i + 1).name: Variable(name) for i, name in enumerate(names)})
            found[f"the formula has values where {to_text(named)[:80]} >= 0, and the bound is about these points"] = (
                None
            )

    def is_taken(root: Node) -> bool:
        return _is_not_negative(root, sides) or any(graph.canonical.multiple(root, each) for each in roots)

    for tree in trees:
        if not has_values(_beyond(substituted(tree, inputs), graph, is_taken), sides):
            got = f"none is known of {to_text(tree)[:80]}"
            raise CertificateError("A proof is about a target that has a value everywhere on the domain", got, SHRINK)
    return tuple(found)


def _beyond(tree: Node, graph: Graph, is_taken: Callable[[Node], bool]) -> Node:
    """The formula, extended beyond the natural domains of those of its roots and arcs whose arguments are taken.

    And where conditions do not hold: what they bound from below is cut off there.
    """

    def visit(node: Node, parts: Sequence[Node]) -> Node:
        if not isinstance(node, Apply):
            return node
        same, wanted = Apply(node.function, tuple(parts)), _not_negative(node)
        if wanted and all(map(is_taken, wanted)):
            return beyond(same)
        least_known = graph.conditioned(UNDEFINED, node).lower if graph.conditions else UNDEFINED.lower
        return Apply("max", (same, Constant(from_below(least_known)))) if least_known.is_finite() else same

    return fold(tree, visit)


def _is_not_negative(node: Node, sides: dict[str, Interval]) -> bool:
    """By intervals, which know squares, or by ranges, which know what cancels."""
    plain = extended(node)
    with precision():
        return bool(bounds(plain, sides).lower >= 0) or least(plain, sides) >= 0


def _not_negative(node: Node) -> list[Node]:
    """What must not be negative for a root, a broken power or an arc to be taken."""
    if not isinstance(node, Apply):
        return []
    first = node.arguments[0] if node.arguments else ONE
    if node.function in ("asin", "acos"):
        return [plus(ONE, minus(first)), plus(ONE, first)]
    broken = node.function == "^" and not varies(node.arguments[1]) and evaluate(node.arguments[1], {}) % 1 != 0
    return [first] if node.function == "sqrt" or broken else []


def _registers(graph: Graph, whole: Composition, local: Sequence[float]) -> tuple[LocalBound, ...]:
    """What each register adds, on the whole domain at once: shares of a bound that cuts may have lessened."""
    sensitivities = graph.sensitivities(whole.slopes)
    shares = [size * own for size, own in zip(sensitivities, whole.entered, strict=True)]
    total = sum(shares)
    return tuple(
        LocalBound(
            register(n + 1).name,
            from_below(whole.registers[n].lower),
            upper(whole.registers[n].upper),
            local[n],
            sensitivities[n],
            shares[n] / total if total and math.isfinite(total) else 0.0,
        )
        for n in range(graph.inputs, len(local))
    )


def _sides(lower: Array, upper_: Array) -> list[Interval]:
    return [Interval(arb(a), arb(b)) for a, b in zip(lower.tolist(), upper_.tolist(), strict=True)]


def _added(fit: Sequence[float], rounded: Sequence[float]) -> list[float]:
    return [add_up(a, b) for a, b in zip(fit, rounded, strict=True)]


def _apart(graph: Graph, target: object, outputs: Sequence[Node]) -> float:
    """By how much the formulas put into each other may differ from the target: what coefficients are rounded by."""
    trees, names = trees_of(target)
    if len(trees) != len(outputs):
        raise CertificateError("The network writes the target's outputs", f"{len(outputs)}", REMEDY)
    inputs = {name: register(i + 1) for i, name in enumerate(names)}
    sides = graph.sides(graph.box)
    worst = 0.0
    with precision():
        for tree, output in zip(trees, outputs, strict=True):
            total = Up.of(0.0)
            for coefficient, term in graph.canonical.difference(graph.unfolded(output), substituted(tree, inputs)):
                within = range_on(extended(term), sides)
                size = arb.pos_inf() if is_undefined(within) else absolute(within).upper
                total = total + Up.of(upper(abs(coefficient) * size))
            worst = max(worst, float(total))
    if not math.isfinite(worst):
        raise CertificateError("The registers put into each other are the target", "another formula", REMEDY)
    return worst


def _layout(run: Network, target: object, model: Machine) -> Columns | Directions:
    """Where registers are: in columns of their own, or else along directions."""
    try:
        return read_columns(run, target)
    except CertificateError as reason:
        try:
            return Directions(run, target, model)
        except CertificateError:
            raise reason from None


def _local(graph: Graph, layout: Columns | Directions, statement: Statement) -> tuple[list[float], list[float]]:
    """Local errors of inputs and registers, layer by layer: in exact arithmetic, and by the dtype."""
    model, count = statement.machine, len(layout.written)
    rounded = [float(model.cast(Up.of(upper(absolute(side).upper)))) for side in graph.box] + [0.0] * count
    fit = [0.0] * len(rounded)
    for i, (exact, made) in enumerate(formulas_of(statement.target).off):
        fit[i], rounded[i] = exact, add_up(made, rounded[i])
    for depth in range(1, max((each.layer for each in layout.written), default=0) + 1):
        composed = graph.compose(_added(fit, rounded))
        for column, each in sorted(layout.on_registers(depth, composed.registers).items()):
            check_time("proving registers")
            i = column - 1 - graph.inputs
            fit[column - 1], rounded[column - 1] = local_error(each, graph, composed, i, statement)
    return fit, rounded


def _composed(graph: Graph, local: Sequence[float], rounded: Sequence[float], statement: Statement) -> float:
    """The bound of all outputs, on parts of the domain where it is loose on the whole."""
    box, blocks = statement.domain, Blocks(graph)
    widths = np.maximum(box.upper - box.lower, np.finfo(np.float64).tiny).ravel()

    def look(lower: Array, upper_: Array, _: object) -> Found:
        middle = lower / 2 + upper_ / 2
        ends = zip(np.concatenate([lower, middle]), np.concatenate([upper_, middle]), strict=True)
        parts = [graph.compose(local, _sides(low, high)) for low, high in ends]
        bound, seen = np.split(blocks.errors(parts, rounded).sum().most(-1).values, 2)
        return Found.of(bound, seen, ((upper_ - lower) / widths).argmax(axis=1))

    links = sum(len(form.weights) for step in graph.steps for form in step.forms.values())
    parts = statement.effort.boxes // (CUTS * math.ceil(max(1, links) / LINKS))
    rules = Rules(CLOSE, max(1, parts), BATCH)
    return branch_and_bound(look, box.lower.reshape(1, -1), box.upper.reshape(1, -1), rules).bound


def _share(errors: Array) -> float:
    """The part of errors (k, 2) that is due to exact arithmetic, where they are largest."""
    exact, made = errors[errors.sum(axis=1).argmax()].tolist()
    total = exact + made
    return exact / total if total and math.isfinite(total) else 1.0


def _summed(
    layout: Columns | Directions, graph: Graph, whole: Composition, bound: float, model: Machine
) -> float:  # fmt: skip
    """What a run of the read-out adds to the error of the registers."""
    if isinstance(layout, Columns):
        return _read(layout.read_out, graph, whole, bound, model)
    return float(layout.read_out_noise(whole.registers).most())


def _read(read_out: Array, graph: Graph, whole: Composition, bound: float, model: Machine) -> float:
    """What the read-out's products and their sums round, at most; by powers of two, and of the constant 1, nothing.

    The last sum errs by a unit of the output, the others by one of all products together.
    """
    sizes = np.array([1.0, *(upper(absolute(each).upper) for each in whole.registers)])
    found = []
    for weights, output in zip(read_out.T, graph.outputs, strict=True):
        products, terms = Up.of(np.abs(weights)) * sizes, int(np.count_nonzero(weights))
        inexact = products * np.where(power_of_two(weights), 0.0, 1.0)
        before, last = inexact[1:].sum() + products.sum() * max(terms - 2, 0), products.sum() * min(terms - 1, 1)
        unit = Up.of(gamma(1, model.roundoff)) * (1 + gamma(terms, model.roundoff))
        if float(last * unit) > NEGLIGIBLE * bound:
            last = last.least(Up.of(_largest(graph, output)) + bound)
        found.append(float((before + last) * unit + terms * model.underflow))
    return max(found)


def _largest(graph: Graph, output: Form) -> float:
    """Of an output in exact arithmetic; infinite where its expression says nothing."""
    exact = graph.expression(output.tree)
    within = UNDEFINED if is_large(exact) else range_on(extended(exact), graph.sides(graph.box))
    return math.inf if is_undefined(within) else upper(absolute(within).upper)

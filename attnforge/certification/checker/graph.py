r"""Is the bound of a graph of registers true? Every head against the formula that it claims, then all of them together.

1. *Layout* (:mod:`.layout`): which head writes which register.
2. *Heads* (:mod:`.local`): the distance of each from its formula, for all registers that the run may have.
3. *Composition* (:mod:`.registers`): what these distances make of the outputs.
4. *Meaning* (:mod:`.meaning`): the formulas, put into each other, are the target.

Where this does not end in the bound, heads are compared with their claims at points of the domain: a claim is false if
its head errs, for certain, by what moves an output there by more than the bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from flint import arb

from attnforge.certification.checker.formula import FormulaOn
from attnforge.certification.checker.layout import Written, is_graph, layout
from attnforge.certification.checker.local import Local
from attnforge.certification.checker.meaning import Meaning, substituted
from attnforge.certification.checker.questions import trees_of
from attnforge.certification.checker.registers import Registers, UnknownError, size, widened
from attnforge.certification.checker.rounding import SLACK
from attnforge.certification.checker.search import Box, Outcome, exactly, middle, within
from attnforge.certification.checker.space import Form
from attnforge.certification.checker.taylor import ZERO
from attnforge.certification.checker.values import anywhere, between, combine, constant, input_rounding
from attnforge.effort import check_time
from attnforge.errors import CertificateError
from attnforge.expression.evaluate import evaluate
from attnforge.expression.intervals import Interval, to_ball
from attnforge.expression.tree import Variable
from attnforge.network import Network
from attnforge.network.apply import apply_layer
from attnforge.outward import lower, machine, upper
from attnforge.targets import Formula, Formulas

Array = npt.NDArray[np.float64]
Report = Callable[[float], None]

BOXES = 8000  # that a composition is cut into, three milliseconds each
SHARE = 2.0**-8  # of the bound, for all heads: errors below need not be known better
POINTS, FEW = 64, 8  # at which heads are compared with claims, and claims put together with the target


def compare_claims(
    network: Network, target: Formula | Formulas, bound: float, dtype: str, cells: int, progress: Report
) -> Outcome:
    """Whether the run stays within the bound, claim by claim; CertificateError where a claim is false."""
    graph = _Graph(network, target, dtype, lambda done: progress(done / 2))
    with exactly(2):
        reached, boxes = graph.reached(bound, min(cells, BOXES), lambda done: progress((1 + done) / 2))
        if reached <= bound:
            return Outcome("confirmed", reached, cells=boxes)
        _refute(graph, bound)
    return Outcome("undecided", reached, cells=boxes)


def refute_claims(network: Network, target: Formula | Formulas, bound: float, dtype: str) -> None:
    """CertificateError, naming the register, where a claim is false by more than the bound allows."""
    if is_graph(network):
        with exactly(2):
            _refute(_Graph(network, target, dtype, lambda _: None), bound)


class _Graph:
    """Registers, and the heads that write them."""

    def __init__(self, network: Network, target: Formula | Formulas, dtype: str, told: Report) -> None:
        self.network, self.model, domain = network, machine(dtype), target.domain
        self.written, weights = layout(network)
        self.whole = tuple(domain.lower.tolist()), tuple(domain.upper.tolist())
        self.weights = weights.T.tolist()
        self.points = domain.lower + (domain.upper - domain.lower) * np.random.default_rng(0).random(
            (POINTS, domain.lower.size)
        )
        self.outputs = [Form({p: arb(w) for p, w in enumerate(each) if p and w}, arb(each[0])) for each in self.weights]
        names = {name: Variable(f"r[{i + 1}]") for i, name in enumerate(target.names)}
        with exactly(2):
            self.box, steps = _sides(self.whole), [each.step for each in self.written]
            self.registers = Registers(self.box, steps, told)
            wanted = [substituted(tree, names) for tree in trees_of(target)]
            self.meaning = Meaning(self.box, steps, self.outputs, wanted)

    def reached(self, bound: float, limit: int, progress: Report) -> tuple[float, int]:
        """A bound of the run's distance from the target, and the boxes looked at."""
        apart = self.meaning.apart()
        self.meaning.test(self.points[:FEW].tolist(), apart)
        if not apart < bound:
            return math.inf, 0
        try:
            local = self._local(bound, progress)
            rest = (apart + self._read_out(local)) * SLACK
        except UnknownError:
            return math.inf, 0
        allowed = bound / SLACK - rest

        def judge(box: Box) -> tuple[float, float]:
            above = self.registers.error(_sides(box), local, self.outputs)
            point = middle(box), middle(box)
            return above, 0.0 if above <= allowed else self.registers.error(_sides(point), local, self.outputs)

        composed = within(judge, self.whole, 2, allowed, limit)
        reached = composed.reached if composed.verdict == "confirmed" else math.inf
        return (reached + rest) * SLACK, composed.cells

    def _local(self, bound: float, progress: Report) -> list[arb]:
        """How far inputs and registers may be from what they are of the run's registers before them."""
        local = [arb(input_rounding(self.model, upper(size(side)))) for side in self.box]
        local += [ZERO] * len(self.written)
        enough = self._enough(bound)
        for n, each in enumerate(self.written):
            check_time("checking registers")
            progress(n / (len(self.written) + 1))
            found = self.registers.follow(self.box, local, n)
            forms = [(self.registers.exact[n][k], found.off_of(f)) for k, f in enumerate(each.step.forms)]
            values = [to_ball(widened(v, off)) for v, off in zip(found.values, found.off, strict=True)]
            head = Local(each, values, [widened(*form) for form in forms], self.model)
            local[len(self.box) + n] = arb(head.error(enough[n]))
        return local

    def _enough(self, bound: float) -> list[float]:
        """Local errors that need not be known better: their share of the bound; none, if roots enlarge them."""
        found = self.registers.follow(self.box, [ZERO] * (len(self.box) + len(self.written)))
        if None in found.tilts:
            return [0.0] * len(self.written)
        adjoints = [self.registers.sensitivities(found, output)[1 + len(self.box) :] for output in self.outputs]
        most = [max(upper(size(adjoint)) for adjoint in each) for each in zip(*adjoints, strict=True)]
        return [SHARE * bound / len(most) / max(each, 1e-300) for each in most]

    def _read_out(self, local: Sequence[arb]) -> float:
        """What the dtype makes of the sums that outputs are."""
        found, place = self.registers.follow(self.box, local), anywhere(self.model)
        wide = [widened(v, off) for v, off in zip(found.values, found.off, strict=True)]
        row = [between(place, lower(u.lower), upper(u.upper)) for u in wide]
        return max(combine(place, row, weights).off for weights in self.weights)


def _sides(box: Box) -> list[Interval]:
    return [Interval(arb(a), arb(b)) for a, b in zip(*box, strict=True)]


# --- claims at points


def _refute(graph: _Graph, bound: float) -> None:
    """CertificateError if a head errs by what moves an output by more than the bound."""
    state = graph.points[:, None]
    with np.errstate(all="ignore"):
        for layer in graph.network.layers[:-1]:
            state = apply_layer(layer, state)
        named = {f"r[{p}]": state[:, 0, p] for p in range(state.shape[-1])}
        for each in graph.written:
            apart = np.abs(state[:, 0, each.column] - evaluate(each.step.tree, named))
            worst = int(np.argmax(np.where(np.isnan(apart), -1.0, apart)))
            seen = _seen(graph, each, state[worst, 0])
            if lower(seen * _moved(graph, graph.points[worst].tolist(), each.column)) > bound:
                at = ", ".join(f"{x:.6g}" for x in graph.points[worst])
                got = f"{each.text}: it is off by at least {float(seen):.3g} at {at}"
                raise CertificateError("Every head writes the formula that it claims", got, "Rebuild the network")


def _seen(graph: _Graph, each: Written, registers: Array) -> arb:
    """By how much a head errs for certain, at these registers."""
    place = anywhere(graph.model)
    output = each.run(place, [constant(place, float(registers[p])) for p in each.read], 0.0)
    inputs = {f"r[{p}]": Form({}, arb(float(registers[p]))) for p in each.read}
    claimed = FormulaOn(inputs, place.space, place.cell)(each.step.tree)
    below = lower(abs(output.model.at[0] - claimed.at[0])) - output.off
    return arb(max(below, 0.0))


def _moved(graph: _Graph, point: tuple[float, ...], column: int) -> arb:
    """How much an output moves with a register, at least, at a point."""
    box = _sides((point, point))
    try:
        found = graph.registers.follow(box, [ZERO] * (len(box) + len(graph.written)))
    except UnknownError:
        return ZERO
    if None in found.tilts:  # a slope that is not known
        return ZERO
    adjoints = [graph.registers.sensitivities(found, output)[column] for output in graph.outputs]
    return max((arb(max(lower(abs(to_ball(each))), 0.0)) for each in adjoints), key=float)

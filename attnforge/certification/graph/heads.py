r"""How far one head on registers may be from the formula that it claims, for registers as a run may have them.

By an expansion along the one form that its scores follow (:mod:`attnforge.certification.enclosure.one_input`), in exact
arithmetic, plus what the dtype adds (:mod:`attnforge.certification.enclosure.row_run`). A head whose own value varies
with a second form v writes $A(u) + B(u) v$, and is compared with $\beta(u) v$: it errs by at most $\sup|A| + \sup|B -
\beta|\,\sup|v|$. Kinks are gates (:mod:`attnforge.certification.three_keys`), logistic functions have a lemma of their
own (:mod:`attnforge.lemmas.logistic`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from flint import arb, arb_mat

from attnforge.certification.enclosure.affine_heads import AffineHead, one_token
from attnforge.certification.enclosure.line import Frame, reduced
from attnforge.certification.enclosure.one_input import READ, supremum
from attnforge.certification.enclosure.row_run import RowRun
from attnforge.certification.enclosure.run import evenly, rounding
from attnforge.certification.graph.layout import REMEDY, Written
from attnforge.certification.statement import Statement
from attnforge.certification.stream import Noise
from attnforge.certification.three_keys import bound_layer
from attnforge.errors import CertificateError, RefusalError
from attnforge.expression import evaluate, to_text
from attnforge.expression.intervals import Interval, absolute
from attnforge.expression.simplify import ONE, times
from attnforge.expression.tree import Apply, Constant, Node, Variable, varies
from attnforge.lemmas.logistic import LOGISTIC, logistic_error, silu_error
from attnforge.network import Attention, Head, Network
from attnforge.outward import Balls, Machine, Up, precision, upper
from attnforge.outward import lower as from_below
from attnforge.targets import TruncatedForm
from attnforge.targets.graph import SIGNLESS, Composition, Form, Graph, Step, substituted

Array = npt.NDArray[np.float64]

NEGLIGIBLE = 0.01  # of a head's error in exact arithmetic: rounding below it is not told more closely
NODES, FEW = 64, 32  # a head of so few keys on registers is looked at on so many times fewer intervals than a network
NOBODY = -1  # the number of a register that is noise: no formula has it
ENDS = 8  # the same, of heads of many keys, and where the domain of a root or an arc may end


def local_error(
    written: Written, graph: Graph, composed: Composition, i: int, statement: Statement
) -> tuple[float, float]:
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
        small = _Small.of(written, step, composed.registers)
        if not step.forms:
            raise CertificateError("A register depends on others", to_text(written.tree)[:80], REMEDY)
        if small.exact.tilts and _is_gate(step.function):
            return _gate(small, step, statement.machine)
        if small.exact.tilts and len(step.forms) > 1:
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
    def of(cls, written: Written, step: Step, registers: Sequence[Interval]) -> _Small:
        head, column = written.head, written.column
        read = {int(p) for p in np.flatnonzero(head.reads)} | {p for form in step.forms.values() for p in form.weights}
        numbers = [0, *sorted(read - {0})]
        maps = {name: getattr(head, name) for name in ("query", "key", "value")}
        some = {name: matrix[numbers] for name, matrix in maps.items() if matrix is not None}
        ends = [registers[p - 1] for p in numbers[1:]]
        low = np.array([1.0, *(from_below(end.lower) for end in ends)])
        high = np.array([1.0, *(upper(end.upper) for end in ends)])
        small = with_noise(replace(head, **some, output=head.output[:, [column]], claims=None), written.noise)
        more = len(small.query) - len(numbers)
        sides = np.append(low, -np.ones(more)), np.append(high, np.ones(more))
        return cls(small, [*numbers, *[NOBODY] * more], one_token(small), *sides)

    @property
    def network(self) -> Network:
        return Network((Attention((self.head,)),), len(self.numbers), 1)

    def weights(self, form: Form) -> list[arb]:
        return [form.weights.get(p, arb(0)) for p in self.numbers[1:]]

    def along(self, form: Form) -> Frame:
        """The direction of a form, among the registers that vary."""
        weights, (low, high) = self.weights(form), ([arb(v) for v in end.tolist()[1:]] for end in (self.low, self.high))
        moves = [float(abs(w) * abs(a).max(abs(b))) for w, a, b in zip(weights, low, high, strict=True)]
        return Frame(weights, int(np.argmax(moves)), low, high, form.offset)


def with_noise(head: Head, noise: Noise) -> Head:
    """The head with a register in [-1, 1] more for every number that is disturbed, which it reads with that size.

    Queries and values are; and the score of the own key, by a feature that is 1 in queries and 0 in constant keys.
    """
    for name in ("query", "value"):
        for at, size in enumerate(noise[name].values.tolist() if name in noise else []):
            head = _with_row(head, name, at, size) if size else head
    if "score" in noise and head.key is not None:
        column = np.eye(len(head.query), 1), np.zeros((len(head.key), 1)), np.zeros((head.memory_size, 1))
        wider: dict[str, Any] = {"query": np.hstack([head.query, column[0]]), "key": np.hstack([head.key, column[1]])}
        if head.memory_keys is not None:
            wider["memory_keys"] = np.hstack([head.memory_keys, column[2]])
        head = _with_row(replace(head, **wider), "key", head.query.shape[1], float(noise["score"]))
    return head


def _with_row(head: Head, name: str, at: int, size: float) -> Head:
    """One register more, of which one of its maps reads so much."""
    maps = {each: getattr(head, each) for each in ("query", "key", "value")}
    longer: dict[str, Any] = {
        each: np.vstack([m, np.zeros((1, m.shape[1]))]) for each, m in maps.items() if m is not None
    }
    longer[name][-1, at] = size
    return replace(head, **longer)


def _row(small: _Small, step: Step, ranges: dict[str, Interval], statement: Statement) -> tuple[float, float]:
    """A function of one form by values that are constant, or follow that form."""
    name, form = next(iter(step.forms.items()))
    along = small.along(form)
    head = reduced(small.exact, along)
    low, high = from_below(ranges[name].lower), upper(ranges[name].upper)
    lines = {each: along.split(small.weights(other), other.offset) for each, other in step.forms.items()}
    lines[name] = arb(1), arb(0)
    fit = _logistic(head, step.function, arb(max(abs(low), abs(high))))
    if fit is not None:
        ends = evenly(np.array([low]), np.array([high]))
        return fit, _rounding(small, (head,), *ends, fit, statement.machine)
    wanted = extended(step.function)
    times_fewer = ENDS if wanted != step.function else max(ENDS, NODES * FEW // max(FEW, head.slopes.ncols()))
    found = supremum((head,), wanted, lines, low, high, cells=statement.effort.intervals // times_fewer)
    return found.bound, _rounding(small, (head,), found.lower, found.upper, found.bound, statement.machine)


def _logistic(head: AffineHead, function: Node, reach: arb) -> float | None:
    """Two keys for a logistic function of the form, by their lemma, in either order; None for anything else."""
    if not isinstance(function, Apply) or head.slopes.ncols() != 2 or not isinstance(function.arguments[0], Variable):
        return None
    tilts = {k: tilt[0, 0] for k, tilt in head.tilts}
    keys = [(head.slopes[0, k], head.offsets[0, k], tilts.get(k, arb(0)), head.values[k, 0]) for k in range(2)]
    found = []
    for first, second in (keys, keys[::-1]):
        slope, apart = first[0] - second[0], first[1] - second[1]
        if function.function == "silu":
            found.append(upper(silu_error(slope, apart, (first[2:], second[2:]), reach)))
        elif function.function in LOGISTIC and not tilts:
            found.append(upper(logistic_error(function.function, slope, apart, (first[3], second[3]), reach)))
    return min(found, default=None)


def _product(small: _Small, step: Step, ranges: dict[str, Interval], statement: Statement) -> tuple[float, float]:
    """A function of one form times another, by an own value that follows the second."""
    found = []
    for u, v in ((u, v) for u in step.forms for v in step.forms if u != v):
        beta = substituted(step.function, {v: ONE})
        if len(step.forms) == 2 and SIGNLESS.same(step.function, times(beta, Variable(v))):
            along, across = (reduced(small.exact, small.along(step.forms[name])) for name in (u, v))
            found.append((max(float(offset.rad()) for offset in along.offsets.entries()), beta, (u, v), along, across))
    if found:
        _, beta, names, along, across = min(found, key=lambda each: each[0])  # the form that scores follow
        return _factors(small, beta, names, along, across, ranges, statement)
    raise CertificateError("A head whose own value varies is a product", to_text(step.tree)[:80], REMEDY)


def _factors(
    small: _Small, beta: Node, names: tuple[str, str], along: AffineHead, across: AffineHead,
    ranges: dict[str, Interval], statement: Statement,
) -> tuple[float, float]:  # fmt: skip
    p, tilts = along.slopes.ncols(), {k: tilt[0, 0] for k, tilt in across.tilts}
    rates, rests = [tilts.get(k, arb(0)) for k in range(p)], across.values.entries()
    u, v = names
    ends = [(from_below(ranges[name].lower), upper(ranges[name].upper)) for name in (u, v)]
    found, left = (
        supremum(
            (AffineHead(along.slopes, along.offsets, arb_mat(p, 1, values)),), wanted,
            {u: (arb(1), arb(0))}, *ends[0], cells=statement.effort.intervals // NODES,
        ).bound
        for values, wanted in ((rates, beta), ([arb(upper(abs(rest))) for rest in rests], Constant(0.0)))
    )  # fmt: skip
    fit = float(Up.of(found) * Up.of(max(map(abs, ends[1]))) + Up.of(left))
    slopes = arb_mat(2, p, [*along.slopes.entries(), *[arb(0)] * p])
    tilted = tuple((k, arb_mat(2, 1, [arb(0), rate])) for k, rate in tilts.items())
    both = AffineHead(slopes, along.offsets, across.values, tilted)
    low, high = np.array(ends).T
    return fit, _rounding(small, (both,), *evenly(low, high), fit, statement.machine)


def _rounding(
    small: _Small, heads: tuple[AffineHead, ...], lower: Array, upper_: Array, fit: float, model: Machine
) -> float:
    """Of the head alone, on cells: registers are numbers of the run, and what made them is charged to them."""
    run = RowRun(small.network, 0, 0, (small.low, small.high), heads, model, exact_inputs=True)
    return rounding(run, lower, upper_, NEGLIGIBLE * fit)


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
    if numbers != sorted(numbers):  # min(max(u, a), b) = b, and no kink
        raise CertificateError("The ends of a kink are in order", to_text(step.tree)[:80], REMEDY)
    form = step.forms[name]
    weights = [form.offset, *small.weights(form)]
    mid = np.array([[float(w.mid()) for w in weights]])
    reach = float(np.abs(mid[0]) @ np.maximum(np.abs(small.low), np.abs(small.high)))
    a, b = numbers or (0.0, 2 * reach + 1.0)
    rad = np.array([[upper(abs(w - arb(float(m)))) for w, m in zip(weights, mid[0], strict=True)]])
    truncated = TruncatedForm(Balls(mid, rad), *(Balls.exact(np.array([each])) for each in (0.0, a, b)))
    (parts,) = bound_layer([small.head], truncated, small.low, small.high, model)
    return float(Up.of(parts[:2]).sum()), float(parts[2])


def extended(function: Node) -> Node:
    """The formula beyond the ends of its natural domain, which the exact argument never leaves: as at the end."""
    if not isinstance(function, Apply):
        return function
    return beyond(Apply(function.function, tuple(extended(each) for each in function.arguments)))


def beyond(function: Apply) -> Apply:
    """One function, extended; its arguments as they are."""
    arguments = function.arguments
    if function.function == "sqrt":
        return Apply("sqrt", (Apply("relu", arguments),))
    if function.function == "^" and not varies(arguments[1]):
        power = float(evaluate(arguments[1], {}))
        broken = power > 0 and not power.is_integer()
        return Apply("^", (Apply("relu", arguments[:1]), arguments[1])) if broken else function
    if function.function in ("asin", "acos"):
        return Apply(function.function, (Apply("clamp", (*arguments, Constant(-1.0), ONE)),))
    return function

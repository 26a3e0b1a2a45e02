r"""Registers that are formulas of registers before them: where they lie, and what errors make of the outputs.

Register 0 is the constant 1, then come the inputs. Every further one is a function g of affine forms of earlier ones.

**Errors.** A run has, in place of register n, a number within $\delta_n$ of $g_n$ of the run's earlier registers. With
$G_n$ the output as a function of registers 1..n, the later ones exact, changing from run to exact one register after
the other gives
$$ |\mathrm{run} - f| \le \sum_n \sup |\partial G_n / \partial r_n|\,\delta_n , $$
the suprema over all that lies between run and exact registers: exact ranges, widened by what errors may have become on
the way. Derivatives are chained backwards, as intervals; the domain is cut where that is loose. A root that reaches 0
has no bounded slope, but $|\sqrt a - \sqrt b| \le \sqrt{|a - b|}$: what such a register moves by with all errors before
it is added to $\delta_n$, and the sum starts there.

**Ranges** of forms on the whole domain: where the form rises or falls with an input, that input is put at its end (and
what it may move the other way, a rounding, is added); what is left is enclosed by intervals and by mean values, and the
worst box is cut.

Formulas are followed with their first derivatives. Functions of one argument have theirs from their Taylor series, on
pieces of the argument.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import count, pairwise
from typing import TypeVar

from flint import arb, arb_series

from attnforge.certification.checker.formula import linear_form
from attnforge.certification.checker.space import Form
from attnforge.certification.checker.taylor import ONE, ZERO
from attnforge.effort import check_time
from attnforge.errors import CertificateError
from attnforge.expression.functions import function_of
from attnforge.expression.intervals import (
    Interval,
    absolute,
    add,
    divide,
    from_ball,
    hull,
    largest,
    multiply,
    negative,
    to_ball,
)
from attnforge.expression.series import NotSmoothError
from attnforge.expression.tree import Apply, Constant, Node, Variable, bottom_up, fold
from attnforge.outward import lower, upper

Report = Callable[[float], None]
Slopes = dict[int, Interval]
Jet = tuple[Interval, Slopes]  # values, and derivatives by variables that are numbered; absent ones are zero
Moved = tuple[Interval, arb]  # values, and how far they may be off
T = TypeVar("T", Jet, Moved)
Ends = tuple[tuple[float, float], ...]

PIECES, FORM_PIECES = 4, 12  # of the argument of a function, and of the only form of a register
CELLS, CLOSE = 120, 0.002  # boxes looked at for an end of a range, and what it may be off by, of its size
FLAT = 2.0**-44  # of a slope: what goes the other way is a rounding, and is added
NOTHING, ANYTHING = Interval(ZERO, ZERO), Interval(arb.neg_inf(), arb.pos_inf())


class UnknownError(ArithmeticError):
    """Nothing is known here: a function may have no value, or no bounded slope."""


def known(u: Interval) -> Interval:
    """The interval, if it is one of numbers."""
    if not (u.lower.is_finite() and u.upper.is_finite()):
        raise UnknownError
    return u


def size(u: Interval) -> arb:
    """The largest absolute value."""
    return absolute(u).upper


def affine(form: Form, values: Sequence[Interval]) -> Interval:
    """The form of intervals."""
    return add(from_ball(form.constant), *(multiply(values[p], from_ball(w)) for p, w in form.slopes.items()))


def common(u: Interval, v: Interval) -> Interval:
    """What lies in both."""
    return Interval(u.lower.max(v.lower), u.upper.min(v.upper))


def widened(u: Interval, off: arb) -> Interval:
    """What lies no further than ``off`` from it."""
    return Interval((u.lower - off).lower(), (u.upper + off).upper())


def register_of(name: str) -> int:
    """The number of the register that a variable ``r[i]`` stands for."""
    if not (name.startswith("r[") and name.endswith("]")):
        raise CertificateError("Registers are formulas of registers r[i]", name, "Rebuild the network")
    return int(name[2:-1])


class Step:
    """A register: a function of its maximal affine forms; exact multiples of a form are written by it.

    ``places`` says of each expression that is such a form which one, and by what factor and constant it is written.
    """

    def __init__(self, tree: Node) -> None:
        self.tree, self.forms = tree, list[Form]()
        self.places: dict[Node, tuple[int, arb, arb]] = {}
        self._known: dict[Ends, tuple[Interval, list[Interval]]] = {}
        self._write(tree, fold(tree, self._collect))

    def _collect(self, node: Node, arguments: Sequence[Form | None]) -> Form | None:
        if not isinstance(node, Apply):
            return _leaf(node)
        found = linear_form(node, arguments)
        if found is None:
            for each, form in zip(node.arguments, arguments, strict=True):
                self._write(each, form)
        return found

    def _write(self, node: Node, form: Form | None) -> None:
        if form is None or not form.slopes or node in self.places:
            return
        for k, other in enumerate(self.forms):
            if (factor := _multiple(form, other)) is not None:
                self.places[node] = k, factor, form.constant - factor * other.constant
                return
        self.places[node] = len(self.forms), ONE, ZERO
        self.forms.append(form)

    def read_by(self, node: Node) -> set[int]:
        """The forms that a part of the formula is a function of."""
        return {self.places[each][0] for each in bottom_up(node) if each in self.places}

    def on(self, ranges: Sequence[Interval]) -> tuple[Interval, list[Interval]]:
        """The register's range and its slopes by the forms, where these lie in their ranges."""
        ends = tuple((lower(known(u).lower), upper(u.upper)) for u in ranges)
        if ends not in self._known:
            self._known[ends] = self._look(ends)
        return self._known[ends]

    def _look(self, ends: Ends) -> tuple[Interval, list[Interval]]:
        parts = [ends] if len(ends) != 1 else [(piece,) for piece in _pieces(*ends[0], FORM_PIECES)]
        found = [self._jet([Interval(arb(a), arb(b)) for a, b in part]) for part in parts]
        value = hull(*(end for jet in found for end in jet[0]))
        slopes = [hull(*(e for jet in found for e in jet[1].get(k, NOTHING))) for k in range(len(ends))]
        return known(value), [known(slope) for slope in slopes]

    def _jet(self, ranges: list[Interval]) -> Jet:
        def form(node: Node) -> Jet:
            k, factor, rest = self.places[node]
            return add(multiply(ranges[k], from_ball(factor)), from_ball(rest)), {k: from_ball(factor)}

        return self._fold(form, lambda constant: (constant, {}), _applied)

    def moved(self, ranges: Sequence[Interval], off: Sequence[arb]) -> tuple[Interval, arb]:
        """Its range, and how far it may move where its forms, in their ranges, are off by so much."""

        def form(node: Node) -> Moved:
            k, factor, rest = self.places[node]
            return add(multiply(ranges[k], from_ball(factor)), from_ball(rest)), abs(factor) * off[k]

        return self._fold(form, lambda constant: (constant, ZERO), _moved)

    def _fold(
        self, form: Callable[[Node], T], constant: Callable[[Interval], T], apply: Callable[[Apply, list[T]], T]
    ) -> T:
        """The tree from its maximal forms on."""

        def value(node: Node, found: Form | T) -> T:
            if not isinstance(found, Form):
                return found
            return form(node) if found.slopes else constant(from_ball(found.constant))

        def visit(node: Node, arguments: Sequence[Form | T]) -> Form | T:
            if not isinstance(node, Apply):
                return _leaf(node)
            found = linear_form(node, arguments)
            return found if found is not None else apply(node, list(map(value, node.arguments, arguments)))

        return value(self.tree, fold(self.tree, visit))


def _leaf(node: Node) -> Form:
    if isinstance(node, Constant):
        return Form({}, arb(node.value))
    assert isinstance(node, Variable)
    number = register_of(node.name)
    return Form({number: ONE}, ZERO) if number else Form({}, ONE)


def _multiple(form: Form, other: Form) -> arb | None:
    """The factor, if all weights of a form are exactly the same multiple of another's."""
    if form.slopes.keys() != other.slopes.keys():
        return None
    pivot = next(iter(form.slopes))
    one, own = form.slopes[pivot], other.slopes[pivot]
    alike = all((form.slopes[p] * own - one * w).is_zero() for p, w in other.slopes.items())
    return one / own if alike and not own.contains(0) else None


# --- a function and its slopes


def _applied(node: Apply, arguments: list[Jet]) -> Jet:
    value, slopes = _rule(node, arguments)
    return known(value), {k: known(slope) for k, slope in slopes.items()}


def _rule(node: Apply, arguments: list[Jet]) -> Jet:
    record = function_of(node)
    match node.function, arguments:
        case "+", _:
            return add(*(u for u, _ in arguments)), reduce(_plus, (slopes for _, slopes in arguments))
        case "*", _:
            return reduce(_product, arguments)
        case "-", [(u, slopes)]:
            return negative(u), _times(slopes, Interval(-ONE, -ONE))
        case "/", [u, (v, slopes)]:
            inverse = known(divide(Interval(ONE, ONE), v))
            return _product(u, (inverse, _times(slopes, negative(multiply(inverse, inverse)))))
        case "max", _:
            return reduce(_larger, arguments)
        case "min", _:
            return _negative(reduce(_larger, map(_negative, arguments)))
        case "relu", [u]:
            return _larger(u, (NOTHING, {}))
        case "abs", [u]:
            return _larger(u, _negative(u))
        case "clamp", [u, a, b]:
            return _negative(_larger(_negative(_larger(u, a)), _negative(b)))
        case "^", [u, (v, slopes)] if not slopes:
            power = arb_series([to_ball(v)])
            return _composed(u, lambda s: record.series(s, power), lambda inside: record.interval(inside, v))
        case _, [u]:
            return _composed(u, record.series, record.interval)
    raise UnknownError


def _moved(node: Apply, arguments: list[Moved]) -> Moved:
    """A root by its modulus of continuity, which holds at 0, too; others by their slopes on widened ranges."""
    if node.function == "sqrt" and not arguments[0][0].lower > arguments[0][1]:
        u, off = arguments[0]
        return Interval(u.lower.max(ZERO).sqrt(), known(u).upper.max(ZERO).sqrt()), off.sqrt().upper()
    jets = [(widened(u, off), {k: Interval(ONE, ONE)} if off > 0 else {}) for k, (u, off) in enumerate(arguments)]
    slopes = _applied(node, jets)[1]
    moves = (size(slopes.get(k, NOTHING)) * off for k, (_, off) in enumerate(arguments))
    return _applied(node, [(u, {}) for u, _ in arguments])[0], sum(moves, start=ZERO).upper()


def _plus(a: Slopes, b: Slopes) -> Slopes:
    return {k: _add(a.get(k, NOTHING), b.get(k, NOTHING)) for k in a | b}


def _add(u: Interval, v: Interval) -> Interval:
    return ANYTHING if u is ANYTHING or v is ANYTHING else add(u, v)


def _times(slopes: Slopes, factor: Interval) -> Slopes:
    return {k: slope if slope is ANYTHING else multiply(slope, factor) for k, slope in slopes.items()}


def _product(a: Jet, b: Jet) -> Jet:
    return known(multiply(a[0], b[0])), _plus(_times(a[1], b[0]), _times(b[1], a[0]))


def _negative(u: Jet) -> Jet:
    return negative(u[0]), {k: negative(slope) for k, slope in u[1].items()}


def _larger(u: Jet, v: Jet) -> Jet:
    """The larger of both: where both may be, both slopes."""
    if u[0].lower >= v[0].upper:
        return u
    if v[0].lower >= u[0].upper:
        return v
    slopes = {k: hull(*u[1].get(k, NOTHING), *v[1].get(k, NOTHING)) for k in u[1] | v[1]}
    return largest(u[0], v[0]), slopes


def _composed(u: Jet, series: Callable[..., arb_series], interval: Callable[[Interval], Interval]) -> Jet:
    return known(interval(u[0])), _times(u[1], _slope(series, u[0])) if u[1] else {}


def _slope(series: Callable[..., arb_series], u: Interval) -> Interval:
    """The derivative on an interval: over each of some pieces, and from the middle of each by the second one."""
    found: list[arb] = []
    for a, b in _pieces(lower(u.lower), upper(u.upper), PIECES):
        whole, middle = to_ball(Interval(arb(a), arb(b))), arb(a / 2 + b / 2)
        try:
            over, at = (series(arb_series([x, 1])) for x in (whole, middle))
        except NotSmoothError:
            raise UnknownError from None
        slope, mean = known(from_ball(over[1])), from_ball(at[1] + 2 * over[2] * (whole - middle))
        found += common(slope, mean) if mean.lower.is_finite() and mean.upper.is_finite() else slope
    return hull(*found)


def _pieces(low: float, high: float, pieces: int) -> list[tuple[float, float]]:
    cuts = [low + (high - low) * i / pieces for i in range(1, pieces)]
    ends = [low, *(cut for cut in cuts if low < cut < high), high]
    return list(pairwise(ends)) if high > low else [(low, high)]


# --- all registers


@dataclass(frozen=True, eq=False)
class Followed:
    """On a box: exact ranges of registers, their slopes by the inputs, and what the run may be off by.

    ``tilts`` are the slopes of every step by its forms, None where they are not bounded; ``local`` what it adds to
    what it was off by before, of the inputs first: all that it is off by where its slopes are not bounded.
    """

    values: list[Interval]
    slopes: list[Slopes]
    off: list[arb]
    tilts: list[list[Interval] | None]
    local: list[arb]

    def form(self, form: Form) -> Jet:
        """The exact range of an affine form of registers, and its slopes by the inputs."""
        parts = [_times(self.slopes[p], from_ball(w)) for p, w in form.slopes.items()]
        return affine(form, self.values), reduce(_plus, parts, {})

    def off_of(self, form: Form) -> arb:
        """What the run's form may be off by."""
        return sum((abs(w) * self.off[p] for p, w in form.slopes.items()), start=ZERO).upper()


class Registers:
    """Steps over a box of inputs."""

    def __init__(self, box: Sequence[Interval], steps: Sequence[Step], told: Report = lambda _: None) -> None:
        self.box, self.steps, self.exact = list(box), steps, list[list[Interval]]()
        self._told, self._known, self._wanted = told, 0, 2 * sum(len(step.forms) for step in steps)
        for step in steps:
            self.exact.append([Interval(-self._top(form.times(-ONE)), self._top(form)) for form in step.forms])

    def follow(self, box: Sequence[Interval], local: Sequence[arb], count: int | None = None) -> Followed:
        """The first steps on a box, for local errors of inputs and steps; UnknownError where one is not defined."""
        inputs = len(box)
        ones: list[Slopes] = [{i: Interval(ONE, ONE)} for i in range(inputs)]
        found = Followed([Interval(ONE, ONE), *box], [{}, *ones], [ZERO, *local[:inputs]], [], list(local[:inputs]))
        for n, step in enumerate(self.steps[:count]):
            jets, off = [found.form(form) for form in step.forms], [found.off_of(form) for form in step.forms]
            inside = [common(jet[0], exact) for jet, exact in zip(jets, self.exact[n], strict=True)]
            own, tilts = local[inputs + n], list[Interval]()
            try:
                tilts = step.on([widened(*each) for each in zip(inside, off, strict=True)])[1]
                value, slopes = step.on(inside)[0], [_times(j[1], t) for j, t in zip(jets, tilts, strict=True)]
                carried = sum((size(t) * o for t, o in zip(tilts, off, strict=True)), start=ZERO)
            except UnknownError:
                value, moved = step.moved(inside, off)
                slopes, carried, own = [dict.fromkeys(jet[1], ANYTHING) for jet in jets], ZERO, own + moved
            found.values.append(value)
            found.slopes.append(reduce(_plus, slopes, {}))
            found.off.append((carried + own).upper())
            found.tilts.append(tilts or None)
            found.local.append(own)
        return found

    def sensitivities(self, found: Followed, output: Form) -> list[Interval]:
        """Derivatives of an output, an affine form of all registers, by each of them."""
        adjoint = [from_ball(output.slopes.get(p, ZERO)) for p in range(len(found.values))]
        for n in reversed(range(len(self.steps))):
            mine, tilts = adjoint[1 + len(self.box) + n], found.tilts[n] or ()
            for form, tilt in zip(self.steps[n].forms, tilts, strict=bool(tilts)):
                through = multiply(mine, tilt)
                for p, weight in form.slopes.items():
                    adjoint[p] = add(adjoint[p], multiply(through, from_ball(weight)))
        return adjoint

    def error(self, box: Sequence[Interval], local: Sequence[arb], outputs: Sequence[Form]) -> float:
        """What local errors make of the outputs on a box, at most."""
        try:
            found = self.follow(box, local)
            return max(upper(self._carried(found, output)) for output in outputs)
        except UnknownError:
            return float("inf")

    def _carried(self, found: Followed, output: Form) -> arb:
        pairs = zip(self.sensitivities(found, output)[1:], found.local, strict=True)
        return sum((size(known(adjoint)) * own for adjoint, own in pairs), start=ZERO)

    def _top(self, form: Form) -> arb:
        """An upper bound of a form of inputs and of the steps known so far, on the domain."""
        order, seen = count(), -arb.pos_inf()
        first = self._bounded(form, self.box)
        heap = [(-first[0], next(order), *first)]
        for n in range(CELLS):
            check_time("enclosing registers")
            self._told((self._known + n / CELLS) / self._wanted)
            _, _, bound, attained, box, axis = heap[0]
            seen = seen.max(attained)
            if axis is None or (seen.is_finite() and arb(bound) - seen <= CLOSE * abs(seen).max(abs(arb(bound)))):
                break
            heapq.heappop(heap)
            cut = arb(((box[axis].lower + box[axis].upper) / 2).mid())
            for half in (Interval(box[axis].lower, cut), Interval(cut, box[axis].upper)):
                part = self._bounded(form, [*box[:axis], half, *box[axis + 1 :]])
                seen = seen.max(part[1])
                heapq.heappush(heap, (-part[0], next(order), *part))
        self._known += 1
        return arb(heap[0][2])

    def _bounded(self, form: Form, box: list[Interval]) -> tuple[float, arb, list[Interval], int | None]:
        """An upper bound on a box, a value taken there, the box without sides that do not matter, and what to cut."""
        zero, steps, slack = [ZERO] * (len(self.box) + len(self.steps)), len(self.exact), ZERO
        try:
            slopes = self.follow(box, zero, steps).form(form)[1]
            for i, slope in slopes.items():
                rise, fall = slope.upper, -slope.lower
                if slope is not ANYTHING and min(float(rise), float(fall)) <= FLAT * max(float(rise), float(fall)):
                    end, against = (box[i].upper, fall) if fall < rise else (box[i].lower, rise)
                    slack += against.max(ZERO) * (box[i].upper - box[i].lower)
                    box = [*box[:i], Interval(end, end), *box[i + 1 :]]
            value, slopes = self.follow(box, zero, steps).form(form)
            middle = [from_ball(((side.lower + side.upper) / 2).mid()) for side in box]
            at = self.follow(middle, zero, steps).form(form)[0]
        except UnknownError:
            widths = [float(side.upper - side.lower) for side in box]
            return float("inf"), -arb.pos_inf(), box, max(range(len(box)), key=widths.__getitem__)
        steep = {i: size(slopes.get(i, NOTHING)) for i, side in enumerate(box) if side.upper > side.lower}
        moves = {i: slope * (box[i].upper - box[i].lower) / 2 for i, slope in steep.items()}
        mean = sum(moves.values(), start=at.upper).upper()
        axis = max(moves, key=lambda i: float(moves[i]), default=None)
        return (
            upper(value.upper.min(mean) + slack),
            at.lower,
            box,
            axis if axis is not None and moves[axis] > 0 else None,
        )

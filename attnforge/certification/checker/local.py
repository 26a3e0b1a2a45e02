r"""How far one head may be from the formula of registers that it claims, for all registers that a run may have.

Scores follow one form u; a second form v may be a factor of the value and of the formula. Then, at every u, the
distance is largest at an end of v, where both are functions of one variable, on cells of it. Other forms are written by
u or v up to what is left of them on the box of registers: nothing but roundings, where the claim is true.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from flint import arb

from attnforge.certification.checker.formula import FormulaOn
from attnforge.certification.checker.layout import Written
from attnforge.certification.checker.registers import UnknownError, size
from attnforge.certification.checker.rounding import SLACK
from attnforge.certification.checker.search import Box, middle, supremum
from attnforge.certification.checker.space import Form, Space
from attnforge.certification.checker.taylor import ONE, ZERO, Cell, Model, meet
from attnforge.certification.checker.values import Place, Value
from attnforge.expression.intervals import Interval, to_ball
from attnforge.expression.tree import Apply, Node, bottom_up, fold
from attnforge.outward import Machine, lower, upper

ORDER, KINKED = 16, 4  # of expansions along a form: of smooth registers, and of those with kinks
REMAINS = 8.0  # roundoffs of what it writes, or of the argument of a kink: an error that need not be known better
KINKS = ("relu", "abs", "max", "min", "clamp")
CELLS = 600  # looked at for one head


class _Plane(Space):
    """Registers in a box, by the form u, the variable of cells, and by the form v, a number."""

    def __init__(self, box: Sequence[arb], along: Form, across: Form | None, at: arb) -> None:
        self.box, self.along, self.across, self.at = box, along, across, at

    def written(self, form: Form, by: Form) -> tuple[arb, arb]:
        """Factor, and a ball around the rest: what is left of a form, less that multiple of another, on the box."""
        sizes = {p: abs(self.box[p]).upper() for p in by.slopes}
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


class Local:
    """A head and its formula, for registers in ``box`` and forms in ``ranges``."""

    def __init__(self, written: Written, box: Sequence[arb], ranges: Sequence[Interval], model: Machine) -> None:
        self.written, self.box, self.model, self.ranges = written, box, model, ranges
        self.tree = extended(written.step.tree)
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
            reach = size(u if kinked else self.written.step.moved(self.ranges, [ZERO] * len(self.ranges))[0])
            least = REMAINS * self.model.roundoff * upper(reach)
            order, floor = (KINKED, least) if kinked else (ORDER, max(enough, least))
            return supremum(partial(self._on, order, floor), whole, order, floor, CELLS).reached
        except UnknownError:
            return math.inf

    def _on(self, order: int, enough: float, box: Box) -> tuple[float, float]:
        """A bound of the distance on a cell of u; and what it may be, for all that cutting can do about it."""
        cell, v = Cell(*box, order), None if self.across is None else self.ranges[self.across]
        either, negligible = ZERO if v is None else to_ball(v), enough / 64
        output, formula = self._both(cell, either, negligible)
        pairs = [(output, formula)] if v is None else [self._both(cell, end, negligible) for end in v]
        sizes = [cell.largest(cell.add(found.model, cell.scale(-ONE, wanted))) for found, wanted in pairs]
        above, attained = (max(side) for side in zip(*sizes, strict=True))
        above = min(above + output.off, upper(abs(output.run - cell.range(formula)))) * SLACK
        if not above > attained + enough:
            return above, above
        return above, attained + enough + self._both(Cell(middle(box), middle(box), 1), either, negligible)[0].off

    def _both(self, cell: Cell, at: arb, negligible: float) -> tuple[Value, Model]:
        forms, written = self.written.step.forms, self.written
        across = None if self.across is None else forms[self.across]
        place = Place(_Plane(self.box, forms[self.along], across, at), cell, self.model)
        inputs = {p: Form({p: ONE}, ZERO) if p else Form({}, ONE) for p in written.read}
        row = [Value(place, inputs[p], 0.0) for p in written.read]
        formula = FormulaOn({f"r[{p}]": form for p, form in inputs.items()}, place.space, cell)(self.tree)
        return written.run(place, row, negligible), formula


def extended(tree: Node) -> Node:
    """The formula beyond the ends of its domain, where a run may be: roots as at 0."""

    def visit(node: Node, parts: Sequence[Node]) -> Node:
        if not isinstance(node, Apply):
            return node
        return Apply(node.function, (Apply("relu", tuple(parts)),) if node.function == "sqrt" else tuple(parts))

    return fold(tree, visit)

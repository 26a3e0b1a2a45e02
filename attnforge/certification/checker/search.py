r"""Is |run(x) - f(x)| at most the bound on the whole domain? Cells are cut until every one of them says yes.

On a cell the distance is at most $|g| + \mathrm{off}$, g the difference of both exact functions, and also at most the
distance between the values the run can take and those of f. Where it exceeds the bound at the middle of a cell for
certain, the bound is refuted, and that point is the witness.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import inf
from typing import Literal

import numpy as np
from flint import arb, ctx

from attnforge.balls import lower, machine, precision, upper
from attnforge.certification.checker.formula import FormulaOn
from attnforge.certification.checker.layers import run
from attnforge.certification.checker.space import Form, Space
from attnforge.certification.checker.taylor import ONE, ZERO, Cell, Model
from attnforge.certification.checker.values import Place, Value
from attnforge.effort import time_is_up
from attnforge.network import Network
from attnforge.targets.expression.tree import Node

Box = tuple[tuple[float, ...], tuple[float, ...]]
Verdict = Literal["confirmed", "refuted", "undecided"]

BITS = 160
NEGLIGIBLE = 1e-4  # of the bound: what keys left out may add
LOW, TRIAL = 2, 48  # an order that may do as well as the one asked for, and the cells that decide
ALONE = 400  # cells before other processes are asked to help
SHARE = 200  # cells a process looks at before it hands back what is left


@dataclass(frozen=True, eq=False)
class Question:
    """Whether one output entry of a network is within ``bound`` of a formula of some of its inputs.

    ``names`` gives the number of the input each variable stands for; ``direction`` the weights of the only linear form
    that matters, if there is one. ``order`` is that of the Taylor expansions.
    """

    network: Network
    dtype: str
    tokens: int
    entry: tuple[int, int]
    tree: Node
    names: tuple[tuple[str, int], ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    direction: tuple[float, ...] | None
    order: int
    bound: float

    @cached_property
    def whole(self) -> Box:
        """The domain, in the variables that cells are cut in."""
        with precision(BITS):
            space = Space(self.lower, self.upper, self.direction)
        return space.lower, space.upper


@dataclass(frozen=True)
class Outcome:
    """``confirmed``, then ``reached`` is the largest bound of a cell; ``refuted`` at ``at``; or ``undecided``.

    ``seen`` is the largest error attained for certain, in exact arithmetic less what the run may change; ``at`` is the
    cell's middle where it is; ``cells`` were looked at.
    """

    verdict: Verdict = "confirmed"
    reached: float = 0.0
    seen: float = 0.0
    at: tuple[float, ...] = ()
    cells: int = 0

    def and_(self, other: Outcome) -> Outcome:
        """What both together say."""
        order = ("confirmed", "undecided", "refuted")
        verdict = max(self.verdict, other.verdict, key=order.index)
        worst = max(self, other, key=lambda each: each.seen)
        return Outcome(verdict, max(self.reached, other.reached), worst.seen, worst.at, self.cells + other.cells)


def answer(
    question: Question, limit: int, workers: int = 1, progress: Callable[[float], None] | None = None
) -> Outcome:
    """Cut cells until all are within the bound, one is not, ``limit`` of them were looked at, or time is up."""
    whole, tried = question.whole, 0
    if limit > 4 * TRIAL:
        question, tried = _at_best_order(question), 2 * TRIAL
    found, left = look(question, [whole], min(ALONE, limit))
    found = replace(found, cells=found.cells + tried)
    with ProcessPoolExecutor(workers) if left and workers > 1 else nullcontext() as pool:
        while left and found.verdict == "confirmed" and found.cells < limit and not time_is_up():
            parts = [left[i::workers] for i in range(workers) if left[i::workers]]
            results = (map if pool is None else pool.map)(partial(look, question, limit=SHARE), parts)
            left = []
            for more, rest in results:
                found, left = found.and_(more), [*left, *rest]
            if progress is not None:
                progress(1.0 - sum(volume(box, whole) for box in left))
    return replace(found, verdict="undecided") if left and found.verdict == "confirmed" else found


def _at_best_order(question: Question) -> Question:
    """Sharp heads are flat, with steps: low orders are as good there. What confirms more in a few cells is taken."""
    return max((replace(question, order=LOW), question), key=_confirmed)


def _confirmed(question: Question) -> float:
    """The share of the domain that a few cells confirm."""
    return 1.0 - sum(volume(box, question.whole) for box in look(question, [question.whole], TRIAL)[1])


def look(question: Question, boxes: list[Box], limit: int) -> tuple[Outcome, list[Box]]:
    """Look at cells, cutting those that do not confirm the bound; what is left when the limit is reached."""
    found, left = Outcome(), list(boxes)
    with exactly(question.order), np.errstate(all="ignore"):
        space = Space(question.lower, question.upper, question.direction)
        while left and found.cells < limit and not time_is_up():
            box = left.pop()
            cell = Cell(*box, question.order)
            reached, seen = _on(question, space, cell)
            at = tuple(float(m.mid()) for m in cell.middle)
            verdict: Verdict = "refuted" if seen > question.bound else "confirmed"
            closed = reached <= question.bound
            found = found.and_(Outcome(verdict, reached if closed else 0.0, seen, at, 1))
            if verdict == "refuted":
                break
            if not closed:
                parts = halves(box, question.whole)
                if not parts:  # two neighbouring floats: there is nothing between them; others may still refute
                    found = found.and_(Outcome("undecided"))
                left += parts
    return found, left


def _on(question: Question, space: Space, cell: Cell) -> tuple[float, float]:
    """Bounds of |run - formula| on the cell from above, and at its middle from below."""
    place = Place(space, cell, machine(question.dtype))
    row, feature = question.entry
    output = run(place, question.network, question.tokens, NEGLIGIBLE * question.bound)[row]()[feature]
    inputs = {name: Form({i: ONE}, ZERO) for name, i in question.names}
    formula = FormulaOn(inputs, space, cell)(question.tree)
    return distance(cell, output, formula)


def distance(cell: Cell, output: Value, formula: Model) -> tuple[float, float]:
    """Bounds of |run - formula| on the cell from above, and at its middle from below."""
    apart = cell.add(output.model, cell.scale(arb(-1), formula))
    above = min(cell.largest(apart) + output.off, upper(abs(output.run - cell.range(formula))))
    below = lower(abs(apart.at[0])) - output.off
    return (above if above == above else inf) * (1 + 2.0**-50), below * (1 - 2.0**-50) if below > 0 else 0.0


def halves(box: Box, whole: Box) -> list[Box]:
    """The box cut across its longest side, in units of the domain; none where no float lies between its ends."""
    sides = [(b - a) / (d - c) if d > c else 0.0 for a, b, c, d in zip(*box, *whole, strict=True)]
    axis = int(np.argmax(sides))
    low, high = box[0][axis], box[1][axis]
    middle = low / 2 + high / 2
    if not low < middle < high:
        return []
    first, second = list(box[1]), list(box[0])
    first[axis] = second[axis] = middle
    return [(box[0], tuple(first)), (tuple(second), box[1])]


def volume(box: Box, whole: Box) -> float:
    """The box's share of the whole."""
    sides = [(b - a) / (d - c) for a, b, c, d in zip(*box, *whole, strict=True) if d > c]
    return float(np.prod(sides))


@contextmanager
def exactly(order: int) -> Iterator[None]:
    """Balls of many bits, series up to an order."""
    before = ctx.cap
    ctx.cap = order + 1
    try:
        with precision(BITS):
            yield
    finally:
        ctx.cap = before

r"""Is |run(x) - f(x)| at most the bound on the whole domain? Cells are cut until every one of them says yes.

On a cell the distance is at most $|g| + \mathrm{off}$, g the difference of both exact functions, and also at most the
distance between the values the run can take and those of f. Where it exceeds the bound at the middle of a cell for
certain, the bound is refuted, and that point is the witness. Without a bound to decide about, the worst cell is cut
first, and the largest bound of a cell is a bound of all.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import inf
from typing import Literal

import numpy as np
from flint import arb, ctx

from attnforge.certification.checker.formula import FormulaOn
from attnforge.certification.checker.layers import run
from attnforge.certification.checker.space import Form, Space
from attnforge.certification.checker.taylor import ONE, ZERO, Cell, Model
from attnforge.certification.checker.values import Place, Value
from attnforge.effort import time_is_up
from attnforge.expression.tree import Node
from attnforge.network import Network
from attnforge.outward import lower, machine, precision, upper

Box = tuple[tuple[float, ...], tuple[float, ...]]
Judge = Callable[[Box], tuple[float, float]]  # bounds of an error on a box from above, and at its middle from below
Part = tuple[float, float, Box]  # its turn, the smaller the sooner; a bound of the error there; the box
Verdict = Literal["confirmed", "refuted", "undecided"]

BITS = 160
NEGLIGIBLE = 1e-4  # of the bound: what keys left out may add
LOW, TRIAL = 2, 48  # an order that may do as well as the one asked for, and the cells that decide
ALONE = 400  # cells before other processes are asked to help
CLOSE = 1 + 2.0**-8  # times an error that is attained: a bound that need not be cut further
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
    whole, found = question.whole, Outcome()
    left = [whole]
    if limit > 4 * TRIAL:
        question, found, left = _at_best_order(question)
    with ProcessPoolExecutor(workers) if workers > 1 else nullcontext() as pool:
        while left and found.verdict == "confirmed" and found.cells < limit and not time_is_up():
            helpers = 1 if pool is None or found.cells < ALONE else workers
            parts = [left[i::helpers] for i in range(helpers) if left[i::helpers]]
            part = partial(look, question, limit=min(SHARE, limit - found.cells))
            results = map(part, parts) if pool is None or helpers == 1 else pool.map(part, parts)
            left = []
            for more, rest in results:
                found, left = found.and_(more), [*left, *rest]
            if progress is not None:
                progress(1.0 - sum(volume(box, whole) for box in left))
    return replace(found, verdict="undecided") if left and found.verdict == "confirmed" else found


def _at_best_order(question: Question) -> tuple[Question, Outcome, list[Box]]:
    """Sharp heads are flat, with steps: low orders are as good there. What confirms more in a few cells is taken."""
    trials = [(each, *look(each, [question.whole], TRIAL)) for each in (replace(question, order=LOW), question)]
    trials.sort(key=lambda trial: sum(volume(box, question.whole) for box in trial[2]))
    (chosen, found, left), (_, other, _) = trials
    worse = found if found.seen >= other.seen else other
    verdict: Verdict = "refuted" if worse.verdict == "refuted" else found.verdict
    return chosen, Outcome(verdict, found.reached, worse.seen, worse.at, found.cells + other.cells), left


def look(question: Question, boxes: list[Box], limit: int) -> tuple[Outcome, list[Box]]:
    """Look at cells, cutting those that do not confirm the bound; what is left when the limit is reached."""
    with exactly(question.order):
        space, whole = Space(question.lower, question.upper, question.direction), question.whole
        parts = [(volume(box, whole), inf, box) for box in boxes]
        found, left = _cut(partial(_on, question, space), parts, whole, limit, question.bound)
    verdict: Verdict = "refuted" if found.seen > question.bound else found.verdict
    return replace(found, verdict=verdict), [box for _, _, box in left]


def supremum(judge: Judge, whole: Box, order: int, floor: float, limit: int) -> Outcome:
    """``reached`` bounds an error on a box, the worst cell cut first down to ``floor`` or about what is attained."""
    with exactly(order):
        found, left = _cut(judge, [(-inf, inf, whole)], whole, limit, None, floor)
    return replace(found, reached=max([found.reached, *(above for _, above, _ in left)]))


def within(judge: Judge, whole: Box, order: int, bound: float, limit: int) -> Outcome:
    """Whether an error is at most a bound on a box; ``undecided`` as soon as it is seen not to be."""
    with exactly(order):
        found, left = _cut(judge, [(1.0, inf, whole)], whole, limit, bound)
    return replace(found, verdict="undecided") if left or found.seen > bound else found


def largest(question: Question, floor: float, limit: int) -> Outcome:
    """The largest distance of a network from its formula, whatever bound is asked for."""
    with exactly(question.order):
        space = Space(question.lower, question.upper, question.direction)
    return supremum(partial(_on, question, space), question.whole, question.order, floor, limit)


def _cut(
    judge: Judge, parts: list[Part], whole: Box, limit: int, bound: float | None, floor: float = 0.0
) -> tuple[Outcome, list[Part]]:
    """Halve boxes until each is within the bound, or one is not; without a bound, until more cutting hardly helps.

    The smallest box comes first, or the worst without a bound. What is left has the bound of what it was cut from.
    """
    found, left = Outcome(), sorted(parts)
    enough = floor if bound is None else bound
    while left and left[0][1] > enough and found.cells < limit and not time_is_up():
        _, _, box = heapq.heappop(left)
        above, below = judge(box)
        above, seen = (above if above == above else inf), max(found.seen, below)
        if bound is None:
            enough = max(enough, CLOSE * seen)
        halved = halves(box, whole) if above > enough else []
        stuck = above > enough and not halved  # two neighbouring floats: there is nothing between them
        reached = above if stuck or above <= enough else 0.0
        found = found.and_(Outcome("undecided" if stuck else "confirmed", reached, below, middle(box), 1))
        if bound is not None and seen > bound:
            break
        for part in halved:
            heapq.heappush(left, (-above if bound is None else volume(part, whole), above, part))
    return found, left


def middle(box: Box) -> tuple[float, ...]:
    """The middle of a box, as its cell has it."""
    return tuple(a / 2 + b / 2 for a, b in zip(*box, strict=True))


def _on(question: Question, space: Space, box: Box) -> tuple[float, float]:
    """Bounds of |run - formula| on the box from above, and at its middle from below."""
    cell = Cell(*box, question.order)
    place = Place(space, cell, machine(question.dtype))
    row, feature = question.entry
    output = run(place, question.network, question.tokens, NEGLIGIBLE * question.bound)[row]()[feature]
    inputs = {name: Form({i: ONE}, ZERO) for name, i in question.names}
    formula = FormulaOn(inputs, space, cell)(question.tree)
    return distance(cell, output, formula)


def distance(cell: Cell, output: Value, formula: Model) -> tuple[float, float]:
    """Bounds of |run - formula| on the cell from above, and at its middle from below."""
    apart = cell.add(output.model, cell.scale(arb(-1), formula))
    above = min(cell.largest(apart)[0] + output.off, upper(abs(output.run - cell.range(formula))))
    below = lower(abs(apart.at[0])) - output.off
    return (above if above == above else inf) * (1 + 2.0**-50), below * (1 - 2.0**-50) if below > 0 else 0.0


def halves(box: Box, whole: Box) -> list[Box]:
    """The box cut across its longest side, in units of the domain; none where no float lies between its ends."""
    sides = [(b - a) / (d - c) if d > c else 0.0 for a, b, c, d in zip(*box, *whole, strict=True)]
    axis = int(np.argmax(sides))
    low, cut, high = box[0][axis], middle(box)[axis], box[1][axis]
    if not low < cut < high:
        return []
    first, second = list(box[1]), list(box[0])
    first[axis] = second[axis] = cut
    return [(box[0], tuple(first)), (tuple(second), box[1])]


def volume(box: Box, whole: Box) -> float:
    """The box's share of the whole."""
    sides = [(b - a) / (d - c) for a, b, c, d in zip(*box, *whole, strict=True) if d > c]
    return float(np.prod(sides))


@contextmanager
def exactly(order: int) -> Iterator[None]:
    """Balls of many bits, series up to an order; what overflows is no number, and nothing is known of it."""
    before = ctx.cap
    ctx.cap = order + 1
    try:
        with precision(BITS), np.errstate(all="ignore"):
            yield
    finally:
        ctx.cap = before

r"""A search for covers that prove a statement: the worst cells are cut until bounds are close to errors at points.

For every group of outputs that vary along one linear form of the inputs, or along none, there is one cover. What is
tried: variables (:func:`_form`), a table of multi-indices (:func:`_table`), the distance of keys that are charged in
one (:func:`_far`), first cells (:mod:`.first_cells`). Then the cells whose bounds are largest are cut, the fewer the
more parts, across the axis that adds most to what models leave out. As errors at points count what the same models say
of cells without extent: bounds are close to what this way of proving can tell, rounding included.

Nothing here is trusted. The kernel's :class:`.Cover` evaluates cells and keeps their bounds; guesses here only
make them few.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import groupby

import numpy as np
import numpy.typing as npt

from attnforge.effort import NORMAL, TIME, Effort, check_time, time_is_up
from attnforge.errors import CertificateError, OutOfTimeError
from attnforge.expression import evaluate
from attnforge.kernel.cells import Block, Cover, Enclosure, cells, errors_on, numbers_held
from attnforge.kernel.degrees import Degrees
from attnforge.kernel.plan import INPUTS, Plan, Variables
from attnforge.kernel.theorem import Output, Statement, Theorem
from attnforge.network.apply import apply_layer
from attnforge.outward.branch_and_bound import Progress, Report
from attnforge.proving.first_cells import first_edges
from attnforge.targets import Box
from attnforge.targets.structure.ridge import direction_of

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

CLOSE, CLOSE_ROUNDING = 1.05, 1.15  # the bound may exceed errors at points by this factor; where these are rounding
ROUNDING = 2.0**10  # roundoffs: relative errors up to so many are rounding
ORDERS, MANY = {1: 12, 2: 5, 3: 3, 4: 3}, 2  # of models, by the number of inputs, and with more of them
PRODUCT = {2: 10, 3: 7, 4: 5}  # where heads may be products of heads
PRODUCT_KEYS = 64  # from so many keys on
LINE = 12  # of models along a form, or of the one variable that functions are not affine in
TRIED, BETTER = 8, 0.5  # cells on which tables are tried, and what another than the usual one must be better by
BATCH, POINTS = 256, 4  # cells cut at once, and those of them in which points are looked at
FEW = {64: 2, 16: 4, 1: 8}  # parts of a cell where so many are cut at once
SAMPLES, STEP, FOLLOWS = 64, 2.0**-10, 1e-3  # pairs of points that show whether a form is followed; their distance
NEAR = 64  # keys of a head that are no further on a cell, or fewer
FAR, NEAREST, FARTHEST = 1e4, 12.0, 48.0  # what is charged for far keys is so much smaller than the error
BLIND = "what the proof's own numbers can tell"
LITTLE, TIE = 2.0**-20, 2.0**-60  # what layers vary decides where outputs do not, and else the longest side


@dataclass(frozen=True, eq=False)
class Search:
    """The theorem, the largest error at a point, how many cells were looked at, and what kept the bound from it."""

    theorem: Theorem
    attained: float
    looked_at: int
    limit: str | None


def prove_by_cells(statement: Statement, effort: Effort = NORMAL, progress: Report | None = None) -> Search:
    """A theorem about all outputs, by the best covers that the effort allows.

    >>> from attnforge.network import Linear, Network, Term
    >>> from attnforge.kernel.theorem import Domain, Formulas, Run
    >>> from attnforge.expression import parse
    >>> network = Network((Linear((Term(np.array([[3.0]])),)),), 1)
    >>> target = Formulas((Output(0, 0, parse("3*x + 1"), {"x": 0}),))
    >>> statement = Statement(Run(network, "float64"), target, Domain(np.zeros((1, 1)), np.ones((1, 1))))
    >>> found = prove_by_cells(statement)
    >>> found.theorem.status, round(found.theorem.bound, 9), found.limit
    ('proved', 1.0, None)
    """
    if statement.inputs > INPUTS:
        got = f"{statement.inputs} inputs"
        raise CertificateError(f"Cells are cut in up to {INPUTS} inputs", got, "Measure it instead")
    groups = _groups(statement)
    covers, attained, limits = [], 0.0, []
    for done, (outputs, form) in enumerate(groups):
        plan = _plan(statement, outputs, form)
        part = None if progress is None else _part(progress, done, len(groups))
        cover, known, limit = _Search(statement, plan, effort, len(groups)).cut(attained, part)
        covers.append(cover)
        attained = max(attained, known)
        limits += [] if limit is None else [limit]
    looked_at = sum(cover.count for cover in covers)
    return Search(cells(statement, covers), attained, looked_at, limits[0] if limits else None)


def _part(progress: Report, done: int, of: int) -> Report:
    return lambda fraction: progress((done + fraction) / of)


Form = tuple[int, tuple[float, ...]] | None  # the input that a form stands for, and its weights


def _groups(statement: Statement) -> list[tuple[tuple[int, ...], Form]]:
    """Outputs of one row that vary along the same form."""
    outputs = statement.target.outputs
    known = [(output.row, _form(statement, output)) for output in outputs]
    numbers = sorted(range(len(outputs)), key=lambda i: (known[i][0], known[i][1] or ()))
    return [(tuple(some), form) for (_, form), some in groupby(numbers, key=lambda i: known[i])]


def _form(statement: Statement, output: Output) -> Form:
    """A linear form along which the output and its formula vary, to what is seen at points."""
    read, (lower, upper) = list(output.inputs.values()), statement.domain.ends
    if len(read) < 2:
        return None
    box = Box(lower[read], upper[read])
    direction = direction_of(output.tree, tuple(output.inputs), box)
    weights = np.zeros(len(lower))
    if direction is not None:
        weights[read] = direction.weights(box)
    pivot = int(np.abs(weights).argmax())
    if np.count_nonzero(weights) < 2 or weights[pivot] != 1.0 or not _follows(statement, output, weights):
        return None
    return pivot, tuple(weights.tolist())


def _follows(statement: Statement, output: Output, weights: Array) -> bool:
    """Whether the network's output hardly changes across the form."""
    rng, (lower, upper) = np.random.default_rng(0), statement.domain.ends
    points = rng.uniform(lower, upper, size=(SAMPLES, len(lower)))
    steps = rng.normal(size=points.shape) * (upper - lower) * STEP * (weights != 0)
    across = steps - np.outer(steps @ weights / (weights @ weights), weights)
    ends = (points, points + across, points + steps - across)
    at, aside, along = (_values(statement, each)[:, output.row, output.feature] for each in ends)
    return bool(np.abs(aside - at).max() <= FOLLOWS * np.abs(along - at).max())


def _values(statement: Statement, points: Array) -> Array:
    """The network's output (S, n', m') at points (S, D), about."""
    return np.asarray(statement.run.held(points.reshape(len(points), *statement.domain.shape)))


def _plan(statement: Statement, outputs: tuple[int, ...], form: Form) -> Plan:
    """How these outputs are looked at."""
    inputs = statement.inputs
    pivot, weights = (0, None) if form is None else form
    plan = Plan(outputs, ((),) * inputs, ORDERS.get(inputs, MANY), (), False, _far(statement, outputs), pivot, weights)
    plan = _table(statement, plan)
    variables = Variables.of(plan, statement.domain)
    return replace(plan, edges=first_edges(statement, [statement.target.outputs[i] for i in outputs], variables))


def _far(statement: Statement, outputs: tuple[int, ...]) -> float:
    """From the error at some points: keys whose weights are smaller by far may be charged in one."""
    error, size = _errors(statement, outputs)
    return float(np.clip(np.log(FAR * size / error) + 7, NEAREST, FARTHEST))


def _errors(statement: Statement, outputs: tuple[int, ...]) -> tuple[float, float]:
    """The largest error at some points, at least a roundoff, and the largest output there."""
    points = np.random.default_rng(2).uniform(*statement.domain.ends, size=(SAMPLES, statement.inputs))
    values = _values(statement, points)
    wanted = [_wanted(statement.target.outputs[i], points) for i in outputs]
    computed = [values[:, each.row, each.feature] for each in (statement.target.outputs[i] for i in outputs)]
    size = max(float(np.abs(values).max()), np.finfo(np.float64).tiny)
    error = float(np.nan_to_num(np.abs(np.subtract(computed, wanted))).max())
    return max(error, size * statement.run.machine.roundoff), size


def _wanted(output: Output, points: Array) -> Array:
    """The formula at points (..., D)."""
    return np.asarray(evaluate(output.tree, {name: points[..., i] for name, i in output.inputs.items()}))


def _table(statement: Statement, plan: Plan) -> Plan:
    """With the multi-indices that say most on a few small cells, if they say much more than the usual ones."""
    inputs = statement.inputs
    if inputs == 1:
        return plan
    if plan.weights is not None:
        limits = tuple(LINE if i == plan.pivot else 1 for i in range(inputs))
        return replace(plan, degree=LINE, limits=limits, lone=True)
    if inputs > max(ORDERS):
        return plan
    plans = [plan]
    for k in range(inputs):
        plans.append(replace(plan, degree=LINE + 1, limits=tuple(LINE if i == k else 1 for i in range(inputs))))
    keys = max([head.memory_size for head in statement.run.network.heads], default=1)
    if keys >= PRODUCT_KEYS:
        plans.append(replace(plan, degree=PRODUCT[inputs]))
    sizes = [_tried(statement, each, min(1 / 8, keys ** (-1 / inputs) / 2)) for each in plans]
    best = int(np.argmin(sizes))
    return plans[best] if sizes[best] < BETTER * sizes[0] else plan


def _tried(statement: Statement, plan: Plan, share: float) -> float:
    """The median bound on some cells whose sides are this share of the domain's."""
    low, high = statement.domain.ends
    corner = np.random.default_rng(1).uniform(low, low + (high - low) * (1 - share), size=(TRIED, len(low)))
    bounds = errors_on(statement, plan, corner, corner + share * (high - low))
    return float(np.median(np.where(np.isfinite(bounds), bounds, np.inf)))


def _numbers(statement: Statement) -> int:
    """Of one coefficient on a cell that takes time: far keys take little."""
    network, tokens = statement.run.network, statement.domain.shape[0]
    heads = sum(min(head.memory_size, NEAR) + (0 if head.key_rows is None else tokens) for head in network.heads)
    return min(numbers_held(network, tokens), max(tokens * heads, 1))


class _Search:
    """Cuts a cover, with what is observed of its cells: the axis to cut, and points at which the error is large."""

    def __init__(self, statement: Statement, plan: Plan, effort: Effort, groups: int) -> None:
        self.statement, self.plan, self.variables = statement, plan, Variables.of(plan, statement.domain)
        numbers = len(plan.table()) * _numbers(statement)
        self.most = max(min(effort.boxes, int(effort.pairs / numbers)) // groups, 1)
        error, size = _errors(statement, plan.outputs)
        rounding = error <= ROUNDING * statement.run.machine.roundoff * size
        self.close = CLOSE_ROUNDING if rounding else CLOSE
        self.axes, self.points = np.zeros(0, dtype=np.int64), np.zeros((0, statement.inputs))

    def cut(self, negligible: float, progress: Report | None) -> tuple[Cover, float, str | None]:
        """The cover, the largest error at a point, and what ended the search before these were close, if anything."""
        cover, way = Cover(self.statement, self.plan, self._observe), Progress(progress)
        attained = self._attained(cover, cover.cells)
        while True:
            goal = max(self.close * attained, negligible)
            way.tell(cover.bound, goal)
            if cover.bound <= goal:
                return cover, attained, None
            left, divisible = cover.cells, self._divisible(cover, cover.cells)
            least = max(goal, float(cover.bounds(left[~divisible]).max(initial=0.0)))
            open_ = left[divisible & (cover.bounds(left) > least)]
            if not len(open_):
                return cover, attained, BLIND
            if cover.count >= self.most or time_is_up():
                return cover, attained, TIME if time_is_up() else f"{self.most} cells"
            worst = open_[np.argsort(-cover.bounds(open_), kind="stable")[:BATCH]]
            parts = next(parts for count, parts in FEW.items() if len(worst) >= count)
            try:
                attained = max(attained, self._attained(cover, cover.cut(worst, self.axes[worst], parts)))
            except OutOfTimeError:  # the cells so far still cover the domain
                return cover, attained, TIME

    def _attained(self, cover: Cover, some: Integers) -> float:
        """The largest error at points of the worst of some cells."""
        bounds = cover.bounds(some)
        worst = some[np.argsort(np.where(np.isfinite(bounds), -bounds, 0.0), kind="stable")[:POINTS]]
        (lower, upper), points = cover.between(worst), self.points[worst]
        errors = errors_on(
            self.statement, self.plan, np.where(self._whole, lower, points), np.where(self._whole, upper, points)
        )
        return float(errors[np.isfinite(errors)].max(initial=0.0))

    @cached_property
    def _whole(self) -> npt.NDArray[np.bool_]:
        """The variables (D,) that are not worth a cut: models are affine in them, and so are functions, nearly."""
        limits = np.array(self.plan.limits or (2,) * self.statement.inputs)
        return np.asarray((limits == 1) & self.plan.lone)

    def _divisible(self, cover: Cover, some: Integers) -> npt.NDArray[np.bool_]:
        """Whether a float lies between the ends of cells."""
        low, high = (np.take_along_axis(ends, self.axes[some, None], axis=1)[:, 0] for ends in cover.between(some))
        middle = low / 2 + high / 2
        return np.asarray((low < middle) & (middle < high))

    def _observe(self, block: Block) -> None:
        """Keep the axis to cut of every cell, and a point at which its error is large."""
        check_time("proving by cells")
        worst = np.argmax([each.bound for each in block.enclosures], axis=0)
        hints = [self._hint(each) for each in block.enclosures]
        share, place = (np.stack([hint[k] for hint in hints])[worst, np.arange(len(worst))] for k in range(2))
        middle, radius = block.lower / 2 + block.upper / 2, block.upper / 2 - block.lower / 2
        unknown = ~(share.max(axis=1) > 0)
        if unknown.any() and radius.any() and radius.shape[1] > 1:
            share[unknown] = self._varying(middle[unknown], radius[unknown])
        widths = self.variables.upper - self.variables.lower
        share = np.where(self._whole, 0.0, np.nan_to_num(share, posinf=0.0)) + TIE * radius / np.where(
            widths > 0, widths, 1.0
        )
        self.axes = np.concatenate([self.axes, np.where(radius > 0, share, -1.0).argmax(axis=1)])
        self.points = np.concatenate([self.points, middle + place * radius])

    def _hint(self, known: Enclosure) -> tuple[Array, Array]:
        """What each axis adds to the bound (C, D), zero where nothing is known, and where (C, D) the error is large."""
        table, error, rest = known.error.table, known.error, known.error.rest.values
        curved = _along_axes(table, np.abs(error.c), table.totals > 1)
        last = _along_axes(table, np.abs(known.computed.c) + np.abs(known.formula.c), _last(table))
        flat = ~(np.abs(known.computed.c[1:]).sum(axis=0) > rest)  # models say little: what varies is seen at points
        wide = rest > known.polynomial.above - known.polynomial.below
        share = np.where(wide[:, None], np.where(flat[:, None], 0.0, last), curved)
        return share, known.polynomial.place

    def _varying(self, middle: Array, radius: Array) -> Array:
        """How much outputs and formulas change from the middles of cells to their sides (C, D), and a little of layers.

        Where heads choose, an output may be flat on a cell that what they read must still be cut for.
        """
        sides = np.concatenate([np.zeros((1, middle.shape[1])), np.eye(middle.shape[1]), -np.eye(middle.shape[1])])
        inputs = self.variables.at(middle[:, None] + sides * radius[:, None])
        state = inputs.reshape(*inputs.shape[:2], *self.statement.domain.shape)
        varied = np.zeros((len(middle), len(sides) - 1))
        for layer in self.statement.run.held.layers:
            state = apply_layer(layer, state)
            varied += LITTLE * _change(state.reshape(*inputs.shape[:2], -1)) / np.abs(state).max()
        for output in (self.statement.target.outputs[i] for i in self.plan.outputs):
            computed = state[..., output.row, output.feature, None]
            varied += _change(computed) + _change(_wanted(output, inputs)[..., None])
        return np.asarray(np.nan_to_num(varied).reshape(len(middle), 2, -1).max(axis=1))


def _change(values: Array) -> Array:
    """From the first of some points to each of the others (C, S - 1), of (C, S, k) values the largest."""
    return np.asarray(np.abs(values[:, 1:] - values[:, :1]).max(axis=2))


def _along_axes(table: Degrees, sizes: Array, some: npt.NDArray[np.bool_]) -> Array:
    """What some coefficients (T, C) add along each axis (C, D)."""
    return np.asarray(sizes[some].T @ table.exponents[some])


@lru_cache
def _last(table: Degrees) -> npt.NDArray[np.bool_]:
    """The multi-indices, but for zero, that cannot be raised in some variable: what is left out is about as large."""
    steps = np.eye(table.inputs, dtype=np.int64)
    kept = [all(tuple(map(int, each + step)) in table.place for step in steps) for each in table.exponents]
    return ~np.array(kept) & (table.totals > 0)

r"""The rule of cells: a domain is cut into cells, and on each the run less the formula is bounded as a Taylor model.

**The rule.** Let cells cover the domain. On each, models enclose every output that any run computes
(:mod:`.run`) and the formula it is compared with (:mod:`.formula`); so does their difference $p + r$, $|r| \le \rho$,
and $|p|$ is bounded by Bernstein's coefficients (:mod:`.bernstein`) or by the sum of its own. The largest
$\max |p| + \rho$ of a cell bounds the error on the domain.

**Cover.** The first cells are a grid: along variable i the places
$l_i = e_0 \le e_1 \le \dots \le e_n = u_i$, whose ends are those of the box and are not part of the plan. A cell is
replaced by k parts between $x_0 = l$, $x_j = \min(l + (u - l) j/k, u)$ in float64, $x_k = u$. Rounded division by k,
products with $u - l \ge 0$, sums with l and the minimum never decrease with j, so that $x_{j-1} \le x_j$, and the parts
share their ends: their union is the cell. Nothing else changes the set of cells; hence no cut leaves a gap, whoever
chooses it.

**Who decides what.** A :class:`.Plan` says how cells are looked at and in which variables, and ``Cover.cut`` which of
them are replaced: both may be anything, a bad choice gives a large bound. A cover keeps the tree of its cuts, from
which :func:`replayed` makes the same cells without search. Limits are those of memory and time, whatever is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.errors import CertificateError
from attnforge.kernel.bernstein import Largest, largest_size
from attnforge.kernel.formula import formula_models
from attnforge.kernel.models import Models
from attnforge.kernel.plan import CELLS, INPUTS, Plan, Variables
from attnforge.kernel.reading import fields, listed, refuse, whole
from attnforge.kernel.rounding import EXACT
from attnforge.kernel.run import run_network
from attnforge.kernel.theorem import Output, Statement, Theorem, concluded
from attnforge.network import Network
from attnforge.outward import Machine, Up

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

RULE = "cells"
PARTS = 8  # a cell is cut into, at most
LEVELS = 2**10  # of cuts, at most: an axis can be halved about as often in float64
NUMBERS = 2**26  # of one array on one cell, at most
WORK = 2**36  # multiplications for one product of such arrays on all cells, at most
BLOCK = 2**19  # numbers of one array held at once, where a cell takes no more
PIECES = {1: 8, 2: 4, 3: 2}  # of a cell along each axis, on which polynomials of so many inputs are bounded
WORST = 16  # cells whose bounds are told apart into what is exact and what is rounding
COEFFICIENTS = 2**12  # of Bernstein's a cell, at most


@dataclass(frozen=True, eq=False)
class Enclosure:
    """One output on C cells: what runs compute, the formula, and their difference, with its largest polynomials."""

    output: Output
    computed: Models
    formula: Models
    error: Models
    polynomial: Largest

    @property
    def bound(self) -> Array:
        """Upper bounds (C,) of the error; infinite where nothing is known."""
        bound = (Up(self.polynomial.above) + self.error.rest).values
        return np.where(np.isnan(bound), np.inf, bound)


@dataclass(frozen=True, eq=False)
class Block:
    """Cells that were looked at in one, with the bounds (C,) of the largest error of an output on each."""

    lower: Array
    upper: Array
    enclosures: tuple[Enclosure, ...]

    @property
    def bound(self) -> Array:
        """Upper bounds (C,) of the largest error."""
        return np.asarray(np.max([each.bound for each in self.enclosures], axis=0))


Observe = Callable[[Block], None]


def errors_on(
    statement: Statement,
    plan: Plan,
    lower: Array,
    upper: Array,
    observe: Observe | None = None,
    machine: Machine | None = None,
) -> Array:
    """Upper bounds (C,) of the errors of a plan's outputs on cells (C, D) of its variables.

    ``observe`` is given every block once its bounds are known; what it raises ends the work. Another ``machine`` than
    the statement's says what part of an error is not its rounding.
    """
    table, variables = plan.table(), Variables.of(plan, statement.domain)
    held = len(table) * numbers_held(statement.run.network, statement.domain.shape[0])
    whole(held, 1, NUMBERS, "The numbers held for one cell")
    whole(held * (len(table) + 1) // 2 * len(lower), 0, WORK, "The multiplications for all cells")
    step, bounds = max(1, BLOCK // held), np.full(len(lower), np.inf)
    for start in range(0, len(lower), step):
        part = slice(start, start + step)
        inputs = variables.inputs(table, lower[part], upper[part])
        block = Block(lower[part], upper[part], _enclosures(statement, plan, inputs, machine or statement.run.machine))
        bounds[part] = block.bound
        if observe is not None:
            observe(block)
    return bounds


def _enclosures(statement: Statement, plan: Plan, inputs: Models, machine: Machine) -> tuple[Enclosure, ...]:
    """Of the plan's outputs, from models (C, D) of the inputs."""
    with np.errstate(all="ignore"):
        rows = inputs.shaped(inputs.shape[0], *statement.domain.shape)
        state = run_network(statement.run.held, rows, machine, far=plan.far)
        return tuple(_enclosure(statement.target.outputs[i], state, inputs) for i in plan.outputs)


def _enclosure(output: Output, state: Models, inputs: Models) -> Enclosure:
    if output.row >= state.shape[1] or output.feature >= state.shape[2]:
        got = f"row {output.row}, feature {output.feature} of {state.shape[1]} x {state.shape[2]}"
        raise CertificateError("A network has the outputs it is compared in", got, "State it of the network's outputs")
    computed = state[:, output.row, output.feature]
    formula = formula_models(output.tree, {name: inputs[:, i] for name, i in output.inputs.items()})
    error = computed - formula
    return Enclosure(output, computed, formula, error, _largest(error))


def _largest(error: Models) -> Largest:
    """Of the polynomials of models (C,): by Bernstein's coefficients, or by the sum of their own where that is less."""
    table = error.table
    plain = Up(np.abs(error.c)).sum(0).values
    counts, pieces = [int(most) + 1 for most in table.exponents.max(axis=0)], PIECES.get(table.inputs, 1)
    if math.prod(counts) * pieces**table.inputs > COEFFICIENTS:
        return Largest(plain, np.zeros(len(plain)), np.zeros((len(plain), table.inputs)))
    dense = np.zeros((len(plain), *counts))
    dense[(slice(None), *table.exponents.T)] = error.c.T
    above, below, place = largest_size(dense, pieces)
    return Largest(np.minimum(above, plain), below, place)


def numbers_held(network: Network, tokens: int) -> int:
    """Functions that are held at once: of all pairs of a query and a key, or of all features where there are more."""
    layers = (*network.layers, *network.context_layers)
    terms = [term for layer in layers for term in getattr(layer, "terms", ())]
    rows = max([tokens, *(len(term.mix) for term in terms if term.mix is not None)])
    widths = [network.features, *(term.map.shape[-1] for term in terms if term.map is not None)]
    pairs = [rows * (head.memory_size + (0 if head.key_rows is None else rows)) for head in network.heads]
    return int(max(sum(pairs), rows * max(widths)))


def parts_of(lower: Array, upper: Array, axes: Integers, parts: Integers) -> tuple[Array, Array]:
    """Cells (C, D), each cut across an axis into so many parts, which follow one another.

    >>> cut = parts_of(np.zeros((1, 1)), np.ones((1, 1)), np.array([0]), np.array([4]))
    >>> [ends.ravel().tolist() for ends in cut]
    [[0.0, 0.25, 0.5, 0.75], [0.25, 0.5, 0.75, 1.0]]
    """
    cell = np.repeat(np.arange(len(lower)), parts)
    number = np.arange(len(cell)) - np.repeat(np.cumsum(parts) - parts, parts)
    lows, highs, axis = lower[cell], upper[cell], axes[cell]
    every, low, high = np.arange(len(cell)), lower[cell, axis], upper[cell, axis]
    lows[every, axis] = _place(low, high, number, parts[cell])
    highs[every, axis] = _place(low, high, number + 1, parts[cell])
    return lows, highs


def _place(low: Array, high: Array, number: Integers, parts: Integers) -> Array:
    """The ends of parts."""
    with np.errstate(over="ignore", invalid="ignore"):  # of infinity times zero, where it is not taken
        between = np.minimum(low + (high - low) * (number / parts), high)
    return np.where(number == 0, low, np.where(number == parts, high, between))


def _grid(plan: Plan, variables: Variables) -> tuple[Array, Array]:
    """The first cells (C, D): between all edges of all variables."""
    whole(math.prod(len(each) + 1 for each in plan.edges), 1, CELLS, "The number of cells")
    places = [np.array([a, *each, b]) for a, each, b in zip(variables.lower, plan.edges, variables.upper, strict=True)]
    if any((each[1:] < each[:-1]).any() for each in places):
        refuse("Edges lie between the ends of the variables, in order", plan.edges)
    sides = [np.meshgrid(*(each[part] for each in places), indexing="ij") for part in (slice(-1), slice(1, None))]
    lower, upper = (np.stack([axis.ravel() for axis in side], axis=1) for side in sides)
    return lower, upper


def _codes(value: Any) -> tuple[int, ...]:
    return listed(value, CELLS, "The cuts of a level", lambda each: whole(each, 0, INPUTS * PARTS, "A code of a cut"))


class Cover:
    """Cells that cover the domain, in the variables of a plan, with a bound of the error on each.

    Every cell that was made has a number: those of the grid come first. ``cells`` are the numbers of those that cover
    the domain now; a cell that is cut is none of them any more, and its parts are.
    """

    def __init__(self, statement: Statement, plan: Plan, observe: Observe | None = None) -> None:
        self._start(statement, plan, observe)
        self._bounds = self._bounded(self._lower, self._upper)

    def _start(self, statement: Statement, plan: Plan, observe: Observe | None) -> None:
        """With the cells of the grid, of which nothing is known."""
        self._statement, self._plan, self._observe = statement, Plan.of(plan.data(), statement), observe
        self._lower, self._upper = _grid(self._plan, Variables.of(self._plan, statement.domain))
        self._codes, self._first = np.zeros((2, len(self._lower)), dtype=np.int64)
        self._bounds = np.full(len(self._lower), np.inf)

    @classmethod
    def replayed(cls, statement: Statement, data: Any, observe: Observe | None = None) -> Cover:
        """The cover that was made by these cuts, ``data`` of another: only the cells that are left are looked at."""
        given = fields(data, {"plan", "cuts"}, "a cover")
        cover = cls.__new__(cls)
        cover._start(statement, Plan.of(given["plan"], statement), observe)
        level = np.arange(len(cover._lower))
        for codes in listed(given["cuts"], LEVELS, "Cuts", _codes):
            level = cover._cut_level(level, codes)
        left = cover.cells
        cover._bounds[left] = cover._bounded(cover._lower[left], cover._upper[left])
        return cover

    def _cut_level(self, level: Integers, codes: Sequence[Any]) -> Integers:
        """The parts of those cells of a level that have a code other than zero."""
        inputs = self._lower.shape[1]
        if len(codes) != len(level):
            refuse("There is a code for every cell of a level", f"{len(codes)} for {len(level)} cells")
        kinds = np.array([whole(code, 0, inputs * (PARTS - 1), "A code of a cut") for code in codes], dtype=np.int64)
        some = np.flatnonzero(kinds)
        axes, parts = (kinds[some] - 1) % inputs, (kinds[some] - 1) // inputs + 2
        lower, upper = self._parts(level[some], axes, parts)
        return self._replace(level[some], axes, parts, lower, upper, np.full(len(lower), np.inf))

    @property
    def statement(self) -> Statement:
        """What is being proved."""
        return self._statement

    @property
    def plan(self) -> Plan:
        """How its outputs are looked at."""
        return self._plan

    @property
    def cells(self) -> Integers:
        """The numbers (C,) of the cells that cover the domain."""
        return np.flatnonzero(self._codes == 0)

    @property
    def count(self) -> int:
        """How many cells were made."""
        return len(self._codes)

    @property
    def bound(self) -> float:
        """The largest bound of these cells."""
        return float(self._bounds[self.cells].max())

    def between(self, cells: Integers) -> tuple[Array, Array]:
        """The ends (C, D) of cells, by their numbers."""
        return self._lower[cells], self._upper[cells]

    def bounds(self, cells: Integers) -> Array:
        """The bounds (C,) on cells, by their numbers."""
        return self._bounds[cells]

    def cut(self, cells: Integers, axes: Integers, parts: int) -> Integers:
        """Replace cells by so many parts across an axis each; the numbers of all parts, cell by cell."""
        parts_each = np.full(len(cells), whole(parts, 2, PARTS, "The number of parts"))
        inside = (cells >= 0).all() and (cells < len(self._codes)).all() and len(np.unique(cells)) == len(cells)
        if not inside or self._codes[cells].any() or not np.isin(axes, np.arange(self._lower.shape[1])).all():
            refuse("Cells that are cut are among those that cover the domain, and so are axes", cells)
        lower, upper = self._parts(cells, axes, parts_each)
        return self._replace(cells, axes, parts_each, lower, upper, self._bounded(lower, upper))

    def _parts(self, cells: Integers, axes: Integers, parts: Integers) -> tuple[Array, Array]:
        whole(len(self._codes) + int(parts.sum()), 0, CELLS, "The number of cells")
        return parts_of(self._lower[cells], self._upper[cells], axes, parts)

    def _replace(
        self, cells: Integers, axes: Integers, parts: Integers, lower: Array, upper: Array, bounds: Array
    ) -> Integers:
        """Put the parts of cells in their place."""
        before = len(self._codes)
        self._codes[cells] = 1 + axes + self._lower.shape[1] * (parts - 2)
        self._first[cells] = before + np.cumsum(parts) - parts
        self._lower, self._upper = np.concatenate([self._lower, lower]), np.concatenate([self._upper, upper])
        self._bounds = np.concatenate([self._bounds, bounds])
        more = np.zeros(len(lower), dtype=np.int64)
        self._codes, self._first = np.concatenate([self._codes, more]), np.concatenate([self._first, more])
        return np.arange(before, len(self._codes))

    def _bounded(self, lower: Array, upper: Array) -> Array:
        return errors_on(self._statement, self._plan, lower, upper, self._observe)

    def exact(self) -> float:
        """What the largest bounds would be, did the arithmetic round nothing: an account, and no part of a proof."""
        worst = self.cells[np.argsort(-self._bounds[self.cells], kind="stable")[:WORST]]
        errors = errors_on(self._statement, self._plan, *self.between(worst), machine=EXACT)
        return min(float(errors.max()), self.bound)

    def data(self) -> dict[str, Any]:
        """The plan, and the tree of cuts level by level: zero for a cell that is left, else which axis and parts."""
        levels, level = [], np.arange(math.prod(len(each) + 1 for each in self._plan.edges))
        while self._codes[level].any():
            codes = self._codes[level]
            levels.append(codes.tolist())
            some = level[codes > 0]
            parts = (self._codes[some] - 1) // self._lower.shape[1] + 2
            starts = np.repeat(self._first[some] - np.cumsum(parts) + parts, parts)
            level = starts + np.arange(len(starts))
        return {"plan": self._plan.data(), "cuts": levels}


def cells(statement: Statement, covers: Sequence[Cover]) -> Theorem:
    """The rule: all outputs are near their formulas by the largest bound of a cell of the covers."""
    if any(cover.statement is not statement for cover in covers):
        refuse("Covers are of the statement that they prove", "another statement")
    if {i for cover in covers for i in cover.plan.outputs} != set(range(len(statement.target.outputs))):
        refuse("Covers look at every output", [cover.plan.outputs for cover in covers])
    bound = max(cover.bound for cover in covers)
    exact = max(cover.exact() for cover in covers)
    parts = {"exact": exact, "rounding": float(np.nextafter(bound - exact, 0.0))}
    data = {"rule": RULE, "covers": [cover.data() for cover in covers]}
    return concluded(statement, bound, RULE, parts, data)


def replayed(statement: Statement, data: Any) -> Theorem:
    """The theorem that was proved by these covers, without search."""
    given = fields(data, {"rule", "covers"}, "a proof by cells")
    most = len(statement.target.outputs)
    return cells(statement, listed(given["covers"], most, "Covers", lambda each: Cover.replayed(statement, each)))

r"""Any stack of linear maps and softmax heads against a formula: the whole network enclosed on cells.

No theorem is looked for. Run and formula are Taylor models on cells (:mod:`attnforge.kernel`); on
each, |run - formula| is at most the size of the difference of both. Cells are cut where that is largest, until it is
close to what the same models say at points, or a limit is reached: the largest bound of a cell holds in any case.

Cells are boxes of inputs. Where an output and its formula follow one linear form $y = w \cdot x$, y takes the place of
the input p with the largest weight, $w_p = 1$, and $x_p = y - \sum_{i \ne p} w_i x_i$: then y alone is cut. The box of
these variables holds all inputs of the domain, and others; so it is used only where the network was seen to follow the
form, and what is proved is true either way.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.certification.enclosure.rows import Entry, entries_of, tokens_of
from attnforge.certification.enclosure.run import evenly
from attnforge.certification.statement import Proof, Statement
from attnforge.effort import check_time
from attnforge.errors import CertificateError
from attnforge.expression import evaluate
from attnforge.kernel.degrees import Degrees, degrees
from attnforge.kernel.formula import formula_models
from attnforge.kernel.models import Models
from attnforge.kernel.run import run_network
from attnforge.network import Network
from attnforge.network.apply import apply_layer
from attnforge.outward import Machine, gamma
from attnforge.outward.branch_and_bound import Found, Report, Rules, Supremum, branch_and_bound
from attnforge.targets import Box
from attnforge.targets.structure.ridge import direction_of

Array = npt.NDArray[np.float64]

ORDERS = {1: 8, 2: 5, 3: 3, 4: 3}  # of models, by the number of inputs
MANY, MOST = 2, 16  # their order with more inputs, and the most there may be
CLOSE = 1.05  # the bound may exceed what models say at points by this factor
BATCH = 256  # cells cut at once
FIRST, TOP = 64, 16  # cells at first, and those whose middles are such points
BLOCK = 2**19  # numbers of one array held at once
LITTLE, TIE = 2.0**-20, 2.0**-60  # what layers vary decides where outputs do not, and else the longest side
SAMPLES, STEP, FOLLOWS = 64, 2.0**-10, 1e-3  # pairs of points that show whether a form is followed; their distance


def prove_stack(statement: Statement) -> Proof:
    """``enclosure``: a bound of |run - target| over all outputs, row by row."""
    run, tokens = statement.run, tokens_of(statement)
    box = statement.domain.fixed((tokens, run.features))
    if box.lower.size > MOST:
        raise CertificateError(
            f"Cells are cut in up to {MOST} inputs", f"{box.lower.size} inputs", "Measure it instead"
        )
    rows = [tuple(entries) for _, entries in groupby(entries_of(statement.target, tokens), key=lambda entry: entry.row)]
    worst: Supremum | None = None
    for done, entries in enumerate(rows):
        variables = _variables(entries[-1], run, tokens, box.lower.ravel(), box.upper.ravel())
        error = ErrorOnCells(run, entries, tokens, statement.machine, variables)
        budget = min(statement.effort.boxes, int(statement.effort.pairs / error.numbers)) // len(rows)
        rules = Rules(CLOSE, max(budget, 1), BATCH, negligible=0.0 if worst is None else worst.bound)
        first = evenly(variables.lower, variables.upper, FIRST)
        found = branch_and_bound(error, *first, rules, _part(statement.progress, done, len(rows)))
        worst = found if worst is None or found.bound > worst.bound else worst
    if worst is None or not np.isfinite(worst.bound):
        got = "none" if worst is None else f"none at {worst.limit}"
        raise CertificateError("Some bound must hold on every cell", got, "Measure it instead, or use a wider dtype")
    return Proof({"enclosure": worst.bound}, limit=worst.limit)


def _part(progress: Report | None, done: int, of: int) -> Report | None:
    return None if progress is None else lambda fraction: progress((done + fraction) / of)


@dataclass(frozen=True, eq=False)
class Variables:
    """The box (D,) that cells are cut from; ``weights`` of the form that stands for the input ``pivot``, if any."""

    lower: Array
    upper: Array
    pivot: int = 0
    weights: Array | None = None

    def at(self, points: Array) -> Array:
        """The inputs at points (..., D) of these variables."""
        found = points.copy()
        if self.weights is not None:
            found[..., self.pivot] = points @ self._column()
        return found

    def _column(self) -> Array:
        column = np.zeros(len(self.lower)) if self.weights is None else -self.weights
        column[self.pivot] = 1.0
        return column

    def inputs(self, table: Degrees, lower: Array, upper: Array) -> Models:
        """The inputs (C, D) on cells."""
        found = Models.variables(table, lower, upper)
        if self.weights is None:
            return found
        column = found.through(self._column()[:, None])
        found.c[:, :, self.pivot], found.rest.values[:, self.pivot] = column.c[..., 0], column.rest.values[:, 0]
        return found


def _variables(entry: Entry, network: Network, tokens: int, lower: Array, upper: Array) -> Variables:
    """The inputs, or with the form that the entry follows in place of one of them."""
    read = list(entry.inputs.values())
    direction = None
    if len(read) > 1:
        direction = direction_of(entry.tree, tuple(entry.inputs), Box(lower[read], upper[read]))
    weights = np.zeros(len(lower))
    if direction is not None:
        weights[read] = direction.weights(Box(lower[read], upper[read]))
    pivot = int(np.abs(weights).argmax())
    if np.count_nonzero(weights) < 2 or weights[pivot] != 1.0 or not _follows(network, tokens, weights, lower, upper):
        return Variables(lower, upper)
    ends = np.sort(weights[:, None] * np.stack([lower, upper], axis=1), axis=1)
    slack = gamma(2 * len(lower)) * np.abs(ends).sum()
    low, high = lower.copy(), upper.copy()
    low[pivot], high[pivot] = ends[:, 0].sum() - slack, ends[:, 1].sum() + slack
    return Variables(low, high, pivot, weights)


def _follows(network: Network, tokens: int, weights: Array, lower: Array, upper: Array) -> bool:
    """Whether outputs hardly change beside the form: where to look, not a proof."""
    rng = np.random.default_rng(0)
    points = rng.uniform(lower, upper, size=(SAMPLES, len(lower)))
    steps = rng.normal(size=points.shape) * (upper - lower) * STEP * (weights != 0)
    beside = steps - np.outer(steps @ weights / (weights @ weights), weights)
    at, aside, along = (
        network(each.reshape(SAMPLES, tokens, -1)).reshape(SAMPLES, -1)
        for each in (points, points + beside, points + (steps - beside))
    )
    return bool(np.abs(aside - at).max() <= FOLLOWS * np.abs(along - at).max())


def numbers_held(network: Network, tokens: int) -> int:
    """Functions that are held at once: of all pairs of a query and a key, or of all features where there are more."""
    layers = (*network.layers, *network.context_layers)
    terms = [term for layer in layers for term in getattr(layer, "terms", ())]
    rows = max([tokens, *(len(term.mix) for term in terms if term.mix is not None)])
    widths = [network.features, *(term.map.shape[-1] for term in terms if term.map is not None)]
    pairs = [rows * (head.memory_size + (0 if head.key_rows is None else rows)) for head in network.heads]
    return int(max(sum(pairs), rows * max(widths)))


@dataclass(frozen=True, eq=False)
class ErrorOnCells:
    """Bounds of |run - formula| on cells, for some of the outputs."""

    network: Network
    entries: tuple[Entry, ...]
    tokens: int
    machine: Machine
    variables: Variables

    @cached_property
    def table(self) -> Degrees:
        """The multi-indices of models."""
        inputs = self.variables.lower.size
        return degrees(inputs, ORDERS.get(inputs, MANY))

    @cached_property
    def numbers(self) -> int:
        """Coefficients for one cell: of all pairs of a query and a key, or of all features where there are more."""
        return len(self.table) * numbers_held(self.network, self.tokens)

    def __call__(self, lower: Array, upper: Array, _: Any) -> Found:
        """What is known on cells (C, D); what is seen is what models say at the middles of some of them."""
        some = np.linspace(0, len(lower) - 1, TOP).astype(np.int64) if len(lower) > TOP else np.arange(len(lower))
        middle = lower[some] / 2 + upper[some] / 2
        bound, axis = self.on(np.concatenate([lower, middle]), np.concatenate([upper, middle]))
        seen = np.zeros(len(lower))
        seen[some] = bound[len(lower) :]
        return Found.of(bound[: len(lower)], seen, axis[: len(lower)])

    def on(self, lower: Array, upper: Array) -> tuple[Array, npt.NDArray[np.int64]]:
        """Bounds (C,), and the axis to cut."""
        step = max(1, BLOCK // self.numbers)
        found = [self._block(lower[i : i + step], upper[i : i + step]) for i in range(0, len(lower), step)]
        return np.concatenate([each[0] for each in found]), np.concatenate([each[1] for each in found])

    def _block(self, lower: Array, upper: Array) -> tuple[Array, npt.NDArray[np.int64]]:
        check_time("proving a stack of layers")
        middle, radius = lower / 2 + upper / 2, upper / 2 - lower / 2
        with np.errstate(all="ignore"):
            inputs = self.variables.inputs(self.table, lower, upper)
            outputs = run_network(self.network, _rows(inputs, self.tokens), self.machine)
            parts = [self._apart(outputs, entry, inputs) for entry in self.entries]
            errors = [part.size().values for part in parts]
            worst = np.argmax(errors, axis=0)[None, :, None]
            polynomial = np.take_along_axis(np.stack([part.varying() for part in parts]), worst, axis=0)[0]
            rest = np.take_along_axis(np.stack([part.rest.values for part in parts]), worst[..., 0], axis=0)[0]
            known = polynomial.max(axis=1) > rest
            share = np.where(known[:, None], polynomial, self._varying(middle, radius))
        widths = self.variables.upper - self.variables.lower
        share = np.nan_to_num(share, posinf=0.0) + TIE * radius / np.where(widths > 0, widths, 1.0)
        return np.max(errors, axis=0), np.where(radius > 0, share, -1.0).argmax(axis=1)

    def _apart(self, outputs: Models, entry: Entry, inputs: Models) -> Models:
        """The error (C,) of one output."""
        formula = formula_models(entry.tree, {name: inputs[:, i] for name, i in entry.inputs.items()})
        return outputs[:, entry.row, entry.feature] - formula

    def _varying(self, middle: Array, radius: Array) -> Array:
        """How much outputs and formulas change from the middles of cells to their sides (C, D), and a little of layers.

        Where heads choose, an output may be flat on a cell that what they read must still be cut for.
        """
        sides = np.concatenate([np.zeros((1, middle.shape[1])), np.eye(middle.shape[1]), -np.eye(middle.shape[1])])
        inputs = self.variables.at(middle[:, None] + sides * radius[:, None])
        state, found = inputs.reshape(*inputs.shape[:2], self.tokens, -1), np.zeros((len(middle), len(sides) - 1))
        for layer in self.network.layers:
            state = apply_layer(layer, state)
            found += LITTLE * _change(state.reshape(*inputs.shape[:2], -1)) / np.abs(state).max()
        for entry in self.entries:
            wanted = evaluate(entry.tree, {name: inputs[..., i] for name, i in entry.inputs.items()})
            found += _change(state[..., entry.row, entry.feature, None]) + _change(wanted[..., None])
        return np.asarray(np.nan_to_num(found).reshape(len(middle), 2, -1).max(axis=1))


def _change(values: Array) -> Array:
    """From the first of some points to each of the others (C, S - 1), of (C, S, k) values the largest."""
    return np.asarray(np.abs(values[:, 1:] - values[:, :1]).max(axis=2))


def _rows(inputs: Models, tokens: int) -> Models:
    """Inputs (C, D) as rows (C, n, m)."""
    return inputs.shaped(inputs.shape[0], tokens, inputs.shape[1] // tokens)

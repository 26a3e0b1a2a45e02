r"""The rule "program": on every sequence, a run's result is the program's, up to a bound.

For every sequence of 1 to N tokens over the alphabet, and every token of it: each feature of the result (1 or 0 of a
label, or the number), in every run that the arithmetic of the dtype allows, is within ``bound`` of what
:mod:`attnforge.kernel.sequences` says. Below 1/2, the largest feature is the label, the nearest integer the number.

Given are a network, a program, and a *witness*: which head writes which register, and in which columns registers stand,
if they do. It says where to look: whatever else the weights do is charged. The proof goes layer by layer.

**Sources.** The stream before a layer is $z = \sum_s a_s D_s$, up to an error known entry by entry. The sources $a_s$
are the constant one, the features of registers (a label has one a label: $e_c$; a number has one), and what heads
write that write no register. A head's own register is its mean of values, before its output map: rows of that map are
the directions $D_s$, taken through linear maps since. So a matrix W reads $\sum_s a_s (D_s W)$, whatever the basis. A
column of the stream that is one source, with factor one and no error, is *plain*: reading it is exact.

**Registers.** A feature of a register is what the program says, v, up to leakage + rounding + relative |v|. No label is
taken to say anything of another register's: sums over registers are bounded term by term.

**Rounding.** A sum of k products rounds k - 1 times, and once more if a product does. Of plain columns that are exactly
a label, one product is not zero, and it is exact; products by powers of two are exact, but for underflow.

**Scores** are $\sum_{R,R'} x_R^T B_{RR'} y_{R'}$, $B_{RR'} = Q_R K_{R'}^T$. A run departs from that by
$\sum_r |dq_r| |k_r| + |q_r| |dk_r|$ and the rounding of the sum. What a condition should have in its own blocks is
subtracted; what is left anywhere is bounded by its largest entry and the sizes of the two registers.

*Selections.* A table of labels gives an interval of scores of pairs that meet it, and a largest one of those that do
not. Of equal numbers the blocks should be $2\beta q k - \beta k^2$ (and $-\beta q^2$ where a constant key is compared
with), $\beta$ read off the weights, that is $-\beta(k - q)^2$. An error $\eta$ of the query in columns that are
$\kappa k$ tilts that: with $\eta'$ the sum of $|\kappa \eta|$, a key d away is below the equal one by $\beta d^2 -
\eta' d \ge \beta a^2 - \eta' a$, if they differ by at least a, and $\eta' \le 2 \beta a$. With intervals $[l_i, h_i]$
and largest others $u_i$, keys that meet all have $[\sum l_i, \sum h_i]$, one that fails j at most $u_j + \sum_{i \ne j}
\max(h_i, u_i)$. A ranking adds $\rho r$, r whole numbers.

*Means.* n keys at a gap G below the selected weigh at most $n e^{-G}$ of them, which moves a mean by that much of the
range. Selected ones whose log-weights differ by s or less move the mean of unequal values by at most $\tanh(s/4)$ of
the range. *Counts.* $(1 + w)/(1 + \sum e^{d_k} + \epsilon)$ lies between $e^{-D} - \epsilon$ and $e^D$, $|d_k| \le D$.

*Lookups.* In a class of queries (a cell, or a pair of labels) one constant key is above all others by gaps $G_j$: the
mean is within $\sum_j e^{-G_j} |v_j - v_w|$ of $v_w$. Over a cell, scores are lines $s_j t + c_j$: a gap is linear in
t and what a run adds is convex, so that both ends are enough.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from attnforge.errors import CertificateError, RefusalError
from attnforge.kernel.rounding import power_of_two
from attnforge.kernel.sequences import (
    ONE,
    Cell,
    Count,
    Equal,
    Form,
    Image,
    Input,
    Mean,
    Pair,
    Program,
    Selection,
    Step,
)
from attnforge.kernel.softmax import SoftmaxArithmetic
from attnforge.network import Attention, Head, Layer, Linear, Network, rounded
from attnforge.outward import Balls, Machine, Up, gamma, machine, round_to

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Blocks = dict[tuple[int, int], Balls]

HALF = 0.5  # labels are told apart, and integers, by errors below
KEPT = 46  # bits of weights on sources that are sums of rounded products: the rest is noise
CHUNK = 2**20  # scores looked at at once
ROOM = 1.0625  # times the size of a number, without its roundings, must fit the dtype
APART = 4.0  # times that of a score: differences of two of them, and powers of two
REMEDY = "Build the network anew, for a smaller length or in a wider dtype"


@dataclass(frozen=True)
class Witness:
    """Where to look: of every layer of attention the register that each head writes, None of those that write none.

    ``columns`` are the first columns of all registers in the stream, where each has its own.
    """

    writers: tuple[tuple[int | None, ...], ...]
    columns: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Conclusion:
    """What is proved: the bound of the result, its part of leakage, and the same of registers that have columns.

    ``is_exact``: results are read off without error. Only :func:`prove_program` makes one that may be believed.
    """

    bound: float
    leakage: float
    rounding: float
    is_exact: bool
    registers: tuple[tuple[float, float], ...]


def prove_program(network: Network, program: Program, dtype: str, witness: Witness) -> Conclusion:
    """The theorem of this rule, or a CertificateError that says where it fails."""
    running, kind = rounded(network, dtype), machine(dtype)
    state = _inputs(program, kind)
    stream = _given(state, running)
    if len(running.layers) < 2:
        raise CertificateError("A program's network is a first map, layers of attention, and a last map", "one", REMEDY)
    first, *middle, last = running.layers
    stream, writers = stream.mapped(first, state), list(witness.writers)
    for layer in middle:
        if isinstance(layer, Attention) and layer.residual and writers:
            state, stream = _attended(layer, writers.pop(0), state, stream)
        elif isinstance(layer, Linear):
            stream = stream.mapped(layer, state)
        else:
            raise CertificateError("A program's network is linear maps, and attention with residual", "another", REMEDY)
    if writers:
        raise CertificateError("A witness is about the layers that there are", f"{len(writers)} more", REMEDY)
    leakage, whole = _compared(program.result, stream.read(*_plain_map(last), state), state)
    exact = isinstance(program.result, Image) or program.form_grid(program.result).denominator == 1
    rest = float(np.nextafter(whole - leakage, np.inf))
    bound = float(Up.of(leakage) + rest)
    if not bound < (HALF if exact else np.inf):
        wanted = f"Results must be proved within {HALF:g} of the program's in {dtype}"
        raise CertificateError(wanted, f"an error up to {whole:.3g}", "Use a smaller max_length, or a wider dtype")
    columns = zip(state.held, witness.columns or (), strict=False)
    return Conclusion(bound, leakage, rest, exact, tuple(_in_columns(*each, state, stream) for each in columns))


# what registers hold


@dataclass(frozen=True, eq=False)
class Held:
    """A register's sources, from ``start`` on, what the largest should be, and how far they may be from it."""

    start: int
    size: int
    is_labels: bool
    nominal: Up
    leakage: float = 0.0
    rounding: float = 0.0
    relative: float = 0.0

    @property
    def rows(self) -> slice:
        """Its sources."""
        return slice(self.start, self.start + self.size)

    @property
    def error(self) -> Up:
        """How far a feature may be off."""
        return Up.of(self.leakage) + self.rounding + self.nominal * self.relative

    @property
    def is_exact(self) -> bool:
        """Whether it holds exactly what it should."""
        return self.leakage == self.rounding == self.relative == 0.0

    @property
    def total(self) -> Up:
        """Of the sum of its features' sizes in a run."""
        return self.nominal + self.error * float(self.size)


@dataclass(frozen=True, eq=False)
class State:
    """All sources: those of registers, in order, and the sizes of others that heads have written."""

    program: Program
    machine: Machine
    held: tuple[Held, ...]
    others: Up

    @property
    def count(self) -> int:
        """Sources of registers."""
        return self.held[-1].start + self.held[-1].size

    def nominal(self, departures: Array) -> Up:
        """Of departures (S, r) of weights times what registers should hold, (r,): of a label's features one counts."""
        total = Up.zeros(departures.shape[1])
        for each in self.held:
            if departures[each.rows].any():
                total = total + Up.of(departures[each.rows]).most(0) * each.nominal
        return total

    def errors(self, weights: Array) -> Up:
        """What the errors of registers make of sources times weights (S, r): (r,)."""
        total = Up.zeros(weights.shape[1])
        for each in self.held:
            if not each.is_exact and weights[each.rows].any():
                total = total + Up.of(weights[each.rows]).sum(0) * each.error
        return total

    def sizes(self, weights: Array) -> Up:
        """Of sources times weights (S, r) in a run: (r,)."""
        named = self.nominal(weights) + self.errors(weights)
        beyond = weights[self.count :]
        return named + (self.others[None] @ Up.of(beyond))[0] if beyond.any() else named


def _inputs(program: Program, kind: Machine) -> State:
    """Sources of all registers; of inputs, codes are exact, and integers as the dtype has them."""
    held, start = [], 0
    for register, definition in enumerate(program.registers):
        size, labels = program.size(register), program.is_labels(register)
        grid = program.grid(register)
        largest = Up.of(1.0) if labels else _up(max(abs(grid.lower), abs(grid.upper)))
        squared = isinstance(definition, Input) and definition.kind == "square"
        given = isinstance(definition, Input) and not labels
        relative = _rounded_integers(program.length, 2 if squared else 1, kind) if given else 0.0
        held.append(Held(start, size, labels, largest, relative=relative))
        start += size
    return State(program, kind, tuple(held), Up.zeros(0))


def _rounded_integers(length: int, power: int, kind: Machine) -> float:
    """The largest relative error of positions, or of their squares, as the dtype has them."""
    positions = np.arange(1.0, max(length, 2)) ** power
    off = np.abs(round_to(positions, kind.name) - positions) / positions
    return float(Up.of(off).most() * (1 + 2.0**-50))


# the stream


@dataclass(frozen=True, eq=False)
class Reading:
    """What a matrix reads: weights (S, r) of sources, and how far a run is off, (r,): ``rounding`` and the ``rest``.

    ``factors`` and ``small`` are those of the rounding: of the products' sizes, and of numbers that underflow.
    ``is_plain``: all that is read is plain columns, and weights are exact.
    """

    weights: Balls
    rounding: Up
    rest: Up
    factors: Array
    small: Array
    is_plain: bool

    @property
    def error(self) -> Up:
        """All of it."""
        return self.rounding + self.rest


@dataclass(frozen=True, eq=False)
class Stream:
    """Directions (S, m) of sources, zero until they are written, and the error (m,) of a run."""

    directions: Balls
    error: Up
    machine: Machine

    @cached_property
    def _present(self) -> npt.NDArray[np.bool_]:
        return np.asarray((self.directions.mid != 0) | (self.directions.rad != 0))

    @cached_property
    def plain(self) -> Integers:
        """The source (m,) that a column is, -1 of other columns."""
        alone = (self._present.sum(axis=0) == 1) & (self.error.values == 0)
        source = self._present.argmax(axis=0)
        one = self.directions[source, np.arange(len(source))]
        only = (self._present.sum(axis=1) == 1)[source]  # and the source is nowhere else
        return np.where(alone & only & (one.mid == 1.0) & (one.rad == 0), source, -1)

    @cached_property
    def empty(self) -> npt.NDArray[np.bool_]:
        """Columns (m,) in which nothing is written."""
        return np.asarray(~self._present.any(axis=0) & (self.error.values == 0))

    def size(self, state: State) -> Up:
        """Of columns (m,) in a run."""
        sizes = state.sizes(self.directions.magnitude()) + self.error
        _check_range(sizes, self.machine)
        return sizes

    def is_written(self, rows: slice) -> bool:
        """Whether sources stand anywhere."""
        return bool(self._present[rows].any())

    def read(self, weights: Array, constant: Array | None, state: State) -> Reading:
        """What a matrix (m, r), and a constant (r,) added, reads."""
        if len(weights) != len(self.error.values):
            got = f"{len(weights)} for {len(self.error.values)}"
            raise CertificateError("Matrices have a row for each column of the stream", got, REMEDY)
        added = np.zeros(weights.shape[1]) if constant is None else constant
        products = self._products(weights)
        terms, small, inexact = self._terms(weights, state)
        terms = terms + (added != 0)
        factors = np.array([gamma(int(k), self.machine.roundoff) for k in np.maximum(terms - 1, 0) + inexact])
        is_plain = bool((self.plain >= 0)[np.any(weights != 0, axis=1) & ~self.empty].all())
        sizes = (state.sizes(products.magnitude()) if is_plain else _times(self.size(state), weights)) + added
        _check_range(sizes, self.machine)
        rounding = sizes * Up.of(factors) + Up.of(small) * self.machine.underflow
        known = Balls(np.zeros(products.shape), np.zeros(products.shape))
        known.mid[ONE] = added
        return Reading(products + known, rounding, _times(self.error, weights), factors, small, is_plain)

    def _products(self, weights: Array) -> Balls:
        """Directions times a matrix: of plain columns its rows."""
        mid, rad = np.zeros((len(self._present), weights.shape[1])), np.zeros((len(self._present), weights.shape[1]))
        columns = np.flatnonzero(self.plain >= 0)
        mid[self.plain[columns]] = weights[columns]
        others = np.setdiff1d(np.flatnonzero(self._present.any(axis=1)), self.plain[columns])
        if len(others):
            mixed = self.directions[others] @ Balls.exact(weights)
            mid[others], rad[others] = mixed.mid, mixed.rad
        return Balls(mid, rad)

    def _terms(self, weights: Array, state: State) -> tuple[Array, Array, npt.NDArray[np.bool_]]:
        """Summands (r,) of each product, how many of them may underflow, and whether one is rounded."""
        exact = np.zeros(len(self.error.values), dtype=bool)
        terms = np.zeros(weights.shape[1])
        for each in state.held:
            if each.is_exact and each.is_labels:
                columns = (self.plain >= each.start) & (self.plain < each.start + each.size)
                terms = terms + np.any(weights[columns] != 0, axis=0)
                exact |= columns
        others = weights[~exact & ~self.empty]
        terms = terms + np.count_nonzero(others, axis=0)
        return terms, _underflows(others, terms), ~np.all(power_of_two(others), axis=0)

    def mapped(self, layer: Layer, state: State) -> Stream:
        """After a linear map."""
        reading = self.read(*_plain_map(layer), state)
        return replace(self, directions=reading.weights, error=reading.error)

    def written(self, rows: Sequence[Integers], outputs: Sequence[Array], state: State) -> Stream:
        """After heads whose sources, ``rows``, are added along ``outputs`` (v, m)."""
        total = state.count + len(state.others.values)
        mid, rad = np.zeros((total, len(self.error.values))), np.zeros((total, len(self.error.values)))
        mid[: len(self._present)], rad[: len(self._present)] = self.directions.mid, self.directions.rad
        for places, output in zip(rows, outputs, strict=True):
            mid[places] = output
        stacked = np.vstack(outputs)
        after = replace(self, directions=Balls(mid, rad))
        terms = np.count_nonzero(stacked, axis=0) + ~self.empty * np.any(stacked != 0, axis=0)
        roundings = np.where(terms > 1, terms, 0) + ~np.all(power_of_two(stacked), axis=0)
        factors = Up.of([gamma(int(k), self.machine.roundoff) for k in roundings])
        added = after.size(state) * factors + Up.of(_underflows(stacked, terms)) * self.machine.underflow
        return replace(after, error=self.error + added)


def _given(state: State, network: Network) -> Stream:
    """The inputs, one after another."""
    inputs = [place for place, each in enumerate(state.program.registers) if isinstance(each, Input) and place != ONE]
    rows = np.concatenate([np.arange(state.held[r].start, state.held[r].rows.stop) for r in inputs])
    if network.context is not None or network.tokens is not None or network.features != len(rows):
        got = f"{network.features} features"
        raise CertificateError(f"A program's network takes {len(rows)} features of any number of tokens", got, REMEDY)
    directions = np.zeros((state.count, len(rows)))
    directions[rows, np.arange(len(rows))] = 1.0
    return Stream(Balls.exact(directions), Up.zeros(len(rows)), state.machine)


def _plain_map(layer: Layer) -> tuple[Array, Array | None]:
    """The matrix of a linear map of tokens, one by one and all alike, and its constant."""
    term = layer.terms[0] if isinstance(layer, Linear) and len(layer.terms) == 1 else None
    weights = None if term is None or term.mix is not None else term.map
    constant = layer.constant if isinstance(layer, Linear) else None
    if weights is None or weights.ndim != 2 or (constant is not None and len(constant) != 1):
        raise CertificateError("Linear maps of a program map tokens one by one, all alike", "another layer", REMEDY)
    return weights, None if constant is None else constant[0]


def _underflows(weights: Array, terms: Array) -> Array:
    """Operations (r,) of which a result may be lost below the smallest number: products but by one, and sums."""
    products = np.count_nonzero((weights != 0) & (np.abs(weights) != 1), axis=0)
    return np.asarray(products + np.where(terms > 1, terms, 0), dtype=np.float64)


def _check_range(sizes: Up, kind: Machine, room: float = ROOM) -> None:
    """Raise unless numbers of these sizes, and roundings of them, fit the dtype."""
    largest = float(sizes.most())
    if not room * largest < kind.largest:
        got = f"numbers up to {largest:.3g}"
        raise RefusalError(f"Every number of the run must fit {kind.name}", got, "Use a wider dtype")


def _times(sizes: Up, weights: Array) -> Up:
    return (sizes[None] @ Up.of(weights))[0]


def _attended(layer: Attention, writers: Sequence[int | None], state: State, stream: Stream) -> tuple[State, Stream]:
    """After a layer of attention: registers of its heads, and where they stand."""
    if len(writers) != len(layer.heads):
        got = f"{len(writers)} for {len(layer.heads)}"
        raise CertificateError("A witness says of every head what it writes", got, REMEDY)
    held, others, rows = list(state.held), [state.others.values], []
    for head, register in zip(layer.heads, writers, strict=True):
        scores = _scores(head, stream, state)
        if register is None:
            start = state.count + sum(map(len, others))
            scores.check()
            others.append((scores.value.sizes + scores.mean_rounding()).values)
            rows.append(np.arange(start, start + len(head.output)))
            continue
        place = state.held[register] if 0 <= register < len(state.held) else None
        again = register in writers[: len(rows)] or (place is not None and stream.is_written(place.rows))
        if place is None or len(head.output) != place.size or again:
            raise CertificateError("A head writes a register of its size, which no other writes", "another", REMEDY)
        held[register] = _written(scores, register)
        rows.append(np.arange(place.start, place.rows.stop))
    after = replace(state, held=tuple(held), others=Up(np.concatenate(others)))
    return after, stream.written(rows, [head.output for head in layer.heads], after)


# heads


@dataclass(frozen=True, eq=False)
class Side:
    """What a head reads of tokens by one of its maps: weights (S, r) of sources, the noise in it, and constants."""

    state: State
    weights: Array
    noise: Up
    constants: Array | None

    @property
    def registers(self) -> list[int]:
        """Those that are read."""
        return [r for r in range(len(self.state.held)) if np.any(self.of(r))]

    def of(self, register: int) -> Array:
        """The weights of a register."""
        return self.weights[self.state.held[register].rows]

    @cached_property
    def error(self) -> Up:
        """How far a run may be off, (r,)."""
        return self.state.errors(self.weights) + self.noise

    @cached_property
    def of_tokens(self) -> Up:
        """Sizes in a run, (r,)."""
        return self.state.sizes(self.weights) + self.noise

    @cached_property
    def sizes(self) -> Up:
        """Those of tokens and constants."""
        return self.of_tokens if self.constants is None else self.of_tokens.larger(Up.of(self.constants).most(0))


@dataclass(frozen=True, eq=False)
class Scores:
    """A head on sources, in a run; ``asking`` is the reading of queries."""

    head: Head
    state: State
    query: Side
    key: Side
    value: Side
    asking: Reading

    @property
    def keys(self) -> int:
        """At most so many."""
        return self.head.memory_size + (0 if self.head.key is None else self.state.program.length)

    @property
    def arithmetic(self) -> SoftmaxArithmetic:
        """Its softmax."""
        return SoftmaxArithmetic(self.state.machine, self.keys, written_out=self.head.is_small)

    def block(self, query: int, key: int) -> Balls:
        """Scores of two registers, one row a feature of the query's, one column one of the key's."""
        return Balls.exact(self.query.of(query)) @ Balls.exact(self.key.of(key).T)

    def constant(self, query: int) -> Balls:
        """The same with the constant keys."""
        assert self.head.memory_keys is not None
        return Balls.exact(self.query.of(query)) @ Balls.exact(self.head.memory_keys.T)

    @cached_property
    def products(self) -> Up:
        """Of the sum of the sizes of a score's products in a run: of two labels those of one pair count."""
        total, held = Up.of(0.0), self.state.held
        for one in self.query.registers:
            asking = Up.of(self.query.of(one))
            for two in self.key.registers:
                total = total + (asking @ Up.of(self.key.of(two)).T).most() * held[one].total * held[two].total
            if self.head.memory_keys is not None:
                total = total + (asking @ Up.of(self.head.memory_keys).T).most() * held[one].total
        return total + (self.query.error * self.key.sizes + self.query.sizes * self.key.error).sum()

    def check(self) -> None:
        """Raise unless all numbers fit the dtype, and sums over keys what they are accumulated in."""
        kind = self.state.machine
        _check_range(self.products.larger(self.query.sizes.most()).larger(self.key.sizes.most()), kind, APART)
        _check_range(self.value.sizes, kind)
        wide = machine("float32") if kind.accumulation < kind.roundoff else kind
        _check_range(self.value.sizes * float(self.keys), wide)

    def mean_rounding(self) -> Up:
        """What the mean of values rounds, (v,)."""
        return self.value.sizes * self.arithmetic.mean() + self.arithmetic.lost(self.value.sizes)


def _scores(head: Head, stream: Stream, state: State) -> Scores:
    """The head on sources, and the noise in what it reads."""
    rows = head.key_rows
    alike = head.query_rows.kind == "all" and (rows is None or (rows.kind == "all" and rows.source == "state"))
    if not alike:
        raise CertificateError("Heads of a program ask at all tokens, and read all of them or none", "some", REMEDY)
    asking = stream.read(head.query, None, state)
    query, left = _kept(asking, state)
    key = _side(head.key, head.memory_keys, query.shape[1], stream, state)
    value = _side(head.value, head.memory_values, len(head.output), stream, state)
    exact = replace(asking, is_plain=asking.is_plain and not left.values.any())
    return Scores(head, state, Side(state, query, asking.error + left, None), key, value, exact)


def _side(weights: Array | None, constants: Array | None, width: int, stream: Stream, state: State) -> Side:
    """Keys or values, of tokens or constants alone."""
    if weights is None:
        return Side(state, np.zeros((state.count, width)), Up.zeros(width), constants)
    reading = stream.read(weights, None, state)
    kept, left = _kept(reading, state)
    return Side(state, kept, reading.error + left, constants)


def _kept(reading: Reading, state: State) -> tuple[Array, Up]:
    """Weights on registers, those that are not exact of few bits, and what that and other sources leave."""
    mid, rad = reading.weights.mid, reading.weights.rad
    named = mid[: state.count]
    largest = np.abs(named).max(axis=0, initial=0.0)
    unit = np.ldexp(1.0, np.frexp(np.where(largest > 0, largest, 1.0))[1] - KEPT)
    kept = np.where(rad[: state.count] == 0, named, np.rint(named / unit) * unit)
    left = Up.of(reading.weights - Balls.exact(np.vstack([kept, np.zeros_like(mid[state.count :])])))
    return kept, state.sizes(left.values)


def _written(scores: Scores, register: int) -> Held:
    """What a head writes that should write this register."""
    scores.check()
    definition, held = scores.state.program.registers[register], scores.state.held[register]
    over_tokens = isinstance(definition, Mean | Count)
    if isinstance(definition, Input) or over_tokens != (scores.head.key is not None):
        raise CertificateError("Selections read tokens, lookups constants, and inputs are given", "another", REMEDY)
    match definition:
        case Mean(selection):
            margins = _selected(scores, selection, definition.default is not None)
            parts = _mean(scores, definition, margins, register)
        case Count(selection):
            parts = _count(scores, _selected(scores, selection, True))
        case Step(argument, cells):
            parts = _lookup(scores, held, _cells(scores, argument, cells))
        case Pair():
            parts = _lookup(scores, held, _pairs(scores, definition))
    if not np.isfinite(parts).all():
        raise CertificateError("A head writes its register up to an error", f"any at register {register}", REMEDY)
    return replace(held, leakage=parts[0], rounding=parts[1], relative=parts[2])


Parts = tuple[float, float, float]  # leakage, rounding, and rounding relative to the number


def _expected(value: Form | Image, state: State) -> Balls:
    """The features of a value as a linear map (S, size) of sources."""
    size = value.size if isinstance(value, Image) else 1
    mid, rad = np.zeros((state.count, size)), np.zeros((state.count, size))
    if isinstance(value, Image):
        start = state.held[value.register].start
        mid[start + np.arange(len(value.labels)), list(value.labels)] = 1.0
        return Balls(mid, rad)
    for register, weights in value.weights.items():
        entries = _fractions(weights)
        mid[state.held[register].rows, 0], rad[state.held[register].rows, 0] = entries.mid, entries.rad
    constant = Balls(mid[ONE], rad[ONE]) + _fractions([value.constant])
    mid[ONE], rad[ONE] = constant.mid, constant.rad
    return Balls(mid, rad)


def _coded(results: Sequence[Any], held: Held) -> Balls:
    """Results as a register should hold them, (results, size)."""
    if held.is_labels:
        return Balls.exact(np.eye(held.size)[list(results)])
    numbers = _fractions([Fraction(each) for each in results])
    return Balls(numbers.mid[:, None], numbers.rad[:, None])


def _fractions(values: Sequence[Fraction]) -> Balls:
    """Fractions as balls, exact where float64 has them."""
    mid = np.array([float(value) for value in values])
    off = [abs(Fraction(float(value)) - value) for value in values]
    return Balls(mid, np.array([np.nextafter(float(each), np.inf) if each else 0.0 for each in off]))


def _departure(reading: Balls, wanted: Balls, state: State) -> Up:
    """Of weights on registers from what they should be, times what registers should hold."""
    return state.nominal(Up.of(reading - wanted).values)


def _compared(value: Form | Image, reading: Reading, state: State) -> tuple[float, float]:
    """Leakage of what is read, and its whole error, against a value."""
    named, wanted = reading.weights[: state.count], _expected(value, state)
    if named.shape != wanted.shape:
        got = f"{named.shape[1]} for {wanted.shape[1]}"
        raise CertificateError("A network writes a feature for each label of the result, or a number", got, REMEDY)
    error = _departure(named, wanted, state) + state.errors(named.magnitude())
    beyond = np.vstack([np.zeros(named.shape), reading.weights.magnitude()[state.count :]])
    leakage = Up.zeros(error.shape[0])
    for each in state.held:
        if each.leakage:
            leakage = leakage + Up.of(named.magnitude()[each.rows]).sum(0) * each.leakage
    return float(leakage.most()), float((error + state.sizes(beyond) + reading.error).most())


def _in_columns(held: Held, start: int, state: State, stream: Stream) -> tuple[float, float]:
    """Leakage and rounding of a register in columns of its own, after all layers."""
    register, width = state.held.index(held), len(stream.error.values)
    if not 0 <= start <= width - held.size:
        raise CertificateError("Registers stand in columns of the stream", f"{start} of {width}", REMEDY)
    columns = np.eye(held.size, width, start).T
    value: Form | Image = Form({register: (Fraction(1),)})
    if held.is_labels:
        value = Image(register, tuple(range(held.size)), held.size)
    plain = np.array_equal(stream.plain[start : start + held.size], np.arange(held.start, held.rows.stop))
    if plain:
        return held.leakage, float(Up.of(held.rounding) + held.nominal * held.relative)
    leakage, whole = _compared(value, stream.read(columns, None, state), state)
    return leakage, float(np.nextafter(whole - leakage, np.inf))


# selections


@dataclass(frozen=True)
class Levels:
    """Scores of one condition: from ``low`` to ``high`` where it is met, at most ``other`` where not; None: never."""

    low: Fraction | None
    high: Fraction | None
    other: Fraction | None


@dataclass(frozen=True)
class Margins:
    """The ``gap`` from selected to other keys, and the ``spread`` of selected ones.

    Where there is a constant key: the ``level`` of selected scores relative to it, and ``other``, the highest of those
    that do not meet the conditions. None is what cannot occur.
    """

    gap: Fraction | None
    spread: Fraction
    level: tuple[Fraction, Fraction] | None
    other: Fraction | None


@dataclass(frozen=True, eq=False)
class Bilinear:
    """What is not accounted for yet of a head's scores.

    ``blocks`` are those of registers of query and key; ``constant`` (size, 1), by registers of the query, what the
    scores of all tokens have beyond the constant key's; ``linear`` the columns that only tilt, by ``tilts``.
    """

    scores: Scores
    blocks: Blocks
    constant: dict[int, Balls]
    linear: set[int]
    tilts: list[Up]

    def size(self, register: int) -> int:
        """Features of a register."""
        return self.scores.state.held[register].size

    def take(self, query: int, key: int) -> Balls:
        """A block, which is then accounted for."""
        shape = self.size(query), self.size(key)
        return self.blocks.pop((query, key), Balls.exact(np.zeros(shape)))

    def expect(self, query: Form, key: Form, factor: float) -> None:
        """Subtract factor times query times key, which should be there."""
        for asking, one in _entries(query).items():
            for telling, two in _entries(key).items():
                wanted = _scaled(one, factor)[:, None] * two[None, :]
                self.blocks[asking, telling] = self.take(asking, telling) - wanted

    def expect_constant(self, query: Form, factor: float) -> None:
        """Subtract factor times query of what tokens have beyond the constant key."""
        for asking, entries in _entries(query).items():
            there = self.constant.get(asking, Balls.exact(np.zeros((self.size(asking), 1))))
            self.constant[asking] = there - _scaled(entries, factor)[:, None]

    def leftover(self) -> Up:
        """A bound of all blocks that nothing accounts for."""
        total, held = Up.of(0.0), self.scores.state.held
        for (query, key), block in self.blocks.items():
            total = total + Up.of(block).most() * held[query].nominal * held[key].nominal
        for query, column in self.constant.items():
            total = total + Up.of(column).most() * held[query].nominal
        return total


def _bilinear(scores: Scores, with_constant: bool) -> Bilinear:
    asking, telling = scores.query.registers, scores.key.registers
    blocks = {(query, key): scores.block(query, key) for query in asking for key in telling if key != ONE}
    beyond = {r: scores.block(r, ONE) - scores.constant(r) for r in asking} if with_constant else {}
    return Bilinear(scores, blocks, beyond, set(), [])


def _entries(form: Form) -> dict[int, Balls]:
    """The weights of registers in a form; of the constant one, the constant, too."""
    entries = {register: _fractions(weights) for register, weights in form.weights.items()}
    if form.constant:
        entries[ONE] = _fractions([form.constant]) + entries.get(ONE, Balls.exact(np.zeros(1)))
    return entries


def _scaled(entries: Balls, factor: float) -> Balls:
    return entries * Balls.exact(np.full(entries.shape, factor))


ALWAYS = Form({}, Fraction(1))


def _selected(scores: Scores, selection: Selection, with_constant: bool) -> Margins:
    """Levels and gaps of a head that should select, from its weights."""
    if scores.head.memory_size != int(with_constant):
        got = f"{scores.head.memory_size}"
        raise CertificateError("A selection has a constant key where it has a default", got, REMEDY)
    left, program = _bilinear(scores, with_constant), scores.state.program
    numbers = [(each, _parabola(left, each, with_constant)) for each in selection.equalities]
    rho, lowest, highest = _ranking(left, selection)
    of_keys_first = sorted(selection.tables.items(), key=lambda each: each[0][0] != ONE)
    levels = [_table(left, *place, table, with_constant) for place, table in of_keys_first]
    base = left.constant.pop(ONE, Balls.exact(np.zeros((1, 1))))
    below, above = (_exact(float(end[0, 0])) for end in _ends(base))
    delta, beside = _run_errors(left)
    tilt = sum((_exact(float(each)) for each in left.tilts), Fraction(0))
    levels += [_number_levels(program, each, beta, tilt) for each, beta in numbers]
    met, other = _met(levels), _other(levels)
    if met is None and not with_constant:
        raise CertificateError("A selection selects something", "conditions that no token can meet", REMEDY)
    low, high = met or (Fraction(0), Fraction(0))
    gaps = [] if other is None else [low - other - rho * (highest - lowest) - 2 * delta]
    if selection.ranking is not None:  # of those that meet the conditions, the largest is a whole number above others
        gaps.append(rho - (high - low) - 2 * delta)
    beside += 2 * delta
    level = (low + below + rho * lowest - beside, high + above + rho * highest + beside)
    beyond = None if other is None or not with_constant else other + above + rho * highest + beside
    return Margins(min(gaps, default=None), high - low + 2 * delta, level if with_constant and met else None, beyond)


def _met(levels: Sequence[Levels]) -> tuple[Fraction, Fraction] | None:
    """Scores of keys that meet all conditions."""
    lows, highs = [each.low for each in levels], [each.high for each in levels]
    if None in lows or None in highs:
        return None
    return sum((each or Fraction(0) for each in lows), Fraction(0)), sum(
        (each or Fraction(0) for each in highs), Fraction(0)
    )


def _other(levels: Sequence[Levels]) -> Fraction | None:
    """The highest score of a key that fails one condition at least."""
    tops = [
        max((value for value in (each.high, each.other) if value is not None), default=Fraction(0)) for each in levels
    ]
    whole = sum(tops, Fraction(0))
    fails = [each.other + whole - top for each, top in zip(levels, tops, strict=True) if each.other is not None]
    return max(fails, default=None)


def _table(left: Bilinear, query: int, key: int, allowed: npt.NDArray[np.bool_], with_constant: bool) -> Levels:
    """Levels of a condition on labels; without a constant key each query label's by themselves."""
    table = left.take(query, key)
    if query != ONE:
        table = table + _spread(left.take(ONE, key), table.shape)
        if query in left.constant:
            table = table + _spread(left.constant.pop(query), table.shape)
    lower, upper = _ends(table)
    if not (np.isfinite(lower).all() and np.isfinite(upper).all()):
        raise CertificateError("Scores are finite", "a table that is not", REMEDY)
    if with_constant:
        return _levels(lower, upper, allowed)
    rows = [_levels(lower[c], upper[c], allowed[c]) for c in np.flatnonzero(allowed.any(axis=1))]
    spreads = [each.high - each.low for each in rows if each.high is not None and each.low is not None]
    others = [each.other - each.low for each in rows if each.other is not None and each.low is not None]
    return Levels(Fraction(0) if rows else None, max(spreads, default=None), max(others, default=None))


def _levels(lower: Array, upper: Array, allowed: npt.NDArray[np.bool_]) -> Levels:
    low = Fraction(float(lower[allowed].min())) if allowed.any() else None
    high = Fraction(float(upper[allowed].max())) if allowed.any() else None
    return Levels(low, high, None if allowed.all() else Fraction(float(upper[~allowed].max())))


def _spread(block: Balls, shape: tuple[int, ...]) -> Balls:
    return Balls(np.broadcast_to(block.mid, shape), np.broadcast_to(block.rad, shape))


def _ends(table: Balls) -> tuple[Array, Array]:
    """Lower and upper ends; where a ball is exact, its middle."""
    lower, upper = np.nextafter(table.mid - table.rad, -np.inf), np.nextafter(table.mid + table.rad, np.inf)
    return np.where(table.rad == 0, table.mid, lower), np.where(table.rad == 0, table.mid, upper)


def _parabola(left: Bilinear, condition: Equal, with_constant: bool) -> Fraction:
    """Beta, read off the key's square, after what the condition should have is subtracted."""
    squares = condition.key_square.weights.items()
    square, weight = next(((register, weights[0]) for register, weights in squares if weights[0]), (ONE, Fraction(1)))
    entries = left.blocks.get((ONE, square))
    beta = 0.0 if entries is None else -float(entries.mid[0, 0]) / float(weight)
    if not 0 < beta < np.inf:
        raise CertificateError("Scores of equal numbers are a parabola, open downwards", f"beta = {beta:g}", REMEDY)
    left.expect(condition.query, condition.key, 2 * beta)
    left.expect(ALWAYS, condition.key_square, -beta)
    if with_constant:
        if condition.query_square is None:
            raise CertificateError("Where a selection may be empty, queries have squares", "none", REMEDY)
        left.expect_constant(condition.query_square, -beta)
    _tilts(left, condition)
    return Fraction(beta)


def _tilts(left: Bilinear, condition: Equal) -> None:
    """Columns in which keys are a multiple of the compared number: the query's error there tilts the parabola."""
    scores, keys = left.scores, left.scores.key.weights
    pattern = [Fraction(0)] * len(keys)
    for register, entries in condition.key.weights.items():
        pattern[scores.state.held[register].rows] = entries
    at = next((i for i, entry in enumerate(pattern) if entry), 0)
    for r in range(keys.shape[1]):
        kappa = Fraction(float(keys[at, r])) / (pattern[at] or 1)
        column = zip(keys[:, r], pattern, strict=True)
        if kappa and all(Fraction(float(weight)) == kappa * entry for weight, entry in column):
            left.linear.add(r)
            left.tilts.append(scores.query.error[r] * float(np.nextafter(abs(float(kappa)), np.inf)))


def _number_levels(program: Program, condition: Equal, beta: Fraction, tilt: Fraction) -> Levels:
    grids = [program.form_grid(form).denominator for form in (condition.query, condition.key)]
    apart = Fraction(1, (grids[0] or 0) * (grids[1] or 0))  # both known: a program is checked
    if tilt > 2 * beta * apart:
        got = f"an error of the query that tilts scores by {float(tilt):.3g}"
        raise CertificateError("Equal numbers are told from others", got, REMEDY)
    return Levels(Fraction(0), Fraction(0), -(beta * apart * apart - tilt * apart))


def _ranking(left: Bilinear, selection: Selection) -> tuple[Fraction, Fraction, Fraction]:
    """Rho, and the ends of what is ranked by, without the constant, which no key has."""
    form = selection.ranking
    if form is None:
        return Fraction(0), Fraction(0), Fraction(0)
    rho, grid = _slope(left, selection, form), left.scores.state.program.form_grid(form)
    if not 0 < rho < np.inf:
        raise CertificateError("Scores rise with the ranking", f"a slope of {rho:g}", REMEDY)
    left.expect(ALWAYS, Form(form.weights), rho)
    return Fraction(rho), grid.lower - form.constant, grid.upper - form.constant


def _slope(left: Bilinear, selection: Selection, form: Form) -> float:
    """A guess of rho, which what is left over judges: two entries of the ranking, of allowed labels if there are."""
    held = left.scores.state.held
    for register, weights in form.weights.items():
        block = left.blocks.get((ONE, register))
        if block is None or not any(weights):
            return 0.0
        if not held[register].is_labels:
            return float(block.mid[0, 0]) / float(weights[0])
    register, weights = next(iter(form.weights.items()))
    entries = np.array([float(weight) for weight in weights])
    free = selection.tables.get((ONE, register), np.ones((1, len(entries)), dtype=bool))[0]
    among = np.flatnonzero(free) if free.any() else np.arange(len(entries))
    top, bottom = among[entries[among].argmax()], among[entries[among].argmin()]
    if entries[top] == entries[bottom]:
        return 1.0  # no key is ranked above another
    scores = left.blocks[ONE, register].mid[0]
    return float((scores[top] - scores[bottom]) / (entries[top] - entries[bottom]))


def _run_errors(left: Bilinear) -> tuple[Fraction, Fraction]:
    """How far a score of a run, or the logarithm of its weight, may be off; and what comes beside a constant key."""
    scores = left.scores
    width = scores.query.weights.shape[1]
    kept = np.array([r not in left.linear for r in range(width)])
    asking, telling = scores.query.error, scores.key.error
    uniform = (
        Up(np.where(kept, asking.values, 0.0)) * scores.key.sizes + asking * telling + scores.query.sizes * telling
    )
    rounding = scores.products * scores.arithmetic.scores(width)
    delta = left.leftover() + uniform.sum() + rounding + scores.arithmetic.log_weights()
    beside = (Up(np.where(kept, 0.0, asking.values)) * scores.key.sizes * 2.0).sum()
    return _exact(float(delta)), _exact(float(beside))


def _exact(value: float) -> Fraction:
    if not np.isfinite(value):
        remedy = "Use a smaller length or a wider dtype"
        raise CertificateError("Scores and their errors are finite", f"{value}", remedy)
    return Fraction(value)


# means, counts, lookups


def _mean(scores: Scores, mean: Mean, margins: Margins, register: int) -> Parts:
    """A mean over selected tokens; the constant key, where there is one, has the default."""
    state, program, held = scores.state, scores.state.program, scores.state.held[register]
    grid = program.grid(register)
    departure = _departure(Balls.exact(scores.value.weights), _expected(mean.value, state), state)
    if scores.head.memory_values is not None:
        departure = departure.larger(
            Up.of(Balls.exact(scores.head.memory_values) - _coded([mean.default], held)).most(0)
        )
    shared = isinstance(mean.value, Image) or program.shares(mean.selection, mean.value)
    moved = Up.of(0.0) if shared else (_up(margins.spread) * 0.25).tanh()
    width = Up.of(1.0) if held.is_labels else _up(grid.upper - grid.lower)
    error = departure + scores.value.error + scores.mean_rounding() + width * moved
    return float(width * _mass(margins, scores.keys)), float(error.most()), 0.0


def _mass(margins: Margins, keys: int) -> Up:
    """What is not selected, relative to what is: others and the constant key; tokens, where nothing is selected."""
    total = Up.of(0.0) if margins.gap is None else _exp(-margins.gap) * float(keys)
    if margins.level is not None:
        total = total + _exp(-margins.level[0])
    return total if margins.other is None else total.larger(_exp(margins.other) * float(keys))


def _count(scores: Scores, margins: Margins) -> Parts:
    """1/(1 + w): the weight of the constant key, whose value is one among zeros."""
    head, arithmetic = scores.head, scores.arithmetic
    assert head.memory_values is not None
    tokens = scores.value.of_tokens.most()
    departure = Up.of(Balls.exact(head.memory_values) - Balls.exact(np.ones((1, 1)))).most()
    level = Fraction(0) if margins.level is None else max(abs(margins.level[0]), abs(margins.level[1]))
    weight = _up(level).expm1()
    if margins.other is not None:
        weight = weight + _exp(margins.other) * float(scores.keys)
    relative = (arithmetic.mean() + weight + departure).expm1()  # of a product of factors 1 + e
    lost = arithmetic.lost(scores.value.sizes.most()) * 2.0
    return 0.0, float(tokens + tokens * arithmetic.mean().expm1() + lost), float(relative)


@dataclass(frozen=True, eq=False)
class Classes:
    """For classes of queries the winning key, the result, and upper bounds (classes, keys) of others' weights."""

    winners: Integers
    results: Sequence[Any]
    weights: Array


def _lookup(scores: Scores, held: Held, classes: Iterator[Classes]) -> Parts:
    """A value of the winning key, in the worst of all classes."""
    assert scores.head.memory_values is not None
    values, arithmetic = Balls.exact(scores.head.memory_values), scores.arithmetic
    leakage = rest = Up.of(0.0)
    for part in classes:
        leaked = Up(np.stack([_leaked(values[:, f], part) for f in range(held.size)], axis=1))
        departure = Up.of(values[part.winners] - _coded(part.results, held))
        leakage, rest = leakage.larger(leaked.most()), rest.larger(departure.most())
    if held.is_labels:
        return float(leakage), float(rest + scores.mean_rounding().most()), 0.0
    relative = arithmetic.mean().expm1()
    lost = arithmetic.lost(scores.value.sizes.most()) * 2.0
    return float(leakage), float(rest + lost + (leakage + rest) * relative), float(relative)


def _leaked(values: Balls, part: Classes) -> Array:
    """Sums (classes,) of weights times differences of values."""
    winning = values[part.winners]
    differ = Up.of(Balls(winning.mid[:, None], winning.rad[:, None]) - Balls(values.mid[None, :], values.rad[None, :]))
    return (Up(part.weights) * differ).sum(1).values


def _cells(scores: Scores, argument: Form, cells: Sequence[Cell]) -> Iterator[Classes]:
    """The winners in the cells of a form, at both ends of each."""
    keys = scores.head.memory_keys
    number = {register: _fractions(weights) for register, weights in argument.weights.items() if any(weights)}
    if keys is None or not number:
        raise CertificateError("A number that is looked up depends on the tokens", "a constant", REMEDY)
    constant = _fractions([argument.constant])[0]
    slopes, intercepts, departures = _lines(scores, number, constant)
    step = max(1, CHUNK // len(keys))
    for at in range(0, len(cells), step):
        part = cells[at : at + step]
        weights, winners = np.zeros((len(part), len(keys))), None
        for end in ([cell.lower for cell in part], [cell.upper for cell in part]):
            place = _fractions(end)
            nominal = place[:, None] * slopes[None, :] + intercepts[None, :]
            winners = nominal.mid.argmax(axis=1) if winners is None else winners
            sizes = _query_sizes(scores, number, constant, place)
            weights = np.maximum(weights, _others(scores, nominal, winners, *sizes, departures))
        assert winners is not None
        yield Classes(winners, [cell.result for cell in part], weights)


def _lines(scores: Scores, number: Mapping[int, Balls], constant: Balls) -> tuple[Balls, Balls, Up]:
    """Slopes and intercepts (keys,), and a bound (keys,) of what the weights have beside them."""
    reference = max(number, key=lambda register: float(np.abs(number[register].mid).max()))
    at = int(np.abs(number[reference].mid).argmax())
    slopes = scores.constant(reference)[at] * number[reference][at : at + 1].inverse()
    intercepts = scores.constant(ONE)[0] - constant * slopes
    departures = Up.zeros(len(slopes.mid))
    for register in {*scores.query.registers, *number} - {ONE}:
        block = scores.constant(register)
        if register in number:
            block = block - number[register][:, None] * slopes[None, :]
        departures = departures + Up.of(block).most(0) * scores.state.held[register].nominal
    return slopes, intercepts, departures


def _query_sizes(scores: Scores, number: Mapping[int, Balls], constant: Balls, at: Balls) -> tuple[Up, Up]:
    """Errors and sizes (cells, r) of queries in each cell: where one number is read, what they are there."""
    query, state, asking = scores.query.weights, scores.state, scores.asking
    only, shape = next(iter(number)), (len(at.mid), query.shape[1])
    held = state.held[only]
    alone = asking.is_plain and set(scores.query.registers) - {ONE} == {only} == set(number) and not held.is_labels
    if not alone:
        everywhere = scores.query.error, scores.query.sizes
        error, sizes = (Up(np.broadcast_to(each.values, shape)) for each in everywhere)
        return error, sizes
    value = Up.of((at - constant) * number[only].inverse())[:, None]
    error = value * held.relative + held.leakage + held.rounding
    sizes = (value + error) * Up.of(query[held.start])[None] + Up.of(query[ONE])
    made = sizes * Up.of(asking.factors) + Up.of(asking.small) * state.machine.underflow
    return error * Up.of(query[held.start])[None] + made, sizes + made


def _pairs(scores: Scores, pair: Pair) -> Iterator[Classes]:
    """The winners for all pairs of labels."""
    if scores.head.memory_keys is None:
        raise CertificateError("A table has constant keys", "none", REMEDY)
    state = scores.state
    one, two = (scores.constant(register) for register in (pair.first, pair.second))
    departures = Up.zeros(scores.head.memory_size)
    for register in set(scores.query.registers) - {ONE, pair.first, pair.second}:
        departures = departures + Up.of(scores.constant(register)).most(0) * state.held[register].nominal
    columns = state.held[pair.second].size
    shape = (columns, scores.query.weights.shape[1])
    sizes = (Up(np.broadcast_to(each.values, shape)) for each in (scores.query.error, scores.query.sizes))
    error, size = sizes
    for label in range(state.held[pair.first].size):
        nominal = two + one[label][None, :] + scores.constant(ONE)
        winners = nominal.mid.argmax(axis=1)
        weights = _others(scores, nominal, winners, error, size, departures)
        yield Classes(winners, pair.results[label * columns : (label + 1) * columns], weights)


def _others(scores: Scores, nominal: Balls, winners: Integers, error: Up, sizes: Up, departures: Up) -> Array:
    """Upper bounds (classes, keys) of e^-gap to the winner of each class; 0 at the winner itself."""
    keys, arithmetic = scores.head.memory_keys, scores.arithmetic
    assert keys is not None
    rows, width = np.arange(len(winners)), keys.shape[1]
    above = nominal[rows, winners][:, None] - nominal
    products = sizes @ Up.of(keys.T)
    lost = departures[None] + departures[winners][:, None]
    for column in range(width):
        differ = Up.of(Balls.exact(keys[winners, column][:, None]) - Balls.exact(keys[:, column][None, :]))
        lost = lost + error[:, column][:, None] * differ
    own = products[rows, winners][:, None]
    lost = lost + (products + own) * arithmetic.score(width)
    apart = Up.of(above) + lost
    lost = lost + arithmetic.subtraction(apart, products) + arithmetic.subtraction(lost, own)
    lost = lost + arithmetic.log_weights() * 2.0
    least = np.nextafter(np.nextafter(above.mid - above.rad, -np.inf) - lost.values, -np.inf)
    weights = Up.exp_of(-least).values
    weights[rows, winners] = 0.0
    return np.where(np.isnan(weights), np.inf, weights)


def _exp(exponent: Fraction) -> Up:
    """Of e to the power of a rational number."""
    return Up.exp_of(_above(exponent))


def _up(value: Fraction) -> Up:
    """Of a rational number."""
    return Up.of(_above(value))


def _above(value: Fraction) -> float:
    try:
        near = float(value)
    except OverflowError:
        return float(np.inf) if value > 0 else -float(np.finfo(np.float64).max)
    return near if near >= value else float(np.nextafter(near, np.inf))

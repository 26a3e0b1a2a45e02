r"""Heads that select among tokens: which keys are above which, by how much, and how level the selected ones are.

Every condition of the selection owns some blocks of the bilinear form; what is left over in any other block is a
*departure*, bounded by its largest entry times the sizes of what the two registers hold.

**Labels.** The block of its two registers (and what the constant one adds for the key's labels) is a table. Scores of
allowed pairs lie in [low, high], those of others are at most ``other``: for each query label by itself, relative to its
lowest allowed score, or, where a constant key is compared with, over all.

**Numbers.** With $\beta$ read off the weight of the key's square, the form should be
$2\beta q k - \beta k^2 - \beta q^2$ (the last term only where a constant key is compared with), that is
$-\beta(k-q)^2$: 0 if equal, at most $-\beta a^2$ if they are a apart or more. An error $\eta$ of the query in a column
that is $\kappa k$ moves a score by $\kappa\eta k$, against that of the equal key by at most $\kappa\eta|k - q|$: with
$\eta'$ the sum of $|\kappa\eta|$, another key is below by
$\beta d^2 - \eta' d \ge \beta a^2 - \eta' a$ if $\eta' \le 2\beta a$.

**Together.** Let $[l_i, h_i]$ and $u_i$ be the levels of condition i. A key that meets all scores in
$[\sum l_i, \sum h_i]$; one that fails j at most $u_j + \sum_{i \ne j} \max(h_i, u_i)$. Let every score of a run be
within $\delta$ of the nominal one. A ranking adds $\rho r$.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from attnforge.certification.programs.scores import Scores
from attnforge.errors import CertificateError
from attnforge.outward import Balls, Up
from attnforge.targets.programs.forms import Form, LabelCondition, NumberCondition
from attnforge.targets.programs.language import Selector, Values
from attnforge.targets.programs.registers import ONE, Key, needed_square
from attnforge.targets.programs.typing import Typed

Array = npt.NDArray[np.float64]
REMEDY = "Build the network anew"


@dataclass(frozen=True)
class Levels:
    """Scores of one condition: between ``low`` and ``high`` where it is met, at most ``other`` where not.

    None where all pairs meet it, or none does.
    """

    low: Fraction | None
    high: Fraction | None
    other: Fraction | None


@dataclass(frozen=True)
class Selection:
    """What is proved of a selection: the ``gap`` to other keys, and ``spread``, how far two selected ones may differ.

    Where there is a constant key: ``level`` (low, high) of selected scores relative to it, and ``other`` the highest of
    those that do not meet the conditions. None is what cannot occur. All numbers are exact.
    """

    gap: Fraction | None
    spread: Fraction
    level: tuple[Fraction, Fraction] | None
    other: Fraction | None


@dataclass
class _Reading:
    """Blocks of a head, and what conditions expect of them."""

    scores: Scores
    typed: Typed
    with_constant: bool
    blocks: dict[tuple[Key, Key], Balls] = field(default_factory=dict)
    asked: dict[Key, Balls] = field(default_factory=dict)
    linear: set[int] = field(default_factory=set)
    tilt: Up = field(default_factory=lambda: Up.of(0.0))
    departure: Up = field(default_factory=lambda: Up.of(0.0))

    def __post_init__(self) -> None:
        for query in self.scores.asking:
            for key in self.scores.told:
                if key == ONE:
                    continue
                self.blocks[query, key] = self.scores.block(query, key)
            if self.with_constant:
                self.asked[query] = self.scores.block(query, ONE) - self.scores.constant(query)

    def take(self, query: Key, key: Key) -> Balls:
        """A block, which is then accounted for."""
        found = self.blocks.pop((query, key), None)
        if found is None:
            return Balls.exact(np.zeros((self._size(query), self._size(key))))
        return found

    def expect(self, query: Key, key: Key, wanted: Balls) -> None:
        """Subtract what should be there; what is left stays to be accounted for."""
        self.blocks[query, key] = self.take(query, key) - wanted

    def expect_asked(self, query: Key, wanted: Balls) -> None:
        """The same for what all tokens' scores have beyond the constant key's."""
        there = self.asked.get(query, Balls.exact(np.zeros((self._size(query), 1))))
        self.asked[query] = there - wanted

    def _size(self, key: Key) -> int:
        return self.scores.state[key].register.size

    def leftover(self) -> Up:
        """A bound of all blocks that no condition accounts for."""
        total = self.departure
        for (query, key), block in self.blocks.items():
            sizes = self.scores.state[query].nominal * self.scores.state[key].nominal
            total = total + Up.of(block).most() * sizes
        return total


def prove_selection(scores: Scores, typed: Typed, selector: Selector, with_constant: bool) -> Selection:
    """Levels and gaps of a head that should select by ``selector``, from its weights."""
    reading = _Reading(scores, typed, with_constant)
    conditions = typed.conditions(selector)
    numbers = [_numbers(reading, each) for each in conditions if isinstance(each, NumberCondition)]
    rho, lowest, highest = _ranking(reading, typed, selector)
    labels = [each for each in conditions if isinstance(each, LabelCondition)]
    levels = [_labels(reading, each) for each in sorted(labels, key=lambda each: each.query is not None)]
    constant = _constant(reading)
    delta, aside = _run_errors(reading)
    levels += [_number_levels(condition, beta, reading.tilt) for condition, beta in numbers]
    met, other = _met(levels), _other(levels)
    if met is None and not with_constant:
        raise CertificateError("A selection selects something", "conditions that no token can meet", REMEDY)
    low, high = met or (Fraction(0), Fraction(0))
    gaps = [] if other is None else [low - other - rho * (highest - lowest) - 2 * delta]
    if selector.ranking is not None:  # of those that meet the conditions, the largest is a whole number above others
        gaps.append(rho - (high - low) - 2 * delta)
    beside = 2 * delta + aside
    level = (low + constant[0] + rho * lowest - beside, high + constant[1] + rho * highest + beside)
    above = None if other is None else other + constant[1] + rho * highest + beside
    seen = level if with_constant and met is not None else None
    return Selection(min(gaps, default=None), high - low + 2 * delta, seen, above if with_constant else None)


def _met(levels: list[Levels]) -> tuple[Fraction, Fraction] | None:
    """Scores of keys that meet all conditions."""
    if any(each.low is None for each in levels):
        return None
    return sum((each.low or Fraction(0) for each in levels), Fraction(0)), sum(
        (each.high or Fraction(0) for each in levels), Fraction(0)
    )


def _other(levels: list[Levels]) -> Fraction | None:
    """The highest score of a key that fails one condition at least."""
    tops = [max(value for value in (each.high, each.other) if value is not None) for each in levels]
    whole = sum(tops, Fraction(0))
    fails = [each.other + whole - top for each, top in zip(levels, tops, strict=True) if each.other is not None]
    return max(fails, default=None)


def _labels(reading: _Reading, condition: LabelCondition) -> Levels:
    """The table of a condition on labels."""
    query: Key = (condition.query, "value")
    key: Key = (condition.key, "value")
    table = reading.take(query, key)
    if query != ONE:
        table = table + _spread_over(reading.take(ONE, key), table.shape)
        if query in reading.asked:
            table = table + _spread_over(reading.asked.pop(query), table.shape)
    lower, upper = _bounds(table)
    rows = np.flatnonzero(condition.allowed.any(axis=1)) if not reading.with_constant else np.arange(len(lower))
    if reading.with_constant:
        return _table_levels(lower, upper, condition.allowed)
    found = [_relative(lower[c], upper[c], condition.allowed[c]) for c in rows]
    if not found:
        return Levels(None, None, None)
    others = [each.other for each in found if each.other is not None]
    return Levels(Fraction(0), max(each.high or Fraction(0) for each in found), max(others, default=None))


def _relative(lower: Array, upper: Array, allowed: npt.NDArray[np.bool_]) -> Levels:
    """Levels of one query label, relative to its lowest allowed score."""
    found = _table_levels(lower, upper, allowed)
    assert found.low is not None
    assert found.high is not None
    other = None if found.other is None else found.other - found.low
    return Levels(Fraction(0), found.high - found.low, other)


def _table_levels(lower: Array, upper: Array, allowed: npt.NDArray[np.bool_]) -> Levels:
    if not (np.isfinite(lower).all() and np.isfinite(upper).all()):
        raise CertificateError("Scores are finite", "a table that is not", REMEDY)
    low = Fraction(float(lower[allowed].min())) if allowed.any() else None
    high = Fraction(float(upper[allowed].max())) if allowed.any() else None
    return Levels(low, high, None if allowed.all() else Fraction(float(upper[~allowed].max())))


def _spread_over(block: Balls, shape: tuple[int, ...]) -> Balls:
    return Balls(np.broadcast_to(block.mid, shape), np.broadcast_to(block.rad, shape))


def _bounds(table: Balls) -> tuple[Array, Array]:
    """Lower and upper ends; where a ball is exact, its middle."""
    lower, upper = np.nextafter(table.mid - table.rad, -np.inf), np.nextafter(table.mid + table.rad, np.inf)
    exact = table.rad == 0
    return np.where(exact, table.mid, lower), np.where(exact, table.mid, upper)


def _numbers(reading: _Reading, condition: NumberCondition) -> tuple[NumberCondition, float]:
    """Read beta off the key's square, subtract what the condition should be."""
    state = reading.scores.state
    square = next(iter(condition.key_square.weights))
    key: Key = (square, "value")
    entries = reading.blocks.get((ONE, key))
    beta = 0.0 if entries is None else -float(entries.mid[0, 0]) / float(condition.key_square.weights[square][0])
    if not beta > 0:
        raise CertificateError("Scores of equal numbers are a parabola, open downwards", f"beta = {beta:g}", REMEDY)
    _expect_product(reading, condition.query, condition.key, 2 * beta)
    _expect_product(reading, Form({}, Fraction(1)), condition.key_square, -beta)
    if reading.with_constant:
        squared = needed_square(condition)
        for asking in [*squared.weights, None]:
            register = state[asking, "value"].register
            reading.expect_asked(register.key, _scaled(_entries(squared, asking, register.size)[:, None], -beta))
    _tilt(reading, condition)
    return condition, beta


def _expect_product(reading: _Reading, query: Form, key: Form, factor: float) -> None:
    """The blocks of factor times query times key."""
    state = reading.scores.state
    for asking in [*query.weights, None]:
        for told in key.weights:
            one, two = state[asking, "value"].register, state[told, "value"].register
            column = _entries(query, asking, one.size)[:, None]
            wanted = _scaled(column, factor) * _entries(key, told, two.size)[None, :]
            reading.expect(one.key, two.key, wanted)


def _entries(form: Form, node: Values | None, size: int) -> Balls:
    """The weights (size,) of a register in a form; of the constant one, the constant."""
    given = (form.constant,) if node is None else form.weights.get(node, (Fraction(0),) * size)
    mid = np.array([float(value) for value in given])
    off = [abs(Fraction(float(value)) - value) for value in given]
    return Balls(mid, np.array([0.0 if not each else np.nextafter(float(each), np.inf) for each in off]))


def _scaled(entries: Balls, factor: float) -> Balls:
    return entries * Balls.exact(np.full(entries.shape, factor))


def _tilt(reading: _Reading, condition: NumberCondition) -> None:
    """Columns in which keys are a multiple of the compared number: the query's error there tilts the parabola."""
    weights = reading.scores.head.key
    assert weights is not None
    pattern = [Fraction(0)] * len(weights)
    for node, entries in condition.key.weights.items():
        pattern[reading.scores.state[node, "value"].register.features] = entries
    at = next(i for i, entry in enumerate(pattern) if entry)
    error = reading.scores.query_error
    for r in range(weights.shape[1]):
        kappa = Fraction(float(weights[at, r])) / pattern[at]
        if kappa and all(Fraction(float(w)) == kappa * e for w, e in zip(weights[:, r], pattern, strict=True)):
            reading.linear.add(r)
            reading.tilt = reading.tilt + error[r] * float(np.nextafter(abs(float(kappa)), np.inf))


def _number_levels(condition: NumberCondition, beta: float, tilt: Up) -> Levels:
    apart, slope = condition.apart, _exact(float(tilt))
    if slope > 2 * Fraction(beta) * apart:
        got = f"an error of the query that tilts scores by {float(tilt):.3g}"
        raise CertificateError("Equal numbers are told from others", got, REMEDY)
    return Levels(Fraction(0), Fraction(0), -(Fraction(beta) * apart * apart - slope * apart))


def _ranking(reading: _Reading, typed: Typed, selector: Selector) -> tuple[Fraction, Fraction, Fraction]:
    """Rho, and the range of what is ranked by, without the constant, which no key has."""
    if selector.ranking is None:
        return Fraction(0), Fraction(0), Fraction(0)
    form, grid = typed.form(selector.ranking), typed.grid(selector.ranking)
    if not form.weights:
        raise CertificateError("A ranking depends on the tokens", "a constant", "Drop it")
    rho = _slope(reading, typed, selector, form)
    if not rho > 0:
        raise CertificateError("Scores rise with the ranking", f"a slope of {rho:g}", REMEDY)
    _expect_product(reading, Form({}, Fraction(1)), form, rho)
    return Fraction(rho), grid.lower - form.constant, grid.upper - form.constant


def _slope(reading: _Reading, typed: Typed, selector: Selector, form: Form) -> float:
    """A guess of rho, which :func:`_Reading.leftover` judges: two entries of the ranking, of allowed labels if any."""
    for node, weights in form.weights.items():
        block = reading.blocks.get((ONE, (node, "value")))
        if block is None:
            return 0.0
        if len(weights) == 1 and reading.scores.state[node, "value"].register.labels is None:
            return float(block.mid[0, 0]) / float(weights[0])
    node, weights = next(iter(form.weights.items()))
    entries = np.array([float(weight) for weight in weights])
    free = np.ones(len(entries), dtype=bool)
    for each in typed.conditions(selector):
        if isinstance(each, LabelCondition) and each.key is node and each.query is None:
            free &= each.allowed[0]
    among = np.flatnonzero(free) if free.any() else np.arange(len(entries))
    top, bottom = among[entries[among].argmax()], among[entries[among].argmin()]
    if entries[top] == entries[bottom]:
        return 1.0  # no key is ranked above another
    scores = reading.blocks[ONE, (node, "value")].mid[0]
    return float((scores[top] - scores[bottom]) / (entries[top] - entries[bottom]))


def _constant(reading: _Reading) -> tuple[Fraction, Fraction]:
    """What all tokens' scores have beyond the constant key's, whatever they hold; the rest is a departure."""
    if not reading.with_constant:
        return Fraction(0), Fraction(0)
    base = reading.asked.pop(ONE, Balls.exact(np.zeros((1, 1))))
    for query, block in reading.asked.items():
        reading.departure = reading.departure + Up.of(block).most() * reading.scores.state[query].nominal
    lower, upper = _bounds(base)
    return _exact(float(lower[0, 0])), _exact(float(upper[0, 0]))


def _run_errors(reading: _Reading) -> tuple[Fraction, Fraction]:
    """How far a score of a run, or the logarithm of its weight, may be off; and what comes beside a constant key.

    The tilt of linear columns is accounted for between tokens, not against a constant.
    """
    scores = reading.scores
    scores.check_range()
    kept = np.array([r not in reading.linear for r in range(scores.head.query.shape[1])])
    asked, told = scores.query_error, scores.key_error
    uniform = Up(np.where(kept, asked.values, 0.0)) * scores.key_sizes + asked * told + scores.query_sizes * told
    arithmetic = scores.arithmetic
    rounded = scores.products * arithmetic.scores(scores.head.query.shape[1])
    delta = reading.leftover() + uniform.sum() + rounded + arithmetic.log_weights()
    aside = (Up(np.where(kept, 0.0, asked.values)) * scores.key_sizes * 2.0).sum()
    return _exact(float(delta)), _exact(float(aside))


def _exact(value: float) -> Fraction:
    if not np.isfinite(value):
        raise CertificateError(
            "Scores and their errors are finite", f"{value}", "Use a smaller length or a wider dtype"
        )
    return Fraction(value)

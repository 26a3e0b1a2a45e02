r"""Heads that look values up among constant keys: in every class of queries one key is above all others.

*Cells of a number* t, a form of registers: the scores are lines $s_j t + c_j$, up to departures of weights from
multiples of the form. Lines are compared at both ends of a cell, which is enough: a gap is linear in t, what a run adds
is convex.
*Pairs of labels*: scores are sums of a table of either.

With a gap $G_j$ of the winner w to key j in the run, the mean is within $\sum_j e^{-G_j} |v_j - v_w|$ of $v_w$. What a
run adds: the query's error meets the difference of two keys; sums of products round relative to the sizes of their
products; and a softmax subtracts the largest score and exponentiates (:mod:`attnforge.kernel.softmax`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from attnforge.certification.programs.held import Held
from attnforge.certification.programs.products import roundings
from attnforge.certification.programs.scores import Scores
from attnforge.errors import CertificateError
from attnforge.outward import Balls, Up, gamma
from attnforge.targets.programs.forms import Cell, Form
from attnforge.targets.programs.language import Labels, LabelTable, NumberTable
from attnforge.targets.programs.registers import ONE, Key
from attnforge.targets.programs.typing import Typed

Array = npt.NDArray[np.float64]
CHUNK = 2**20  # scores looked at at once
REMEDY = "Build the network anew"


@dataclass(frozen=True, eq=False)
class Found:
    """For every class of queries the winning key, its expected result, and how much all others weigh.

    ``weights`` (classes, keys) are upper bounds of the weights of the others, relative to the winner's.
    """

    winners: npt.NDArray[np.int64]
    results: list[object]
    weights: Array


def cells_found(scores: Scores, number: dict[Key, Balls], constant: Balls, cells: list[Cell]) -> Iterator[Found]:
    """The winners in cells of a number, which is ``constant`` plus registers times weights."""
    keys = scores.head.memory_keys
    assert keys is not None
    slopes, intercepts, departures = _lines(scores, number, constant)
    step = max(1, CHUNK // len(keys))
    for at in range(0, len(cells), step):
        part = cells[at : at + step]
        weights: Array | None = None
        winners = None
        for end in _ends(part):
            nominal = _column(end) * _row(slopes) + _row(intercepts)
            if winners is None:
                winners = nominal.mid.argmax(axis=1)
            off, sizes = _query_errors(scores, number, constant, end)
            found = _others(scores, nominal, winners, off, sizes, departures)
            weights = found if weights is None else np.maximum(weights, found)
        assert winners is not None
        assert weights is not None
        yield Found(winners, [cell.result for cell in part], weights)


def _ends(cells: list[Cell]) -> list[Balls]:
    """Both ends of cells, (cells,) each; once if they are points."""
    found = [_fractions([cell.lower for cell in cells])]
    if any(cell.upper != cell.lower for cell in cells):
        found.append(_fractions([cell.upper for cell in cells]))
    return found


def _fractions(values: Sequence[Fraction]) -> Balls:
    """Fractions as balls, exact where float64 has them."""
    mid = np.array([float(value) for value in values])
    exact = np.array([value == float(value) for value in values])
    return Balls(mid, np.where(exact, 0.0, np.abs(mid) * 2.0**-52))


def _column(values: Balls) -> Balls:
    return Balls(values.mid[:, None], values.rad[:, None])


def _row(values: Balls) -> Balls:
    return Balls(values.mid[None, :], values.rad[None, :])


def _lines(scores: Scores, number: dict[Key, Balls], constant: Balls) -> tuple[Balls, Balls, Up]:
    """Slopes and intercepts (keys,), and a bound (keys,) of what the weights have beside them."""
    reference = max(number, key=lambda key: float(np.abs(number[key].mid).max()))
    at = int(np.abs(number[reference].mid).argmax())
    slopes = scores.constant(reference)[at] * number[reference][at : at + 1].inverse()
    intercepts = scores.constant(ONE)[0] - constant * slopes
    departures = Up.zeros(len(slopes.mid))
    for key in scores.asking:
        if key == ONE:
            continue
        block = scores.constant(key)
        if key in number:
            block = block - _column(number[key]) * _row(slopes)
        departures = departures + Up.of(block).most(0) * scores.state[key].nominal
    return slopes, intercepts, departures


def _query_errors(scores: Scores, number: dict[Key, Balls], constant: Balls, at: Balls) -> tuple[Up, Up]:
    """Errors and sizes (cells, r) of queries in each cell: where one number is read, what they are there."""
    only = _only_number(scores, number)
    if only is None:
        shape = (len(at.mid), scores.head.query.shape[1])
        everywhere = scores.query_error.values, scores.query_sizes.values
        return Up(np.broadcast_to(everywhere[0], shape)), Up(np.broadcast_to(everywhere[1], shape))
    query = scores.head.query
    value = Up.of((at - constant) * number[only.register.key].inverse())
    error = value * only.relative + only.leakage + only.rounding
    read, one = Up.of(query[only.register.start]), Up.of(query[0])
    sizes = _outer(value + error, read) + one
    counts, small = roundings(scores.state, query, np.zeros(query.shape[1]))
    factors = Up.of([gamma(int(count), scores.machine.roundoff) for count in counts])
    made = sizes * factors + Up.of(small) * scores.machine.underflow
    if "query" in scores.noise:
        made = made + scores.noise["query"]
    return _outer(error, read) + made, sizes + made


def _only_number(scores: Scores, number: dict[Key, Balls]) -> Held | None:
    """The one register that queries read beside the constant, where it holds a number."""
    read = {each.register.key for each in scores.state if np.any(scores.head.query[each.register.features])} - {ONE}
    held = scores.state[next(iter(number))]
    plain = scores.state[ONE].is_exact and not held.is_labels
    return held if plain and read == set(number) and len(read) == 1 else None


def _outer(column: Up, row: Up) -> Up:
    return Up(column.values[:, None]) * Up(row.values[None, :])


def _others(
    scores: Scores, nominal: Balls, winners: npt.NDArray[np.int64], off: Up, sizes: Up, departures: Up
) -> Array:
    """Upper bounds (classes, keys) of e^-gap to the winner of each class; 0 at the winner itself."""
    keys, arithmetic = scores.head.memory_keys, scores.arithmetic
    assert keys is not None
    rows, r = np.arange(len(winners)), keys.shape[1]
    best = Balls(nominal.mid[rows, winners][:, None], nominal.rad[rows, winners][:, None])
    above = best - nominal
    products = sizes @ Up.of(keys.T)
    lost = Up(departures.values[None, :]) + departures.values[winners][:, None]
    for column in range(r):
        differ = Up.of(Balls.exact(keys[winners, column][:, None]) - Balls.exact(keys[:, column][None, :]))
        lost = lost + Up(off.values[:, column][:, None]) * differ
    own = Up(products.values[rows, winners][:, None])
    lost = lost + (products + own) * arithmetic.score(r)
    apart = Up.of(above) + lost
    lost = lost + arithmetic.subtraction(apart, products) + arithmetic.subtraction(lost, own)
    lost = lost + arithmetic.log_weights() * 2.0
    least = np.nextafter(np.nextafter(above.mid - above.rad, -np.inf) - lost.values, -np.inf)
    weights = Up.exp_of(-least).values
    weights[rows, winners] = 0.0
    return np.where(np.isnan(weights), np.inf, weights)


def pairs_found(scores: Scores, typed: Typed, node: LabelTable | NumberTable) -> Iterator[Found]:
    """The winners for all pairs of labels of the two registers that a table reads."""
    roots = [typed.root(argument) for argument in node.arguments if isinstance(argument, Labels)]
    (first, one), (second, two) = roots
    labels, known = [typed.labels(argument) for argument in node.arguments], typed.outcomes(node)
    tables = [scores.constant((held, "value")) for held in (first, second)]
    base, departures = scores.constant(ONE), Up.zeros(scores.keys)
    for key in scores.asking:
        if key not in (ONE, (first, "value"), (second, "value")):
            departures = departures + Up.of(scores.constant(key)).most(0) * scores.state[key].nominal
    columns = [labels[1].place(other) for other in two]
    for a, label in enumerate(one):
        nominal = tables[1] + _row(tables[0][a]) + base
        shape = (len(two), scores.head.query.shape[1])
        off, sizes = scores.query_error.values, scores.query_sizes.values
        winners = nominal.mid.argmax(axis=1)
        wide = Up(np.broadcast_to(off, shape)), Up(np.broadcast_to(sizes, shape))
        weights = _others(scores, nominal, winners, *wide, departures)
        row = labels[0].place(label) * len(labels[1])
        yield Found(winners, [known[row + column] for column in columns], weights)


def number_of(typed: Typed, form: Form) -> tuple[dict[Key, Balls], Balls]:
    """A form as weights of registers, and its constant, in balls."""
    number: dict[Key, Balls] = {(node, "value"): _fractions(entries) for node, entries in form.weights.items()}
    if not number:
        raise CertificateError("A number that is looked up depends on the tokens", "a constant", "Use the constant")
    return number, _fractions([form.constant])[0]

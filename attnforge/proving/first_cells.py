r"""Where variables are cut at first: evenly, at kinks of formulas, where the heaviest key changes, close to both.

Along a line the scores of one layer of heads are affine functions of y, and the heaviest key is that of their upper
envelope. At its corners one key gives way to another within about $1/|\text{difference of slopes}|$; so are the first
cells there that wide, and twice as wide at each step away from it, until they are as wide as even ones. Close to a kink
of the formula cells are ever smaller where heads have few keys: these have a steep weight there, and no other scale.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from attnforge.expression.linear import COEFFICIENT_BITS
from attnforge.kernel.plan import Variables
from attnforge.kernel.theorem import Output, Statement
from attnforge.network import Attention, Head, Linear, Network
from attnforge.network.apply import apply_layer
from attnforge.outward import precision
from attnforge.proving.kinks import kink_forms

Array = npt.NDArray[np.float64]

FEWEST, LINE, BOX = 16, 2048, 1024  # even cells: along a line at least and at most, of a box at most
GRADED = 8  # heads of fewer keys make kinks, close to which cells are ever smaller
HALVINGS = np.arange(1.0, 52.0, 2.0)  # of an even cell, down to the resolution of float64
STEEP = 4.0  # corners whose scores change by more than this on an even cell have cells of their own
CORNERS = 64  # of heads of so many keys: of more of them there are as many corners, and cutting is as quick
FINE = 2.0**-4  # of their widths: they are cut at multiples of it, which are short numbers
PARALLEL = 1e-12  # forms that differ by no more than this part are one


def first_edges(statement: Statement, outputs: Iterable[Output], variables: Variables) -> tuple[tuple[float, ...], ...]:
    """The places (n_i,) at which each variable is cut, without its ends."""
    keys = max([head.memory_size for head in statement.run.network.heads], default=0)
    low, high, counts = variables.lower, variables.upper, _counts(variables, keys)
    places = [set(np.linspace(a, b, n + 1)[1:-1].tolist()) for a, b, n in zip(low, high, counts, strict=True)]
    line = _line(variables)
    for output in outputs:
        for i, place in _kinks(output, variables):
            places[i].add(place)
            if line is not None and keys < GRADED:
                places[i] |= _around(place, (high[i] - low[i]) / counts[i] * 2.0**-HALVINGS)
    if line is not None:
        even = (high[line] - low[line]) / counts[line]
        for place, width in corners(statement, variables, line):
            if width * STEEP < even:
                steps = np.array([0.0, *width * 2.0 ** np.arange(np.log2(even / width))])
                places[line] |= {_short(near, width * FINE) for near in _around(place, steps)}
    return tuple(
        tuple(sorted(float(place) for place in some if a < place < b))
        for a, b, some in zip(low, high, places, strict=True)
    )


def _line(variables: Variables) -> int | None:
    """The variable along which functions vary, where there is one."""
    if variables.column is not None:
        return variables.pivot
    return 0 if len(variables.lower) == 1 else None


def _counts(variables: Variables, keys: int) -> list[int]:
    """Even cells along each variable: about as many as there are keys."""
    inputs, line = len(variables.lower), _line(variables)
    if line is None:
        return [max(2, round(min(max(keys, 64), BOX) ** (1 / inputs)))] * inputs
    return [min(max(keys, FEWEST), LINE) if i == line else 1 for i in range(inputs)]


def _around(place: float, steps: Array) -> set[float]:
    return {*(place + steps).tolist(), *(place - steps).tolist()}


def _short(place: float, unit: float) -> float:
    """A number that is about as large, within the unit."""
    step = 2.0 ** np.floor(np.log2(unit))
    return float(np.round(place / step) * step)


def _kinks(output: Output, variables: Variables) -> Iterator[tuple[int, float]]:
    """Kinks of the formula at places of one variable."""
    with precision(COEFFICIENT_BITS):
        for form in kink_forms(output.tree, tuple(output.inputs)):
            weights = np.zeros(len(variables.lower))
            weights[list(output.inputs.values())] = [float(weight) for weight in form.weights]
            if (along := _along(weights, variables)) is not None:
                yield along[0], float(-form.offset) / along[1]


def _along(weights: Array, variables: Variables) -> tuple[int, float] | None:
    """The variable that a linear form of the inputs is a multiple of, to a rounding, and the multiple."""
    of_variables = weights.copy()
    if variables.column is not None:
        of_variables += weights[variables.pivot] * variables.column
        of_variables[variables.pivot] = weights[variables.pivot]
    some = np.flatnonzero(np.abs(of_variables) > PARALLEL * np.abs(weights).max(initial=0.0))
    return (int(some[0]), float(of_variables[some[0]])) if len(some) == 1 else None


def corners(statement: Statement, variables: Variables, line: int) -> list[tuple[float, float]]:
    """Where along a line the heaviest key of a head in the first layer of heads changes, and within which width."""
    low, high = variables.lower, variables.upper
    ends = np.stack([low / 2 + high / 2] * 2)
    ends[:, line] = low[line], high[line]
    rows = variables.at(ends).reshape(2, *statement.domain.shape)
    found: list[tuple[float, float]] = []
    for head, state in _first_heads(statement.run.held, rows):
        if head.memory_keys is not None and head.key_rows is None and head.memory_size <= CORNERS:
            scores = state @ head.query @ head.memory_keys.T  # (2, n, p), affine in between
            for row in range(scores.shape[1]):
                found += _envelope(scores[:, row], float(low[line]), float(high[line]))
    return found


def _first_heads(network: Network, rows: Array) -> Iterator[tuple[Head, Array]]:
    """The heads of the first layer of heads, with the rows that reach it."""
    for layer in network.layers:
        if isinstance(layer, Attention):
            yield from ((head, rows) for head in layer.heads)
        if not isinstance(layer, Linear):
            return
        rows = apply_layer(layer, rows)


def _envelope(scores: Array, low: float, high: float) -> Iterator[tuple[float, float]]:
    """The corners of the largest of affine functions with values (2, p) at both ends, from left to right.

    >>> list(_envelope(np.array([[1.0, 0.0], [0.0, 3.0]]), 0.0, 4.0))
    [(1.0, 1.0)]
    """
    at, key = 0.0, int(np.lexsort((scores[1], scores[0]))[-1])
    while at < 1.0:
        slopes = scores[1] - scores[0]
        gap, gain = scores[0, key] - scores[0] + at * (slopes[key] - slopes), slopes - slopes[key]
        with np.errstate(divide="ignore", invalid="ignore"):
            steps = np.where(gain > 0, np.maximum(gap, 0.0) / gain, np.inf)
        after = int(np.lexsort((gain, -steps))[-1])
        at += float(steps[after])
        if not at < 1.0:
            return
        yield low + (high - low) * at, (high - low) / float(gain[after])
        key = after

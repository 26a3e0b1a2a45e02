r"""What a run by windows (:mod:`attnforge.lemmas.window`) adds to a network in exact arithmetic: a bound of its own.

A query's position p in a row of step one is off by what rounds q_0, the quotient $y = q_0/(-q_1)$ and the distance of y
to the middle tie, all in float64. In a window of n keys that moves the logarithm of a weight, relative to the nearest
key's, by $n c\,|\delta p|$; the stored keys' own departure by D; powers of $e^a$, the factors of the table and c itself
by some roundings for each step. If $\eta$ is the sum over the rows, the mean of the values in the window moves by at
most $(e^{2\eta} - 1)$ times their spread. Then there are the tail, and the sums of the dtype.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.ndimage import maximum_filter, minimum_filter

from attnforge.certification.tokens import Tokens, input_tokens, linear, project
from attnforge.errors import RefusalError
from attnforge.lemmas.window import FEWEST, TAILS, Row, half_width, rows_of
from attnforge.network import Head, Linear, Network, constant_features
from attnforge.outward import MACHINES, Machine, gamma
from attnforge.targets import Box

Array = npt.NDArray[np.float64]

UNIT = 2.0**-53  # positions and weights are computed in float64
SLACK = 1 + 2.0**-30


def window_rounding(run: Network, domain: Box, machine: Machine, forced: bool = False) -> float | None:
    """The largest difference over all outputs, with rounding to the dtype; None where it is not run so.

    Of its own accord the runtime takes windows in float64 where all heads have many keys.
    """
    token, many = constant_features(run), all(head.memory_size >= FEWEST for head in run.heads)
    asked = machine.name in TAILS if forced else machine.name == "float64" and many
    served = [(head, rows) for head in run.heads if asked and (rows := _rows(head, token)) is not None]
    if len(served) < len(run.heads) or not served:
        if forced:
            requirement = "The window kernel needs heads over products of even rows, in float64 or float32"
            raise RefusalError(requirement, "other heads, or another dtype", "Use another kernel")
        return None
    box = domain.fixed((run.tokens or 1, run.features))
    tokens = input_tokens(box.lower, box.upper, machine)
    for layer in run.layers[:-1]:
        assert isinstance(layer, Linear)
        tokens = linear(layer, tokens, machine)
    total = np.sum([_head(head, rows, tokens, machine) for head, rows in served], axis=0)
    return float(total.max()) * SLACK


def _rows(head: Head, token: Array | None) -> list[Row] | None:
    if token is None or head.memory_keys is None or head.key_rows is not None:
        return None
    return rows_of(head.query, head.memory_keys, token)


def _head(head: Head, rows: list[Row], tokens: Tokens, machine: Machine) -> Array:
    """Of every output, what one head adds."""
    found = [_row(head, row, tokens, TAILS[machine.name] / len(rows)) for row in rows]
    counts, eta = [count for _, count in found], sum(disturbed for disturbed, _ in found)
    eta += len(rows) * (UNIT if machine.name == "float64" else 2 * machine.roundoff)  # weights as the dtype holds them
    values = np.asarray(head.memory_values)
    sizes = tuple(row.size for row in rows)
    order = np.ravel_multi_index(tuple(row.place for row in rows), sizes).argsort()
    moved = math.expm1(min(2 * eta, 700.0))
    sums = gamma(sum(counts) + 2 * len(rows) + 4, machine.accumulation)
    written = np.zeros(values.shape[1])
    for j, column in enumerate(values[order].T):
        table, largest = column.reshape(sizes), float(np.abs(column).max())
        reach = [2 * count - 1 for count in counts]  # a window that is moved inwards holds keys of the next one
        spread = float(
            (maximum_filter(table, reach, mode="nearest") - minimum_filter(table, reach, mode="nearest")).max()
        )
        lost = math.prod(counts) * machine.underflow * (1 + largest)
        written[j] = 2 * TAILS[machine.name] * (1 + moved) * largest + moved * spread + sums * largest + lost
    after = gamma(len(head.output) + 2, machine.roundoff) * (np.abs(values).max(axis=0) @ np.abs(head.output))
    return np.asarray((written @ np.abs(head.output) + after) * SLACK)


def _row(head: Head, row: Row, tokens: Tokens, tail: float) -> tuple[float, int]:
    """How much the logarithms of weights of one row are disturbed, and how many keys a window holds."""
    columns = list(row.columns[:2])
    query = project(tokens, head.query[:, columns], MACHINES["float64"])
    c, square = row.sharpness, row.square
    count = min(2 * half_width(c, tail) + 1, row.size)
    size, error = query.magnitude().max(axis=0), query.error.max(axis=0)
    reach = float((tokens.magnitude() @ np.abs(head.query[:, columns[0]])).max()) / square  # of all that y is a sum of
    y = float(size[0]) / square
    off = (float(error[0]) + y * float(error[1])) / square + (len(head.query) + 4) * UNIT * reach
    off += 8 * UNIT * (y + abs(row.tie) + row.spacing)
    departure = 2 * (float(size[0]) * row.departure[0] + float(size[1]) * row.departure[1])
    powers = UNIT * (16 * c * count**2 + 32 * count + 32) + c * count**2 * float(error[1]) / square
    return (count * c * off / row.spacing + departure + powers) * SLACK, count
